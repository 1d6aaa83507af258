//! Writes a directory's offset checkpoints, and says which logs should advance their recovery points.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol_compat::ids::{Offset, TopicPartition};

use crate::disk::FileSystem;
use crate::format::names::{
    HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT,
};
use crate::format::offset_checkpoint::{self, OffsetCheckpoint};
use crate::log::{DirectoryFailed, Log};
use crate::small_files;

/// The positions of a log that a restart needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPositions {
    /// Data before this is durable and indexed.
    pub recovery_point: Offset,
    /// Offset before which everything is committed.
    pub high_watermark: Offset,
    /// The log start, where it is above the first segment's base.
    pub log_start: Option<Offset>,
}

/// The offset checkpoints of one directory, for all its partitions, also those that no core has opened.
///
/// Cores note positions at any time; [`Checkpoints::write`] brings them to the disk, about every 5 s for the high
/// watermarks' sake. Older values are safe: a restart scans more, and begins with a lower watermark.
#[derive(Debug)]
pub struct Checkpoints {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    positions: Mutex<BTreeMap<TopicPartition, LogPositions>>,
    /// What the files hold. Its lock is held while they are written, so that an older state never replaces a newer.
    files: Mutex<[Option<Vec<u8>>; 3]>,
}

impl Checkpoints {
    /// Reads the files. One that is missing or not understood counts as empty, which is safe.
    ///
    /// # Errors
    /// A failing disk.
    pub fn read(fs: Arc<dyn FileSystem>, dir: PathBuf) -> Result<Self, DirectoryFailed> {
        let read = |name: &str| -> Result<OffsetCheckpoint, DirectoryFailed> {
            let path = dir.join(name);
            let bytes =
                small_files::read_if_present(&*fs, &path).map_err(|cause| DirectoryFailed {
                    attempt: format!("reading of {}", path.display()),
                    cause: Arc::new(cause),
                })?;
            let Some(bytes) = bytes else { return Ok(OffsetCheckpoint::new()) };
            Ok(offset_checkpoint::parse(&bytes).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), %error, "unreadable checkpoint: taken as empty");
                OffsetCheckpoint::new()
            }))
        };
        let mut positions: BTreeMap<TopicPartition, LogPositions> = BTreeMap::new();
        for (partition, offset) in read(RECOVERY_POINT_CHECKPOINT)? {
            positions.entry(partition).or_default().recovery_point = offset;
        }
        for (partition, offset) in read(HIGH_WATERMARK_CHECKPOINT)? {
            positions.entry(partition).or_default().high_watermark = offset;
        }
        for (partition, offset) in read(LOG_START_CHECKPOINT)? {
            positions.entry(partition).or_default().log_start = Some(offset);
        }
        Ok(Self { fs, dir, positions: Mutex::new(positions), files: Mutex::default() })
    }

    fn positions(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, LogPositions>> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a partition.
    #[must_use]
    pub fn get(&self, partition: &TopicPartition) -> Option<LogPositions> {
        self.positions().get(partition).copied()
    }

    /// Notes the positions of a partition.
    pub fn note(&self, partition: TopicPartition, positions: LogPositions) {
        self.positions().insert(partition, positions);
    }

    /// Forgets a partition that left the directory.
    pub fn forget(&self, partition: &TopicPartition) {
        self.positions().remove(partition);
    }

    /// Writes the files that have changed. Blocks: for a pool thread. Durable on return.
    ///
    /// # Errors
    /// A failing disk.
    pub fn write(&self) -> Result<(), DirectoryFailed> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted =
            [OffsetCheckpoint::new(), OffsetCheckpoint::new(), OffsetCheckpoint::new()];
        for (partition, positions) in &*self.positions() {
            wanted[0].insert(partition.clone(), positions.recovery_point);
            wanted[1].insert(partition.clone(), positions.high_watermark);
            if let Some(log_start) = positions.log_start {
                wanted[2].insert(partition.clone(), log_start);
            }
        }
        // The log starts first: files below one may be gone once it is known.
        for at in [2, 0, 1] {
            let name = [RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT];
            let bytes = offset_checkpoint::encode(&wanted[at]).into_bytes();
            if files[at].as_ref() == Some(&bytes) {
                continue;
            }
            let path = self.dir.join(name[at]);
            small_files::replace(&*self.fs, &path, bytes.clone()).map_err(|cause| {
                DirectoryFailed {
                    attempt: format!("writing of {}", path.display()),
                    cause: Arc::new(cause),
                }
            })?;
            files[at] = Some(bytes);
        }
        Ok(())
    }
}

/// When a log should be checkpointed in the background ([`Log::request_checkpoint`]).
///
/// A restart after a crash verifies what stands above the recovery points, at about 2 GB/s a thread when it is in the page
/// cache. The bound on that is shared by the logs that have something unscanned, so that a restart stays within 0.3 s also
/// with many busy logs. Each checkpoint costs an fdatasync of data and two small files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Bytes that all logs of a core together may leave unscanned.
    pub total_bytes: u64,
    /// No log is checkpointed for less than this...
    pub log_bytes_min: u64,
    /// ... unless so many calls of [`Pace::request`] have passed.
    pub idle_calls: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { total_bytes: 128 << 20, log_bytes_min: 4 << 20, idle_calls: 30 }
    }
}

impl Pace {
    /// Asks the logs of a core for the checkpoints that are due; how many. Call about once a second with a counter of the
    /// calls.
    pub fn request<'a>(&self, call: u32, logs: impl Iterator<Item = &'a mut Log>) -> usize {
        let mut dirty: Vec<&mut Log> = logs.filter(|log| log.unscanned_bytes() > 0).collect();
        let share = self.total_bytes / (dirty.len().max(1) as u64);
        let threshold = share.max(self.log_bytes_min);
        let all = call.is_multiple_of(self.idle_calls.max(1));
        let mut count = 0;
        for log in &mut dirty {
            if all || log.unscanned_bytes() >= threshold {
                log.request_checkpoint();
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::{PowerLoss, SimDisk};
    use protocol_compat::ids::PartitionIndex;

    #[test]
    fn positions_survive_and_unchanged_files_are_left_alone() {
        let disk = SimDisk::new(1);
        disk.create_dir_all("/d".as_ref()).expect("made");
        disk.sync_dir("/".as_ref()).expect("synced");
        let partition =
            |index| TopicPartition { topic: "t".into(), partition: PartitionIndex(index) };
        let checkpoints =
            Checkpoints::read(Arc::new(disk.clone()), "/d".into()).expect("nothing to read");
        let positions = |n| LogPositions {
            recovery_point: Offset(n),
            high_watermark: Offset(n + 1),
            log_start: (n > 5).then_some(Offset(n - 1)),
        };
        checkpoints.note(partition(0), positions(3));
        checkpoints.note(partition(1), positions(9));
        checkpoints.note(partition(2), positions(9));
        checkpoints.forget(&partition(2));
        checkpoints.write().expect("written");
        let changes = disk.changes();
        checkpoints.write().expect("nothing to do");
        assert_eq!(disk.changes(), changes);
        let disk = disk.power_loss(PowerLoss::DropUnsynced);
        let again = Checkpoints::read(Arc::new(disk), "/d".into()).expect("read");
        assert_eq!(again.get(&partition(0)), Some(positions(3)));
        assert_eq!(again.get(&partition(1)), Some(positions(9)));
        assert_eq!(again.get(&partition(2)), None);
    }
}
