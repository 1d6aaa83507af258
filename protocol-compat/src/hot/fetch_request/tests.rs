use super::*;
use crate::hot::testkit::{text, topic_ref};
use crate::ids::Uuid;
use bytes::BytesMut;
use kafka_protocol::messages as m;
use kafka_protocol::protocol::Encodable;
use proptest::prelude::*;

fn epoch(known: bool) -> BoxedStrategy<Option<LeaderEpoch>> {
    if known {
        proptest::option::of((0..i32::MAX).prop_map(LeaderEpoch)).boxed()
    } else {
        Just(None).boxed()
    }
}

fn partition(version: i16) -> impl Strategy<Value = FetchPartition> {
    (
        any::<(i32, i64, i64, i32)>(),
        epoch(version >= 9),
        epoch(version >= 12),
        proptest::option::of(1..u128::MAX),
        proptest::option::of(0..i64::MAX),
    )
        .prop_map(move |(numbers, current, last, directory, watermark)| FetchPartition {
            partition: PartitionIndex(numbers.0),
            current_leader_epoch: current,
            fetch_offset: Offset(numbers.1),
            last_fetched_epoch: last,
            log_start_offset: if version >= 5 { numbers.2 } else { -1 },
            partition_max_bytes: numbers.3,
            replica_directory_id: directory
                .filter(|_| version >= 17)
                .map(|id| DirectoryId(Uuid::from_u128(id))),
            high_watermark: watermark.filter(|_| version >= 18).map(Offset),
        })
}

fn request(version: i16) -> impl Strategy<Value = FetchRequest> {
    let by_id = version >= 13;
    let topic = (topic_ref(by_id), proptest::collection::vec(partition(version), 0..4));
    let forgotten = (topic_ref(by_id), proptest::collection::vec(any::<i32>(), 0..4));
    (
        (
            proptest::option::of(text()),
            proptest::option::of(-2_i32..1000),
            proptest::option::of(0..i64::MAX),
        ),
        (any::<(i32, i32, i32, i8, i32, i32)>(), text()),
        proptest::collection::vec(topic, 0..4),
        proptest::collection::vec(forgotten, 0..3),
    )
        .prop_map(move |((cluster, replica, epoch), (numbers, rack), list, forgotten)| {
            let sessions = version >= 7;
            let mut topics = Vec::new();
            let mut partitions = Vec::new();
            for (topic, mut own) in list {
                let start = partitions.len();
                partitions.append(&mut own);
                topics.push(TopicSpan { topic, partitions: start..partitions.len() });
            }
            FetchRequest {
                cluster_id: cluster.filter(|_| version >= 12),
                replica_id: replica.filter(|id| *id != -1).map(BrokerId),
                replica_epoch: epoch.filter(|_| version >= 15).map(BrokerEpoch),
                max_wait_ms: numbers.0,
                min_bytes: numbers.1,
                max_bytes: numbers.2,
                isolation_level: numbers.3,
                session_id: if sessions { numbers.4 } else { 0 },
                session_epoch: if sessions { numbers.5 } else { -1 },
                topics,
                partitions,
                forgotten: forgotten
                    .into_iter()
                    .filter(|_| sessions)
                    .map(|(topic, list)| ForgottenTopic {
                        topic,
                        partitions: list.into_iter().map(PartitionIndex).collect(),
                    })
                    .collect(),
                rack_id: if version >= 11 { rack } else { StrBytes::from_static_str("") },
            }
        })
}

fn wire(request: &FetchRequest, version: i16) -> m::FetchRequest {
    use m::fetch_request as r;
    let number = |epoch: Option<LeaderEpoch>| epoch.map_or(-1, |epoch| epoch.0);
    let topics = request.topics.iter().map(|span| {
        let parts = request.partitions[span.partitions.clone()].iter().map(|partition| {
            let mut out = r::FetchPartition::default()
                .with_partition(partition.partition.0)
                .with_current_leader_epoch(number(partition.current_leader_epoch))
                .with_fetch_offset(partition.fetch_offset.0)
                .with_last_fetched_epoch(number(partition.last_fetched_epoch))
                .with_log_start_offset(partition.log_start_offset)
                .with_partition_max_bytes(partition.partition_max_bytes);
            if let Some(id) = partition.replica_directory_id {
                out = out.with_replica_directory_id(id.0);
            }
            if let Some(offset) = partition.high_watermark {
                out = out.with_high_watermark(offset.0);
            }
            out
        });
        let topic = r::FetchTopic::default().with_partitions(parts.collect());
        match &span.topic {
            TopicRef::Name(name) => topic.with_topic(m::TopicName(name.clone())),
            TopicRef::Id(id) => topic.with_topic_id(id.0),
        }
    });
    let forgotten = request.forgotten.iter().map(|forgotten| {
        let list = forgotten.partitions.iter().map(|partition| partition.0).collect();
        let topic = r::ForgottenTopic::default().with_partitions(list);
        match &forgotten.topic {
            TopicRef::Name(name) => topic.with_topic(m::TopicName(name.clone())),
            TopicRef::Id(id) => topic.with_topic_id(id.0),
        }
    });
    let replica = m::BrokerId(request.replica_id.map_or(-1, |id| id.0));
    let out = m::FetchRequest::default()
        .with_cluster_id(request.cluster_id.clone())
        .with_max_wait_ms(request.max_wait_ms)
        .with_min_bytes(request.min_bytes)
        .with_max_bytes(request.max_bytes)
        .with_isolation_level(request.isolation_level)
        .with_session_id(request.session_id)
        .with_session_epoch(request.session_epoch)
        .with_topics(topics.collect())
        .with_forgotten_topics_data(forgotten.collect())
        .with_rack_id(request.rack_id.clone());
    if version >= 15 {
        let epoch = request.replica_epoch.map_or(-1, |epoch| epoch.0);
        let state = r::ReplicaState::default().with_replica_id(replica).with_replica_epoch(epoch);
        out.with_replica_state(state)
    } else {
        out.with_replica_id(replica)
    }
}

fn versioned() -> impl Strategy<Value = (i16, FetchRequest)> {
    (MIN_VERSION..=MAX_VERSION).prop_flat_map(|version| (Just(version), request(version)))
}

proptest! {
    #[test]
    fn requests_are_read_as_the_crate_writes_them((version, request) in versioned()) {
        let mut body = BytesMut::new();
        wire(&request, version).encode(&mut body, version).expect("encodes");
        prop_assert_eq!(FetchRequest::parse(version, body.freeze()), Ok(request));
    }

    #[test]
    fn cut_or_changed_requests_never_panic((version, request) in versioned(), at in any::<usize>(), byte in any::<u8>()) {
        let mut body = BytesMut::new();
        wire(&request, version).encode(&mut body, version).expect("encodes");
        let at = at % body.len();
        prop_assert!(FetchRequest::parse(version, body.clone().freeze().slice(..at)).is_err());
        body[at] = byte;
        let _ = FetchRequest::parse(version, body.freeze());
    }
}
