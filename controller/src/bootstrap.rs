//! First start of a node: formats empty log directories, refuses those of others.
//!
//! There is no formatting command for a single node. An empty directory becomes what
//! `kafka-storage format --standalone` of Apache Kafka 4.4.0 makes of it. `meta.properties` is written last:
//! a directory that a crash left half formatted counts as empty.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use protocol_compat::ids::{BrokerId, DirectoryId, TopicId, Uuid, to_base64};
use storage::disk::{DirEntry, FileSystem};
use storage::format::meta_properties::MetaProperties;
use storage::format::names::{self, LOCK, META_PROPERTIES};
use storage::format::partition_metadata;

use crate::controller::QuorumConfig;
use crate::error::ControllerError;
use crate::image::Endpoint;
use crate::raft::quorum_store::{create_dir, read_file, replace_file, sync_dir_of, write_synced};
use crate::raft::snapshot;

/// Directory of the metadata log in its log directory.
pub const METADATA_DIR: &str = "__cluster_metadata-0";
/// The fixed topic id of the metadata log.
pub(crate) const METADATA_TOPIC_ID: TopicId = TopicId(Uuid::from_u128(1));
/// Written by formats of releases before 4.4, in place of the first snapshot.
pub(crate) const BOOTSTRAP_CHECKPOINT: &str = "bootstrap.checkpoint";
const META_BYTES_MAX: u64 = 64 * 1024;

/// What formatting needs to know.
#[derive(Clone, Debug)]
pub struct BootstrapConfig {
    /// `node.id`.
    pub node_id: BrokerId,
    /// The cluster that the directories must belong to; `None` takes the id found, or makes one.
    pub cluster_id: Option<String>,
    /// `log.dirs`, in their order.
    pub log_dirs: Vec<PathBuf>,
    /// `metadata.log.dir`; `None` is the first of `log_dirs`.
    pub metadata_log_dir: Option<PathBuf>,
    /// Voters.
    pub quorum: QuorumConfig,
    /// Advertised endpoints of the controller listeners: part of the voter set of a dynamic quorum.
    pub controller_endpoints: Vec<Endpoint>,
}

/// Who this node is, after its directories were read or formatted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeIdentity {
    /// Id of the cluster.
    pub cluster_id: String,
    /// `directory.id` of each log directory, in the order of `log_dirs`.
    pub directories: Vec<(PathBuf, DirectoryId)>,
    /// The directory that holds the metadata log, and its id.
    pub metadata: (PathBuf, DirectoryId),
    /// Whether the metadata directory was formatted by this call.
    pub formatted: bool,
}

/// What stands in a directory.
struct Found {
    path: PathBuf,
    meta: Option<MetaProperties>,
    entries: Vec<DirEntry>,
}

/// Reads `meta.properties` of all directories and formats those that are empty. Blocks; all is durable on return.
///
/// # Errors
/// A directory of another cluster or node, two directories with one id, a metadata directory that is missing
/// among others that hold data, or an IO failure.
pub fn prepare(
    config: &BootstrapConfig,
    fs: &dyn FileSystem,
) -> Result<NodeIdentity, ControllerError> {
    let metadata_dir = config
        .metadata_log_dir
        .as_ref()
        .or_else(|| config.log_dirs.first())
        .ok_or_else(|| ControllerError::Refused("log.dirs names no directory".into()))?
        .clone();
    let mut paths = config.log_dirs.clone();
    if !paths.contains(&metadata_dir) {
        paths.push(metadata_dir.clone());
    }
    let found = paths.iter().map(|path| look(path, fs)).collect::<Result<Vec<_>, _>>()?;
    let cluster_id = agree(config, &found)?;
    check_metadata_dir(&metadata_dir, &found, fs)?;

    let mut directories = Vec::with_capacity(found.len());
    let mut formatted = false;
    for dir in found {
        let is_metadata = dir.path == metadata_dir;
        let id = match &dir.meta {
            Some(MetaProperties { directory_id: Some(id), .. }) => *id,
            meta => {
                let id = new_directory_id();
                if meta.is_none() && is_metadata {
                    format_metadata(config, &dir.path, id, fs)?;
                    formatted = true;
                }
                let meta = MetaProperties {
                    cluster_id: cluster_id.clone(),
                    node_id: config.node_id,
                    directory_id: Some(id),
                };
                replace_file(fs, &dir.path.join(META_PROPERTIES), meta.encode().into())?;
                id
            }
        };
        directories.push((dir.path, id));
    }
    let metadata = directories
        .iter()
        .find(|(path, _)| *path == metadata_dir)
        .expect("the metadata directory was put among the paths")
        .clone();
    directories.truncate(config.log_dirs.len());
    Ok(NodeIdentity { cluster_id, directories, metadata, formatted })
}

fn look(path: &Path, fs: &dyn FileSystem) -> Result<Found, ControllerError> {
    let failed = |source| ControllerError::Io {
        attempt: format!("log directory {}", path.display()),
        source,
    };
    create_dir(fs, path)?;
    let meta_path = path.join(META_PROPERTIES);
    let meta = read_file(fs, &meta_path, META_BYTES_MAX)?
        .map(|bytes| {
            MetaProperties::parse(&bytes)
                .map_err(|why| ControllerError::Refused(format!("{}: {why}", meta_path.display())))
        })
        .transpose()?;
    let entries = fs.list(path).map_err(failed)?;
    Ok(Found { path: path.to_owned(), meta, entries })
}

/// Checks that all directories belong to this node of one cluster, and which one.
fn agree(config: &BootstrapConfig, found: &[Found]) -> Result<String, ControllerError> {
    let mut cluster = config.cluster_id.clone();
    for dir in found {
        let path = dir.path.display();
        match &dir.meta {
            Some(meta) => {
                if meta.node_id != config.node_id {
                    return Err(ControllerError::Refused(format!(
                        "{path} belongs to node {}, and this is node {}: set node.id={} or use another directory",
                        meta.node_id, config.node_id, meta.node_id
                    )));
                }
                let expected = cluster.get_or_insert_with(|| meta.cluster_id.clone());
                if *expected != meta.cluster_id {
                    return Err(ControllerError::Refused(format!(
                        "{path} belongs to cluster {}, and cluster {expected} is expected",
                        meta.cluster_id
                    )));
                }
            }
            None => {
                let stranger = dir.entries.iter().find(|entry| !may_stand_in_an_empty_dir(entry));
                if let Some(entry) = stranger {
                    return Err(ControllerError::Refused(format!(
                        "{path} has no {META_PROPERTIES} but is not empty (it holds {}): an empty directory is needed to make a new one",
                        entry.name
                    )));
                }
            }
        }
    }
    let mut ids = BTreeMap::new();
    for dir in found {
        let Some(id) = dir.meta.as_ref().and_then(|meta| meta.directory_id) else { continue };
        if let Some(other) = ids.insert(id, &dir.path) {
            return Err(ControllerError::Refused(format!(
                "{} and {} both have directory.id {id}: one is a copy of the other; remove it",
                other.display(),
                dir.path.display()
            )));
        }
    }
    Ok(cluster.unwrap_or_else(|| to_base64(random_id())))
}

/// What is left over by the file system, by the lock, or by a format that a crash cut short.
fn may_stand_in_an_empty_dir(entry: &DirEntry) -> bool {
    matches!(entry.name.as_str(), LOCK | "lost+found" | "meta.properties.tmp")
        || (entry.is_dir && entry.name == METADATA_DIR)
}

fn check_metadata_dir(
    metadata_dir: &Path,
    found: &[Found],
    fs: &dyn FileSystem,
) -> Result<(), ControllerError> {
    let Some(dir) = found.iter().find(|dir| dir.path == metadata_dir) else { return Ok(()) };
    let has = |name: &str| dir.entries.iter().any(|entry| entry.name == name);
    if dir.meta.is_some() {
        if has(METADATA_DIR) || has(BOOTSTRAP_CHECKPOINT) {
            return Ok(());
        }
        return Err(ControllerError::Refused(format!(
            "{} is a formatted log directory without {METADATA_DIR}: the cluster's metadata is missing. \
             Set metadata.log.dir to the directory that holds it",
            metadata_dir.display()
        )));
    }
    if let Some(other) = found.iter().find(|dir| dir.meta.is_some()) {
        return Err(ControllerError::Refused(format!(
            "{} is empty and should hold the cluster's metadata, but {} holds data already: \
             set metadata.log.dir to the directory that holds {METADATA_DIR}",
            metadata_dir.display(),
            other.path.display()
        )));
    }
    // A format that was cut short has at most these two files.
    if has(METADATA_DIR) {
        let inner = metadata_dir.join(METADATA_DIR);
        let entries = fs.list(&inner).map_err(|source| ControllerError::Io {
            attempt: format!("list {}", inner.display()),
            source,
        })?;
        if let Some(entry) = entries.iter().find(|entry| {
            !snapshot::is_first(&entry.name) && entry.name != names::PARTITION_METADATA
        }) {
            return Err(ControllerError::Refused(format!(
                "{} holds {} but {} has no {META_PROPERTIES}",
                inner.display(),
                entry.name,
                metadata_dir.display()
            )));
        }
    }
    Ok(())
}

fn format_metadata(
    config: &BootstrapConfig,
    dir: &Path,
    id: DirectoryId,
    fs: &dyn FileSystem,
) -> Result<(), ControllerError> {
    let inner = dir.join(METADATA_DIR);
    create_dir(fs, &inner)?;
    let voter = match &config.quorum {
        QuorumConfig::Dynamic => Some((config.node_id, id, config.controller_endpoints.as_slice())),
        QuorumConfig::Static(_) => None,
    };
    snapshot::write_first(fs, &inner, voter)?;
    let partition_metadata = inner.join(names::PARTITION_METADATA);
    let content = partition_metadata::encode(METADATA_TOPIC_ID);
    write_synced(fs, &partition_metadata, &[content.into()])?;
    sync_dir_of(fs, &partition_metadata)
}

/// A random id that Kafka would make too: none of the reserved small ones, and no leading `-`, which tools take for an option.
pub(crate) fn random_id() -> Uuid {
    loop {
        let id = Uuid::new_v4();
        if !to_base64(id).starts_with('-') {
            return id;
        }
    }
}

fn new_directory_id() -> DirectoryId {
    DirectoryId(random_id())
}
