//! The served APIs on the bodies that Kafka's Java classes made (`testdata/vectors.tsv.gz`), and on hostile ones.

use std::io::Read;

use kafka_protocol::messages as m;
use proptest::prelude::*;

use super::*;

struct Vector {
    request: bool,
    key: i16,
    version: i16,
    body: Bytes,
}

fn vectors() -> Vec<Vector> {
    let mut text = String::new();
    let packed = &include_bytes!("../../testdata/vectors.tsv.gz")[..];
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).expect("testdata");
    let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("hex");
    text.lines()
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let hex = if columns[3] == "-" { "" } else { columns[3] };
            let body: Vec<u8> =
                (0..hex.len() / 2).map(|at| byte(&hex[2 * at..2 * at + 2])).collect();
            Vector {
                request: columns[0] == "request",
                key: columns[1].parse().expect("key"),
                version: columns[2].parse().expect("version"),
                body: body.into(),
            }
        })
        .collect()
}

fn again<Q: Decodable + Encodable, A: Decodable + Encodable>(vector: &Vector) -> Option<BytesMut> {
    let row = api_table::lookup(vector.key).expect("served");
    let max = if vector.request { row.request_max } else { row.response_max };
    let version = vector.version.min(max);
    let mut out = BytesMut::new();
    if vector.request {
        let request: Q = decode_request(vector.key, vector.version, vector.body.clone()).ok()?;
        request.encode(&mut out, version).ok()?;
    } else {
        let response = A::decode(&mut vector.body.clone(), version).ok()?;
        encode_response(vector.key, vector.version, 7, &response, &mut out).ok()?;
        let header =
            if row.is_flexible(vector.version) && vector.key != API_VERSIONS { 9 } else { 8 };
        assert_eq!(&out[..4], &i32::try_from(out.len() - 4).expect("small").to_be_bytes()[..]);
        out = out.split_off(header);
    }
    Some(out)
}

fn round_trip(vector: &Vector) -> Option<BytesMut> {
    macro_rules! of { ($($key:literal $q:ident $a:ident),*) => { match vector.key {
        $($key => again::<m::$q, m::$a>(vector),)* key => panic!("key {key} has no types") } } }
    of!(2 ListOffsetsRequest ListOffsetsResponse, 3 MetadataRequest MetadataResponse,
        8 OffsetCommitRequest OffsetCommitResponse, 9 OffsetFetchRequest OffsetFetchResponse,
        10 FindCoordinatorRequest FindCoordinatorResponse, 11 JoinGroupRequest JoinGroupResponse,
        12 HeartbeatRequest HeartbeatResponse, 13 LeaveGroupRequest LeaveGroupResponse,
        14 SyncGroupRequest SyncGroupResponse, 15 DescribeGroupsRequest DescribeGroupsResponse,
        16 ListGroupsRequest ListGroupsResponse, 18 ApiVersionsRequest ApiVersionsResponse,
        19 CreateTopicsRequest CreateTopicsResponse, 20 DeleteTopicsRequest DeleteTopicsResponse,
        21 DeleteRecordsRequest DeleteRecordsResponse, 22 InitProducerIdRequest InitProducerIdResponse,
        23 OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse,
        32 DescribeConfigsRequest DescribeConfigsResponse, 33 AlterConfigsRequest AlterConfigsResponse,
        35 DescribeLogDirsRequest DescribeLogDirsResponse,
        37 CreatePartitionsRequest CreatePartitionsResponse, 42 DeleteGroupsRequest DeleteGroupsResponse,
        44 IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse,
        60 DescribeClusterRequest DescribeClusterResponse,
        75 DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse)
}

/// A name that [`put_ids`] finds again: as long as the id that it stands for.
fn stand_in(at: usize) -> m::TopicName {
    m::TopicName(format!("{at:016}").into())
}

fn put_ids(named: &[u8], ids: &[crate::ids::TopicId]) -> BytesMut {
    let mut bytes = named.to_vec();
    for (at, id) in ids.iter().enumerate() {
        let mut name = vec![17];
        name.extend_from_slice(stand_in(at).as_bytes());
        let place = bytes.windows(17).position(|window| *window == name).expect("the stand-in");
        bytes.splice(place..place + 17, *id.0.as_bytes());
    }
    BytesMut::from(&bytes[..])
}

fn commit_again(vector: &Vector) -> BytesMut {
    let ids = topic_ids(8, 10, &vector.body);
    let mut request: m::OffsetCommitRequest =
        decode_request(8, 10, vector.body.clone()).expect("decodes");
    assert_eq!(ids.len(), request.topics.len());
    for (at, topic) in request.topics.iter_mut().enumerate() {
        assert!(topic.name.is_empty());
        topic.name = stand_in(at);
    }
    let mut out = BytesMut::new();
    request.encode(&mut out, 9).expect("encodes");
    put_ids(&out, &ids)
}

fn offset_fetch_again(vector: &Vector) -> BytesMut {
    let ids = topic_ids(9, 10, &vector.body);
    let mut request: m::OffsetFetchRequest =
        decode_request(9, 10, vector.body.clone()).expect("decodes");
    let topics = request.groups.iter_mut().flat_map(|group| group.topics.iter_mut().flatten());
    let mut count = 0;
    for (at, topic) in topics.enumerate() {
        assert!(topic.name.is_empty());
        topic.name = stand_in(at);
        count += 1;
    }
    assert_eq!(ids.len(), count);
    let mut out = BytesMut::new();
    request.encode(&mut out, 9).expect("encodes");
    put_ids(&out, &ids)
}

fn encoded<T: Encodable>(vector: &Vector, response: &T) -> BytesMut {
    let mut out = BytesMut::new();
    encode_response(vector.key, vector.version, 7, response, &mut out).expect("encodes");
    out.split_off(9)
}

/// The size of a compact array or text at the front of `body`.
fn take_size(body: &mut Bytes) -> Option<usize> {
    use bytes::Buf;
    let byte = body.get_u8();
    assert!(byte < 0x80, "the vectors have short ones only");
    usize::from(byte).checked_sub(1)
}

fn take_text(body: &mut Bytes) -> Option<kafka_protocol::protocol::StrBytes> {
    let size = take_size(body)?;
    Some(kafka_protocol::protocol::StrBytes::from_utf8(body.split_to(size)).expect("UTF-8"))
}

fn delete_groups_again(vector: &Vector) -> BytesMut {
    use bytes::Buf;
    let mut body = vector.body.clone();
    let mut answer = DeleteGroupsResponse::default();
    answer.response.throttle_time_ms = body.get_i32();
    for _ in 0..take_size(&mut body).expect("an array") {
        let group = m::GroupId(take_text(&mut body).expect("a group"));
        let code = body.get_i16();
        answer.messages.push(take_text(&mut body));
        assert_eq!(body.get_u8(), 0, "no tags");
        let result = m::delete_groups_response::DeletableGroupResult::default();
        answer.response.results.push(result.with_group_id(group).with_error_code(code));
    }
    encoded(vector, &answer)
}

fn log_dirs_again(vector: &Vector) -> BytesMut {
    use bytes::Buf;
    use m::describe_log_dirs_response as r;
    let mut body = vector.body.clone();
    let mut answer = DescribeLogDirsResponse::default();
    answer.response.throttle_time_ms = body.get_i32();
    answer.response.error_code = body.get_i16();
    for _ in 0..take_size(&mut body).expect("an array") {
        let mut result = r::DescribeLogDirsResult::default().with_error_code(body.get_i16());
        result.log_dir = take_text(&mut body).expect("a path");
        for _ in 0..take_size(&mut body).expect("an array") {
            let name = m::TopicName(take_text(&mut body).expect("a topic"));
            let mut topic = r::DescribeLogDirsTopic::default().with_name(name);
            for _ in 0..take_size(&mut body).expect("an array") {
                topic.partitions.push(
                    r::DescribeLogDirsPartition::default()
                        .with_partition_index(body.get_i32())
                        .with_partition_size(body.get_i64())
                        .with_offset_lag(body.get_i64())
                        .with_is_future_key(body.get_u8() != 0),
                );
                assert_eq!(body.get_u8(), 0, "no tags");
            }
            assert_eq!(body.get_u8(), 0, "no tags");
            result.topics.push(topic);
        }
        result.total_bytes = body.get_i64();
        result.usable_bytes = body.get_i64();
        answer.cordoned.push(body.get_u8() != 0);
        assert_eq!(body.get_u8(), 0, "no tags");
        answer.response.results.push(result);
    }
    encoded(vector, &answer)
}

fn is_served(vector: &Vector) -> bool {
    api_table::lookup(vector.key).is_some_and(|row| row.supports(vector.version))
}

#[test]
fn every_version_served_is_read_and_written_as_by_kafkas_classes() {
    let mut seen = std::collections::BTreeSet::new();
    for vector in vectors().iter().filter(|vector| is_served(vector) && vector.key > 1) {
        seen.insert((vector.key, vector.version));
        // What the newer versions add to requests of ApiVersions is read over, not kept.
        if vector.request && (vector.key, vector.version) == (API_VERSIONS, 5) {
            assert_eq!(guard::check(vector.key, vector.version, &vector.body), Ok(()));
            continue;
        }
        let again = match (vector.request, vector.key, vector.version) {
            (true, 8, 10) => Some(commit_again(vector)),
            (true, 9, 10) => Some(offset_fetch_again(vector)),
            (false, 35, 5) => Some(log_dirs_again(vector)),
            (false, 42, 3) => Some(delete_groups_again(vector)),
            _ => round_trip(vector),
        };
        let kind = if vector.request { "request" } else { "response" };
        assert_eq!(
            again.as_deref(),
            Some(&vector.body[..]),
            "{kind} of key {} version {}",
            vector.key,
            vector.version
        );
    }
    for row in api_table::TABLE.iter().filter(|row| row.key > 1) {
        for version in row.min..=row.max {
            assert!(seen.contains(&(row.key, version)), "{} v{version} has no vector", row.name);
        }
    }
}

#[test]
fn the_hot_messages_are_read_from_kafkas_bytes() {
    use crate::hot::{fetch_request::FetchRequest, produce::ProduceRequestView};
    for vector in vectors().iter().filter(|vector| vector.request && is_served(vector)) {
        let body = vector.body.clone();
        match vector.key {
            0 => drop(ProduceRequestView::parse(vector.version, body).expect("Produce")),
            1 => drop(FetchRequest::parse(vector.version, body).expect("Fetch")),
            _ => {}
        }
    }
}

#[test]
fn four_bytes_do_not_take_the_process_down() {
    let hostile = Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff]);
    let read = decode_request::<m::MetadataRequest>(3, 0, hostile);
    assert!(matches!(read, Err(CodecError::Guard(GuardError { field: "Topics", .. }))));
    let compact = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert!(decode_request::<m::MetadataRequest>(3, 9, compact).is_err());
    let millions = Bytes::from_static(&[0x01, 0, 0, 0]);
    assert!(decode_request::<m::MetadataRequest>(3, 0, millions).is_err());
}

#[test]
fn a_truthful_body_of_too_many_tiny_elements_is_refused() {
    let body = |count: u32| {
        let mut body = BytesMut::new();
        body.put_u32(count);
        body.extend_from_slice(&vec![0; 2 * count as usize]);
        body.freeze()
    };
    let few = decode_request::<m::MetadataRequest>(3, 0, body(500_000)).expect("allowed");
    assert_eq!(few.topics.map(|topics| topics.len()), Some(500_000));
    assert!(decode_request::<m::MetadataRequest>(3, 0, body(500_001)).is_err());
}

#[test]
fn what_follows_the_message_is_let_pass() {
    let mut body = BytesMut::new();
    m::ListGroupsRequest::default().encode(&mut body, 0).expect("encodes");
    body.put_u8(0);
    assert!(decode_request::<m::ListGroupsRequest>(16, 0, body.freeze()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn changed_or_cut_bodies_never_panic(seed in any::<u64>()) {
        for (index, vector) in vectors().into_iter().enumerate() {
            if !vector.request || vector.body.is_empty() || vector.key < 2 || !is_served(&vector) {
                continue;
            }
            let mix = seed.wrapping_add(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let at = usize::try_from(mix % vector.body.len() as u64).expect("small");
            let mut body = BytesMut::from(&vector.body[..]);
            body[at] = mix.to_be_bytes()[1];
            let changed = Vector { body: body.freeze(), ..vector };
            let _ = round_trip(&changed);
            let cut = Vector { body: changed.body.slice(..at), ..changed };
            let _ = round_trip(&cut);
        }
    }
}
