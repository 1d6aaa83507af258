//! Deletion of old segments: by time, by size, and below the log start.
//!
//! A segment leaves the log at once; its files are renamed to `.deleted` by a job and removed `file.delete.delay.ms`
//! later, as readers outside may still use them. Slices on their way to a socket hold their file open.

use protocol_compat::ids::{Offset, Timestamp};

use super::LogJob;
use super::io::Slot;
use super::jobs::{self, Outcome};
use super::log::Log;
use super::segment::{Index, Segment};

/// Segments that left the log and whose files are still there.
#[derive(Debug, Default)]
pub(super) struct Graveyard {
    /// To be renamed.
    fresh: Vec<Offset>,
    /// Being renamed or removed.
    in_job: Vec<Offset>,
    renaming: bool,
    /// Renamed, with the time to remove them.
    renamed: Vec<(Timestamp, Offset)>,
    /// Whether the active segment was rolled so that it can be deleted.
    rolling: bool,
    delay_ms: i64,
    now: Timestamp,
}

impl Graveyard {
    /// Whether a job is out or could be asked for now, but for the removal of what is renamed: the next start does that too.
    pub(super) fn has_work(&self) -> bool {
        !self.fresh.is_empty() || !self.in_job.is_empty() || self.rolling
    }

    pub(super) fn job_done(&mut self) {
        let bases = std::mem::take(&mut self.in_job);
        if self.renaming {
            let due = Timestamp(self.now.0.saturating_add(self.delay_ms));
            self.renamed.extend(bases.into_iter().map(|base| (due, base)));
        }
    }
}

impl Log {
    /// Starts a retention pass (time, size, log start), to be done by the next jobs. Call every `log.retention.check.interval.ms`.
    pub fn start_retention(&mut self, now: Timestamp) {
        self.now = now;
        self.graveyard.now = now;
        self.graveyard.delay_ms = self.config.file_delete_delay_ms;
        if self.cut.is_some() || self.dead.is_some() {
            return;
        }
        let count = self.deletable(now);
        if count == self.segments.len() {
            // The log keeps an active segment: a new one takes over, and this one goes when that exists.
            self.graveyard.rolling = true;
            self.roll(self.staged, now);
            return;
        }
        self.drop_first(count);
    }

    /// Goes on after the roll that a pass needed.
    pub(super) fn retention_after_roll(&mut self) {
        if std::mem::take(&mut self.graveyard.rolling) {
            self.start_retention(self.now);
        }
    }

    /// How many of the oldest segments may go; Kafka's `deletableSegments`.
    fn deletable(&self, now: Timestamp) -> usize {
        let mut excess = match self.config.retention_bytes {
            Some(limit) if self.config.cleanup_policy.delete => {
                self.size_bytes.saturating_sub(limit)
            }
            _ => 0,
        };
        let last = self.segments.len() - 1;
        let mut count = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            let below_start = at < last && segment.end <= self.log_start;
            let expired = self.config.cleanup_policy.delete && self.is_expired(segment, now);
            let size = u64::from(segment.size);
            let too_much = excess > 0 && size > 0 && excess >= size && at < last;
            let is_free =
                segment.end <= self.high_watermark && segment.end <= self.recovery_bound(at);
            if !is_free || !(below_start || expired || too_much) {
                break;
            }
            if at == last && (segment.size == 0 || !segment.created) {
                break;
            }
            excess = excess.saturating_sub(size);
            count += 1;
        }
        count
    }

    /// A segment goes only once it is sealed; the active one is sealed on the way.
    fn recovery_bound(&self, at: usize) -> Offset {
        match self.segments[at].index {
            Index::Files { .. } => Offset(i64::MAX),
            Index::Memory(_) if at + 1 == self.segments.len() => Offset(i64::MAX),
            Index::Memory(_) => Offset(-1),
        }
    }

    fn is_expired(&self, segment: &Segment, now: Timestamp) -> bool {
        let Some(retention_ms) = self.config.retention_ms else { return false };
        let newest = segment.max_timestamp.map_or(segment.born, |(timestamp, _)| timestamp);
        now.0.saturating_sub(newest.0) > retention_ms
    }

    fn drop_first(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        for segment in self.segments.drain(..count) {
            tracing::info!(
                dir = %self.dir.display(),
                base_offset = segment.base.0,
                end_offset = segment.end.0,
                bytes = segment.written,
                "segment deleted by retention"
            );
            self.size_bytes -= u64::from(segment.written);
            self.snapshots.remove(&segment.base);
            self.graveyard.fresh.push(segment.base);
        }
        let first = self.segments[0].base;
        if first > self.log_start {
            self.log_start = first;
            self.epochs_dirty |= self.epochs.truncate_start(first);
        }
    }

    /// The next job on deleted files.
    pub(super) fn graveyard_job(&mut self) -> Option<LogJob> {
        let now = self.now;
        let graveyard = &mut self.graveyard;
        let (fs, dir) = (self.fs.clone(), self.dir.clone());
        if !graveyard.fresh.is_empty() {
            let bases = std::mem::take(&mut graveyard.fresh);
            graveyard.in_job.clone_from(&bases);
            graveyard.renaming = true;
            return Some(LogJob::new("delete", Slot::Back, move || {
                jobs::mark_deleted(&*fs, &dir, &bases).map(|()| Outcome::Deleted)
            }));
        }
        if graveyard.renamed.first().is_some_and(|(due, _)| *due <= now) {
            let due = graveyard.renamed.partition_point(|(due, _)| *due <= now);
            let bases: Vec<Offset> = graveyard.renamed.drain(..due).map(|(_, base)| base).collect();
            graveyard.in_job.clone_from(&bases);
            graveyard.renaming = false;
            return Some(LogJob::new("remove", Slot::Back, move || {
                jobs::remove_deleted(&*fs, &dir, &bases).map(|()| Outcome::Deleted)
            }));
        }
        None
    }
}
