//! Walks the batches of a segment file: headers only, or whole batches with their checksums.

use std::io;

use protocol_compat::batch::{BATCH_OVERHEAD_BYTES, BatchHeader, MAGIC_OFFSET};
use protocol_compat::ids::Offset;

use crate::disk::File;

/// Bytes read at a time when whole batches are wanted.
const WHOLE_WINDOW_BYTES: usize = 512 * 1024;
/// Bytes read at a time when headers are wanted and batches are small.
const HEADER_WINDOW_BYTES: usize = 32 * 1024;
/// Bytes read at a time when headers are wanted and batches are larger than the window.
const SPARSE_WINDOW_BYTES: usize = 256;

/// What stands at a position.
#[derive(Debug)]
pub(super) enum Step {
    /// A batch; in whole mode its checksum is right.
    Batch(BatchHeader),
    /// The end of the file.
    End,
    /// Bytes that are no batch; why.
    Bad(String),
    /// A batch of magic 0 or 1 whose checksum is right.
    OldMagic(i8),
}

/// Cursor over the batches of one file.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    file: &'a dyn File,
    /// Where the next batch begins.
    position: u64,
    /// Where the bytes end.
    end: u64,
    whole: bool,
    window: Vec<u8>,
    window_start: u64,
    /// Size of the last batch: tells how far to read ahead.
    last_size: usize,
    /// Where the last batch given begins.
    last_position: u64,
}

impl<'a> Scanner<'a> {
    /// Walks headers from `position` to `end`.
    pub(super) fn headers(file: &'a dyn File, position: u64, end: u64) -> Self {
        Self::new(file, position, end, false)
    }

    /// Walks whole batches, verifying checksums.
    pub(super) fn whole(file: &'a dyn File, position: u64, end: u64) -> Self {
        Self::new(file, position, end, true)
    }

    fn new(file: &'a dyn File, position: u64, end: u64, whole: bool) -> Self {
        Self {
            file,
            position,
            end,
            whole,
            window: Vec::new(),
            window_start: position,
            last_size: 0,
            last_position: position,
        }
    }

    /// Where the next batch begins.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Where the batch given last begins.
    pub(super) fn last_position(&self) -> u64 {
        self.last_position
    }

    /// The next batch. After `Bad` the same is answered again.
    pub(super) fn step(&mut self) -> io::Result<Step> {
        let left = self.end.saturating_sub(self.position);
        if left == 0 {
            return Ok(Step::End);
        }
        if left < BATCH_OVERHEAD_BYTES as u64 {
            return Ok(Step::Bad(format!("{left} bytes are no batch")));
        }
        let ahead = match (self.whole, self.last_size > HEADER_WINDOW_BYTES) {
            (true, _) => WHOLE_WINDOW_BYTES,
            (false, false) => HEADER_WINDOW_BYTES,
            (false, true) => SPARSE_WINDOW_BYTES,
        };
        let bytes = self.bytes(BATCH_OVERHEAD_BYTES, ahead)?;
        if bytes.len() < BATCH_OVERHEAD_BYTES {
            return Ok(Step::Bad(format!("the file ends after {} bytes of a header", bytes.len())));
        }
        let header = match BatchHeader::parse(bytes) {
            Ok(header) => header,
            Err(error) => {
                let magic = i8::from_be_bytes([bytes[MAGIC_OFFSET]]);
                let bad = error.to_string();
                if (magic == 0 || magic == 1) && self.is_old_message()? {
                    return Ok(Step::OldMagic(magic));
                }
                return Ok(Step::Bad(bad));
            }
        };
        let size = header.batch_size();
        if size as u64 > left {
            return Ok(Step::Bad(format!("a batch of {size} bytes, but {left} are left")));
        }
        if header.last_offset_delta < 0
            || header.base_offset.0 < 0
            || header.base_offset.checked_add(i64::from(header.last_offset_delta) + 1).is_none()
        {
            return Ok(Step::Bad(format!("offsets {} of no batch", header.base_offset)));
        }
        if self.whole {
            let bytes = self.bytes(size, ahead)?;
            if !header.crc_matches(bytes) {
                return Ok(Step::Bad(format!(
                    "the checksum of the batch at offset {} does not match",
                    header.base_offset
                )));
            }
        }
        self.last_size = size;
        self.last_position = self.position;
        self.position += size as u64;
        Ok(Step::Batch(header))
    }

    /// The bytes of the batch given last, at most `limit` of them.
    pub(super) fn last_batch(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.last_size.min(limit)];
        let count = self.file.read_at(&mut bytes, self.last_position)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// `need` bytes at the position (fewer at the end), reading `ahead` when they are not in the window.
    fn bytes(&mut self, need: usize, ahead: usize) -> io::Result<&[u8]> {
        let at = self.position - self.window_start;
        let have = (self.window.len() as u64).saturating_sub(at);
        if have < need as u64 {
            // Bounded by what the file holds: a wild length has been refused before.
            let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
            self.window.resize(need.max(ahead).min(left), 0);
            let count = self.file.read_at(&mut self.window, self.position)?;
            self.window.truncate(count);
            self.window_start = self.position;
        }
        let at = usize::try_from(self.position - self.window_start).unwrap_or(usize::MAX);
        let bytes = self.window.get(at..).unwrap_or(&[]);
        Ok(&bytes[..need.min(bytes.len())])
    }

    /// Whether a message of magic 0 or 1 with a right checksum stands at the position: offset 8, size 4, crc 4, magic.
    fn is_old_message(&self) -> io::Result<bool> {
        let mut head = [0; 16];
        if self.file.read_at(&mut head, self.position)? < head.len() {
            return Ok(false);
        }
        let size = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
        let crc = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
        if size < 14 || u64::from(size) + 12 > self.end - self.position {
            return Ok(false);
        }
        let mut body = vec![0; size as usize - 4];
        let count = self.file.read_at(&mut body, self.position + 16)?;
        Ok(count == body.len() && crc32(&body) == crc)
    }
}

/// The first batch of a run of headers that holds or follows `target`, as position and header.
pub(super) fn find_batch(
    file: &dyn File,
    position: u64,
    end: u64,
    target: Offset,
) -> io::Result<Option<(u64, BatchHeader)>> {
    let mut scanner = Scanner::headers(file, position, end);
    loop {
        match scanner.step()? {
            Step::Batch(header) if header.last_offset() >= target => {
                return Ok(Some((scanner.last_position(), header)));
            }
            Step::Batch(_) => {}
            Step::End | Step::Bad(_) | Step::OldMagic(_) => return Ok(None),
        }
    }
}

/// CRC-32 of zip, which guards messages of magic 0 and 1. Slow; asked only about what looks like one.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn crc32_is_that_of_zip() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
    }
}
