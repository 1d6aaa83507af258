//! What the broker holds of the controller: its configuration, how it starts, and the handle for requests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, PoisonError};

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
use tokio::sync::{Semaphore, oneshot, watch};

use crate::decide::{brokers, configs, directories, partitions, producer_ids, topics};
use crate::driver::{Answer, Command, Core, Driver, SharedImage};
use crate::error::ControllerError;
use crate::image::{Endpoint, MetadataDelta, MetadataImage};
use crate::not_controller::NotController;
use crate::raft::log_port::OpenLog;

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

/// Most requests that wait for the quorum thread; more wait in their callers.
const REQUESTS_MAX: usize = 1_024;

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
        Self::start_on(config, fs, publisher, Box::new(crate::raft::default_log))
    }

    /// As [`Controller::start`], on a log of the caller's.
    pub(crate) fn start_on<P>(
        config: ControllerConfig,
        fs: Arc<dyn FileSystem>,
        publisher: P,
        open_log: Box<OpenLog>,
    ) -> Result<ControllerHandle, ControllerError>
    where
        P: FnMut(Arc<MetadataImage>, Arc<MetadataDelta>) + Send + 'static,
    {
        let (sender, commands) = mpsc::channel();
        let (opened, wait_opened) = mpsc::channel();
        let (running, stopped) = watch::channel(());
        let image: SharedImage = Arc::default();
        let shared = Arc::new(Shared {
            sender: sender.clone(),
            permits: Arc::new(Semaphore::new(REQUESTS_MAX)),
            image: Arc::clone(&image),
            stopped,
        });
        let run = move || {
            // Dropped when the thread ends, in whatever way.
            let _running = running;
            let core = match Core::open(config, fs, open_log) {
                Ok(core) => core,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let publisher = Box::new(publisher);
            let mut driver = Driver { core, commands, sender, image, publisher };
            driver.publish_first();
            let _ = opened.send(Ok(()));
            driver.run();
        };
        std::thread::Builder::new().name("quorum".to_owned()).spawn(run).map_err(|source| {
            ControllerError::Io { attempt: "start the quorum thread".to_owned(), source }
        })?;
        match wait_opened.recv() {
            Ok(Ok(())) => Ok(ControllerHandle { shared }),
            Ok(Err(error)) => Err(error),
            Err(mpsc::RecvError) => Err(ControllerError::Refused(
                "the quorum thread ended while it started; its panic says why".to_owned(),
            )),
        }
    }
}

/// Sends requests to the quorum thread. Cheap to clone.
///
/// Every method answers after its records are durable, replayed and published. Dropping a future does not
/// undo what it asked for. When the controller has stopped, answers carry NOT_CONTROLLER. When the last clone
/// is dropped, the controller stops as by [`ControllerHandle::shutdown`], without anybody waiting for it.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sender: Sender<Command>,
    /// Bounds the channel, which has no bound of its own because sending must not block a core.
    permits: Arc<Semaphore>,
    image: SharedImage,
    stopped: watch::Receiver<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let (stopped, _) = oneshot::channel();
        let _ = self.sender.send(Command::Shutdown(stopped));
    }
}

impl ControllerHandle {
    /// Runs a request on the quorum thread; `None` when it has stopped.
    async fn ask<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&mut Core) -> Result<R, ControllerError> + Send + 'static,
    ) -> Option<R> {
        let permit = Arc::clone(&self.shared.permits).acquire_owned().await.ok()?;
        let (sender, answer) = oneshot::channel();
        let job = move |core: &mut Core| {
            let response = decide(core)?;
            let send: Answer = Box::new(move || {
                // Nobody waits any more when the future was dropped.
                let _ = sender.send(response);
                drop(permit);
            });
            Ok(send)
        };
        self.shared.sender.send(Command::Decide(Box::new(job))).ok()?;
        answer.await.ok()
    }
}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident($request:ty) -> $response:ty = |$context:ident, $sessions:ident, $now:ident, $r:ident| $decide:expr;)*) => {
        impl ControllerHandle {
            $(
                $(#[$doc])*
                pub async fn $name(&self, request: $request) -> $response {
                    let refused = request.not_controller();
                    let answer = self.ask(move |core| {
                        core.decide(|$context, $sessions, $now| {
                            let $r = &request;
                            $decide
                        })
                    });
                    answer.await.unwrap_or(refused)
                }
            )*
        }
    };
}

requests! {
    /// CreateTopics v2-7. Topics are decided one by one; a refused one does not hold up the others.
    create_topics(CreateTopicsRequest) -> CreateTopicsResponse =
        |context, _sessions, _now, request| topics::create(context, request);
    /// DeleteTopics v1-6, by name or id.
    delete_topics(DeleteTopicsRequest) -> DeleteTopicsResponse =
        |context, _sessions, _now, request| topics::delete(context, request);
    /// CreatePartitions v0-3.
    create_partitions(CreatePartitionsRequest) -> CreatePartitionsResponse =
        |context, _sessions, _now, request| partitions::create(context, request);
    /// IncrementalAlterConfigs v0-1, for topic, broker, client-metrics and group resources.
    incremental_alter_configs(IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse =
        |context, _sessions, _now, request| configs::incremental(context, request);
    /// AlterConfigs v0-2: replaces all overrides of a resource.
    alter_configs(AlterConfigsRequest) -> AlterConfigsResponse =
        |context, _sessions, _now, request| configs::replace(context, request);
    /// AllocateProducerIds v0: a block of 1000 ids, never handed out twice.
    allocate_producer_ids(AllocateProducerIdsRequest) -> AllocateProducerIdsResponse =
        |context, _sessions, _now, request| producer_ids::allocate(context, request);
    /// BrokerRegistration v0-4: the answer holds the broker epoch, which later requests must carry.
    register_broker(BrokerRegistrationRequest) -> BrokerRegistrationResponse =
        |context, sessions, now, request| brokers::register(context, sessions, now, request);
    /// BrokerHeartbeat v0-2: unfences a broker that caught up, fences, and leads a controlled shutdown.
    broker_heartbeat(BrokerHeartbeatRequest) -> BrokerHeartbeatResponse =
        |context, sessions, now, request| brokers::heartbeat(context, sessions, now, request);
    /// AssignReplicasToDirs v0: where a broker with several log directories put its replicas.
    assign_replicas_to_dirs(AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse =
        |context, _sessions, _now, request| directories::assign(context, request);
}

impl ControllerHandle {
    /// The newest published image.
    #[must_use]
    pub fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.shared.image.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns when the quorum thread has ended: by [`ControllerHandle::shutdown`], or because its log failed. In the second
    /// case the process should stop, as nothing of the cluster can change any more.
    pub async fn stopped(&self) {
        let mut stopped = self.shared.stopped.clone();
        while stopped.changed().await.is_ok() {}
    }

    /// Stops the quorum thread after the requests before it, closes the metadata log as a clean stop of Kafka
    /// does, and returns when all is durable. Later requests answer NOT_CONTROLLER.
    pub async fn shutdown(&self) {
        let (stopped, wait) = oneshot::channel();
        if self.shared.sender.send(Command::Shutdown(stopped)).is_ok() {
            // The sender is dropped, without a word, when all is done.
            let _ = wait.await;
        }
    }
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
