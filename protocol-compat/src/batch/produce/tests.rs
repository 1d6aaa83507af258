use super::*;
use crate::batch::{BatchBuilder, BatchIter, BatchOptions, NewRecord, ProducerStamp, records};
use crate::ids::{ProducerEpoch, ProducerId};
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000_000;

fn rules() -> ProduceRules {
    ProduceRules {
        api_version: 9,
        max_message_bytes: 1 << 20,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
        compacted: false,
        target_compression: None,
        max_decompressed_bytes: 1 << 20,
        now: Timestamp(NOW),
    }
}

fn batch(options: BatchOptions, list: &[(i64, Option<&[u8]>)]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for (timestamp, key) in list {
        let record = NewRecord {
            timestamp: Timestamp(*timestamp),
            key: *key,
            value: Some(b"v"),
            headers: &[],
        };
        builder.push(record).expect("fits");
    }
    builder.build().expect("builds")
}

fn plain() -> Bytes {
    batch(BatchOptions::default(), &[(NOW, Some(b"a")), (NOW + 5, None)])
}

/// The batch with bytes changed and its checksum made right again.
fn patched(batch: &Bytes, at: usize, bytes: &[u8]) -> Bytes {
    let mut changed = batch.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crate::batch::crc32c(&changed[CRC_START..]);
    changed[17..21].copy_from_slice(&crc.to_be_bytes());
    changed.into()
}

fn code(records: Bytes, rules: &ProduceRules) -> ErrorCode {
    check(records, rules).map_or_else(|error| error.code, |_| ErrorCode::None)
}

#[test]
fn a_right_batch_passes_as_it_is() {
    let checked = check(plain(), &rules()).expect("right");
    assert_eq!(checked.bytes, plain());
    assert_eq!((checked.header.records_count, checked.recompress), (2, None));
}

#[test]
fn malformed_batches_have_kafkas_codes() {
    let plain = plain();
    let mut flipped = plain.to_vec();
    *flipped.last_mut().expect("bytes") ^= 1;
    let twice = [&plain[..], &plain[..]].concat();
    let mut old_magic = plain.to_vec();
    old_magic[16] = 1;
    let cases: [(&str, Bytes, ErrorCode); 9] = [
        ("nothing", Bytes::new(), ErrorCode::InvalidRecord),
        ("cut off", plain.slice(..plain.len() - 1), ErrorCode::InvalidRecord),
        ("two batches", twice.into(), ErrorCode::InvalidRecord),
        ("magic 1", old_magic.into(), ErrorCode::InvalidRecord),
        ("a flipped bit", flipped.into(), ErrorCode::CorruptMessage),
        ("a count of 3", patched(&plain, 57, &3_i32.to_be_bytes()), ErrorCode::InvalidRecord),
        ("a base offset", patched(&plain, 0, &5_i64.to_be_bytes()), ErrorCode::InvalidRecord),
        ("control", patched(&plain, 22, &[0x20]), ErrorCode::InvalidRecord),
        ("codec 7", patched(&plain, 22, &[7]), ErrorCode::InvalidRecord),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(code(bytes, &rules()), expected, "{name}");
    }
}

#[test]
fn a_batch_above_the_limit_is_too_large() {
    let limited = ProduceRules { max_message_bytes: plain().len() - 1, ..rules() };
    assert_eq!(code(plain(), &limited), ErrorCode::MessageTooLarge);
}

#[test]
fn records_out_of_the_time_range_are_named() {
    let late = batch(BatchOptions::default(), &[(NOW, None), (NOW + 3_600_001, None)]);
    let error = check(late, &rules()).expect_err("late");
    assert_eq!(error.code, ErrorCode::InvalidTimestamp);
    assert_eq!(error.record_errors.len(), 1);
    assert_eq!(error.record_errors[0].batch_index, 1);
}

#[test]
fn compacted_topics_need_keys_in_every_codec() {
    let compacted = ProduceRules { compacted: true, ..rules() };
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let options = BatchOptions { compression: codec.into(), ..BatchOptions::default() };
        let keyless = batch(options, &[(NOW, Some(b"a")), (NOW, None)]);
        let error = check(keyless, &compacted).expect_err("a key is missing");
        assert_eq!(error.code, ErrorCode::InvalidRecord, "{codec:?}");
        assert_eq!(error.record_errors[0].batch_index, 1);
    }
}

#[test]
fn zstd_needs_version_7() {
    let options = BatchOptions { compression: Codec::Zstd.into(), ..BatchOptions::default() };
    let zstd = batch(options, &[(NOW, None)]);
    let old = ProduceRules { api_version: 6, ..rules() };
    assert_eq!(code(zstd.clone(), &old), ErrorCode::UnsupportedCompressionType);
    assert_eq!(code(zstd, &rules()), ErrorCode::None);
}

#[test]
fn a_false_max_timestamp_is_put_right() {
    let lying = patched(&plain(), 35, &1_i64.to_be_bytes());
    let checked = check(lying, &rules()).expect("right otherwise");
    assert_eq!(checked.header.max_timestamp, Timestamp(NOW + 5));
    assert!(checked.header.crc_matches(&checked.bytes));
}

#[test]
fn another_codec_of_the_topic_asks_for_recompression() {
    let target = Some(Codec::Lz4.into());
    let checked = check(plain(), &ProduceRules { target_compression: target, ..rules() });
    let checked = checked.expect("right");
    let bytes =
        crate::batch::recompress(&checked.bytes, Codec::Lz4.into(), 1 << 20).expect("works");
    let before: Vec<_> =
        records(&plain(), 1 << 20).expect("reads").map(|r| r.expect("r")).collect();
    let after: Vec<_> = records(&bytes, 1 << 20).expect("reads").map(|r| r.expect("r")).collect();
    assert_eq!(before, after);
    assert!(BatchHeader::parse(&bytes).expect("header").crc_matches(&bytes));
}

#[test]
fn a_producer_without_a_sequence_is_refused() {
    let producer = ProducerStamp { id: ProducerId(5), epoch: ProducerEpoch(0), base_sequence: -1 };
    let options = BatchOptions { producer: Some(producer), ..BatchOptions::default() };
    assert_eq!(code(batch(options, &[(NOW, None)]), &rules()), ErrorCode::InvalidRecord);
}

fn codec() -> impl Strategy<Value = Codec> {
    prop_oneof![
        Just(Codec::None),
        Just(Codec::Gzip),
        Just(Codec::Snappy),
        Just(Codec::Lz4),
        Just(Codec::Zstd)
    ]
}

type Fields = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

fn fields() -> impl Strategy<Value = Fields> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..200);
    let header = (bytes(), proptest::option::of(bytes()));
    (
        -1..NOW,
        proptest::option::of(bytes()),
        proptest::option::of(bytes()),
        proptest::collection::vec(header, 0..4),
    )
}

proptest! {
    #[test]
    fn what_is_built_passes_and_reads_back(list in proptest::collection::vec(fields(), 1..20), codec in codec(), flip in 0_usize..10_000) {
        let mut builder = BatchBuilder::new(BatchOptions { compression: codec.into(), ..BatchOptions::default() });
        for (timestamp, key, value, headers) in &list {
            let headers: Vec<_> = headers.iter().map(|(key, value)| (&key[..], value.as_deref())).collect();
            builder.push(NewRecord { timestamp: Timestamp(*timestamp), key: key.as_deref(), value: value.as_deref(), headers: &headers }).expect("fits");
        }
        let bytes = builder.build().expect("builds");
        let checked = check(bytes.clone(), &rules()).expect("right");
        prop_assert_eq!(checked.bytes, bytes.clone());
        let read: Vec<_> = records(&bytes, 1 << 20).expect("reads").map(|record| record.expect("record")).collect();
        prop_assert_eq!(read.len(), list.len());
        for (index, (record, (timestamp, key, value, headers))) in read.iter().zip(&list).enumerate() {
            prop_assert_eq!(record.offset.0, i64::try_from(index).expect("small"));
            prop_assert_eq!(record.timestamp.0, *timestamp);
            prop_assert_eq!(record.key.as_deref(), key.as_deref());
            prop_assert_eq!(record.value.as_deref(), value.as_deref());
            prop_assert_eq!(record.headers.len(), headers.len());
        }
        // Any flipped bit is found; where it is not under the checksum the batch is refused for another reason, or is only
        // the leader epoch, which the leader sets.
        let bit = flip % (bytes.len() * 8);
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if !(12..16).contains(&(bit / 8)) {
            prop_assert!(check(flipped.into(), &rules()).is_err());
        }
        for cut in [bytes.len() / 3, bytes.len() - 1] {
            prop_assert!(check(bytes.slice(..cut), &rules()).is_err());
            prop_assert_eq!(BatchIter::new(&bytes[..cut]).count(), 0);
        }
    }

    #[test]
    fn garbage_never_panics(mut data in proptest::collection::vec(any::<u8>(), 0..300), right_crc in any::<bool>()) {
        if let Some(magic) = data.get_mut(16) {
            *magic = 2;
        }
        if data.len() > 61 {
            let length = i32::try_from(data.len() - 12).expect("small");
            data[..8].fill(0);
            data[8..12].copy_from_slice(&length.to_be_bytes());
            if right_crc {
                let crc = crate::batch::crc32c(&data[21..]);
                data[17..21].copy_from_slice(&crc.to_be_bytes());
            }
        }
        let data = Bytes::from(data);
        let _ = check(data.clone(), &ProduceRules { compacted: true, ..rules() });
        if let Ok(list) = records(&data, 10_000) {
            let _ = list.count();
        }
    }
}
