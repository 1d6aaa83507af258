//! What the broker holds of the controller: its configuration, how it starts, and the handle for requests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterConfigsRequest,
    AlterConfigsResponse, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse, CreatePartitionsRequest, CreatePartitionsResponse,
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use protocol_compat::ids::{BrokerId, DirectoryId};
use storage::disk::FileSystem;

use crate::error::ControllerError;
use crate::image::{Endpoint, MetadataDelta, MetadataImage};

/// Who the voters of the metadata quorum are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QuorumConfig {
    /// The voter set lives in the metadata log (`controller.quorum.bootstrap.servers`, `--standalone`).
    Dynamic,
    /// `controller.quorum.voters`: ids with host and port. This release runs single-voter quorums only.
    Static(Vec<(BrokerId, String, u16)>),
}

/// Everything the controller is told at start.
#[derive(Clone, Debug)]
pub struct ControllerConfig {
    /// `node.id`.
    pub node_id: BrokerId,
    /// Cluster id as in `meta.properties`.
    pub cluster_id: String,
    /// `metadata.log.dir`, or the first of `log.dirs`: the directory that holds `__cluster_metadata-0`.
    pub metadata_log_dir: PathBuf,
    /// `directory.id` of that directory.
    pub directory_id: DirectoryId,
    /// Voters.
    pub quorum: QuorumConfig,
    /// Advertised endpoints of the controller listeners.
    pub controller_endpoints: Vec<Endpoint>,
    /// What `server.properties` sets explicitly, name to value: defaults of topics come from here.
    pub static_configs: BTreeMap<String, String>,
    /// `metadata.max.idle.interval.ms`; 0 writes no NoOpRecords.
    pub max_idle_interval_ms: u64,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub snapshot_bytes_between: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0 is never.
    pub snapshot_interval_ms: u64,
    /// `metadata.log.segment.bytes`.
    pub log_segment_bytes: u64,
    /// `metadata.log.segment.ms`.
    pub log_segment_ms: u64,
    /// `metadata.max.retention.bytes`; negative is no limit.
    pub retention_bytes: i64,
    /// `metadata.max.retention.ms`; negative is no limit.
    pub retention_ms: i64,
    /// `broker.session.timeout.ms`: a broker without heartbeat for so long is fenced.
    pub broker_session_timeout_ms: u64,
}

impl ControllerConfig {
    /// Kafka's defaults for everything that has one.
    #[must_use]
    pub fn new(
        node_id: BrokerId,
        cluster_id: String,
        metadata_log_dir: PathBuf,
        directory_id: DirectoryId,
    ) -> Self {
        Self {
            node_id,
            cluster_id,
            metadata_log_dir,
            directory_id,
            quorum: QuorumConfig::Dynamic,
            controller_endpoints: Vec::new(),
            static_configs: BTreeMap::new(),
            max_idle_interval_ms: 500,
            snapshot_bytes_between: 20 * 1024 * 1024,
            snapshot_interval_ms: 3_600_000,
            log_segment_bytes: 1_073_741_824,
            log_segment_ms: 604_800_000,
            retention_bytes: 100 * 1024 * 1024,
            retention_ms: 604_800_000,
            broker_session_timeout_ms: 9_000,
        }
    }
}

/// Starts the quorum thread.
#[derive(Debug)]
pub struct Controller;

impl Controller {
    /// Opens the metadata log, becomes leader of the single-voter quorum, publishes the first image and serves
    /// requests on a thread of its own named `quorum`. Blocks for the few file calls of the start.
    ///
    /// `publisher` is called on that thread, first with the whole image (`delta.from_start`), then after each
    /// committed change, in order of offsets, before the answers to the requests that made the change.
    /// It must not block for long.
    ///
    /// # Errors
    /// The directory cannot be read, belongs to another node, or holds records this release does not know.
    pub fn start<P>(
        config: ControllerConfig,
        fs: Arc<dyn FileSystem>,
        publisher: P,
    ) -> Result<ControllerHandle, ControllerError>
    where
        P: FnMut(Arc<MetadataImage>, Arc<MetadataDelta>) + Send + 'static,
    {
        let _ = (config, fs, publisher);
        unimplemented!()
    }
}

/// Sends requests to the quorum thread. Cheap to clone.
///
/// Every method answers after its records are durable, replayed and published. Dropping a future does not
/// undo what it asked for. When the controller has stopped, answers carry NOT_CONTROLLER.
#[derive(Clone, Debug)]
pub struct ControllerHandle {}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident($request:ty) -> $response:ty;)*) => {
        impl ControllerHandle {
            $(
                $(#[$doc])*
                pub async fn $name(&self, request: $request) -> $response {
                    let _ = request;
                    unimplemented!()
                }
            )*
        }
    };
}

requests! {
    /// CreateTopics v2-7. Topics are decided one by one; a refused one does not hold up the others.
    create_topics(CreateTopicsRequest) -> CreateTopicsResponse;
    /// DeleteTopics v1-6, by name or id.
    delete_topics(DeleteTopicsRequest) -> DeleteTopicsResponse;
    /// CreatePartitions v0-3.
    create_partitions(CreatePartitionsRequest) -> CreatePartitionsResponse;
    /// IncrementalAlterConfigs v0-1, for topic, broker, client-metrics and group resources.
    incremental_alter_configs(IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse;
    /// AlterConfigs v0-2: replaces all overrides of a resource.
    alter_configs(AlterConfigsRequest) -> AlterConfigsResponse;
    /// AllocateProducerIds v0: a block of 1000 ids, never handed out twice.
    allocate_producer_ids(AllocateProducerIdsRequest) -> AllocateProducerIdsResponse;
    /// BrokerRegistration v0-4: the answer holds the broker epoch, which later requests must carry.
    register_broker(BrokerRegistrationRequest) -> BrokerRegistrationResponse;
    /// BrokerHeartbeat v0-2: unfences a broker that caught up, fences, and leads a controlled shutdown.
    broker_heartbeat(BrokerHeartbeatRequest) -> BrokerHeartbeatResponse;
    /// AssignReplicasToDirs v0: where a broker with several log directories put its replicas.
    assign_replicas_to_dirs(AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse;
}

impl ControllerHandle {
    /// The newest published image.
    #[must_use]
    pub fn image(&self) -> Arc<MetadataImage> {
        unimplemented!()
    }

    /// Stops the quorum thread after the requests before it, closes the metadata log as a clean stop of Kafka
    /// does, and returns when all is durable. Later requests answer NOT_CONTROLLER.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
