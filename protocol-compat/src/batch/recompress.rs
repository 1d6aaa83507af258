//! Rewrites of a batch that Kafka's leader makes: another codec, or its own clock.

use bytes::Bytes;

use super::builder::assemble;
use super::record::corrupt;
use crate::batch::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchError, BatchHeader, CRC_OFFSET, CRC_START, TimestampType,
};
use crate::compression::{Compression, decompress};
use crate::ids::Timestamp;

/// The same batch with another codec. Offsets, timestamps, headers and the producer's stamp stay. Costs CPU: not on a core.
///
/// # Errors
/// A batch that does not decompress within `limit_bytes`, or a level that the codec does not have.
pub fn recompress(
    batch: &Bytes,
    target: Compression,
    limit_bytes: usize,
) -> Result<Bytes, BatchError> {
    let header = BatchHeader::parse(batch)?;
    let body = batch
        .get(BATCH_OVERHEAD_BYTES..header.batch_size())
        .map(|_| batch.slice(BATCH_OVERHEAD_BYTES..header.batch_size()))
        .ok_or_else(|| corrupt("the batch is cut off".to_owned()))?;
    let codec = header.attributes.codec().ok_or_else(|| {
        corrupt(format!("unknown codec in attributes {:#x}", header.attributes.0))
    })?;
    let body = decompress(codec, &body, limit_bytes)?;
    assemble(header, target, &body)
}

/// The header of the same batch stamped by the leader's clock: max timestamp `now`, the LogAppendTime bit and a new checksum.
///
/// `batch` is the whole batch: its records are read again for the checksum.
#[must_use]
pub fn rewrite_log_append_time(
    header: &BatchHeader,
    batch: &[u8],
    now: Timestamp,
) -> [u8; BATCH_OVERHEAD_BYTES] {
    with_times(
        header,
        batch,
        now,
        header.attributes.with_timestamp_type(TimestampType::LogAppendTime),
    )
}

/// The header with another max timestamp and attributes, and the checksum that follows from it.
pub(super) fn with_times(
    header: &BatchHeader,
    batch: &[u8],
    max_timestamp: Timestamp,
    attributes: Attributes,
) -> [u8; BATCH_OVERHEAD_BYTES] {
    let mut stamped = *header;
    stamped.attributes = attributes;
    stamped.max_timestamp = max_timestamp;
    let mut bytes = stamped.to_bytes();
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[CRC_START..]);
    digest.update(batch.get(BATCH_OVERHEAD_BYTES..).unwrap_or_default());
    let crc = u32::try_from(digest.finalize() & 0xffff_ffff).unwrap_or_default();
    bytes[CRC_OFFSET..CRC_START].copy_from_slice(&crc.to_be_bytes());
    bytes
}
