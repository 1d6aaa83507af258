//! What a log's jobs do on a pool thread. Each works on what it was given and tells what came of it.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::ids::Offset;

use super::DirectoryFailed;
use super::load::Loaded;
use super::segment::{IndexBytes, SavedEntries, SegmentFiles};
use crate::disk::{FileRef, FileSystem, OpenMode};
use crate::format::names::{
    self, DELETED_SUFFIX, EPOCH_CHECKPOINT, INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX,
};
use crate::format::{offset_index, time_index, txn_index};
use crate::small_files;

/// What a job gave.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The files of the next segment exist, with space for so many bytes.
    Rolled(FileRef, u64),
    /// Space was taken ahead, or refused.
    Reserved(bool),
    /// Indexes and producers are durable up to `upto`.
    Saved(SavedUpTo),
    /// The leader epochs are durable.
    EpochsSaved,
    /// Files were renamed or removed.
    Deleted,
    /// The log was cut and read anew.
    Reloaded(Box<Loaded>),
}

/// What a save reached.
#[derive(Debug)]
pub(super) struct SavedUpTo {
    /// Base of the segment whose indexes were saved.
    pub(super) segment: Offset,
    /// Entries that stand in its files now.
    pub(super) entries: SavedEntries,
    /// Data, indexes and producers before this are durable.
    pub(super) upto: Offset,
    /// Bytes of the log before that, by the log's own count.
    pub(super) mark: u64,
    /// Whether the segment is complete.
    pub(super) sealed: bool,
    /// The producer snapshot that was written.
    pub(super) snapshot: Option<Offset>,
}

/// Puts a name to an error of the disk.
pub(super) fn failed(what: impl Display, path: &Path, cause: io::Error) -> DirectoryFailed {
    DirectoryFailed { attempt: format!("{what} {}", path.display()), cause: Arc::new(cause) }
}

/// Makes the files of a new segment, with space for `reserve` bytes where the file system has it.
pub(super) fn roll(files: &SegmentFiles, reserve: u64) -> Result<Outcome, DirectoryFailed> {
    let mut log = None;
    for suffix in [TIME_INDEX_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX] {
        let path = files.path(suffix);
        let file = files
            .fs
            .open(&path, OpenMode::Truncate)
            .map_err(|cause| failed("creation of", &path, cause))?;
        log = Some(file);
    }
    // Nothing in the segment may count as durable before its name is.
    files.fs.sync_dir(&files.dir).map_err(|cause| failed("sync of", &files.dir, cause))?;
    let log = log.expect("the last file of the loop");
    files.set_log(log.clone());
    let reserved = reserve > 0 && log.reserve(0, reserve).is_ok();
    Ok(Outcome::Rolled(log, if reserved { reserve } else { 0 }))
}

/// What is to be made durable of a segment whose data is durable.
#[derive(Debug)]
pub(super) struct Save {
    pub(super) files: Arc<SegmentFiles>,
    pub(super) index: IndexBytes,
    /// The snapshot to be written: offset and file.
    pub(super) snapshot: Option<(Offset, Vec<u8>)>,
    /// Snapshots that this one makes needless.
    pub(super) old_snapshots: Vec<Offset>,
    /// The size of a complete segment that holds more space than that.
    pub(super) release: Option<u64>,
    pub(super) upto: SavedUpTo,
}

impl Save {
    pub(super) fn run(self) -> Result<Outcome, DirectoryFailed> {
        let Self { files, index, snapshot, old_snapshots, release, upto } = self;
        save_index(&files, index)?;
        let fs = &*files.fs;
        if let Some((offset, bytes)) = snapshot {
            let path = files.dir.join(names::file_name(offset, SNAPSHOT_SUFFIX));
            small_files::write_new(fs, &path, bytes)
                .map_err(|cause| failed("writing of", &path, cause))?;
        }
        fs.sync_dir(&files.dir).map_err(|cause| failed("sync of", &files.dir, cause))?;
        for offset in old_snapshots {
            let path = files.dir.join(names::file_name(offset, SNAPSHOT_SUFFIX));
            small_files::remove_if_present(fs, &path)
                .map_err(|cause| failed("removal of", &path, cause))?;
        }
        if let Some(size) = release {
            let give_back = || files.open_log()?.set_len(size);
            give_back().map_err(|cause| failed("cutting of", &files.path(LOG_SUFFIX), cause))?;
        }
        Ok(Outcome::Saved(upto))
    }
}

/// Appends entries to the index files of a segment and syncs them.
pub(super) fn save_index(files: &SegmentFiles, index: IndexBytes) -> Result<(), DirectoryFailed> {
    let IndexBytes { from, points, times, aborted } = index;
    let parts = [
        (INDEX_SUFFIX, from.points * offset_index::ENTRY_BYTES, points),
        (TIME_INDEX_SUFFIX, from.times * time_index::ENTRY_BYTES, times),
        (TXN_INDEX_SUFFIX, from.aborted * txn_index::ENTRY_BYTES, aborted),
    ];
    for (suffix, position, bytes) in parts {
        if bytes.is_empty() {
            continue;
        }
        let path = files.path(suffix);
        let write = || {
            let file = files.fs.open(&path, OpenMode::Create)?;
            file.write_all_at(&[Bytes::from(bytes)], position as u64)?;
            file.sync_data()
        };
        write().map_err(|cause| failed("writing of", &path, cause))?;
    }
    Ok(())
}

/// Writes the leader epochs.
pub(super) fn save_epochs(
    fs: &dyn FileSystem,
    dir: &Path,
    file: Vec<u8>,
) -> Result<(), DirectoryFailed> {
    let path = dir.join(EPOCH_CHECKPOINT);
    small_files::replace(fs, &path, file).map_err(|cause| failed("writing of", &path, cause))
}

/// All files that a segment may have; the snapshot is the one before it.
pub(super) const SEGMENT_SUFFIXES: [&str; 5] =
    [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX];

/// Renames the files of segments so that no start finds them, oldest first: what is left is always one run of offsets.
pub(super) fn mark_deleted(
    fs: &dyn FileSystem,
    dir: &Path,
    bases: &[Offset],
) -> Result<(), DirectoryFailed> {
    for base in bases {
        for suffix in SEGMENT_SUFFIXES {
            let name = names::file_name(*base, suffix);
            let from = dir.join(&name);
            let to = dir.join(format!("{name}{DELETED_SUFFIX}"));
            match fs.rename(&from, &to) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("renaming of", &from, cause));
                }
                _ => {}
            }
        }
        fs.sync_dir(dir).map_err(|cause| failed("sync of", dir, cause))?;
    }
    Ok(())
}

/// Removes files that [`mark_deleted`] renamed.
pub(super) fn remove_deleted(
    fs: &dyn FileSystem,
    dir: &Path,
    bases: &[Offset],
) -> Result<(), DirectoryFailed> {
    for base in bases {
        for suffix in SEGMENT_SUFFIXES {
            let path = dir.join(format!("{}{DELETED_SUFFIX}", names::file_name(*base, suffix)));
            small_files::remove_if_present(fs, &path)
                .map_err(|cause| failed("removal of", &path, cause))?;
        }
    }
    Ok(())
}
