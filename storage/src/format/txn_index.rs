//! `.txnindex`: entries of 34 bytes, one for each aborted transaction that ends in the segment.

use protocol_compat::ids::{Offset, ProducerId};

use super::{FormatError, array};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 34;
const VERSION: i16 = 0;

/// An aborted transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTxn {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction.
    pub first_offset: Offset,
    /// Offset of the abort marker.
    pub last_offset: Offset,
    /// Last stable offset once the marker is there: nothing before it is undecided.
    pub last_stable_offset: Offset,
}

impl AbortedTxn {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        out[..2].copy_from_slice(&VERSION.to_be_bytes());
        out[2..10].copy_from_slice(&self.producer_id.0.to_be_bytes());
        out[10..18].copy_from_slice(&self.first_offset.0.to_be_bytes());
        out[18..26].copy_from_slice(&self.last_offset.0.to_be_bytes());
        out[26..].copy_from_slice(&self.last_stable_offset.0.to_be_bytes());
        out
    }

    fn parse(bytes: &[u8]) -> Option<(i16, Self)> {
        let number = |at| array(bytes, at).map(i64::from_be_bytes);
        let version = i16::from_be_bytes(array(bytes, 0)?);
        let entry = Self {
            producer_id: ProducerId(number(2)?),
            first_offset: Offset(number(10)?),
            last_offset: Offset(number(18)?),
            last_stable_offset: Offset(number(26)?),
        };
        Some((version, entry))
    }
}

/// All entries of a file.
///
/// # Errors
/// A length that is no multiple of the entry, another version, or offsets that do not rise.
pub fn parse(bytes: &[u8]) -> Result<Vec<AbortedTxn>, FormatError> {
    if !bytes.len().is_multiple_of(ENTRY_BYTES) {
        return Err(FormatError::new(format!("{} bytes are no whole entries", bytes.len())));
    }
    let mut entries: Vec<AbortedTxn> = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
    for chunk in bytes.chunks_exact(ENTRY_BYTES) {
        let Some((version, entry)) = AbortedTxn::parse(chunk) else { break };
        if version != VERSION {
            return Err(FormatError::new(format!("entry of version {version}")));
        }
        if entry.first_offset >= entry.last_offset
            || entries.last().is_some_and(|last| last.last_offset >= entry.last_offset)
        {
            return Err(FormatError::new("offsets do not rise"));
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(last: i64) -> AbortedTxn {
        AbortedTxn {
            producer_id: ProducerId(1),
            first_offset: Offset(2),
            last_offset: Offset(last),
            last_stable_offset: Offset(last + 1),
        }
    }

    #[test]
    fn entries_are_read_as_written() {
        let bytes = [entry(5).to_bytes(), entry(9).to_bytes()].concat();
        assert_eq!(parse(&bytes), Ok(vec![entry(5), entry(9)]));
        assert_eq!(bytes[..11], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn broken_files_are_refused() {
        assert!(parse(&entry(5).to_bytes()[..33]).is_err());
        assert!(parse(&[entry(9).to_bytes(), entry(5).to_bytes()].concat()).is_err());
        let mut bytes = entry(5).to_bytes();
        bytes[1] = 1;
        assert!(parse(&bytes).is_err());
    }
}
