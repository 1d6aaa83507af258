//! Requests and answers of a group shard.
//!
//! Messages that name one group are the wire's own types. Those that may name groups of several shards (OffsetFetch from
//! v8, DescribeGroups, DeleteGroups, ListGroups), and OffsetCommit, whose topics the API handler has checked and named,
//! come in a shape of their own, for one shard; `wire` splits and joins them.

use std::sync::Arc;

use kafka_protocol::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;
use protocol_compat::ids::{LeaderEpoch, Offset, PartitionIndex, TopicId};

/// Who sent a request, and in which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestContext {
    /// Version of the request; rules of JoinGroup, OffsetCommit and DescribeGroups depend on it.
    pub api_version: i16,
    /// The header's client id; empty when null.
    pub client_id: Arc<str>,
    /// The peer's address as Kafka prints it: a slash, then the address without the port, as in `/127.0.0.1`.
    pub client_host: Arc<str>,
}

/// A request to a group shard.
#[derive(Clone, Debug)]
pub struct GroupRequest {
    /// Who asks.
    pub context: RequestContext,
    /// What.
    pub body: GroupRequestBody,
}

/// The requests of a group shard, authorised, with topics resolved.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "named as Kafka's messages")]
pub enum GroupRequestBody {
    JoinGroup(JoinGroupRequest),
    SyncGroup(SyncGroupRequest),
    Heartbeat(HeartbeatRequest),
    LeaveGroup(LeaveGroupRequest),
    OffsetCommit(OffsetCommit),
    OffsetFetch(OffsetFetch),
    DescribeGroups(Vec<Arc<str>>),
    ListGroups(ListGroups),
    DeleteGroups(Vec<Arc<str>>),
    TopicDeleted { name: Arc<str> },
}

/// The answers, one kind for each request.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as Kafka's messages")]
pub enum GroupResponse {
    JoinGroup(JoinGroupResponse),
    SyncGroup(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    LeaveGroup(LeaveGroupResponse),
    OffsetCommit(Vec<CommittedTopic>),
    OffsetFetch(FetchedOffsets),
    DescribeGroups(Vec<DescribedGroup>),
    ListGroups(Result<Vec<ListedGroup>, ErrorCode>),
    DeleteGroups(Vec<DeletedGroup>),
    TopicDeleted,
}

/// An OffsetCommit whose topics exist and may be read by the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCommit {
    /// The group.
    pub group_id: Arc<str>,
    /// Generation of the member, or -1 from one that is in no generation.
    pub generation_id: i32,
    /// The member; empty when there is none.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member (v7).
    pub group_instance_id: Option<Arc<str>>,
    /// Retention of these offsets (v2 to v4); `None` is the broker's.
    pub retention_ms: Option<i64>,
    /// What is committed, in the order of the request.
    pub topics: Vec<CommitTopic>,
}

/// Offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTopic {
    /// The topic.
    pub name: Arc<str>,
    /// Its id. Kafka writes it into the record also when the client named the topic by its name.
    pub topic_id: Option<TopicId>,
    /// Its partitions.
    pub partitions: Vec<CommitPartition>,
}

/// The offset of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitPartition {
    /// The partition.
    pub partition: PartitionIndex,
    /// The next offset to read.
    pub offset: Offset,
    /// Epoch of the last record that was read (v6).
    pub leader_epoch: Option<LeaderEpoch>,
    /// Free text of the client; null is empty.
    pub metadata: Arc<str>,
}

/// What became of the offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedTopic {
    /// The topic.
    pub name: Arc<str>,
    /// Its id as in the request.
    pub topic_id: Option<TopicId>,
    /// A code for each partition, in the order of the request.
    pub partitions: Vec<(PartitionIndex, ErrorCode)>,
}

/// One group of an OffsetFetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetch {
    /// The group.
    pub group_id: Arc<str>,
    /// The member (v9), for consumer groups.
    pub member_id: Option<Arc<str>>,
    /// Its epoch (v9), or -1.
    pub member_epoch: i32,
    /// `None` asks for everything that the group has committed.
    pub topics: Option<Vec<FetchTopic>>,
    /// Whether an offset with a pending transactional commit is answered with `UNSTABLE_OFFSET_COMMIT` (v7).
    pub require_stable: bool,
}

/// Partitions of one topic whose offsets are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchTopic {
    /// The topic.
    pub name: Arc<str>,
    /// Its id, given back as it came.
    pub topic_id: Option<TopicId>,
    /// Its partitions.
    pub partitions: Vec<PartitionIndex>,
}

/// The offsets of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffsets {
    /// The group.
    pub group_id: Arc<str>,
    /// An error of the whole group; `topics` is empty then.
    pub error: ErrorCode,
    /// As asked for, or all by name.
    pub topics: Vec<FetchedTopic>,
}

/// Offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedTopic {
    /// The topic.
    pub name: Arc<str>,
    /// Its id: as asked for; for "all" the one that was committed with.
    pub topic_id: Option<TopicId>,
    /// Its partitions.
    pub partitions: Vec<FetchedPartition>,
}

/// The offset of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The partition.
    pub partition: PartitionIndex,
    /// The committed offset; `None` (-1 on the wire) when there is none.
    pub offset: Option<Offset>,
    /// The epoch that was committed with it.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The metadata that was committed with it.
    pub metadata: Arc<str>,
    /// `NONE` or `UNSTABLE_OFFSET_COMMIT`.
    pub error: ErrorCode,
}

/// Filters of ListGroups; an empty list lets everything pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListGroups {
    /// State names (v4), compared without regard to case.
    pub states: Vec<Arc<str>>,
    /// Type names (v5), compared without regard to case.
    pub types: Vec<Arc<str>>,
}

/// One row of ListGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group.
    pub group_id: Arc<str>,
    /// `consumer`, `connect`, ...; empty for groups that only hold offsets.
    pub protocol_type: Arc<str>,
    /// State as Kafka spells it, such as `Stable`.
    pub state: &'static str,
    /// Type as Kafka spells it: `classic`, `consumer`, `share`, `streams`.
    pub group_type: &'static str,
}

/// One group of DescribeGroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedGroup {
    /// The group.
    pub group_id: Arc<str>,
    /// `NONE`, or `GROUP_ID_NOT_FOUND` from v6.
    pub error: ErrorCode,
    /// Text of the error (v6).
    pub error_message: Option<String>,
    /// State as Kafka spells it, `Dead` for a group that is not there.
    pub state: &'static str,
    /// As in the first member's JoinGroup; empty for groups that only hold offsets.
    pub protocol_type: Arc<str>,
    /// The chosen protocol; empty unless the group is stable.
    pub protocol: Arc<str>,
    /// The members; metadata and assignment are empty unless the group is stable.
    pub members: Vec<DescribedMember>,
}

/// One member of a described group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as Kafka's fields")]
pub struct DescribedMember {
    pub member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub metadata: bytes::Bytes,
    pub assignment: bytes::Bytes,
}

/// What became of a group that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedGroup {
    /// The group.
    pub group_id: Arc<str>,
    /// `NONE`, `NON_EMPTY_GROUP`, `GROUP_ID_NOT_FOUND`, ...
    pub error: ErrorCode,
}

/// The answer to a request that did not reach its group.
#[must_use]
pub fn refuse(request: GroupRequest, code: ErrorCode) -> GroupResponse {
    let number = code as i16;
    match request.body {
        GroupRequestBody::JoinGroup(request) => {
            let response = JoinGroupResponse::default()
                .with_error_code(number)
                .with_generation_id(-1)
                .with_protocol_name(Some(StrBytes::from_static_str("")))
                .with_member_id(request.member_id);
            GroupResponse::JoinGroup(response)
        }
        GroupRequestBody::SyncGroup(_) => {
            GroupResponse::SyncGroup(SyncGroupResponse::default().with_error_code(number))
        }
        GroupRequestBody::Heartbeat(_) => {
            GroupResponse::Heartbeat(HeartbeatResponse::default().with_error_code(number))
        }
        GroupRequestBody::LeaveGroup(_) => {
            GroupResponse::LeaveGroup(LeaveGroupResponse::default().with_error_code(number))
        }
        GroupRequestBody::OffsetCommit(request) => {
            GroupResponse::OffsetCommit(committed(&request, |_| code))
        }
        GroupRequestBody::OffsetFetch(request) => GroupResponse::OffsetFetch(FetchedOffsets {
            group_id: request.group_id,
            error: code,
            topics: Vec::new(),
        }),
        GroupRequestBody::DescribeGroups(ids) => GroupResponse::DescribeGroups(
            ids.into_iter().map(|id| DescribedGroup::failed(id, code)).collect(),
        ),
        GroupRequestBody::ListGroups(_) => GroupResponse::ListGroups(Err(code)),
        GroupRequestBody::DeleteGroups(ids) => GroupResponse::DeleteGroups(
            ids.into_iter().map(|group_id| DeletedGroup { group_id, error: code }).collect(),
        ),
        GroupRequestBody::TopicDeleted { .. } => GroupResponse::TopicDeleted,
    }
}

/// An answer that waited for its records, which failed.
#[must_use]
pub fn fail(response: GroupResponse, code: ErrorCode) -> GroupResponse {
    let number = code as i16;
    match response {
        GroupResponse::JoinGroup(response) => GroupResponse::JoinGroup(
            JoinGroupResponse::default()
                .with_error_code(number)
                .with_generation_id(-1)
                .with_protocol_name(Some(StrBytes::from_static_str("")))
                .with_member_id(response.member_id),
        ),
        GroupResponse::SyncGroup(_) => {
            GroupResponse::SyncGroup(SyncGroupResponse::default().with_error_code(number))
        }
        GroupResponse::Heartbeat(_) => {
            GroupResponse::Heartbeat(HeartbeatResponse::default().with_error_code(number))
        }
        GroupResponse::LeaveGroup(_) => {
            GroupResponse::LeaveGroup(LeaveGroupResponse::default().with_error_code(number))
        }
        GroupResponse::OffsetCommit(topics) => {
            let failed = topics.into_iter().map(|mut topic| {
                for (_, error) in &mut topic.partitions {
                    *error = code;
                }
                topic
            });
            GroupResponse::OffsetCommit(failed.collect())
        }
        GroupResponse::OffsetFetch(fetched) => GroupResponse::OffsetFetch(FetchedOffsets {
            group_id: fetched.group_id,
            error: code,
            topics: Vec::new(),
        }),
        GroupResponse::DescribeGroups(list) => GroupResponse::DescribeGroups(
            list.into_iter().map(|group| DescribedGroup::failed(group.group_id, code)).collect(),
        ),
        GroupResponse::ListGroups(_) => GroupResponse::ListGroups(Err(code)),
        GroupResponse::DeleteGroups(list) => GroupResponse::DeleteGroups(
            list.into_iter()
                .map(|group| DeletedGroup { group_id: group.group_id, error: code })
                .collect(),
        ),
        GroupResponse::TopicDeleted => GroupResponse::TopicDeleted,
    }
}

/// The answer to a commit, with a code for each partition.
#[must_use]
pub fn committed(
    request: &OffsetCommit,
    code: impl Fn(&CommitPartition) -> ErrorCode,
) -> Vec<CommittedTopic> {
    let topics = request.topics.iter().map(|topic| CommittedTopic {
        name: Arc::clone(&topic.name),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|part| (part.partition, code(part))).collect(),
    });
    topics.collect()
}

impl DescribedGroup {
    /// A group that cannot be described.
    #[must_use]
    pub fn failed(group_id: Arc<str>, error: ErrorCode) -> Self {
        Self {
            group_id,
            error,
            error_message: None,
            state: "",
            protocol_type: "".into(),
            protocol: "".into(),
            members: Vec::new(),
        }
    }
}
