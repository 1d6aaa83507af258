//! Classic groups by raw requests: O60 to O73.

use std::time::Duration;

use bytes::Bytes;
use integration::harness::{Broker, wait_for};
use integration::wire::requests::{text, topic_name};
use integration::wire::{Client, create_topic, unique};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest,
};

use crate::connect;

const LIMIT: Duration = Duration::from_secs(30);

/// A connection, once the group has a coordinator that has loaded.
pub(crate) fn coordinator(group: &str) -> Client {
    let mut client = connect();
    let find = FindCoordinatorRequest::default().with_key(text(group));
    let ready = wait_for(LIMIT, || {
        (client.call(3, &find).error_code == 0
            && client.call(6, &offset_fetch(group, None)).error_code == 0)
            .then_some(())
    });
    assert!(ready.is_some(), "a coordinator");
    client
}

fn offset_fetch(group: &str, topic: Option<&str>) -> OffsetFetchRequest {
    let topic = topic.map(|name| {
        vec![
            OffsetFetchRequestTopic::default()
                .with_name(topic_name(name))
                .with_partition_indexes(vec![0, 1]),
        ]
    });
    OffsetFetchRequest::default().with_group_id(GroupId(text(group))).with_topics(topic)
}

fn join(group: &str, member: &str, protocols: &[&str]) -> JoinGroupRequest {
    let protocols = protocols
        .iter()
        .map(|name| {
            JoinGroupRequestProtocol::default()
                .with_name(text(name))
                .with_metadata(Bytes::from_static(b"meta"))
        })
        .collect();
    JoinGroupRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_member_id(text(member))
        .with_protocol_type(text("consumer"))
        .with_protocols(protocols)
}

/// Joins a group in version 7: asks for an id, then joins with it.
pub(crate) fn joined(client: &mut Client, group: &str) -> JoinGroupResponse {
    let asked = client.call(7, &join(group, "", &["range"]));
    assert_eq!(asked.error_code, 79, "{asked:?}");
    let answer = client.call(7, &join(group, &asked.member_id, &["range"]));
    assert_eq!(answer.error_code, 0, "{answer:?}");
    assert_eq!(answer.member_id, asked.member_id);
    answer
}

fn sync(
    group: &str,
    generation: i32,
    member: &str,
    to: &[(&str, &'static [u8])],
) -> SyncGroupRequest {
    let assignments = to
        .iter()
        .map(|(member, bytes)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(member))
                .with_assignment(Bytes::from_static(bytes))
        })
        .collect();
    SyncGroupRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id(generation)
        .with_member_id(text(member))
        .with_assignments(assignments)
}

fn heartbeat(client: &mut Client, group: &str, generation: i32, member: &str) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id(generation)
        .with_member_id(text(member));
    client.call(3, &request).error_code
}

pub(crate) fn commit(
    client: &mut Client,
    group: &str,
    generation: i32,
    member: &str,
    topic: &str,
    metadata: &str,
) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(42)
        .with_committed_leader_epoch(3)
        .with_committed_metadata(Some(text(metadata)));
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(text(member))
        .with_topics(vec![
            OffsetCommitRequestTopic::default()
                .with_name(topic_name(topic))
                .with_partitions(vec![partition]),
        ]);
    client.call(7, &request).topics[0].partitions[0].error_code
}

#[test]
fn a_group_of_one_joins_syncs_beats_commits_and_leaves() {
    let group = unique("g-one");
    let mut client = coordinator(&group);
    let topic = create_topic(&mut client, "g-one", 2);
    let member = joined(&mut client, &group);
    assert_eq!((member.generation_id, &member.leader), (1, &member.member_id));
    assert_eq!(member.members.len(), 1);
    assert_eq!(member.protocol_name.as_deref(), Some("range"));
    let id = member.member_id.as_str();
    assert_eq!(heartbeat(&mut client, &group, 1, id), 0, "before its sync");
    assert_eq!(commit(&mut client, &group, 1, id, &topic, "m"), 27, "O66");
    let synced = client.call(3, &sync(&group, 1, id, &[(id, b"mine")]));
    assert_eq!((synced.error_code, synced.assignment), (0, Bytes::from_static(b"mine")));
    assert_eq!(heartbeat(&mut client, &group, 1, id), 0);
    assert_eq!(heartbeat(&mut client, &group, 0, id), 22, "an old generation");
    assert_eq!(heartbeat(&mut client, &group, 1, "nobody"), 25);
    assert_eq!(commit(&mut client, &group, 1, id, &topic, "m"), 0);
    assert_eq!(commit(&mut client, &group, 0, id, &topic, "m"), 22);
    assert_eq!(commit(&mut client, &group, 1, "nobody", &topic, "m"), 25);
    assert_eq!(commit(&mut client, &group, -1, "", &topic, "m"), 25, "O73: a live group");
    assert_eq!(commit(&mut client, &group, 1, id, &topic, &"x".repeat(4_097)), 12, "O67");
    let leave =
        LeaveGroupRequest::default().with_group_id(GroupId(text(&group))).with_members(vec![
            MemberIdentity::default().with_member_id(text(id)),
            MemberIdentity::default().with_member_id(text("nobody")),
        ]);
    let left = client.call(4, &leave);
    let codes: Vec<i16> = left.members.iter().map(|member| member.error_code).collect();
    assert_eq!((left.error_code, codes), (0, vec![0, 25]));
    assert_eq!(heartbeat(&mut client, &group, 1, id), 25);
    assert_eq!(commit(&mut client, &group, -1, "", &topic, "m"), 0, "an empty group");
}

#[test]
fn o65_what_cannot_join() {
    let group = unique("g-65");
    let mut client = coordinator(&group);
    let code = |client: &mut Client, request: &JoinGroupRequest| client.call(5, request).error_code;
    assert_eq!(code(&mut client, &join("", "", &["range"])), 24, "no group");
    assert_eq!(code(&mut client, &join(&group, "nobody", &["range"])), 25, "unknown member");
    let short = join(&group, "", &["range"]).with_session_timeout_ms(1);
    assert_eq!(code(&mut client, &short), 26, "session timeout too short");
    let long = join(&group, "", &["range"]).with_session_timeout_ms(i32::MAX);
    assert_eq!(code(&mut client, &long), 26, "session timeout too long");
    assert_eq!(code(&mut client, &join(&group, "", &[])), 23, "no protocol");
    let untyped = join(&group, "", &["range"]).with_protocol_type(text(""));
    assert_eq!(code(&mut client, &untyped), 23, "no type");
    let member = joined(&mut client, &group);
    client.call(3, &sync(&group, 1, &member.member_id, &[]));
    assert_eq!(code(&mut client, &join(&group, "", &["other"])), 23, "nothing in common");
    let other = join(&group, "", &["range"]).with_protocol_type(text("connect"));
    assert_eq!(code(&mut client, &other), 23, "another type");
    // Before version 4 no id has to be asked for.
    let old = unique("g-65-old");
    let mut client = coordinator(&old);
    let answer = client.call(3, &join(&old, "", &["range", "roundrobin"]));
    assert_eq!((answer.error_code, answer.generation_id), (0, 1));
}

#[test]
fn a_second_member_makes_a_rebalance_and_both_get_their_part() {
    let group = unique("g-two");
    let (mut one, mut two) = (coordinator(&group), coordinator(&group));
    let first = joined(&mut one, &group);
    let first_id = first.member_id.to_string();
    one.call(3, &sync(&group, 1, &first_id, &[(&first_id, b"all")]));
    let asked = two.call(7, &join(&group, "", &["range"]));
    let second_id = asked.member_id.to_string();
    let waiting = two.send(7, &join(&group, &second_id, &["range"])).expect("sends");
    let told = wait_for(LIMIT, || (heartbeat(&mut one, &group, 1, &first_id) == 27).then_some(()));
    assert!(told.is_some(), "the first is told to join again");
    let again = one.call(7, &join(&group, &first_id, &["range"]));
    let new = two.receive::<JoinGroupRequest>(7, waiting).expect("the join is answered");
    assert_eq!((again.error_code, again.generation_id, again.members.len()), (0, 2, 2));
    assert_eq!((new.error_code, new.generation_id, new.members.len()), (0, 2, 0));
    assert_eq!((again.leader.as_str(), new.leader.as_str()), (&*first_id, &*first_id));
    let waiting = two.send(3, &sync(&group, 2, &second_id, &[])).expect("sends");
    let parts: [(&str, &'static [u8]); 2] = [(&first_id, b"left"), (&second_id, b"right")];
    let mine = one.call(3, &sync(&group, 2, &first_id, &parts));
    let other = two.receive::<SyncGroupRequest>(3, waiting).expect("the sync is answered");
    assert_eq!((&mine.assignment[..], &other.assignment[..]), (&b"left"[..], &b"right"[..]));
    assert_eq!(one.call(3, &sync(&group, 1, &first_id, &[])).error_code, 22, "an old generation");
    // O72: described and listed.
    let describe = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(&group))]);
    let described = one.call(5, &describe);
    let state = &described.groups[0];
    assert_eq!((state.group_state.as_str(), state.members.len()), ("Stable", 2));
    assert_eq!((state.protocol_type.as_str(), state.protocol_data.as_str()), ("consumer", "range"));
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(&group))]);
    assert_eq!(one.call(2, &delete).results[0].error_code, 68, "a live group is not deleted");
}

#[test]
fn o67_o68_offsets_come_back_as_they_were_committed() {
    let group = unique("g-68");
    let mut client = coordinator(&group);
    let topic = create_topic(&mut client, "g-68", 2);
    assert_eq!(commit(&mut client, &group, -1, "", &topic, "kept"), 0);
    for version in 1..=7 {
        let answer = client.call(version, &offset_fetch(&group, Some(&topic)));
        let partitions = &answer.topics[0].partitions;
        let of =
            |index: i32| partitions.iter().find(|p| p.partition_index == index).expect("there");
        assert_eq!((of(0).committed_offset, of(0).error_code), (42, 0), "version {version}");
        assert_eq!(of(0).metadata.as_deref(), Some("kept"));
        assert_eq!(of(0).committed_leader_epoch, if version >= 5 { 3 } else { -1 }, "O47");
        assert_eq!((of(1).committed_offset, of(1).error_code), (-1, 0), "never committed");
        if version >= 2 {
            let all = client.call(version, &offset_fetch(&group, None));
            assert_eq!((all.topics.len(), all.topics[0].partitions.len()), (1, 1));
        }
    }
    for version in 8..=9 {
        let of = |name: &str| {
            OffsetFetchRequestGroup::default().with_group_id(GroupId(text(name))).with_topics(None)
        };
        let request = OffsetFetchRequest::default().with_groups(vec![of(&group), of("g-68-none")]);
        let answer = client.call(version, &request);
        assert_eq!(answer.groups.len(), 2, "version {version}");
        let found = answer.groups.iter().find(|g| g.group_id.0.as_str() == group).expect("there");
        assert_eq!(found.topics[0].partitions[0].committed_offset, 42);
    }
    assert_eq!(commit(&mut client, &group, -1, "", "g-68-no-topic", "m"), 3);
    assert_eq!(commit(&mut client, "", -1, "", &topic, "m"), 0, "as old simple consumers do");
}

#[test]
fn o72_groups_of_offsets_alone_are_listed_and_deleted() {
    let group = unique("g-72");
    let mut client = coordinator(&group);
    let topic = create_topic(&mut client, "g-72", 2);
    assert_eq!(commit(&mut client, &group, -1, "", &topic, "m"), 0);
    for version in 0..=5 {
        let listed = client.call(version, &ListGroupsRequest::default());
        let found = listed.groups.iter().find(|g| g.group_id.0.as_str() == group);
        let found = found.unwrap_or_else(|| panic!("version {version}: {listed:?}"));
        assert_eq!(found.protocol_type.as_str(), "");
        if version >= 4 {
            assert_eq!(found.group_state.as_str(), "Empty");
            let stable = ListGroupsRequest::default().with_states_filter(vec![text("Stable")]);
            let listed = client.call(version, &stable);
            assert!(!listed.groups.iter().any(|g| g.group_id.0.as_str() == group));
        }
    }
    for (version, code) in [(0, 0), (5, 0), (6, 69)] {
        let unknown =
            DescribeGroupsRequest::default().with_groups(vec![GroupId(text("g-72-none"))]);
        let answer = client.call(version, &unknown);
        let answer = &answer.groups[0];
        assert_eq!(
            (answer.error_code, answer.group_state.as_str()),
            (code, "Dead"),
            "version {version}"
        );
    }
    let delete = DeleteGroupsRequest::default()
        .with_groups_names(vec![GroupId(text(&group)), GroupId(text("g-72-none"))]);
    let answer = client.call(2, &delete);
    let code = |name: &str| {
        answer.results.iter().find(|r| r.group_id.0.as_str() == name).map(|r| r.error_code)
    };
    assert_eq!((code(&group), code("g-72-none")), (Some(0), Some(69)));
    let fetched = client.call(6, &offset_fetch(&group, Some(&topic)));
    assert_eq!(fetched.topics[0].partitions[0].committed_offset, -1, "gone");
}

#[test]
fn o64_a_static_member_comes_back_as_itself_and_fences_its_double() {
    let group = unique("g-64");
    let mut client = coordinator(&group);
    let request = join(&group, "", &["range"]).with_group_instance_id(Some(text("static-1")));
    let first = client.call(7, &request);
    assert_eq!((first.error_code, first.generation_id), (0, 1), "{first:?}");
    let id = first.member_id.to_string();
    let mut own = sync(&group, 1, &id, &[(&id, b"mine")]);
    own.group_instance_id = Some(text("static-1"));
    assert_eq!(client.call(3, &own).error_code, 0);
    // A restart: the same instance without its member id.
    let mut again = coordinator(&group);
    let back = again.call(7, &request);
    assert_eq!((back.error_code, back.generation_id), (0, 1), "no rebalance: {back:?}");
    assert_ne!(back.member_id.as_str(), id);
    let beat = HeartbeatRequest::default()
        .with_group_id(GroupId(text(&group)))
        .with_generation_id(1)
        .with_member_id(text(&id))
        .with_group_instance_id(Some(text("static-1")));
    assert_eq!(client.call(3, &beat).error_code, 82, "the older is fenced");
    let mut sync = sync(&group, 1, &back.member_id, &[]);
    sync.group_instance_id = Some(text("static-1"));
    assert_eq!(again.call(3, &sync).assignment, Bytes::from_static(b"mine"), "the same part");
}

#[test]
fn o60_a_silent_member_does_not_hold_up_the_group() {
    let group = unique("g-60");
    let (mut one, mut silent) = (coordinator(&group), coordinator(&group));
    let quick = |member: &str| {
        join(&group, member, &["range"])
            .with_session_timeout_ms(6_000)
            .with_rebalance_timeout_ms(1_000)
    };
    let asked = silent.call(7, &quick(""));
    assert_eq!(silent.call(7, &quick(&asked.member_id)).error_code, 0);
    // It never syncs, nor answers the rebalance that the other begins.
    let asked = one.call(7, &quick(""));
    let joined = one.call(7, &quick(&asked.member_id));
    assert_eq!(
        (joined.error_code, joined.members.len()),
        (0, 1),
        "the other goes on alone: {joined:?}"
    );
}

#[test]
fn o69_committed_offsets_survive_a_stop_and_a_kill() {
    let mut broker = Broker::start(&[]);
    let group = unique("g-69");
    let connect_to = |broker: &Broker| {
        let mut client = broker.connect();
        let find = FindCoordinatorRequest::default().with_key(text(&group));
        let ready = wait_for(LIMIT, || {
            (client.call(3, &find).error_code == 0
                && client.call(6, &offset_fetch(&group, None)).error_code == 0)
                .then_some(())
        });
        assert!(ready.is_some(), "a coordinator");
        client
    };
    let mut client = connect_to(&broker);
    let topic = create_topic(&mut client, "g-69", 2);
    assert_eq!(commit(&mut client, &group, -1, "", &topic, "kept"), 0);
    for kill in [true, false, true] {
        if kill {
            broker.kill();
        } else {
            broker.stop();
        }
        broker.start_again();
        let mut client = connect_to(&broker);
        let answer = client.call(6, &offset_fetch(&group, Some(&topic)));
        let partition = &answer.topics[0].partitions[0];
        assert_eq!((partition.committed_offset, partition.committed_leader_epoch), (42, 3));
        assert_eq!(partition.metadata.as_deref(), Some("kept"));
    }
}
