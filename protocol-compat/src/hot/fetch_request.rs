//! Fetch v4 to v18: parser of requests.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use crate::hot::{TopicRef, TopicSpan, WireError};
use crate::ids::{BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, Offset, PartitionIndex};

/// The oldest version read.
pub const MIN_VERSION: i16 = 4;
/// The newest version read.
pub const MAX_VERSION: i16 = 18;

/// What is asked of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchPartition {
    /// The partition.
    pub partition: PartitionIndex,
    /// The epoch in which the client believes the leader to be (v9 and later).
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// The first offset wanted.
    pub fetch_offset: Offset,
    /// Epoch of the last record that a follower has (v12 and later).
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// First offset of a follower's log (v5 and later); -1 from consumers.
    pub log_start_offset: i64,
    /// Most bytes wanted from this partition.
    pub partition_max_bytes: i32,
    /// The follower's directory (v17 and later).
    pub replica_directory_id: Option<DirectoryId>,
    /// The high watermark that a follower knows (v18 and later); `None` when not sent.
    pub high_watermark: Option<Offset>,
}

/// Partitions that leave a fetch session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForgottenTopic {
    /// The topic.
    pub topic: TopicRef,
    /// Its partitions.
    pub partitions: Vec<PartitionIndex>,
}

/// A Fetch request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// The cluster that the sender believes to be in (v12 and later).
    pub cluster_id: Option<StrBytes>,
    /// The follower that fetches; `None` is a consumer. -2 (a debugging consumer) is kept as it is.
    pub replica_id: Option<BrokerId>,
    /// The follower's incarnation (v15 and later).
    pub replica_epoch: Option<BrokerEpoch>,
    /// How long to wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Fewest bytes worth an answer before the wait is over.
    pub min_bytes: i32,
    /// Most bytes wanted in all.
    pub max_bytes: i32,
    /// 0 read_uncommitted, 1 read_committed.
    pub isolation_level: i8,
    /// The fetch session, 0 for none or a new one (v7 and later).
    pub session_id: i32,
    /// The session's epoch, -1 for a full request without a session (v7 and later).
    pub session_epoch: i32,
    /// The topics in request order.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics in request order.
    pub partitions: Vec<FetchPartition>,
    /// Partitions to forget (v7 and later).
    pub forgotten: Vec<ForgottenTopic>,
    /// The client's rack, empty for none (v11 and later).
    pub rack_id: StrBytes,
}

impl FetchRequest {
    /// Reads the body of a request: everything after the request header.
    ///
    /// # Errors
    /// A body that is not exactly one message of this version.
    pub fn parse(_version: i16, _body: Bytes) -> Result<Self, WireError> {
        unimplemented!()
    }
}
