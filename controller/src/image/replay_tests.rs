//! Replay of a snapshot and the records behind it is replay of all records.

use proptest::prelude::*;
use protocol_compat::ids::{LeaderEpoch, Offset, TopicId, Uuid};

use super::Replay;
use crate::image::snapshot_io;
use crate::records::MetadataRecord;
use crate::records::metadata::*;

/// Makes a record that fits the image out of three random numbers.
fn record(replay: &Replay, offset: i64, (op, a, b): (u8, u8, u8)) -> MetadataRecord {
    let image = replay.image();
    let (n, m) = (i32::from(a % 4), i32::from(b % 4));
    let topic = TopicId(Uuid::from_u128(1_000 + u128::from(a % 8)));
    let known = image.topics().by_id(topic);
    let broker = image.broker(protocol_compat::ids::BrokerId(n));
    match op % 18 {
        0 | 1 if known.is_none() => {
            MetadataRecord::Topic(TopicRecord { name: format!("t{}", a % 8), topic_id: topic.0 })
        }
        2 | 3 if known.is_some() => MetadataRecord::Partition(PartitionRecord {
            partition_id: m,
            topic_id: topic.0,
            replicas: vec![1, 2],
            isr: vec![1],
            leader: 1,
            leader_epoch: i32::from(b),
            partition_epoch: 0,
            directories: if b & 64 == 0 { vec![] } else { vec![Uuid::from_u128(7); 2] },
            ..PartitionRecord::default()
        }),
        4..=6
            if known.is_some_and(|t| {
                t.partition(protocol_compat::ids::PartitionIndex(m)).is_some()
            }) =>
        {
            MetadataRecord::PartitionChange(PartitionChangeRecord {
                partition_id: m,
                topic_id: topic.0,
                isr: (b & 8 != 0).then(|| vec![1, 2]),
                leader: [-2, -1, 1, 2][usize::from(b >> 6)],
                replicas: (b & 16 != 0).then(|| vec![2, 3]),
                eligible_leader_replicas: (b & 32 != 0).then(|| vec![2]),
                last_known_elr: (b & 4 != 0).then(|| vec![1]),
                leader_recovery_state: i8::from(b & 2 != 0),
                ..PartitionChangeRecord::default()
            })
        }
        7 if known.is_some() => {
            MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: topic.0 })
        }
        8 | 9 => MetadataRecord::Config(ConfigRecord {
            resource_type: [2, 4, 16, 32][usize::from(b % 4)],
            resource_name: if b & 64 == 0 { format!("t{}", a % 8) } else { String::new() },
            name: format!("k{}", b % 3),
            value: (a & 128 == 0).then(|| b.to_string()),
        }),
        10 => MetadataRecord::RegisterBroker(RegisterBrokerRecord {
            broker_id: n,
            broker_epoch: offset,
            fenced: b & 1 == 0,
            rack: (b & 2 == 0).then(|| "r".to_owned()),
            log_dirs: vec![Uuid::from_u128(500 + u128::from(b))],
            cordoned_log_dirs: (b & 4 == 0).then(Vec::new),
            ..RegisterBrokerRecord::default()
        }),
        11 if broker.is_some() => {
            MetadataRecord::BrokerRegistrationChange(BrokerRegistrationChangeRecord {
                broker_id: n,
                broker_epoch: broker.map_or(0, |broker| broker.epoch.0),
                fenced: [0, 1, -1, 0][usize::from(b % 4)],
                in_controlled_shutdown: i8::from(b & 8 != 0),
                ..BrokerRegistrationChangeRecord::default()
            })
        }
        12 => MetadataRecord::FeatureLevel(FeatureLevelRecord {
            name: format!("f{}", a % 3),
            feature_level: i16::from(b % 3),
        }),
        13 => MetadataRecord::ClientQuota(ClientQuotaRecord {
            entity: vec![client_quota_record::EntityData {
                entity_type: "user".to_owned(),
                entity_name: (a & 1 == 0).then(|| format!("u{}", a % 8)),
            }],
            key: format!("k{}", b % 3),
            value: f64::from(b),
            remove: b & 64 != 0,
        }),
        14 => MetadataRecord::ProducerIds(ProducerIdsRecord {
            broker_id: 1,
            broker_epoch: 1,
            next_producer_id: offset,
        }),
        15 => MetadataRecord::AccessControlEntry(AccessControlEntryRecord {
            id: Uuid::from_u128(u128::from(a)),
            resource_name: b.to_string(),
            ..AccessControlEntryRecord::default()
        }),
        16 => MetadataRecord::UserScramCredential(UserScramCredentialRecord {
            name: format!("u{}", a % 8),
            mechanism: 1,
            iterations: i32::from(b),
            ..UserScramCredentialRecord::default()
        }),
        17 => MetadataRecord::ClearElr(ClearElrRecord { topic_name: String::new() }),
        _ => MetadataRecord::NoOp(NoOpRecord::default()),
    }
}

proptest! {
    #[test]
    fn snapshot_and_tail_is_all(
        ops in prop::collection::vec(any::<(u8, u8, u8)>(), 1..200),
        cut in 0_usize..200,
    ) {
        let cut = cut % ops.len();
        let mut all = Replay::default();
        let mut from_snapshot = Replay::default();
        let mut before = all.image().clone();
        for (at, op) in ops.into_iter().enumerate() {
            let offset = i64::try_from(at).expect("small");
            if at == cut {
                for (n, record) in (0..).zip(snapshot_io::to_records(all.image())) {
                    // Through its bytes, as a file would hold it.
                    let bytes = record.encode(33);
                    let record = MetadataRecord::decode(&bytes).expect("our own record");
                    from_snapshot.apply(Offset(n), &record).expect("a record of a snapshot");
                }
                from_snapshot.finish();
                all.finish();
                before = all.image().clone();
            }
            let record = record(&all, offset, op);
            for replay in [Some(&mut all), (at >= cut).then_some(&mut from_snapshot)].into_iter().flatten() {
                replay.apply(Offset(offset), &record).expect("a record that fits");
                replay.advance(Offset(offset), LeaderEpoch(1), offset);
            }
        }
        prop_assert_eq!(from_snapshot.image(), all.image());
        let (image, delta) = all.finish().expect("no transaction");
        let (_, other) = from_snapshot.finish().expect("no transaction");
        prop_assert_eq!(&delta, &other);

        // The delta names everything that differs.
        for (id, topic) in &image.topics().by_id {
            let old = before.topics().by_id(*id);
            if old.is_none() {
                prop_assert!(delta.created_topics.contains(id));
            }
            for (index, partition) in topic.partitions() {
                if old.and_then(|old| old.partition(index)) != Some(partition) {
                    prop_assert!(delta.changed_partitions[id].contains(&index));
                }
            }
        }
        let count: usize = image.topics().iter().map(|topic| topic.partition_count()).sum();
        prop_assert_eq!(image.topics().partition_count(), count);
        for topic in image.topics().iter() {
            prop_assert_eq!(image.topics().by_id(topic.id()), Some(topic));
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = MetadataRecord::decode(&bytes);
        let _ = crate::raft::snapshot::decode(&bytes);
    }
}

fn topic_record(name: &str, id: u128) -> MetadataRecord {
    MetadataRecord::Topic(TopicRecord { name: name.to_owned(), topic_id: Uuid::from_u128(id) })
}

#[test]
fn aborted_transaction_leaves_nothing_behind() {
    let mut replay = Replay::default();
    replay.apply(Offset(0), &topic_record("a", 101)).expect("fits");
    replay
        .apply(Offset(1), &MetadataRecord::BeginTransaction(BeginTransactionRecord::default()))
        .expect("fits");
    replay.apply(Offset(2), &topic_record("b", 102)).expect("fits");
    replay.advance(Offset(2), LeaderEpoch(1), 5);
    assert!(replay.finish().is_none(), "nothing is given out while a transaction is open");
    replay
        .apply(Offset(3), &MetadataRecord::AbortTransaction(AbortTransactionRecord::default()))
        .expect("fits");
    replay.advance(Offset(3), LeaderEpoch(1), 6);
    let (image, delta) = replay.finish().expect("no transaction");
    assert_eq!((image.topics().len(), delta.created_topics.len()), (1, 1));
    assert_eq!(image.offset(), Offset(3));
    assert!(!image.in_transaction);
}

#[test]
fn records_that_do_not_fit_are_errors() {
    for record in [
        MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: Uuid::from_u128(5) }),
        MetadataRecord::Partition(PartitionRecord {
            topic_id: Uuid::from_u128(5),
            ..Default::default()
        }),
        MetadataRecord::FenceBroker(FenceBrokerRecord { id: 1, epoch: 1 }),
        MetadataRecord::EndTransaction(EndTransactionRecord::default()),
        MetadataRecord::Config(ConfigRecord { resource_type: 99, ..Default::default() }),
    ] {
        assert!(Replay::default().apply(Offset(0), &record).is_err(), "{record:?}");
    }
}

#[test]
fn topic_made_and_deleted_between_two_images_is_in_neither() {
    let mut replay = Replay::default();
    replay.apply(Offset(0), &topic_record("a", 101)).expect("fits");
    replay
        .apply(
            Offset(1),
            &MetadataRecord::RemoveTopic(RemoveTopicRecord { topic_id: Uuid::from_u128(101) }),
        )
        .expect("fits");
    let (_, delta) = replay.finish().expect("no transaction");
    assert!(delta.is_empty());
}
