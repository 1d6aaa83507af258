//! First start of a node: formats empty log directories, refuses those of others.
//!
//! There is no formatting command for a single node. An empty directory becomes what
//! `kafka-storage format --standalone` of Apache Kafka 4.4.0 makes of it.

use std::path::PathBuf;

use protocol_compat::ids::{BrokerId, DirectoryId};
use storage::disk::FileSystem;

use crate::controller::QuorumConfig;
use crate::error::ControllerError;
use crate::image::Endpoint;

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

/// Reads `meta.properties` of all directories and formats those that are empty. Blocks; all is durable on return.
///
/// # Errors
/// A directory of another cluster or node, two directories with one id, a metadata directory that is missing
/// among others that hold data, or an IO failure.
pub fn prepare(
    config: &BootstrapConfig,
    fs: &dyn FileSystem,
) -> Result<NodeIdentity, ControllerError> {
    let _ = (config, fs);
    unimplemented!()
}
