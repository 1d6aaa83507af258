//! [`Log`]: the positions, and the owner of all other parts.
//!
//! ```text
//! log_start <= last_stable_offset <= high_watermark <= written (log end) <= staged
//!                                          flushed <= written
//!                       recovery_point <= flushed
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};

use super::ahead::Ahead;
use super::epochs::Epochs;
use super::load::{self, Cut, Loaded};
use super::producers::Producers;
use super::read::{Boundary, Hints};
use super::retention::Graveyard;
use super::segment::{SavedEntries, Segment, SegmentFiles};
use super::staging::Staging;
use super::{
    AppendError, DirectoryFailed, EpochEnd, LogConfig, LogError, OpenArgs, ProducerView,
    RecoveryReport,
};
use crate::disk::{FileRef, FileSystem};

/// Ticks between looks for idle files.
const IDLE_TICKS: u32 = 120;

/// What holds the place of writes and rolls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Front {
    Idle,
    /// A write: what `written` becomes, and the bytes.
    Write {
        end: Offset,
        segment: Offset,
        bytes: u32,
    },
    /// A roll, a truncation, or the writing of the leader epochs.
    Job,
}

/// A checkpoint that was asked for: the state at `upto`, to be saved once the data is durable.
#[derive(Debug)]
pub(super) struct PendingSave {
    pub(super) segment: Offset,
    pub(super) entries: SavedEntries,
    pub(super) upto: Offset,
    pub(super) mark: u64,
    pub(super) snapshot: Vec<u8>,
    /// Whether the segment is complete with it.
    pub(super) seals: bool,
}

/// One partition's log. Owned by one core at a time (`Send`, no locks).
#[derive(Debug)]
pub struct Log {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) dir: Arc<Path>,
    pub(super) config: LogConfig,
    /// In order; appends go to the last. Those behind [`Self::writing`] have no files yet.
    pub(super) segments: Vec<Segment>,
    /// Base of the segment that is written to, and its file.
    pub(super) writing: (Offset, FileRef),
    pub(super) staging: Staging,
    pub(super) producers: Producers,
    pub(super) epochs: Epochs,
    pub(super) epochs_dirty: bool,
    pub(super) snapshots: BTreeSet<Offset>,

    pub(super) log_start: Offset,
    pub(super) high_watermark: Offset,
    pub(super) written: Offset,
    pub(super) flushed: Offset,
    pub(super) staged: Offset,
    pub(super) recovery_point: Offset,
    /// Bytes of all segments, written.
    pub(super) size_bytes: u64,
    /// Bytes ever staged, and how many of them stood before the recovery point.
    pub(super) staged_total: u64,
    pub(super) recovery_mark: u64,

    pub(super) front: Front,
    /// Position that the sync in flight reaches.
    pub(super) syncing: Option<Offset>,
    /// The least and the greatest position asked to be durable and not yet so.
    pub(super) sync_wanted: Option<(Offset, Offset)>,
    pub(super) background_busy: bool,
    pub(super) ahead: Ahead,
    pub(super) saves: VecDeque<PendingSave>,
    pub(super) checkpoint_wanted: bool,
    pub(super) graveyard: Graveyard,
    pub(super) cut: Option<Cut>,
    pub(super) dead: Option<DirectoryFailed>,

    /// Where batches above the high watermark begin.
    pub(super) boundaries: VecDeque<Boundary>,
    pub(super) hints: Hints,
    /// Records since the last sync was asked for, for `flush.messages`.
    pub(super) unflushed_records: u64,
    /// When the oldest unsynced data was staged, for `flush.ms`.
    pub(super) unflushed_since: Option<Timestamp>,
    pub(super) now: Timestamp,
    ticks: u32,
}

impl Log {
    /// Opens the log in `dir`, making it when there is none, and recovers it after an unclean stop.
    ///
    /// Blocks: for a pool thread. On return all that is readable is in the page cache at least;
    /// `flushed` is where durable data is known to end, and the log asks by itself for the sync of the rest.
    ///
    /// # Errors
    /// A failing disk, or a log of a format that is not served.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        config: LogConfig,
        args: OpenArgs,
    ) -> Result<(Self, RecoveryReport), LogError> {
        let dir: Arc<Path> = dir.into();
        let loaded = load::load(fs.clone(), dir.clone(), &config, args)?;
        let report = loaded.report.clone();
        Ok((Self::with(fs, dir, config, loaded, args.now)?, report))
    }

    fn with(
        fs: Arc<dyn FileSystem>,
        dir: Arc<Path>,
        config: LogConfig,
        loaded: Loaded,
        now: Timestamp,
    ) -> Result<Self, DirectoryFailed> {
        let active = loaded.segments.last().expect("a log has a segment");
        let writing = (active.base, open_active(active)?);
        let end = active.end;
        let durable = loaded.recovery_point;
        Ok(Self {
            fs,
            dir,
            config,
            size_bytes: loaded.segments.iter().map(|segment| u64::from(segment.size)).sum(),
            segments: loaded.segments,
            writing,
            staging: Staging::default(),
            producers: loaded.producers,
            epochs: loaded.epochs,
            epochs_dirty: loaded.epochs_dirty,
            snapshots: loaded.snapshots,
            log_start: loaded.log_start,
            high_watermark: loaded.log_start,
            written: end,
            flushed: durable,
            staged: end,
            recovery_point: durable,
            staged_total: loaded.unscanned_bytes,
            recovery_mark: 0,
            front: Front::Idle,
            syncing: None,
            sync_wanted: (durable < end).then_some((durable, end)),
            background_busy: false,
            ahead: Ahead::default(),
            saves: VecDeque::new(),
            checkpoint_wanted: false,
            graveyard: Graveyard::default(),
            cut: None,
            dead: None,
            boundaries: VecDeque::new(),
            hints: Hints::default(),
            unflushed_records: 0,
            unflushed_since: None,
            now,
            ticks: 0,
        })
    }

    /// Takes over what a truncation left.
    pub(super) fn reload(&mut self, loaded: Loaded) -> Result<(), DirectoryFailed> {
        let high_watermark = self.high_watermark;
        let (fs, dir) = (self.fs.clone(), self.dir.clone());
        let graveyard = std::mem::take(&mut self.graveyard);
        let new = Self::with(fs, dir, self.config.clone(), loaded, self.now)?;
        *self = new;
        self.graveyard = graveyard;
        self.high_watermark = high_watermark.clamp(self.log_start, self.written);
        Ok(())
    }

    /// The partition's directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Replaces the settings; they hold from the next append on.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// First offset that may be read.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.log_start
    }

    /// Offset at which the first segment begins; below the log start after DeleteRecords.
    #[must_use]
    pub fn first_segment_offset(&self) -> Offset {
        self.segments.first().map_or(self.log_start, |segment| segment.base)
    }

    /// Offset before which every transaction is decided, at most the high watermark.
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        let unstable = self.producers.first_unstable().unwrap_or(self.high_watermark);
        unstable.min(self.high_watermark).max(self.log_start)
    }

    /// Offset before which everything is committed.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Offset after the last record that readers can see: Kafka's log end offset.
    #[must_use]
    pub fn written(&self) -> Offset {
        self.written
    }

    /// Offset after the last record that is durable.
    #[must_use]
    pub fn flushed(&self) -> Offset {
        self.flushed
    }

    /// Offset that the next staged batch gets.
    #[must_use]
    pub fn staged(&self) -> Offset {
        self.staged
    }

    /// Offset from which a restart after a crash must scan: for `recovery-point-offset-checkpoint`.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// Bytes of all segments, as DescribeLogDirs tells it.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Bytes staged and not yet written.
    #[must_use]
    pub fn staged_bytes(&self) -> usize {
        let writing = match self.front {
            Front::Write { bytes, .. } => bytes as usize,
            Front::Idle | Front::Job => 0,
        };
        self.staging.bytes() + writing
    }

    /// Epoch of the last appended batch or of the last [`Log::start_leader_epoch`].
    #[must_use]
    pub fn latest_leader_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.latest()
    }

    /// Notes that a leader epoch begins at the log end, as a new leader does before its first append.
    pub fn start_leader_epoch(&mut self, epoch: LeaderEpoch) {
        self.epochs_dirty |= self.epochs.assign(epoch, self.staged);
    }

    /// Where the records of an epoch end; `None` when the epoch is above all that are known, or none is.
    #[must_use]
    pub fn offset_for_leader_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        self.epochs.end_of(epoch, self.written)
    }

    /// Epoch of the record at `offset`, as ListOffsets answers it.
    #[must_use]
    pub fn leader_epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.epoch_at(offset)
    }

    /// Producers that the log remembers, by id.
    #[must_use]
    pub fn producers(&self) -> Vec<ProducerView> {
        self.producers.views()
    }

    /// Moves the high watermark forward, at most to `written`; never back.
    pub fn advance_high_watermark(&mut self, offset: Offset) {
        let offset = offset.min(self.written);
        if offset <= self.high_watermark {
            return;
        }
        self.high_watermark = offset;
        self.producers.high_watermark_moved(offset);
        while self.boundaries.front().is_some_and(|boundary| boundary.offset < offset) {
            self.boundaries.pop_front();
        }
    }

    /// Moves the log start forward (DeleteRecords); at most to the high watermark, never back.
    /// Returns the log start. Whole segments below it are deleted by the next retention pass.
    pub fn advance_log_start(&mut self, offset: Offset) -> Offset {
        let offset = offset.min(self.high_watermark);
        if offset > self.log_start {
            self.log_start = offset;
            self.epochs_dirty |= self.epochs.truncate_start(offset);
        }
        self.log_start
    }

    /// Timed work: `flush.ms`, producer expiry, removal of deleted files, closing of idle files. Call about once a second.
    pub fn tick(&mut self, now: Timestamp) {
        self.now = now;
        if let (Some(flush_ms), Some(since)) = (self.config.flush_ms, self.unflushed_since)
            && now.0.saturating_sub(since.0) >= flush_ms
        {
            self.request_sync();
        }
        self.producers.expire(now, self.config.producer_id_expiration_ms);
        self.ticks += 1;
        if self.ticks >= IDLE_TICKS {
            self.ticks = 0;
            if self.front == Front::Idle {
                self.staging.shrink();
            }
            let sealed = self.segments.len().saturating_sub(1);
            for segment in &self.segments[..sealed] {
                if segment.base < self.writing.0 {
                    segment.files.close_if_idle();
                }
            }
        }
    }

    /// Bytes that a restart after a crash would have to scan now.
    #[must_use]
    pub fn unscanned_bytes(&self) -> u64 {
        (self.staged_total - self.staged_bytes() as u64).saturating_sub(self.recovery_mark)
    }

    /// Cuts everything at and above `offset` (a follower that diverged). Staged data is dropped at once, the files
    /// follow by a job; appends are refused until it is done.
    pub fn truncate_to(&mut self, offset: Offset) {
        if offset < self.staged {
            self.start_cut(Cut::To(offset.max(self.log_start)));
        }
    }

    /// Drops everything and starts anew at `offset`, as [`Log::truncate_to`].
    pub fn truncate_fully_and_start_at(&mut self, offset: Offset) {
        self.start_cut(Cut::StartAt(offset));
    }

    fn start_cut(&mut self, cut: Cut) {
        let offset = match cut {
            Cut::To(offset) | Cut::StartAt(offset) => offset,
        };
        self.staging.clear();
        self.saves.clear();
        self.checkpoint_wanted = false;
        self.sync_wanted = None;
        self.boundaries.clear();
        self.hints = Hints::default();
        self.high_watermark = self.high_watermark.min(offset).max(self.log_start);
        self.cut = Some(cut);
    }

    /// The refusal that appends get now, if any.
    pub(super) fn refusal(&self) -> Option<AppendError> {
        if let Some(error) = &self.dead {
            return Some(AppendError::Directory(error.clone()));
        }
        self.cut.is_some().then_some(AppendError::Busy)
    }

    pub(super) fn new_segment(&self, base: Offset, now: Timestamp) -> Segment {
        let files = SegmentFiles::new(self.fs.clone(), self.dir.clone(), base);
        let mut segment = Segment::new(files, now);
        // Spreads the rolls of partitions that began together; the same on every replica and every run.
        if self.config.segment_jitter_ms > 0 {
            let seed = base.0.wrapping_add(now.0).wrapping_mul(0x5851_f42d_4c95_7f2d) >> 17;
            segment.jitter_ms = seed.rem_euclid(self.config.segment_jitter_ms);
        }
        segment
    }

    /// Number of the segment with this base.
    pub(super) fn segment_index(&self, base: Offset) -> Option<usize> {
        self.segments.binary_search_by_key(&base, |segment| segment.base).ok()
    }

    pub(super) fn segment_mut(&mut self, base: Offset) -> Option<&mut Segment> {
        self.segment_index(base).map(|at| &mut self.segments[at])
    }
}

/// The open file of the active segment.
pub(super) fn open_active(segment: &Segment) -> Result<FileRef, DirectoryFailed> {
    segment.files.open_log().map_err(|cause| {
        super::jobs::failed(
            "opening of",
            &segment.files.path(crate::format::names::LOG_SUFFIX),
            cause,
        )
    })
}
