use super::*;
use crate::hot::testkit::{endpoints, leader, message, text, topic_ref};
use kafka_protocol::messages as m;
use kafka_protocol::protocol::Encodable;
use proptest::prelude::*;

fn partition() -> impl Strategy<Value = ProducePartition> {
    (any::<i32>(), proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300))).prop_map(
        |(index, records)| ProducePartition {
            index: PartitionIndex(index),
            records: records.map(Bytes::from),
        },
    )
}

fn request(version: i16) -> impl Strategy<Value = ProduceRequestView> {
    let topic = (topic_ref(version >= 13), proptest::collection::vec(partition(), 0..4));
    let id = proptest::option::of(text());
    (id, any::<i16>(), any::<i32>(), proptest::collection::vec(topic, 0..4)).prop_map(
        |(transactional_id, acks, timeout_ms, list)| {
            let mut topics = Vec::new();
            let mut partitions = Vec::new();
            for (topic, mut own) in list {
                let start = partitions.len();
                partitions.append(&mut own);
                topics.push(TopicSpan { topic, partitions: start..partitions.len() });
            }
            ProduceRequestView { transactional_id, acks, timeout_ms, topics, partitions }
        },
    )
}

fn wire_request(view: &ProduceRequestView) -> m::ProduceRequest {
    use m::produce_request::{PartitionProduceData, TopicProduceData};
    let topics = view.topics.iter().map(|span| {
        let parts = view.partitions[span.partitions.clone()].iter().map(|partition| {
            PartitionProduceData::default()
                .with_index(partition.index.0)
                .with_records(partition.records.clone())
        });
        let topic = TopicProduceData::default().with_partition_data(parts.collect());
        match &span.topic {
            TopicRef::Name(name) => topic.with_name(m::TopicName(name.clone())),
            TopicRef::Id(id) => topic.with_topic_id(id.0),
        }
    });
    m::ProduceRequest::default()
        .with_transactional_id(view.transactional_id.clone().map(m::TransactionalId))
        .with_acks(view.acks)
        .with_timeout_ms(view.timeout_ms)
        .with_topic_data(topics.collect())
}

fn response_partition() -> impl Strategy<Value = ProducePartitionResponse> {
    let error = (any::<i32>(), proptest::option::of("[a-z]{0,20}"))
        .prop_map(|(batch_index, message)| RecordError { batch_index, message });
    (
        any::<i32>(),
        proptest::sample::select(ErrorCode::ALL),
        any::<(i64, i64, i64)>(),
        proptest::collection::vec(error, 0..3),
        proptest::option::of("[a-z]{0,40}"),
        proptest::option::of(leader()),
    )
        .prop_map(|(index, error_code, numbers, record_errors, message, current_leader)| {
            ProducePartitionResponse {
                index: PartitionIndex(index),
                error_code,
                base_offset: numbers.0,
                log_append_time_ms: numbers.1,
                log_start_offset: numbers.2,
                record_errors,
                error_message: message.map(Cow::Owned),
                current_leader,
            }
        })
}

fn response(version: i16) -> impl Strategy<Value = ProduceResponse> {
    let topic = (topic_ref(version >= 13), proptest::collection::vec(response_partition(), 0..4));
    (proptest::collection::vec(topic, 0..4), any::<i32>(), endpoints()).prop_map(
        |(list, throttle_time_ms, node_endpoints)| {
            let mut response =
                ProduceResponse { throttle_time_ms, node_endpoints, ..Default::default() };
            for (topic, mut own) in list {
                let start = response.partitions.len();
                response.partitions.append(&mut own);
                let partitions = start..response.partitions.len();
                response.topics.push(TopicSpan { topic, partitions });
            }
            response
        },
    )
}

fn wire_response(response: &ProduceResponse, version: i16) -> m::ProduceResponse {
    use m::produce_response as r;
    let topics = response.topics.iter().map(|span| {
        let parts = response.partitions[span.partitions.clone()].iter().map(|partition| {
            let mut out = r::PartitionProduceResponse::default()
                .with_index(partition.index.0)
                .with_error_code(partition.error_code as i16)
                .with_base_offset(partition.base_offset)
                .with_log_append_time_ms(partition.log_append_time_ms);
            if version >= 5 {
                out = out.with_log_start_offset(partition.log_start_offset);
            }
            if version >= 8 {
                let errors = partition.record_errors.iter().map(|error| {
                    r::BatchIndexAndErrorMessage::default()
                        .with_batch_index(error.batch_index)
                        .with_batch_index_error_message(error.message.as_deref().map(message))
                });
                out = out
                    .with_record_errors(errors.collect())
                    .with_error_message(partition.error_message.as_deref().map(message));
            }
            if let Some(leader) = partition.current_leader.filter(|_| version >= 10) {
                out = out.with_current_leader(
                    r::LeaderIdAndEpoch::default()
                        .with_leader_id(m::BrokerId(leader.leader_id.0))
                        .with_leader_epoch(leader.leader_epoch.0),
                );
            }
            out
        });
        let topic = r::TopicProduceResponse::default().with_partition_responses(parts.collect());
        match &span.topic {
            TopicRef::Name(name) => topic.with_name(m::TopicName(name.clone())),
            TopicRef::Id(id) => topic.with_topic_id(id.0),
        }
    });
    let mut out = m::ProduceResponse::default()
        .with_responses(topics.collect())
        .with_throttle_time_ms(response.throttle_time_ms);
    if version >= 10 {
        let nodes = response.node_endpoints.iter().map(|node| {
            r::NodeEndpoint::default()
                .with_node_id(m::BrokerId(node.node_id.0))
                .with_host(node.host.clone())
                .with_port(node.port)
                .with_rack(node.rack.clone())
        });
        out = out.with_node_endpoints(nodes.collect());
    }
    out
}

fn versioned<T: std::fmt::Debug, S: Strategy<Value = T>>(
    of: fn(i16) -> S,
) -> impl Strategy<Value = (i16, T)> {
    (MIN_VERSION..=MAX_VERSION).prop_flat_map(move |version| (Just(version), of(version)))
}

proptest! {
    #[test]
    fn requests_are_read_as_the_crate_writes_them((version, view) in versioned(request)) {
        let mut body = BytesMut::new();
        wire_request(&view).encode(&mut body, version).expect("encodes");
        prop_assert_eq!(ProduceRequestView::parse(version, body.freeze()), Ok(view));
    }

    #[test]
    fn cut_or_changed_requests_never_panic((version, view) in versioned(request), at in any::<usize>(), byte in any::<u8>()) {
        let mut body = BytesMut::new();
        wire_request(&view).encode(&mut body, version).expect("encodes");
        let at = at % body.len();
        prop_assert!(ProduceRequestView::parse(version, body.clone().freeze().slice(..at)).is_err());
        body[at] = byte;
        let _ = ProduceRequestView::parse(version, body.freeze());
    }

    #[test]
    fn answers_are_the_crates_bytes((version, response) in versioned(response), id in any::<i32>()) {
        let mut expected = BytesMut::new();
        let header = if version >= 9 { 1 } else { 0 };
        m::ResponseHeader::default().with_correlation_id(id).encode(&mut expected, header).expect("header");
        wire_response(&response, version).encode(&mut expected, version).expect("body");
        let mut out = BytesMut::from(&b"before"[..]);
        encode_response(version, id, &response, &mut out).expect("encodes");
        prop_assert_eq!(&out[6..10], &i32::try_from(expected.len()).expect("small").to_be_bytes()[..]);
        prop_assert_eq!(&out[10..], &expected[..]);
    }
}

#[test]
fn an_answer_that_cannot_be_written_leaves_nothing() {
    let topic = TopicRef::Id(TopicId(crate::ids::Uuid::from_u128(1)));
    let response = ProduceResponse {
        topics: vec![TopicSpan { topic, partitions: 0..0 }],
        ..ProduceResponse::default()
    };
    let mut out = BytesMut::from(&b"x"[..]);
    assert_eq!(encode_response(9, 1, &response, &mut out), Err(EncodeError::TopicRef(9)));
    assert_eq!(&out[..], b"x");
}
