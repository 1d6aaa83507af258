//! Bytes that were given offsets and wait to be written, gathered so that one write takes many batches.
//!
//! Of each batch the first 16 bytes are new (base offset, length, leader epoch) and the rest is a slice of what the
//! network read, not copied. Small batches are copied behind one another: a piece costs more than 4 KiB of copying.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use protocol_compat::ids::Offset;

/// Batches below this are copied together.
const COPY_BELOW_BYTES: usize = 4096;
/// Pieces of one write: Linux takes 1024 in one call.
const PIECES_MAX: usize = 1024;
/// Bytes of one write, unless one batch is larger.
const WRITE_BYTES_MAX: usize = 4 << 20;
/// What the copy buffer grows by: an idle partition must not hold much.
const COPY_BUFFER_BYTES: usize = 8 << 10;

/// One write to come.
#[derive(Debug)]
pub(super) struct Unit {
    /// Base of the segment it goes to.
    pub(super) segment: Offset,
    /// Where in the segment.
    pub(super) position: u32,
    pub(super) chunks: Vec<Bytes>,
    pub(super) bytes: usize,
    /// Offset after its last record.
    pub(super) end: Offset,
}

/// Writes to come, in order.
#[derive(Debug, Default)]
pub(super) struct Staging {
    units: VecDeque<Unit>,
    /// The end of the last unit: copied bytes not yet a piece of it.
    copied: BytesMut,
    bytes: usize,
}

impl Staging {
    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Segment of the next write.
    pub(super) fn next_segment(&self) -> Option<Offset> {
        self.units.front().map(|unit| unit.segment)
    }

    /// Adds a batch: `head`, then `rest`.
    pub(super) fn push(
        &mut self,
        segment: Offset,
        position: u32,
        head: &[u8],
        rest: Bytes,
        end: Offset,
    ) {
        let size = head.len() + rest.len();
        let joins = self.units.back().is_some_and(|unit| {
            unit.segment == segment
                && unit.bytes + size <= WRITE_BYTES_MAX
                // The copied bytes and the rest of this batch, and the copied bytes of the batches to come.
                && unit.chunks.len() + 3 <= PIECES_MAX
        });
        if !joins {
            self.seal();
            self.units.push_back(Unit { segment, position, chunks: Vec::new(), bytes: 0, end });
        }
        let Some(unit) = self.units.back_mut() else { return };
        unit.bytes += size;
        unit.end = end;
        self.bytes += size;
        let copy = size < COPY_BELOW_BYTES;
        let need = if copy { size } else { head.len() };
        if self.copied.capacity() - self.copied.len() < need {
            self.copied.reserve(need.max(COPY_BUFFER_BYTES));
        }
        self.copied.extend_from_slice(head);
        if copy {
            self.copied.extend_from_slice(&rest);
        } else {
            unit.chunks.push(self.copied.split().freeze());
            unit.chunks.push(rest);
        }
    }

    /// The next write.
    pub(super) fn pop(&mut self) -> Option<Unit> {
        if self.units.len() <= 1 {
            self.seal();
        }
        let unit = self.units.pop_front()?;
        self.bytes -= unit.bytes;
        Some(unit)
    }

    /// Drops all that waits.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Frees the copy buffer of a log that has been quiet.
    pub(super) fn shrink(&mut self) {
        if self.units.is_empty() {
            self.copied = BytesMut::new();
        }
    }

    /// Makes the copied bytes a piece of the last unit.
    fn seal(&mut self) {
        if !self.copied.is_empty()
            && let Some(unit) = self.units.back_mut()
        {
            unit.chunks.push(self.copied.split().freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(staging: &mut Staging, segment: i64, at: &mut u32, size: usize) {
        let batch = Bytes::from(vec![u8::try_from(*at % 251).expect("a byte"); size]);
        staging.push(Offset(segment), *at, &batch[..16], batch.slice(16..), Offset(1));
        *at += u32::try_from(size).expect("small");
    }

    #[test]
    fn small_batches_share_a_piece_and_large_ones_are_not_copied() {
        let mut staging = Staging::default();
        let mut at = 0;
        for size in [100, 200, 5000, 100, 100] {
            push(&mut staging, 0, &mut at, size);
        }
        assert_eq!(staging.bytes(), 5500);
        let unit = staging.pop().expect("a write");
        assert_eq!((unit.position, unit.bytes), (0, 5500));
        let sizes: Vec<usize> = unit.chunks.iter().map(Bytes::len).collect();
        assert_eq!(sizes, [316, 4984, 200]);
        assert_eq!((staging.bytes(), staging.pop().is_none()), (0, true));
    }

    #[test]
    fn writes_are_bounded_in_bytes_and_pieces_and_stay_in_a_segment() {
        let mut staging = Staging::default();
        let mut at = 0;
        for _ in 0..2000 {
            push(&mut staging, 0, &mut at, 5000);
        }
        push(&mut staging, 0, &mut at, 6 << 20);
        at = 0;
        push(&mut staging, 9, &mut at, 70);
        let (mut next, mut total) = (0, 0);
        while let Some(unit) = staging.pop() {
            if unit.segment == Offset(9) {
                assert_eq!((unit.position, unit.bytes), (0, 70));
                next = 9;
                continue;
            }
            assert_eq!(next, 0, "segments stay in order");
            assert_eq!(unit.position as usize, total);
            assert!(unit.chunks.len() <= PIECES_MAX);
            assert!(unit.bytes <= WRITE_BYTES_MAX || unit.chunks.len() == 2);
            assert_eq!(unit.chunks.iter().map(Bytes::len).sum::<usize>(), unit.bytes);
            total += unit.bytes;
        }
        assert_eq!((next, total), (9, 2000 * 5000 + (6 << 20)));
    }
}
