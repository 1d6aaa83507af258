//! `.snapshot`: the producers as they were before the offset in the name.

use protocol_compat::batch::crc32c;
use protocol_compat::ids::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::{FormatError, array};

const VERSION: i16 = 1;
const HEADER_BYTES: usize = 10;
/// Bytes of one producer.
pub const ENTRY_BYTES: usize = 46;
/// Where the checksum's bytes begin.
const CRC_START: usize = 6;

/// One producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
    /// Last sequence, -1 for none.
    pub last_sequence: i32,
    /// Last offset, -1 for none.
    pub last_offset: Offset,
    /// Records of the last batch, less one.
    pub offset_delta: i32,
    /// Timestamp of the last batch.
    pub timestamp: Timestamp,
    /// Coordinator epoch of the last marker, -1 for none.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction, -1 for none.
    pub txn_first_offset: Offset,
}

/// The file of these producers.
#[must_use]
pub fn encode(entries: &[ProducerEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    out.extend(VERSION.to_be_bytes());
    out.extend([0; 4]);
    out.extend(i32::try_from(entries.len()).unwrap_or(i32::MAX).to_be_bytes());
    for entry in entries {
        out.extend(entry.producer_id.0.to_be_bytes());
        out.extend(entry.epoch.0.to_be_bytes());
        out.extend(entry.last_sequence.to_be_bytes());
        out.extend(entry.last_offset.0.to_be_bytes());
        out.extend(entry.offset_delta.to_be_bytes());
        out.extend(entry.timestamp.0.to_be_bytes());
        out.extend(entry.coordinator_epoch.to_be_bytes());
        out.extend(entry.txn_first_offset.0.to_be_bytes());
    }
    let crc = crc32c(&out[CRC_START..]);
    out[2..CRC_START].copy_from_slice(&crc.to_be_bytes());
    out
}

/// The producers of a file.
///
/// # Errors
/// Another version, a wrong checksum, or a count that the bytes do not bear out.
pub fn parse(bytes: &[u8]) -> Result<Vec<ProducerEntry>, FormatError> {
    let short = || FormatError::new(format!("{} bytes are too few", bytes.len()));
    let version = i16::from_be_bytes(array(bytes, 0).ok_or_else(short)?);
    if version != VERSION {
        return Err(FormatError::new(format!("snapshot of version {version}")));
    }
    let crc = u32::from_be_bytes(array(bytes, 2).ok_or_else(short)?);
    if crc32c(bytes.get(CRC_START..).ok_or_else(short)?) != crc {
        return Err(FormatError::new("the checksum does not match"));
    }
    let count = i32::from_be_bytes(array(bytes, CRC_START).ok_or_else(short)?);
    let body = bytes.get(HEADER_BYTES..).ok_or_else(short)?;
    if usize::try_from(count).ok().and_then(|count| count.checked_mul(ENTRY_BYTES))
        != Some(body.len())
    {
        return Err(FormatError::new(format!("{count} entries in {} bytes", body.len())));
    }
    body.chunks_exact(ENTRY_BYTES).map(|chunk| parse_entry(chunk).ok_or_else(short)).collect()
}

fn parse_entry(bytes: &[u8]) -> Option<ProducerEntry> {
    Some(ProducerEntry {
        producer_id: ProducerId(i64::from_be_bytes(array(bytes, 0)?)),
        epoch: ProducerEpoch(i16::from_be_bytes(array(bytes, 8)?)),
        last_sequence: i32::from_be_bytes(array(bytes, 10)?),
        last_offset: Offset(i64::from_be_bytes(array(bytes, 14)?)),
        offset_delta: i32::from_be_bytes(array(bytes, 22)?),
        timestamp: Timestamp(i64::from_be_bytes(array(bytes, 26)?)),
        coordinator_epoch: i32::from_be_bytes(array(bytes, 34)?),
        txn_first_offset: Offset(i64::from_be_bytes(array(bytes, 38)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: ProducerEntry = ProducerEntry {
        producer_id: ProducerId(7),
        epoch: ProducerEpoch(2),
        last_sequence: 41,
        last_offset: Offset(99),
        offset_delta: 9,
        timestamp: Timestamp(1_700_000_000_000),
        coordinator_epoch: -1,
        txn_first_offset: Offset(-1),
    };

    #[test]
    fn a_snapshot_is_read_as_written() {
        let bytes = encode(&[ENTRY, ENTRY]);
        assert_eq!(bytes.len(), 10 + 2 * ENTRY_BYTES);
        assert_eq!(parse(&bytes), Ok(vec![ENTRY, ENTRY]));
        let empty = encode(&[]);
        assert_eq!(empty.len(), 10);
        assert_eq!(parse(&empty), Ok(vec![]));
    }

    #[test]
    fn any_flipped_bit_or_cut_is_found() {
        let bytes = encode(&[ENTRY]);
        for at in 0..bytes.len() {
            assert!(parse(&bytes[..at]).is_err(), "cut at {at}");
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(parse(&bad).is_err(), "flipped at {at}");
        }
    }
}
