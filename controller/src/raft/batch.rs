//! Batches of the metadata log and of snapshots: what is in them, and their bytes.
//!
//! They are never compressed and never from a producer, so that both directions fit on a page.

use bytes::Bytes;
use protocol_compat::batch::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchHeader, BatchIter, CRC_OFFSET, CRC_START,
    LENGTH_PREFIX_BYTES, crc32c,
};
use protocol_compat::compression::Codec;
use protocol_compat::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::error::ControllerError;
use crate::records::MetadataRecord;
use crate::records::control::ControlRecord;

/// Largest batch that is read: Kafka writes at most 8 MiB.
pub(crate) const BATCH_BYTES_MAX: usize = 64 << 20;

/// What one batch says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Batch {
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) timestamp_ms: i64,
    pub(crate) content: Content,
}

/// The records of a batch.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Content {
    Control(Vec<ControlRecord>),
    /// Offset and record.
    Data(Vec<(Offset, MetadataRecord)>),
}

/// Bytes of a control batch.
pub(crate) fn control(
    base_offset: Offset,
    epoch: LeaderEpoch,
    timestamp_ms: i64,
    records: &[ControlRecord],
) -> Bytes {
    let records: Vec<_> = records
        .iter()
        .map(|record| {
            let (key, value) = record.encode();
            (Some(key), value)
        })
        .collect();
    build(base_offset, epoch, timestamp_ms, true, &records)
}

/// Bytes of a batch of metadata records, in the versions of this `metadata.version`.
pub(crate) fn data(
    base_offset: Offset,
    epoch: LeaderEpoch,
    timestamp_ms: i64,
    metadata_version: i16,
    records: &[MetadataRecord],
) -> Bytes {
    let records: Vec<_> =
        records.iter().map(|record| (None, record.encode(metadata_version))).collect();
    build(base_offset, epoch, timestamp_ms, false, &records)
}

fn build(
    base_offset: Offset,
    epoch: LeaderEpoch,
    timestamp_ms: i64,
    control: bool,
    records: &[(Option<Vec<u8>>, Vec<u8>)],
) -> Bytes {
    let mut bytes = vec![0; BATCH_OVERHEAD_BYTES];
    let mut body = Vec::new();
    for (delta, (key, value)) in (0_i64..).zip(records) {
        body.clear();
        body.push(0);
        varint(&mut body, 0);
        varint(&mut body, delta);
        match key {
            None => varint(&mut body, -1),
            Some(key) => {
                varint(&mut body, length(key.len()));
                body.extend_from_slice(key);
            }
        }
        varint(&mut body, length(value.len()));
        body.extend_from_slice(value);
        varint(&mut body, 0);
        varint(&mut bytes, length(body.len()));
        bytes.extend_from_slice(&body);
    }
    let count = i32::try_from(records.len()).expect("a batch has far fewer records");
    let mut header = BatchHeader {
        base_offset,
        batch_length: i32::try_from(bytes.len() - LENGTH_PREFIX_BYTES)
            .expect("a batch is far smaller"),
        partition_leader_epoch: epoch,
        crc: 0,
        attributes: Attributes(0).with_control(control),
        last_offset_delta: count - 1,
        base_timestamp: Timestamp(timestamp_ms),
        max_timestamp: Timestamp(timestamp_ms),
        producer_id: ProducerId(-1),
        producer_epoch: ProducerEpoch(-1),
        base_sequence: -1,
        records_count: count,
    };
    bytes[..BATCH_OVERHEAD_BYTES].copy_from_slice(&header.to_bytes());
    header.crc = crc32c(&bytes[CRC_START..]);
    bytes[CRC_OFFSET..CRC_START].copy_from_slice(&header.crc.to_be_bytes());
    bytes.into()
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).expect("lengths fit")
}

/// A zig-zag varint.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seven bits at a time")]
fn varint(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)) as u64;
    while bits >= 0x80 {
        out.push((bits & 0x7f) as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

/// All whole batches of a buffer, checksums verified. Bytes behind the last whole batch are an error.
pub(crate) fn decode_all(bytes: &[u8]) -> Result<Vec<Batch>, ControllerError> {
    let mut iter = BatchIter::new(bytes);
    let mut batches = Vec::new();
    for batch in iter.by_ref() {
        let batch = batch.map_err(|error| ControllerError::Corrupt(error.to_string()))?;
        batches.push(decode(&batch.header, batch.bytes)?);
    }
    if iter.position() != bytes.len() {
        return Err(ControllerError::Corrupt(format!(
            "{} bytes at {} are no whole batch",
            bytes.len() - iter.position(),
            iter.position()
        )));
    }
    Ok(batches)
}

/// One whole batch.
pub(crate) fn decode(header: &BatchHeader, bytes: &[u8]) -> Result<Batch, ControllerError> {
    let base = header.base_offset;
    let corrupt = |what: &str| ControllerError::Corrupt(format!("batch at offset {base}: {what}"));
    if !header.crc_matches(bytes) {
        return Err(corrupt("the checksum does not match"));
    }
    if header.attributes.codec() != Some(Codec::None) {
        return Err(corrupt("it is compressed"));
    }
    let mut reader = VarReader { rest: &bytes[BATCH_OVERHEAD_BYTES..] };
    let is_control = header.attributes.is_control();
    let mut control = Vec::new();
    let mut data = Vec::new();
    for _ in 0..header.records_count {
        let cut = || corrupt("a record is cut off");
        let (delta, key, value) = reader.record().ok_or_else(cut)?;
        let offset = base.checked_add(delta).ok_or_else(|| corrupt("an offset is too large"))?;
        let value = value.unwrap_or_default();
        let unknown = |error: crate::records::RecordError| match error {
            crate::records::RecordError::Short | crate::records::RecordError::Malformed(_) => {
                ControllerError::Corrupt(format!("record at offset {offset}: {error}"))
            }
            error => ControllerError::UnknownRecord { offset: offset.0, reason: error.to_string() },
        };
        if is_control {
            let key = key.ok_or_else(|| corrupt("a control record has no key"))?;
            control.push(ControlRecord::decode(key, value).map_err(unknown)?);
        } else {
            data.push((offset, MetadataRecord::decode(value).map_err(unknown)?));
        }
    }
    if !reader.rest.is_empty() {
        return Err(corrupt("bytes are left behind its records"));
    }
    Ok(Batch {
        base_offset: base,
        last_offset: header.last_offset(),
        epoch: header.partition_leader_epoch,
        timestamp_ms: header.max_timestamp.0,
        content: if is_control { Content::Control(control) } else { Content::Data(data) },
    })
}

/// Reads records of a batch; every length is bounded by the bytes that are left.
struct VarReader<'a> {
    rest: &'a [u8],
}

/// Offset delta, key, value.
type RawRecord<'a> = (i64, Option<&'a [u8]>, Option<&'a [u8]>);

impl<'a> VarReader<'a> {
    fn varint(&mut self) -> Option<i64> {
        let mut bits = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            bits |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed());
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<Option<&'a [u8]>> {
        let length = self.varint()?;
        if length < 0 {
            return Some(None);
        }
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(Some(taken))
    }

    fn record(&mut self) -> Option<RawRecord<'a>> {
        let body = self.bytes()??;
        let mut body = VarReader { rest: body.get(1..)? };
        let _timestamp = body.varint()?;
        let delta = body.varint()?;
        let key = body.bytes()?;
        let value = body.bytes()?;
        for _ in 0..body.varint()? {
            body.bytes()?;
            body.bytes()?;
        }
        body.rest.is_empty().then_some((delta, key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::metadata::FeatureLevelRecord;
    use protocol_compat::ids::BrokerId;

    #[test]
    fn batches_round_trip() {
        let records =
            [ControlRecord::LeaderChange { leader: BrokerId(1), voters: vec![BrokerId(1)] }];
        let mut bytes = control(Offset(5), LeaderEpoch(2), 77, &records).to_vec();
        let feature = MetadataRecord::FeatureLevel(FeatureLevelRecord {
            name: "metadata.version".to_owned(),
            feature_level: 33,
        });
        bytes.extend(data(Offset(6), LeaderEpoch(2), 78, 33, &[feature.clone(), feature.clone()]));
        let batches = decode_all(&bytes).expect("our own");
        assert_eq!(batches[0].content, Content::Control(records.to_vec()));
        assert_eq!(
            batches[1].content,
            Content::Data(vec![(Offset(6), feature.clone()), (Offset(7), feature)])
        );
        assert_eq!((batches[1].last_offset, batches[1].timestamp_ms), (Offset(7), 78));
        for cut in [1, 40, 80] {
            assert!(decode_all(&bytes[..bytes.len() - cut]).is_err());
        }
        let at = bytes.len() - 3;
        bytes[at] ^= 1;
        assert!(decode_all(&bytes).is_err());
    }
}
