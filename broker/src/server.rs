//! Starts a broker and stops it: directories, the metadata quorum, cores, listeners, signals.

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use controller::bootstrap::{self, BootstrapConfig};
use controller::image::Endpoint;
use controller::{Controller, ControllerConfig, ControllerError};
use storage::disk::FileSystem;
use storage::disk::plain::PlainFs;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::BrokerConfig;
use crate::core::Core;
use crate::core::mailbox::mailbox;
use crate::core::placement::{CoreId, Placement};
use crate::core::pool::{Pool, PoolThreads};
use crate::core::reactor::CoreThread;
use crate::core::shared::{ConnectionLimits, Shared};
use crate::directories::Directories;
use crate::metadata::{apply, register};
use crate::net::listener;

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A listener's address cannot be had.
    #[error("listener {name}://{host}:{port} cannot be opened: {source}")]
    Listen {
        /// Name of the listener.
        name: String,
        /// Host to bind.
        host: String,
        /// Port to bind.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The metadata quorum cannot start.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// The log directories cannot be used.
    #[error(transparent)]
    Directories(#[from] storage::dirs::DirError),
    /// Threads, signals or readiness queues cannot be had.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The controller refused this broker.
    #[error("{0}")]
    Refused(String),
}

/// A broker that serves.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<CoreThread>,
    pool: PoolThreads,
}

/// Runs a broker until SIGTERM or SIGINT, then stops it cleanly.
///
/// # Errors
/// It cannot start.
pub fn run(config: BrokerConfig) -> Result<(), ServerError> {
    let started = crate::core::reactor::monotonic();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before anything is started, so that no signal is lost.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server = Server::start(config).await?;
        for (name, address) in server.listening() {
            tracing::info!(listener = %name, %address, "listening");
        }
        tracing::info!(took = ?started.elapsed(), "Kelda started");
        // Container tools wait for these words.
        tracing::info!(
            "[KafkaRaftServer nodeId={node}] Kafka Server started",
            node = server.shared.node_id()
        );
        tracing::info!(
            "[BrokerServer id={node}] Transitioning from RECOVERY to RUNNING",
            node = server.shared.node_id()
        );
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
            () = server.shared.controller.stopped() => {
                // Nothing that changes metadata can be answered any more; what was acknowledged is safe.
                server.stop().await;
                return Err(ServerError::Refused("the metadata quorum has stopped".to_owned()));
            }
        }
        server.stop().await;
        tracing::info!("Kelda stopped");
        Ok(())
    })
}

impl Server {
    /// Starts a broker; it serves on return.
    ///
    /// # Errors
    /// It cannot start; what was started is stopped again.
    pub async fn start(config: BrokerConfig) -> Result<Self, ServerError> {
        raise_descriptor_limit();
        let config = Arc::new(config);
        let fs: Arc<dyn FileSystem> = Arc::new(PlainFs);
        let sockets = bind_all(&config)?;
        let identity = bootstrap::prepare(&bootstrap_config(&config), &*fs)?;
        let directories = Arc::new(Directories::open(&fs, &identity)?);
        let placement = Placement::new(core_count(&config));
        let (mailboxes, inboxes): (Vec<_>, Vec<_>) =
            (0..placement.count()).map(|_| mailbox()).unzip();
        let controller = Controller::start(
            controller_config(&config, &identity),
            Arc::clone(&fs),
            apply::publisher(mailboxes.clone()),
        )?;
        let (pool, pool_threads) = Pool::start(pool_count(&config))?;
        let listening = OnceLock::new();
        let _ = listening.set(
            sockets
                .iter()
                .filter_map(|(name, socket)| Some((Arc::clone(name), socket.local_addr().ok()?)))
                .collect(),
        );
        let shared = Arc::new(Shared {
            cluster_id: identity.cluster_id.as_str().into(),
            placement,
            mailboxes,
            pool,
            controller,
            fs,
            directories,
            connections: ConnectionLimits::new(
                config.max_connections,
                config.max_connections_per_ip,
            ),
            applied: (0..placement.count()).map(|_| watch::Sender::new(-1)).collect(),
            listening,
            stopping: AtomicBool::new(false),
            broker_epoch: AtomicI64::new(-1),
            config,
        });
        let mut threads = Vec::with_capacity(placement.count());
        for (id, inbox) in placement.cores().zip(inboxes) {
            let setting = shared.config.engine;
            let directory = shared.config.log_dirs.first().cloned().unwrap_or_default();
            let make_engine = move || crate::directories::engine(setting, &directory, id);
            threads.push(CoreThread::start(id, Arc::clone(&shared), inbox, make_engine)?);
        }
        let server = Self { shared, threads, pool: pool_threads };
        if let Err(refused) = server.serve(sockets).await {
            server.stop().await;
            return Err(ServerError::Refused(refused));
        }
        Ok(server)
    }

    /// The addresses of the listeners, by name.
    #[must_use]
    pub fn listening(&self) -> &[(Arc<str>, std::net::SocketAddr)] {
        self.shared.listening.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Registers the broker and lets clients in.
    async fn serve(&self, sockets: Vec<(Arc<str>, std::net::TcpListener)>) -> Result<(), String> {
        self.on_first_core(move |core| async move {
            register::register(&core).await?;
            for (name, socket) in sockets {
                tokio::task::spawn_local(listener::accept(Rc::clone(&core), socket, name));
            }
            tokio::task::spawn_local(register::keep_alive(Rc::clone(&core)));
            tokio::task::spawn_local(crate::directories::checkpoint_regularly(core));
            Ok(())
        })
        .await
        .unwrap_or_else(|| Err("the first core ended while starting".to_owned()))
    }

    async fn on_first_core<R, F, Fut>(&self, run: F) -> Option<R>
    where
        R: Send + 'static,
        F: FnOnce(Rc<Core>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.shared.mailbox(CoreId(0)).answer(move |core| {
            let future = run(Rc::clone(core));
            tokio::task::spawn_local(async move {
                let _ = sender.send(future.await);
            });
        });
        receiver.await.ok()
    }

    /// Stops cleanly: leadership is given up, logs are closed and synced, the clean-stop markers are written.
    pub async fn stop(mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.on_first_core(|core| async move {
            register::shut_down(&core).await;
            for owner in core.shared.placement.cores() {
                let closed = core.on_core_async(owner, close_core).await;
                if closed.is_err() {
                    tracing::error!(core = owner.0, "a core could not close its partitions");
                }
            }
            let directories = Arc::clone(&core.shared.directories);
            let epoch = core.shared.broker_epoch();
            let _ = core.shared.pool.call(move || directories.close(epoch)).await;
        })
        .await;
        self.shared.controller.shutdown().await;
        for thread in &mut self.threads {
            thread.stop();
        }
        for thread in self.threads.drain(..) {
            thread.join();
        }
        let Self { shared, pool, .. } = self;
        match Arc::try_unwrap(shared) {
            Ok(shared) => {
                drop(shared);
                pool.join();
            }
            // Someone still holds it; the process ends anyway.
            Err(_) => tracing::debug!("the pool is left to the end of the process"),
        }
    }
}

/// Ends the connections of a core and closes its logs.
async fn close_core(core: Rc<Core>) {
    for connection in core.connections.borrow().values() {
        connection.close();
    }
    for partition in core.partitions.all() {
        let (directory, name) = (partition.directory, partition.name());
        let index = partition.index;
        let topic = Arc::clone(&partition.topic.name);
        let Some(log) =
            core.partitions.close(&core, partition, crate::partitions::Place::NotLeader).await
        else {
            continue;
        };
        let directories = Arc::clone(&core.shared.directories);
        let closed = core
            .shared
            .pool
            .call(move || directories.close_log(directory, &topic, index, log))
            .await;
        if let Ok(Err(error)) = closed {
            tracing::error!(partition = %name, %error, "a log could not be closed cleanly");
            core.shared.directory_failed(directory, &error);
        }
    }
}

fn bind_all(config: &BrokerConfig) -> Result<Vec<(Arc<str>, std::net::TcpListener)>, ServerError> {
    let options = listener::SocketOptions {
        backlog: config.socket_listen_backlog_size,
        send_buffer_bytes: config.socket_send_buffer_bytes,
        receive_buffer_bytes: config.socket_receive_buffer_bytes,
    };
    let mut sockets = Vec::new();
    for wanted in &config.listeners {
        // The controller of a single node has no listener: nobody else would connect to it.
        if config.controller_listener_names.contains(&wanted.name) {
            continue;
        }
        let socket = listener::bind(&wanted.host, wanted.port, options).map_err(|source| {
            ServerError::Listen {
                name: wanted.name.clone(),
                host: wanted.host.clone(),
                port: wanted.port,
                source,
            }
        })?;
        sockets.push((wanted.name.as_str().into(), socket));
    }
    Ok(sockets)
}

fn controller_endpoints(config: &BrokerConfig) -> Vec<Endpoint> {
    config
        .listeners
        .iter()
        .filter(|listener| config.controller_listener_names.contains(&listener.name))
        .map(|listener| Endpoint {
            name: listener.name.clone(),
            host: if listener.host.is_empty() { "localhost".into() } else { listener.host.clone() },
            port: listener.port,
            security_protocol: listener.security_protocol.id(),
        })
        .collect()
}

fn bootstrap_config(config: &BrokerConfig) -> BootstrapConfig {
    BootstrapConfig {
        node_id: config.node_id,
        cluster_id: config.cluster_id.clone(),
        log_dirs: config.log_dirs.clone(),
        metadata_log_dir: config.metadata_log_dir.clone(),
        quorum: config.quorum.clone(),
        controller_endpoints: controller_endpoints(config),
    }
}

fn controller_config(
    config: &BrokerConfig,
    identity: &bootstrap::NodeIdentity,
) -> ControllerConfig {
    let (directory, directory_id) = identity.metadata.clone();
    let mut controller =
        ControllerConfig::new(config.node_id, identity.cluster_id.clone(), directory, directory_id);
    controller.quorum = config.quorum.clone();
    controller.controller_endpoints = controller_endpoints(config);
    controller.static_configs = config.settings.explicit();
    controller.max_idle_interval_ms = config.metadata_max_idle_interval_ms;
    controller.snapshot_bytes_between = config.metadata_snapshot_bytes_between;
    controller.snapshot_interval_ms = config.metadata_snapshot_interval_ms;
    controller.log_segment_bytes = config.metadata_log_segment_bytes;
    controller.log_segment_ms = config.metadata_log_segment_ms;
    controller.retention_bytes = config.metadata_max_retention_bytes;
    controller.retention_ms = config.metadata_max_retention_ms;
    controller.broker_session_timeout_ms = config.broker_session_timeout_ms;
    controller
}

fn core_count(config: &BrokerConfig) -> u16 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Measured on 2 CPUs: one core serves more per CPU-second, since nothing crosses cores, and leaves the other CPU to
    // the kernel, the pool and the quorum (docs/decisions/0003).
    let count = config.num_cores.unwrap_or(if cpus <= 2 { 1 } else { cpus });
    u16::try_from(count.max(1)).unwrap_or(u16::MAX)
}

fn pool_count(config: &BrokerConfig) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    config.pool_threads.unwrap_or_else(|| (cpus / 2).max(2))
}

/// As many descriptors as the system allows: connections and segments take one each.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit on open files stays as it is");
    }
}
