//! Checks what a producer sends for one partition, by the rules of Kafka's `LogValidator`.

use bytes::Bytes;

use crate::batch::{BatchError, BatchHeader, TimestampType};
use crate::compression::Compression;
use crate::ids::Timestamp;

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
/// # Errors
/// The code, message and record errors that Kafka answers.
pub fn check(_records: Bytes, _rules: &ProduceRules) -> Result<CheckedBatch, BatchError> {
    unimplemented!()
}
