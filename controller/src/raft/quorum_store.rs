//! `quorum-state`: the epoch, leader and vote that this node promised.
//!
//! JSON, replaced by rename and synced before anything that relies on it leaves. Version 0 belongs to
//! kraft.version 0 and lists the voters; version 1 belongs to kraft.version 1, whose voters are in the log.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use protocol_compat::ids::{BrokerId, DirectoryId, LeaderEpoch, Uuid};
use serde::{Deserialize, Serialize};
use storage::disk::{FileSystem, OpenMode};

use crate::error::ControllerError;

/// Largest file that is read: the real ones have some hundred bytes.
const SIZE_BYTES_MAX: u64 = 1 << 20;
const FILE_NAME: &str = "quorum-state";

/// What the file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuorumState {
    /// Epoch this node is in.
    pub epoch: LeaderEpoch,
    /// Leader of that epoch, if known.
    pub leader: Option<BrokerId>,
    /// Whom this node voted for in that epoch, with the directory where known.
    pub voted: Option<(BrokerId, Option<DirectoryId>)>,
    /// Voters, where the file lists them (version 0).
    pub voters: Option<Vec<BrokerId>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Voter {
    voter_id: i32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version0 {
    cluster_id: String,
    leader_id: i32,
    leader_epoch: i32,
    voted_id: i32,
    applied_offset: i64,
    current_voters: Vec<Voter>,
    #[serde(rename = "data_version")]
    data_version: i16,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version1 {
    leader_id: i32,
    leader_epoch: i32,
    voted_id: i32,
    voted_directory_id: String,
    #[serde(rename = "data_version")]
    data_version: i16,
}

#[derive(Deserialize)]
struct Probe {
    data_version: i16,
}

impl QuorumState {
    /// The text of the file: version 0 when the voters are listed, else version 1.
    #[must_use]
    pub fn to_json(&self) -> String {
        let leader_id = self.leader.map_or(-1, |id| id.0);
        let voted_id = self.voted.map_or(-1, |(id, _)| id.0);
        let text = match &self.voters {
            Some(voters) => serde_json::to_string(&Version0 {
                cluster_id: String::new(),
                leader_id,
                leader_epoch: self.epoch.0,
                voted_id,
                applied_offset: 0,
                current_voters: voters.iter().map(|id| Voter { voter_id: id.0 }).collect(),
                data_version: 0,
            }),
            None => serde_json::to_string(&Version1 {
                leader_id,
                leader_epoch: self.epoch.0,
                voted_id,
                voted_directory_id: self
                    .voted
                    .and_then(|(_, directory)| directory)
                    .unwrap_or(DirectoryId(Uuid::nil()))
                    .to_string(),
                data_version: 1,
            }),
        };
        text.expect("plain structs of numbers and texts have a JSON form")
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// Not the JSON of version 0 or 1, or impossible values.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let known = |id: i32| (id >= 0).then_some(BrokerId(id));
        let probe: Probe = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let state = match probe.data_version {
            0 => {
                let file: Version0 =
                    serde_json::from_str(text).map_err(|error| error.to_string())?;
                Self {
                    epoch: LeaderEpoch(file.leader_epoch),
                    leader: known(file.leader_id),
                    voted: known(file.voted_id).map(|id| (id, None)),
                    voters: Some(
                        file.current_voters.iter().map(|v| BrokerId(v.voter_id)).collect(),
                    ),
                }
            }
            1 => {
                let file: Version1 =
                    serde_json::from_str(text).map_err(|error| error.to_string())?;
                let directory: DirectoryId =
                    file.voted_directory_id.parse().map_err(|error| format!("{error}"))?;
                Self {
                    epoch: LeaderEpoch(file.leader_epoch),
                    leader: known(file.leader_id),
                    voted: known(file.voted_id)
                        .map(|id| (id, (directory.0 != Uuid::nil()).then_some(directory))),
                    voters: None,
                }
            }
            other => return Err(format!("data_version {other} is not known")),
        };
        if state.epoch.0 < 0 {
            return Err(format!("leaderEpoch {} is negative", state.epoch));
        }
        Ok(state)
    }
}

/// The file in the directory of the metadata log.
#[derive(Debug)]
pub struct QuorumStore {
    dir: PathBuf,
}

impl QuorumStore {
    /// The file in `dir` (`__cluster_metadata-0`).
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Reads the file; `None` when it does not exist.
    ///
    /// # Errors
    /// The disk failed, or the file is not one.
    pub fn load(&self, fs: &dyn FileSystem) -> Result<Option<QuorumState>, ControllerError> {
        let path = self.dir.join(FILE_NAME);
        let Some(text) = read_text(fs, &path, SIZE_BYTES_MAX)? else { return Ok(None) };
        QuorumState::from_json(&text)
            .map(Some)
            .map_err(|reason| ControllerError::Corrupt(format!("{}: {reason}", path.display())))
    }

    /// Replaces the file: its content is durable on return, its new name with the next sync of the directory.
    ///
    /// # Errors
    /// The disk failed: nothing that relies on the state may leave.
    pub fn store(&self, fs: &dyn FileSystem, state: &QuorumState) -> Result<(), ControllerError> {
        rename_over(fs, &self.dir.join(FILE_NAME), state.to_json().into())
    }
}

/// Reads a small text file; `None` when it does not exist.
pub(crate) fn read_text(
    fs: &dyn FileSystem,
    path: &Path,
    size_bytes_max: u64,
) -> Result<Option<String>, ControllerError> {
    let Some(bytes) = read_file(fs, path, size_bytes_max)? else { return Ok(None) };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| ControllerError::Corrupt(format!("{} is not text", path.display())))
}

/// Reads a file whole; `None` when it does not exist.
pub(crate) fn read_file(
    fs: &dyn FileSystem,
    path: &Path,
    size_bytes_max: u64,
) -> Result<Option<Vec<u8>>, ControllerError> {
    let failed =
        |source| ControllerError::Io { attempt: format!("read {}", path.display()), source };
    let file = match fs.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let size = file.size().map_err(failed)?;
    if size > size_bytes_max {
        return Err(ControllerError::Corrupt(format!("{} has {size} bytes", path.display())));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let read = file.read_at(&mut bytes, 0).map_err(failed)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Makes a directory and its missing parents; their names are durable on return.
pub(crate) fn create_dir(fs: &dyn FileSystem, dir: &Path) -> Result<(), ControllerError> {
    let failed =
        |source| ControllerError::Io { attempt: format!("create {}", dir.display()), source };
    let mut missing = Vec::new();
    for ancestor in dir.ancestors().filter(|path| !path.as_os_str().is_empty()) {
        if fs.exists(ancestor).map_err(failed)? {
            break;
        }
        missing.push(ancestor);
    }
    fs.create_dir_all(dir).map_err(failed)?;
    for path in missing.into_iter().rev() {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        fs.sync_dir(parent.unwrap_or_else(|| Path::new("."))).map_err(failed)?;
    }
    Ok(())
}

/// Replaces a file; durable on return.
pub(crate) fn replace_file(
    fs: &dyn FileSystem,
    path: &Path,
    content: Bytes,
) -> Result<(), ControllerError> {
    rename_over(fs, path, content)?;
    sync_dir_of(fs, path)
}

/// Makes the names in a file's directory durable.
pub(crate) fn sync_dir_of(fs: &dyn FileSystem, path: &Path) -> Result<(), ControllerError> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    fs.sync_dir(dir).map_err(|source| ControllerError::Io {
        attempt: format!("sync {}", dir.display()),
        source,
    })
}

/// Writes a sibling, syncs it, and renames it over `path`.
fn rename_over(fs: &dyn FileSystem, path: &Path, content: Bytes) -> Result<(), ControllerError> {
    let failed =
        |source| ControllerError::Io { attempt: format!("write {}", path.display()), source };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    write_synced(fs, &temporary, &[content])?;
    fs.rename(&temporary, path).map_err(failed)
}

/// Writes a file anew and syncs its content; its name is durable with the next sync of the directory.
pub(crate) fn write_synced(
    fs: &dyn FileSystem,
    path: &Path,
    content: &[Bytes],
) -> Result<(), ControllerError> {
    let failed =
        |source| ControllerError::Io { attempt: format!("write {}", path.display()), source };
    let file = fs.open(path, OpenMode::Truncate).map_err(failed)?;
    file.write_all_at(content, 0).map_err(failed)?;
    file.sync_data().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that Apache Kafka 4.4.0 wrote.
    #[test]
    fn kafkas_files_round_trip() {
        for text in [
            r#"{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#,
            r#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#,
            r#"{"leaderId":-1,"leaderEpoch":7,"votedId":1,"votedDirectoryId":"TZibG4C2RHGOcH6JrgIe2A","data_version":1}"#,
        ] {
            assert_eq!(QuorumState::from_json(text).expect(text).to_json(), text);
        }
    }

    #[test]
    fn what_is_no_quorum_state_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"data_version":2}"#,
            r#"{"leaderId":1,"leaderEpoch":-1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#,
            r#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"x","data_version":1}"#,
        ] {
            assert!(QuorumState::from_json(text).is_err(), "{text}");
        }
    }
}
