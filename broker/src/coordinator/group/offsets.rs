//! Committed offsets, and what is asked about groups as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{PartitionIndex, Timestamp};

use super::api::{
    DeletedGroup, DescribedGroup, DescribedMember, FetchedOffsets, FetchedPartition, FetchedTopic,
    ListGroups, ListedGroup, OffsetCommit, OffsetFetch, committed,
};
use super::classic::{Group, State};
use super::records::{OffsetValue, group_record, offset_record};
use super::{Fx, GroupResponse, GroupShard, RequestContext};
use crate::coordinator::shard::{Now, Token};

/// Kafka's name of this kind of group.
const CLASSIC: &str = "classic";

impl GroupShard {
    /// Sets or takes away one committed offset; gives what was there.
    pub(super) fn put_offset(
        &mut self,
        group: &Arc<str>,
        place: (Arc<str>, PartitionIndex),
        value: Option<OffsetValue>,
    ) -> Option<OffsetValue> {
        match value {
            Some(value) => self.offsets.entry(Arc::clone(group)).or_default().insert(place, value),
            None => {
                let offsets = self.offsets.get_mut(group)?;
                let before = offsets.remove(&place);
                if offsets.is_empty() {
                    self.offsets.remove(group);
                }
                before
            }
        }
    }

    pub(super) fn commit(
        &mut self,
        now: Now,
        token: Token,
        context: &RequestContext,
        request: OffsetCommit,
        fx: &mut Fx,
    ) {
        if let Err(code) = self.check_commit(now, context, &request) {
            let answer = GroupResponse::OffsetCommit(committed(&request, |_| code));
            fx.replies.push((token, answer));
            return;
        }
        let limit = self.config.offset_metadata_max;
        let code = |metadata: &str| {
            if metadata.encode_utf16().count() > limit {
                ErrorCode::OffsetMetadataTooLarge
            } else {
                ErrorCode::None
            }
        };
        for topic in &request.topics {
            for part in &topic.partitions {
                if code(&part.metadata) != ErrorCode::None {
                    continue;
                }
                let expire = request
                    .retention_ms
                    .filter(|retention| *retention >= 0)
                    .map(|retention| Timestamp(now.wall.0.saturating_add(retention)));
                let value = OffsetValue {
                    offset: part.offset,
                    leader_epoch: part.leader_epoch,
                    metadata: Arc::clone(&part.metadata),
                    commit_timestamp: now.wall,
                    expire_timestamp: expire,
                    topic_id: topic.topic_id,
                };
                let record =
                    offset_record(&request.group_id, &topic.name, part.partition, Some(&value));
                fx.records.push(record);
            }
        }
        let answer = committed(&request, |part| code(&part.metadata));
        fx.replies_when_committed.push((token, GroupResponse::OffsetCommit(answer)));
    }

    fn check_commit(
        &mut self,
        now: Now,
        context: &RequestContext,
        request: &OffsetCommit,
    ) -> Result<(), ErrorCode> {
        // The group without a name is one of those that only keep offsets: old simple consumers use it.
        let id = &request.group_id;
        let groups_max = self.config.groups_max;
        let count = self.groups.len();
        let Some(group) = self.groups.get_mut(id) else {
            if request.generation_id >= 0 {
                let old = context.api_version < 9;
                return Err(if old {
                    ErrorCode::IllegalGeneration
                } else {
                    ErrorCode::GroupIdNotFound
                });
            }
            if count >= groups_max {
                return Err(ErrorCode::PolicyViolation);
            }
            // A consumer that manages its partitions itself.
            self.groups.insert(Arc::clone(id), Group::new(Arc::clone(id), now.wall.0));
            return Ok(());
        };
        if request.generation_id < 0 && group.state == State::Empty {
            return Ok(());
        }
        let is_member = request.generation_id >= 0
            || !request.member_id.is_empty()
            || request.group_instance_id.is_some();
        if !is_member {
            return Err(ErrorCode::UnknownMemberId);
        }
        group.check_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if group.state == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        group.touch(&request.member_id, now.clock);
        Ok(())
    }

    pub(super) fn fetch_offsets(&self, request: OffsetFetch) -> FetchedOffsets {
        let none = super::Offsets::new();
        let offsets = self.offsets.get(&request.group_id).unwrap_or(&none);
        let unstable: BTreeSet<_> = self
            .pending_offsets
            .values()
            .flatten()
            .filter(|(group, _, _)| request.require_stable && *group == request.group_id)
            .map(|(_, place, _)| place.clone())
            .collect();
        let find = |topic: &Arc<str>, partition: PartitionIndex| {
            let place = (Arc::clone(topic), partition);
            let missing = |error| FetchedPartition {
                partition,
                offset: None,
                leader_epoch: None,
                metadata: "".into(),
                error,
            };
            if unstable.contains(&place) {
                return missing(ErrorCode::UnstableOffsetCommit);
            }
            match offsets.get(&place) {
                Some(value) => FetchedPartition {
                    partition,
                    offset: Some(value.offset),
                    leader_epoch: value.leader_epoch,
                    metadata: Arc::clone(&value.metadata),
                    error: ErrorCode::None,
                },
                None => missing(ErrorCode::None),
            }
        };
        let topics = match request.topics {
            Some(topics) => topics
                .into_iter()
                .map(|topic| FetchedTopic {
                    partitions: topic.partitions.iter().map(|p| find(&topic.name, *p)).collect(),
                    name: topic.name,
                    topic_id: topic.topic_id,
                })
                .collect(),
            None => {
                let mut topics: Vec<FetchedTopic> = Vec::new();
                for ((topic, partition), value) in offsets {
                    let found = find(topic, *partition);
                    match topics.last_mut().filter(|last| last.name == *topic) {
                        Some(last) => last.partitions.push(found),
                        None => topics.push(FetchedTopic {
                            name: Arc::clone(topic),
                            topic_id: value.topic_id,
                            partitions: vec![found],
                        }),
                    }
                }
                topics
            }
        };
        FetchedOffsets { group_id: request.group_id, error: ErrorCode::None, topics }
    }

    pub(super) fn list(&self, filter: &ListGroups) -> Vec<ListedGroup> {
        let passes = |list: &[Arc<str>], name: &str| {
            list.is_empty() || list.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
        };
        self.groups
            .values()
            .filter(|group| passes(&filter.states, group.state.name()))
            .filter(|_| passes(&filter.types, CLASSIC))
            .map(|group| ListedGroup {
                group_id: Arc::clone(&group.id),
                protocol_type: group.protocol_type.clone().unwrap_or_else(|| "".into()),
                state: group.state.name(),
                group_type: CLASSIC,
            })
            .collect()
    }

    pub(super) fn describe(&self, context: &RequestContext, id: &Arc<str>) -> DescribedGroup {
        let Some(group) = self.groups.get(id) else {
            let known = context.api_version >= 6;
            let mut missing = DescribedGroup::failed(Arc::clone(id), ErrorCode::None);
            missing.state = "Dead";
            if known {
                missing.error = ErrorCode::GroupIdNotFound;
                missing.error_message = Some(format!("Group {id} not found."));
            }
            return missing;
        };
        let stable = group.state == State::Stable;
        let protocol = group.protocol.clone().filter(|_| stable).unwrap_or_else(|| "".into());
        let members = group.members.iter().map(|(member_id, member)| DescribedMember {
            member_id: Arc::clone(member_id),
            group_instance_id: member.instance_id.clone(),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            metadata: if stable { member.metadata(&protocol) } else { Bytes::new() },
            assignment: if stable { member.assignment.clone() } else { Bytes::new() },
        });
        DescribedGroup {
            group_id: Arc::clone(id),
            error: ErrorCode::None,
            error_message: None,
            state: group.state.name(),
            protocol_type: group.protocol_type.clone().unwrap_or_else(|| "".into()),
            members: members.collect(),
            protocol,
        }
    }

    pub(super) fn delete_group(&mut self, id: &Arc<str>, fx: &mut Fx) -> DeletedGroup {
        let error = match self.groups.get(id) {
            None => ErrorCode::GroupIdNotFound,
            Some(group) if group.state != State::Empty => ErrorCode::NonEmptyGroup,
            Some(_) => {
                self.forget(id, fx);
                ErrorCode::None
            }
        };
        DeletedGroup { group_id: Arc::clone(id), error }
    }

    /// Takes a group and all of its offsets away.
    fn forget(&mut self, id: &Arc<str>, fx: &mut Fx) {
        for (topic, partition) in self.offsets.get(id).into_iter().flat_map(|map| map.keys()) {
            fx.records.push(offset_record(id, topic, *partition, None));
        }
        if let Some(group) = self.groups.remove(id) {
            if group.is_recorded {
                fx.records.push(group_record(id, None));
            }
            self.members -= group.members.len().min(self.members);
        }
        self.deadlines.remove(id);
    }

    pub(super) fn topic_deleted(&mut self, name: &str, fx: &mut Fx) {
        for (id, offsets) in &self.offsets {
            for (topic, partition) in offsets.keys().filter(|(topic, _)| **topic == *name) {
                fx.records.push(offset_record(id, topic, *partition, None));
            }
        }
    }

    /// Takes away offsets that nobody has used for `offsets.retention.minutes`, and then groups without any (KIP-211).
    pub(super) fn expire_offsets(&mut self, now: Now, fx: &mut Fx) {
        let retention =
            i64::try_from(self.config.offsets_retention.as_millis()).unwrap_or(i64::MAX);
        let mut empty = Vec::new();
        for (id, group) in &self.groups {
            let used = subscribed(group);
            let none = super::Offsets::new();
            let offsets = self.offsets.get(id).unwrap_or(&none);
            let mut left = 0;
            for ((topic, partition), value) in offsets {
                let since = match (&group.protocol_type, group.state) {
                    // From when the group became empty, if that was after the commit.
                    (Some(_), State::Empty) => value.commit_timestamp.0.max(group.state_since),
                    (None, _) => value.commit_timestamp.0,
                    // Members are there: only topics that they no longer read.
                    (Some(_), _) => match &used {
                        Some(used) if !used.contains(topic) => value.commit_timestamp.0,
                        _ => {
                            left += 1;
                            continue;
                        }
                    },
                };
                let expires = match value.expire_timestamp {
                    Some(expire) => expire.0,
                    None => since.saturating_add(retention),
                };
                if now.wall.0 >= expires {
                    fx.records.push(offset_record(id, topic, *partition, None));
                } else {
                    left += 1;
                }
            }
            if left == 0 && group.state == State::Empty && group.pending.is_empty() {
                empty.push(Arc::clone(id));
            }
        }
        for id in empty {
            let recorded = self.groups.remove(&id).is_some_and(|group| group.is_recorded);
            if recorded {
                fx.records.push(group_record(&id, None));
            }
            self.deadlines.remove(&id);
        }
    }
}

/// The topics that the members of a consumer group read; `None` where that cannot be told.
fn subscribed(group: &Group) -> Option<BTreeSet<Arc<str>>> {
    if group.protocol_type.as_deref() != Some("consumer") || group.state != State::Stable {
        return None;
    }
    let protocol = group.protocol.clone()?;
    let mut topics = BTreeSet::new();
    for member in group.members.values() {
        topics.append(&mut subscription_topics(member.metadata(&protocol))?);
    }
    Some(topics)
}

/// The topics of a ConsumerProtocolSubscription of any version: version i16, then a list of texts.
fn subscription_topics(mut bytes: Bytes) -> Option<BTreeSet<Arc<str>>> {
    if bytes.len() < 6 {
        return None;
    }
    bytes.advance(2);
    let count = usize::try_from(bytes.get_i32()).ok()?;
    let mut topics = BTreeSet::new();
    for _ in 0..count {
        if bytes.len() < 2 {
            return None;
        }
        let size = usize::try_from(bytes.get_i16()).ok().filter(|size| *size <= bytes.len())?;
        topics.insert(std::str::from_utf8(&bytes.split_to(size)).ok()?.into());
    }
    Some(topics)
}
