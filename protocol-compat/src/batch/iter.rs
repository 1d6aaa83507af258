//! Walks batches that stand back to back, as in a segment file or a Fetch answer.

use crate::batch::{BatchError, BatchHeader};

/// A whole batch in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct BatchRef<'a> {
    /// Its header.
    pub header: BatchHeader,
    /// All its bytes, header included.
    pub bytes: &'a [u8],
    /// Where it begins in the buffer.
    pub position: usize,
}

/// Iterator over the batches of a buffer.
///
/// It ends at a batch that is cut off by the end of the buffer (a Fetch answer may end so), and gives one error and then
/// ends at bytes that are no batch of magic 2. Checksums are not looked at: see [`BatchHeader::crc_matches`].
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    buffer: &'a [u8],
    position: usize,
    failed: bool,
}

impl<'a> BatchIter<'a> {
    /// Walks `buffer` from its start.
    #[must_use]
    pub fn new(buffer: &'a [u8]) -> Self {
        Self { buffer, position: 0, failed: false }
    }

    /// Where the next batch begins: after the last one given, the end of the valid prefix.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<BatchRef<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.buffer.get(self.position..)?;
        if self.failed || rest.len() < super::BATCH_OVERHEAD_BYTES {
            return None;
        }
        let header = match BatchHeader::parse(rest) {
            Ok(header) => header,
            Err(error) => {
                self.failed = true;
                return Some(Err(error));
            }
        };
        let bytes = rest.get(..header.batch_size())?;
        let position = self.position;
        self.position += bytes.len();
        Some(Ok(BatchRef { header, bytes, position }))
    }
}
