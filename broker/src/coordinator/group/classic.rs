//! The state of one classic group: members, generation, who waits for whom.
//!
//! ```text
//!   Empty ──join──► PreparingRebalance ──all joined, or time is up──► CompletingRebalance ──leader's sync──► Stable
//!     ▲                  ▲     │                                            │                                  │
//!     └── no members ────┼─────┘◄───────────── join, leave, time-out ───────┴──────────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use indexmap::IndexMap;
use kafka_protocol::messages::JoinGroupResponse;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;

use super::records::{GroupValue, MemberValue};
use crate::coordinator::shard::Token;

/// Where a group stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No members; may hold offsets.
    Empty,
    /// Waits for its members to join.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    /// Members have their assignments.
    Stable,
}

impl State {
    /// Kafka's spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A member of a group.
#[derive(Clone, Debug)]
pub struct Member {
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// Who it is by its own account.
    pub client_id: Arc<str>,
    /// Its address.
    pub client_host: Arc<str>,
    /// How long it may take to join a rebalance.
    pub rebalance_timeout: Duration,
    /// How long it may be silent.
    pub session_timeout: Duration,
    /// Assignors that it knows, best first, each with its subscription.
    pub protocols: Vec<(Arc<str>, Bytes)>,
    /// What the leader gave it.
    pub assignment: Bytes,
    /// Its JoinGroup that waits for the others.
    pub joining: Option<Token>,
    /// Its SyncGroup that waits for the leader.
    pub syncing: Option<Token>,
    /// It has not been through a rebalance yet.
    pub is_new: bool,
    /// When it is taken for dead.
    pub deadline: Instant,
}

impl Member {
    /// Its subscription for one assignor.
    #[must_use]
    pub fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| **name == *protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    /// Whether it is excused from heartbeats: it waits for us.
    fn is_waiting(&self) -> bool {
        self.joining.is_some() || self.syncing.is_some()
    }
}

/// The time until which a rebalance waits for members.
#[derive(Clone, Copy, Debug)]
pub struct JoinTimer {
    /// When it ends.
    pub deadline: Instant,
    /// The first rebalance of an empty group: waits for more members, up to this much longer.
    pub initial_left: Option<Duration>,
}

/// A classic group.
#[derive(Debug)]
pub struct Group {
    /// Its name.
    pub id: Arc<str>,
    /// Where it stands.
    pub state: State,
    /// Since when, in milliseconds of the wall clock.
    pub state_since: i64,
    /// `consumer`, `connect`, ...; `None` for a group that only holds offsets.
    pub protocol_type: Option<Arc<str>>,
    /// The assignor chosen by the last rebalance.
    pub protocol: Option<Arc<str>>,
    /// Grows with each rebalance.
    pub generation: i32,
    /// The member that assigns.
    pub leader: Option<Arc<str>>,
    /// Members in the order in which they came.
    pub members: IndexMap<Arc<str>, Member>,
    /// Static members.
    pub instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were given out (KIP-394) and until when they may be used.
    pub pending: BTreeMap<Arc<str>, Instant>,
    /// Of a rebalance under way.
    pub join_timer: Option<JoinTimer>,
    /// Until when every member of this generation must have synced.
    pub sync_deadline: Option<Instant>,
    /// A member came during the first rebalance's wait.
    pub new_member_added: bool,
    /// Its record is in the log.
    pub is_recorded: bool,
}

impl Group {
    /// An empty group.
    #[must_use]
    pub fn new(id: Arc<str>, state_since: i64) -> Self {
        Self {
            id,
            state: State::Empty,
            state_since,
            protocol_type: None,
            protocol: None,
            generation: 0,
            leader: None,
            members: IndexMap::new(),
            instances: BTreeMap::new(),
            pending: BTreeMap::new(),
            join_timer: None,
            sync_deadline: None,
            new_member_added: false,
            is_recorded: false,
        }
    }

    /// A group as its record has it. Sessions begin anew.
    #[must_use]
    pub fn from_record(id: Arc<str>, value: GroupValue, now: Instant) -> Self {
        let mut group = Self::new(id, value.current_state_timestamp);
        group.generation = value.generation;
        group.protocol_type = (!value.protocol_type.is_empty()).then_some(value.protocol_type);
        group.protocol = value.protocol;
        group.leader = value.leader;
        group.is_recorded = true;
        let protocol = group.protocol.clone().unwrap_or_default();
        for member in value.members {
            let timeout = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
            if let Some(instance) = &member.group_instance_id {
                group.instances.insert(Arc::clone(instance), Arc::clone(&member.member_id));
            }
            let session_timeout = timeout(member.session_timeout_ms);
            group.members.insert(
                member.member_id,
                Member {
                    instance_id: member.group_instance_id,
                    client_id: member.client_id,
                    client_host: member.client_host,
                    rebalance_timeout: timeout(member.rebalance_timeout_ms),
                    session_timeout,
                    protocols: vec![(Arc::clone(&protocol), member.subscription)],
                    assignment: member.assignment,
                    joining: None,
                    syncing: None,
                    is_new: false,
                    deadline: now + session_timeout,
                },
            );
        }
        group.state = if group.members.is_empty() { State::Empty } else { State::Stable };
        group
    }

    /// The group as its record keeps it.
    #[must_use]
    pub fn to_record(&self) -> GroupValue {
        let millis = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        let protocol = self.protocol.clone().unwrap_or_default();
        let members = self.members.iter().map(|(id, member)| MemberValue {
            member_id: Arc::clone(id),
            group_instance_id: member.instance_id.clone(),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            rebalance_timeout_ms: millis(member.rebalance_timeout),
            session_timeout_ms: millis(member.session_timeout),
            subscription: member.metadata(&protocol),
            assignment: member.assignment.clone(),
        });
        GroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            current_state_timestamp: self.state_since,
            members: members.collect(),
        }
    }

    /// Goes to another state.
    pub fn become_state(&mut self, state: State, wall: i64) {
        self.state = state;
        self.state_since = wall;
    }

    /// Whether a member is the leader.
    #[must_use]
    pub fn is_leader(&self, member: &str) -> bool {
        self.leader.as_deref() == Some(member)
    }

    /// Whether a member with these assignors may join.
    #[must_use]
    pub fn supports(&self, protocol_type: &str, protocols: &[(Arc<str>, Bytes)]) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| self.everyone_knows(name))
    }

    fn everyone_knows(&self, protocol: &str) -> bool {
        self.members
            .values()
            .all(|member| member.protocols.iter().any(|(name, _)| **name == *protocol))
    }

    /// The assignor that most members like best of those that all know; the leader's order decides a tie.
    #[must_use]
    pub fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: IndexMap<Arc<str>, usize> = IndexMap::new();
        for member in self.members.values() {
            let best = member.protocols.iter().find(|(name, _)| self.everyone_knows(name));
            if let Some((name, _)) = best {
                *votes.entry(Arc::clone(name)).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        votes.into_iter().find(|(_, count)| *count == most).map(|(name, _)| name)
    }

    /// Checks that a request comes from who it says.
    ///
    /// # Errors
    /// FENCED_INSTANCE_ID for a static member that was replaced, UNKNOWN_MEMBER_ID for one that is not there.
    pub fn check_member(&self, member: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            let current = self.instances.get(instance).ok_or(ErrorCode::UnknownMemberId)?;
            if **current != *member {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// The longest time that a member may take to join.
    #[must_use]
    pub fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    /// Whether nobody is left to wait for.
    #[must_use]
    pub fn all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// The members with their subscriptions, for the leader.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<JoinGroupResponseMember> {
        let protocol = self.protocol.clone().unwrap_or_default();
        let members = self.members.iter().map(|(id, member)| {
            JoinGroupResponseMember::default()
                .with_member_id(text(id))
                .with_group_instance_id(member.instance_id.as_deref().map(text))
                .with_metadata(member.metadata(&protocol))
        });
        members.collect()
    }

    /// The answer to a member that is part of this generation.
    #[must_use]
    pub fn joined(&self, member: &str, with_members: bool) -> JoinGroupResponse {
        JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_type(self.protocol_type.as_deref().map(text))
            .with_protocol_name(Some(text(self.protocol.as_deref().unwrap_or_default())))
            .with_leader(text(self.leader.as_deref().unwrap_or_default()))
            .with_member_id(text(member))
            .with_members(if with_members { self.subscriptions() } else { Vec::new() })
    }

    /// Begins a session anew: something was heard of the member.
    pub fn touch(&mut self, member: &str, now: Instant) {
        if let Some(member) = self.members.get_mut(member) {
            member.deadline = now + member.session_timeout;
        }
    }

    /// When something is due next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let sessions = self
            .members
            .values()
            .filter(|member| member.is_new || !member.is_waiting())
            .map(|member| member.deadline);
        let timer = self.join_timer.map(|timer| timer.deadline);
        sessions.chain(self.pending.values().copied()).chain(timer).chain(self.sync_deadline).min()
    }

    /// A member that is taken for dead now.
    #[must_use]
    pub fn expired_member(&self, now: Instant) -> Option<Arc<str>> {
        let expired = self
            .members
            .iter()
            .find(|(_, member)| member.deadline <= now && (member.is_new || !member.is_waiting()));
        expired.map(|(id, _)| Arc::clone(id))
    }
}

/// Text for the wire.
#[must_use]
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
