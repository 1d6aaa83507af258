//! The quorum thread: takes requests, decides, appends, flushes once for all of a turn, publishes, answers.
//!
//! Nothing leaves before its records are durable: answers of a turn wait for the one flush behind it.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use protocol_compat::ids::Uuid;
use tokio::sync::oneshot;

use crate::clock::{self, Monotonic};
use crate::controller::ControllerConfig;
use crate::decide::brokers::{self, Sessions};
use crate::decide::{Context, Decision, Settings, activation};
use crate::error::ControllerError;
use crate::image::replay::Replay;
use crate::image::{MetadataDelta, MetadataImage};
use crate::raft::log_port::OpenLog;
use crate::raft::node::{Node, Opened};
use crate::raft::snapshot::SnapshotId;
use crate::records::MetadataRecord;
use crate::records::metadata::NoOpRecord;
use storage::disk::FileSystem;

/// Most requests that share one flush.
const TURN_REQUESTS: usize = 256;
/// How often the log's own timed work runs.
const TICK_MS: u64 = 1_000;

/// What is called with each new image.
pub(crate) type Publisher = Box<dyn FnMut(Arc<MetadataImage>, Arc<MetadataDelta>) + Send>;

/// Decides a request; gives what sends the answer.
pub(crate) type Job = Box<dyn FnOnce(&mut Core) -> Result<Answer, ControllerError> + Send>;

/// Sends an answer, once its turn is durable.
pub(crate) type Answer = Box<dyn FnOnce() + Send>;

/// What reaches the thread.
pub(crate) enum Command {
    Decide(Job),
    Shutdown(oneshot::Sender<()>),
    SnapshotDone(Result<SnapshotId, ControllerError>),
}

/// The newest image, for everyone.
pub(crate) type SharedImage = Arc<RwLock<Arc<MetadataImage>>>;

/// State of the active controller.
pub(crate) struct Core {
    config: ControllerConfig,
    settings: Settings,
    node: Node,
    replay: Replay,
    sessions: Sessions,
    clock: Monotonic,
    /// Whether something was appended that nobody has flushed.
    unflushed: bool,
    /// Whether something changed that was not published.
    changed: bool,
    last_append_ms: u64,
    last_snapshot_ms: u64,
    snapshot_running: bool,
}

impl Core {
    /// Opens everything, begins an epoch and writes the first records of it, all durable on return.
    pub(crate) fn open(
        config: ControllerConfig,
        fs: Arc<dyn FileSystem>,
        open_log: Box<OpenLog>,
    ) -> Result<Self, ControllerError> {
        let clock = Monotonic::start();
        let now_ms = clock::now_ms();
        let Opened { node, replay, bootstrap } = Node::open(&config, fs, open_log, now_ms)?;
        let settings = Settings {
            node_id: config.node_id,
            cluster_id: config.cluster_id.clone(),
            static_configs: config.static_configs.clone(),
        };
        let sessions = Sessions::new(
            config.broker_session_timeout_ms,
            replay.image().brokers(),
            clock.now_ms(),
        );
        let mut core = Self {
            config,
            settings,
            node,
            replay,
            sessions,
            clock,
            unflushed: true,
            changed: true,
            last_append_ms: 0,
            last_snapshot_ms: 0,
            snapshot_running: false,
        };
        core.activate(&bootstrap)?;
        core.node.flush()?;
        core.unflushed = false;
        Ok(core)
    }

    fn activate(&mut self, bootstrap: &[MetadataRecord]) -> Result<(), ControllerError> {
        if self.replay.in_transaction() {
            self.append(&[activation::abort_transaction()])?;
        }
        if !bootstrap.is_empty() {
            let records = self.with_context(|context, _, _| activation::first(context, bootstrap));
            self.append(&records)?;
            activation::check_features(self.replay.image().features().levels.iter())?;
        }
        let registration = activation::register_controller(
            self.replay.image().features().metadata_version(),
            self.config.node_id,
            crate::bootstrap::random_id(),
            &self.config.controller_endpoints,
        );
        self.append(registration.as_slice())
    }

    /// What decisions read, the sessions, and the monotonic time.
    fn with_context<T>(&mut self, f: impl FnOnce(&mut Context<'_>, &mut Sessions, u64) -> T) -> T {
        let mut new_id: fn() -> Uuid = crate::bootstrap::random_id;
        let mut context = Context {
            image: self.replay.image(),
            settings: &self.settings,
            next_offset: self.node.end().0,
            new_id: &mut new_id,
        };
        f(&mut context, &mut self.sessions, self.clock.now_ms())
    }

    /// Decides, appends and replays; the answer may leave after the next flush.
    pub(crate) fn decide<R>(
        &mut self,
        decide: impl FnOnce(&mut Context<'_>, &mut Sessions, u64) -> Decision<R>,
    ) -> Result<R, ControllerError> {
        let decision = self.with_context(decide);
        self.append(&decision.records)?;
        Ok(decision.response)
    }

    fn append(&mut self, records: &[MetadataRecord]) -> Result<(), ControllerError> {
        if records.is_empty() {
            return Ok(());
        }
        self.node.append(&mut self.replay, records, clock::now_ms())?;
        self.unflushed = true;
        self.changed = true;
        self.last_append_ms = self.clock.now_ms();
        Ok(())
    }

    fn fence_stale(&mut self) -> Result<(), ControllerError> {
        while let Some((id, records)) =
            self.with_context(|context, sessions, now| brokers::fence_stale(context, sessions, now))
        {
            tracing::warn!(broker = %id, "fencing a broker that sent no heartbeat for broker.session.timeout.ms");
            self.append(&records)?;
        }
        Ok(())
    }

    /// Keeps the log moving when nothing happens, as Kafka's observers expect. Nobody waits for it, so nothing is synced.
    fn idle_record(&mut self) -> Result<(), ControllerError> {
        let interval = self.config.max_idle_interval_ms;
        if interval == 0 || self.clock.now_ms() < self.last_append_ms.saturating_add(interval) {
            return Ok(());
        }
        let record = MetadataRecord::NoOp(NoOpRecord::default());
        self.node.append(&mut self.replay, &[record], clock::now_ms())?;
        self.last_append_ms = self.clock.now_ms();
        self.node.write()
    }

    /// When the thread must wake without being asked.
    fn next_deadline_ms(&mut self) -> u64 {
        let session = self.with_context(|context, sessions, _| sessions.next_deadline_ms(context));
        let idle = match self.config.max_idle_interval_ms {
            0 => u64::MAX,
            interval => self.last_append_ms.saturating_add(interval),
        };
        let now = self.clock.now_ms();
        session.unwrap_or(u64::MAX).min(idle).min(now.saturating_add(TICK_MS))
    }

    fn snapshot_is_due(&self) -> bool {
        if self.snapshot_running || self.replay.in_transaction() {
            return false;
        }
        let bytes = self.node.bytes_since_snapshot();
        let interval = self.config.snapshot_interval_ms;
        bytes >= self.config.snapshot_bytes_between
            || (interval > 0
                && bytes > 0
                && self.clock.now_ms() >= self.last_snapshot_ms.saturating_add(interval))
    }
}

/// The thread's loop.
pub(crate) struct Driver {
    pub(crate) core: Core,
    pub(crate) commands: Receiver<Command>,
    /// For the snapshot's thread.
    pub(crate) sender: Sender<Command>,
    pub(crate) image: SharedImage,
    pub(crate) publisher: Publisher,
}

impl Driver {
    /// Publishes the whole image for the first time.
    pub(crate) fn publish_first(&mut self) {
        if let Some((image, mut delta)) = self.core.replay.finish() {
            delta.from_start = true;
            self.core.changed = false;
            self.hand_out(image, delta);
        }
    }

    fn hand_out(&mut self, image: MetadataImage, delta: MetadataDelta) {
        let image = Arc::new(image);
        *self.image.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&image);
        (self.publisher)(image, Arc::new(delta));
    }

    /// Serves until it is told to stop, everybody is gone, or the disk fails.
    pub(crate) fn run(mut self) {
        let mut last_tick_ms = 0;
        loop {
            let now = self.core.clock.now_ms();
            let wait = self.core.next_deadline_ms().saturating_sub(now);
            let first = match self.commands.recv_timeout(Duration::from_millis(wait)) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let stop = match self.turn(first) {
                Ok(stop) => stop,
                Err(error) => {
                    tracing::error!(%error, "the controller stops: its metadata log failed");
                    return;
                }
            };
            if let Some(stopped) = stop {
                match self.core.node.close() {
                    Ok(()) => tracing::info!("controller stopped"),
                    Err(error) => {
                        tracing::error!(%error, "the metadata log was not closed cleanly")
                    }
                }
                drop(stopped);
                return;
            }
            let now = self.core.clock.now_ms();
            if now >= last_tick_ms + TICK_MS {
                last_tick_ms = now;
                if let Err(error) = self.timed() {
                    tracing::error!(%error, "the controller stops: its metadata log failed");
                    return;
                }
            }
        }
    }

    /// One turn: all requests that wait, one flush, one publication, their answers. Gives who asked for the stop.
    fn turn(
        &mut self,
        first: Option<Command>,
    ) -> Result<Option<oneshot::Sender<()>>, ControllerError> {
        let mut answers = VecDeque::new();
        let mut stop = None;
        let mut next = first;
        while let Some(command) = next.take() {
            match command {
                Command::Decide(job) => answers.push_back(job(&mut self.core)?),
                Command::SnapshotDone(result) => self.snapshot_done(result)?,
                Command::Shutdown(sender) => {
                    stop = Some(sender);
                    break;
                }
            }
            if answers.len() < TURN_REQUESTS {
                next = self.commands.try_recv().ok();
            }
        }
        self.core.fence_stale()?;
        if self.core.unflushed {
            self.core.node.flush()?;
            self.core.unflushed = false;
        }
        self.publish();
        for answer in answers {
            answer();
        }
        if stop.is_none() {
            self.core.idle_record()?;
        }
        Ok(stop)
    }

    fn publish(&mut self) {
        if !self.core.changed {
            return;
        }
        if let Some((image, delta)) = self.core.replay.finish() {
            self.core.changed = false;
            self.hand_out(image, delta);
        }
    }

    fn timed(&mut self) -> Result<(), ControllerError> {
        self.core.node.tick(clock::now_ms())?;
        if self.core.snapshot_is_due() {
            // What a snapshot holds must be committed: records that only idle wrote may not be yet.
            self.core.node.flush()?;
            self.start_snapshot();
        }
        Ok(())
    }

    fn start_snapshot(&mut self) {
        let image = Arc::new(self.core.replay.image().clone());
        let job = self.core.node.snapshot_job(&image);
        let sender = self.sender.clone();
        self.core.snapshot_running = true;
        self.core.last_snapshot_ms = self.core.clock.now_ms();
        let work = move || {
            // The receiver is gone only when the controller is.
            let _ = sender.send(Command::SnapshotDone(job.run()));
        };
        if let Err(error) =
            std::thread::Builder::new().name("quorum-snapshot".to_owned()).spawn(work)
        {
            self.core.snapshot_running = false;
            tracing::warn!(%error, "no thread for a metadata snapshot; it is tried again later");
        }
    }

    fn snapshot_done(
        &mut self,
        result: Result<SnapshotId, ControllerError>,
    ) -> Result<(), ControllerError> {
        self.core.snapshot_running = false;
        let id = result?;
        tracing::info!(end_offset = %id.end_offset, epoch = %id.epoch, "metadata snapshot written");
        self.core.node.snapshot_written(id, &self.core.config, clock::now_ms())
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
