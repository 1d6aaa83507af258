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
    let version = vector.version.min(row.crate_max);
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
        let again = round_trip(vector);
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
