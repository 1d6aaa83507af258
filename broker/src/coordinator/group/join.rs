//! Membership: JoinGroup, SyncGroup, Heartbeat, LeaveGroup and the timers between them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages as m;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use protocol_compat::ErrorCode;

use super::classic::{Group, JoinTimer, Member, State, text};
use super::records::group_record;
use super::{Continuation, Fx, GroupResponse, GroupShard, RequestContext};
use crate::coordinator::shard::{Now, Token};

/// The first version in which a member must come back with the id that it was given (KIP-394).
const MEMBER_ID_REQUIRED_SINCE: i16 = 4;
/// The first version in which a returning static leader is told not to assign again (KIP-814).
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

/// The answer to a JoinGroup that failed.
pub(super) fn join_failed(member: &str, code: ErrorCode) -> GroupResponse {
    GroupResponse::JoinGroup(
        m::JoinGroupResponse::default()
            .with_error_code(code as i16)
            .with_generation_id(-1)
            .with_protocol_name(Some(text("")))
            .with_member_id(text(member)),
    )
}

/// The answer to a SyncGroup that failed.
pub(super) fn sync_failed(code: ErrorCode) -> GroupResponse {
    GroupResponse::SyncGroup(m::SyncGroupResponse::default().with_error_code(code as i16))
}

fn synced(group: &Group, assignment: Bytes) -> GroupResponse {
    GroupResponse::SyncGroup(
        m::SyncGroupResponse::default()
            .with_protocol_type(group.protocol_type.as_deref().map(text))
            .with_protocol_name(group.protocol.as_deref().map(text))
            .with_assignment(assignment),
    )
}

/// A JoinGroup in the words of this module.
struct Join {
    token: Token,
    version: i16,
    member_id: Arc<str>,
    instance_id: Option<Arc<str>>,
    client_id: Arc<str>,
    client_host: Arc<str>,
    protocol_type: Arc<str>,
    protocols: Vec<(Arc<str>, Bytes)>,
    session_timeout: Duration,
    rebalance_timeout: Duration,
}

impl Join {
    fn member(&self, now: Now, new_member_timeout: Duration) -> Member {
        Member {
            instance_id: self.instance_id.clone(),
            client_id: Arc::clone(&self.client_id),
            client_host: Arc::clone(&self.client_host),
            rebalance_timeout: self.rebalance_timeout,
            session_timeout: self.session_timeout,
            protocols: self.protocols.clone(),
            assignment: Bytes::new(),
            joining: Some(self.token),
            syncing: None,
            is_new: true,
            deadline: now.clock + new_member_timeout,
        }
    }
}

impl GroupShard {
    pub(super) fn join(
        &mut self,
        now: Now,
        token: Token,
        context: &RequestContext,
        request: m::JoinGroupRequest,
        fx: &mut Fx,
    ) {
        let timeout = |ms: i32| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        let session_timeout = timeout(request.session_timeout_ms);
        let join = Join {
            token,
            version: context.api_version,
            member_id: (&*request.member_id).into(),
            instance_id: request.group_instance_id.as_deref().map(Arc::from),
            client_id: Arc::clone(&context.client_id),
            client_host: Arc::clone(&context.client_host),
            protocol_type: (&*request.protocol_type).into(),
            protocols: request
                .protocols
                .iter()
                // Not a slice of the frame, which would be kept as long as the member.
                .map(|p| ((&*p.name).into(), Bytes::copy_from_slice(&p.metadata)))
                .collect(),
            session_timeout,
            rebalance_timeout: if context.api_version >= 1 {
                timeout(request.rebalance_timeout_ms)
            } else {
                session_timeout
            },
        };
        if let Err((member, code)) = self.try_join(now, &request.group_id, join, fx) {
            fx.replies.push((token, join_failed(&member, code)));
        }
    }

    fn try_join(
        &mut self,
        now: Now,
        id: &str,
        join: Join,
        fx: &mut Fx,
    ) -> Result<(), (Arc<str>, ErrorCode)> {
        let same = Arc::clone(&join.member_id);
        let refuse = |code| Err((Arc::clone(&same), code));
        if id.is_empty() {
            return refuse(ErrorCode::InvalidGroupId);
        }
        let bounds = self.config.session_timeout_min..=self.config.session_timeout_max;
        if !bounds.contains(&join.session_timeout) {
            return refuse(ErrorCode::InvalidSessionTimeout);
        }
        let is_unknown = join.member_id.is_empty();
        if !self.groups.contains_key(id) {
            if !is_unknown {
                return refuse(ErrorCode::UnknownMemberId);
            }
            if self.groups.len() >= self.config.groups_max {
                return refuse(ErrorCode::PolicyViolation);
            }
            let id: Arc<str> = id.into();
            self.groups.insert(Arc::clone(&id), Group::new(id, now.wall.0));
        }
        let Some(group) = self.groups.get(id) else { return refuse(ErrorCode::UnknownMemberId) };
        let waiting = group.pending.len() + group.members.len();
        let is_member = group.members.contains_key(&join.member_id)
            || group.pending.contains_key(&join.member_id);
        if !is_member
            && (waiting >= self.config.size_max || self.members >= self.config.members_max)
        {
            return Err(("".into(), ErrorCode::GroupMaxSizeReached));
        }
        if !group.supports(&join.protocol_type, &join.protocols) {
            return refuse(ErrorCode::InconsistentGroupProtocol);
        }
        if is_unknown {
            self.join_new(now, id, join, fx)
        } else {
            self.join_known(now, id, join, fx)
        }
    }

    fn join_new(
        &mut self,
        now: Now,
        id: &str,
        join: Join,
        fx: &mut Fx,
    ) -> Result<(), (Arc<str>, ErrorCode)> {
        if let Some(instance) = join.instance_id.clone() {
            let member_id = self.new_member_id(&instance);
            let replaced = self.groups.get(id).and_then(|group| group.instances.get(&instance));
            match replaced.cloned() {
                Some(old) => self.replace_static(now, id, &old, &member_id, join, fx),
                None => self.add_member(now, id, member_id, join, fx),
            }
            return Ok(());
        }
        let member_id = self.new_member_id(&join.client_id);
        if join.version >= MEMBER_ID_REQUIRED_SINCE {
            if let Some(group) = self.groups.get_mut(id) {
                let until = now.clock + join.session_timeout;
                group.pending.insert(Arc::clone(&member_id), until);
            }
            return Err((member_id, ErrorCode::MemberIdRequired));
        }
        self.add_member(now, id, member_id, join, fx);
        Ok(())
    }

    fn join_known(
        &mut self,
        now: Now,
        id: &str,
        join: Join,
        fx: &mut Fx,
    ) -> Result<(), (Arc<str>, ErrorCode)> {
        let member_id = Arc::clone(&join.member_id);
        let Some(group) = self.groups.get_mut(id) else {
            return Err((member_id, ErrorCode::UnknownMemberId));
        };
        if group.pending.remove(&member_id).is_some() {
            self.add_member(now, id, member_id, join, fx);
            return Ok(());
        }
        if let Err(code) = group.check_member(&member_id, join.instance_id.as_deref()) {
            return Err((member_id, code));
        }
        let is_leader = group.is_leader(&member_id);
        let is_same =
            group.members.get(&member_id).is_some_and(|member| member.protocols == join.protocols);
        let may_answer = match group.state {
            State::PreparingRebalance | State::Empty => false,
            State::CompletingRebalance => is_same,
            // The leader comes back when the topics that it watches have changed.
            State::Stable => is_same && !is_leader,
        };
        if may_answer {
            let with_members = is_leader && group.state == State::CompletingRebalance;
            let response = GroupResponse::JoinGroup(group.joined(&member_id, with_members));
            group.touch(&member_id, now.clock);
            fx.replies.push((join.token, response));
            return Ok(());
        }
        if let Some(member) = group.members.get_mut(&member_id) {
            member.protocols = join.protocols;
            member.rebalance_timeout = join.rebalance_timeout;
            member.session_timeout = join.session_timeout;
            // A request that was given up by the client.
            if let Some(token) = member.joining.replace(join.token) {
                fx.replies.push((token, join_failed(&member_id, ErrorCode::UnknownMemberId)));
            }
        }
        self.rebalance_or_complete(now, id, fx);
        Ok(())
    }

    fn add_member(&mut self, now: Now, id: &str, member_id: Arc<str>, join: Join, fx: &mut Fx) {
        let timeout = self.config.new_member_join_timeout;
        let Some(group) = self.groups.get_mut(id) else { return };
        if group.state == State::PreparingRebalance && group.generation == 0 {
            group.new_member_added = true;
        }
        if group.members.is_empty() {
            group.protocol_type = Some(Arc::clone(&join.protocol_type));
        }
        if group.leader.is_none() {
            group.leader = Some(Arc::clone(&member_id));
        }
        if let Some(instance) = &join.instance_id {
            group.instances.insert(Arc::clone(instance), Arc::clone(&member_id));
        }
        group.pending.remove(&member_id);
        group.members.insert(member_id, join.member(now, timeout));
        self.members += 1;
        self.rebalance_or_complete(now, id, fx);
    }

    /// A static member came back without its id: it takes the place of what it was before (KIP-345).
    fn replace_static(
        &mut self,
        now: Now,
        id: &str,
        old: &str,
        new: &Arc<str>,
        join: Join,
        fx: &mut Fx,
    ) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let Some((place, _, mut member)) = group.members.shift_remove_full(old) else { return };
        let fenced = ErrorCode::FencedInstanceId;
        if let Some(token) = member.joining.take() {
            fx.replies.push((token, join_failed(old, fenced)));
        }
        if let Some(token) = member.syncing.take() {
            fx.replies.push((token, sync_failed(fenced)));
        }
        let was_leader = group.is_leader(old);
        let old_leader = group.leader.clone();
        if was_leader {
            group.leader = Some(Arc::clone(new));
        }
        member.protocols = join.protocols.clone();
        member.session_timeout = join.session_timeout;
        member.rebalance_timeout = join.rebalance_timeout;
        member.client_id = Arc::clone(&join.client_id);
        member.client_host = Arc::clone(&join.client_host);
        member.deadline = now.clock + join.session_timeout;
        if let Some(instance) = &join.instance_id {
            group.instances.insert(Arc::clone(instance), Arc::clone(new));
        }
        let place = place.min(group.members.len());
        group.members.shift_insert(place, Arc::clone(new), member);
        let is_same = group.select_protocol() == group.protocol;
        if group.state == State::Stable && is_same {
            let skips = join.version >= SKIP_ASSIGNMENT_SINCE;
            let mut response = group.joined(new, skips && was_leader);
            if skips {
                response.skip_assignment = was_leader;
            } else if let Some(leader) = old_leader {
                // An older client would assign again if it heard that it leads.
                response.leader = text(&leader);
            }
            fx.records.push(group_record(&group.id, Some(&group.to_record())));
            fx.replies_when_committed.push((join.token, GroupResponse::JoinGroup(response)));
            return;
        }
        if let Some(member) = group.members.get_mut(new) {
            member.joining = Some(join.token);
        }
        self.rebalance_or_complete(now, id, fx);
    }

    fn rebalance_or_complete(&mut self, now: Now, id: &str, fx: &mut Fx) {
        match self.groups.get(id).map(|group| group.state) {
            Some(State::PreparingRebalance) => self.complete_if_all_joined(now, id, fx),
            Some(State::Empty | State::CompletingRebalance | State::Stable) => {
                self.prepare_rebalance(now, id, fx);
            }
            None => {}
        }
    }

    fn prepare_rebalance(&mut self, now: Now, id: &str, fx: &mut Fx) {
        let initial = self.config.initial_rebalance_delay;
        let Some(group) = self.groups.get_mut(id) else { return };
        for member in group.members.values_mut() {
            member.assignment = Bytes::new();
            if let Some(token) = member.syncing.take() {
                fx.replies.push((token, sync_failed(ErrorCode::RebalanceInProgress)));
                member.deadline = now.clock + member.session_timeout;
            }
        }
        group.sync_deadline = None;
        let timeout = group.rebalance_timeout();
        let first = group.state == State::Empty && !initial.is_zero();
        group.join_timer = Some(if first {
            group.new_member_added = false;
            JoinTimer {
                deadline: now.clock + initial.min(timeout),
                initial_left: Some(timeout.saturating_sub(initial)),
            }
        } else {
            JoinTimer { deadline: now.clock + timeout, initial_left: None }
        });
        group.become_state(State::PreparingRebalance, now.wall.0);
        self.complete_if_all_joined(now, id, fx);
    }

    fn complete_if_all_joined(&mut self, now: Now, id: &str, fx: &mut Fx) {
        let ready = self.groups.get(id).is_some_and(|group| {
            group.state == State::PreparingRebalance
                && group.join_timer.is_none_or(|timer| timer.initial_left.is_none())
                && group.all_joined()
        });
        if ready {
            self.complete_join(now, id, fx);
        }
    }

    /// Everyone who is coming has come: a new generation begins.
    fn complete_join(&mut self, now: Now, id: &str, fx: &mut Fx) {
        let Some(group) = self.groups.get_mut(id) else { return };
        // Static members keep their place until their session ends.
        let gone: Vec<_> = group
            .members
            .iter()
            .filter(|(_, member)| member.joining.is_none() && member.instance_id.is_none())
            .map(|(id, _)| Arc::clone(id))
            .collect();
        for member in gone {
            self.members -= usize::from(drop_member(group, &member, fx));
        }
        let joined = group.members.iter().find(|(_, member)| member.joining.is_some());
        let new_leader = joined.map(|(id, _)| Arc::clone(id));
        let leader_joined = group
            .leader
            .as_ref()
            .and_then(|leader| group.members.get(leader))
            .is_some_and(|leader| leader.joining.is_some());
        if !leader_joined {
            match new_leader {
                Some(leader) => group.leader = Some(leader),
                None if !group.members.is_empty() => {
                    // Only static members that are away: wait for them as long again.
                    let deadline = now.clock + group.rebalance_timeout();
                    group.join_timer = Some(JoinTimer { deadline, initial_left: None });
                    return;
                }
                None => {}
            }
        }
        group.join_timer = None;
        group.generation = group.generation.checked_add(1).unwrap_or(1);
        if group.members.is_empty() {
            self.become_empty(now, id, fx);
            return;
        }
        group.protocol = group.select_protocol();
        group.become_state(State::CompletingRebalance, now.wall.0);
        group.sync_deadline = Some(now.clock + group.rebalance_timeout());
        let leader = group.leader.clone();
        let members: Vec<_> = group.members.keys().cloned().collect();
        for member_id in members {
            let is_leader = leader.as_deref() == Some(&member_id);
            let response = group.joined(&member_id, is_leader);
            if let Some(member) = group.members.get_mut(&member_id) {
                member.is_new = false;
                member.deadline = now.clock + member.session_timeout;
                if let Some(token) = member.joining.take() {
                    fx.replies.push((token, GroupResponse::JoinGroup(response)));
                }
            }
        }
    }

    fn become_empty(&mut self, now: Now, id: &str, fx: &mut Fx) {
        let Some(group) = self.groups.get_mut(id) else { return };
        group.protocol = None;
        group.leader = None;
        group.sync_deadline = None;
        group.become_state(State::Empty, now.wall.0);
        group.is_recorded = true;
        fx.records.push(group_record(&group.id, Some(&group.to_record())));
    }

    pub(super) fn sync(
        &mut self,
        now: Now,
        token: Token,
        request: m::SyncGroupRequest,
        fx: &mut Fx,
    ) {
        if let Err(code) = self.try_sync(now, token, &request, fx) {
            fx.replies.push((token, sync_failed(code)));
        }
    }

    fn try_sync(
        &mut self,
        now: Now,
        token: Token,
        request: &m::SyncGroupRequest,
        fx: &mut Fx,
    ) -> Result<(), ErrorCode> {
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group =
            self.groups.get_mut(request.group_id.as_str()).ok_or(ErrorCode::UnknownMemberId)?;
        group.check_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |asked: Option<&str>, ours: Option<&str>| {
            asked.is_some_and(|asked| ours.is_some_and(|ours| ours != asked))
        };
        if differs(request.protocol_type.as_deref(), group.protocol_type.as_deref())
            || differs(request.protocol_name.as_deref(), group.protocol.as_deref())
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match group.state {
            State::Empty => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Stable => {
                group.touch(&request.member_id, now.clock);
                let member = group.members.get(&*request.member_id);
                let assignment = member.map(|member| member.assignment.clone()).unwrap_or_default();
                fx.replies.push((token, synced(group, assignment)));
                Ok(())
            }
            State::CompletingRebalance => {
                if let Some(member) = group.members.get_mut(&*request.member_id)
                    && let Some(before) = member.syncing.replace(token)
                {
                    fx.replies.push((before, sync_failed(ErrorCode::UnknownMemberId)));
                }
                if group.is_leader(&request.member_id) {
                    for (id, member) in &mut group.members {
                        let own = request.assignments.iter().find(|a| *a.member_id == **id);
                        member.assignment = own
                            .map(|own| Bytes::copy_from_slice(&own.assignment))
                            .unwrap_or_default();
                    }
                    group.is_recorded = true;
                    fx.records.push(group_record(&group.id, Some(&group.to_record())));
                    fx.continuations.push(Continuation::Assigned {
                        group: Arc::clone(&group.id),
                        generation: group.generation,
                    });
                }
                Ok(())
            }
        }
    }

    /// The leader's assignment is in the log: everyone hears of it. Or it is not: the group starts over.
    pub(super) fn assigned(
        &mut self,
        now: Now,
        id: &str,
        generation: i32,
        result: Result<(), ErrorCode>,
        fx: &mut Fx,
    ) {
        let Some(group) = self.groups.get_mut(id) else { return };
        if group.state != State::CompletingRebalance || group.generation != generation {
            return;
        }
        match result {
            Ok(()) => {
                group.become_state(State::Stable, now.wall.0);
                let (kind, name) = (group.protocol_type.clone(), group.protocol.clone());
                for member in group.members.values_mut() {
                    let Some(token) = member.syncing.take() else { continue };
                    member.deadline = now.clock + member.session_timeout;
                    let response = m::SyncGroupResponse::default()
                        .with_protocol_type(kind.as_deref().map(text))
                        .with_protocol_name(name.as_deref().map(text))
                        .with_assignment(member.assignment.clone());
                    fx.replies.push((token, GroupResponse::SyncGroup(response)));
                }
                if group.members.values().all(|member| !member.is_new) {
                    group.sync_deadline = None;
                }
            }
            Err(code) => {
                for member in group.members.values_mut() {
                    member.assignment = Bytes::new();
                    if let Some(token) = member.syncing.take() {
                        fx.replies.push((token, sync_failed(code)));
                        member.deadline = now.clock + member.session_timeout;
                    }
                }
                self.prepare_rebalance(now, id, fx);
            }
        }
    }

    pub(super) fn heartbeat(&mut self, now: Now, request: &m::HeartbeatRequest) -> ErrorCode {
        if request.group_id.is_empty() {
            return ErrorCode::InvalidGroupId;
        }
        let Some(group) = self.groups.get_mut(request.group_id.as_str()) else {
            return ErrorCode::UnknownMemberId;
        };
        if let Err(code) =
            group.check_member(&request.member_id, request.group_instance_id.as_deref())
        {
            return code;
        }
        if request.generation_id != group.generation {
            return ErrorCode::IllegalGeneration;
        }
        match group.state {
            State::Empty => ErrorCode::UnknownMemberId,
            State::PreparingRebalance => {
                group.touch(&request.member_id, now.clock);
                ErrorCode::RebalanceInProgress
            }
            State::CompletingRebalance | State::Stable => {
                group.touch(&request.member_id, now.clock);
                ErrorCode::None
            }
        }
    }

    pub(super) fn leave(
        &mut self,
        now: Now,
        context: &RequestContext,
        request: m::LeaveGroupRequest,
        fx: &mut Fx,
    ) -> m::LeaveGroupResponse {
        let id = request.group_id.as_str();
        let answer = m::LeaveGroupResponse::default();
        if id.is_empty() {
            return answer.with_error_code(ErrorCode::InvalidGroupId as i16);
        }
        if context.api_version < 3 {
            let code = self.leave_one(now, id, &request.member_id, None, fx);
            return answer.with_error_code(code as i16);
        }
        let mut members = Vec::with_capacity(request.members.len());
        for member in request.members {
            let instance = member.group_instance_id.as_deref();
            let code = self.leave_one(now, id, &member.member_id, instance, fx);
            members.push(
                MemberResponse::default()
                    .with_member_id(member.member_id)
                    .with_group_instance_id(member.group_instance_id)
                    .with_error_code(code as i16),
            );
        }
        answer.with_members(members)
    }

    fn leave_one(
        &mut self,
        now: Now,
        id: &str,
        member: &str,
        instance: Option<&str>,
        fx: &mut Fx,
    ) -> ErrorCode {
        let Some(group) = self.groups.get_mut(id) else { return ErrorCode::UnknownMemberId };
        let member: Arc<str> = match (member, instance) {
            // By its instance alone: what an administrator sends.
            ("", Some(instance)) => match group.instances.get(instance) {
                Some(member) => Arc::clone(member),
                None => return ErrorCode::UnknownMemberId,
            },
            (member, _) => member.into(),
        };
        if group.pending.remove(&member).is_some() {
            self.complete_if_all_joined(now, id, fx);
            return ErrorCode::None;
        }
        if let Err(code) = group.check_member(&member, instance) {
            return code;
        }
        self.remove_member(now, id, &member, fx);
        ErrorCode::None
    }

    fn remove_member(&mut self, now: Now, id: &str, member: &str, fx: &mut Fx) {
        let Some(group) = self.groups.get_mut(id) else { return };
        self.members -= usize::from(drop_member(group, member, fx));
        match group.state {
            State::Empty => {}
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(now, id, fx),
            State::PreparingRebalance => self.complete_if_all_joined(now, id, fx),
        }
    }

    /// Everything of a group that is due.
    pub(super) fn expire(&mut self, now: Now, id: &str, fx: &mut Fx) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let before = group.pending.len();
        group.pending.retain(|_, until| *until > now.clock);
        if group.pending.len() < before {
            self.complete_if_all_joined(now, id, fx);
        }
        while let Some(member) =
            self.groups.get(id).and_then(|group| group.expired_member(now.clock))
        {
            tracing::debug!(group = id, %member, "a member's session ended");
            self.remove_member(now, id, &member, fx);
        }
        let Some(group) = self.groups.get_mut(id) else { return };
        if group.sync_deadline.is_some_and(|deadline| deadline <= now.clock) {
            group.sync_deadline = None;
            if group.state == State::CompletingRebalance {
                let late: Vec<_> = group
                    .members
                    .iter()
                    .filter(|(_, member)| member.syncing.is_none())
                    .map(|(id, _)| Arc::clone(id))
                    .collect();
                for member in late {
                    self.remove_member(now, id, &member, fx);
                }
            }
        }
        let Some(group) = self.groups.get_mut(id) else { return };
        let Some(timer) = group.join_timer.filter(|timer| timer.deadline <= now.clock) else {
            return;
        };
        let delay = self.config.initial_rebalance_delay;
        match timer.initial_left {
            Some(left) if group.new_member_added && !left.is_zero() => {
                group.new_member_added = false;
                let delay = delay.min(left);
                group.join_timer = Some(JoinTimer {
                    deadline: now.clock + delay,
                    initial_left: Some(left.saturating_sub(delay)),
                });
            }
            _ => {
                group.join_timer = None;
                self.complete_join(now, id, fx);
            }
        }
    }
}

/// Takes a member out of a group and answers what it waits for; whether it was there.
fn drop_member(group: &mut Group, id: &str, fx: &mut Fx) -> bool {
    let Some(mut member) = group.members.shift_remove(id) else { return false };
    if let Some(instance) = &member.instance_id
        && group.instances.get(instance).is_some_and(|current| **current == *id)
    {
        group.instances.remove(instance);
    }
    if let Some(token) = member.joining.take() {
        fx.replies.push((token, join_failed("", ErrorCode::UnknownMemberId)));
    }
    if let Some(token) = member.syncing.take() {
        fx.replies.push((token, sync_failed(ErrorCode::UnknownMemberId)));
    }
    if group.is_leader(id) {
        group.leader = group
            .members
            .iter()
            .find(|(_, member)| member.joining.is_some())
            .or_else(|| group.members.first())
            .map(|(id, _)| Arc::clone(id));
    }
    true
}
