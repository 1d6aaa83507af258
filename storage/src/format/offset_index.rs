//! `.index`: entries of 8 bytes, offset and position both relative and rising.

use super::array;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 8;

/// One entry: the batch at `position` ends with the record at `relative_offset`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetIndexEntry {
    /// Offset of the last record of the batch, counted from the segment's base.
    pub relative_offset: u32,
    /// Byte of the batch in the segment.
    pub position: u32,
}

impl OffsetIndexEntry {
    /// Reads the entry at `at`.
    #[must_use]
    pub fn parse(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self {
            relative_offset: u32::from_be_bytes(array(bytes, at)?),
            position: u32::from_be_bytes(array(bytes, at + 4)?),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..4].copy_from_slice(&self.relative_offset.to_be_bytes());
        out[4..].copy_from_slice(&self.position.to_be_bytes());
        out
    }
}

/// The entries of a file up to the first that does not rise: a file that was not closed ends in zeros.
#[must_use]
pub fn parse_rising(bytes: &[u8]) -> Vec<OffsetIndexEntry> {
    let mut entries: Vec<OffsetIndexEntry> = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
    for chunk in bytes.chunks_exact(ENTRY_BYTES) {
        let Some(entry) = OffsetIndexEntry::parse(chunk, 0) else { break };
        let rises = match entries.last() {
            Some(last) => {
                entry.relative_offset > last.relative_offset && entry.position > last.position
            }
            // The first batch of a segment has no entry.
            None => entry.position > 0,
        };
        if !rises {
            break;
        }
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_two_big_endian_numbers() {
        let entry = OffsetIndexEntry { relative_offset: 0x0102_0304, position: 0x0506_0708 };
        assert_eq!(entry.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(OffsetIndexEntry::parse(&entry.to_bytes(), 0), Some(entry));
        assert_eq!(OffsetIndexEntry::parse(&[0; 7], 0), None);
    }

    #[test]
    fn entries_end_where_they_stop_rising() {
        let mut bytes = Vec::new();
        for (relative_offset, position) in [(9, 4200), (19, 8400), (0, 0), (29, 9000)] {
            bytes.extend(OffsetIndexEntry { relative_offset, position }.to_bytes());
        }
        assert_eq!(parse_rising(&bytes).len(), 2);
        assert!(parse_rising(&[0; 80]).is_empty());
        assert!(parse_rising(&bytes[..7]).is_empty());
    }
}
