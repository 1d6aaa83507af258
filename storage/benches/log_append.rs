//! What an append costs the core beside the copying: `stage`, `next_io` and `write_done`, the write itself left out.
//!
//! `cargo bench -p storage --bench log_append`

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use protocol_compat::batch::produce::CheckedBatch;
use protocol_compat::batch::{Attributes, BatchHeader};
use protocol_compat::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};
use storage::disk::plain::PlainFs;
use storage::log::{LeaderAppend, Log, LogConfig, LogIo, OpenArgs};

const ROUNDS: i32 = 1_000_000;

fn batch(size: usize, producer: i64) -> CheckedBatch {
    let header = BatchHeader {
        base_offset: Offset(0),
        batch_length: i32::try_from(size - 12).expect("small"),
        partition_leader_epoch: LeaderEpoch(-1),
        crc: 0,
        attributes: Attributes(0),
        last_offset_delta: 0,
        base_timestamp: Timestamp(1),
        max_timestamp: Timestamp(1),
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        records_count: 1,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.resize(size, 7);
    CheckedBatch { bytes: Bytes::from(bytes), header, recompress: None }
}

fn run(name: &str, size: usize, producer: i64, per_write: i32) {
    let dir = tempfile::tempdir().expect("a directory");
    let args = OpenArgs {
        recovery_point: Offset(0),
        log_start: Offset(0),
        clean_shutdown: true,
        now: Timestamp(1),
    };
    let fs = Arc::new(PlainFs::new());
    let (mut log, _) =
        Log::open(fs, dir.path().join("t-0"), LogConfig::default(), args).expect("opens");
    let template = batch(size, producer);
    let leader = LeaderAppend { leader_epoch: LeaderEpoch(0), now: Timestamp(1) };
    let mut jobs = 0;
    let start = Instant::now();
    for round in 0..ROUNDS {
        let mut batch = template.clone();
        batch.header.base_sequence = round;
        log.stage(batch, leader).expect("staged");
        if round % per_write != 0 {
            continue;
        }
        while let Some(io) = log.next_io() {
            match io {
                LogIo::Write { chunks, .. } => {
                    drop(chunks);
                    log.write_done(Ok(())).expect("written");
                    log.advance_high_watermark(log.written());
                }
                LogIo::Sync { .. } => log.sync_done(Ok(())).expect("synced"),
                LogIo::Job(job) => {
                    jobs += 1;
                    log.job_done(job.run()).expect("done");
                }
            }
        }
    }
    let each = start.elapsed().as_nanos() / u128::from(ROUNDS.unsigned_abs());
    println!("{name:50} {each:5} ns an append ({jobs} jobs)");
}

fn main() {
    run("170 bytes, one a write", 170, -1, 1);
    run("170 bytes, idempotent, one a write", 170, 5, 1);
    run("170 bytes, idempotent, 20 a write", 170, 5, 20);
    run("16 KiB, one a write", 16 << 10, -1, 1);
    run("16 KiB, idempotent, 5 a write", 16 << 10, 5, 5);
}
