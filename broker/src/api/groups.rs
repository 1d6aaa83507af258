//! The APIs of classic consumer groups: OffsetCommit (8), OffsetFetch (9), JoinGroup (11), Heartbeat (12), LeaveGroup (13),
//! SyncGroup (14), DescribeGroups (15), ListGroups (16), DeleteGroups (42).
//!
//! Each finds the shard that its group belongs to and asks it; those that name several groups ask several shards.

use std::rc::Rc;
use std::sync::Arc;

use kafka_protocol::messages as m;
use kafka_protocol::messages::GroupId;
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ids::{LeaderEpoch, Offset, PartitionIndex, TopicId};
use protocol_compat::{ErrorCode, codec};

use super::{Context, GROUP_OPERATIONS, OPERATIONS_NOT_ASKED};
use crate::coordinator::group::api::{
    CommitPartition, CommitTopic, DescribedGroup, FetchTopic, FetchedOffsets, ListGroups,
    OffsetCommit, OffsetFetch,
};
use crate::coordinator::group::{GroupRequest, GroupRequestBody, GroupResponse, RequestContext};
use crate::core::Core;
use crate::groups::{ask, ask_shard, shards};
use crate::metadata::text;

fn request(context: &Context, body: GroupRequestBody) -> GroupRequest {
    let context = RequestContext {
        api_version: context.version,
        client_id: (&*context.client_id).into(),
        client_host: format!("/{}", context.peer.address.ip()).into(),
    };
    GroupRequest { context, body }
}

/// The answer of the kind that was asked for; the shard gives no other.
macro_rules! expect {
    ($response:expr, $kind:ident, $otherwise:expr) => {
        match $response {
            GroupResponse::$kind(response) => response,
            _ => $otherwise,
        }
    };
}

/// JoinGroup v0 to v9. KIP-62, KIP-345, KIP-394, KIP-814.
pub async fn join_group(
    core: &Rc<Core>,
    context: &Context,
    wire: m::JoinGroupRequest,
) -> m::JoinGroupResponse {
    let group = wire.group_id.to_string();
    let asked = request(context, GroupRequestBody::JoinGroup(wire));
    let mut response =
        expect!(ask(core, &group, asked).await, JoinGroup, m::JoinGroupResponse::default());
    // Fields that older versions do not have must be at their defaults.
    if context.version < 7 {
        response.protocol_type = None;
        response.protocol_name = Some(response.protocol_name.unwrap_or_default());
    }
    if context.version < 9 {
        response.skip_assignment = false;
    }
    if context.version < 5 {
        for member in &mut response.members {
            member.group_instance_id = None;
        }
    }
    response
}

/// SyncGroup v0 to v5.
pub async fn sync_group(
    core: &Rc<Core>,
    context: &Context,
    wire: m::SyncGroupRequest,
) -> m::SyncGroupResponse {
    let group = wire.group_id.to_string();
    let asked = request(context, GroupRequestBody::SyncGroup(wire));
    let mut response =
        expect!(ask(core, &group, asked).await, SyncGroup, m::SyncGroupResponse::default());
    if context.version < 5 {
        response.protocol_type = None;
        response.protocol_name = None;
    }
    response
}

/// Heartbeat v0 to v4.
pub async fn heartbeat(
    core: &Rc<Core>,
    context: &Context,
    wire: m::HeartbeatRequest,
) -> m::HeartbeatResponse {
    let group = wire.group_id.to_string();
    let asked = request(context, GroupRequestBody::Heartbeat(wire));
    expect!(ask(core, &group, asked).await, Heartbeat, m::HeartbeatResponse::default())
}

/// LeaveGroup v0 to v5. KIP-345 (several members).
pub async fn leave_group(
    core: &Rc<Core>,
    context: &Context,
    wire: m::LeaveGroupRequest,
) -> m::LeaveGroupResponse {
    let group = wire.group_id.to_string();
    let asked = request(context, GroupRequestBody::LeaveGroup(wire));
    expect!(ask(core, &group, asked).await, LeaveGroup, m::LeaveGroupResponse::default())
}

/// OffsetCommit v2 to v10. KIP-848 (topics by id). Partitions that do not exist are answered here; the shard gets the others.
pub async fn offset_commit(
    core: &Rc<Core>,
    context: &Context,
    wire: m::OffsetCommitRequest,
    ids: &[TopicId],
) -> m::OffsetCommitResponse {
    use m::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
    let image = core.image();
    let mut known: Vec<CommitTopic> = Vec::new();
    for (at, topic) in wire.topics.iter().enumerate() {
        let found = match ids.get(at) {
            Some(id) => image.topics().by_id(*id),
            None => image.topics().by_name(&topic.name),
        };
        let partitions = topic.partitions.iter().filter_map(|part| {
            let index = PartitionIndex(part.partition_index);
            found?.partition(index)?;
            let epoch = part.committed_leader_epoch;
            Some(CommitPartition {
                partition: index,
                offset: Offset(part.committed_offset),
                leader_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
                metadata: part.committed_metadata.as_deref().unwrap_or_default().into(),
            })
        });
        known.push(CommitTopic {
            name: found.map_or_else(|| (&**topic.name).into(), |topic| Arc::clone(topic.name())),
            topic_id: found.map(|topic| topic.id()),
            partitions: partitions.collect(),
        });
    }
    let commit = OffsetCommit {
        group_id: (&**wire.group_id).into(),
        generation_id: wire.generation_id_or_member_epoch,
        member_id: (&*wire.member_id).into(),
        group_instance_id: wire.group_instance_id.as_deref().map(Arc::from),
        retention_ms: Some(wire.retention_time_ms).filter(|retention| *retention >= 0),
        topics: known,
    };
    let asked = request(context, GroupRequestBody::OffsetCommit(commit));
    let committed = expect!(ask(core, &wire.group_id, asked).await, OffsetCommit, Vec::new());
    let topics = wire.topics.into_iter().zip(committed).enumerate();
    let topics = topics.map(|(at, (topic, committed))| {
        let id = ids.get(at);
        let unknown = match (id, committed.topic_id) {
            (Some(_), None) => ErrorCode::UnknownTopicId,
            _ => ErrorCode::UnknownTopicOrPartition,
        };
        let mut codes = committed.partitions.into_iter().peekable();
        let parts = topic.partitions.iter().map(|part| {
            let index = PartitionIndex(part.partition_index);
            let code = codes.next_if(|(answered, _)| *answered == index);
            let code = code.map_or(unknown, |(_, code)| code);
            OffsetCommitResponsePartition::default()
                .with_partition_index(index.0)
                .with_error_code(code as i16)
        });
        let parts = parts.collect();
        let answer = OffsetCommitResponseTopic::default().with_partitions(parts);
        match id {
            Some(id) => answer.with_topic_id(id.0),
            None => answer.with_name(topic.name),
        }
    });
    m::OffsetCommitResponse::default().with_topics(topics.collect())
}

/// OffsetFetch v1 to v10. KIP-709 (several groups), KIP-447 (stable offsets), KIP-848 (topics by id).
pub async fn offset_fetch(
    core: &Rc<Core>,
    context: &Context,
    wire: m::OffsetFetchRequest,
    ids: Vec<TopicId>,
) -> m::OffsetFetchResponse {
    use m::offset_fetch_response as r;
    let indexes = |list: Vec<i32>| list.into_iter().map(PartitionIndex).collect();
    if context.version < 8 {
        let topics = wire.topics.map(|topics| {
            let topics = topics.into_iter().map(|topic| FetchTopic {
                name: (&**topic.name).into(),
                topic_id: None,
                partitions: indexes(topic.partition_indexes),
            });
            topics.collect()
        });
        let fetch = OffsetFetch {
            group_id: (&**wire.group_id).into(),
            member_id: None,
            member_epoch: -1,
            topics,
            require_stable: wire.require_stable,
        };
        let asked_topics = fetch.topics.clone();
        let fetched = fetch_one(core, context, fetch).await;
        let answer = m::OffsetFetchResponse::default();
        // Version 1 has no code for the whole: each partition carries it.
        if context.version < 2 && fetched.error != ErrorCode::None {
            let topics = asked_topics.unwrap_or_default().into_iter().map(|topic| {
                let parts = topic.partitions.into_iter().map(|partition| {
                    r::OffsetFetchResponsePartition::default()
                        .with_partition_index(partition.0)
                        .with_committed_offset(-1)
                        .with_metadata(Some(text("")))
                        .with_error_code(fetched.error as i16)
                });
                r::OffsetFetchResponseTopic::default()
                    .with_name(m::TopicName(text(&topic.name)))
                    .with_partitions(parts.collect())
            });
            return answer.with_topics(topics.collect());
        }
        let topics = fetched.topics.into_iter().map(|topic| {
            let parts = topic.partitions.into_iter().map(|part| {
                let epoch = part.leader_epoch.filter(|_| context.version >= 5);
                r::OffsetFetchResponsePartition::default()
                    .with_partition_index(part.partition.0)
                    .with_committed_offset(part.offset.map_or(-1, |offset| offset.0))
                    .with_committed_leader_epoch(epoch.map_or(-1, |epoch| epoch.0))
                    .with_metadata(Some(text(&part.metadata)))
                    .with_error_code(part.error as i16)
            });
            r::OffsetFetchResponseTopic::default()
                .with_name(m::TopicName(text(&topic.name)))
                .with_partitions(parts.collect())
        });
        return answer.with_topics(topics.collect()).with_error_code(fetched.error as i16);
    }
    let image = core.image();
    let by_id = context.version >= 10;
    let mut ids = ids.into_iter();
    let mut groups = Vec::with_capacity(wire.groups.len());
    for group in wire.groups {
        let mut unknown = Vec::new();
        let topics = group.topics.map(|topics| {
            let topics = topics.into_iter().filter_map(|topic| {
                let partitions = indexes(topic.partition_indexes);
                if !by_id {
                    let name = (&**topic.name).into();
                    return Some(FetchTopic { name, topic_id: None, partitions });
                }
                let id = ids.next()?;
                let Some(found) = image.topics().by_id(id) else {
                    unknown.push((id, partitions));
                    return None;
                };
                Some(FetchTopic { name: Arc::clone(found.name()), topic_id: Some(id), partitions })
            });
            topics.collect()
        });
        let fetch = OffsetFetch {
            group_id: (&**group.group_id).into(),
            member_id: group.member_id.as_deref().map(Arc::from),
            member_epoch: group.member_epoch,
            topics,
            require_stable: wire.require_stable,
        };
        let fetched = fetch_one(core, context, fetch).await;
        let topics = fetched.topics.into_iter().filter_map(|topic| {
            let answer = r::OffsetFetchResponseTopics::default();
            let answer = if by_id {
                // Of a topic that is gone there is nothing to say.
                let found = image.topics().by_name(&topic.name)?.id();
                if topic.topic_id.is_some_and(|id| id != found) {
                    return None;
                }
                answer.with_topic_id(found.0)
            } else {
                answer.with_name(m::TopicName(text(&topic.name)))
            };
            let parts = topic.partitions.into_iter().map(|part| {
                r::OffsetFetchResponsePartitions::default()
                    .with_partition_index(part.partition.0)
                    .with_committed_offset(part.offset.map_or(-1, |offset| offset.0))
                    .with_committed_leader_epoch(part.leader_epoch.map_or(-1, |epoch| epoch.0))
                    .with_metadata(Some(text(&part.metadata)))
                    .with_error_code(part.error as i16)
            });
            Some(answer.with_partitions(parts.collect()))
        });
        let unknown = unknown.into_iter().map(|(id, partitions): (_, Vec<PartitionIndex>)| {
            let parts = partitions.into_iter().map(|partition| {
                r::OffsetFetchResponsePartitions::default()
                    .with_partition_index(partition.0)
                    .with_committed_offset(-1)
                    .with_committed_leader_epoch(-1)
                    .with_metadata(Some(text("")))
                    .with_error_code(ErrorCode::UnknownTopicId as i16)
            });
            r::OffsetFetchResponseTopics::default()
                .with_topic_id(id.0)
                .with_partitions(parts.collect())
        });
        let unknown: Vec<_> =
            if fetched.error == ErrorCode::None { unknown.collect() } else { Vec::new() };
        groups.push(
            r::OffsetFetchResponseGroup::default()
                .with_group_id(GroupId(text(&fetched.group_id)))
                .with_topics(topics.chain(unknown).collect())
                .with_error_code(fetched.error as i16),
        );
    }
    m::OffsetFetchResponse::default().with_groups(groups)
}

async fn fetch_one(core: &Rc<Core>, context: &Context, fetch: OffsetFetch) -> FetchedOffsets {
    let group_id = Arc::clone(&fetch.group_id);
    let asked = request(context, GroupRequestBody::OffsetFetch(fetch));
    let failed = FetchedOffsets {
        group_id: Arc::clone(&group_id),
        error: ErrorCode::UnknownServerError,
        topics: Vec::new(),
    };
    expect!(ask(core, &group_id, asked).await, OffsetFetch, failed)
}

/// ListGroups v0 to v5. KIP-518 (states), KIP-848 (types).
pub async fn list_groups(
    core: &Rc<Core>,
    context: &Context,
    wire: m::ListGroupsRequest,
) -> m::ListGroupsResponse {
    let names = |list: &[StrBytes]| list.iter().map(|name| Arc::from(name.as_str())).collect();
    let filter =
        ListGroups { states: names(&wire.states_filter), types: names(&wire.types_filter) };
    let mut groups = Vec::new();
    let mut error = ErrorCode::None;
    for shard in shards(core) {
        let asked = request(context, GroupRequestBody::ListGroups(filter.clone()));
        let listed = expect!(ask_shard(core, shard, asked).await, ListGroups, Ok(Vec::new()));
        match listed {
            Ok(list) => groups.extend(list.into_iter().map(|group| {
                let listed = m::list_groups_response::ListedGroup::default()
                    .with_group_id(GroupId(text(&group.group_id)))
                    .with_protocol_type(text(&group.protocol_type));
                let listed = if context.version >= 4 {
                    listed.with_group_state(text(group.state))
                } else {
                    listed
                };
                if context.version >= 5 {
                    listed.with_group_type(text(group.group_type))
                } else {
                    listed
                }
            })),
            // A shard that another broker leads is listed there.
            Err(ErrorCode::NotCoordinator) => {}
            Err(code) => error = code,
        }
    }
    m::ListGroupsResponse::default().with_groups(groups).with_error_code(error as i16)
}

/// DescribeGroups v0 to v6. KIP-430 (operations), KIP-1043 (error messages).
pub async fn describe_groups(
    core: &Rc<Core>,
    context: &Context,
    wire: m::DescribeGroupsRequest,
) -> m::DescribeGroupsResponse {
    use m::describe_groups_response as r;
    let operations =
        if wire.include_authorized_operations { GROUP_OPERATIONS } else { OPERATIONS_NOT_ASKED };
    let mut groups = Vec::with_capacity(wire.groups.len());
    for id in wire.groups {
        let body = GroupRequestBody::DescribeGroups(vec![id.as_str().into()]);
        let answer = ask(core, &id, request(context, body)).await;
        let list = expect!(answer, DescribeGroups, Vec::new());
        let group = list.into_iter().next().unwrap_or_else(|| {
            DescribedGroup::failed(id.as_str().into(), ErrorCode::UnknownServerError)
        });
        let members = group.members.into_iter().map(|member| {
            let instance = member.group_instance_id.filter(|_| context.version >= 4);
            r::DescribedGroupMember::default()
                .with_member_id(text(&member.member_id))
                .with_group_instance_id(instance.as_deref().map(text))
                .with_client_id(text(&member.client_id))
                .with_client_host(text(&member.client_host))
                .with_member_metadata(member.metadata)
                .with_member_assignment(member.assignment)
        });
        let described = r::DescribedGroup::default()
            .with_error_code(group.error as i16)
            .with_group_id(id)
            .with_group_state(text(group.state))
            .with_protocol_type(text(&group.protocol_type))
            .with_protocol_data(text(&group.protocol))
            .with_members(members.collect())
            .with_authorized_operations(operations);
        groups.push(if context.version >= 6 {
            described.with_error_message(group.error_message.as_deref().map(text))
        } else {
            described
        });
    }
    m::DescribeGroupsResponse::default().with_groups(groups)
}

/// DeleteGroups v0 to v3. KIP-229, KIP-1043 (messages).
pub async fn delete_groups(
    core: &Rc<Core>,
    context: &Context,
    wire: m::DeleteGroupsRequest,
) -> codec::DeleteGroupsResponse {
    let mut results = Vec::with_capacity(wire.groups_names.len());
    for id in wire.groups_names {
        let body = GroupRequestBody::DeleteGroups(vec![id.as_str().into()]);
        let answer = ask(core, &id, request(context, body)).await;
        let list = expect!(answer, DeleteGroups, Vec::new());
        let code = list.first().map_or(ErrorCode::UnknownServerError, |group| group.error);
        results.push(
            m::delete_groups_response::DeletableGroupResult::default()
                .with_group_id(id)
                .with_error_code(code as i16),
        );
    }
    let response = m::DeleteGroupsResponse::default().with_results(results);
    // Kafka has a message for no code that classic groups give.
    codec::DeleteGroupsResponse { response, messages: Vec::new() }
}
