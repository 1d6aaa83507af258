//! Snapshot files (`<end offset>-<epoch>.checkpoint`) in the directory of the metadata log.
//!
//! A control batch (header and, with kraft.version 1, the voter set), data batches, a control batch (footer). Offsets count
//! from 0 within the file. Written to `.part`, synced, renamed.

use std::path::Path;

use bytes::Bytes;
use protocol_compat::ids::{BrokerId, DirectoryId, LeaderEpoch, Offset};
use storage::disk::FileSystem;

use super::batch::{self, Batch, Content};
use super::quorum_store::{read_file, sync_dir_of, write_synced};
use crate::decide::activation;
use crate::error::ControllerError;
use crate::image::Endpoint;
use crate::records::MetadataRecord;
use crate::records::control::{ControlRecord, Voter};

const SUFFIX: &str = ".checkpoint";
/// Largest snapshot that is read.
const SIZE_BYTES_MAX: u64 = 4 << 30;
/// Records of one data batch: keeps batches well below Kafka's 8 MiB.
const BATCH_RECORDS: usize = 2_048;

/// Names a snapshot: everything before `end_offset`, which was reached in `epoch`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SnapshotId {
    pub(crate) end_offset: Offset,
    pub(crate) epoch: LeaderEpoch,
}

impl SnapshotId {
    pub(crate) fn file_name(self) -> String {
        format!("{:020}-{:010}{SUFFIX}", self.end_offset.0, self.epoch.0)
    }

    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let (offset, epoch) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        if offset.len() != 20 || epoch.len() != 10 {
            return None;
        }
        Some(Self {
            end_offset: Offset(offset.parse().ok()?),
            epoch: LeaderEpoch(epoch.parse().ok()?),
        })
    }
}

/// What a snapshot holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct SnapshotContent {
    /// Append time of the last record that it contains.
    pub(crate) last_timestamp_ms: i64,
    /// Voter set of a dynamic quorum.
    pub(crate) voters: Option<Vec<Voter>>,
    /// Level of `kraft.version`.
    pub(crate) kraft_version: i16,
    /// The records that build the image.
    pub(crate) records: Vec<MetadataRecord>,
}

/// Whether the name is that of the snapshot that a format writes, or of one that was not finished.
pub(crate) fn is_first(name: &str) -> bool {
    let first = SnapshotId { end_offset: Offset(0), epoch: LeaderEpoch(0) }.file_name();
    name == first
}

/// Writes the snapshot that a format makes: the newest feature levels, and the voter of a dynamic quorum. Its name is
/// durable with the next sync of the directory.
pub(crate) fn write_first(
    fs: &dyn FileSystem,
    dir: &Path,
    voter: Option<(BrokerId, DirectoryId, &[Endpoint])>,
) -> Result<(), ControllerError> {
    let content = SnapshotContent {
        last_timestamp_ms: crate::clock::now_ms(),
        kraft_version: i16::from(voter.is_some()),
        voters: voter.map(|(id, directory, endpoints)| vec![new_voter(id, directory, endpoints)]),
        records: activation::newest_features(),
    };
    let id = SnapshotId { end_offset: Offset(0), epoch: LeaderEpoch(0) };
    // In place and without a sync of the directory: a format that is cut short is done again.
    let chunks = encode(id.epoch, &content, activation::NEWEST_METADATA_VERSION);
    write_synced(fs, &dir.join(id.file_name()), &chunks)
}

/// This node as a voter.
pub(crate) fn new_voter(id: BrokerId, directory: DirectoryId, endpoints: &[Endpoint]) -> Voter {
    let endpoints = endpoints.iter().map(|e| (e.name.clone(), e.host.clone(), e.port));
    Voter { id, directory, endpoints: endpoints.collect(), kraft_versions: (0, 1) }
}

/// Writes a snapshot; durable on return.
pub(crate) fn write(
    fs: &dyn FileSystem,
    dir: &Path,
    id: SnapshotId,
    content: &SnapshotContent,
    metadata_version: i16,
) -> Result<(), ControllerError> {
    let path = dir.join(id.file_name());
    let part = dir.join(format!("{}.part", id.file_name()));
    let failed =
        |source| ControllerError::Io { attempt: format!("write {}", path.display()), source };
    write_synced(fs, &part, &encode(id.epoch, content, metadata_version))?;
    fs.rename(&part, &path).map_err(failed)?;
    sync_dir_of(fs, &path)
}

fn encode(epoch: LeaderEpoch, content: &SnapshotContent, metadata_version: i16) -> Vec<Bytes> {
    let now = crate::clock::now_ms();
    let mut head = vec![ControlRecord::SnapshotHeader {
        last_contained_log_timestamp_ms: content.last_timestamp_ms,
    }];
    if content.kraft_version > 0 {
        head.push(ControlRecord::KRaftVersion(content.kraft_version));
        head.extend(content.voters.clone().map(ControlRecord::Voters));
    }
    let mut next = Offset(0);
    let mut chunks = Vec::new();
    let mut push = |next: &mut Offset, bytes: Bytes, count: usize| {
        next.0 += i64::try_from(count).unwrap_or(0);
        chunks.push(bytes);
    };
    let bytes = batch::control(next, epoch, now, &head);
    push(&mut next, bytes, head.len());
    for records in content.records.chunks(BATCH_RECORDS) {
        let bytes = batch::data(next, epoch, now, metadata_version, records);
        push(&mut next, bytes, records.len());
    }
    let bytes = batch::control(next, epoch, now, &[ControlRecord::SnapshotFooter]);
    push(&mut next, bytes, 1);
    chunks
}

/// Reads a snapshot.
pub(crate) fn read(
    fs: &dyn FileSystem,
    dir: &Path,
    id: SnapshotId,
) -> Result<SnapshotContent, ControllerError> {
    let path = dir.join(id.file_name());
    let bytes = read_file(fs, &path, SIZE_BYTES_MAX)?
        .ok_or_else(|| ControllerError::Corrupt(format!("{} is gone", path.display())))?;
    decode(&bytes).map_err(|error| in_file(error, &path))
}

/// Reads the snapshot that formats before 4.4 wrote beside the metadata log.
pub(crate) fn read_bootstrap(
    fs: &dyn FileSystem,
    path: &Path,
) -> Result<Option<SnapshotContent>, ControllerError> {
    let Some(bytes) = read_file(fs, path, SIZE_BYTES_MAX)? else { return Ok(None) };
    let batches = batch::decode_all(&bytes).map_err(|error| in_file(error, path))?;
    let mut content = SnapshotContent::default();
    collect(&mut content, batches);
    Ok(Some(content))
}

fn in_file(error: ControllerError, path: &Path) -> ControllerError {
    match error {
        ControllerError::Corrupt(why) => {
            ControllerError::Corrupt(format!("{}: {why}", path.display()))
        }
        ControllerError::UnknownRecord { offset, reason } => ControllerError::UnknownRecord {
            offset,
            reason: format!("in {}: {reason}", path.display()),
        },
        other => other,
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<SnapshotContent, ControllerError> {
    let batches = batch::decode_all(bytes)?;
    let first = batches.first().map(|batch| &batch.content);
    let headed = matches!(first, Some(Content::Control(records))
        if matches!(records.first(), Some(ControlRecord::SnapshotHeader { .. })));
    let last = batches.last().map(|batch| &batch.content);
    let footed = matches!(last, Some(Content::Control(records))
        if matches!(records.last(), Some(ControlRecord::SnapshotFooter)));
    if !headed || !footed {
        return Err(ControllerError::Corrupt("a snapshot without header or footer".to_owned()));
    }
    let mut content = SnapshotContent::default();
    collect(&mut content, batches);
    Ok(content)
}

fn collect(content: &mut SnapshotContent, batches: Vec<Batch>) {
    for batch in batches {
        match batch.content {
            Content::Data(records) => {
                content.records.extend(records.into_iter().map(|(_, record)| record));
            }
            Content::Control(records) => {
                for record in records {
                    match record {
                        ControlRecord::SnapshotHeader { last_contained_log_timestamp_ms } => {
                            content.last_timestamp_ms = last_contained_log_timestamp_ms;
                        }
                        ControlRecord::KRaftVersion(level) => content.kraft_version = level,
                        ControlRecord::Voters(voters) => content.voters = Some(voters),
                        ControlRecord::SnapshotFooter | ControlRecord::LeaderChange { .. } => {}
                    }
                }
            }
        }
    }
}

/// Snapshots of a directory, oldest first. What a crash left unfinished is removed.
pub(crate) fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<SnapshotId>, ControllerError> {
    let failed =
        |source| ControllerError::Io { attempt: format!("list {}", dir.display()), source };
    let mut ids = Vec::new();
    for entry in fs.list(dir).map_err(failed)? {
        if entry.name.ends_with(".checkpoint.part") || entry.name.ends_with(".checkpoint.deleted") {
            remove(fs, &dir.join(&entry.name))?;
        } else if let Some(id) = SnapshotId::from_file_name(&entry.name) {
            ids.push(id);
        }
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Removes a snapshot file; an absent one is fine.
pub(crate) fn remove(fs: &dyn FileSystem, path: &Path) -> Result<(), ControllerError> {
    match fs.remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(ControllerError::Io { attempt: format!("remove {}", path.display()), source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        let id = SnapshotId { end_offset: Offset(71), epoch: LeaderEpoch(2) };
        assert_eq!(id.file_name(), "00000000000000000071-0000000002.checkpoint");
        assert_eq!(SnapshotId::from_file_name(&id.file_name()), Some(id));
        assert_eq!(SnapshotId::from_file_name("bootstrap.checkpoint"), None);
        assert!(is_first("00000000000000000000-0000000000.checkpoint"));
        assert!(!is_first(&id.file_name()));
    }
}
