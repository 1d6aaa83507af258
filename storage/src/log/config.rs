//! What a topic's configuration says about its logs.

use protocol_compat::batch::TimestampType;

/// When data counts as kept for an `acks=all` answer (`kelda.durability`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// After an fdatasync.
    #[default]
    Fsync,
    /// Once in the page cache, as Apache Kafka does.
    PageCache,
}

/// `cleanup.policy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CleanupPolicy {
    /// Old segments are deleted by time and size.
    pub delete: bool,
    /// Only the last value of each key is kept.
    pub compact: bool,
}

/// Settings of one log; may be replaced while it runs ([`super::Log::set_config`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// `segment.bytes`: a segment is rolled before it would grow past this. Bytes.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment is rolled when its data spans more. Milliseconds.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: at most this is taken off `segment.ms`, at random for each segment.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`: largest size of an index file; a full index rolls the segment.
    pub segment_index_bytes: u32,
    /// `index.interval.bytes`: about one index entry per this many bytes of data.
    pub index_interval_bytes: u32,
    /// `retention.ms`; `None` keeps for ever.
    pub retention_ms: Option<i64>,
    /// `retention.bytes`; `None` keeps any amount.
    pub retention_bytes: Option<u64>,
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `file.delete.delay.ms`: from the renaming of a file to `.deleted` to its removal.
    pub file_delete_delay_ms: i64,
    /// `message.timestamp.type`: with LogAppendTime the log stamps what it is given.
    pub timestamp_type: TimestampType,
    /// `flush.messages`: a sync is asked for after this many records. `None` is never.
    pub flush_messages: Option<u64>,
    /// `flush.ms`: a sync is asked for when unsynced data is older ([`super::Log::tick`]). `None` is never.
    pub flush_ms: Option<i64>,
    /// `kelda.durability`. The log itself does not act on it; it is kept here for its shell.
    pub durability: Durability,
    /// `producer.id.expiration.ms`: how long an idle producer is remembered.
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    /// Apache Kafka 4.4.0's defaults.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10_485_760,
            index_interval_bytes: 4096,
            retention_ms: Some(604_800_000),
            retention_bytes: None,
            cleanup_policy: CleanupPolicy { delete: true, compact: false },
            file_delete_delay_ms: 60_000,
            timestamp_type: TimestampType::CreateTime,
            flush_messages: None,
            flush_ms: None,
            durability: Durability::Fsync,
            producer_id_expiration_ms: 86_400_000,
        }
    }
}
