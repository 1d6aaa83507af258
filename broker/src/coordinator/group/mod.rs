//! The group coordinator: classic groups and committed offsets of one partition of `__consumer_offsets`.
//!
//! Committed offsets are hard state: only [`Shard::replay`] changes them, and a failed append takes them back. Membership is
//! soft, as in Kafka: sessions and rebalances live here, and the group's record is a copy, written when a generation is
//! assigned or empties, from which a load begins.

pub mod api;
pub mod classic;
pub mod config;
mod join;
mod offsets;
pub mod records;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kafka_protocol::messages as m;
use protocol_compat::ErrorCode;
use protocol_compat::ids::{PartitionIndex, ProducerId};

pub use api::{GroupRequest, GroupRequestBody, GroupResponse, RequestContext};
pub use config::GroupConfig;

use super::shard::{CoordinatorRecord, Effects, Now, ReplayContext, ReplayError, Shard, Token};
use classic::Group;
use records::{Key, OffsetValue};

/// Offsets of one group, by topic and partition.
type Offsets = BTreeMap<(Arc<str>, PartitionIndex), OffsetValue>;

/// The groups of one partition of `__consumer_offsets`.
#[derive(Debug)]
pub struct GroupShard {
    config: GroupConfig,
    groups: BTreeMap<Arc<str>, Group>,
    offsets: BTreeMap<Arc<str>, Offsets>,
    /// Offsets that a transaction wrote and has not committed.
    pending_offsets: BTreeMap<ProducerId, Vec<(Arc<str>, (Arc<str>, PartitionIndex), OffsetValue)>>,
    /// Groups of the log whose sessions begin when the load is done.
    recorded: BTreeMap<Arc<str>, records::GroupValue>,
    is_loaded: bool,
    /// Each group's next deadline, so that a tick looks only at groups with something due.
    deadlines: BTreeMap<Arc<str>, Instant>,
    expiry_check: Option<Instant>,
    entropy: u128,
    ids: u64,
    members: usize,
}

/// What undoes one record of a group.
#[derive(Debug)]
pub enum Undo {
    /// Membership is not changed by records while the shard serves.
    Nothing,
    /// Puts back what a committed offset was.
    Offset {
        /// The group.
        group: Arc<str>,
        /// Topic and partition.
        place: (Arc<str>, PartitionIndex),
        /// What was there.
        before: Option<OffsetValue>,
    },
}

/// What waits for the records of a group.
#[derive(Debug)]
pub enum Continuation {
    /// The assignment of this generation is in the log, or is not.
    Assigned {
        /// The group.
        group: Arc<str>,
        /// The generation.
        generation: i32,
    },
}

type Fx = Effects<GroupResponse, Continuation>;

impl GroupShard {
    /// The empty state of a partition. `entropy` is a secret that member ids are made from.
    #[must_use]
    pub fn new(config: GroupConfig, _partition: PartitionIndex, entropy: u128) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            offsets: BTreeMap::new(),
            pending_offsets: BTreeMap::new(),
            recorded: BTreeMap::new(),
            is_loaded: false,
            deadlines: BTreeMap::new(),
            expiry_check: None,
            entropy,
            ids: 0,
            members: 0,
        }
    }

    /// A member id that nobody can guess: `prefix-uuid`.
    fn new_member_id(&mut self, prefix: &str) -> Arc<str> {
        use std::hash::{BuildHasher, Hash, Hasher};
        self.ids += 1;
        let mut halves = [0_u64; 2];
        for (at, half) in halves.iter_mut().enumerate() {
            let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
            (self.entropy, self.ids, at).hash(&mut hasher);
            *half = hasher.finish();
        }
        let id = uuid::Builder::from_random_bytes(
            (u128::from(halves[0]) << 64 | u128::from(halves[1])).to_be_bytes(),
        )
        .into_uuid();
        format!("{prefix}-{id}").into()
    }

    /// After a group was touched: its next deadline, and whether it is still worth keeping.
    fn settle(&mut self, id: &str) {
        let Some(group) = self.groups.get(id) else {
            self.deadlines.remove(id);
            return;
        };
        match group.next_deadline() {
            Some(deadline) => {
                self.deadlines.insert(Arc::clone(&group.id), deadline);
            }
            None => {
                self.deadlines.remove(id);
            }
        }
    }
}

impl Shard for GroupShard {
    type Request = GroupRequest;
    type Response = GroupResponse;
    type Undo = Undo;
    type Continuation = Continuation;

    fn decide(&mut self, now: Now, token: Token, request: GroupRequest, fx: &mut Fx) {
        let GroupRequest { context, body } = request;
        match body {
            GroupRequestBody::JoinGroup(request) => {
                let id = request.group_id.to_string();
                self.join(now, token, &context, request, fx);
                self.settle(&id);
            }
            GroupRequestBody::SyncGroup(request) => {
                let id = request.group_id.to_string();
                self.sync(now, token, request, fx);
                self.settle(&id);
            }
            GroupRequestBody::Heartbeat(request) => {
                let id = request.group_id.to_string();
                let code = self.heartbeat(now, &request);
                let response = m::HeartbeatResponse::default().with_error_code(code as i16);
                fx.replies.push((token, GroupResponse::Heartbeat(response)));
                self.settle(&id);
            }
            GroupRequestBody::LeaveGroup(request) => {
                let id = request.group_id.to_string();
                let response = self.leave(now, &context, request, fx);
                fx.replies_when_committed.push((token, GroupResponse::LeaveGroup(response)));
                self.settle(&id);
            }
            GroupRequestBody::OffsetCommit(request) => {
                let id = Arc::clone(&request.group_id);
                self.commit(now, token, &context, request, fx);
                self.settle(&id);
            }
            GroupRequestBody::OffsetFetch(request) => {
                let response = GroupResponse::OffsetFetch(self.fetch_offsets(request));
                fx.replies_when_committed.push((token, response));
            }
            GroupRequestBody::DescribeGroups(ids) => {
                let list = ids.iter().map(|id| self.describe(&context, id)).collect();
                fx.replies.push((token, GroupResponse::DescribeGroups(list)));
            }
            GroupRequestBody::ListGroups(filter) => {
                fx.replies.push((token, GroupResponse::ListGroups(Ok(self.list(&filter)))));
            }
            GroupRequestBody::DeleteGroups(ids) => {
                let list = ids.iter().map(|id| self.delete_group(id, fx)).collect();
                fx.replies_when_committed.push((token, GroupResponse::DeleteGroups(list)));
            }
            GroupRequestBody::TopicDeleted { name } => {
                self.topic_deleted(&name, fx);
                fx.replies.push((token, GroupResponse::TopicDeleted));
            }
        }
    }

    fn replay(
        &mut self,
        context: ReplayContext,
        record: &CoordinatorRecord,
    ) -> Result<Undo, ReplayError> {
        match records::read_key(&record.key)? {
            Key::Offset { group, topic, partition } => {
                let value = record.value.as_deref().map(records::read_offset).transpose()?;
                let place = (topic, partition);
                if let (Some((producer, _)), Some(value)) = (context.producer, value.clone()) {
                    let pending = self.pending_offsets.entry(producer).or_default();
                    pending.push((group, place, value));
                    return Ok(Undo::Nothing);
                }
                let before = self.put_offset(&group, place.clone(), value);
                Ok(Undo::Offset { group, place, before })
            }
            Key::Group { group } => {
                if !self.is_loaded {
                    match record.value.as_deref().map(records::read_group).transpose()? {
                        Some(value) => drop(self.recorded.insert(group, value)),
                        None => drop(self.recorded.remove(&group)),
                    }
                }
                Ok(Undo::Nothing)
            }
            Key::Other(kind) => {
                tracing::debug!(kind, "a record of another kind of group is left alone");
                Ok(Undo::Nothing)
            }
        }
    }

    fn replay_end_transaction(&mut self, producer: ProducerId, commit: bool) {
        for (group, place, value) in self.pending_offsets.remove(&producer).unwrap_or_default() {
            if commit {
                self.put_offset(&group, place, Some(value));
            }
        }
    }

    fn revert(&mut self, undo: Undo) {
        match undo {
            Undo::Nothing => {}
            Undo::Offset { group, place, before } => drop(self.put_offset(&group, place, before)),
        }
    }

    fn loaded(&mut self, now: Now, _fx: &mut Fx) {
        self.is_loaded = true;
        for (id, value) in std::mem::take(&mut self.recorded) {
            let group = Group::from_record(Arc::clone(&id), value, now.clock);
            self.members += group.members.len();
            self.groups.insert(Arc::clone(&id), group);
            self.settle(&id);
        }
        let simple: Vec<_> =
            self.offsets.keys().filter(|id| !self.groups.contains_key(*id)).cloned().collect();
        for id in simple {
            self.groups.insert(Arc::clone(&id), Group::new(id, now.wall.0));
        }
        self.expiry_check = Some(now.clock + self.config.offsets_retention_check_interval);
    }

    fn unloaded(&mut self, code: ErrorCode) -> Vec<(Token, GroupResponse)> {
        let mut out = Vec::new();
        for group in self.groups.values_mut() {
            for (id, member) in &mut group.members {
                if let Some(token) = member.joining.take() {
                    out.push((token, join::join_failed(id, code)));
                }
                if let Some(token) = member.syncing.take() {
                    out.push((token, join::sync_failed(code)));
                }
            }
        }
        out
    }

    fn resume(
        &mut self,
        now: Now,
        continuation: Continuation,
        result: Result<(), ErrorCode>,
        fx: &mut Fx,
    ) {
        match continuation {
            Continuation::Assigned { group, generation } => {
                self.assigned(now, &group, generation, result, fx);
                self.settle(&group);
            }
        }
    }

    fn tick(&mut self, now: Now, fx: &mut Fx) {
        let due: Vec<_> = self
            .deadlines
            .iter()
            .filter(|(_, deadline)| **deadline <= now.clock)
            .map(|(id, _)| Arc::clone(id))
            .collect();
        for id in due {
            self.expire(now, &id, fx);
            self.settle(&id);
        }
        if self.expiry_check.is_some_and(|at| at <= now.clock) {
            self.expiry_check = Some(now.clock + self.config.offsets_retention_check_interval);
            self.expire_offsets(now, fx);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.values().copied().chain(self.expiry_check).min()
    }

    fn refuse(request: GroupRequest, code: ErrorCode) -> GroupResponse {
        api::refuse(request, code)
    }

    fn fail(response: GroupResponse, code: ErrorCode) -> GroupResponse {
        api::fail(response, code)
    }
}

#[cfg(test)]
mod tests;
