//! Stories of groups: events in, exact answers out, on the runtime with a log that commits at once.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{self as m, GroupId};
use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};

use super::api::{CommitPartition, CommitTopic, FetchTopic, ListGroups, OffsetCommit, OffsetFetch};
use super::classic::text;
use super::*;
use crate::coordinator::{Action, Event, Runtime, RuntimeConfig};

const P: PartitionIndex = PartitionIndex(0);

struct Story {
    runtime: Runtime<GroupShard>,
    now: Now,
    tokens: u64,
    log: Vec<Bytes>,
    end: i64,
    answers: BTreeMap<Token, GroupResponse>,
}

impl Story {
    fn new() -> Self {
        Self::over(Vec::new())
    }

    fn over(log: Vec<Bytes>) -> Self {
        let now = Now { clock: crate::core::reactor::monotonic(), wall: Timestamp(1_000_000) };
        let runtime = Runtime::new(RuntimeConfig::default(), |partition, entropy| {
            GroupShard::new(GroupConfig::default(), partition, entropy)
        });
        let mut story =
            Self { runtime, now, tokens: 0, log: Vec::new(), end: 0, answers: BTreeMap::new() };
        story.event(Event::Load { leader_epoch: LeaderEpoch(0), entropy: 7 });
        for batches in log {
            story.event(Event::LoadBatches { batches });
        }
        let offset = Offset(0);
        story.event(Event::LoadDone { log_end_offset: offset, high_watermark: offset });
        story
    }

    fn event(&mut self, event: Event<GroupRequest>) {
        let mut out = Vec::new();
        self.runtime.handle(self.now, P, event, &mut out);
        self.runtime.end_turn(self.now, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, mut actions: Vec<Action<GroupResponse>>) {
        while !actions.is_empty() {
            let mut more = Vec::new();
            for action in actions {
                match action {
                    Action::Reply { token, response } => {
                        assert!(self.answers.insert(token, response).is_none(), "answered once");
                    }
                    Action::Append { append, batch, .. } => {
                        self.log.push(batch);
                        let last_offset = Offset(self.end);
                        self.end += 1;
                        let appended = Event::Appended { append, last_offset };
                        self.runtime.handle(self.now, P, appended, &mut more);
                        let committed = Event::HighWatermark(Offset(self.end));
                        self.runtime.handle(self.now, P, committed, &mut more);
                    }
                }
            }
            self.runtime.end_turn(self.now, &mut more);
            actions = more;
        }
    }

    fn sleep_ms(&mut self, ms: u64) {
        // In steps, as the timers of a core run.
        for _ in 0..ms.div_ceil(100) {
            self.now.clock += Duration::from_millis(100);
            self.now.wall.0 += 100;
            let mut out = Vec::new();
            self.runtime.tick(self.now, &mut out);
            self.runtime.end_turn(self.now, &mut out);
            self.carry_out(out);
        }
    }

    fn ask(&mut self, version: i16, body: GroupRequestBody) -> Token {
        self.tokens += 1;
        let token = Token(self.tokens);
        let context = RequestContext {
            api_version: version,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
        };
        self.event(Event::Request { token, request: GroupRequest { context, body } });
        token
    }

    fn answer(&mut self, token: Token) -> GroupResponse {
        self.answers.remove(&token).expect("answered")
    }

    fn join(&mut self, version: i16, member: &str, instance: Option<&str>) -> Token {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(b"subscription"));
        let request = m::JoinGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(30_000)
            .with_member_id(text(member))
            .with_group_instance_id(instance.map(text))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        self.ask(version, GroupRequestBody::JoinGroup(request))
    }

    fn joined(&mut self, token: Token) -> m::JoinGroupResponse {
        match self.answer(token) {
            GroupResponse::JoinGroup(response) => response,
            other => panic!("{other:?}"),
        }
    }

    /// A member id as a client of today gets it.
    fn id(&mut self) -> String {
        let token = self.join(9, "", None);
        let response = self.joined(token);
        assert_eq!(response.error_code, ErrorCode::MemberIdRequired as i16);
        response.member_id.to_string()
    }

    fn sync(&mut self, generation: i32, member: &str, all: &[(&str, &'static [u8])]) -> Token {
        let assignments = all.iter().map(|(member, bytes)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(member))
                .with_assignment(Bytes::from_static(bytes))
        });
        let request = m::SyncGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id(generation)
            .with_member_id(text(member))
            .with_assignments(assignments.collect());
        self.ask(5, GroupRequestBody::SyncGroup(request))
    }

    fn synced(&mut self, token: Token) -> (i16, Bytes) {
        match self.answer(token) {
            GroupResponse::SyncGroup(response) => (response.error_code, response.assignment),
            other => panic!("{other:?}"),
        }
    }

    fn heartbeat(&mut self, generation: i32, member: &str) -> ErrorCode {
        let request = m::HeartbeatRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id(generation)
            .with_member_id(text(member));
        let token = self.ask(4, GroupRequestBody::Heartbeat(request));
        match self.answer(token) {
            GroupResponse::Heartbeat(response) => {
                ErrorCode::from_code(response.error_code).expect("known")
            }
            other => panic!("{other:?}"),
        }
    }

    fn leave(&mut self, member: &str) -> i16 {
        let identity = MemberIdentity::default().with_member_id(text(member));
        let request = m::LeaveGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_members(vec![identity]);
        let token = self.ask(5, GroupRequestBody::LeaveGroup(request));
        match self.answer(token) {
            GroupResponse::LeaveGroup(response) => response.members[0].error_code,
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, generation: i32, member: &str, offset: i64, metadata: &str) -> ErrorCode {
        let part = CommitPartition {
            partition: PartitionIndex(1),
            offset: Offset(offset),
            leader_epoch: None,
            metadata: metadata.into(),
        };
        let topic = CommitTopic { name: "t".into(), topic_id: None, partitions: vec![part] };
        let request = OffsetCommit {
            group_id: "g".into(),
            generation_id: generation,
            member_id: member.into(),
            group_instance_id: None,
            retention_ms: None,
            topics: vec![topic],
        };
        let token = self.ask(9, GroupRequestBody::OffsetCommit(request));
        match self.answer(token) {
            GroupResponse::OffsetCommit(topics) => topics[0].partitions[0].1,
            other => panic!("{other:?}"),
        }
    }

    fn committed(&mut self) -> Option<i64> {
        let topic =
            FetchTopic { name: "t".into(), topic_id: None, partitions: vec![PartitionIndex(1)] };
        let request = OffsetFetch {
            group_id: "g".into(),
            topics: Some(vec![topic]),
            ..OffsetFetch::default()
        };
        let token = self.ask(9, GroupRequestBody::OffsetFetch(request));
        match self.answer(token) {
            GroupResponse::OffsetFetch(fetched) => {
                fetched.topics[0].partitions[0].offset.map(|offset| offset.0)
            }
            other => panic!("{other:?}"),
        }
    }

    fn state(&mut self) -> &'static str {
        let token = self.ask(5, GroupRequestBody::ListGroups(ListGroups::default()));
        match self.answer(token) {
            GroupResponse::ListGroups(Ok(list)) => list.first().map_or("none", |group| group.state),
            other => panic!("{other:?}"),
        }
    }

    /// Two members in a stable generation 1: leader and follower.
    fn two(&mut self) -> (String, String) {
        let (a, b) = (self.id(), self.id());
        let (join_a, join_b) = (self.join(9, &a, None), self.join(9, &b, None));
        self.sleep_ms(6_000);
        assert_eq!(self.joined(join_a).generation_id, 1);
        assert_eq!(self.joined(join_b).generation_id, 1);
        let follower = self.sync(1, &b, &[]);
        let leader = self.sync(1, &a, &[(&a, b"A"), (&b, b"B")]);
        assert_eq!(self.synced(leader), (0, Bytes::from_static(b"A")));
        assert_eq!(self.synced(follower), (0, Bytes::from_static(b"B")));
        (a, b)
    }
}

#[test]
fn a_new_member_comes_back_with_its_id_and_leads_after_the_initial_delay() {
    let mut story = Story::new();
    let id = story.id();
    assert!(id.starts_with("client-"));
    let join = story.join(9, &id, None);
    story.sleep_ms(2_900);
    assert!(!story.answers.contains_key(&join), "others may still come");
    story.sleep_ms(200);
    let response = story.joined(join);
    assert_eq!((response.error_code, response.generation_id), (0, 1));
    assert_eq!((&*response.leader, response.members.len()), (&*id, 1));
}

#[test]
fn an_old_client_joins_without_an_id() {
    let mut story = Story::new();
    let join = story.join(3, "", None);
    story.sleep_ms(3_100);
    assert_eq!(story.joined(join).generation_id, 1);
}

#[test]
fn two_members_share_a_generation_and_each_gets_its_own_assignment() {
    let mut story = Story::new();
    let (a, b) = story.two();
    assert_eq!(story.state(), "Stable");
    assert_eq!(story.heartbeat(1, &a), ErrorCode::None);
    assert_eq!(story.heartbeat(0, &b), ErrorCode::IllegalGeneration);
    assert_eq!(story.heartbeat(1, "stranger"), ErrorCode::UnknownMemberId);
}

#[test]
fn a_member_that_joins_makes_the_others_come_back() {
    let mut story = Story::new();
    let (a, b) = story.two();
    let c = story.id();
    let join_c = story.join(9, &c, None);
    assert_eq!(story.heartbeat(1, &a), ErrorCode::RebalanceInProgress);
    let (join_a, join_b) = (story.join(9, &a, None), story.join(9, &b, None));
    for join in [join_a, join_b, join_c] {
        assert_eq!(story.joined(join).generation_id, 2);
    }
}

#[test]
fn a_member_that_leaves_or_is_silent_is_not_waited_for() {
    let mut story = Story::new();
    let (a, b) = story.two();
    assert_eq!(story.leave(&b), 0);
    assert_eq!(story.leave(&b), ErrorCode::UnknownMemberId as i16);
    let join = story.join(9, &a, None);
    assert_eq!(story.joined(join).generation_id, 2);
    let sync = story.sync(2, &a, &[(&a, b"all")]);
    assert_eq!(story.synced(sync).0, 0);
    story.sleep_ms(10_100);
    assert_eq!(story.state(), "Empty");
}

#[test]
fn a_silent_member_is_dropped_from_the_next_generation() {
    let mut story = Story::new();
    let (a, _b) = story.two();
    story.sleep_ms(5_000);
    assert_eq!(story.heartbeat(1, &a), ErrorCode::None);
    story.sleep_ms(5_500);
    assert_eq!(story.heartbeat(1, &a), ErrorCode::RebalanceInProgress);
    let join = story.join(9, &a, None);
    assert_eq!(story.joined(join).members.len(), 1);
}

#[test]
fn a_follower_that_does_not_sync_in_time_is_removed() {
    let mut story = Story::new();
    let (a, b) = (story.id(), story.id());
    let (join_a, join_b) = (story.join(9, &a, None), story.join(9, &b, None));
    story.sleep_ms(6_000);
    story.joined(join_a);
    story.joined(join_b);
    let wait = story.sync(1, &b, &[]);
    // The leader is alive and never assigns.
    for _ in 0..4 {
        story.sleep_ms(8_000);
        story.heartbeat(1, &a);
    }
    assert_eq!(story.synced(wait).0, ErrorCode::RebalanceInProgress as i16);
}

#[test]
fn a_static_member_comes_back_without_a_rebalance_and_fences_its_old_self() {
    let mut story = Story::new();
    let join = story.join(9, "", Some("i"));
    story.sleep_ms(3_100);
    let old = story.joined(join).member_id.to_string();
    let sync = story.sync(1, &old, &[(&old, b"mine")]);
    assert_eq!(story.synced(sync).0, 0);
    let join = story.join(9, "", Some("i"));
    let again = story.joined(join);
    assert_eq!((again.error_code, again.generation_id, again.skip_assignment), (0, 1, true));
    assert_ne!(*again.member_id, *old);
    let token = story.join(9, &old, Some("i"));
    assert_eq!(story.joined(token).error_code, ErrorCode::FencedInstanceId as i16);
    let sync = story.sync(1, &again.member_id, &[]);
    assert_eq!(story.synced(sync), (0, Bytes::from_static(b"mine")));
}

#[test]
fn joins_are_checked_before_anything_changes() {
    let mut story = Story::new();
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    let request = |group: &str, session: i32, kind: &str| {
        m::JoinGroupRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_session_timeout_ms(session)
            .with_protocol_type(text(kind))
            .with_protocols(vec![protocol.clone()])
    };
    let cases = [
        (request("", 10_000, "consumer"), ErrorCode::InvalidGroupId),
        (request("g", 1, "consumer"), ErrorCode::InvalidSessionTimeout),
        (request("g", 10_000, ""), ErrorCode::InconsistentGroupProtocol),
        (
            request("g", 10_000, "consumer").with_member_id(text("unknown")),
            ErrorCode::UnknownMemberId,
        ),
    ];
    for (request, expected) in cases {
        let token = story.ask(9, GroupRequestBody::JoinGroup(request));
        assert_eq!(story.joined(token).error_code, expected as i16);
    }
}

#[test]
fn commits_are_fenced_by_generation_and_member() {
    let mut story = Story::new();
    let (a, _b) = story.two();
    assert_eq!(story.commit(1, &a, 5, ""), ErrorCode::None);
    assert_eq!(story.commit(0, &a, 6, ""), ErrorCode::IllegalGeneration);
    assert_eq!(story.commit(1, "stranger", 6, ""), ErrorCode::UnknownMemberId);
    assert_eq!(story.commit(-1, "", 6, ""), ErrorCode::UnknownMemberId);
    assert_eq!(story.commit(1, &a, 6, &"x".repeat(4097)), ErrorCode::OffsetMetadataTooLarge);
    assert_eq!(story.committed(), Some(5));
}

#[test]
fn a_consumer_without_a_group_protocol_commits_alone() {
    let mut story = Story::new();
    assert_eq!(story.committed(), None);
    assert_eq!(story.commit(3, "m", 5, ""), ErrorCode::GroupIdNotFound);
    assert_eq!(story.commit(-1, "", 9, "note"), ErrorCode::None);
    assert_eq!(story.committed(), Some(9));
    assert_eq!(story.state(), "Empty");
}

#[test]
fn a_restart_finds_members_and_offsets() {
    let mut story = Story::new();
    let (a, b) = story.two();
    story.commit(1, &a, 5, "");
    let mut again = Story::over(std::mem::take(&mut story.log));
    assert_eq!(again.committed(), Some(5));
    assert_eq!(again.state(), "Stable");
    assert_eq!(again.heartbeat(1, &a), ErrorCode::None);
    let sync = again.sync(1, &b, &[]);
    assert_eq!(again.synced(sync), (0, Bytes::from_static(b"B")));
}

#[test]
fn offsets_outlive_their_group_by_the_retention_and_no_more() {
    let mut story = Story::new();
    assert_eq!(story.commit(-1, "", 9, ""), ErrorCode::None);
    story.now.wall.0 += 10_080 * 60_000 - 700_000;
    story.sleep_ms(601_000);
    assert_eq!(story.committed(), Some(9));
    story.now.wall.0 += 200_000;
    story.sleep_ms(601_000);
    assert_eq!(story.committed(), None);
    assert_eq!(story.state(), "none");
}

#[test]
fn only_empty_groups_are_deleted_and_stay_so() {
    let mut story = Story::new();
    let (a, b) = story.two();
    story.commit(1, &a, 5, "");
    let delete = |story: &mut Story| {
        let token = story.ask(2, GroupRequestBody::DeleteGroups(vec!["g".into()]));
        match story.answer(token) {
            GroupResponse::DeleteGroups(list) => list[0].error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(delete(&mut story), ErrorCode::NonEmptyGroup);
    story.leave(&a);
    story.leave(&b);
    assert_eq!(story.state(), "Empty");
    assert_eq!(delete(&mut story), ErrorCode::None);
    assert_eq!(delete(&mut story), ErrorCode::GroupIdNotFound);
    let mut again = Story::over(std::mem::take(&mut story.log));
    assert_eq!((again.committed(), again.state()), (None, "none"));
}

#[test]
fn a_deleted_topic_takes_its_offsets_along() {
    let mut story = Story::new();
    story.commit(-1, "", 9, "");
    let token = story.ask(0, GroupRequestBody::TopicDeleted { name: "t".into() });
    assert_eq!(story.answer(token), GroupResponse::TopicDeleted);
    assert_eq!(story.committed(), None);
}

/// A client of the random test.
#[derive(Debug, Default)]
struct Client {
    id: String,
    generation: i32,
    is_leader: bool,
    members: Vec<String>,
    join: Option<Token>,
    sync: Option<Token>,
}

/// What a leader assigns to a member: to be recognised later.
fn share(generation: i32, member: &str) -> Bytes {
    format!("{generation}:{member}").into()
}

impl Story {
    /// Takes the answers that are there, and checks what every generation must keep.
    fn settle_clients(&mut self, clients: &mut [Client], leaders: &mut BTreeMap<i32, String>) {
        for client in clients {
            if let Some(response) = client.join.and_then(|token| self.answers.remove(&token)) {
                client.join = None;
                let GroupResponse::JoinGroup(response) = response else { panic!("{response:?}") };
                match ErrorCode::from_code(response.error_code).expect("known") {
                    ErrorCode::None => {
                        client.generation = response.generation_id;
                        client.is_leader = response.leader == response.member_id;
                        let leader = leaders
                            .entry(response.generation_id)
                            .or_insert_with(|| response.leader.to_string());
                        assert_eq!(**leader, *response.leader, "one leader in a generation");
                        client.members =
                            response.members.iter().map(|m| m.member_id.to_string()).collect();
                        assert!(client.is_leader || client.members.is_empty());
                    }
                    ErrorCode::MemberIdRequired => client.id = response.member_id.to_string(),
                    _ => client.id.clear(),
                }
            }
            if let Some(response) = client.sync.and_then(|token| self.answers.remove(&token)) {
                client.sync = None;
                let GroupResponse::SyncGroup(response) = response else { panic!("{response:?}") };
                if response.error_code == 0 {
                    assert_eq!(response.assignment, share(client.generation, &client.id));
                }
            }
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
    #[test]
    fn generations_are_sound_whatever_members_do(
        deeds in proptest::collection::vec((0_usize..4, 0_u8..6, 1_u64..8_000), 1..60),
    ) {
        let mut story = Story::new();
        let mut clients: Vec<Client> = (0..4).map(|_| Client::default()).collect();
        let mut leaders = BTreeMap::new();
        for (who, what, ms) in deeds {
            let (id, generation) = (clients[who].id.clone(), clients[who].generation);
            match what {
                0 | 1 if clients[who].join.is_none() && clients[who].sync.is_none() => {
                    clients[who].join = Some(story.join(9, &id, None));
                }
                2 if clients[who].sync.is_none() && clients[who].join.is_none() && !id.is_empty() => {
                    let assignments = clients[who].members.iter().map(|member| {
                        SyncGroupRequestAssignment::default()
                            .with_member_id(text(member))
                            .with_assignment(share(generation, member))
                    });
                    let request = m::SyncGroupRequest::default()
                        .with_group_id(GroupId(text("g")))
                        .with_generation_id(generation)
                        .with_member_id(text(&id))
                        .with_assignments(assignments.collect());
                    clients[who].sync = Some(story.ask(5, GroupRequestBody::SyncGroup(request)));
                }
                3 if !id.is_empty() => {
                    story.heartbeat(generation, &id);
                }
                4 if !id.is_empty() && ms < 2_000 => {
                    story.leave(&id);
                }
                _ => story.sleep_ms(ms),
            }
            story.settle_clients(&mut clients, &mut leaders);
        }
        // Every request is answered in the end, and the group comes to rest.
        story.sleep_ms(400_000);
        story.settle_clients(&mut clients, &mut leaders);
        for client in &clients {
            proptest::prop_assert!(client.join.is_none() && client.sync.is_none(), "{client:?}");
        }
        proptest::prop_assert!(["Empty", "none"].contains(&story.state()));
        // What the log holds makes the same state.
        let mut again = Story::over(std::mem::take(&mut story.log));
        proptest::prop_assert!(["Empty", "none"].contains(&again.state()));
    }
}
