//! Fetch v4 to v18: encoder of answers into chunks, so that records go from file to socket without passing through here.

use bytes::Bytes;

use crate::error_code::ErrorCode;
use crate::hot::{CurrentLeader, EncodeError, NodeEndpoint, TopicSpan};
use crate::ids::{LeaderEpoch, Offset, PartitionIndex};

/// A transaction that was aborted and whose records a read_committed consumer must skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTransaction {
    /// Its producer.
    pub producer_id: i64,
    /// Its first offset in the partition.
    pub first_offset: i64,
}

/// An epoch and an offset, as in the tagged fields `DivergingEpoch` and `SnapshotId`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochAndOffset {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The offset after the last of that epoch, or of the snapshot.
    pub end_offset: Offset,
}

/// The answer for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchPartitionResponse {
    /// The partition.
    pub partition: PartitionIndex,
    /// The outcome.
    pub error_code: ErrorCode,
    /// The high watermark; -1 on errors.
    pub high_watermark: i64,
    /// The last stable offset; -1 on errors and, as Kafka does, for read_uncommitted.
    pub last_stable_offset: i64,
    /// First offset of the log (v5 and later); -1 on errors.
    pub log_start_offset: i64,
    /// Where the follower's log parts from the leader's (v12 and later).
    pub diverging_epoch: Option<EpochAndOffset>,
    /// Who leads the partition (v12 and later).
    pub current_leader: Option<CurrentLeader>,
    /// The snapshot to fetch instead (v12 and later).
    pub snapshot_id: Option<EpochAndOffset>,
    /// Aborted transactions within the records; `None` is null, as for read_uncommitted.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The replica to read from instead (v11 and later); -1 for none.
    pub preferred_read_replica: i32,
    /// Bytes of the records that the caller sends in place of [`Chunk::Records`]; `None` is null.
    pub records_size_bytes: Option<u32>,
}

/// A Fetch answer. Topics and partitions are flat, in the order in which they are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchResponse {
    /// How long the client was or must be throttled, in milliseconds.
    pub throttle_time_ms: i32,
    /// The outcome as a whole (v7 and later).
    pub error_code: ErrorCode,
    /// The fetch session, 0 for none (v7 and later).
    pub session_id: i32,
    /// The topics.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics.
    pub partitions: Vec<FetchPartitionResponse>,
    /// Where the leaders named by `current_leader` are (v16 and later).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// A piece of the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// These bytes.
    Bytes(Bytes),
    /// The records of the partition with this index in [`FetchResponse::partitions`]: exactly `records_size_bytes`.
    Records(usize),
}

/// Bytes of the whole frame, length field and records included.
///
/// # Errors
/// See [`EncodeError`].
pub fn frame_size_bytes(_version: i16, _response: &FetchResponse) -> Result<usize, EncodeError> {
    unimplemented!()
}

/// The whole frame of an answer in pieces: length, header, body. Fields that the version lacks are left out; partitions
/// without records have no [`Chunk::Records`].
///
/// # Errors
/// See [`EncodeError`].
pub fn encode(
    _version: i16,
    _correlation_id: i32,
    _response: &FetchResponse,
) -> Result<Vec<Chunk>, EncodeError> {
    unimplemented!()
}
