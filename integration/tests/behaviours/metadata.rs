//! Metadata, topics and coordinators: O08 to O14.

use std::time::Duration;

use integration::harness::wait_for;
use integration::wire::batch::Batch;
use integration::wire::requests::{text, topic_name};
use integration::wire::{Client, create_topic, unique};
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, FindCoordinatorRequest, MetadataRequest,
};
use uuid::Uuid;

use crate::connect;

const VERSIONS: std::ops::RangeInclusive<i16> = 0..=13;

#[test]
fn o08_null_is_all_topics_and_empty_is_none() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o08", 2);
    for version in VERSIONS {
        let none = client.call(version, &MetadataRequest::default().with_topics(Some(Vec::new())));
        let all = if version == 0 {
            none.clone()
        } else {
            assert!(none.topics.is_empty(), "version {version}");
            client.call(version, &MetadataRequest::default().with_topics(None))
        };
        let found =
            all.topics.iter().find(|t| t.name.as_ref().is_some_and(|n| n.0.as_str() == topic));
        let found = found.unwrap_or_else(|| panic!("version {version}: {all:?}"));
        assert_eq!(found.partitions.len(), 2);
        assert_eq!(found.topic_id.is_nil(), version < 10, "ids from version 10 on: {version}");
        assert!(!all.brokers.is_empty());
        if version >= 1 {
            assert!(all.brokers.iter().any(|broker| broker.node_id == all.controller_id));
        }
        if version >= 2 {
            assert_eq!(all.cluster_id.as_ref().map(|id| id.len()), Some(22));
        }
    }
}

#[test]
fn o08_unknown_and_invalid_names_are_answered_and_nothing_is_made() {
    let mut client = connect();
    for version in VERSIONS {
        if version >= 4 {
            let name = unique("o08-unknown");
            let answer = client.metadata(version, &[&name], false);
            assert_eq!(answer.topics[0].error_code, 3, "version {version}");
            let again = client.metadata(version, &[&name], false);
            assert_eq!(again.topics[0].error_code, 3, "not made by asking, version {version}");
        }
        for invalid in ["a b", "..", "a/b", &"x".repeat(250)] {
            let answer = client.metadata(version, &[invalid], true);
            assert_eq!(answer.topics[0].error_code, 17, "{invalid:?} version {version}");
        }
    }
    let all = client.call(12, &MetadataRequest::default().with_topics(None));
    assert!(
        !all.topics.iter().any(|t| t.name.as_ref().is_some_and(|n| n.0.contains("o08-unknown")))
    );
}

#[test]
fn o08_topics_by_id_from_version_12_on() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o08-id", 1);
    let id = client.metadata(12, &[&topic], false).topics[0].topic_id;
    let by_id = |id: Uuid| {
        MetadataRequest::default().with_topics(Some(vec![
            MetadataRequestTopic::default().with_topic_id(id).with_name(None),
        ]))
    };
    for version in 12..=13 {
        let answer = client.call(version, &by_id(id));
        assert_eq!(answer.topics[0].error_code, 0);
        assert_eq!(answer.topics[0].name.as_ref().map(|n| n.0.as_str()), Some(topic.as_str()));
        let unknown = client.call(version, &by_id(Uuid::from_u128(12345)));
        assert_eq!(unknown.topics[0].error_code, 100);
        assert_eq!(unknown.topics[0].topic_id, Uuid::from_u128(12345));
    }
}

#[test]
fn o09_a_topic_made_by_asking_has_a_leader_soon() {
    let mut client = connect();
    let name = unique("o09");
    let first = client.metadata(9, &[&name], true);
    assert!([0, 3, 5].contains(&first.topics[0].error_code), "a retriable code: {first:?}");
    let led = wait_for(Duration::from_secs(10), || {
        let answer = client.metadata(9, &[&name], true);
        let topic = &answer.topics[0];
        (topic.error_code == 0 && topic.partitions.iter().all(|p| p.leader_id.0 >= 0)).then_some(())
    });
    assert!(led.is_some());
    assert_eq!(client.produce(&name, 0, Batch::value("x").bytes()).error_code, 0);
}

#[test]
fn o10_a_new_topic_is_served_at_once_or_retriable() {
    let mut client = connect();
    let mut other = connect();
    for _ in 0..20 {
        let name = unique("o10");
        let topic = CreatableTopic::default()
            .with_name(topic_name(&name))
            .with_num_partitions(3)
            .with_replication_factor(1);
        let request =
            CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
        assert_eq!(client.call(7, &request).topics[0].error_code, 0);
        let mut seen = 0;
        let served = wait_for(Duration::from_secs(10), || {
            let answer = other.metadata(12, &[&name], false);
            let topic = &answer.topics[0];
            assert!([0, 3, 5].contains(&topic.error_code), "{topic:?}");
            assert!(topic.partitions.len() >= seen, "partitions never become fewer");
            seen = topic.partitions.len();
            (seen == 3 && topic.error_code == 0).then_some(())
        });
        assert!(served.is_some());
    }
}

#[test]
fn o12_authorized_operations_only_when_asked() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o12", 1);
    for version in 8..=13 {
        let answer = client.metadata(version, &[&topic], false);
        assert_eq!(answer.topics[0].topic_authorized_operations, i32::MIN, "version {version}");
        let request = MetadataRequest::default()
            .with_topics(Some(vec![
                MetadataRequestTopic::default().with_name(Some(topic_name(&topic))),
            ]))
            .with_include_topic_authorized_operations(true);
        let answer = client.call(version, &request);
        // read, write, create, delete, alter, describe, describe configs, alter configs
        assert_eq!(answer.topics[0].topic_authorized_operations, 0b0000_1101_1111_1000);
    }
    for version in 0..=2 {
        let answer = client.call(version, &DescribeClusterRequest::default().with_endpoint_type(1));
        assert_eq!(answer.error_code, 0, "{answer:?}");
        assert_eq!(answer.cluster_authorized_operations, i32::MIN);
        assert!(answer.brokers.iter().any(|broker| broker.broker_id == answer.controller_id));
        let request = DescribeClusterRequest::default()
            .with_endpoint_type(1)
            .with_include_cluster_authorized_operations(true);
        // alter, cluster action, create, describe, describe configs, alter configs, idempotent write, ...
        assert_eq!(
            client.call(version, &request).cluster_authorized_operations,
            0b0001_1111_1010_0000
        );
    }
}

#[test]
fn o13_find_coordinator_in_every_version() {
    let mut client = connect();
    if !crate::versions::advertised().contains_key(&10) {
        return; // This build has no coordinators yet.
    }
    for version in 0..=6 {
        let found = wait_for(Duration::from_secs(30), || {
            let (error, node) = find(&mut client, version, "o13-group", 0);
            assert!([0, 15].contains(&error), "version {version}: {error}");
            (error == 0).then_some(node)
        });
        assert_eq!(found, Some(1), "version {version}");
    }
    for version in 1..=6 {
        let (error, node) = find(&mut client, version, "o13-group", 7);
        assert_eq!((error, node), (42, -1), "key type 7, version {version}");
    }
}

fn find(client: &mut Client, version: i16, key: &str, key_type: i8) -> (i16, i32) {
    let request = FindCoordinatorRequest::default().with_key_type(key_type);
    if version < 4 {
        let answer = client.call(version, &request.with_key(text(key)));
        (answer.error_code, answer.node_id.0)
    } else {
        let answer = client.call(version, &request.with_coordinator_keys(vec![text(key)]));
        assert_eq!(answer.coordinators.len(), 1, "{answer:?}");
        assert_eq!(answer.coordinators[0].key.as_str(), key);
        (answer.coordinators[0].error_code, answer.coordinators[0].node_id.0)
    }
}

#[test]
fn o14_create_partitions_answers_a_row_for_each_topic() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o14", 3);
    let other = create_topic(&mut client, "o14", 1);
    let assignment =
        |broker: i32| CreatePartitionsAssignment::default().with_broker_ids(vec![BrokerId(broker)]);
    let entry = |name: &str, count: i32, assignments: Option<Vec<CreatePartitionsAssignment>>| {
        CreatePartitionsTopic::default()
            .with_name(topic_name(name))
            .with_count(count)
            .with_assignments(assignments)
    };
    let cases = [
        (entry(&topic, 2, None), 37, "fewer"),
        (entry(&topic, 3, None), 37, "as many"),
        (entry(&topic, 0, None), 37, "none"),
        (entry(&topic, -1, None), 37, "negative"),
        (entry(&topic, 4, Some(vec![assignment(99)])), 39, "unknown broker"),
        (entry(&topic, 4, Some(vec![assignment(1), assignment(1)])), 39, "too many assignments"),
        (entry("o14-no-such", 4, None), 3, "unknown topic"),
        (entry(&topic, 4, Some(vec![assignment(1)])), 0, "one more"),
    ];
    for version in 0..=3 {
        for (entry, error, what) in cases.iter().take(7) {
            let request = CreatePartitionsRequest::default()
                .with_topics(vec![entry.clone()])
                .with_timeout_ms(30_000);
            let answer = client.call(version, &request);
            assert_eq!(answer.results.len(), 1);
            assert_eq!(answer.results[0].error_code, *error, "{what}, version {version}");
        }
    }
    let both = CreatePartitionsRequest::default()
        .with_topics(vec![cases[7].0.clone(), entry(&other, 1, None)])
        .with_timeout_ms(30_000);
    let check = client.call(3, &both.clone().with_validate_only(true));
    assert_eq!(check.results.len(), 2);
    assert_eq!(client.metadata(12, &[&topic], false).topics[0].partitions.len(), 3);
    let answer = client.call(3, &both);
    let code = |name: &str| {
        answer.results.iter().find(|r| r.name.0.as_str() == name).map(|r| r.error_code)
    };
    assert_eq!((code(&topic), code(&other)), (Some(0), Some(37)));
    let grown = wait_for(Duration::from_secs(10), || {
        let answer = client.metadata(12, &[&topic], false);
        (answer.topics[0].partitions.len() == 4).then_some(())
    });
    assert!(grown.is_some());
}

#[test]
fn create_topics_answers_each_topic_apart() {
    let mut client = connect();
    let topic = |name: &str, partitions: i32, factor: i16| {
        CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(factor)
    };
    let (good, defaults, twice) = (unique("ct"), unique("ct"), unique("ct"));
    let exists = create_topic(&mut client, "ct", 1);
    let topics = vec![
        topic(&good, 2, 1),
        topic(&defaults, -1, -1),
        topic(&exists, 1, 1),
        topic("ct bad name", 1, 1),
        topic("ct-zero", 0, 1),
        topic("ct-factor", 1, 3),
        topic("ct-factor-0", 1, 0),
        topic(&twice, 1, 1),
        topic(&twice, 1, 1),
    ];
    let request = CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(30_000);
    let check = client.call(7, &request.clone().with_validate_only(true));
    let answer = client.call(7, &request);
    for answer in [check, answer] {
        let code = |name: &str| {
            answer.topics.iter().find(|t| t.name.0.as_str() == name).map(|t| t.error_code)
        };
        assert_eq!(code(&good), Some(0));
        assert_eq!(code(&defaults), Some(0));
        assert_eq!(code(&exists), Some(36));
        assert_eq!(code("ct bad name"), Some(17));
        assert_eq!(code("ct-zero"), Some(37));
        assert_eq!(code("ct-factor"), Some(38));
        assert_eq!(code("ct-factor-0"), Some(38));
        assert_eq!(code(&twice), Some(42));
        assert_eq!(answer.topics.len(), 8, "a name given twice is answered once");
    }
}

#[test]
fn a_deleted_topic_is_gone_and_can_be_made_again_with_another_id() {
    let mut client = connect();
    let topic = create_topic(&mut client, "del", 1);
    let id = client.metadata(12, &[&topic], false).topics[0].topic_id;
    let delete = DeleteTopicsRequest::default()
        .with_topic_names(vec![topic_name(&topic), topic_name("del-no-such")])
        .with_timeout_ms(30_000);
    let answer = client.call(5, &delete);
    let code = |name: &str| {
        let found =
            answer.responses.iter().find(|r| r.name.as_ref().is_some_and(|n| n.0.as_str() == name));
        found.map(|r| r.error_code)
    };
    assert_eq!((code(&topic), code("del-no-such")), (Some(0), Some(3)));
    let gone = wait_for(Duration::from_secs(10), || {
        (client.metadata(12, &[&topic], false).topics[0].error_code == 3).then_some(())
    });
    assert!(gone.is_some());
    // O35: a producer that goes on gets an answer, not silence.
    let late = client.produce(&topic, 0, Batch::value("late").bytes());
    assert_eq!(late.error_code, 3);
    let again = CreateTopicsRequest::default()
        .with_topics(vec![
            CreatableTopic::default()
                .with_name(topic_name(&topic))
                .with_num_partitions(1)
                .with_replication_factor(1),
        ])
        .with_timeout_ms(30_000);
    assert_eq!(client.call(7, &again).topics[0].error_code, 0);
    let new_id = wait_for(Duration::from_secs(10), || {
        let answer = client.metadata(12, &[&topic], false);
        (answer.topics[0].error_code == 0).then_some(answer.topics[0].topic_id)
    });
    assert!(new_id.is_some_and(|new| new != id));
    let first = wait_for(Duration::from_secs(10), || {
        let answer = client.produce(&topic, 0, Batch::value("new").bytes());
        (answer.error_code == 0).then_some(answer.base_offset)
    });
    assert_eq!(first, Some(0), "nothing of the old topic is left");
}
