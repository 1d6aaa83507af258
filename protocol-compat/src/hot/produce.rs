//! Produce v3 to v13: parser of requests, encoder of answers.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use crate::batch::RecordError;
use crate::error_code::ErrorCode;
use crate::hot::{CurrentLeader, EncodeError, NodeEndpoint, TopicSpan, WireError};
use crate::ids::PartitionIndex;

/// The oldest version read.
pub const MIN_VERSION: i16 = 3;
/// The newest version read.
pub const MAX_VERSION: i16 = 13;

/// The records for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducePartition {
    /// The partition.
    pub index: PartitionIndex,
    /// Its records, sliced from the frame; `None` is null.
    pub records: Option<Bytes>,
}

/// A Produce request; records are slices of the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProduceRequestView {
    /// The transactional id, if the producer has one.
    pub transactional_id: Option<StrBytes>,
    /// Acknowledgements wanted; -1 is all, others than -1, 0, 1 are not valid (the parser lets them pass).
    pub acks: i16,
    /// How long to wait for replicas, in milliseconds.
    pub timeout_ms: i32,
    /// The topics in request order.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics in request order.
    pub partitions: Vec<ProducePartition>,
}

impl ProduceRequestView {
    /// Reads the body of a request: everything after the request header.
    ///
    /// # Errors
    /// A body that is not exactly one message of this version.
    pub fn parse(_version: i16, _body: Bytes) -> Result<Self, WireError> {
        unimplemented!()
    }
}

/// The answer for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducePartitionResponse {
    /// The partition.
    pub index: PartitionIndex,
    /// The outcome.
    pub error_code: ErrorCode,
    /// Offset of the first record; -1 on errors.
    pub base_offset: i64,
    /// The leader's clock under LogAppendTime, else -1.
    pub log_append_time_ms: i64,
    /// First offset of the log; -1 on errors.
    pub log_start_offset: i64,
    /// Records at fault (v8 and later).
    pub record_errors: Vec<RecordError>,
    /// The reason (v8 and later).
    pub error_message: Option<Cow<'static, str>>,
    /// Who leads the partition, with NOT_LEADER_OR_FOLLOWER (v10 and later).
    pub current_leader: Option<CurrentLeader>,
}

/// A Produce answer. Topics and partitions are flat as in [`ProduceRequestView`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProduceResponse {
    /// The topics in request order.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics.
    pub partitions: Vec<ProducePartitionResponse>,
    /// How long the client was or must be throttled, in milliseconds.
    pub throttle_time_ms: i32,
    /// Where the leaders named by `current_leader` are (v10 and later).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// Appends the whole frame of an answer to `out`: length, header, body. Fields that the version lacks are left out.
///
/// # Errors
/// See [`EncodeError`]; `out` is then as it was.
pub fn encode_response(
    _version: i16,
    _correlation_id: i32,
    _response: &ProduceResponse,
    _out: &mut BytesMut,
) -> Result<(), EncodeError> {
    unimplemented!()
}
