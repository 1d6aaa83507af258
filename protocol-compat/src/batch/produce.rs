//! Checks what a producer sends for one partition, by the rules of Kafka's `LogValidator`.

use bytes::Bytes;

use super::recompress::with_times;
use super::record::{RawRecord, corrupt};
use crate::batch::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchError, BatchHeader, CRC_START, LENGTH_PREFIX_BYTES,
    MAGIC_OFFSET, MAGIC_V2, RecordError, TimestampType,
};
use crate::compression::{Codec, Compression, decompress, structure};
use crate::error_code::ErrorCode;
use crate::ids::Timestamp;

/// The first version of Produce whose clients know Zstandard (KIP-110).
const ZSTD_SINCE: i16 = 7;
/// The least length field of a record in the format of magic 0.
const SMALLEST_OLD_RECORD: i32 = 14;

/// The topic's and the request's rules for a batch.
#[derive(Clone, Copy, Debug)]
pub struct ProduceRules {
    /// Version of the Produce request: zstd is only understood from 7 on.
    pub api_version: i16,
    /// `max.message.bytes`: size of the batch as sent.
    pub max_message_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// Whether `cleanup.policy` has `compact`: records need keys.
    pub compacted: bool,
    /// `compression.type` and its level; `None` is `producer`, keep what was sent.
    pub target_compression: Option<Compression>,
    /// Most bytes that a compressed batch may hold when it must be looked into.
    pub max_decompressed_bytes: usize,
    /// The wall clock now.
    pub now: Timestamp,
}

/// A batch that a leader may append: one batch of magic 2 whose checksum, counts, sizes and timestamps were checked.
#[derive(Clone, Debug)]
pub struct CheckedBatch {
    /// The bytes of exactly this batch.
    pub bytes: Bytes,
    /// Their header.
    pub header: BatchHeader,
    /// The codec it must get before it is appended (topic `compression.type`): run [`super::recompress`] off the core.
    pub recompress: Option<Compression>,
}

/// Checks the `records` of one partition of a Produce request.
///
/// An uncompressed batch is walked record by record, as Kafka does. A compressed one must be a stream of its codec, and is
/// looked into only where something depends on single records (a compacted topic, timestamps that the header says are out of
/// range): clients read it anyway.
///
/// # Errors
/// The code, message and record errors that Kafka answers.
pub fn check(records: Bytes, rules: &ProduceRules) -> Result<CheckedBatch, BatchError> {
    let version = rules.api_version;
    let batch_end = one_batch(&records, version)?;
    let header = BatchHeader::parse(&records)?;
    let codec = header.attributes.codec().ok_or_else(|| {
        invalid(format!("unknown compression type id: {}", header.attributes.0 & 7))
    })?;
    if codec == Codec::Zstd && version < ZSTD_SINCE {
        return Err(BatchError::new(
            ErrorCode::UnsupportedCompressionType,
            format!(
                "Produce requests with version {version} are not allowed to use ZStandard compression"
            ),
        ));
    }
    if header.base_offset.0 != 0 {
        return Err(invalid(format!(
            "The baseOffset of the record batch in the append should be 0, but it is {}",
            header.base_offset
        )));
    }
    if batch_end > rules.max_message_bytes {
        return Err(BatchError::new(
            ErrorCode::MessageTooLarge,
            format!(
                "The record batch size in the append is {batch_end} bytes which exceeds the maximum configured value of {}.",
                rules.max_message_bytes
            ),
        ));
    }
    if !header.crc_matches(&records) {
        return Err(corrupt(format!(
            "Record is corrupt (stored crc = {}, computed crc = {})",
            header.crc,
            super::crc32c(&records[CRC_START..])
        )));
    }
    check_header(&header)?;
    let mut bytes = records;
    let mut header = header;
    if codec == Codec::None {
        let max_timestamp = check_records(&header, &bytes.slice(BATCH_OVERHEAD_BYTES..), rules)?;
        if max_timestamp != header.max_timestamp
            && header.attributes.timestamp_type() == TimestampType::CreateTime
        {
            // The producer's own account of it is not taken: searches by time rely on it.
            bytes = restamped(&header, &bytes, max_timestamp, header.attributes);
            header = BatchHeader::parse(&bytes)?;
        }
    } else {
        let body = bytes.slice(BATCH_OVERHEAD_BYTES..);
        structure::check(codec, &body)?;
        if must_look_inside(&header, rules) {
            let body = decompress(codec, &body, rules.max_decompressed_bytes)?;
            check_records(&header, &body, rules)?;
        }
    }
    if rules.timestamp_type == TimestampType::CreateTime
        && header.attributes.timestamp_type() == TimestampType::LogAppendTime
    {
        // Only a broker may say that it stamped the records: Kafka clears the bit.
        let attributes = header.attributes.with_timestamp_type(TimestampType::CreateTime);
        bytes = restamped(&header, &bytes, header.max_timestamp, attributes);
        header = BatchHeader::parse(&bytes)?;
    }
    let recompress = rules.target_compression.filter(|target| target.codec != codec);
    Ok(CheckedBatch { bytes, header, recompress })
}

/// The batch with another largest timestamp and other attributes, checksum and all.
fn restamped(
    header: &BatchHeader,
    batch: &Bytes,
    max_timestamp: Timestamp,
    attributes: Attributes,
) -> Bytes {
    let mut rewritten = Vec::with_capacity(batch.len());
    rewritten.extend_from_slice(&with_times(header, batch, max_timestamp, attributes));
    rewritten.extend_from_slice(&batch[BATCH_OVERHEAD_BYTES..]);
    rewritten.into()
}

/// The size of the only batch; anything else has Kafka's words.
fn one_batch(records: &[u8], version: i16) -> Result<usize, BatchError> {
    let none = || {
        invalid(format!(
            "Produce requests with version {version} must have at least one record batch per partition"
        ))
    };
    let Some(prefix) = records.get(8..LENGTH_PREFIX_BYTES) else { return Err(none()) };
    let length = i32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]);
    if length < SMALLEST_OLD_RECORD {
        return Err(corrupt(format!(
            "Record size {length} is less than the minimum record overhead ({SMALLEST_OLD_RECORD})"
        )));
    }
    let size = LENGTH_PREFIX_BYTES + usize::try_from(length).unwrap_or(usize::MAX / 2);
    let (Some(&magic), true) = (records.get(MAGIC_OFFSET), size <= records.len()) else {
        return Err(none());
    };
    if magic > MAGIC_V2.cast_unsigned() {
        return Err(corrupt(format!("Invalid magic found in record: {}", magic.cast_signed())));
    }
    if magic != MAGIC_V2.cast_unsigned() {
        return Err(invalid(format!(
            "Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        )));
    }
    if size < BATCH_OVERHEAD_BYTES {
        return Err(corrupt(format!(
            "Found invalid record size {size}: a batch has at least {BATCH_OVERHEAD_BYTES} bytes"
        )));
    }
    if records.len() > size {
        return Err(invalid(format!(
            "Produce requests with version {version} are only allowed to contain exactly one record batch per partition"
        )));
    }
    Ok(size)
}

fn check_header(header: &BatchHeader) -> Result<(), BatchError> {
    let (first, last) = (header.base_offset, header.last_offset());
    if header.last_offset_delta < 0 {
        return Err(invalid(format!("Batch has an invalid offset range: [{first}, {last}]")));
    }
    if header.records_count <= 0 {
        return Err(invalid(format!(
            "Invalid reported count for record batch: {}",
            header.records_count
        )));
    }
    if i64::from(header.last_offset_delta) + 1 != i64::from(header.records_count) {
        return Err(invalid(format!(
            "Inconsistent batch offset range [{first}, {last}] and count of records {}",
            header.records_count
        )));
    }
    if header.attributes.is_control() {
        return Err(invalid("Clients are not allowed to write control records".to_owned()));
    }
    if header.producer_id.0 >= 0 && header.base_sequence < 0 {
        return Err(invalid(format!(
            "Invalid sequence number {} in record batch with producerId {}",
            header.base_sequence, header.producer_id
        )));
    }
    Ok(())
}

/// The timestamps that records may have.
fn time_range(rules: &ProduceRules) -> (i64, i64) {
    let now = rules.now.0;
    (
        now.saturating_sub(rules.timestamp_before_max_ms),
        now.saturating_add(rules.timestamp_after_max_ms),
    )
}

fn must_look_inside(header: &BatchHeader, rules: &ProduceRules) -> bool {
    let (earliest, latest) = time_range(rules);
    let times = rules.timestamp_type == TimestampType::CreateTime
        && (header.max_timestamp.0 > latest
            || (rules.timestamp_before_max_ms != i64::MAX
                && header.base_timestamp.0 >= 0
                && header.base_timestamp.0 < earliest));
    rules.compacted || times
}

/// Walks the records and gives their largest timestamp.
fn check_records(
    header: &BatchHeader,
    body: &[u8],
    rules: &ProduceRules,
) -> Result<Timestamp, BatchError> {
    let (earliest, latest) = time_range(rules);
    let check_times = rules.timestamp_type == TimestampType::CreateTime;
    let mut at = 0;
    let mut max_timestamp = -1;
    let mut errors = Vec::new();
    let mut code = ErrorCode::InvalidRecord;
    for index in 0..header.records_count {
        let (record, next) = RawRecord::parse(body, at)
            .map_err(|error| BatchError::new(ErrorCode::InvalidRecord, error.message))?;
        at = next;
        let timestamp = header.base_timestamp.0.wrapping_add(record.timestamp_delta);
        max_timestamp = max_timestamp.max(timestamp);
        if record.offset_delta != index {
            return Err(invalid(format!(
                "Inner record at index {index} does not have incremental offsets, expected offset is {index}, found {}",
                record.offset_delta
            )));
        }
        if rules.compacted && record.key.is_none() {
            errors.push(RecordError {
                batch_index: index,
                message: Some("Compacted topic cannot accept message without key".to_owned()),
            });
        } else if check_times && timestamp >= 0 && (timestamp < earliest || timestamp > latest) {
            code = ErrorCode::InvalidTimestamp;
            errors.push(RecordError {
                batch_index: index,
                message: Some(format!(
                    "Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within [{earliest}, {latest}]"
                )),
            });
        }
    }
    if at != body.len() {
        return Err(invalid(
            "Incorrect declared batch size, records still remaining in file".into(),
        ));
    }
    if errors.is_empty() {
        return Ok(Timestamp(max_timestamp));
    }
    let message = if code == ErrorCode::InvalidTimestamp {
        "One or more records have been rejected due to invalid timestamp".to_owned()
    } else {
        format!(
            "One or more records have been rejected due to {} record errors in total, and only showing the first three errors at most: {:?}",
            errors.len(),
            errors.iter().take(3).filter_map(|error| error.message.as_deref()).collect::<Vec<_>>()
        )
    };
    Err(BatchError { code, message, record_errors: errors })
}

fn invalid(message: String) -> BatchError {
    BatchError::new(ErrorCode::InvalidRecord, message)
}

#[cfg(test)]
mod tests;
