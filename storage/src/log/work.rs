//! What [`Log`] asks its shell to do, and what it makes of the ends of it.

use std::io;

use protocol_compat::ids::Offset;

use super::ahead::STEP_MAX;
use super::io::Slot;
use super::jobs::{self, Outcome, Save, SavedUpTo, failed};
use super::load;
use super::log::{Front, Log, PendingSave};
use super::segment::Index;
use super::{DirectoryFailed, LogIo, LogJob, LogJobDone, OpenArgs};
use crate::disk::FileRef;
use crate::format::names::LOG_SUFFIX;
use crate::format::producer_snapshot;

impl Log {
    /// Takes the next work for the shell; call until `None`.
    pub fn next_io(&mut self) -> Option<LogIo> {
        if self.dead.is_some() {
            return None;
        }
        if self.cut.is_some() {
            return self.next_cut();
        }
        self.next_front()
            .or_else(|| self.next_sync())
            .or_else(|| self.next_background())
            .or_else(|| self.next_ahead())
    }

    fn next_front(&mut self) -> Option<LogIo> {
        if self.front != Front::Idle {
            return None;
        }
        if self.epochs_dirty {
            // Before the first write of an epoch: where it begins must be known once its records are.
            self.epochs_dirty = false;
            self.front = Front::Job;
            let (fs, dir, file) = (self.fs.clone(), self.dir.clone(), self.epochs.file());
            return Some(LogIo::Job(LogJob::new("epochs", Slot::Front, move || {
                jobs::save_epochs(&*fs, &dir, file).map(|()| Outcome::EpochsSaved)
            })));
        }
        if self.staging.next_segment() == Some(self.writing.0) {
            let unit = self.staging.pop()?;
            self.front = Front::Write {
                end: unit.end,
                segment: unit.segment,
                bytes: u32::try_from(unit.bytes).unwrap_or(u32::MAX),
            };
            return Some(LogIo::Write {
                file: self.writing.1.clone(),
                pos: u64::from(unit.position),
                chunks: unit.chunks,
            });
        }
        let next = self.segments.iter().rev().take_while(|segment| !segment.created).last()?;
        let files = next.files.clone();
        self.front = Front::Job;
        // What filled a segment will fill the next.
        let last = self.segment_index(self.writing.0).map_or(0, |at| self.segments[at].reserved);
        let reserve = last.min(STEP_MAX).min(u64::from(self.config.segment_bytes));
        Some(LogIo::Job(LogJob::new("roll", Slot::Front, move || jobs::roll(&files, reserve))))
    }

    fn next_sync(&mut self) -> Option<LogIo> {
        let (low, _) = self.sync_wanted?;
        if self.syncing.is_some() || self.written <= self.flushed || self.written < low {
            return None;
        }
        let (target, file) = self.oldest_unsynced()?;
        self.syncing = Some(target);
        Some(LogIo::Sync { file })
    }

    /// The file that holds the first data which is not durable, and up to where a sync of it reaches.
    fn oldest_unsynced(&mut self) -> Option<(Offset, FileRef)> {
        let at = self.segments.partition_point(|segment| segment.base <= self.flushed);
        // Segments may have been deleted before they were synced: then the first one that is left.
        let segment = &self.segments[at.saturating_sub(1)];
        if segment.base == self.writing.0 {
            return Some((self.written, self.writing.1.clone()));
        }
        // Open since it was written or verified, except where a sync comes minutes later.
        match segment.files.open_log() {
            Ok(file) => Some((segment.end, file)),
            Err(cause) => {
                let error = failed("opening of", &segment.files.path(LOG_SUFFIX), cause);
                self.die(error);
                None
            }
        }
    }

    fn next_background(&mut self) -> Option<LogIo> {
        if self.background_busy {
            return None;
        }
        let job = match self.saves.front() {
            Some(save) if save.upto <= self.flushed && !(save.seals && self.ahead.busy) => {
                let save = self.saves.pop_front()?;
                self.save_job(save)
            }
            _ => self.graveyard_job(),
        }?;
        self.background_busy = true;
        Some(LogIo::Job(job))
    }

    fn save_job(&self, save: PendingSave) -> Option<LogJob> {
        let segment = &self.segments[self.segment_index(save.segment)?];
        let index = segment.memory()?;
        let old_snapshots = self.needless_snapshots(save.upto);
        let name = if save.seals { "seal" } else { "checkpoint" };
        let is_new = !self.snapshots.contains(&save.upto);
        let work = Save {
            files: segment.files.clone(),
            index: index.bytes(index.saved, save.entries),
            snapshot: is_new.then_some((save.upto, save.snapshot)),
            old_snapshots,
            release: (save.seals && segment.overallocated).then_some(u64::from(segment.size)),
            upto: SavedUpTo {
                segment: save.segment,
                entries: save.entries,
                upto: save.upto,
                mark: save.mark,
                sealed: save.seals,
                snapshot: is_new.then_some(save.upto),
            },
        };
        Some(LogJob::new(name, Slot::Back, move || work.run()))
    }

    /// Snapshots before `upto` that stand at no segment's base: those of earlier checkpoints.
    fn needless_snapshots(&self, upto: Offset) -> Vec<Offset> {
        self.snapshots
            .range(..upto)
            .copied()
            .filter(|offset| self.segment_index(*offset).is_none())
            .collect()
    }

    fn next_cut(&mut self) -> Option<LogIo> {
        let busy = self.syncing.is_some() || self.background_busy || self.ahead.busy;
        if self.front != Front::Idle || busy {
            return None;
        }
        // Stays set without its content until the job has ended, so that appends are refused.
        let cut = std::mem::replace(self.cut.as_mut()?, load::Cut::To(self.staged));
        self.front = Front::Job;
        let (fs, dir, config) = (self.fs.clone(), self.dir.to_path_buf(), self.config.clone());
        let args = OpenArgs {
            recovery_point: self.recovery_point,
            log_start: self.log_start,
            clean_shutdown: false,
            now: self.now,
        };
        Some(LogIo::Job(LogJob::new("truncate", Slot::Front, move || {
            load::truncate(fs, dir, &config, args, cut)
                .map(|loaded| Outcome::Reloaded(Box::new(loaded)))
        })))
    }

    /// The write ended. `written` moves to its end.
    ///
    /// # Errors
    /// The write failed: the directory goes offline, this log takes no more work.
    pub fn write_done(&mut self, result: io::Result<()>) -> Result<(), DirectoryFailed> {
        let front = std::mem::replace(&mut self.front, Front::Idle);
        let Front::Write { end, segment, bytes } = front else {
            debug_assert!(false, "no write was out");
            return Ok(());
        };
        if let Err(cause) = result {
            let path = self.dir.join(crate::format::names::file_name(segment, LOG_SUFFIX));
            return Err(self.die(failed("write to", &path, cause)));
        }
        self.written = end;
        self.size_bytes += u64::from(bytes);
        if let Some(segment) = self.segment_mut(segment) {
            segment.written += bytes;
        }
        Ok(())
    }

    /// The sync ended. `flushed` moves to what was written when it was taken.
    ///
    /// # Errors
    /// The sync failed: as for [`Log::write_done`].
    pub fn sync_done(&mut self, result: io::Result<()>) -> Result<(), DirectoryFailed> {
        let Some(target) = self.syncing.take() else {
            debug_assert!(false, "no sync was out");
            return Ok(());
        };
        if let Err(cause) = result {
            let path = self.dir.clone();
            return Err(self.die(failed("sync of data in", &path, cause)));
        }
        self.flushed = self.flushed.max(target);
        if let Some((low, high)) = self.sync_wanted {
            self.sync_wanted = (high > self.flushed)
                .then(|| (low.max(Offset(self.flushed.0 + 1)).min(high), high));
        }
        self.unflushed_since = (self.flushed < self.staged).then_some(self.now);
        Ok(())
    }

    /// A job ended.
    ///
    /// # Errors
    /// The job failed: as for [`Log::write_done`].
    pub fn job_done(&mut self, done: LogJobDone) -> Result<(), DirectoryFailed> {
        match done.slot {
            Slot::Front => self.front = Front::Idle,
            Slot::Back => self.background_busy = false,
            Slot::Ahead => self.ahead.busy = false,
        }
        let outcome = done.result.map_err(|error| self.die(error))?;
        match outcome {
            Outcome::Reserved(taken) => self.ahead.refused |= !taken,
            Outcome::Rolled(file, reserved) => {
                let first = self.segments.partition_point(|segment| segment.created);
                if let Some(segment) = self.segments.get_mut(first) {
                    segment.created = true;
                    segment.reserved = reserved;
                    segment.overallocated = reserved > 0;
                    self.writing = (segment.base, file);
                }
                self.retention_after_roll();
            }
            Outcome::Saved(saved) => self.saved(saved),
            Outcome::Deleted => self.graveyard.job_done(),
            Outcome::EpochsSaved => {}
            Outcome::Reloaded(loaded) => {
                self.cut = None;
                self.reload(*loaded).map_err(|error| self.die(error))?;
            }
        }
        Ok(())
    }

    fn saved(&mut self, saved: SavedUpTo) {
        for offset in self.needless_snapshots(saved.upto) {
            self.snapshots.remove(&offset);
        }
        self.snapshots.extend(saved.snapshot);
        if let Some(segment) = self.segment_mut(saved.segment) {
            if saved.sealed {
                segment.index = Index::Files {
                    points: u32::try_from(saved.entries.points).unwrap_or(u32::MAX),
                    aborted: u32::try_from(saved.entries.aborted).unwrap_or(u32::MAX),
                };
            } else if let Some(index) = segment.memory_mut() {
                index.saved = saved.entries;
            }
        }
        if saved.upto > self.recovery_point {
            self.recovery_point = saved.upto;
            self.recovery_mark = saved.mark;
        }
    }

    /// Asks that all that is staged now becomes durable. Requests made while a sync runs share the next.
    pub fn request_sync(&mut self) {
        self.unflushed_records = 0;
        self.want_sync(self.staged);
    }

    pub(super) fn want_sync(&mut self, upto: Offset) {
        if upto <= self.flushed || self.syncing.is_some_and(|target| target >= upto) {
            return;
        }
        self.sync_wanted = Some(match self.sync_wanted {
            Some((low, high)) => (low, high.max(upto)),
            None => (upto, upto),
        });
    }

    /// Asks for a checkpoint: data, indexes and producers durable up to what is staged now, after
    /// which [`Log::recovery_point`] stands there. See [`crate::checkpointer`].
    pub fn request_checkpoint(&mut self) {
        if self.cut.is_some()
            || self.staged <= self.recovery_point
            || self.saves.iter().any(|save| save.upto == self.staged || !save.seals)
        {
            return;
        }
        let active = self.segments.last().expect("a log has a segment");
        let entries = active.memory().map(|index| index.counts()).unwrap_or_default();
        self.saves.push_back(PendingSave {
            segment: active.base,
            entries,
            upto: self.staged,
            mark: self.staged_total,
            snapshot: producer_snapshot::encode(&self.producers.snapshot()),
            seals: false,
        });
        self.want_sync(self.staged);
    }

    /// Whether nothing is staged, in flight or asked for.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let in_flight = self.front != Front::Idle
            || self.syncing.is_some()
            || self.background_busy
            || self.ahead.busy;
        let asked = self.cut.is_some()
            || self.epochs_dirty
            || !self.staging.is_empty()
            || self.sync_wanted.is_some()
            || !self.saves.is_empty()
            || self.graveyard.has_work()
            || self.segments.last().is_some_and(|segment| !segment.created);
        !in_flight && (self.dead.is_some() || !asked)
    }

    /// The clean stop of an idle log ([`Log::is_idle`]): indexes trimmed and synced, producers saved at the log
    /// end, data synced. Afterwards the recovery point is the log end.
    ///
    /// What the job gives is asked by [`LogJobDone::into_result`], as there is no log any more to hand it to.
    #[must_use]
    pub fn close(mut self) -> LogJob {
        debug_assert!(self.is_idle(), "a log is closed when it is idle");
        LogJob::new("close", Slot::Front, move || {
            if let Some(error) = self.dead.take() {
                return Err(error);
            }
            if self.epochs_dirty {
                jobs::save_epochs(&*self.fs, &self.dir, self.epochs.file())?;
            }
            for segment in self.segments.iter().filter(|segment| segment.end > self.flushed) {
                let path = segment.files.path(LOG_SUFFIX);
                let sync = || segment.files.open_log()?.sync_data();
                sync().map_err(|cause| failed("sync of", &path, cause))?;
            }
            let old_snapshots = self.needless_snapshots(self.staged);
            let active = self.segments.last_mut().expect("a log has a segment");
            active.add_last_time();
            let (entries, index) = match active.memory() {
                Some(index) => (index.counts(), index.bytes(index.saved, index.counts())),
                None => return Ok(Outcome::EpochsSaved),
            };
            // As Kafka: no snapshot of a log that never held a record.
            let is_new = self.staged.0 > 0 && !self.snapshots.contains(&self.staged);
            let bytes = producer_snapshot::encode(&self.producers.snapshot());
            let snapshot = is_new.then_some((self.staged, bytes));
            Save {
                files: active.files.clone(),
                index,
                old_snapshots,
                release: active.overallocated.then_some(u64::from(active.size)),
                upto: SavedUpTo {
                    segment: active.base,
                    entries,
                    upto: self.staged,
                    mark: 0,
                    sealed: true,
                    snapshot: None,
                },
                snapshot,
            }
            .run()
        })
    }

    /// Takes no more work: the directory failed.
    fn die(&mut self, error: DirectoryFailed) -> DirectoryFailed {
        self.staging.clear();
        self.sync_wanted = None;
        self.saves.clear();
        self.dead.get_or_insert(error).clone()
    }
}
