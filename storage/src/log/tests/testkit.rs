//! Small verbs for tests: batches, and a shell that carries out what a log asks for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::batch::produce::CheckedBatch;
use protocol_compat::batch::{Attributes, BatchHeader, crc32c};
use protocol_compat::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::disk::FileSystem;
use crate::disk::sim::SimDisk;
use crate::log::{
    Appended, LeaderAppend, Log, LogConfig, LogIo, LogSlice, OpenArgs, RecoveryReport, StageOutcome,
};

/// A batch to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) records: i32,
    /// Bytes of each value.
    pub(super) value_bytes: usize,
    pub(super) timestamp: i64,
    /// Id, epoch, sequence.
    pub(super) producer: Option<(i64, i16, i32)>,
    pub(super) attributes: i16,
    /// Written into each value.
    pub(super) fill: u8,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            records: 1,
            value_bytes: 20,
            timestamp: 1000,
            producer: None,
            attributes: 0,
            fill: 0,
        }
    }
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    loop {
        let byte = (zigzag & 0x7f) as u8;
        zigzag >>= 7;
        if zigzag == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

fn put_record(out: &mut Vec<u8>, offset_delta: i32, key: Option<&[u8]>, value: &[u8]) {
    let mut body = vec![0];
    put_varint(&mut body, 0);
    put_varint(&mut body, i64::from(offset_delta));
    match key {
        Some(key) => {
            put_varint(&mut body, key.len() as i64);
            body.extend(key);
        }
        None => put_varint(&mut body, -1),
    }
    put_varint(&mut body, value.len() as i64);
    body.extend(value);
    put_varint(&mut body, 0);
    put_varint(out, body.len() as i64);
    out.extend(body);
}

fn finish(spec: &Spec, records: &[u8]) -> CheckedBatch {
    let (id, epoch, sequence) = spec.producer.unwrap_or((-1, -1, -1));
    let mut header = BatchHeader {
        base_offset: Offset(0),
        batch_length: i32::try_from(49 + records.len()).expect("small"),
        partition_leader_epoch: LeaderEpoch(-1),
        crc: 0,
        attributes: Attributes(spec.attributes),
        last_offset_delta: spec.records - 1,
        base_timestamp: Timestamp(spec.timestamp),
        max_timestamp: Timestamp(spec.timestamp),
        producer_id: ProducerId(id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: sequence,
        records_count: spec.records,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(records);
    header.crc = crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&header.crc.to_be_bytes());
    CheckedBatch { bytes: Bytes::from(bytes), header, recompress: None }
}

pub(super) fn batch(spec: Spec) -> CheckedBatch {
    let mut records = Vec::new();
    for delta in 0..spec.records {
        put_record(&mut records, delta, None, &vec![spec.fill; spec.value_bytes]);
    }
    finish(&spec, &records)
}

pub(super) fn marker(producer: i64, epoch: i16, aborted: bool, timestamp: i64) -> CheckedBatch {
    let key = [0, 0, 0, u8::from(!aborted)];
    let mut records = Vec::new();
    put_record(&mut records, 0, Some(&key), &[0, 0, 0, 0, 0, 1]);
    let spec = Spec {
        timestamp,
        producer: Some((producer, epoch, -1)),
        attributes: 0x30,
        ..Spec::default()
    };
    finish(&spec, &records)
}

pub(super) const DIR: &str = "/data/t-0";

pub(super) fn args() -> OpenArgs {
    OpenArgs {
        recovery_point: Offset(0),
        log_start: Offset(0),
        clean_shutdown: false,
        now: Timestamp(1000),
    }
}

/// A log with its shell.
pub(super) struct T {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) dir: PathBuf,
    pub(super) config: LogConfig,
    pub(super) log: Log,
    pub(super) report: RecoveryReport,
    pub(super) now: i64,
    /// Names of the jobs that were run.
    pub(super) jobs: Vec<&'static str>,
}

impl T {
    pub(super) fn new(config: LogConfig) -> Self {
        Self::on(SimDisk::new(1), config)
    }

    pub(super) fn on(disk: SimDisk, config: LogConfig) -> Self {
        Self::open(Arc::new(disk), Path::new(DIR), config, args())
    }

    pub(super) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        config: LogConfig,
        args: OpenArgs,
    ) -> Self {
        let (log, report) =
            Log::open(fs.clone(), dir.to_owned(), config.clone(), args).expect("the log opens");
        let dir = dir.to_owned();
        Self { fs, dir, config, log, report, now: args.now.0, jobs: Vec::new() }
    }

    /// Opens the directory again as after a stop or a crash.
    pub(super) fn reopen(self, clean: bool) -> Self {
        let args = OpenArgs {
            recovery_point: self.log.recovery_point(),
            log_start: self.log.log_start_offset(),
            clean_shutdown: clean,
            now: Timestamp(self.now),
        };
        let Self { fs, dir, config, log, .. } = self;
        if clean {
            assert!(log.is_idle(), "stopped in the middle");
            log.close().run().into_result().expect("closes");
        } else {
            drop(log);
        }
        Self::open(fs, &dir, config, args)
    }

    pub(super) fn stage(&mut self, spec: Spec) -> Appended {
        match self.try_stage(spec) {
            Ok(StageOutcome::Appended(appended)) => appended,
            other => panic!("not appended: {other:?}"),
        }
    }

    pub(super) fn try_stage(
        &mut self,
        spec: Spec,
    ) -> Result<StageOutcome, crate::log::AppendError> {
        self.try_stage_batch(batch(spec))
    }

    pub(super) fn try_stage_batch(
        &mut self,
        batch: CheckedBatch,
    ) -> Result<StageOutcome, crate::log::AppendError> {
        let append = LeaderAppend { leader_epoch: LeaderEpoch(0), now: Timestamp(self.now) };
        self.log.stage(batch, append)
    }

    /// Stages, writes, and makes all visible.
    pub(super) fn append(&mut self, spec: Spec) -> Appended {
        let appended = self.stage(spec);
        self.run();
        appended
    }

    pub(super) fn append_batch(&mut self, batch: CheckedBatch) {
        self.try_stage_batch(batch).expect("appended");
        self.run();
    }

    /// Carries out all that the log asks for.
    pub(super) fn run(&mut self) {
        while let Some(io) = self.log.next_io() {
            self.carry_out(io);
        }
        self.log.advance_high_watermark(self.log.written());
    }

    pub(super) fn carry_out(&mut self, io: LogIo) {
        match io {
            LogIo::Write { file, pos, chunks } => {
                let result = file.write_all_at(&chunks, pos);
                self.log.write_done(result).expect("written");
            }
            LogIo::Sync { file } => {
                let result = file.sync_data();
                self.log.sync_done(result).expect("synced");
            }
            LogIo::Job(job) => {
                self.jobs.push(job.name());
                let done = job.run();
                self.log.job_done(done).expect("done");
            }
        }
    }

    /// Reads with a pool at hand for what is cold.
    pub(super) fn read(&mut self, from: i64, max_bytes: u32, end: i64) -> LogSlice {
        loop {
            match self.log.read(Offset(from), max_bytes, Offset(end), true) {
                Ok(slice) => return slice,
                Err(crate::log::ReadError::Cold(cold)) => cold.warm().expect("warms"),
                Err(error) => panic!("read of {from}: {error}"),
            }
        }
    }

    pub(super) fn bytes(slice: &LogSlice) -> Vec<u8> {
        let mut bytes = vec![0; slice.len as usize];
        let count = slice.file.read_at(&mut bytes, slice.pos).expect("reads");
        assert_eq!(count, bytes.len());
        bytes
    }

    /// The whole batches from `from` to `end`, read in steps of `max_bytes`; each is checked.
    pub(super) fn read_all(&mut self, from: i64, end: i64, max_bytes: u32) -> Vec<BatchHeader> {
        let mut headers: Vec<BatchHeader> = Vec::new();
        let mut next = from;
        while next < end {
            let slice = self.read(next, max_bytes, end);
            let bytes = Self::bytes(&slice);
            let mut at = 0;
            let before = next;
            while at < bytes.len() {
                let Ok(header) = BatchHeader::parse(&bytes[at..]) else { break };
                let Some(batch) = bytes.get(at..at + header.batch_size()) else { break };
                assert!(header.crc_matches(batch), "checksum of {header:?}");
                if at == 0 {
                    assert_eq!(slice.first_batch_size as usize, header.batch_size());
                    assert!(header.base_offset.0 <= next && next <= header.last_offset().0);
                } else {
                    assert_eq!(header.base_offset.0, next, "no hole");
                }
                next = header.next_offset().0;
                at += header.batch_size();
                headers.push(header);
            }
            assert!(next > before, "the read of {before} below {end} makes progress");
        }
        headers
    }

    /// Names in the directory.
    pub(super) fn files(&self) -> Vec<String> {
        let entries = self.fs.list(&self.dir).expect("lists");
        entries.into_iter().map(|entry| entry.name).collect()
    }
}
