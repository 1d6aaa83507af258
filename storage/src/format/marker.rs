//! The transaction marker inside a control batch: one record that says how a producer's transaction ended.

use protocol_compat::batch::{BATCH_OVERHEAD_BYTES, BatchHeader};
use protocol_compat::ids::Timestamp;

use super::{FormatError, array};

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndTxnMarker {
    /// Whether it was aborted.
    pub aborted: bool,
    /// Epoch of the coordinator that decided.
    pub coordinator_epoch: i32,
    /// The record's timestamp.
    pub timestamp: Timestamp,
}

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// The marker in a whole control batch; `None` when the cleaner left the batch empty, or when it is a control record of
/// another kind.
///
/// # Errors
/// A batch that holds no well-formed control record.
pub fn parse(header: &BatchHeader, batch: &[u8]) -> Result<Option<EndTxnMarker>, FormatError> {
    if header.records_count == 0 {
        return Ok(None);
    }
    parse_body(header, batch.get(BATCH_OVERHEAD_BYTES..).unwrap_or(&[]))
        .ok_or_else(|| FormatError::new("malformed control record"))
}

fn parse_body(header: &BatchHeader, body: &[u8]) -> Option<Option<EndTxnMarker>> {
    let mut at = 0;
    let _length = varint(body, &mut at)?;
    at += 1;
    let timestamp_delta = varint(body, &mut at)?;
    let _offset_delta = varint(body, &mut at)?;
    let key_length = usize::try_from(varint(body, &mut at)?).ok()?;
    let kind = i16::from_be_bytes(array(body, at + 2)?);
    at = at.checked_add(key_length)?;
    if kind != ABORT && kind != COMMIT {
        return Some(None);
    }
    let value_length = varint(body, &mut at)?;
    if key_length < 4 || value_length < 6 {
        return None;
    }
    Some(Some(EndTxnMarker {
        aborted: kind == ABORT,
        coordinator_epoch: i32::from_be_bytes(array(body, at + 2)?),
        timestamp: Timestamp(header.base_timestamp.0.checked_add(timestamp_delta)?),
    }))
}

/// A zig-zag number of at most 64 bits.
fn varint(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol_compat::batch::Attributes;
    use protocol_compat::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

    /// A marker batch as a coordinator writes it: 78 bytes.
    fn batch(kind: u8) -> (BatchHeader, Vec<u8>) {
        let header = BatchHeader {
            base_offset: Offset(5),
            batch_length: 66,
            partition_leader_epoch: LeaderEpoch(0),
            crc: 0,
            attributes: Attributes(0x30),
            last_offset_delta: 0,
            base_timestamp: Timestamp(1000),
            max_timestamp: Timestamp(1000),
            producer_id: ProducerId(1),
            producer_epoch: ProducerEpoch(0),
            base_sequence: -1,
            records_count: 1,
        };
        let mut bytes = header.to_bytes().to_vec();
        // length 16, attributes, timestamp delta, offset delta, key of 4, value of 6, no headers
        bytes.extend([32, 0, 0, 0, 8, 0, 0, 0, kind, 12, 0, 0, 0, 0, 0, 9, 0]);
        (header, bytes)
    }

    #[test]
    fn markers_are_read() {
        let (header, bytes) = batch(0);
        assert_eq!(bytes.len(), 78);
        let marker = parse(&header, &bytes).expect("valid").expect("a marker");
        assert_eq!((marker.aborted, marker.coordinator_epoch), (true, 9));
        assert_eq!(marker.timestamp, Timestamp(1000));
        let (header, bytes) = batch(1);
        assert!(!parse(&header, &bytes).expect("valid").expect("a marker").aborted);
    }

    #[test]
    fn other_control_records_are_none_and_cut_ones_errors() {
        let (header, bytes) = batch(2);
        assert_eq!(parse(&header, &bytes), Ok(None));
        let (header, bytes) = batch(0);
        for end in 61..bytes.len() - 1 {
            assert!(parse(&header, &bytes[..end]).is_err(), "{end}");
        }
    }
}
