use super::*;
use crate::hot::TopicRef;
use crate::hot::testkit::{endpoints, leader, topic_ref};
use kafka_protocol::messages as m;
use kafka_protocol::protocol::Encodable;
use proptest::prelude::*;

fn place() -> impl Strategy<Value = EpochAndOffset> {
    (0..i32::MAX, any::<i64>()).prop_map(|(epoch, offset)| EpochAndOffset {
        epoch: LeaderEpoch(epoch),
        end_offset: Offset(offset),
    })
}

fn partition(version: i16) -> impl Strategy<Value = FetchPartitionResponse> {
    let transaction = any::<(i64, i64)>()
        .prop_map(|(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset });
    (
        (any::<i32>(), proptest::sample::select(ErrorCode::ALL), any::<(i64, i64, i64, i32)>()),
        proptest::option::of(place()),
        proptest::option::of(leader()),
        proptest::option::of(place()),
        proptest::option::of(proptest::collection::vec(transaction, 0..3)),
        proptest::option::of(0_u32..300),
    )
        .prop_map(
            move |((index, error_code, numbers), diverging, leader, snapshot, aborted, size)| {
                FetchPartitionResponse {
                    partition: PartitionIndex(index),
                    error_code,
                    high_watermark: numbers.0,
                    last_stable_offset: numbers.1,
                    log_start_offset: if version >= 5 { numbers.2 } else { -1 },
                    diverging_epoch: diverging.filter(|_| version >= 12),
                    current_leader: leader.filter(|_| version >= 12),
                    snapshot_id: snapshot.filter(|_| version >= 12),
                    aborted_transactions: aborted,
                    preferred_read_replica: if version >= 11 { numbers.3 } else { -1 },
                    records_size_bytes: size,
                }
            },
        )
}

fn response(version: i16) -> impl Strategy<Value = FetchResponse> {
    let topic = (topic_ref(version >= 13), proptest::collection::vec(partition(version), 0..4));
    (
        any::<(i32, i32)>(),
        proptest::sample::select(ErrorCode::ALL),
        proptest::collection::vec(topic, 0..4),
        endpoints(),
    )
        .prop_map(move |((throttle, session), error_code, list, nodes)| {
            let mut response = FetchResponse {
                throttle_time_ms: throttle,
                error_code: if version >= 7 { error_code } else { ErrorCode::None },
                session_id: if version >= 7 { session } else { 0 },
                topics: Vec::new(),
                partitions: Vec::new(),
                node_endpoints: if version >= 16 { nodes } else { Vec::new() },
            };
            for (topic, mut own) in list {
                let start = response.partitions.len();
                response.partitions.append(&mut own);
                let partitions = start..response.partitions.len();
                response.topics.push(TopicSpan { topic, partitions });
            }
            response
        })
}

fn records(at: usize, size: u32) -> Bytes {
    vec![u8::try_from(at % 250).expect("small"); size as usize].into()
}

fn wire(response: &FetchResponse) -> m::FetchResponse {
    use m::fetch_response as r;
    let topics = response.topics.iter().map(|span| {
        let own = span.partitions.clone().zip(&response.partitions[span.partitions.clone()]);
        let parts = own.map(|(at, partition)| {
            let mut out = r::PartitionData::default()
                .with_partition_index(partition.partition.0)
                .with_error_code(partition.error_code as i16)
                .with_high_watermark(partition.high_watermark)
                .with_last_stable_offset(partition.last_stable_offset)
                .with_log_start_offset(partition.log_start_offset)
                .with_preferred_read_replica(m::BrokerId(partition.preferred_read_replica))
                .with_records(partition.records_size_bytes.map(|size| records(at, size)))
                .with_aborted_transactions(partition.aborted_transactions.as_ref().map(|list| {
                    let list = list.iter().map(|aborted| {
                        r::AbortedTransaction::default()
                            .with_producer_id(m::ProducerId(aborted.producer_id))
                            .with_first_offset(aborted.first_offset)
                    });
                    list.collect()
                }));
            if let Some(place) = partition.diverging_epoch {
                let end = r::EpochEndOffset::default();
                let end = end.with_epoch(place.epoch.0).with_end_offset(place.end_offset.0);
                out = out.with_diverging_epoch(end);
            }
            if let Some(leader) = partition.current_leader {
                let wire = r::LeaderIdAndEpoch::default()
                    .with_leader_id(m::BrokerId(leader.leader_id.0))
                    .with_leader_epoch(leader.leader_epoch.0);
                out = out.with_current_leader(wire);
            }
            if let Some(place) = partition.snapshot_id {
                let id = r::SnapshotId::default();
                let id = id.with_epoch(place.epoch.0).with_end_offset(place.end_offset.0);
                out = out.with_snapshot_id(id);
            }
            out
        });
        let topic = r::FetchableTopicResponse::default().with_partitions(parts.collect());
        match &span.topic {
            TopicRef::Name(name) => topic.with_topic(m::TopicName(name.clone())),
            TopicRef::Id(id) => topic.with_topic_id(id.0),
        }
    });
    let nodes = response.node_endpoints.iter().map(|node| {
        r::NodeEndpoint::default()
            .with_node_id(m::BrokerId(node.node_id.0))
            .with_host(node.host.clone())
            .with_port(node.port)
            .with_rack(node.rack.clone())
    });
    m::FetchResponse::default()
        .with_throttle_time_ms(response.throttle_time_ms)
        .with_error_code(response.error_code as i16)
        .with_session_id(response.session_id)
        .with_responses(topics.collect())
        .with_node_endpoints(nodes.collect())
}

proptest! {
    #[test]
    fn answers_are_the_crates_bytes(
        (version, response) in (MIN_VERSION..=MAX_VERSION).prop_flat_map(|v| (Just(v), response(v))),
        id in any::<i32>(),
    ) {
        let mut expected = BytesMut::new();
        let header = if version >= 12 { 1 } else { 0 };
        m::ResponseHeader::default().with_correlation_id(id).encode(&mut expected, header).expect("header");
        wire(&response).encode(&mut expected, version).expect("body");
        let mut bytes = Vec::new();
        for chunk in encode(version, id, &response).expect("encodes") {
            match chunk {
                Chunk::Bytes(chunk) => bytes.extend_from_slice(&chunk),
                Chunk::Records(at) => {
                    let size = response.partitions[at].records_size_bytes.expect("has records");
                    bytes.extend_from_slice(&records(at, size));
                }
            }
        }
        prop_assert_eq!(&bytes[..4], &i32::try_from(expected.len()).expect("small").to_be_bytes()[..]);
        prop_assert_eq!(&bytes[4..], &expected[..]);
    }
}
