//! Files that Apache Kafka 4.4.0 wrote, read and written again.

use protocol_compat::batch::BatchIter;
use protocol_compat::ids::Offset;

use super::batch::{self, Content};
use super::snapshot;
use crate::image::configs::ConfigResource;
use crate::image::replay::Replay;
use crate::image::snapshot_io;
use crate::records::MetadataRecord;

const STATIC_LOG: &[u8] = include_bytes!("../../testdata/kafka-static/00000000000000000000.log");
const STATIC_SNAPSHOT: &[u8] =
    include_bytes!("../../testdata/kafka-static/00000000000000000071-0000000002.checkpoint");
const STATIC_FIRST: &[u8] =
    include_bytes!("../../testdata/kafka-static/00000000000000000000-0000000000.checkpoint");
const STANDALONE_LOG: &[u8] =
    include_bytes!("../../testdata/kafka-standalone/00000000000000000000.log");
const STANDALONE_FIRST: &[u8] =
    include_bytes!("../../testdata/kafka-standalone/00000000000000000000-0000000000.checkpoint");

/// Every batch of Kafka's, decoded and built again, has the bytes that it had.
#[test]
fn batches_are_written_byte_for_byte_as_kafka_does() {
    for file in [STATIC_LOG, STATIC_SNAPSHOT, STATIC_FIRST, STANDALONE_LOG, STANDALONE_FIRST] {
        let mut count = 0;
        for raw in BatchIter::new(file) {
            let raw = raw.expect("a batch");
            let read = batch::decode(&raw.header, raw.bytes).expect("known records");
            let written = match &read.content {
                Content::Control(records) => {
                    batch::control(read.base_offset, read.epoch, read.timestamp_ms, records)
                }
                Content::Data(records) => {
                    let records: Vec<_> =
                        records.iter().map(|(_, record)| record.clone()).collect();
                    batch::data(read.base_offset, read.epoch, read.timestamp_ms, 33, &records)
                }
            };
            assert_eq!(written, raw.bytes, "batch at {}", read.base_offset);
            count += 1;
        }
        assert!(count >= 2);
    }
}

fn replay_log(file: &[u8]) -> Replay {
    let mut replay = Replay::default();
    for batch in batch::decode_all(file).expect("a log") {
        if let Content::Data(records) = &batch.content {
            for (offset, record) in records {
                replay.apply(*offset, record).expect("Kafka's own record");
            }
        }
        replay.advance(batch.last_offset, batch.epoch, batch.timestamp_ms);
    }
    replay
}

fn replay_records(records: &[MetadataRecord]) -> Replay {
    let mut replay = Replay::default();
    for (at, record) in (0..).zip(records) {
        replay.apply(Offset(at), record).expect("a record of a snapshot");
    }
    replay
}

#[test]
fn kafkas_log_and_kafkas_snapshot_give_one_image() {
    let mut of_log = replay_log(STATIC_LOG);
    let (image, delta) = of_log.finish().expect("no open transaction");
    assert_eq!(image.offset(), Offset(70));
    assert_eq!(image.topics().len(), 2);
    assert_eq!(image.topics().partition_count(), 6);
    let foo = image.topics().by_name("foo").expect("foo");
    assert_eq!(foo.partition_count(), 5);
    for (_, partition) in foo.partitions() {
        assert_eq!((partition.leader, partition.partition_epoch), (None, 3));
        assert_eq!((partition.isr.len(), partition.elr.len()), (0, 1));
    }
    let configs = image.configs().of_topic("foo").expect("overrides");
    assert_eq!(configs.get("segment.bytes").map(AsRef::as_ref), Some("2000000"));
    assert_eq!(configs.get("retention.ms"), None);
    assert_eq!(image.configs().of_topic("gone"), None);
    assert_eq!(image.next_producer_id().map(|id| id.0), Some(1_000));
    assert_eq!(image.scram().iter().count(), 1);
    assert_eq!(image.acls().iter().count(), 1);
    assert_eq!(image.client_quotas().iter().count(), 2);
    assert_eq!(image.features().iter().count(), 6);
    assert_eq!((delta.created_topics.len(), delta.deleted_topics.len()), (2, 0));

    let content = snapshot::decode(STATIC_SNAPSHOT).expect("a snapshot");
    assert_eq!(content.kraft_version, 0);
    let mut of_snapshot = replay_records(&content.records);
    of_snapshot.advance(image.offset(), image.provenance().epoch, content.last_timestamp_ms);
    let mut of_snapshot = of_snapshot.image().clone();
    // Kafka 4.4.0 leaves overrides of a deleted topic in its snapshots.
    assert!(of_snapshot.configs.resources.remove(&ConfigResource::topic("gone")).is_some());
    assert_eq!(of_snapshot, image);

    // Our own snapshot holds the same records, in another order at most.
    let gone = |record: &MetadataRecord| matches!(record, MetadataRecord::Config(config) if config.resource_name == "gone");
    let sorted = |records: Vec<MetadataRecord>| {
        let mut texts: Vec<_> = records
            .into_iter()
            .filter(|record| !gone(record))
            .map(|mut record| {
                // Kafka orders features by its hash.
                match &mut record {
                    MetadataRecord::RegisterBroker(r) => {
                        r.features.sort_by(|a, b| a.name.cmp(&b.name))
                    }
                    MetadataRecord::RegisterController(r) => {
                        r.features.sort_by(|a, b| a.name.cmp(&b.name));
                    }
                    _ => {}
                }
                record.encode(33)
            })
            .collect();
        texts.sort();
        texts
    };
    assert_eq!(sorted(snapshot_io::to_records(&image)), sorted(content.records));
}

#[test]
fn format_of_a_standalone_node_is_read() {
    let content = snapshot::decode(STANDALONE_FIRST).expect("a snapshot");
    assert_eq!(content.kraft_version, 1);
    let voters = content.voters.expect("a voter set");
    assert_eq!((voters.len(), voters[0].id.0), (1, 1));
    assert_eq!(content.records, crate::decide::activation::newest_features());
}
