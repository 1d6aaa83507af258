//! Versions and framing: O01 to O07.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use integration::harness::wait_for;
use integration::wire::batch::Batch;
use integration::wire::create_topic;
use integration::wire::requests::{fetch_request, produce_request, topic_name};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, Request, StrBytes};

use crate::connect;

fn api_versions() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("test"))
        .with_client_software_version(StrBytes::from_static_str("1"))
}

/// Key to (min, max) as the broker advertises them.
pub(crate) fn advertised() -> BTreeMap<i16, (i16, i16)> {
    let answer = connect().call(3, &api_versions());
    answer.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect()
}

#[test]
fn o01_unknown_version_of_api_versions_is_answered_in_version_0_and_the_connection_stays() {
    let mut client = connect();
    for version in [99, i16::MAX, 6, -1] {
        let mut body = BytesMut::new();
        api_versions().encode(&mut body, 3).expect("encodes");
        let id = client.send_body(18, version, 2, &body).expect("sends");
        let answer = client.receive::<ApiVersionsRequest>(0, id).expect("a body of version 0");
        assert_eq!(answer.error_code, 35, "version {version}");
        let own = answer.api_keys.iter().find(|api| api.api_key == 18).expect("our own range");
        assert!(own.min_version == 0 && own.max_version >= 4, "{own:?}");
        assert_eq!(client.call(3, &api_versions()).error_code, 0);
    }
}

#[test]
fn o02_every_version_of_api_versions_is_answered_to_the_last_byte() {
    let mut client = connect();
    let mut tables = Vec::new();
    for version in 0..=4 {
        let answer = client.call(version, &api_versions());
        assert_eq!(answer.error_code, 0, "version {version}");
        let table: Vec<_> = answer
            .api_keys
            .iter()
            .map(|api| (api.api_key, api.min_version, api.max_version))
            .collect();
        tables.push(table);
    }
    assert!(
        tables.windows(2).all(|pair| pair[0] == pair[1]),
        "one table in all versions: {tables:?}"
    );
}

#[test]
fn api_versions_5_names_the_node_that_is_meant() {
    // Client software, then cluster id and node id (KIP-1242), which the protocol crate does not know yet.
    let own = connect().call(9, &MetadataRequest::default()).cluster_id.expect("a cluster id");
    let cases = [
        (None, -1, 0),
        (Some(own.as_str()), 1, 0),
        (Some(own.as_str()), 2, 129),
        (Some("another"), 1, 129),
        (None, 1, 42),
        (Some(own.as_str()), -1, 42),
    ];
    for (cluster, node, code) in cases {
        let mut body = b"\x05test\x021".to_vec();
        let cluster_size = cluster.map_or(0, |id| u8::try_from(id.len() + 1).expect("short"));
        body.push(cluster_size);
        body.extend(cluster.unwrap_or_default().as_bytes());
        body.extend(i32::to_be_bytes(node));
        body.push(0);
        let mut client = connect();
        let id = client.send_body(18, 5, 2, &body).expect("sends");
        let answer = client.receive::<ApiVersionsRequest>(4, id).expect("as version 4");
        assert_eq!(answer.error_code, code, "{cluster:?} {node}");
        assert_eq!(answer.api_keys.is_empty(), code != 0, "{cluster:?} {node}");
    }
}

#[test]
fn api_versions_with_an_invalid_client_name_is_refused() {
    let mut client = connect();
    for name in ["", "a b", "-a", "a-"] {
        let request = api_versions().with_client_software_name(StrBytes::from_static_str(name));
        assert_eq!(client.call(3, &request).error_code, 42, "name {name:?}");
    }
    assert_eq!(client.call(3, &api_versions()).error_code, 0);
}

/// An empty request of this key: what it asks for is nothing, or does not exist.
fn empty_request(key: i16, version: i16) -> Option<(i16, BytesMut)> {
    macro_rules! of {
        ($($request:ident),* $(,)?) => {
            match key {
                $(<$request as Request>::KEY => {
                    let mut body = BytesMut::new();
                    $request::default().encode(&mut body, version).ok()?;
                    Some((ApiKey::try_from(key).ok()?.request_header_version(version), body))
                })*
                _ => None,
            }
        };
    }
    // Apache Kafka never answers an empty AddPartitionsToTxn of version 4 and later, and closes on a DescribeAcls of
    // no resource type: nothing to learn from.
    if (key == 24 && version >= 4) || key == 29 {
        return None;
    }
    if key == 0 {
        // The default of acks is 0, which is never answered.
        let mut body = BytesMut::new();
        ProduceRequest::default().with_acks(1).encode(&mut body, version).ok()?;
        return Some((if version >= 9 { 2 } else { 1 }, body));
    }
    of!(
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        FindCoordinatorRequest,
        JoinGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        SyncGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        SaslHandshakeRequest,
        ApiVersionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteRecordsRequest,
        InitProducerIdRequest,
        OffsetForLeaderEpochRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        EndTxnRequest,
        TxnOffsetCommitRequest,
        DescribeAclsRequest,
        DescribeConfigsRequest,
        AlterConfigsRequest,
        AlterReplicaLogDirsRequest,
        DescribeLogDirsRequest,
        CreatePartitionsRequest,
        DeleteGroupsRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        AlterPartitionReassignmentsRequest,
        ListPartitionReassignmentsRequest,
        OffsetDeleteRequest,
        DescribeClientQuotasRequest,
        AlterClientQuotasRequest,
        DescribeUserScramCredentialsRequest,
        AlterUserScramCredentialsRequest,
        DescribeClusterRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
        ConsumerGroupDescribeRequest,
        DescribeTopicPartitionsRequest,
    )
}

#[test]
fn o03_every_advertised_version_answers_an_empty_request() {
    let mut wrong = Vec::new();
    for (key, (min, max)) in advertised() {
        for version in min..=max {
            // Versions below what the protocol crate writes: Produce 0 to 2, advertised for old librdkafka's sake alone.
            let Some((header_version, body)) = empty_request(key, version) else { continue };
            let api = ApiKey::try_from(key).expect("known key");
            let mut client = connect();
            let sent = client.send_body(key, version, header_version, &body);
            let answer = sent.and_then(|_| client.read_frame()).and_then(|frame| {
                let mut body = frame.slice(4..);
                if api.response_header_version(version) > 0 {
                    anyhow::ensure!(body.get_u8() == 0, "tags in the header");
                }
                ResponseKind::decode(api, &mut body, version)?;
                anyhow::ensure!(body.is_empty(), "{} bytes left", body.len());
                Ok(())
            });
            if let Err(error) = answer {
                wrong.push(format!("{api:?} version {version}: {error:#}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn o04_versions_that_name_topics_by_id_come_together() {
    let table = advertised();
    let newest = |key: i16| table.get(&key).map_or(-1, |range| range.1);
    if newest(0) >= 13 || newest(1) >= 13 || newest(8) >= 10 || newest(9) >= 10 {
        assert!(newest(3) >= 12, "Metadata gives the ids");
        assert!(newest(0) >= 13 && newest(1) >= 13, "Produce and Fetch alike");
    }
}

#[test]
fn o05_acks_0_is_never_answered() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o05", 1);
    for version in [3, 7, 9, 12] {
        client
            .send(version, &produce_request(&topic, 0, 0, Batch::value("quiet").bytes()))
            .expect("sends");
        // The next bytes are those of the next request, or receive() fails.
        assert_eq!(client.call(3, &api_versions()).error_code, 0);
    }
    let all = wait_for(Duration::from_secs(30), || {
        (client.list_offset(7, &topic, 0, -1).offset == 4).then_some(())
    });
    assert!(all.is_some());
    assert_eq!(client.read_all(&topic, 0, 0).1.len(), 4);
}

#[test]
fn o05_an_error_with_acks_0_closes_the_connection() {
    let mut client = connect();
    client
        .send(9, &produce_request("o05-no-such-topic", 0, 0, Batch::value("lost").bytes()))
        .expect("sends");
    assert!(client.is_closed_within(Duration::from_secs(10)).expect("no answer"), "it is closed");
}

#[test]
fn o06_answers_come_in_the_order_of_requests() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o06", 1);
    let mut slow = fetch_request(&topic, 0, 0);
    slow.max_wait_ms = 1_000;
    let begin = Instant::now();
    let first = client.send(12, &slow).expect("sends");
    let second = client.send(9, &MetadataRequest::default()).expect("sends");
    let produce = produce_request(&topic, 0, -1, Batch::value("late").bytes());
    let rest: Vec<i32> = (0..5).map(|_| client.send(9, &produce).expect("sends")).collect();
    client.receive::<FetchRequest>(12, first).expect("the fetch first");
    assert!(begin.elapsed() < Duration::from_secs(20));
    client.receive::<MetadataRequest>(9, second).expect("then the metadata");
    for id in rest {
        let answer = client.receive::<ProduceRequest>(9, id).expect("then the produces");
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    }
}

#[test]
fn o07_errors_are_written_in_the_version_of_the_request() {
    let mut client = connect();
    for version in 3..=12 {
        let answer = client.produce_at(version, "o07-none", 0, 1, Batch::value("x").bytes());
        assert_eq!((answer.error_code, answer.base_offset), (3, -1), "Produce {version}");
    }
    for version in 4..=12 {
        let answer = client.call(version, &fetch_request("o07-none", 0, 0));
        assert_eq!(answer.responses[0].partitions[0].error_code, 3, "Fetch {version}");
    }
    for version in 1..=10 {
        let answer = client.list_offset(version, "o07-none", 0, -1);
        assert_eq!((answer.error_code, answer.offset), (3, -1), "ListOffsets {version}");
    }
    let unknown = uuid::Uuid::from_u128(77);
    let mut produce = produce_request("", 0, 1, Batch::value("x").bytes());
    produce.topic_data[0].topic_id = unknown;
    let answer = client.call(13, &produce);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, 100);
    assert_eq!(answer.responses[0].topic_id, unknown);
    for version in 13..=18 {
        let mut fetch = fetch_request("", 0, 0);
        fetch.topics[0].topic_id = unknown;
        let answer = client.call(version, &fetch);
        assert_eq!(answer.responses[0].partitions[0].error_code, 100, "Fetch {version}");
    }
}

#[test]
fn a_request_of_a_version_or_key_that_is_not_served_closes_the_connection() {
    for (key, version) in
        [(3, 99), (3, -1), (1, 3), (0, 14), (-1, 0), (32_767, 0), (4, 0), (999, 3)]
    {
        let mut client = connect();
        client.send_body(key, version, 1, &[0; 16]).expect("sends");
        let closed = client.is_closed_within(Duration::from_secs(10)).expect("no answer");
        assert!(closed, "key {key} version {version}");
    }
}

#[test]
fn an_unknown_tag_in_a_header_and_in_a_body_is_skipped() {
    let mut client = connect();
    let mut request = MetadataRequest::default().with_topics(Some(vec![
        MetadataRequestTopic::default().with_name(Some(topic_name("no-such"))),
    ]));
    request.allow_auto_topic_creation = false;
    request.unknown_tagged_fields.insert(900, Bytes::from_static(b"from the future"));
    let answer = client.call(12, &request);
    assert_eq!(answer.topics[0].error_code, 3);
}
