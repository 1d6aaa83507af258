//! Log directories: lock, identity, clean-shutdown file, partitions, offset checkpoints.
//!
//! A [`LogDir`] is shared by all cores and the pool. Everything that touches the disk blocks, and is for start, stop and pool
//! threads; the rest takes a lock for a moment.
//!
//! ```text
//! open: lock, identity, was the last stop clean?, remove that mark | ... serve ... | close: checkpoints, mark, unlock
//! ```
//!
//! Once a call of the disk failed in a directory it is offline: [`LogDir::fail`] notes the first failure, nothing is retried.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use protocol_compat::ids::{
    DirectoryId, Offset, PartitionIndex, Timestamp, TopicId, TopicPartition, Uuid,
};

use crate::checkpointer::{Checkpoints, LogPositions};
use crate::disk::FileSystem;
use crate::format::meta_properties::MetaProperties;
use crate::format::names::{self, PartitionDirKind, PartitionDirName};
use crate::format::{clean_shutdown, partition_metadata};
use crate::log::{DirectoryFailed, Log, LogConfig, LogError, OpenArgs, RecoveryReport};
use crate::small_files;

/// A log directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DirError {
    /// The disk failed.
    #[error("{0}")]
    Disk(#[from] DirectoryFailed),
    /// Another process uses it.
    #[error("{path} is in use by another process")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// It has no `meta.properties`: it was never formatted.
    #[error("{path} is not formatted: it has no meta.properties")]
    NotFormatted {
        /// The directory.
        path: PathBuf,
    },
    /// It has files but no `meta.properties`, so that it must not be formatted.
    #[error("{path} has no meta.properties but holds `{found}`: it is not formatted over")]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// Something in it.
        found: String,
    },
    /// `meta.properties` cannot be understood.
    #[error("{path}: {reason}")]
    BadIdentity {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A partition found in a log directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundPartition {
    /// Topic and index; of deleted and stray ones the topic may be cut.
    pub partition: TopicPartition,
    /// What its directory's name says of it.
    pub kind: PartitionDirKind,
    /// From its `partition.metadata`, where there is one.
    pub topic_id: Option<TopicId>,
    /// Its directory.
    pub path: PathBuf,
}

/// A log directory in use by this process.
#[derive(Debug)]
pub struct LogDir {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    identity: MetaProperties,
    id: DirectoryId,
    was_clean: bool,
    previous_broker_epoch: Option<i64>,
    checkpoints: Checkpoints,
    state: Mutex<State>,
    failure: OnceLock<DirectoryFailed>,
    lock: Mutex<Option<Lock>>,
}

#[derive(Debug, Default)]
struct State {
    /// Logs that were opened and not closed since: a start after a crash must recover them.
    open: BTreeSet<TopicPartition>,
    /// Logs that this process closed.
    closed: BTreeSet<TopicPartition>,
}

struct Lock {
    _guard: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lock")
    }
}

fn failed(what: &str, path: &Path, cause: io::Error) -> DirectoryFailed {
    DirectoryFailed { attempt: format!("{what} {}", path.display()), cause: Arc::new(cause) }
}

impl LogDir {
    /// The identity in a directory; `None` when the directory is absent or empty, and may be formatted.
    ///
    /// # Errors
    /// A directory with other content, an identity that is not understood, or a failing disk.
    pub fn read_identity(
        fs: &dyn FileSystem,
        path: &Path,
    ) -> Result<Option<MetaProperties>, DirError> {
        let file = path.join(names::META_PROPERTIES);
        let bytes = small_files::read_if_present(fs, &file)
            .map_err(|cause| failed("reading of", &file, cause))?;
        if let Some(bytes) = bytes {
            return match MetaProperties::parse(&bytes) {
                Ok(identity) => Ok(Some(identity)),
                Err(error) => Err(DirError::BadIdentity { path: file, reason: error.0 }),
            };
        }
        let entries = match fs.list(path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(failed("listing of", path, cause).into()),
        };
        // A file system's own directory, or what an interrupted formatting left, is as good as empty.
        let known = |name: &str| {
            name == "lost+found"
                || name == names::LOCK
                || name.strip_suffix(names::TMP_SUFFIX) == Some(names::META_PROPERTIES)
        };
        match entries.into_iter().find(|entry| !known(&entry.name)) {
            None => Ok(None),
            Some(entry) => Err(DirError::NotEmpty { path: path.to_owned(), found: entry.name }),
        }
    }

    /// Gives a directory its identity, making it when it is absent. Durable on return.
    ///
    /// # Errors
    /// A failing disk.
    pub fn format(
        fs: &dyn FileSystem,
        path: &Path,
        identity: &MetaProperties,
    ) -> Result<(), DirectoryFailed> {
        let write = || {
            small_files::create_dir(fs, path)?;
            let file = path.join(names::META_PROPERTIES);
            small_files::replace(fs, &file, identity.encode().into_bytes())
        };
        write().map_err(|cause| failed("formatting of", path, cause))
    }

    /// Takes a formatted directory into use.
    ///
    /// Whether it belongs to this node and cluster is for the caller to see from [`LogDir::identity`], before it changes
    /// anything. A directory of Kafka before 3.7 has no id: `new_id` becomes it.
    ///
    /// # Errors
    /// In use, not formatted, or a failing disk.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        path: PathBuf,
        new_id: DirectoryId,
    ) -> Result<Self, DirError> {
        let Some(mut identity) = Self::read_identity(&*fs, &path)? else {
            return Err(DirError::NotFormatted { path });
        };
        let lock_path = path.join(names::LOCK);
        let lock = fs.lock(&lock_path).map_err(|cause| {
            if cause.kind() == io::ErrorKind::WouldBlock {
                DirError::Locked { path: path.clone() }
            } else {
                failed("locking of", &lock_path, cause).into()
            }
        })?;
        let id = match identity.directory_id {
            Some(id) => id,
            None => {
                identity.directory_id = Some(new_id);
                Self::format(&*fs, &path, &identity)?;
                new_id
            }
        };
        let mark_path = path.join(names::CLEAN_SHUTDOWN);
        let mark = small_files::read_if_present(&*fs, &mark_path)
            .map_err(|cause| failed("reading of", &mark_path, cause))?;
        let mut was_clean = false;
        let mut previous_broker_epoch = None;
        match mark.as_deref().map(clean_shutdown::parse) {
            None => {}
            Some(Ok(epoch)) => {
                was_clean = true;
                previous_broker_epoch = epoch;
            }
            Some(Err(error)) => {
                tracing::warn!(path = %mark_path.display(), %error, "taken as an unclean stop");
            }
        }
        if mark.is_some() {
            // Before anything changes: a crash from here on must be seen.
            let remove = || {
                fs.remove_file(&mark_path)?;
                fs.sync_dir(&path)
            };
            remove().map_err(|cause| failed("removal of", &mark_path, cause))?;
        }
        if !was_clean {
            // A process that was killed may have made partitions whose names are not durable yet.
            fs.sync_dir(&path).map_err(|cause| failed("sync of", &path, cause))?;
        }
        let checkpoints = Checkpoints::read(fs.clone(), path.clone())?;
        Ok(Self {
            fs,
            path,
            identity,
            id,
            was_clean,
            previous_broker_epoch,
            checkpoints,
            state: Mutex::default(),
            failure: OnceLock::new(),
            lock: Mutex::new(Some(Lock { _guard: lock })),
        })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it is.
    #[must_use]
    pub fn identity(&self) -> &MetaProperties {
        &self.identity
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> DirectoryId {
        self.id
    }

    /// Whether the last process that used it stopped cleanly.
    #[must_use]
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// The broker epoch that the last process had when it stopped cleanly, if it told.
    #[must_use]
    pub fn previous_broker_epoch(&self) -> Option<i64> {
        self.previous_broker_epoch.filter(|epoch| *epoch >= 0)
    }

    /// The files of positions.
    #[must_use]
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Notes that the disk failed; the first failure is kept. Whether this was the first.
    pub fn fail(&self, failure: &DirectoryFailed) -> bool {
        self.failure.set(failure.clone()).is_ok()
    }

    /// Why it is offline, if it is.
    #[must_use]
    pub fn failure(&self) -> Option<&DirectoryFailed> {
        self.failure.get()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All partitions in the directory, by name.
    ///
    /// # Errors
    /// A failing disk.
    pub fn partitions(&self) -> Result<Vec<FoundPartition>, DirectoryFailed> {
        let entries =
            self.fs.list(&self.path).map_err(|cause| failed("listing of", &self.path, cause))?;
        let mut found = Vec::new();
        for entry in entries.into_iter().filter(|entry| entry.is_dir) {
            let Some(name) = PartitionDirName::parse(&entry.name) else { continue };
            let path = self.path.join(&entry.name);
            let partition =
                TopicPartition { topic: name.topic.as_str().into(), partition: name.partition };
            let topic_id = self.topic_id(&path)?;
            found.push(FoundPartition { partition, kind: name.kind, topic_id, path });
        }
        Ok(found)
    }

    fn topic_id(&self, dir: &Path) -> Result<Option<TopicId>, DirectoryFailed> {
        let path = dir.join(names::PARTITION_METADATA);
        let bytes = small_files::read_if_present(&*self.fs, &path)
            .map_err(|cause| failed("reading of", &path, cause))?;
        Ok(bytes.and_then(|bytes| match partition_metadata::parse(&bytes) {
            Ok(id) => Some(id),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "unreadable topic id");
                None
            }
        }))
    }

    /// Where a partition's log is or will be.
    #[must_use]
    pub fn partition_path(&self, topic: &str, partition: PartitionIndex) -> PathBuf {
        self.path.join(names::partition_dir(topic, partition))
    }

    /// Opens the log of a partition, making it, with its topic id, when there is none; recovers it when it was not closed
    /// before. Its positions of the last checkpoint are in [`Checkpoints::get`]; the high watermark is set from there.
    ///
    /// # Errors
    /// As for [`Log::open`].
    pub fn open_log(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        now: Timestamp,
    ) -> Result<(Log, RecoveryReport), LogError> {
        let dir = self.partition_path(&partition.topic, partition.partition);
        let positions = self.checkpoints.get(partition).unwrap_or_default();
        let clean_shutdown = {
            let mut state = self.state();
            let is_new = state.open.insert(partition.clone());
            let was_closed = state.closed.remove(partition);
            is_new && (self.was_clean || was_closed)
        };
        let args = OpenArgs {
            recovery_point: positions.recovery_point,
            log_start: positions.log_start.unwrap_or(Offset(0)),
            clean_shutdown,
            now,
        };
        self.write_topic_id(&dir, topic_id)?;
        let (mut log, report) = Log::open(self.fs.clone(), dir, config, args)?;
        log.advance_high_watermark(positions.high_watermark);
        self.checkpoints.note(partition.clone(), log.positions());
        Ok((log, report))
    }

    fn write_topic_id(&self, dir: &Path, topic_id: TopicId) -> Result<(), DirectoryFailed> {
        let path = dir.join(names::PARTITION_METADATA);
        let write = || {
            if self.fs.exists(&path)? {
                return Ok(());
            }
            small_files::create_dir(&*self.fs, dir)?;
            let text = partition_metadata::encode(topic_id);
            small_files::replace(&*self.fs, &path, text.into_bytes())
        };
        write().map_err(|cause| failed("writing of", &path, cause))
    }

    /// Closes an idle log cleanly.
    ///
    /// # Errors
    /// A failing disk.
    pub fn close_log(&self, partition: &TopicPartition, log: Log) -> Result<(), DirectoryFailed> {
        let mut positions = log.positions();
        positions.recovery_point = log.written();
        log.close().run().into_result()?;
        self.checkpoints.note(partition.clone(), positions);
        let mut state = self.state();
        state.open.remove(partition);
        state.closed.insert(partition.clone());
        Ok(())
    }

    /// Renames the directory of a partition whose log is dropped so that it is deleted, now by [`LogDir::remove`] or at the
    /// next start. Gives its new path; `None` when there is none.
    ///
    /// # Errors
    /// A failing disk.
    pub fn mark_deleted(
        &self,
        partition: &TopicPartition,
        unique: Uuid,
    ) -> Result<Option<PathBuf>, DirectoryFailed> {
        let name = names::deleted_partition_dir(&partition.topic, partition.partition, unique);
        self.rename_partition(partition, &name)
    }

    /// As [`LogDir::mark_deleted`], for a partition that the metadata does not place here.
    ///
    /// # Errors
    /// A failing disk.
    pub fn mark_stray(
        &self,
        partition: &TopicPartition,
        unique: Uuid,
    ) -> Result<Option<PathBuf>, DirectoryFailed> {
        let name = names::stray_partition_dir(&partition.topic, partition.partition, unique);
        self.rename_partition(partition, &name)
    }

    fn rename_partition(
        &self,
        partition: &TopicPartition,
        name: &str,
    ) -> Result<Option<PathBuf>, DirectoryFailed> {
        let from = self.partition_path(&partition.topic, partition.partition);
        let to = self.path.join(name);
        let rename = || match self.fs.rename(&from, &to) {
            Ok(()) => self.fs.sync_dir(&self.path).map(|()| Some(to.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let renamed = rename().map_err(|cause| failed("renaming of", &from, cause))?;
        self.checkpoints.forget(partition);
        let mut state = self.state();
        state.open.remove(partition);
        state.closed.remove(partition);
        Ok(renamed)
    }

    /// Removes a directory that was marked deleted.
    ///
    /// # Errors
    /// A failing disk.
    pub fn remove(&self, path: &Path) -> Result<(), DirectoryFailed> {
        match self.fs.remove_dir_all(path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(failed("removal of", path, cause))
            }
            _ => Ok(()),
        }
    }

    /// The clean stop, once all logs are closed: checkpoints, the mark with the broker's epoch, and the lock.
    ///
    /// The mark is left out when a log is still open, or when the directory is offline: the next start recovers then.
    ///
    /// # Errors
    /// A failing disk.
    pub fn close(&self, broker_epoch: i64) -> Result<(), DirectoryFailed> {
        if let Some(failure) = self.failure() {
            return Err(failure.clone());
        }
        self.checkpoints.write()?;
        let open = self.state().open.len();
        if open == 0 {
            let path = self.path.join(names::CLEAN_SHUTDOWN);
            let text = clean_shutdown::encode(broker_epoch);
            let write = || {
                small_files::write_new(&*self.fs, &path, text.into_bytes())?;
                self.fs.sync_dir(&self.path)
            };
            write().map_err(|cause| failed("writing of", &path, cause))?;
        } else {
            tracing::warn!(path = %self.path.display(), open, "logs are still open: the next start will recover them");
        }
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        if lock.is_some() {
            // Before the lock is given up: afterwards the file may be another process's.
            let path = self.path.join(names::LOCK);
            small_files::remove_if_present(&*self.fs, &path)
                .map_err(|cause| failed("removal of", &path, cause))?;
        }
        Ok(())
    }
}

impl Log {
    /// The positions that the directory's checkpoints hold.
    #[must_use]
    pub fn positions(&self) -> LogPositions {
        let log_start = self.log_start_offset();
        LogPositions {
            recovery_point: self.recovery_point(),
            high_watermark: self.high_watermark(),
            log_start: (log_start > self.first_segment_offset()).then_some(log_start),
        }
    }
}

#[cfg(test)]
#[path = "dirs_tests.rs"]
mod tests;
