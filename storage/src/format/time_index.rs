//! `.timeindex`: entries of 12 bytes, the largest timestamp so far and where it is.

use protocol_compat::ids::Timestamp;

use super::array;

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 12;

/// One entry: no record up to this offset has a larger timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeIndexEntry {
    /// The largest timestamp so far.
    pub timestamp: Timestamp,
    /// Last offset of the batch that has it, counted from the segment's base.
    pub relative_offset: u32,
}

impl TimeIndexEntry {
    /// Reads the entry at `at`.
    #[must_use]
    pub fn parse(bytes: &[u8], at: usize) -> Option<Self> {
        Some(Self {
            timestamp: Timestamp(i64::from_be_bytes(array(bytes, at)?)),
            relative_offset: u32::from_be_bytes(array(bytes, at + 8)?),
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..8].copy_from_slice(&self.timestamp.0.to_be_bytes());
        out[8..].copy_from_slice(&self.relative_offset.to_be_bytes());
        out
    }
}

/// The entries of a file up to the first that does not rise: a file that was not closed ends in zeros.
#[must_use]
pub fn parse_rising(bytes: &[u8]) -> Vec<TimeIndexEntry> {
    let mut entries: Vec<TimeIndexEntry> = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
    for chunk in bytes.chunks_exact(ENTRY_BYTES) {
        let Some(entry) = TimeIndexEntry::parse(chunk, 0) else { break };
        let rises = match entries.last() {
            Some(last) => {
                entry.timestamp > last.timestamp && entry.relative_offset >= last.relative_offset
            }
            None => entry.timestamp.0 > 0 || entry.relative_offset > 0,
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
    fn an_entry_is_a_timestamp_and_an_offset() {
        let entry = TimeIndexEntry { timestamp: Timestamp(0x0102), relative_offset: 3 };
        assert_eq!(entry.to_bytes(), [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3]);
        assert_eq!(TimeIndexEntry::parse(&entry.to_bytes(), 0), Some(entry));
    }

    #[test]
    fn entries_end_where_they_stop_rising() {
        let mut bytes = Vec::new();
        for (timestamp, relative_offset) in [(10, 4), (11, 4), (11, 9), (12, 9)] {
            let timestamp = Timestamp(timestamp);
            bytes.extend(TimeIndexEntry { timestamp, relative_offset }.to_bytes());
        }
        assert_eq!(parse_rising(&bytes).len(), 2);
        assert!(parse_rising(&[0; 120]).is_empty());
    }
}
