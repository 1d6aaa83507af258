//! The newest versions, which the kafka-protocol crate cannot write or read: by hand-made bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use integration::wire::requests::text;
use integration::wire::{Client, create_topic, unique};
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeLogDirsRequest, GroupId, OffsetCommitResponse, OffsetFetchResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use uuid::Uuid;

use crate::connect;
use crate::groups::{commit, coordinator, joined};

fn put_text(out: &mut BytesMut, value: &str) {
    out.put_u8(u8::try_from(value.len() + 1).expect("a short text"));
    out.extend_from_slice(value.as_bytes());
}

fn take_text(body: &mut Bytes) -> Option<String> {
    let size = usize::from(body.get_u8()).checked_sub(1)?;
    Some(String::from_utf8(body.split_to(size).to_vec()).expect("UTF-8"))
}

/// Sends a body in a flexible version, and gives the body of the answer.
fn exchange(client: &mut Client, key: i16, version: i16, body: &[u8]) -> Bytes {
    let id = client.send_body(key, version, 2, body).expect("sends");
    let mut answer = client.read_frame().expect("an answer");
    assert_eq!(answer.get_i32(), id);
    assert_eq!(answer.get_u8(), 0, "no tags in the header");
    answer
}

/// Commits offset 7 with the metadata "by id" for partition 0 of each topic.
fn commit_by_id(client: &mut Client, group: &str, topics: &[Uuid]) -> OffsetCommitResponse {
    let mut body = BytesMut::new();
    put_text(&mut body, group);
    body.put_i32(-1);
    put_text(&mut body, "");
    body.put_u8(0);
    body.put_u8(u8::try_from(topics.len() + 1).expect("few"));
    for topic in topics {
        body.extend_from_slice(topic.as_bytes());
        body.put_u8(2);
        body.put_i32(0);
        body.put_i64(7);
        body.put_i32(-1);
        put_text(&mut body, "by id");
        body.put_u16(0);
    }
    body.put_u8(0);
    let mut answer = exchange(client, 8, 10, &body);
    let read = OffsetCommitResponse::decode(&mut answer, 10).expect("decodes");
    assert!(answer.is_empty());
    read
}

/// Asks for partitions 0 and 1 of each topic, or for all that was committed.
fn fetch_by_id(client: &mut Client, group: &str, topics: Option<&[Uuid]>) -> OffsetFetchResponse {
    let mut body = BytesMut::new();
    body.put_u8(2);
    put_text(&mut body, group);
    body.put_u8(0);
    body.put_i32(-1);
    body.put_u8(topics.map_or(0, |topics| u8::try_from(topics.len() + 1).expect("few")));
    for topic in topics.unwrap_or_default() {
        body.extend_from_slice(topic.as_bytes());
        body.put_u8(3);
        body.put_i32(0);
        body.put_i32(1);
        body.put_u8(0);
    }
    body.put_u8(0);
    body.put_u8(0);
    body.put_u8(0);
    let mut answer = exchange(client, 9, 10, &body);
    let read = OffsetFetchResponse::decode(&mut answer, 10).expect("decodes");
    assert!(answer.is_empty());
    read
}

#[test]
fn offsets_are_committed_and_fetched_by_topic_id() {
    let group = unique("n-ids");
    let mut client = coordinator(&group);
    let topic = create_topic(&mut client, "n-ids", 2);
    let id = client.metadata(12, &[&topic], false).topics[0].topic_id;
    let unknown = Uuid::from_u128(0x1234_5678);
    let committed = commit_by_id(&mut client, &group, &[id, unknown]);
    let codes: Vec<_> = committed
        .topics
        .iter()
        .map(|topic| (topic.topic_id, topic.name.as_str(), topic.partitions[0].error_code))
        .collect();
    assert!(codes.contains(&(id, "", 0)), "{codes:?}");
    assert!(codes.contains(&(unknown, "", 100)), "{codes:?}");

    let fetched = fetch_by_id(&mut client, &group, Some(&[unknown, id]));
    let group_answer = &fetched.groups[0];
    assert_eq!((group_answer.error_code, group_answer.topics.len()), (0, 2));
    let of = |id: Uuid| {
        let topic = group_answer.topics.iter().find(|topic| topic.topic_id == id).expect("there");
        let mut parts: Vec<_> = topic
            .partitions
            .iter()
            .map(|part| {
                let metadata = part.metadata.as_deref().unwrap_or("null").to_owned();
                (part.partition_index, part.committed_offset, metadata, part.error_code)
            })
            .collect();
        parts.sort();
        parts
    };
    assert_eq!(of(id), [(0, 7, "by id".to_owned(), 0), (1, -1, String::new(), 0)]);
    assert_eq!(of(unknown), [(0, -1, String::new(), 100), (1, -1, String::new(), 100)]);

    // What was committed by name comes back by id, and the other way round.
    assert_eq!(commit(&mut client, &group, -1, "", &topic, "by name"), 0);
    let all = fetch_by_id(&mut client, &group, None);
    let topics = &all.groups[0].topics;
    assert_eq!((topics.len(), topics[0].topic_id, topics[0].name.as_str()), (1, id, ""));
    assert_eq!(topics[0].partitions[0].metadata.as_deref(), Some("by name"));
    let none = fetch_by_id(&mut client, "n-ids-none", None);
    assert_eq!((none.groups[0].error_code, none.groups[0].topics.len()), (0, 0));
}

#[test]
fn groups_are_deleted_with_a_message_for_each() {
    let group = unique("n-delete");
    let mut client = coordinator(&group);
    let topic = create_topic(&mut client, "n-delete", 1);
    assert_eq!(commit(&mut client, &group, -1, "", &topic, "m"), 0);
    let live = unique("n-delete-live");
    let mut member = coordinator(&live);
    joined(&mut member, &live);
    let names = [&*group, "n-delete-none", &*live].map(|name| GroupId(text(name))).to_vec();
    let mut body = BytesMut::new();
    DeleteGroupsRequest::default().with_groups_names(names).encode(&mut body, 2).expect("encodes");
    let mut answer = exchange(&mut client, 42, 3, &body);
    assert_eq!(answer.get_i32(), 0, "throttle time");
    let mut results = Vec::new();
    for _ in 1..answer.get_u8() {
        let name = take_text(&mut answer).expect("a name");
        let code = answer.get_i16();
        results.push((name, code, take_text(&mut answer)));
        assert_eq!(answer.get_u8(), 0, "no tags");
    }
    assert_eq!(&answer[..], [0]);
    results.sort();
    // As Kafka answers them: no message with these codes.
    let mut expected =
        vec![(group, 0, None), ("n-delete-none".to_owned(), 69, None), (live, 68, None)];
    expected.sort();
    assert_eq!(results, expected);
}

#[test]
fn log_directories_say_whether_they_are_cordoned() {
    let mut client = connect();
    let topic = create_topic(&mut client, "n-dirs", 1);
    let mut body = BytesMut::new();
    DescribeLogDirsRequest::default().with_topics(None).encode(&mut body, 4).expect("encodes");
    let mut answer = exchange(&mut client, 35, 5, &body);
    assert_eq!((answer.get_i32(), answer.get_i16()), (0, 0), "throttle time, code");
    let mut topics = Vec::new();
    for _ in 1..answer.get_u8() {
        assert_eq!(answer.get_i16(), 0);
        assert!(take_text(&mut answer).is_some_and(|path| path.starts_with('/')));
        let count = {
            let (mut size, mut shift) = (0_u32, 0);
            loop {
                let byte = answer.get_u8();
                size |= u32::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break size - 1;
                }
            }
        };
        for _ in 0..count {
            topics.push(take_text(&mut answer).expect("a topic"));
            for _ in 1..answer.get_u8() {
                answer.advance(4 + 8 + 8 + 1 + 1);
            }
            assert_eq!(answer.get_u8(), 0, "no tags");
        }
        assert!(answer.get_i64() > answer.get_i64(), "total and usable bytes");
        assert_eq!(answer.get_u8(), 0, "not cordoned");
        assert_eq!(answer.get_u8(), 0, "no tags");
    }
    assert_eq!(&answer[..], [0]);
    assert!(topics.contains(&topic));
}
