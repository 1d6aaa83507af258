//! [`Log`]: the positions, and the owner of all other parts.
//!
//! ```text
//! log_start <= last_stable_offset <= high_watermark <= written (log end) <= staged
//!                                          flushed <= written
//!                       recovery_point <= flushed
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol_compat::batch::produce::CheckedBatch;
use protocol_compat::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::{
    AppendError, DirectoryFailed, LogConfig, LogError, LogIo, LogJob, LogJobDone, LogSlice,
    ReadError,
};
use crate::disk::FileSystem;

/// What is known about a log before it is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenArgs {
    /// From the directory's `recovery-point-offset-checkpoint`; 0 when absent.
    pub recovery_point: Offset,
    /// From `log-start-offset-checkpoint`; 0 when absent.
    pub log_start: Offset,
    /// Whether the directory was stopped cleanly ([`crate::dirs::LogDir`]).
    pub clean_shutdown: bool,
    /// The wall clock.
    pub now: Timestamp,
}

/// What opening found and did.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// Whether data was scanned (unclean stop).
    pub scanned: bool,
    /// Bytes whose checksums were verified.
    pub scanned_bytes: u64,
    /// Bytes cut off the end because they were no valid batches.
    pub cut_bytes: u64,
    /// Segments whose indexes were rebuilt.
    pub rebuilt_indexes: u32,
    /// Segments of the log.
    pub segments: u32,
}

/// How the leader appends.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppend {
    /// Epoch of this leader, stamped on the batch.
    pub leader_epoch: LeaderEpoch,
    /// The wall clock: LogAppendTime, rolling by age, producer expiry.
    pub now: Timestamp,
}

/// Where a batch stands in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record. The batch is kept once `written` (or `flushed`) is above it.
    pub last_offset: Offset,
    /// The leader's stamp when the topic has LogAppendTime.
    pub log_append_time: Option<Timestamp>,
    /// First offset of the log, as Produce answers carry it.
    pub log_start_offset: Offset,
}

/// What became of a staged batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StageOutcome {
    /// It was given offsets and will be written.
    Appended(Appended),
    /// One of the producer's last five batches is this one: the answer is that batch's, and waits for
    /// the same position as the original would.
    Duplicate(Appended),
}

/// A search that reads segments; made by [`Log::lookup`], run on a pool thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The first record whose timestamp is at least this.
    AtLeast(Timestamp),
    /// The record with the largest timestamp (ListOffsets -3).
    MaxTimestamp,
}

/// A record found by its timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimestampOffset {
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// Its offset.
    pub offset: Offset,
    /// Epoch of the leader that appended it, where the batch has one.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// A [`Lookup`] over a view of the log that stays right while the log goes on.
#[derive(Debug)]
pub struct LookupJob {
    // Filled in with the segments.
}

impl LookupJob {
    /// Searches. Blocks: for a pool thread.
    ///
    /// # Errors
    /// Corrupt data, or what the disk reports.
    pub fn run(self) -> Result<Option<TimestampOffset>, ReadError> {
        unimplemented!()
    }
}

/// Answer of OffsetForLeaderEpoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// The largest epoch not above the one asked for.
    pub leader_epoch: LeaderEpoch,
    /// Offset after that epoch's last record.
    pub end_offset: Offset,
}

/// An aborted transaction, as Fetch answers list them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction.
    pub first_offset: Offset,
}

/// What DescribeProducers tells of a producer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerView {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
    /// Last sequence appended, if any.
    pub last_sequence: Option<i32>,
    /// Timestamp of its last batch.
    pub last_timestamp: Timestamp,
    /// Coordinator epoch of its last marker, if any.
    pub coordinator_epoch: Option<i32>,
    /// First offset of its open transaction, if one is open.
    pub transaction_start: Option<Offset>,
}

/// One partition's log. Owned by one core at a time (`Send`, no locks).
#[derive(Debug)]
pub struct Log {
    dir: PathBuf,
}

impl Log {
    /// Opens the log in `dir`, making it when there is none, and recovers it after an unclean stop.
    ///
    /// Blocks: for a pool thread. On return all that is readable is in the page cache at least;
    /// `flushed` is where durable data is known to end.
    ///
    /// # Errors
    /// A failing disk, or a log of a format that is not served.
    pub fn open(
        _fs: Arc<dyn FileSystem>,
        _dir: PathBuf,
        _config: LogConfig,
        _args: OpenArgs,
    ) -> Result<(Self, RecoveryReport), LogError> {
        unimplemented!()
    }

    /// The partition's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Replaces the settings; they hold from the next append on.
    pub fn set_config(&mut self, _config: LogConfig) {
        unimplemented!()
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &LogConfig {
        unimplemented!()
    }

    /// First offset that may be read.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Offset before which every transaction is decided, at most the high watermark.
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Offset before which everything is committed.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        unimplemented!()
    }

    /// Offset after the last record that readers can see: Kafka's log end offset.
    #[must_use]
    pub fn written(&self) -> Offset {
        unimplemented!()
    }

    /// Offset after the last record that is durable.
    #[must_use]
    pub fn flushed(&self) -> Offset {
        unimplemented!()
    }

    /// Offset that the next staged batch gets.
    #[must_use]
    pub fn staged(&self) -> Offset {
        unimplemented!()
    }

    /// Offset from which a restart after a crash must scan: for `recovery-point-offset-checkpoint`.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        unimplemented!()
    }

    /// Bytes of all segments, as DescribeLogDirs tells it.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Bytes staged and not yet written.
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        unimplemented!()
    }

    /// Epoch of the last appended batch or of the last [`Log::start_leader_epoch`].
    #[must_use]
    pub fn latest_leader_epoch(&self) -> Option<LeaderEpoch> {
        unimplemented!()
    }

    /// Notes that a leader epoch begins at the log end, as a new leader does before its first append.
    pub fn start_leader_epoch(&mut self, _epoch: LeaderEpoch) {
        unimplemented!()
    }

    /// Appends as the leader: checks the producer, gives offsets, keeps the bytes for the next write.
    ///
    /// Nothing is readable or kept before [`Log::written`] or [`Log::flushed`] pass the last offset.
    ///
    /// # Errors
    /// Nothing is appended then.
    pub fn stage(
        &mut self,
        _batch: CheckedBatch,
        _append: LeaderAppend,
    ) -> Result<StageOutcome, AppendError> {
        unimplemented!()
    }

    /// Appends as a follower: the batch keeps its offsets and leader epoch.
    ///
    /// # Errors
    /// Nothing is appended then.
    pub fn stage_replicated(
        &mut self,
        _batch: CheckedBatch,
        _now: Timestamp,
    ) -> Result<Appended, AppendError> {
        unimplemented!()
    }

    /// Takes the next work for the shell; call until `None`.
    pub fn next_io(&mut self) -> Option<LogIo> {
        unimplemented!()
    }

    /// The write ended. `written` moves to its end.
    ///
    /// # Errors
    /// The write failed: the directory goes offline, this log takes no more work.
    pub fn write_done(&mut self, _result: io::Result<()>) -> Result<(), DirectoryFailed> {
        unimplemented!()
    }

    /// The sync ended. `flushed` moves to what was written when it was taken.
    ///
    /// # Errors
    /// The sync failed: as for [`Log::write_done`].
    pub fn sync_done(&mut self, _result: io::Result<()>) -> Result<(), DirectoryFailed> {
        unimplemented!()
    }

    /// A job ended.
    ///
    /// # Errors
    /// The job failed: as for [`Log::write_done`].
    pub fn job_done(&mut self, _done: LogJobDone) -> Result<(), DirectoryFailed> {
        unimplemented!()
    }

    /// Asks that all that is staged now becomes durable. Requests made while a sync runs share the next.
    pub fn request_sync(&mut self) {
        unimplemented!()
    }

    /// Moves the high watermark forward, at most to `written`; never back.
    pub fn advance_high_watermark(&mut self, _offset: Offset) {
        unimplemented!()
    }

    /// The bytes from the batch that holds `from` up to `end` (an exclusive offset: high watermark, last
    /// stable offset or log end), at most `max_bytes`; with `min_one_batch` the first batch is whole even
    /// when it is larger. Empty when `from` is at or past `end`. Never blocks.
    ///
    /// # Errors
    /// Out of range, cold, corrupt, or a failing disk.
    pub fn read(
        &mut self,
        _from: Offset,
        _max_bytes: u32,
        _end: Offset,
        _min_one_batch: bool,
    ) -> Result<LogSlice, ReadError> {
        unimplemented!()
    }

    /// A search for a record by timestamp below `end`; earliest and latest need none, they are positions.
    #[must_use]
    pub fn lookup(&self, _lookup: Lookup, _end: Offset) -> LookupJob {
        unimplemented!()
    }

    /// Where the records of an epoch end; `None` when nothing at or below it is known.
    #[must_use]
    pub fn offset_for_leader_epoch(&self, _epoch: LeaderEpoch) -> Option<EpochEnd> {
        unimplemented!()
    }

    /// Aborted transactions that have records between `from` and `end`, for Fetch with READ_COMMITTED. Never blocks.
    ///
    /// # Errors
    /// Cold, or a failing disk.
    pub fn aborted_transactions(
        &mut self,
        _from: Offset,
        _end: Offset,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        unimplemented!()
    }

    /// Producers that the log remembers, by id.
    #[must_use]
    pub fn producers(&self) -> Vec<ProducerView> {
        unimplemented!()
    }

    /// Timed work: `flush.ms`, producer expiry, removal of deleted files, closing of idle files. Call about once a second.
    pub fn tick(&mut self, _now: Timestamp) {
        unimplemented!()
    }

    /// Starts a retention pass (time, size, log start), to be done by the next jobs. Call every `log.retention.check.interval.ms`.
    pub fn start_retention(&mut self, _now: Timestamp) {
        unimplemented!()
    }

    /// Moves the log start forward (DeleteRecords); at most to the high watermark, never back.
    /// Returns the log start. Whole segments below it are deleted by the next retention pass.
    pub fn advance_log_start(&mut self, _offset: Offset) -> Offset {
        unimplemented!()
    }

    /// Asks for a checkpoint: data, indexes and producers durable up to what is staged now, after
    /// which [`Log::recovery_point`] stands there. See [`crate::checkpointer`].
    pub fn request_checkpoint(&mut self) {
        unimplemented!()
    }

    /// Bytes that a restart after a crash would have to scan now.
    #[must_use]
    pub fn unscanned_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Cuts everything at and above `offset` (a follower that diverged). Staged data is dropped at once, the files
    /// follow by a job; appends are refused until it is done.
    pub fn truncate_to(&mut self, _offset: Offset) {
        unimplemented!()
    }

    /// Drops everything and starts anew at `offset`, as [`Log::truncate_to`].
    pub fn truncate_fully_and_start_at(&mut self, _offset: Offset) {
        unimplemented!()
    }

    /// Whether nothing is staged, in flight or asked for.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        unimplemented!()
    }

    /// The clean stop of an idle log ([`Log::is_idle`]): indexes trimmed and synced, producers saved at the log
    /// end, data synced. Afterwards the recovery point is the log end.
    #[must_use]
    pub fn close(self) -> LogJob {
        unimplemented!()
    }
}
