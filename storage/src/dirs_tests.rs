//! Start, stop and crash of a whole directory.

use super::*;
use crate::disk::sim::{PowerLoss, SimDisk};
use crate::log::{LeaderAppend, LogIo};
use protocol_compat::batch::produce::CheckedBatch;
use protocol_compat::batch::{Attributes, BatchHeader, crc32c};
use protocol_compat::ids::{BrokerId, LeaderEpoch, ProducerEpoch, ProducerId};

const ID: DirectoryId = DirectoryId(Uuid::from_u128(77));
const TOPIC: TopicId = TopicId(Uuid::from_u128(5));

fn identity() -> MetaProperties {
    MetaProperties {
        cluster_id: "4L6g3nShT-eMCtK--X86sw".into(),
        node_id: BrokerId(1),
        directory_id: Some(ID),
    }
}

fn formatted(disk: &SimDisk) -> LogDir {
    LogDir::format(disk, "/d".as_ref(), &identity()).expect("formatted");
    open(disk)
}

fn open(disk: &SimDisk) -> LogDir {
    LogDir::open(Arc::new(disk.clone()), "/d".into(), ID).expect("opens")
}

fn partition(index: i32) -> TopicPartition {
    TopicPartition { topic: "t".into(), partition: PartitionIndex(index) }
}

fn append(log: &mut Log, count: usize) {
    let mut header = BatchHeader {
        base_offset: Offset(0),
        batch_length: 56,
        partition_leader_epoch: LeaderEpoch(-1),
        crc: 0,
        attributes: Attributes(0),
        last_offset_delta: 0,
        base_timestamp: Timestamp(1),
        max_timestamp: Timestamp(1),
        producer_id: ProducerId(-1),
        producer_epoch: ProducerEpoch(-1),
        base_sequence: -1,
        records_count: 1,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend([12, 0, 0, 0, 1, 0, 0]);
    header.crc = crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&header.crc.to_be_bytes());
    let batch = CheckedBatch { bytes: bytes.into(), header, recompress: None };
    for _ in 0..count {
        let leader = LeaderAppend { leader_epoch: LeaderEpoch(0), now: Timestamp(1) };
        log.stage(batch.clone(), leader).expect("staged");
    }
    run(log);
}

fn run(log: &mut Log) {
    while let Some(io) = log.next_io() {
        match io {
            LogIo::Write { file, pos, chunks } => {
                log.write_done(file.write_all_at(&chunks, pos)).expect("written");
            }
            LogIo::Sync { file } => log.sync_done(file.sync_data()).expect("synced"),
            LogIo::Job(job) => log.job_done(job.run()).expect("done"),
        }
    }
    log.advance_high_watermark(log.written());
}

fn open_log(dir: &LogDir, index: i32) -> (Log, RecoveryReport) {
    dir.open_log(&partition(index), TOPIC, LogConfig::default(), Timestamp(2)).expect("opens")
}

#[test]
fn a_clean_stop_needs_no_recovery_and_keeps_the_watermark() {
    let disk = SimDisk::new(1);
    let dir = formatted(&disk);
    assert!(!dir.was_clean());
    let (mut log, _) = open_log(&dir, 0);
    append(&mut log, 5);
    dir.close_log(&partition(0), log).expect("closed");
    dir.close(42).expect("closed");
    let disk = disk.power_loss(PowerLoss::DropUnsynced);
    let dir = open(&disk);
    assert!(dir.was_clean());
    assert_eq!(dir.previous_broker_epoch(), Some(42));
    let (log, report) = open_log(&dir, 0);
    assert!(!report.scanned);
    assert_eq!((log.written(), log.high_watermark()), (Offset(5), Offset(5)));
    // The mark is gone: a crash now is seen.
    let disk = disk.power_loss(PowerLoss::KeepUnsynced);
    let dir = open(&disk);
    assert!(!dir.was_clean());
    assert!(open_log(&dir, 0).1.scanned);
}

#[test]
fn a_log_closed_and_opened_again_needs_no_recovery_but_one_left_open_does() {
    let disk = SimDisk::new(1);
    let dir = formatted(&disk);
    let (mut log, _) = open_log(&dir, 0);
    append(&mut log, 5);
    dir.close_log(&partition(0), log).expect("closed");
    let (log, report) = open_log(&dir, 0);
    assert!(!report.scanned);
    drop(log);
    assert!(open_log(&dir, 0).1.scanned);
    dir.close(1).expect("closed without the mark");
    assert!(!open(&disk).was_clean());
}

#[test]
fn a_directory_is_used_by_one_process_at_a_time() {
    let disk = SimDisk::new(1);
    let dir = formatted(&disk);
    let second = LogDir::open(Arc::new(disk.clone()), "/d".into(), ID);
    assert!(matches!(second, Err(DirError::Locked { .. })));
    dir.close(1).expect("closed");
    assert!(!disk.exists("/d/.lock".as_ref()).expect("asked"));
    open(&disk);
}

#[test]
fn only_empty_directories_may_be_formatted() {
    let disk = SimDisk::new(1);
    let path: &Path = "/d".as_ref();
    assert_eq!(LogDir::read_identity(&disk, path).expect("absent"), None);
    disk.create_dir_all(path).expect("made");
    assert_eq!(LogDir::read_identity(&disk, path).expect("empty"), None);
    let not_formatted = LogDir::open(Arc::new(disk.clone()), path.into(), ID);
    assert!(matches!(not_formatted, Err(DirError::NotFormatted { .. })));
    disk.create_dir_all("/d/t-0".as_ref()).expect("made");
    assert!(matches!(LogDir::read_identity(&disk, path), Err(DirError::NotEmpty { .. })));
    let file = disk.open("/d/meta.properties".as_ref(), crate::disk::OpenMode::Create);
    file.expect("made").write_all_at(&[bytes::Bytes::from_static(b"version=7\n")], 0).expect("ok");
    assert!(matches!(LogDir::read_identity(&disk, path), Err(DirError::BadIdentity { .. })));
}

#[test]
fn partitions_are_found_marked_and_removed() {
    let disk = SimDisk::new(1);
    let dir = formatted(&disk);
    for index in 0..3 {
        drop(open_log(&dir, index));
    }
    let path = dir.mark_deleted(&partition(1), Uuid::from_u128(1)).expect("renamed").expect("was");
    dir.mark_stray(&partition(2), Uuid::from_u128(2)).expect("renamed").expect("was");
    assert_eq!(dir.mark_deleted(&partition(9), Uuid::nil()).expect("nothing"), None);
    let found = dir.partitions().expect("listed");
    let kinds: Vec<_> = found.iter().map(|p| (p.partition.partition.0, p.kind)).collect();
    assert_eq!(
        kinds,
        [
            (0, PartitionDirKind::Current),
            (1, PartitionDirKind::Deleted),
            (2, PartitionDirKind::Stray)
        ]
    );
    assert!(found.iter().all(|p| p.topic_id == Some(TOPIC)));
    dir.remove(&path).expect("removed");
    assert_eq!(dir.partitions().expect("listed").len(), 2);
    assert_eq!(dir.checkpoints().get(&partition(1)), None);
}

#[test]
fn the_log_start_survives_by_its_checkpoint() {
    let disk = SimDisk::new(1);
    let dir = formatted(&disk);
    let (mut log, _) = open_log(&dir, 0);
    append(&mut log, 9);
    log.advance_log_start(Offset(4));
    run(&mut log);
    dir.checkpoints().note(partition(0), log.positions());
    dir.checkpoints().write().expect("written");
    let disk = disk.kill();
    let (log, _) = open_log(&open(&disk), 0);
    assert_eq!((log.log_start_offset(), log.written()), (Offset(4), Offset(9)));
}

#[test]
fn the_first_failure_is_kept_and_no_mark_is_written() {
    let disk = SimDisk::new(1);
    let dir = formatted(&disk);
    let failure = |text: &str| failed(text, "/d".as_ref(), io::ErrorKind::StorageFull.into());
    assert!(dir.fail(&failure("first")));
    assert!(!dir.fail(&failure("second")));
    assert!(dir.failure().expect("offline").attempt.starts_with("first"));
    assert!(dir.close(1).is_err());
    assert!(!disk.exists("/d/.kafka_cleanshutdown".as_ref()).expect("asked"));
}
