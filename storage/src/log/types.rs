//! What goes into a log's calls and what comes out of them.

use protocol_compat::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// What is known about a log before it is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenArgs {
    /// From the directory's `recovery-point-offset-checkpoint`; 0 when absent.
    pub recovery_point: Offset,
    /// From `log-start-offset-checkpoint`; 0 when absent.
    pub log_start: Offset,
    /// Whether the directory was stopped cleanly ([`crate::dirs::LogDir`]).
    pub clean_shutdown: bool,
    /// The wall clock.
    pub now: Timestamp,
}

/// What opening found and did.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Whether data was scanned (unclean stop).
    pub scanned: bool,
    /// Bytes whose checksums were verified.
    pub scanned_bytes: u64,
    /// Bytes cut off the end because they were no valid batches.
    pub cut_bytes: u64,
    /// Segments whose indexes were rebuilt.
    pub rebuilt_indexes: u32,
    /// Segments of the log.
    pub segments: u32,
}

/// How the leader appends.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppend {
    /// Epoch of this leader, stamped on the batch.
    pub leader_epoch: LeaderEpoch,
    /// The wall clock: LogAppendTime, rolling by age, producer expiry.
    pub now: Timestamp,
}

/// Where a batch stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record. The batch is kept once `written` (or `flushed`) is above it.
    pub last_offset: Offset,
    /// The leader's stamp when the topic has LogAppendTime; of a duplicate, the timestamp of the original batch, as Kafka
    /// answers it.
    pub log_append_time: Option<Timestamp>,
    /// First offset of the log, as Produce answers carry it.
    pub log_start_offset: Offset,
}

/// What became of a staged batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageOutcome {
    /// It was given offsets and will be written.
    Appended(Appended),
    /// One of the producer's last five batches is this one: the answer is that batch's, and waits for
    /// the same position as the original would.
    Duplicate(Appended),
}

/// A search that reads segments; made by [`Log::lookup`], run on a pool thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The first record whose timestamp is at least this.
    AtLeast(Timestamp),
    /// The record with the largest timestamp (ListOffsets -3).
    MaxTimestamp,
}

/// A record found by its timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampOffset {
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// Its offset.
    pub offset: Offset,
    /// Epoch of the leader that appended it, where the batch has one.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// Answer of OffsetForLeaderEpoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// The largest known epoch not above the one asked for; the one asked for when it is below all that are known.
    pub leader_epoch: LeaderEpoch,
    /// Offset after that epoch's last record.
    pub end_offset: Offset,
}

/// An aborted transaction, as Fetch answers list them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction.
    pub first_offset: Offset,
}

/// What DescribeProducers tells of a producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerView {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
    /// Last sequence appended, if any.
    pub last_sequence: Option<i32>,
    /// Timestamp of its last batch.
    pub last_timestamp: Timestamp,
    /// Coordinator epoch of its last marker, if any.
    pub coordinator_epoch: Option<i32>,
    /// First offset of its open transaction, if one is open.
    pub transaction_start: Option<Offset>,
}
