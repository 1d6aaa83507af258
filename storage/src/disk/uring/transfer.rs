//! The pure part of operations: buffers, how far a transfer has come, and what each result means.

use std::io;

use bytes::Bytes;

use crate::disk::plain::IOV_MAX;

/// Most bytes of one ring operation. The kernel itself stops at 2 GiB less a page.
pub(super) const TRANSFER_BYTES_MAX: usize = 1 << 30;
/// So often a transfer is tried again without progress before its error is given to the caller.
const TRIES_MAX: u32 = 100;

/// A gathered write: owned chunks, and where it stands.
#[derive(Debug)]
pub(super) struct WriteTransfer {
    chunks: Vec<Bytes>,
    /// First chunk that is not wholly written.
    first: usize,
    /// Bytes of it that are written.
    skip: usize,
    pos: u64,
    /// What the kernel was last given; points into `chunks`.
    pieces: Vec<libc::iovec>,
    tries: u32,
}

impl WriteTransfer {
    pub(super) fn new(chunks: Vec<Bytes>, pos: u64) -> Self {
        let mut transfer = Self { chunks, first: 0, skip: 0, pos, pieces: Vec::new(), tries: 0 };
        transfer.skip_empty();
        transfer
    }

    pub(super) fn is_done(&self) -> bool {
        self.first == self.chunks.len()
    }

    pub(super) fn pos(&self) -> u64 {
        self.pos
    }

    /// The next pieces. They stay valid until the next call or until `self` is dropped: the chunks are
    /// refcounted and do not move.
    pub(super) fn pieces(&mut self) -> &[libc::iovec] {
        self.pieces.clear();
        let mut skip = self.skip;
        let mut left = TRANSFER_BYTES_MAX;
        for chunk in &self.chunks[self.first..] {
            if self.pieces.len() == IOV_MAX || left == 0 {
                break;
            }
            let piece = &chunk[skip..];
            let piece = &piece[..piece.len().min(left)];
            skip = 0;
            left -= piece.len();
            if !piece.is_empty() {
                self.pieces.push(libc::iovec {
                    iov_base: piece.as_ptr().cast_mut().cast(),
                    iov_len: piece.len(),
                });
            }
        }
        &self.pieces
    }

    fn advance(&mut self, mut count: usize) {
        self.pos += count as u64;
        while self.first < self.chunks.len() {
            let left = self.chunks[self.first].len() - self.skip;
            if count < left {
                self.skip += count;
                break;
            }
            count -= left;
            self.first += 1;
            self.skip = 0;
        }
        self.skip_empty();
    }

    fn skip_empty(&mut self) {
        while self.chunks.get(self.first).is_some_and(|chunk| chunk.len() == self.skip) {
            self.first += 1;
            self.skip = 0;
        }
    }

    /// Takes a result of the kernel.
    pub(super) fn take(&mut self, result: i32) -> Step {
        match usize::try_from(result) {
            Ok(0) => Step::Failed(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                self.tries = 0;
                self.advance(count);
                if self.is_done() { Step::Done } else { Step::Again }
            }
            Err(_) => again_or_failed(result, &mut self.tries),
        }
    }
}

/// A read into an owned buffer.
#[derive(Debug)]
pub(super) struct ReadTransfer {
    buf: Vec<u8>,
    filled: usize,
    pos: u64,
    tries: u32,
}

impl ReadTransfer {
    pub(super) fn new(pos: u64, len: usize) -> Self {
        Self { buf: vec![0; len], filled: 0, pos, tries: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.filled == self.buf.len()
    }

    /// What is still to be filled, and its place in the file.
    pub(super) fn rest(&mut self) -> (&mut [u8], u64) {
        let end = self.buf.len().min(self.filled + TRANSFER_BYTES_MAX);
        (&mut self.buf[self.filled..end], self.pos + self.filled as u64)
    }

    /// Takes a result of the kernel; 0 is the end of the file.
    pub(super) fn take(&mut self, result: i32) -> Step {
        match usize::try_from(result) {
            Ok(0) => Step::Done,
            Ok(count) => {
                self.tries = 0;
                self.filled = self.buf.len().min(self.filled + count);
                if self.is_done() { Step::Done } else { Step::Again }
            }
            Err(_) => again_or_failed(result, &mut self.tries),
        }
    }

    pub(super) fn into_bytes(mut self) -> Bytes {
        self.buf.truncate(self.filled);
        Bytes::from(self.buf)
    }
}

/// How an operation goes on.
#[derive(Debug)]
pub(super) enum Step {
    Done,
    /// Submit what is left.
    Again,
    Failed(io::Error),
}

/// Interrupted, momentarily refused or cancelled transfers moved nothing and are repeated.
fn again_or_failed(result: i32, tries: &mut u32) -> Step {
    *tries += 1;
    match -result {
        libc::EINTR | libc::EAGAIN | libc::ECANCELED if *tries < TRIES_MAX => Step::Again,
        errno => Step::Failed(io::Error::from_raw_os_error(errno)),
    }
}

/// Takes the result of a sync. No error is repeated, not even an interruption: the kernel may have
/// dropped the data and forgotten the error.
pub(super) fn take_sync(result: i32) -> Step {
    if result < 0 { Step::Failed(io::Error::from_raw_os_error(-result)) } else { Step::Done }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sizes of the next pieces.
    fn sizes(transfer: &mut WriteTransfer) -> Vec<usize> {
        transfer.pieces().iter().map(|piece| piece.iov_len).collect()
    }

    #[test]
    fn a_short_write_goes_on_where_it_stopped() {
        let chunks = vec![Bytes::from_static(b"abc"), Bytes::new(), Bytes::from_static(b"defgh")];
        let mut transfer = WriteTransfer::new(chunks, 10);
        assert_eq!(sizes(&mut transfer), [3, 5]);
        assert!(matches!(transfer.take(4), Step::Again));
        assert_eq!((transfer.pos(), sizes(&mut transfer)), (14, vec![4]));
        assert!(matches!(transfer.take(4), Step::Done));
        assert!(transfer.is_done());
    }

    #[test]
    fn an_interruption_is_repeated_and_an_error_is_not() {
        let mut transfer = WriteTransfer::new(vec![Bytes::from_static(b"abc")], 0);
        assert!(matches!(transfer.take(-libc::EINTR), Step::Again));
        assert!(matches!(transfer.take(-libc::ECANCELED), Step::Again));
        match transfer.take(-libc::ENOSPC) {
            Step::Failed(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSPC)),
            step => panic!("{step:?}"),
        }
        assert!(matches!(transfer.take(0), Step::Failed(_)));
    }

    #[test]
    fn refusals_without_end_end() {
        let mut transfer = ReadTransfer::new(0, 5);
        let refused = (0..1000).take_while(|_| matches!(transfer.take(-libc::EAGAIN), Step::Again));
        assert!(refused.count() < 1000);
    }

    #[test]
    fn a_sync_is_never_repeated() {
        for errno in [libc::EINTR, libc::EAGAIN, libc::ECANCELED, libc::EIO] {
            assert!(matches!(take_sync(-errno), Step::Failed(_)));
        }
        assert!(matches!(take_sync(0), Step::Done));
    }

    #[test]
    fn a_read_ends_at_the_end_of_the_file() {
        let mut transfer = ReadTransfer::new(100, 10);
        assert!(matches!(transfer.take(4), Step::Again));
        assert_eq!(transfer.rest().1, 104);
        assert_eq!(transfer.rest().0.len(), 6);
        assert!(matches!(transfer.take(0), Step::Done));
        assert_eq!(transfer.into_bytes().len(), 4);
    }

    proptest! {
        /// Whatever parts the kernel takes, it is offered each byte once and in order.
        #[test]
        fn every_byte_is_written_once(
            lens in prop::collection::vec(0_usize..50, 0..30),
            parts in prop::collection::vec(1_usize..60, 1..500),
        ) {
            let total: usize = lens.iter().sum();
            let whole: Bytes = (0..total).map(|index| u8::try_from(index % 256).expect("small")).collect();
            let mut start = 0;
            let chunks = lens.iter().map(|len| { start += len; whole.slice(start - len..start) }).collect();
            let mut transfer = WriteTransfer::new(chunks, 7);
            let mut offered = 0;
            for part in parts.iter().cycle() {
                if transfer.is_done() {
                    break;
                }
                let base = whole.as_ptr() as usize;
                let mut at = offered;
                for piece in transfer.pieces() {
                    prop_assert_eq!(piece.iov_base as usize - base, at);
                    at += piece.iov_len;
                }
                prop_assert_eq!(at, total);
                let count = (*part).min(total - offered);
                offered += count;
                let step = transfer.take(i32::try_from(count).expect("small"));
                prop_assert_eq!(matches!(step, Step::Done), offered == total);
                prop_assert_eq!(transfer.pos(), 7 + offered as u64);
            }
            prop_assert_eq!(offered, total);
        }
    }
}
