//! Produce: O20 to O35.

use protocol_compat::compression::{Codec, Compression, compress};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use integration::harness::{Kind, wait_for};
use integration::wire::batch::{Batch, Record};
use integration::wire::requests::{produce_request, topic_name};
use integration::wire::{create_topic, create_topic_with};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::{
    DeleteRecordsRequest, FindCoordinatorRequest, InitProducerIdRequest, ProducerId,
};

use crate::connect;

fn two() -> Batch {
    Batch::of(vec![Record::value("one"), Record::value("two")])
}

fn with(mut batch: Batch, change: impl FnOnce(&mut Batch)) -> Vec<u8> {
    change(&mut batch);
    batch.bytes()
}

fn compressed(codec: u8, data: &[u8]) -> Vec<u8> {
    let codec = Codec::from_id(codec).expect("a codec");
    compress(Compression::from(codec), data).expect("compresses")
}

/// INVALID_RECORD. Apache Kafka lets the decompressor's exception through as UNKNOWN_SERVER_ERROR (-1) here; a condition
/// that has a name gets its code (O29).
const UNREADABLE: i16 = 87;

#[test]
fn o20_bad_batches_are_refused_with_the_right_code_and_nothing_is_appended() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o20", 1);
    let two_batches = [two().bytes(), two().bytes()].concat();
    let cases: Vec<(&str, Vec<u8>, i16)> = vec![
        ("checksum", with(two(), |b| b.crc_error = 1), 2),
        ("record count too high", with(two(), |b| b.records_count = Some(3)), 87),
        ("record count too low", with(two(), |b| b.records_count = Some(1)), 87),
        ("record count 0", with(two(), |b| b.records_count = Some(0)), 87),
        ("record count negative", with(two(), |b| b.records_count = Some(-1)), 87),
        ("record count of 2^31 - 1", with(two(), |b| b.records_count = Some(i32::MAX)), 87),
        ("last offset delta too low", with(two(), |b| b.last_offset_delta = Some(0)), 87),
        ("last offset delta too high", with(two(), |b| b.last_offset_delta = Some(9)), 87),
        ("last offset delta negative", with(two(), |b| b.last_offset_delta = Some(-2)), 87),
        ("base offset not 0", with(two(), |b| b.base_offset = 5), 87),
        ("control batch", with(two(), |b| b.attributes = 0x20), 87),
        ("two batches", two_batches, 87),
        ("unknown codec 5", with(two(), |b| b.attributes = 5), UNREADABLE),
        ("unknown codec 7", with(two(), |b| b.attributes = 7), UNREADABLE),
        ("negative sequence of a producer", two().from_producer(1_000, 0, -1).bytes(), 87),
        ("magic 3", with(two(), |b| b.magic = 3), 2),
    ];
    let kafka = Kind::selected() == Kind::Kafka;
    let mut wrong = Vec::new();
    for (what, bytes, code) in cases {
        let mut client = connect();
        match client.try_produce(9, &topic, 0, -1, bytes) {
            Ok(answer)
                if (answer.error_code == code
                    || (code == UNREADABLE && answer.error_code == -1 && kafka))
                    && answer.base_offset == -1 => {}
            Ok(answer) => wrong.push(format!(
                "{what}: code {} where {code} is due, offset {}, {:?} {:?}",
                answer.error_code, answer.base_offset, answer.error_message, answer.record_errors
            )),
            Err(error) => wrong.push(format!("{what}: {error:#} where {code} is due")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(client.produce(&topic, 0, two().bytes()).base_offset, 0, "nothing was appended");
}

#[test]
fn compressed_bytes_that_are_none_are_refused() {
    let mut client = connect();
    // Apache Kafka inflates every compressed batch. Kelda looks at the framing, and inflates where something depends on single
    // records, as in a compacted topic.
    for policy in ["delete", "compact"] {
        let topic = create_topic_with(&mut client, "o20-codec", 1, &[("cleanup.policy", policy)]);
        for codec in [1, 2, 3, 4] {
            let whole = |payload: Vec<u8>| {
                let mut batch = Batch::of(vec![Record::keyed("k", "v")]);
                (batch.attributes, batch.payload) = (i16::from(codec), Some(payload));
                batch.bytes()
            };
            let good = compressed(codec, &Batch::of(vec![Record::keyed("k", "v")]).records_bytes());
            let mut cases = vec![
                ("nothing", whole(Vec::new())),
                ("the records as they are", whole(Batch::value("v").records_bytes())),
                ("a stream that is cut off", whole(good[..good.len() - 3].to_vec())),
                ("another codec", whole(compressed(codec % 4 + 1, &[0; 100]))),
            ];
            if policy == "delete" {
                // A raw snappy block has no mark of its own, and only inflating tells where a gzip stream ends.
                cases.retain(|(what, _)| match codec {
                    1 => *what != "a stream that is cut off",
                    2 => *what == "nothing",
                    _ => true,
                });
            }
            for (what, bytes) in cases {
                let answer = client.produce(&topic, 0, bytes);
                let right =
                    [UNREADABLE, if Kind::selected() == Kind::Kafka { -1 } else { UNREADABLE }];
                assert!(right.contains(&answer.error_code), "{policy} {codec} {what}: {answer:?}");
            }
            let answer = client.produce(&topic, 0, whole(good));
            assert_eq!(answer.error_code, 0, "{policy} {codec}: {answer:?}");
        }
    }
}

#[test]
fn o20_bytes_that_are_no_batch_are_refused() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o20-cut", 1);
    let whole = two().bytes();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("cut in the records", whole[..whole.len() - 1].to_vec()),
        ("cut in the header", whole[..30].to_vec()),
        ("length past the end", with(two(), |b| b.length_error = 100)),
        ("length too short", with(two(), |b| b.length_error = -3)),
        ("length negative", with(two(), |b| b.length_error = -10_000)),
        ("garbage", vec![0xff; 100]),
    ];
    for (what, bytes) in cases {
        let mut client = connect();
        // Kafka answers these with an error or closes; either way nothing is appended.
        if let Ok(answer) = client.try_produce(9, &topic, 0, -1, bytes) {
            assert_ne!(answer.error_code, 0, "{what}");
        }
    }
    assert_eq!(client.produce(&topic, 0, two().bytes()).base_offset, 0, "nothing was appended");
}

#[test]
fn o20_record_errors_name_the_record_from_version_8_on() {
    let mut client = connect();
    let topic = create_topic_with(&mut client, "o20-keys", 1, &[("cleanup.policy", "compact")]);
    let batch = Batch::of(vec![
        Record::keyed("k", "v"),
        Record::value("no key"),
        Record::keyed("k", "w"),
        Record::value("none again"),
    ]);
    for version in 3..=12 {
        let answer = client.produce_at(version, &topic, 0, -1, batch.bytes());
        assert_eq!(answer.error_code, 87, "version {version}: {answer:?}");
        let indexes: Vec<i32> = answer.record_errors.iter().map(|e| e.batch_index).collect();
        if version >= 8 {
            assert_eq!(indexes, [1, 3], "O22: {answer:?}");
            assert!(answer.error_message.is_some());
        }
    }
    let keyed = Batch::of(vec![Record::keyed("k", "v")]);
    assert_eq!(client.produce(&topic, 0, keyed.bytes()).base_offset, 0);
}

#[test]
fn o21_a_batch_over_max_message_bytes_is_refused() {
    let mut client = connect();
    let topic = create_topic_with(&mut client, "o21", 1, &[("max.message.bytes", "5000")]);
    let answer = client.produce(&topic, 0, Batch::value(&"x".repeat(6_000)).bytes());
    assert_eq!((answer.error_code, answer.base_offset), (10, -1));
    let exact = 5_000 - Batch::value(&"x".repeat(4_900)).bytes().len() + 4_900;
    let batch = Batch::value(&"x".repeat(exact)).bytes();
    assert_eq!(batch.len(), 5_000);
    assert_eq!(client.produce(&topic, 0, batch).base_offset, 0);
    let one_more = Batch::value(&"x".repeat(exact + 1)).bytes();
    assert_eq!(client.produce(&topic, 0, one_more).error_code, 10);
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before the year 292 million")
}

#[test]
fn o23_timestamps_out_of_bounds_are_refused() {
    let mut client = connect();
    let topic = create_topic_with(
        &mut client,
        "o23",
        1,
        &[
            ("message.timestamp.after.max.ms", "3600000"),
            ("message.timestamp.before.max.ms", "3600000"),
        ],
    );
    let hour = 3_600_000;
    let late = Batch::of(vec![
        Record::value("now").at(now_ms()),
        Record::value("late").at(now_ms() + 2 * hour),
    ]);
    let early = Batch::of(vec![Record::value("early").at(now_ms() - 2 * hour)]);
    for (batch, index) in [(late, 1), (early, 0)] {
        let answer = client.produce(&topic, 0, batch.bytes());
        assert_eq!(answer.error_code, 32, "{answer:?}");
        assert_eq!(answer.record_errors.len(), 1, "{answer:?}");
        assert_eq!(answer.record_errors[0].batch_index, index);
    }
    let good = Batch::of(vec![Record::value("now").at(now_ms())]);
    let answer = client.produce(&topic, 0, good.bytes());
    assert_eq!((answer.error_code, answer.base_offset, answer.log_append_time_ms), (0, 0, -1));
}

#[test]
fn o23_log_append_time_overwrites_timestamps() {
    let mut client = connect();
    let topic = create_topic_with(
        &mut client,
        "o23-lat",
        1,
        &[("message.timestamp.type", "LogAppendTime")],
    );
    let before = now_ms();
    let answer = client.produce(&topic, 0, two().bytes());
    let after = now_ms();
    assert_eq!(answer.error_code, 0);
    assert!((before..=after).contains(&answer.log_append_time_ms), "{answer:?}");
    let (headers, records) = client.read_all(&topic, 0, 0);
    assert_eq!(headers[0].attributes & 8, 8, "the bit is set");
    assert_eq!(headers[0].max_timestamp, answer.log_append_time_ms);
    assert_eq!(records[1].value.as_deref(), Some(&b"two"[..]));
}

#[test]
fn o23_the_log_append_time_bit_of_a_client_is_cleared() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o23-bit", 1);
    let answer = client.produce(&topic, 0, with(two(), |b| b.attributes = 8));
    assert_eq!((answer.error_code, answer.log_append_time_ms), (0, -1), "{answer:?}");
    let (headers, _) = client.read_all(&topic, 0, 0);
    assert_eq!((headers[0].attributes, headers[0].max_timestamp), (0, 1_000));
}

#[test]
fn o23_a_wrong_max_timestamp_is_corrected() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o23-max", 1);
    let batch = Batch::of(vec![Record::value("a").at(5_000), Record::value("b").at(7_000)]);
    for wrong in [6_000, 9_000, -1] {
        let answer =
            client.produce(&topic, 0, with(batch.clone(), |b| b.max_timestamp = Some(wrong)));
        assert_eq!(answer.error_code, 0, "{answer:?}");
    }
    let (headers, _) = client.read_all(&topic, 0, 0);
    let stored: Vec<i64> = headers.iter().map(|header| header.max_timestamp).collect();
    assert_eq!(stored, [7_000; 3]);
}

#[test]
fn o25_batches_are_stored_in_the_codec_of_the_topic() {
    let mut client = connect();
    for (name, codec) in
        [("producer", 0), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
    {
        let topic = create_topic_with(&mut client, "o25", 1, &[("compression.type", name)]);
        assert_eq!(client.produce(&topic, 0, two().bytes()).error_code, 0, "{name}");
        assert_eq!(client.produce(&topic, 0, two().bytes()).base_offset, 2, "{name}");
        let (headers, _) = client.read_all(&topic, 0, 0);
        let stored: Vec<_> = headers
            .iter()
            .map(|h| (h.attributes & 7, h.base_offset, h.records_count, h.max_timestamp))
            .collect();
        assert_eq!(stored, [(codec, 0, 2, 1_000), (codec, 2, 2, 1_000)], "{name}");
    }
}

#[test]
fn o26_clients_may_not_write_internal_topics() {
    let mut client = connect();
    if !crate::versions::advertised().contains_key(&10) {
        return; // This build has no coordinators yet.
    }
    let find = FindCoordinatorRequest::default().with_key("o26".into());
    let made =
        wait_for(Duration::from_secs(30), || (client.call(3, &find).error_code == 0).then_some(()));
    assert!(made.is_some(), "the first coordinator makes the topic");
    let answer = client.produce("__consumer_offsets", 0, Batch::value("x").bytes());
    assert_eq!(answer.error_code, 17, "{answer:?}");
}

#[test]
fn o27_acks_other_than_minus_1_0_and_1_are_refused() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o27", 1);
    for acks in [2, -2, i16::MAX] {
        let answer = client.produce_at(9, &topic, 0, acks, two().bytes());
        assert_eq!(answer.error_code, 21, "acks {acks}");
    }
    for (offset, acks) in [(0, 1), (2, -1)] {
        assert_eq!(client.produce_at(9, &topic, 0, acks, two().bytes()).base_offset, offset);
    }
}

#[test]
fn o28_the_last_five_batches_of_a_producer_are_remembered() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o28", 1);
    let id = producer(&mut client);
    for sequence in 0..7 {
        let answer =
            client.produce(&topic, 0, Batch::value("x").from_producer(id, 0, sequence).bytes());
        assert_eq!((answer.error_code, answer.base_offset), (0, i64::from(sequence)));
    }
    for sequence in 2..7 {
        let answer =
            client.produce(&topic, 0, Batch::value("x").from_producer(id, 0, sequence).bytes());
        assert_eq!((answer.error_code, answer.base_offset), (0, i64::from(sequence)), "again");
    }
    let gap = client.produce(&topic, 0, Batch::value("x").from_producer(id, 0, 9).bytes());
    assert_eq!(gap.error_code, 45, "a gap");
    let old = client.produce(&topic, 0, Batch::value("x").from_producer(id, 0, 1).bytes());
    assert_eq!(old.error_code, 45, "older than what is remembered: {old:?}");
    let overlap = Batch::of(vec![Record::value("x"), Record::value("y")]).from_producer(id, 0, 6);
    assert_eq!(client.produce(&topic, 0, overlap.bytes()).error_code, 45, "half new");
    let next = client.produce(&topic, 0, Batch::value("x").from_producer(id, 0, 7).bytes());
    assert_eq!((next.error_code, next.base_offset), (0, 7));
}

fn producer(client: &mut integration::wire::Client) -> i64 {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let answer = wait_for(Duration::from_secs(10), || {
        let answer = client.call(4, &request);
        (answer.error_code == 0).then_some(answer)
    });
    answer.expect("a producer id").producer_id.0
}

#[test]
fn o31_epochs_and_sequences_of_producers() {
    let mut client = connect();
    let topic = create_topic(&mut client, "o31", 1);
    let id = producer(&mut client);
    let mut send = |epoch: i16, sequence: i32| {
        let answer =
            client.produce(&topic, 0, Batch::value("x").from_producer(id, epoch, sequence).bytes());
        answer.error_code
    };
    assert_eq!(send(3, 17), 0, "no state: any first sequence");
    assert_eq!(send(3, 18), 0);
    assert_eq!(send(4, 5), 45, "a new epoch begins at 0");
    assert_eq!(send(4, 0), 0);
    assert_eq!(send(3, 19), 47, "an older epoch");
    assert_eq!(send(4, 1), 0);
    // A producer whose records are all deleted is remembered all the same.
    let mut client = connect();
    let delete = DeleteRecordsRequest::default().with_timeout_ms(30_000).with_topics(vec![
        DeleteRecordsTopic::default().with_name(topic_name(&topic)).with_partitions(vec![
            DeleteRecordsPartition::default().with_partition_index(0).with_offset(-1),
        ]),
    ]);
    assert_eq!(client.call(2, &delete).topics[0].partitions[0].error_code, 0);
    let mut send = |sequence: i32| {
        client
            .produce(&topic, 0, Batch::value("x").from_producer(id, 4, sequence).bytes())
            .error_code
    };
    assert_eq!(send(2), 0);
    assert_eq!(send(9), 45);
}

#[test]
fn o33_producer_ids_are_never_given_twice() {
    let mut client = connect();
    let mut ids: Vec<i64> = (0..300).map(|_| producer(&mut client)).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 300);
}

#[test]
fn null_and_empty_records_are_answered() {
    let mut client = connect();
    let topic = create_topic(&mut client, "null", 1);
    let mut request = produce_request(&topic, 0, -1, Vec::new());
    let answer = client.try_call(9, &request);
    if let Ok(answer) = answer {
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 87, "{answer:?}");
    }
    request.topic_data[0].partition_data[0].records = None;
    let mut client = connect();
    if let Ok(answer) = client.try_call(9, &request) {
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 87, "{answer:?}");
    }
    let mut client = connect();
    assert_eq!(client.produce(&topic, 0, two().bytes()).base_offset, 0);
}

#[test]
fn one_request_with_good_and_bad_partitions_is_answered_in_part() {
    let mut client = connect();
    let topic = create_topic(&mut client, "mixed", 2);
    let mut request = produce_request(&topic, 0, -1, two().bytes());
    for (index, bytes) in [(1, with(two(), |b| b.crc_error = 7)), (9, two().bytes())] {
        let mut part = request.topic_data[0].partition_data[0].clone();
        part.index = index;
        part.records = Some(bytes.into());
        request.topic_data[0].partition_data.push(part);
    }
    let answer = client.call(9, &request);
    let mut codes: Vec<(i32, i16)> =
        answer.responses[0].partition_responses.iter().map(|p| (p.index, p.error_code)).collect();
    codes.sort_unstable();
    assert_eq!(codes, [(0, 0), (1, 2), (9, 3)]);
}
