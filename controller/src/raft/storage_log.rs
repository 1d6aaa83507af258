//! [`LogPort`] over [`storage::log::Log`]: runs the log's work in place, on the quorum's thread.
//!
//! The log is always opened as after a crash: it is read whole at the start anyway, and snapshots keep it short.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::batch::{BatchHeader, TimestampType, produce::CheckedBatch};
use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};
use storage::disk::FileSystem;
use storage::log::{
    CleanupPolicy, Durability, LeaderAppend, Log, LogConfig, LogIo, OpenArgs, ReadError,
};

use super::batch::BATCH_BYTES_MAX;
use super::log_port::LogPort;
use crate::controller::ControllerConfig;
use crate::error::ControllerError;

/// Bytes of one read of the log at start.
const READ_BYTES: u32 = 4 << 20;
/// Largest segment that the format can index.
const SEGMENT_BYTES_MAX: u64 = 0x7fff_ffff;
/// Least size of a segment: the largest batch must fit into one.
const SEGMENT_BYTES_MIN: u64 = 8 << 20;

/// Opens the metadata log in a directory.
pub(crate) fn open(
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    config: &ControllerConfig,
) -> Result<Box<dyn LogPort>, ControllerError> {
    let log_config = LogConfig {
        segment_bytes: u32::try_from(
            config.log_segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX),
        )
        .unwrap_or(u32::MAX),
        segment_ms: i64::try_from(config.log_segment_ms).unwrap_or(i64::MAX),
        // Only snapshots move the start of this log.
        retention_ms: None,
        retention_bytes: None,
        cleanup_policy: CleanupPolicy { delete: true, compact: false },
        timestamp_type: TimestampType::CreateTime,
        durability: Durability::Fsync,
        ..LogConfig::default()
    };
    let args = OpenArgs {
        recovery_point: Offset(0),
        log_start: Offset(0),
        clean_shutdown: false,
        now: Timestamp(crate::clock::now_ms()),
    };
    let attempt = format!("open the metadata log in {}", dir.display());
    let (log, report) =
        Log::open(fs, dir, log_config, args).map_err(|error| storage_error(&attempt, error))?;
    if report.cut_bytes > 0 {
        tracing::warn!(
            bytes = report.cut_bytes,
            "the end of the metadata log was cut: it was no valid batch"
        );
    }
    Ok(Box::new(StorageLog { log }))
}

#[derive(Debug)]
struct StorageLog {
    log: Log,
}

fn storage_error(attempt: &str, error: impl std::fmt::Display) -> ControllerError {
    ControllerError::Io {
        attempt: attempt.to_owned(),
        source: std::io::Error::other(error.to_string()),
    }
}

impl StorageLog {
    /// Does all work that the log asks for.
    fn drive(&mut self) -> Result<(), ControllerError> {
        while let Some(io) = self.log.next_io() {
            match io {
                LogIo::Write { file, pos, chunks } => {
                    self.log.write_done(file.write_all_at(&chunks, pos))
                }
                LogIo::Sync { file } => self.log.sync_done(file.sync_data()),
                LogIo::Job(job) => self.log.job_done(job.run()),
            }
            .map_err(|error| storage_error("metadata log", error))?;
        }
        Ok(())
    }
}

impl LogPort for StorageLog {
    fn start(&self) -> Offset {
        self.log.log_start_offset()
    }

    fn end(&self) -> Offset {
        self.log.staged()
    }

    fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.log.latest_leader_epoch()
    }

    fn size_bytes(&self) -> u64 {
        self.log.size_bytes()
    }

    fn read(&mut self, from: Offset) -> Result<Bytes, ControllerError> {
        loop {
            let end = self.log.written();
            match self.log.read(from, READ_BYTES, end, true) {
                Ok(slice) => {
                    let whole = slice.len.max(slice.first_batch_size);
                    let length = usize::try_from(whole).unwrap_or(usize::MAX);
                    if length > BATCH_BYTES_MAX {
                        return Err(ControllerError::Corrupt(format!(
                            "the batch at offset {from} has {length} bytes"
                        )));
                    }
                    let mut bytes = vec![0; length];
                    let read = slice
                        .file
                        .read_at(&mut bytes, slice.pos)
                        .map_err(|error| storage_error("read the metadata log", error))?;
                    bytes.truncate(read);
                    return Ok(whole_batches(bytes));
                }
                Err(ReadError::Cold(cold)) => {
                    cold.warm().map_err(|error| storage_error("read the metadata log", error))?;
                }
                Err(error) => return Err(storage_error("read the metadata log", error)),
            }
        }
    }

    fn start_epoch(&mut self, epoch: LeaderEpoch) {
        self.log.start_leader_epoch(epoch);
    }

    fn append(
        &mut self,
        batch: Bytes,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<(), ControllerError> {
        let header = BatchHeader::parse(&batch)
            .map_err(|error| ControllerError::Corrupt(error.to_string()))?;
        let checked = CheckedBatch { bytes: batch, header, recompress: None };
        let append = LeaderAppend { leader_epoch: epoch, now: Timestamp(now_ms) };
        self.log
            .stage(checked, append)
            .map(|_| ())
            .map_err(|error| storage_error("append to the metadata log", error))
    }

    fn write(&mut self) -> Result<(), ControllerError> {
        self.drive()
    }

    fn flush(&mut self) -> Result<(), ControllerError> {
        let target = self.log.staged();
        self.log.request_sync();
        self.drive()?;
        if self.log.flushed() < target {
            return Err(storage_error(
                "flush the metadata log",
                format_args!("durable to {}, and {target} was asked for", self.log.flushed()),
            ));
        }
        self.log.advance_high_watermark(target);
        Ok(())
    }

    fn trim(&mut self, start: Offset, now_ms: i64) -> Result<(), ControllerError> {
        self.log.advance_log_start(start);
        self.log.start_retention(Timestamp(now_ms));
        self.drive()
    }

    fn reset(&mut self, start: Offset) -> Result<(), ControllerError> {
        self.log.truncate_fully_and_start_at(start);
        self.drive()
    }

    fn tick(&mut self, now_ms: i64) -> Result<(), ControllerError> {
        self.log.tick(Timestamp(now_ms));
        self.drive()
    }

    fn close(mut self: Box<Self>) -> Result<(), ControllerError> {
        self.flush()?;
        let closed = self.log.close().run();
        tracing::debug!(?closed, "metadata log closed");
        Ok(())
    }
}

/// Cuts a batch off that the end of the read cut.
fn whole_batches(mut bytes: Vec<u8>) -> Bytes {
    let mut iter = protocol_compat::batch::BatchIter::new(&bytes);
    while iter.by_ref().next().is_some_and(|batch| batch.is_ok()) {}
    let end = iter.position();
    // Bytes that are no batch stay: whoever decodes them says what is wrong.
    if end > 0 {
        bytes.truncate(end);
    }
    bytes.into()
}
