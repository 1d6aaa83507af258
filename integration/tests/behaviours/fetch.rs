//! Fetch: O40 to O48, O53, O55.

use std::time::{Duration, Instant};

use bytes::Bytes;
use integration::wire::batch::{Batch, Record, read};
use integration::wire::requests::{fetch_request, topic_name};
use integration::wire::{Client, create_topic, create_topic_with};
use kafka_protocol::messages::fetch_request::{FetchTopic, ForgottenTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    BrokerId, FetchRequest, FetchResponse, OffsetForLeaderEpochRequest,
};

use crate::connect;

fn size(records: Option<&Bytes>) -> usize {
    records.map_or(0, Bytes::len)
}

#[test]
fn o40_the_first_batch_is_whole_whatever_the_limits() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o40", 2);
    let big = Batch::value(&"x".repeat(200_000)).bytes();
    for partition in [0, 1] {
        for _ in 0..2 {
            assert_eq!(client.produce(&topic, partition, big.clone()).error_code, 0);
        }
    }
    for version in 4..=12 {
        let mut request = fetch_request(&topic, 0, 0);
        request.topics[0].partitions[0].partition_max_bytes = 1_000;
        request.max_bytes = 1_000;
        let mut second = request.topics[0].partitions[0].clone();
        second.partition = 1;
        request.topics[0].partitions.push(second);
        let answer = client.call(version, &request);
        let sizes: Vec<usize> =
            answer.responses[0].partitions.iter().map(|p| size(p.records.as_ref())).collect();
        assert_eq!(
            sizes.iter().filter(|size| **size == big.len()).count(),
            1,
            "one whole batch: {sizes:?}"
        );
        assert!(sizes.iter().all(|size| *size == big.len() || *size <= 1_000), "{sizes:?}");
    }
}

#[test]
fn o40_limits_hold_for_all_that_follows() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o40-sum", 4);
    let batch = Batch::value(&"x".repeat(10_000)).bytes();
    for partition in 0..4 {
        for _ in 0..20 {
            assert_eq!(client.produce(&topic, partition, batch.clone()).error_code, 0);
        }
    }
    let mut request = fetch_request(&topic, 0, 0);
    request.topics[0].partitions[0].partition_max_bytes = 50_000;
    request.max_bytes = 120_000;
    for partition in 1..4 {
        let mut entry = request.topics[0].partitions[0].clone();
        entry.partition = partition;
        request.topics[0].partitions.push(entry);
    }
    let answer = client.call(12, &request);
    let sizes: Vec<usize> =
        answer.responses[0].partitions.iter().map(|p| size(p.records.as_ref())).collect();
    assert!(sizes.iter().all(|size| *size <= 50_000), "{sizes:?}");
    let sum: usize = sizes.iter().sum();
    assert!(sum <= 120_000 && sum >= 100_000, "{sizes:?}");
}

#[test]
fn o42_an_error_ends_the_wait() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o42", 1);
    let batch = Batch::value(&"x".repeat(30_000)).bytes();
    for _ in 0..5 {
        assert_eq!(client.produce(&topic, 0, batch.clone()).error_code, 0);
    }
    // A partition that is full does not: Apache Kafka waits for min.bytes all the same.
    let mut request = fetch_request(&topic, 0, 0);
    request.topics[0].partitions[0].partition_max_bytes = 64_000;
    request.min_bytes = 10_000_000;
    request.max_wait_ms = 300;
    let answer = client.call(12, &request);
    let size = size(answer.responses[0].partitions[0].records.as_ref());
    assert!((60_000..=64_000).contains(&size), "{size}");
    request.topics[0].partitions[0].fetch_offset = 99;
    request.max_wait_ms = 20_000;
    let begin = Instant::now();
    let answer = client.call(12, &request);
    assert_eq!(answer.responses[0].partitions[0].error_code, 1);
    assert!(begin.elapsed() < Duration::from_secs(10), "answered at once");
}

#[test]
fn a_waiting_fetch_wakes_when_records_come() {
    let mut client = connect();
    let topic = create_topic(&mut client, "wake", 1);
    let mut other = connect();
    let mut request = fetch_request(&topic, 0, 0);
    request.max_wait_ms = 25_000;
    for round in 0..50 {
        request.topics[0].partitions[0].fetch_offset = round;
        let begin = Instant::now();
        let id = client.send(12, &request).expect("sends");
        assert_eq!(other.produce(&topic, 0, Batch::value("x").bytes()).base_offset, round);
        let answer = client.receive::<FetchRequest>(12, id).expect("answers");
        let (headers, _) =
            read(answer.responses[0].partitions[0].records.as_ref().expect("records"));
        assert_eq!(headers[0].base_offset, round, "O53");
        assert!(begin.elapsed() < Duration::from_secs(10), "woken, not timed out");
    }
}

/// A fetch in a session: all partitions given have these offsets.
fn session_fetch(topic: &str, id: i32, epoch: i32, partitions: &[(i32, i64)]) -> FetchRequest {
    let mut request = fetch_request(topic, 0, 0);
    let entry = request.topics[0].partitions[0].clone();
    request.topics[0].partitions = partitions
        .iter()
        .map(|(partition, offset)| {
            entry.clone().with_partition(*partition).with_fetch_offset(*offset)
        })
        .collect();
    if partitions.is_empty() {
        request.topics = Vec::new();
    }
    (request.session_id, request.session_epoch) = (id, epoch);
    request
}

fn answered(response: &FetchResponse) -> Vec<i32> {
    let mut all: Vec<i32> = response
        .responses
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|p| p.partition_index))
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn o43_sessions_answer_what_has_changed() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o43", 3);
    client.produce(&topic, 0, Batch::value("x").bytes());
    let full = client.call(12, &session_fetch(&topic, 0, 0, &[(0, 0), (1, 0), (2, 0)]));
    assert_eq!(full.error_code, 0);
    assert_ne!(full.session_id, 0, "a session was made");
    assert_eq!(answered(&full), [0, 1, 2], "a full answer names all");
    let id = full.session_id;

    let next = client.call(12, &session_fetch(&topic, id, 1, &[(0, 1)]));
    assert_eq!((next.error_code, next.session_id), (0, id));
    assert_eq!(answered(&next), [] as [i32; 0], "nothing has changed");

    client.produce(&topic, 2, Batch::value("y").bytes());
    let next = client.call(12, &session_fetch(&topic, id, 2, &[]));
    assert_eq!(answered(&next), [2]);

    let wrong = client.call(12, &session_fetch(&topic, id, 2, &[]));
    assert_eq!(wrong.error_code, 71, "an epoch again: {wrong:?}");
    let unknown = client.call(12, &session_fetch(&topic, id ^ 0x55, 3, &[]));
    assert_eq!(unknown.error_code, 70);

    // Forgotten partitions are no longer answered; the others go on.
    let mut forget = session_fetch(&topic, id, 3, &[]);
    forget.forgotten_topics_data =
        vec![ForgottenTopic::default().with_topic(topic_name(&topic)).with_partitions(vec![2])];
    let next = client.call(12, &forget);
    assert_eq!((next.error_code, answered(&next)), (0, vec![]));
    client.produce(&topic, 2, Batch::value("z").bytes());
    client.produce(&topic, 1, Batch::value("z").bytes());
    let next = client.call(12, &session_fetch(&topic, id, 4, &[]));
    assert_eq!(answered(&next), [1]);

    // Closed with epoch -1: the answer is a full one without a session.
    let closed = client.call(12, &session_fetch(&topic, id, -1, &[(0, 0)]));
    assert_eq!((closed.error_code, closed.session_id, answered(&closed)), (0, 0, vec![0]));
    let gone = client.call(12, &session_fetch(&topic, id, 5, &[]));
    assert_eq!(gone.error_code, 70);
}

#[test]
fn o43_a_session_by_id_and_by_name_do_not_mix() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o43-id", 1);
    let topic_id = client.metadata(12, &[&topic], false).topics[0].topic_id;
    let by_id = |id: i32, epoch: i32| {
        let mut request = session_fetch(&topic, id, epoch, &[(0, 0)]);
        request.topics[0].topic_id = topic_id;
        request
    };
    let full = client.call(13, &by_id(0, 0));
    assert_eq!((full.error_code, answered(&full)), (0, vec![0]));
    assert_eq!(full.responses[0].topic_id, topic_id);
    let mixed = client.call(12, &session_fetch(&topic, full.session_id, 1, &[(0, 0)]));
    assert_eq!(mixed.error_code, 106, "{mixed:?}");
}

#[test]
fn o44_offsets_outside_of_the_log_are_refused_and_the_end_waits() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o44", 1);
    client.produce(&topic, 0, Batch::of(vec![Record::value("a"), Record::value("b")]).bytes());
    for offset in [-1, -5, 3, 1_000_000] {
        let answer = client.fetch(&topic, 0, offset);
        assert_eq!(answer.error_code, 1, "offset {offset}");
        assert_eq!(
            (answer.high_watermark, answer.log_start_offset),
            (-1, -1),
            "O55: as Kafka answers"
        );
    }
    let end = client.fetch(&topic, 0, 2);
    assert_eq!((end.error_code, end.high_watermark, size(end.records.as_ref())), (0, 2, 0));
    let middle = client.fetch(&topic, 0, 1);
    assert_eq!(read(middle.records.as_ref().expect("records")).1.len(), 2, "the whole batch");
}

#[test]
fn o46_leader_epochs_are_fenced() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o46", 1);
    client.produce(&topic, 0, Batch::value("x").bytes());
    let epoch = client.metadata(9, &[&topic], false).topics[0].partitions[0].leader_epoch;
    assert_eq!(epoch, 0, "a new topic");
    for (epoch, code) in [(-1, 0), (0, 0), (1, 75), (99, 75)] {
        for version in 9..=12 {
            let mut request = fetch_request(&topic, 0, 0);
            request.topics[0].partitions[0].current_leader_epoch = epoch;
            let answer = client.call(version, &request);
            assert_eq!(
                answer.responses[0].partitions[0].error_code, code,
                "Fetch {version}, epoch {epoch}"
            );
        }
        for version in 4..=10 {
            let mut request = integration::wire::requests::list_offsets_request(&topic, 0, -1);
            request.topics[0].partitions[0].current_leader_epoch = epoch;
            let answer = client.call(version, &request);
            assert_eq!(
                answer.topics[0].partitions[0].error_code, code,
                "ListOffsets {version}, epoch {epoch}"
            );
        }
        let answer = epoch_end(&mut client, &topic, epoch, 0);
        assert_eq!(answer.0, code, "OffsetForLeaderEpoch, epoch {epoch}");
    }
}

fn epoch_end(client: &mut Client, topic: &str, current: i32, epoch: i32) -> (i16, i32, i64) {
    let partition = OffsetForLeaderPartition::default()
        .with_partition(0)
        .with_current_leader_epoch(current)
        .with_leader_epoch(epoch);
    let request =
        OffsetForLeaderEpochRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![
            OffsetForLeaderTopic::default()
                .with_topic(topic_name(topic))
                .with_partitions(vec![partition]),
        ]);
    let answer = client.call(4, &request);
    let answer = &answer.topics[0].partitions[0];
    (answer.error_code, answer.leader_epoch, answer.end_offset)
}

#[test]
fn o48_the_end_of_an_epoch() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o48", 1);
    assert_eq!(epoch_end(&mut client, &topic, -1, 0), (0, 0, 0), "an empty log");
    client.produce(&topic, 0, Batch::of(vec![Record::value("a"), Record::value("b")]).bytes());
    assert_eq!(epoch_end(&mut client, &topic, -1, 0), (0, 0, 2));
    assert_eq!(epoch_end(&mut client, &topic, -1, 7), (0, -1, -1), "an epoch that was not yet");
    assert_eq!(epoch_end(&mut client, "o48-none", -1, 0).0, 3);
}

#[test]
fn o44_retention_moves_the_start_and_a_reader_from_the_start_never_stalls() {
    let mut client = connect();
    let topic = create_topic_with(
        &mut client,
        "o44-retention",
        1,
        &[("retention.bytes", "20000"), ("segment.bytes", "1048576")],
    );
    // Segments of 1 MiB, retention of far less: every roll lets the older ones go.
    let batch = Batch::value(&"x".repeat(200_000)).bytes();
    for _ in 0..30 {
        assert_eq!(client.produce(&topic, 0, batch.clone()).error_code, 0);
    }
    let start = integration::harness::wait_for(Duration::from_secs(60), || {
        let start = client.list_offset(7, &topic, 0, -2).offset;
        (start > 0).then_some(start)
    });
    let start = start.expect("old segments go");
    let answer = client.fetch(&topic, 0, start - 1);
    assert_eq!(answer.error_code, 1);
    let now = client.list_offset(7, &topic, 0, -2).offset;
    let (headers, _) = client.read_all(&topic, 0, now);
    assert_eq!(headers.first().map(|h| h.base_offset), Some(now));
    assert_eq!(headers.last().map(|h| h.base_offset), Some(29));
}

#[test]
fn a_fetch_of_many_partitions_answers_each() {
    let mut client = connect();
    let topic = create_topic(&mut client, "many", 30);
    for partition in 0..30 {
        client.produce(&topic, partition, Batch::value(&format!("p{partition}")).bytes());
    }
    let mut request = session_fetch(&topic, 0, -1, &(0..30).map(|p| (p, 0)).collect::<Vec<_>>());
    request.topics.push(
        FetchTopic::default()
            .with_topic(topic_name("many-none"))
            .with_partitions(vec![request.topics[0].partitions[0].clone()]),
    );
    let answer = client.call(12, &request);
    for topic in &answer.responses {
        for partition in &topic.partitions {
            if topic.topic.0.as_str() == "many-none" {
                assert_eq!(partition.error_code, 3);
            } else {
                let (_, records) = read(partition.records.as_ref().expect("records"));
                let value = format!("p{}", partition.partition_index);
                assert_eq!(records[0].value.as_deref(), Some(value.as_bytes()));
            }
        }
    }
    assert_eq!(answered(&answer).len(), 31);
}
