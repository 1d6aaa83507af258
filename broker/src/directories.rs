//! The log directories of this broker: which partition is in which, what failed, what a restart needs to know.
//!
//! Everything here that touches files blocks and is for the pool; the rules of one directory are in [`storage::dirs`].

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller::bootstrap::NodeIdentity;
use protocol_compat::ids::{DirectoryId, PartitionIndex, Timestamp, TopicId, TopicPartition};
use storage::checkpointer::Pace;
use storage::dirs::{DirError, FoundPartition, LogDir};
use storage::disk::probe::{EngineSetting, open_engine};
use storage::disk::{Engine, FileSystem};
use storage::format::names::PartitionDirKind;
use storage::log::{DirectoryFailed, Log, LogConfig, LogError};
use uuid::Uuid;

use crate::core::Core;
use crate::core::placement::CoreId;

/// The topic of the metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The log directories, in the order of `log.dirs`.
#[derive(Debug)]
pub struct Directories {
    list: Vec<Directory>,
    /// Partitions that were there at the start.
    found: Vec<(DirectoryId, FoundPartition)>,
}

/// A log directory.
#[derive(Debug)]
pub struct Directory {
    log_dir: LogDir,
    /// Partitions opened here, for placing new ones.
    partitions: AtomicUsize,
}

/// What is known of a partition that is to be opened.
#[derive(Clone, Debug)]
pub struct OpenLog {
    /// Name of its topic.
    pub topic: Arc<str>,
    /// Id of its topic.
    pub topic_id: TopicId,
    /// Its index.
    pub index: PartitionIndex,
    /// Where the metadata says that it is.
    pub assigned: Option<DirectoryId>,
    /// Its settings.
    pub config: LogConfig,
    /// The wall clock.
    pub now: Timestamp,
}

/// A log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory that the metadata names is not one of ours, or is offline.
    #[error("log directory {0} is not there or offline")]
    NoDirectory(DirectoryId),
    /// Every directory is offline.
    #[error("no log directory is online")]
    AllOffline,
    /// The log cannot be read.
    #[error("{error}")]
    Log {
        /// Where it is.
        directory: DirectoryId,
        /// What is wrong.
        error: LogError,
    },
}

impl OpenError {
    /// The directory that failed, where one did.
    #[must_use]
    pub fn failed_directory(&self) -> Option<(DirectoryId, &DirectoryFailed)> {
        match self {
            Self::Log { directory, error: LogError::Directory(failure) } => {
                Some((*directory, failure))
            }
            Self::Log { .. } | Self::NoDirectory(_) | Self::AllOffline => None,
        }
    }
}

impl Directory {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> DirectoryId {
        self.log_dir.id()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.log_dir.path()
    }

    /// Whether its disk failed.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.log_dir.failure().is_some()
    }
}

impl Directories {
    /// Takes the directories of this node into use.
    ///
    /// # Errors
    /// One is in use by another process, or cannot be read.
    pub fn open(fs: &Arc<dyn FileSystem>, identity: &NodeIdentity) -> Result<Self, DirError> {
        let mut list = Vec::with_capacity(identity.directories.len());
        let mut found = Vec::new();
        for (path, id) in &identity.directories {
            let log_dir = LogDir::open(Arc::clone(fs), path.clone(), *id)?;
            // The metadata log is the controller's.
            let partitions = log_dir
                .partitions()?
                .into_iter()
                .filter(|found| *found.partition.topic != *METADATA_TOPIC);
            let before = found.len();
            found.extend(partitions.map(|partition| (log_dir.id(), partition)));
            if !log_dir.was_clean() && found.len() > before {
                tracing::info!(path = %path.display(), "the last stop was not clean: logs are recovered");
            }
            list.push(Directory { log_dir, partitions: AtomicUsize::new(0) });
        }
        Ok(Self { list, found })
    }

    /// All directories.
    pub fn all(&self) -> impl Iterator<Item = &Directory> {
        self.list.iter()
    }

    fn get(&self, id: DirectoryId) -> Option<&Directory> {
        self.list.iter().find(|directory| directory.id() == id)
    }

    /// The broker epoch of the last clean stop, if all directories agree on one.
    #[must_use]
    pub fn previous_broker_epoch(&self) -> Option<i64> {
        let mut epochs =
            self.list.iter().map(|directory| directory.log_dir.previous_broker_epoch());
        let first = epochs.next().flatten()?;
        epochs.all(|epoch| epoch == Some(first)).then_some(first)
    }

    /// Notes that a disk failed; whether this was news.
    pub fn fail(&self, id: DirectoryId, failure: &DirectoryFailed) -> bool {
        self.get(id).is_some_and(|directory| directory.log_dir.fail(failure))
    }

    /// Opens the log of a partition, making it where there is none, and recovers it after an unclean stop.
    ///
    /// # Errors
    /// Its directory is offline or not ours, or the log cannot be read.
    pub fn open_partition(&self, request: &OpenLog) -> Result<(DirectoryId, Log), OpenError> {
        let directory = self.choose(request)?;
        let partition =
            TopicPartition { topic: Arc::clone(&request.topic), partition: request.index };
        let id = directory.id();
        let (log, report) = directory
            .log_dir
            .open_log(&partition, request.topic_id, request.config.clone(), request.now)
            .map_err(|error| OpenError::Log { directory: id, error })?;
        directory.partitions.fetch_add(1, Ordering::Relaxed);
        if report.scanned && (report.cut_bytes > 0 || report.scanned_bytes > 0) {
            tracing::info!(
                %partition, scanned_bytes = report.scanned_bytes, cut_bytes = report.cut_bytes,
                rebuilt_indexes = report.rebuilt_indexes, "recovered a log"
            );
        }
        Ok((id, log))
    }

    fn choose(&self, request: &OpenLog) -> Result<&Directory, OpenError> {
        let online = |directory: &&Directory| !directory.is_offline();
        if let Some(id) = request.assigned {
            return self.get(id).filter(online).ok_or(OpenError::NoDirectory(id));
        }
        let found = self.found.iter().find(|(_, found)| {
            found.kind == PartitionDirKind::Current
                && *found.partition.topic == *request.topic
                && found.partition.partition == request.index
        });
        if let Some((id, _)) = found {
            return self.get(*id).filter(online).ok_or(OpenError::NoDirectory(*id));
        }
        self.list
            .iter()
            .filter(online)
            .min_by_key(|directory| directory.partitions.load(Ordering::Relaxed))
            .ok_or(OpenError::AllOffline)
    }

    /// Removes a partition whose log was dropped.
    ///
    /// # Errors
    /// A failing disk.
    pub fn delete(
        &self,
        id: DirectoryId,
        topic: &Arc<str>,
        index: PartitionIndex,
    ) -> Result<(), DirectoryFailed> {
        let Some(directory) = self.get(id) else { return Ok(()) };
        let partition = TopicPartition { topic: Arc::clone(topic), partition: index };
        directory.partitions.fetch_sub(1, Ordering::Relaxed);
        match directory.log_dir.mark_deleted(&partition, Uuid::new_v4())? {
            Some(path) => directory.log_dir.remove(&path),
            None => Ok(()),
        }
    }

    /// Removes what deletions of the last process left, and sets aside partitions that the metadata does not know.
    pub fn tidy(&self, is_known: impl Fn(&FoundPartition) -> bool) {
        for (id, found) in &self.found {
            let Some(directory) = self.get(*id) else { continue };
            let done = match found.kind {
                PartitionDirKind::Deleted => directory.log_dir.remove(&found.path),
                PartitionDirKind::Current if !is_known(found) => {
                    tracing::warn!(partition = %found.partition, path = %found.path.display(), "a partition that the metadata does not know is set aside");
                    directory.log_dir.mark_stray(&found.partition, Uuid::new_v4()).map(drop)
                }
                _ => Ok(()),
            };
            if let Err(error) = done {
                tracing::warn!(path = %found.path.display(), %error, "not tidied up");
            }
        }
    }

    /// Closes an idle log cleanly.
    ///
    /// # Errors
    /// A failing disk.
    pub fn close_log(
        &self,
        id: DirectoryId,
        topic: &Arc<str>,
        index: PartitionIndex,
        log: Log,
    ) -> Result<(), DirectoryFailed> {
        let Some(directory) = self.get(id) else { return Ok(()) };
        let partition = TopicPartition { topic: Arc::clone(topic), partition: index };
        directory.log_dir.close_log(&partition, log)
    }

    /// The clean stop, once all logs are closed.
    pub fn close(&self, broker_epoch: i64) {
        for directory in &self.list {
            if let Err(error) = directory.log_dir.close(broker_epoch) {
                tracing::warn!(path = %directory.path().display(), %error, "a log directory could not be closed cleanly");
            }
        }
    }

    fn write_checkpoints(&self) {
        for directory in self.list.iter().filter(|directory| !directory.is_offline()) {
            if let Err(error) = directory.log_dir.checkpoints().write() {
                tracing::error!(path = %directory.path().display(), %error, "checkpoints could not be written");
                directory.log_dir.fail(&error);
            }
        }
    }
}

/// Makes the disk engine of a core; the first core says which it is and why.
///
/// # Errors
/// The setting demands io_uring and the kernel refuses it.
pub fn engine(setting: EngineSetting, dir: &Path, core: CoreId) -> io::Result<Box<dyn Engine>> {
    let (engine, report) = open_engine(setting, dir)?;
    if core == CoreId(0) {
        if report.refusal.is_some() {
            tracing::warn!("{report}");
        } else {
            tracing::info!("{report}");
        }
    }
    Ok(engine)
}

/// Advances the recovery points in the background and writes the checkpoint files. Runs on the first core.
pub async fn checkpoint_regularly(core: Rc<Core>) {
    let config = core.config();
    let every = config
        .replica_high_watermark_checkpoint_interval_ms
        .min(config.log_flush_offset_checkpoint_interval_ms)
        .max(1000);
    let mut since_write = 0;
    for call in 1_u32.. {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if core.shared.is_stopping() {
            return;
        }
        for owner in core.shared.placement.cores() {
            let _ = core.on_core(owner, move |core| note_positions(core, call)).await;
        }
        since_write += 1000;
        if since_write >= every {
            since_write = 0;
            let directories = Arc::clone(&core.shared.directories);
            let _ = core.shared.pool.call(move || directories.write_checkpoints()).await;
        }
    }
}

fn note_positions(core: &Rc<Core>, call: u32) {
    let partitions = core.partitions.all();
    let mut replicas: Vec<_> =
        partitions.iter().map(|partition| partition.replica.borrow_mut()).collect();
    Pace::default().request(call, replicas.iter_mut().map(|replica| replica.log_mut()));
    for (partition, replica) in partitions.iter().zip(&replicas) {
        if let Some(directory) = core.shared.directories.get(partition.directory) {
            let name = TopicPartition {
                topic: Arc::clone(&partition.topic.name),
                partition: partition.index,
            };
            directory.log_dir.checkpoints().note(name, replica.log().positions());
        }
    }
    drop(replicas);
    for partition in &partitions {
        core.partitions.mark_dirty(core, partition);
    }
}
