//! What waits to be sent on one connection: bytes, and slices of files that go out by sendfile.
//!
//! A sendfile call pushes its last bytes at once, and the few bytes that end an answer would wake its reader a second time.
//! So the socket is corked for a small answer where bytes follow a slice: the CPU of a fetch of 64 KiB fell by a quarter.
//! Large answers lose by it (1 MiB: 2.4 times the CPU), since a corked socket sends nothing but full segments.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use bytes::{Buf, Bytes, BytesMut};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use storage::disk::FileRef;

/// Pieces of bytes that one `sendmsg` gathers.
const PIECES_MAX: usize = 64;
/// Below this a slice is read and sent with its neighbours: one system call less than sendfile
/// (docs/decisions gives the measured threshold).
const SENDFILE_MIN: u32 = 4096;
/// Up to so many bytes the socket is corked: what fits one segment of the loopback device.
const CORK_MAX: usize = 64 << 10;
/// Bytes handed to one sendfile call.
const SENDFILE_MAX: u32 = 1 << 20;

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    File { file: FileRef, pos: u64, len: u32 },
}

/// A queue of pieces, with a buffer at its end for answers that are being encoded.
#[derive(Debug, Default)]
pub struct OutQueue {
    pieces: VecDeque<Piece>,
    tail: BytesMut,
    /// Bytes of all pieces, the tail not counted.
    queued: usize,
    /// Something of what was queued is in the socket.
    begun: bool,
    /// The socket holds back what is not a full segment.
    corked: bool,
}

/// How far sending got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// Everything is in the socket.
    All,
    /// The socket is full: wait until it is writable.
    Full,
}

impl OutQueue {
    /// The buffer at the end of the queue, for encoding in place.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    /// Appends bytes without a copy when they are many.
    pub fn push_bytes(&mut self, bytes: Bytes) {
        if bytes.len() <= 1024 {
            self.tail.extend_from_slice(&bytes);
        } else {
            self.seal_tail();
            self.queued += bytes.len();
            self.pieces.push_back(Piece::Bytes(bytes));
        }
    }

    /// Appends a slice of a file. The file stays open until it is sent.
    pub fn push_file(&mut self, file: FileRef, pos: u64, len: u32) {
        if len > 0 {
            self.seal_tail();
            self.queued += len as usize;
            self.pieces.push_back(Piece::File { file, pos, len });
        }
    }

    /// Appends all of another queue.
    pub fn append(&mut self, mut other: Self) {
        if other.pieces.is_empty() && self.pieces.is_empty() && self.tail.is_empty() {
            *self = other;
            return;
        }
        if !other.pieces.is_empty() {
            self.seal_tail();
            self.queued += other.queued;
            self.pieces.append(&mut other.pieces);
        }
        self.tail.extend_from_slice(&other.tail);
    }

    /// Bytes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queued + self.tail.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            let bytes = self.tail.split().freeze();
            self.queued += bytes.len();
            self.pieces.push_back(Piece::Bytes(bytes));
        }
    }

    /// Sends until all is sent or the socket is full. Never blocks on the socket.
    ///
    /// Only the socket's own word counts as full: it tells of room again only after it has refused something, and a short
    /// count may have other reasons (a page of the file that was not there, a signal).
    ///
    /// # Errors
    /// The connection or the file is broken; what was sent is unknown.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<Sent> {
        self.seal_tail();
        let begun = std::mem::replace(&mut self.begun, true);
        if !begun && self.queued <= CORK_MAX && self.has_bytes_after_a_slice() {
            self.cork(socket, true);
        }
        while let Some(first) = self.pieces.front_mut() {
            let sent = match first {
                Piece::Bytes(_) => self.send_bytes(socket)?,
                Piece::File { file, pos, len } if *len < SENDFILE_MIN || file.fd().is_none() => {
                    let bytes = read_slice(file, *pos, *len)?;
                    *first = Piece::Bytes(bytes);
                    continue;
                }
                Piece::File { .. } => self.send_file(socket)?,
            };
            if sent == Sent::Full {
                return Ok(Sent::Full);
            }
        }
        self.begun = false;
        if self.corked {
            self.cork(socket, false);
        }
        if self.tail.capacity() > 1 << 20 {
            self.tail = BytesMut::new();
        }
        Ok(Sent::All)
    }

    fn has_bytes_after_a_slice(&self) -> bool {
        let is_slice =
            |piece: &Piece| matches!(piece, Piece::File { len, .. } if *len >= SENDFILE_MIN);
        let first = self.pieces.iter().position(is_slice);
        first.is_some_and(|at| at + 1 < self.pieces.len())
    }

    /// A socket that knows no cork sends in more segments, which is as right.
    fn cork(&mut self, socket: BorrowedFd<'_>, on: bool) {
        self.corked = rustix::net::sockopt::set_tcp_cork(socket, on).is_ok() && on;
    }

    fn send_bytes(&mut self, socket: BorrowedFd<'_>) -> io::Result<Sent> {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let mut more = SendFlags::empty();
        for piece in &self.pieces {
            let Piece::Bytes(bytes) = piece else {
                more = SendFlags::MORE;
                break;
            };
            if count == PIECES_MAX {
                break;
            }
            slices[count] = IoSlice::new(bytes);
            count += 1;
        }
        let flags = SendFlags::NOSIGNAL | more;
        let sent =
            match sendmsg(socket, &slices[..count], &mut SendAncillaryBuffer::default(), flags) {
                Ok(sent) => sent,
                Err(rustix::io::Errno::INTR) => return Ok(Sent::All),
                Err(rustix::io::Errno::AGAIN) => return Ok(Sent::Full),
                Err(errno) => return Err(errno.into()),
            };
        self.consume_bytes(sent);
        Ok(Sent::All)
    }

    fn consume_bytes(&mut self, mut sent: usize) {
        self.queued -= sent;
        while sent > 0 {
            let Some(Piece::Bytes(bytes)) = self.pieces.front_mut() else { return };
            if bytes.len() > sent {
                bytes.advance(sent);
                return;
            }
            sent -= bytes.len();
            self.pieces.pop_front();
        }
    }

    fn send_file(&mut self, socket: BorrowedFd<'_>) -> io::Result<Sent> {
        let Some(Piece::File { file, pos, len }) = self.pieces.front_mut() else {
            return Ok(Sent::All);
        };
        let Some(fd) = file.fd() else { return Ok(Sent::All) };
        let mut offset = *pos;
        let count = (*len).min(SENDFILE_MAX);
        match rustix::fs::sendfile(socket, fd, Some(&mut offset), count as usize) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a slice on its way to a client was cut off its file",
            )),
            Ok(sent) => {
                let sent_u32 = u32::try_from(sent).unwrap_or(*len);
                *pos = offset;
                *len -= sent_u32.min(*len);
                self.queued -= sent;
                if *len == 0 {
                    self.pieces.pop_front();
                }
                Ok(Sent::All)
            }
            Err(rustix::io::Errno::INTR) => Ok(Sent::All),
            Err(rustix::io::Errno::AGAIN) => Ok(Sent::Full),
            Err(errno) => Err(errno.into()),
        }
    }

    /// All bytes in one piece, files read: for tests.
    #[cfg(test)]
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.seal_tail();
        let mut all = Vec::new();
        for piece in self.pieces {
            match piece {
                Piece::Bytes(bytes) => all.extend_from_slice(&bytes),
                Piece::File { file, pos, len } => {
                    all.extend_from_slice(&read_slice(&file, pos, len).expect("file"));
                }
            }
        }
        all
    }
}

fn read_slice(file: &FileRef, pos: u64, len: u32) -> io::Result<Bytes> {
    let mut bytes = vec![0; len as usize];
    let read = file.read_at(&mut bytes, pos)?;
    if read < bytes.len() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "a slice on its way to a client was cut off its file",
        ));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use storage::disk::{FileSystem, OpenMode, plain::PlainFs};

    fn file(bytes: usize) -> (tempfile::TempDir, FileRef) {
        let dir = tempfile::tempdir().expect("directory");
        let file = PlainFs.open(&dir.path().join("file"), OpenMode::Create).expect("file");
        file.write_all_at(&[vec![7; bytes].into()], 0).expect("written");
        (dir, file)
    }

    #[test]
    fn full_means_that_the_socket_refused_something() {
        let (_dir, file) = file(4 << 20);
        let (socket, _peer) = UnixStream::pair().expect("pair");
        socket.set_nonblocking(true).expect("nonblocking");
        let mut queue = OutQueue::default();
        queue.buffer().extend_from_slice(b"header");
        queue.push_file(Arc::clone(&file), 0, 4 << 20);
        assert_eq!(queue.send(socket.as_fd()).expect("sends"), Sent::Full);
        let refused = rustix::io::write(&socket, b"x").expect_err("full");
        assert_eq!(refused, rustix::io::Errno::AGAIN);
    }

    #[test]
    fn bytes_and_slices_arrive_in_order() {
        use std::io::Read;
        let (_dir, file) = file(100_000);
        let (socket, mut peer) = UnixStream::pair().expect("pair");
        socket.set_nonblocking(true).expect("nonblocking");
        let mut queue = OutQueue::default();
        for _ in 0..5 {
            queue.buffer().extend_from_slice(b"abc");
            queue.push_bytes(vec![1; 2000].into());
            queue.push_file(Arc::clone(&file), 10, 30_000);
            queue.push_file(Arc::clone(&file), 0, 100);
        }
        let expected = 5 * (3 + 2000 + 30_000 + 100);
        assert_eq!(queue.len(), expected);
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; expected];
            peer.read_exact(&mut all).map(|()| all)
        });
        while queue.send(socket.as_fd()).expect("sends") == Sent::Full {
            std::thread::yield_now();
        }
        let all = reader.join().expect("reader").expect("all");
        let one = [&b"abc"[..], &[1; 2000], &[7; 30_100]].concat();
        assert_eq!(all, one.repeat(5));
        assert!(queue.is_empty() && queue.len() == 0);
    }

    #[test]
    fn a_small_answer_is_one_segment_and_leaves_no_cork() {
        use std::io::Read;
        let (_dir, file) = file(60_000);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let mut peer =
            std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (socket, _) = listener.accept().expect("accepted");
        let mut queue = OutQueue::default();
        queue.push_file(file, 0, 60_000);
        queue.buffer().extend_from_slice(b"end");
        assert_eq!(queue.send(socket.as_fd()).expect("sends"), Sent::All);
        assert!(!rustix::net::sockopt::tcp_cork(&socket).expect("asked"));
        let mut all = vec![0; 60_003];
        peer.read_exact(&mut all).expect("all of it");
        assert_eq!(&all[60_000..], b"end");
    }

    #[test]
    fn a_slice_past_the_end_of_its_file_is_an_error() {
        let (_dir, file) = file(10_000);
        let (socket, _peer) = UnixStream::pair().expect("pair");
        let mut queue = OutQueue::default();
        queue.push_file(file, 9_000, 5_000);
        assert!(queue.send(socket.as_fd()).is_err());
    }
}
