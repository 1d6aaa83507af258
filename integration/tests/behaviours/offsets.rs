//! ListOffsets and DeleteRecords: O49, O50, O51, O54.

use std::time::Duration;

use integration::harness::wait_for;
use integration::wire::batch::{Batch, Record};
use integration::wire::requests::topic_name;
use integration::wire::{Client, create_topic};
use kafka_protocol::messages::DeleteRecordsRequest;
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};

use crate::connect;

fn at(times: &[i64]) -> Vec<u8> {
    Batch::of(times.iter().map(|time| Record::value("x").at(*time)).collect()).bytes()
}

#[test]
fn o49_offsets_by_timestamp() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o49", 1);
    let ask = |client: &mut Client, timestamp: i64| {
        let answer = client.list_offset(7, &topic, 0, timestamp);
        assert_eq!(answer.error_code, 0);
        (answer.offset, answer.timestamp)
    };
    assert_eq!(ask(&mut client, -1), (0, -1), "the end of an empty log");
    assert_eq!(ask(&mut client, -2), (0, -1), "its start");
    assert_eq!(ask(&mut client, -3), (-1, -1), "its newest record");
    assert_eq!(ask(&mut client, 0), (-1, -1), "any record");

    client.produce(&topic, 0, at(&[1_000, 2_000, 3_000]));
    client.produce(&topic, 0, at(&[2_500]));
    client.produce(&topic, 0, at(&[5_000, 4_000]));
    let table = [
        (0, (0, 1_000)),
        (1_000, (0, 1_000)),
        (1_001, (1, 2_000)),
        (2_000, (1, 2_000)),
        (2_400, (2, 3_000)),
        (3_000, (2, 3_000)),
        (3_001, (4, 5_000)),
        (5_000, (4, 5_000)),
        (5_001, (-1, -1)),
        (-1, (6, -1)),
        (-2, (0, -1)),
        (-3, (4, 5_000)),
    ];
    for (timestamp, expected) in table {
        assert_eq!(ask(&mut client, timestamp), expected, "timestamp {timestamp}");
    }
    for version in 1..=10 {
        let answer = client.list_offset(version, &topic, 0, 2_000);
        assert_eq!(
            (answer.error_code, answer.offset, answer.timestamp),
            (0, 1, 2_000),
            "version {version}"
        );
        if version >= 4 {
            assert_eq!(answer.leader_epoch, 0, "version {version}");
        }
    }
}

#[test]
fn o50_special_timestamps_need_their_version() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o50", 1);
    client.produce(&topic, 0, at(&[1_000]));
    for version in 1..=10 {
        for (timestamp, since, offset) in
            [(-1, 1, 1), (-2, 1, 0), (-3, 7, 0), (-4, 8, 0), (-5, 9, -1)]
        {
            let answer = client.list_offset(version, &topic, 0, timestamp);
            let code = if version < since { 35 } else { 0 };
            assert_eq!(answer.error_code, code, "timestamp {timestamp}, version {version}");
            assert_eq!(
                answer.offset,
                if code == 0 { offset } else { -1 },
                "timestamp {timestamp}, version {version}"
            );
        }
        for timestamp in [-7, -100, i64::MIN] {
            let answer = client.list_offset(version, &topic, 0, timestamp);
            assert_eq!(answer.error_code, 35, "timestamp {timestamp}, version {version}");
        }
    }
}

#[test]
fn o51_all_up_to_the_latest_offset_is_readable() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o51", 1);
    let mut writer = connect();
    let name = topic.clone();
    let writing = std::thread::spawn(move || {
        for _ in 0..300 {
            writer.produce_at(9, &name, 0, 1, at(&[1_000]));
        }
    });
    let mut latest = 0;
    let end = wait_for(Duration::from_secs(60), || {
        let now = client.list_offset(7, &topic, 0, -1).offset;
        assert!(now >= latest, "never goes back");
        latest = now;
        let answer = client.fetch(&topic, 0, latest);
        assert_eq!(answer.error_code, 0, "offset {latest}");
        assert!(answer.high_watermark >= latest);
        (latest == 300).then_some(())
    });
    assert!(end.is_some(), "{latest} of 300 records are there");
    writing.join().expect("all written");
    assert_eq!(client.read_all(&topic, 0, 0).1.len(), 300);
}

fn delete(client: &mut Client, topic: &str, partition: i32, offset: i64) -> (i16, i64) {
    let request = DeleteRecordsRequest::default().with_timeout_ms(30_000).with_topics(vec![
        DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![
            DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset),
        ]),
    ]);
    let answer = client.call(2, &request);
    let answer = &answer.topics[0].partitions[0];
    (answer.error_code, answer.low_watermark)
}

#[test]
fn o54_delete_records_moves_the_start() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o54", 1);
    client.produce(&topic, 0, at(&[1_000; 10]));
    assert_eq!(delete(&mut client, &topic, 0, 11), (1, -1), "past the end");
    assert_eq!(delete(&mut client, &topic, 0, 4), (0, 4));
    assert_eq!(delete(&mut client, &topic, 0, 2), (0, 4), "lower is no change");
    assert_eq!(client.list_offset(7, &topic, 0, -2).offset, 4);
    assert_eq!(client.list_offset(7, &topic, 0, 0).offset, 4, "by time as well");
    assert_eq!(client.fetch(&topic, 0, 3).error_code, 1);
    let answer = client.fetch(&topic, 0, 4);
    assert_eq!((answer.error_code, answer.log_start_offset), (0, 4));
    assert_eq!(delete(&mut client, &topic, 0, -1), (0, 10), "all");
    assert_eq!(client.list_offset(7, &topic, 0, -2).offset, 10);
    assert_eq!(delete(&mut client, &topic, 7, 1).0, 3, "unknown partition");
    assert_eq!(client.produce(&topic, 0, at(&[1_000])).base_offset, 10);
}
