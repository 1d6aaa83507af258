//! Power cuts at any moment of a random run over the simulated disk.
//!
//! `KELDA_SEEDS=10000 cargo test -p storage power_loss` runs so many seeds; `KELDA_SEED=17` one.
//!
//! A seed draws settings, latencies of the disk and a list of deeds: appends (plain, idempotent, transactional), syncs,
//! checkpoints, rolls by small segments, retention, truncation, clean stops, kills, and power cuts that drop, keep, tear or
//! shuffle what was not synced. After each restart: everything that was durable is there byte for byte at its offset, what is
//! readable is a prefix of what was appended, the checksums are right, no hole, resent durable batches are known, and a
//! second recovery finds nothing to do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use protocol_compat::batch::BatchHeader;
use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};

use super::testkit::{DIR, Spec, batch, marker};
use crate::disk::sim::{Latency, PowerLoss, SimDisk, SimEngine};
use crate::disk::{Completion, Engine, Op, Ticket};
use crate::log::{LeaderAppend, Log, LogConfig, LogIo, LogJob, OpenArgs, ReadError, StageOutcome};

const WRITE: Ticket = Ticket(1);
const SYNC: Ticket = Ticket(2);

/// A small generator, so that a seed means the same for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}

/// A defect to be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Planted {
    None,
    /// Batches are acknowledged once written, before their sync.
    AckBeforeSync,
}

/// What was appended at an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Model {
    /// Offset after the batch.
    end: i64,
    crc: u32,
    producer: Option<(i64, i32)>,
}

struct World {
    dice: Dice,
    disk: SimDisk,
    engine: SimEngine,
    config: LogConfig,
    planted: Planted,
    log: Log,
    jobs: Vec<LogJob>,
    /// Every batch that was staged and may be in the log, by base offset.
    model: BTreeMap<i64, Model>,
    /// Everything before this was acknowledged as durable.
    acked: i64,
    /// What the checkpoint files of the directory hold.
    recovery_point: Offset,
    log_start_checkpoint: Offset,
    sequences: BTreeMap<i64, i32>,
    /// Producers with an open transaction.
    open_txns: Vec<i64>,
    now: i64,
}

fn open(
    disk: &SimDisk,
    config: &LogConfig,
    recovery_point: Offset,
    log_start: Offset,
    clean_shutdown: bool,
    now: i64,
) -> Log {
    let args = OpenArgs { recovery_point, log_start, clean_shutdown, now: Timestamp(now) };
    let fs = Arc::new(disk.clone());
    Log::open(fs, Path::new(DIR).to_owned(), config.clone(), args).expect("opens").0
}

impl World {
    fn new(seed: u64, planted: Planted) -> Self {
        let mut dice = Dice(seed);
        let disk = SimDisk::new(dice.roll(u64::MAX));
        disk.set_latency(Latency {
            write: 0..=u32::try_from(dice.roll(3)).expect("small"),
            sync: 0..=u32::try_from(dice.roll(5)).expect("small"),
            read: 0..=0,
        });
        let config = LogConfig {
            segment_bytes: 600 + u32::try_from(dice.roll(6000)).expect("small"),
            index_interval_bytes: 100 + u32::try_from(dice.roll(900)).expect("small"),
            retention_bytes: dice.chance(30).then_some(8000),
            retention_ms: None,
            file_delete_delay_ms: 3,
            ..LogConfig::default()
        };
        let log = open(&disk, &config, Offset(0), Offset(0), false, 1000);
        Self {
            engine: disk.engine(),
            dice,
            disk,
            config,
            planted,
            log,
            jobs: Vec::new(),
            model: BTreeMap::new(),
            acked: 0,
            recovery_point: Offset(0),
            log_start_checkpoint: Offset(0),
            sequences: BTreeMap::new(),
            open_txns: Vec::new(),
            now: 1000,
        }
    }

    /// One deed.
    fn deed(&mut self) {
        match self.dice.roll(100) {
            0..=44 => self.append(),
            45..=69 => self.work(),
            70..=79 => self.log.request_sync(),
            80..=84 => self.log.request_checkpoint(),
            85..=87 => {
                self.now += 1;
                self.log.tick(Timestamp(self.now));
                self.log.start_retention(Timestamp(self.now));
            }
            88..=90 => self.checkpoint_files(),
            91..=92 => self.truncate(),
            93 => self.delete_records(),
            94 => self.clean_stop(),
            95 => self.kill(),
            _ => self.power_cut(),
        }
    }

    fn append(&mut self) {
        let producer = 1 + i64::try_from(self.dice.roll(3)).expect("small");
        let spec = Spec {
            records: 1 + i32::try_from(self.dice.roll(4)).expect("small"),
            value_bytes: usize::try_from(if self.dice.chance(10) {
                500
            } else {
                self.dice.roll(60)
            })
            .expect("small"),
            timestamp: self.now,
            fill: u8::try_from(self.dice.roll(250)).expect("a byte"),
            ..Spec::default()
        };
        let sequence = self.sequences.get(&producer).copied().unwrap_or(0);
        let in_txn = self.open_txns.contains(&producer);
        let (batch, sequence_after) = if in_txn && self.dice.chance(40) {
            (marker(producer, 0, self.dice.chance(50), self.now), None)
        } else if in_txn || self.dice.chance(40) {
            let transactional = in_txn || self.dice.chance(30);
            let spec = Spec {
                producer: Some((producer, 0, sequence)),
                attributes: if transactional { 0x10 } else { 0 },
                ..spec
            };
            (batch(spec), Some((sequence + spec.records, transactional)))
        } else {
            (batch(spec), None)
        };
        let is_marker = batch.header.attributes.is_control();
        if batch.bytes.len() > self.config.segment_bytes as usize {
            return;
        }
        let header = batch.header;
        let leader = LeaderAppend { leader_epoch: LeaderEpoch(0), now: Timestamp(self.now) };
        let appended = match self.log.stage(batch, leader) {
            Ok(StageOutcome::Appended(appended)) => appended,
            Ok(StageOutcome::Duplicate(_)) => panic!("nothing was sent twice"),
            Err(crate::log::AppendError::Busy) => return,
            Err(error) => panic!("refused: {error}"),
        };
        if is_marker {
            self.open_txns.retain(|open| *open != producer);
        }
        if let Some((next, transactional)) = sequence_after {
            self.sequences.insert(producer, next);
            if transactional && !in_txn {
                self.open_txns.push(producer);
            }
        }
        self.model.insert(
            appended.base_offset.0,
            Model {
                end: appended.last_offset.0 + 1,
                crc: header.crc,
                producer: sequence_after.is_some().then_some((producer, header.base_sequence)),
            },
        );
    }

    /// Carries out some of what the log asks for, in the order that the disk chooses.
    fn work(&mut self) {
        for _ in 0..1 + self.dice.roll(6) {
            match self.log.next_io() {
                Some(LogIo::Write { file, pos, chunks }) => {
                    self.engine.submit(WRITE, Op::Write { file, pos, chunks });
                }
                Some(LogIo::Sync { file }) => self.engine.submit(SYNC, Op::SyncData { file }),
                Some(LogIo::Job(job)) => self.jobs.push(job),
                None => {}
            }
            if !self.jobs.is_empty() && self.dice.chance(60) {
                let at = usize::try_from(self.dice.roll(self.jobs.len() as u64)).expect("small");
                let done = self.jobs.swap_remove(at).run();
                if self.log.job_done(done).is_err() {
                    return;
                }
            }
            self.reap();
        }
        self.log.advance_high_watermark(self.log.written());
        self.acked = self.acked.max(match self.planted {
            Planted::None => self.log.flushed().0,
            Planted::AckBeforeSync => self.log.written().0,
        });
    }

    fn reap(&mut self) {
        self.engine.flush();
        let mut done: Vec<Completion> = Vec::new();
        self.engine.reap(&mut done);
        for Completion { ticket, result } in done {
            let result = result.map(drop);
            // An error is the power cut's.
            let _ = if ticket == WRITE {
                self.log.write_done(result)
            } else {
                self.log.sync_done(result)
            };
        }
    }

    /// Works until nothing is asked for.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.log.is_idle() && self.jobs.is_empty() && self.engine.in_flight() == 0 {
                return;
            }
            self.work();
        }
        panic!("the log does not come to rest: flushed {}", self.log.flushed());
    }

    /// The directory's checkpointer: it may be late, never early.
    fn checkpoint_files(&mut self) {
        self.recovery_point = self.log.recovery_point();
        self.log_start_checkpoint = self.log.log_start_offset();
    }

    fn truncate(&mut self) {
        let (start, end) = (self.log.log_start_offset().0, self.log.staged().0);
        if self.acked >= end || self.dice.chance(50) {
            return;
        }
        // What was acknowledged is never cut.
        let from = self.acked.max(start);
        let candidates: Vec<i64> = self.model.range(from..).map(|(base, _)| *base).collect();
        let Some(to) = candidates.get(usize::try_from(self.dice.roll(8)).expect("small")) else {
            return;
        };
        let to = *to;
        self.log.truncate_to(Offset(to));
        // The directory's recovery points are written before the files are cut.
        self.recovery_point = self.recovery_point.min(Offset(to));
        self.settle();
        // What was on its way to the disk meanwhile is cut as well: a follower acknowledges nothing while it truncates.
        self.acked = self.acked.min(to);
        // Staged data goes too, also what stands below the cut.
        assert!(self.log.written().0 <= to);
        self.model.split_off(&self.log.written().0);
        self.rebuild_sequences();
    }

    fn delete_records(&mut self) {
        let (start, end) = (self.log.log_start_offset().0, self.acked);
        if end <= start {
            return;
        }
        let to = start
            + i64::try_from(self.dice.roll(u64::try_from(end - start).expect("positive")))
                .expect("small");
        self.log.advance_log_start(Offset(to));
    }

    fn clean_stop(&mut self) {
        self.settle();
        let disk = self.disk.clone();
        let end = self.log.written();
        self.checkpoint_files();
        let fresh = open(&SimDisk::new(0), &self.config, Offset(0), Offset(0), false, self.now);
        let log = std::mem::replace(&mut self.log, fresh);
        log.close().run().into_result().expect("closes");
        self.recovery_point = end;
        self.acked = end.0;
        // A power cut after a clean stop takes nothing.
        let style = self.style();
        self.restart(disk.power_loss(style), true, end.0);
    }

    fn kill(&mut self) {
        let written = self.log.written().0;
        self.restart(self.disk.kill(), false, written);
    }

    fn style(&mut self) -> PowerLoss {
        match self.dice.roll(6) {
            0 => PowerLoss::DropUnsynced,
            1 => PowerLoss::KeepUnsynced,
            2 => PowerLoss::TearLastWrite,
            _ => PowerLoss::Random,
        }
    }

    fn power_cut(&mut self) {
        // Mostly in the middle of something.
        if self.dice.chance(70) {
            self.disk.power_off_at(self.disk.changes() + self.dice.roll(12));
            for _ in 0..20 {
                if self.disk.is_off() {
                    break;
                }
                self.append();
                self.work();
                if self.dice.chance(10) {
                    self.log.request_checkpoint();
                }
                if self.dice.chance(30) {
                    self.log.request_sync();
                }
            }
        }
        let style = self.style();
        let acked = self.acked;
        self.restart(self.disk.power_loss(style), false, acked);
    }

    /// Opens the log on what is left, and checks it: at least everything before `kept` must be there.
    fn restart(&mut self, mut disk: SimDisk, clean: bool, mut kept: i64) {
        if !clean && self.dice.chance(20) {
            // The power fails again during the recovery.
            disk.power_off_at(self.dice.roll(10));
            let args = OpenArgs {
                recovery_point: self.recovery_point,
                log_start: self.log_start_checkpoint,
                clean_shutdown: false,
                now: Timestamp(self.now),
            };
            let fs = Arc::new(disk.clone());
            let _ = Log::open(fs, Path::new(DIR).to_owned(), self.config.clone(), args);
            let style = self.style();
            disk = disk.power_loss(style);
            // What a kill had left in the page cache may be gone now.
            kept = self.acked;
        }
        self.jobs.clear();
        let (rp, ls) = (self.recovery_point, self.log_start_checkpoint);
        self.log = open(&disk, &self.config, rp, ls, clean, self.now);
        if !clean {
            // A second start finds nothing more to do.
            let end = self.log.written();
            let fs = Arc::new(disk.clone());
            let args = OpenArgs {
                recovery_point: rp,
                log_start: ls,
                clean_shutdown: false,
                now: Timestamp(self.now),
            };
            let (log, report) =
                Log::open(fs, Path::new(DIR).to_owned(), self.config.clone(), args).expect("opens");
            assert_eq!(report.cut_bytes, 0, "the second recovery cuts");
            assert_eq!(log.written(), end);
            self.log = log;
        }
        self.engine = disk.engine();
        self.disk = disk;
        let end = self.log.written().0;
        assert!(end >= kept, "acknowledged up to {kept}, but the log ends at {end}");
        assert!(self.log.flushed().0 <= end);
        self.model.split_off(&end);
        self.acked = self.acked.min(end);
        self.check_contents(end);
        self.check_producers();
        self.rebuild_sequences();
    }

    fn check_contents(&mut self, end: i64) {
        let start = self.log.log_start_offset().0;
        let mut next = start;
        while next < end {
            let slice = match self.log.read(Offset(next), 700, Offset(end), true) {
                Ok(slice) => slice,
                Err(ReadError::Cold(cold)) => {
                    cold.warm().expect("warms");
                    continue;
                }
                Err(error) => panic!("read of {next}: {error}"),
            };
            let mut bytes = vec![0; slice.len as usize];
            slice.file.read_at(&mut bytes, slice.pos).expect("reads");
            let mut at = 0;
            let before = next;
            while let Ok(header) = BatchHeader::parse(&bytes[at..]) {
                let Some(batch) = bytes.get(at..at + header.batch_size()) else { break };
                assert!(header.crc_matches(batch), "checksum at {next}");
                let base = header.base_offset.0;
                assert!(base == next || (next == start && base <= start), "hole at {next}");
                let model = self.model.get(&base).copied();
                let model = model.unwrap_or_else(|| panic!("nobody appended a batch at {base}"));
                assert_eq!((model.end, model.crc), (header.next_offset().0, header.crc));
                next = model.end;
                at += header.batch_size();
            }
            assert!(next > before, "the read of {before} makes progress");
        }
        assert_eq!(next, end.max(start));
    }

    /// The last batches of each producer are known when they are resent.
    fn check_producers(&mut self) {
        let mut last: BTreeMap<i64, Vec<(i64, i32, i64)>> = BTreeMap::new();
        let start = self.log.log_start_offset().0;
        for (base, model) in &self.model {
            if let Some((producer, sequence)) = model.producer
                && *base >= start
            {
                last.entry(producer).or_default().push((*base, sequence, model.end));
            }
        }
        let views = self.log.producers();
        for (producer, batches) in last {
            let view = views.iter().find(|view| view.producer_id.0 == producer);
            let view = view.unwrap_or_else(|| panic!("producer {producer} is forgotten"));
            let (base, sequence, end) = batches[batches.len() - 1];
            let last_sequence = sequence + i32::try_from(end - base).expect("small") - 1;
            assert_eq!(view.last_sequence, Some(last_sequence), "of producer {producer}");
        }
    }

    fn rebuild_sequences(&mut self) {
        self.sequences.clear();
        self.open_txns.clear();
        for view in self.log.producers() {
            let next = view.last_sequence.map_or(0, |last| last + 1);
            self.sequences.insert(view.producer_id.0, next);
            if view.transaction_start.is_some() {
                self.open_txns.push(view.producer_id.0);
            }
        }
    }
}

fn run(seed: u64, planted: Planted) {
    let mut world = World::new(seed, planted);
    for _ in 0..150 {
        world.deed();
    }
    world.power_cut();
    world.settle();
    world.clean_stop();
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The first seed that fails, with why.
fn first_failure(seeds: impl Iterator<Item = u64>, planted: Planted) -> Option<(u64, String)> {
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(seed, planted));
        if let Err(panic) = result {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            return Some((seed, text.unwrap_or_default()));
        }
    }
    None
}

#[test]
fn power_loss_takes_nothing_that_was_acknowledged() {
    let seeds = match number("KELDA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KELDA_SEEDS").unwrap_or(300),
    };
    if let Some((seed, why)) = first_failure(seeds, Planted::None) {
        panic!(
            "seed {seed}: {why}\nagain: KELDA_SEED={seed} cargo test -p storage power_loss_takes"
        );
    }
}

#[test]
fn an_answer_before_its_sync_is_found() {
    let found = first_failure(0..200, Planted::AckBeforeSync);
    let (_, why) = found.expect("the planted defect is found");
    assert!(why.contains("acknowledged up to"), "{why}");
}

#[test]
fn seeds_that_found_something_pass() {
    // 1184: a truncation behind data that was on its way to the disk. 3174: segments deleted before they were synced, after
    // which no sync was ever made.
    for seed in [1184, 3174] {
        assert_eq!(first_failure(seed..seed + 1, Planted::None), None);
    }
}
