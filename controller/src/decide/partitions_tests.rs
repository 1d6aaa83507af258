//! Manual assignments and CreatePartitions: answers as a live Kafka 4.4.0 gave them, with one broker.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsAssignment;
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::{self, CreateTopicsRequest, TopicName};

use super::super::testkit::{Bed, directory};
use super::super::topics;
use super::*;
use crate::records::metadata::RegisterBrokerRecord;

fn bed() -> Bed {
    let mut bed = Bed::new();
    bed.commit(&[MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        broker_id: 1,
        fenced: false,
        log_dirs: vec![directory(1).0],
        ..RegisterBrokerRecord::default()
    })]);
    bed
}

fn ids(ids: &[i32]) -> Vec<messages::BrokerId> {
    ids.iter().copied().map(messages::BrokerId).collect()
}

impl Bed {
    fn assign(
        &mut self,
        partitions: i32,
        factor: i16,
        assignments: &[(i32, &[i32])],
    ) -> (i16, String) {
        let assignments = assignments.iter().map(|(index, brokers)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(*index)
                .with_broker_ids(ids(brokers))
        });
        let topic = CreatableTopic::default()
            .with_name(TopicName(text(format!("t{}", self.image().topics().len()))))
            .with_num_partitions(partitions)
            .with_replication_factor(factor)
            .with_assignments(assignments.collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]);
        let row = self.decide(|c, _, _| topics::create(c, &request)).response.topics.remove(0);
        (row.error_code, row.error_message.map_or(String::new(), |m| m.to_string()))
    }

    fn grow(
        &mut self,
        name: &str,
        count: i32,
        assignments: Option<&[&[i32]]>,
    ) -> (i16, Option<String>) {
        let assignments = assignments.map(|list| {
            let list = list.iter();
            list.map(|brokers| CreatePartitionsAssignment::default().with_broker_ids(ids(brokers)))
                .collect()
        });
        let topic = CreatePartitionsTopic::default()
            .with_name(TopicName(text(name)))
            .with_count(count)
            .with_assignments(assignments);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]);
        let row = self.decide(|c, _, _| create(c, &request)).response.results.remove(0);
        (row.error_code, row.error_message.map(|m| m.to_string()))
    }
}

#[test]
fn manual_assignments_are_checked_as_kafka_does() {
    let mut bed = bed();
    for (partitions, factor, assignments, code, message) in [
        (
            1,
            -1,
            vec![(0, &[1][..])],
            42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            -1,
            1,
            vec![(0, &[1][..])],
            42,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            -1,
            -1,
            vec![(0, &[7][..])],
            39,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            -1,
            -1,
            vec![(0, &[1, 1][..])],
            39,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            -1,
            -1,
            vec![(1, &[1][..])],
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            -1,
            -1,
            vec![(0, &[1][..]), (0, &[1][..])],
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            -1,
            -1,
            vec![(0, &[][..])],
            39,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            -1,
            -1,
            vec![(0, &[1][..]), (1, &[1, 9][..])],
            39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (-1, -1, vec![(1, &[1][..]), (0, &[1][..])], 0, ""),
    ] {
        assert_eq!(bed.assign(partitions, factor, &assignments), (code, message.to_owned()));
    }
    let (_, first) =
        bed.image().topics().iter().next().expect("made").partitions().next().expect("two");
    assert_eq!(first.directories, [directory(1)]);
}

#[test]
fn topics_grow_as_kafka_lets_them() {
    let mut bed = bed();
    bed.assign(2, 1, &[]);
    let bad = |code, message: &str| (code, Some(message.to_owned()));
    assert_eq!(bed.grow("t0", 2, None), bad(37, "Topic already has 2 partition(s)."));
    assert_eq!(
        bed.grow("t0", -1, None),
        bad(37, "The topic t0 currently has 2 partition(s); -1 would not be an increase.")
    );
    assert_eq!(bed.grow("nope", 3, None), (3, None));
    assert_eq!(
        bed.grow("t0", 4, Some(&[&[1]])),
        bad(
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
        )
    );
    assert_eq!(
        bed.grow("t0", 3, Some(&[&[]])),
        bad(39, "The manual partition assignment includes an empty replica list.")
    );
    assert_eq!(bed.grow("t0", 3, Some(&[&[1]])), (0, None));
    assert_eq!(bed.grow("t0", 5, None), (0, None));
    assert_eq!(bed.image().topics().by_name("t0").map(|t| t.partition_count()), Some(5));
    assert_eq!(
        bed.grow("t0", 20_000, None),
        bad(44, "Excessively large number of additional partitions per request.")
    );
}

#[test]
fn requests_of_too_many_partitions_are_refused_as_a_whole() {
    let mut bed = bed();
    let topic = |name: &str, count| {
        CreatableTopic::default()
            .with_name(TopicName(text(name)))
            .with_num_partitions(count)
            .with_replication_factor(1)
    };
    let request =
        CreateTopicsRequest::default().with_topics(vec![topic("a", 10_000), topic("b", 1)]);
    let decision = bed.decide(|c, _, _| topics::create(c, &request));
    assert!(decision.records.is_empty());
    for row in decision.response.topics {
        assert_eq!(
            (row.error_code, row.error_message.as_deref()),
            (44, Some("Excessively large number of partitions per request."))
        );
    }
}
