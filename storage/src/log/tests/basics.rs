//! Appending, reading, rolling, retention, producers through the whole log.

use std::sync::Arc;

use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};

use super::testkit::{Spec, T, args, batch, marker};
use crate::disk::sim::{Call, Fault, SimDisk};
use crate::log::{AppendError, Durability, Log, LogConfig, LogIo, ReadError, StageOutcome};

fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() }
}

#[test]
fn nothing_is_visible_before_it_is_written_nor_durable_before_it_is_synced() {
    let mut t = T::new(LogConfig::default());
    t.run();
    let appended = t.stage(Spec { records: 3, ..Spec::default() });
    assert_eq!((appended.base_offset, appended.last_offset), (Offset(0), Offset(2)));
    assert_eq!((t.log.staged(), t.log.written()), (Offset(3), Offset(0)));
    t.log.request_sync();
    // The first batch of an epoch waits until the epoch is noted.
    let Some(LogIo::Job(job)) = t.log.next_io() else { panic!("a job") };
    assert_eq!(job.name(), "epochs");
    t.log.job_done(job.run()).expect("done");
    let Some(LogIo::Write { file, pos, chunks }) = t.log.next_io() else { panic!("a write") };
    assert!(t.log.next_io().is_none(), "one write at a time, and no sync before it");
    t.stage(Spec::default());
    assert!(t.log.next_io().is_none());
    t.log.write_done(file.write_all_at(&chunks, pos)).expect("written");
    assert_eq!((t.log.written(), t.log.flushed()), (Offset(3), Offset(0)));
    let Some(LogIo::Write { .. }) = t.log.next_io() else { panic!("the gathered write") };
    let Some(LogIo::Sync { file }) = t.log.next_io() else { panic!("a sync beside it") };
    t.log.sync_done(file.sync_data()).expect("synced");
    assert_eq!(
        (t.log.flushed(), t.log.written(), t.log.staged()),
        (Offset(3), Offset(3), Offset(4))
    );
}

#[test]
fn requests_during_a_sync_share_the_next() {
    let mut t = T::new(LogConfig::default());
    t.append(Spec::default());
    t.log.request_sync();
    let Some(LogIo::Sync { file }) = t.log.next_io() else { panic!("a sync") };
    for _ in 0..5 {
        t.stage(Spec::default());
        t.log.request_sync();
        while let Some(io) = t.log.next_io() {
            assert!(matches!(io, LogIo::Write { .. }), "no second sync");
            t.carry_out(io);
        }
    }
    t.log.sync_done(file.sync_data()).expect("synced");
    assert_eq!(t.log.flushed(), Offset(1));
    let Some(LogIo::Sync { file }) = t.log.next_io() else { panic!("the shared sync") };
    t.log.sync_done(file.sync_data()).expect("synced");
    assert_eq!(t.log.flushed(), Offset(6));
    assert!(t.log.next_io().is_none());
    assert!(t.log.is_idle());
}

#[test]
fn offsets_are_found_across_segments_and_slices() {
    for max_bytes in [1, 150, 500, 1 << 20] {
        let mut t = T::new(small_segments());
        for number in 0..100u8 {
            let spec = Spec {
                records: i32::from(number % 4) + 1,
                value_bytes: usize::from(number) * 2,
                timestamp: 1000 + i64::from(number),
                ..Spec::default()
            };
            t.append(spec);
        }
        let end = t.log.written().0;
        assert!(t.jobs.iter().filter(|job| **job == "roll").count() > 10);
        let headers = t.read_all(0, end, max_bytes);
        assert_eq!(headers.len(), 100);
        assert_eq!(t.read_all(0, end, max_bytes), headers);
        for from in 0..end {
            let slice = t.read(from, 1, end);
            let bytes = T::bytes(&slice);
            let header = protocol_compat::batch::BatchHeader::parse(&bytes).expect("a batch");
            assert!(header.base_offset.0 <= from && from <= header.last_offset().0, "{from}");
        }
        assert_eq!(t.read(end, 100, end).len, 0);
        assert!(matches!(
            t.log.read(Offset(end + 1), 1, Offset(end), true),
            Err(ReadError::OutOfRange { .. })
        ));
    }
}

#[test]
fn reads_end_at_the_watermark_also_inside_the_index() {
    let mut t = T::new(LogConfig { index_interval_bytes: 200, ..LogConfig::default() });
    for _ in 0..50 {
        t.stage(Spec { records: 2, ..Spec::default() });
    }
    while let Some(io) = t.log.next_io() {
        t.carry_out(io);
    }
    for end in 1..=100 {
        // Twice: with the boundaries in memory, and by the index once they are below the watermark.
        let slice = t.read(0, 1 << 20, end);
        let size = u32::try_from(batch(Spec { records: 2, ..Spec::default() }).bytes.len());
        assert_eq!(slice.len, size.expect("small") * u32::try_from(end / 2).expect("small"));
    }
    t.log.advance_high_watermark(Offset(100));
    for end in 1..=100 {
        let slice = t.read(0, 1 << 20, end);
        assert_eq!(i64::from(slice.len / slice.first_batch_size.max(1)), end / 2);
    }
}

#[test]
fn a_first_batch_larger_than_the_limit_is_whole_only_when_asked() {
    let mut t = T::new(LogConfig::default());
    t.append(Spec { value_bytes: 5000, ..Spec::default() });
    t.append(Spec::default());
    let slice = t.log.read(Offset(0), 100, Offset(2), true).expect("read");
    assert_eq!(slice.len, slice.first_batch_size);
    let slice = t.log.read(Offset(0), 100, Offset(2), false).expect("read");
    assert_eq!((slice.len, slice.first_batch_size > 5000), (100, true));
}

#[test]
fn appends_go_on_while_a_segment_is_rolled() {
    let mut t = T::new(small_segments());
    for _ in 0..40 {
        t.stage(Spec::default());
    }
    let mut writes = 0;
    while let Some(io) = t.log.next_io() {
        if matches!(&io, LogIo::Job(job) if job.name() == "roll") {
            t.stage(Spec::default());
            if let Some(other) = t.log.next_io() {
                assert!(!matches!(other, LogIo::Write { .. }));
                t.carry_out(other);
            }
        }
        writes += usize::from(matches!(io, LogIo::Write { .. }));
        t.carry_out(io);
    }
    t.log.advance_high_watermark(t.log.written());
    assert!(writes >= 4);
    let end = t.log.written().0;
    assert_eq!(end, t.log.staged().0);
    assert_eq!(t.read_all(0, end, 300).len() as i64, end);
    assert!(t.log.recovery_point() > Offset(0), "sealed segments need no scan");
}

/// Space on the disk that no record is in.
fn surplus(t: &T, capacity: u64) -> u64 {
    capacity - t.fs.free_bytes(&t.dir).expect("asked") - t.log.size_bytes()
}

#[test]
fn space_is_taken_ahead_and_given_back() {
    const CAPACITY: u64 = 64 << 20;
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(CAPACITY));
    let config = LogConfig {
        durability: Durability::PageCache,
        segment_bytes: 12 << 20,
        ..LogConfig::default()
    };
    let mut t = T::on(disk, config);
    let spec = Spec { value_bytes: 1 << 20, ..Spec::default() };
    for _ in 0..3 {
        t.append(spec);
    }
    assert!(!t.jobs.contains(&"reserve"), "a small log takes no more than it needs");
    t.append(spec);
    t.append(spec);
    assert!(t.jobs.contains(&"reserve"));
    assert!(surplus(&t, CAPACITY) > 3 << 20);
    for _ in 0..10 {
        t.append(spec);
    }
    assert!(t.jobs.contains(&"seal"));
    let active = t.log.size_bytes() % (12 << 20);
    assert!(surplus(&t, CAPACITY) < (12 << 20) - active, "the sealed segment holds no more");
    let t = t.reopen(true);
    assert!(surplus(&t, CAPACITY) < 1 << 16, "nor does a log that was closed");
}

#[test]
fn a_disk_without_room_ahead_is_used_to_its_end() {
    let disk = SimDisk::new(1);
    disk.set_capacity(Some(7 << 20));
    let config = LogConfig { durability: Durability::PageCache, ..LogConfig::default() };
    let mut t = T::on(disk, config);
    for _ in 0..6 {
        t.append(Spec { value_bytes: 1 << 20, ..Spec::default() });
    }
    assert_eq!(t.jobs.iter().filter(|job| **job == "reserve").count(), 1, "{:?}", t.jobs);
    assert_eq!(t.log.written().0, 6);
}

#[test]
fn no_space_is_taken_ahead_of_syncs() {
    let mut t = T::new(LogConfig::default());
    for _ in 0..6 {
        t.append(Spec { value_bytes: 1 << 20, ..Spec::default() });
    }
    assert!(!t.jobs.contains(&"reserve"));
}

#[test]
fn a_segment_is_rolled_by_age_and_by_a_full_index() {
    let mut t = T::new(LogConfig { segment_ms: 100, ..LogConfig::default() });
    t.append(Spec { timestamp: 1000, ..Spec::default() });
    t.append(Spec { timestamp: 1100, ..Spec::default() });
    assert!(!t.jobs.contains(&"roll"));
    t.append(Spec { timestamp: 1101, ..Spec::default() });
    assert!(t.jobs.contains(&"roll"));
    let config =
        LogConfig { segment_index_bytes: 24, index_interval_bytes: 1, ..LogConfig::default() };
    let mut t = T::new(config);
    for number in 0..10 {
        t.append(Spec { timestamp: 1000 + number, ..Spec::default() });
    }
    assert!(t.jobs.iter().filter(|job| **job == "roll").count() >= 3);
    assert_eq!(t.read_all(0, 10, 1000).len(), 10);
}

#[test]
fn a_duplicate_is_answered_with_the_original_place_also_after_a_restart() {
    for clean in [true, false] {
        let mut t = T::new(LogConfig::default());
        for sequence in 0..8 {
            t.append(Spec { producer: Some((9, 0, sequence)), ..Spec::default() });
        }
        t.log.request_checkpoint();
        t.run();
        let mut t = t.reopen(clean);
        for sequence in 3..8 {
            let spec = Spec { producer: Some((9, 0, sequence)), ..Spec::default() };
            let Ok(StageOutcome::Duplicate(appended)) = t.try_stage(spec) else {
                panic!("sequence {sequence} is not known, clean stop: {clean}")
            };
            assert_eq!(appended.base_offset, Offset(i64::from(sequence)));
        }
        let spec = Spec { producer: Some((9, 0, 2)), ..Spec::default() };
        assert!(matches!(t.try_stage(spec), Err(AppendError::OutOfOrderSequence { .. })));
        t.append(Spec { producer: Some((9, 0, 8)), ..Spec::default() });
    }
}

#[test]
fn aborted_transactions_are_listed_and_bound_the_stable_offset() {
    for reopen in [None, Some(true), Some(false)] {
        let mut t = T::new(small_segments());
        let txn = |producer, sequence| Spec {
            producer: Some((producer, 0, sequence)),
            attributes: 0x10,
            value_bytes: 100,
            ..Spec::default()
        };
        for sequence in 0..10 {
            t.append(txn(1, sequence));
            t.append(txn(2, sequence));
        }
        assert_eq!(t.log.last_stable_offset(), Offset(0));
        t.append_batch(marker(1, 0, true, 1000));
        assert_eq!(t.log.last_stable_offset(), Offset(1));
        t.append_batch(marker(2, 0, false, 1000));
        assert_eq!(t.log.last_stable_offset(), Offset(22));
        for _ in 0..20 {
            t.append(Spec { value_bytes: 100, ..Spec::default() });
        }
        if let Some(clean) = reopen {
            t = t.reopen(clean);
            t.run();
        }
        let mut aborted = |from, end| loop {
            match t.log.aborted_transactions(Offset(from), Offset(end)) {
                Ok(list) => {
                    return list
                        .iter()
                        .map(|a| (a.producer_id.0, a.first_offset.0))
                        .collect::<Vec<_>>();
                }
                Err(ReadError::Cold(cold)) => cold.warm().expect("warms"),
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(aborted(0, 42), [(1, 0)], "reopened: {reopen:?}");
        assert_eq!(aborted(20, 42), [(1, 0)]);
        assert_eq!(aborted(21, 42), []);
    }
}

#[test]
fn retention_by_size_and_start_deletes_whole_segments_and_later_their_files() {
    let config = LogConfig {
        retention_bytes: Some(3000),
        retention_ms: None,
        file_delete_delay_ms: 500,
        ..small_segments()
    };
    let mut t = T::new(config);
    for _ in 0..100 {
        t.append(Spec::default());
    }
    t.log.start_retention(Timestamp(2000));
    t.run();
    assert!(t.log.size_bytes() >= 3000 && t.log.size_bytes() < 4000);
    let start = t.log.log_start_offset();
    assert!(start > Offset(0));
    assert!(t.files().iter().any(|name| name.ends_with(".log.deleted")));
    assert!(matches!(t.log.read(Offset(0), 1, start, true), Err(ReadError::OutOfRange { .. })));
    t.log.tick(Timestamp(2499));
    t.run();
    assert!(t.files().iter().any(|name| name.ends_with(".deleted")));
    t.log.tick(Timestamp(2500));
    t.run();
    assert!(!t.files().iter().any(|name| name.ends_with(".deleted")));
    // DeleteRecords.
    let to = Offset(t.log.written().0 - 1);
    assert_eq!(t.log.advance_log_start(to), to);
    assert_eq!(t.log.advance_log_start(Offset(1)), to);
    t.log.start_retention(Timestamp(3000));
    t.run();
    assert_eq!(t.files().iter().filter(|name| name.ends_with(".log")).count(), 1);
    let end = t.log.written().0;
    assert_eq!(t.read_all(to.0, end, 1000).len(), 1);
}

#[test]
fn an_expired_active_segment_is_rolled_and_deleted() {
    let config = LogConfig { retention_ms: Some(100), ..LogConfig::default() };
    let mut t = T::new(config);
    for _ in 0..3 {
        t.append(Spec { timestamp: 1000, ..Spec::default() });
    }
    t.log.start_retention(Timestamp(1101));
    t.run();
    // The segment is sealed by now, and goes with the next pass at the latest.
    t.log.start_retention(Timestamp(1102));
    t.run();
    assert_eq!((t.log.log_start_offset(), t.log.written()), (Offset(3), Offset(3)));
    assert_eq!(t.append(Spec::default()).base_offset, Offset(3));
    assert_eq!(t.log.size_bytes(), u64::from(t.read(3, 1, 4).len));
}

#[test]
fn a_failed_write_or_sync_ends_the_log_and_is_not_retried() {
    for call in [Call::Write, Call::Sync] {
        let disk = SimDisk::new(3);
        let mut t = T::on(disk.clone(), LogConfig::default());
        t.append(Spec::default());
        disk.inject(Fault { call, path_part: ".log".into(), after: 0, times: 1, errno: libc::EIO });
        t.stage(Spec::default());
        t.log.request_sync();
        let mut failures = 0;
        while let Some(io) = t.log.next_io() {
            let result = match io {
                LogIo::Write { file, pos, chunks } => {
                    t.log.write_done(file.write_all_at(&chunks, pos))
                }
                LogIo::Sync { file } => t.log.sync_done(file.sync_data()),
                LogIo::Job(job) => t.log.job_done(job.run()),
            };
            failures += usize::from(result.is_err());
        }
        assert_eq!(failures, 1);
        assert_eq!(t.log.flushed(), Offset(0));
        assert!(t.log.is_idle());
        assert!(matches!(t.try_stage(Spec::default()), Err(AppendError::Directory(_))));
    }
}

#[test]
fn truncation_drops_what_diverged_and_appends_go_on() {
    let mut t = T::new(small_segments());
    for number in 0..60u8 {
        let producer = Some((1, 0, i32::from(number)));
        t.append(Spec { producer, ..Spec::default() });
    }
    t.stage(Spec::default());
    t.log.truncate_to(Offset(33));
    assert!(matches!(t.try_stage(Spec::default()), Err(AppendError::Busy)));
    t.run();
    assert_eq!((t.log.written(), t.log.staged()), (Offset(33), Offset(33)));
    assert_eq!(t.read_all(0, 33, 1 << 20).len(), 33);
    let appended = t.append(Spec { producer: Some((1, 0, 33)), ..Spec::default() });
    assert_eq!(appended.base_offset, Offset(33));
    t.log.truncate_fully_and_start_at(Offset(500));
    t.run();
    assert_eq!((t.log.log_start_offset(), t.log.written()), (Offset(500), Offset(500)));
    assert_eq!(t.append(Spec::default()).base_offset, Offset(500));
    let mut t = t.reopen(false);
    assert_eq!(t.read_all(500, 501, 1 << 20).len(), 1);
}

#[test]
fn truncation_to_a_segments_base_or_the_log_start_works() {
    for offset in [0, 5, 8, 16, 40] {
        let mut t = T::new(LogConfig { segment_bytes: 800, ..small_segments() });
        for _ in 0..40 {
            t.append(Spec::default());
        }
        t.log.truncate_to(Offset(offset));
        t.run();
        assert_eq!(t.log.written(), Offset(offset));
        assert_eq!(t.append(Spec::default()).base_offset, Offset(offset));
        assert_eq!(t.read_all(0, offset + 1, 100).len() as i64, offset + 1);
    }
}

#[test]
fn leader_epochs_survive_and_answer() {
    let mut t = T::new(LogConfig::default());
    t.log.start_leader_epoch(LeaderEpoch(0));
    t.append(Spec { records: 5, ..Spec::default() });
    t.log.start_leader_epoch(LeaderEpoch(4));
    t.run();
    assert_eq!(t.log.latest_leader_epoch(), Some(LeaderEpoch(4)));
    // As in Kafka, an epoch without records is forgotten.
    let t = t.reopen(false);
    assert_eq!(t.log.latest_leader_epoch(), Some(LeaderEpoch(0)));
    let end = t.log.offset_for_leader_epoch(LeaderEpoch(0)).expect("known");
    assert_eq!((end.leader_epoch, end.end_offset), (LeaderEpoch(0), Offset(5)));
}

#[test]
fn a_log_in_use_can_be_sent_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Log>();
    assert_send::<crate::log::LogJob>();
    assert_send::<crate::log::LookupJob>();
}

#[test]
fn a_log_of_old_magic_is_refused_and_left_alone() {
    let fs = Arc::new(SimDisk::new(1));
    let t = T::on((*fs).clone(), LogConfig::default());
    let path = t.dir.join("00000000000000000000.log");
    drop(t);
    // One message of magic 1: offset, size, crc, magic, attributes, timestamp, no key, no value.
    let mut message = vec![0; 8];
    message.extend(22i32.to_be_bytes());
    message.extend([0; 4]);
    message.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    message.extend([0xff; 8]);
    let crc = !message[16..].iter().fold(!0u32, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |c, _| (c >> 1) ^ (0xedb8_8320 & (c & 1).wrapping_neg()))
    });
    message[12..16].copy_from_slice(&crc.to_be_bytes());
    // Followed by enough for a header of today's.
    message.extend(message.clone());
    let file = crate::disk::FileSystem::open(&*fs, &path, crate::disk::OpenMode::ReadWrite);
    let file = file.expect("opens");
    file.write_all_at(&[message.clone().into()], 0).expect("writes");
    for clean_shutdown in [true, false] {
        let args = crate::log::OpenArgs { clean_shutdown, ..args() };
        let result = Log::open(fs.clone(), super::testkit::DIR.into(), LogConfig::default(), args);
        assert!(matches!(result, Err(crate::log::LogError::OldMagic { magic: 1, .. })));
    }
    assert_eq!(file.size().expect("a size"), message.len() as u64);
}
