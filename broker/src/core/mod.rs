//! A core: one thread that owns connections, partitions and coordinators. Nothing here is shared, so nothing is locked.
//!
//! A *turn* follows every burst of work ([`Turn`]): it starts the disk work of all partitions that were touched, takes what
//! has ended, tells those who waited, and sends each connection's answers in one system call. Batching needs no linger:
//! the busier the core, the larger each turn.

pub mod mailbox;
pub mod placement;
pub mod pool;
pub mod reactor;
pub mod shared;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use controller::MetadataImage;
use protocol_compat::ids::Timestamp;
use storage::disk::{Completion, Engine, Op, Ticket};
use storage::log::Appended;
use tokio::sync::{Notify, oneshot};

use crate::api::init_producer_id::ProducerIdBlock;
use crate::api::produce::{AppendTarget, RemoteProduces};
use crate::config::BrokerConfig;
use crate::fetch::session::Sessions;
use crate::groups::Coordinators;
use crate::metadata::apply::Updates;
use crate::net::Connection;
use crate::partitions::Partitions;
use crate::replica::Released;
use crate::replica::waiters::Polls;
use mailbox::Refused;
use placement::CoreId;
use shared::Shared;

/// Everything that one core owns.
#[derive(Debug)]
pub struct Core {
    /// Which one.
    pub id: CoreId,
    /// What all cores share.
    pub shared: Arc<Shared>,
    /// Topics and the partitions that live here.
    pub partitions: Partitions,
    /// Group coordinators that live here.
    pub coordinators: Coordinators,
    /// Fetch sessions of connections of this core.
    pub sessions: RefCell<Sessions>,
    /// Produce requests that wait for other cores.
    pub remote: RemoteProduces,
    /// Long polls of connections of this core that watch partitions of others.
    pub polls: Polls,
    /// Metadata that is not applied yet.
    pub updates: Updates,
    /// Ids for idempotent producers.
    pub producer_ids: RefCell<ProducerIdBlock>,
    /// Connections by their numbers.
    pub connections: RefCell<HashMap<u64, Rc<Connection>>>,
    /// Bytes of Produce requests that are not answered.
    pub in_flight: InFlight,
    /// Work for the end of the turn.
    pub turn: Turn,
    image: RefCell<Arc<MetadataImage>>,
    engine: RefCell<Box<dyn Engine>>,
    connection_numbers: Cell<u64>,
    clock: Cell<Instant>,
    wall: Cell<Timestamp>,
    /// A list that is used again, so that a release of waiters allocates nothing.
    released: RefCell<Vec<Released<(AppendTarget, Appended)>>>,
}

/// The core that should do something has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the broker is stopping or overloaded")]
pub struct Unreachable;

impl From<Refused> for Unreachable {
    fn from(_: Refused) -> Self {
        Self
    }
}

impl Core {
    /// A core without partitions.
    #[must_use]
    pub fn new(id: CoreId, shared: Arc<Shared>, engine: Box<dyn Engine>) -> Rc<Self> {
        let slots = shared.config.max_incremental_fetch_session_cache_slots;
        Rc::new(Self {
            id,
            partitions: Partitions::default(),
            coordinators: Coordinators::new(&shared.config),
            sessions: RefCell::new(Sessions::new(id, slots.div_ceil(shared.placement.count()))),
            shared,
            remote: RemoteProduces::default(),
            polls: Polls::default(),
            updates: Updates::default(),
            producer_ids: RefCell::default(),
            connections: RefCell::default(),
            in_flight: InFlight::default(),
            turn: Turn::default(),
            image: RefCell::default(),
            engine: RefCell::new(engine),
            connection_numbers: Cell::new(0),
            clock: Cell::new(reactor::monotonic()),
            wall: Cell::new(reactor::wall_clock()),
            released: RefCell::default(),
        })
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &BrokerConfig {
        &self.shared.config
    }

    /// Bytes of unanswered Produce requests at which connections wait.
    #[must_use]
    pub fn in_flight_max(&self) -> usize {
        self.config().queued_max_bytes / self.shared.placement.count()
    }

    /// The metadata that this core has applied.
    #[must_use]
    pub fn image(&self) -> Arc<MetadataImage> {
        Arc::clone(&self.image.borrow())
    }

    /// Takes newer metadata.
    pub fn set_image(&self, image: Arc<MetadataImage>) {
        *self.image.borrow_mut() = image;
    }

    /// The monotonic clock, read once a wake-up: a few tens of microseconds old at most under load.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.get()
    }

    /// The wall clock, read together with [`Core::now`].
    #[must_use]
    pub fn wall_clock(&self) -> Timestamp {
        self.wall.get()
    }

    /// Reads the clocks again.
    pub fn read_clocks(&self) {
        self.clock.set(reactor::monotonic());
        self.wall.set(reactor::wall_clock());
    }

    /// A number for a new connection.
    #[must_use]
    pub fn next_connection_number(&self) -> u64 {
        let number = self.connection_numbers.get() + 1;
        self.connection_numbers.set(number);
        number
    }

    /// Queues a disk operation; the turn starts it.
    pub fn submit(&self, ticket: Ticket, op: Op) {
        self.engine.borrow_mut().submit(ticket, op);
    }

    pub(crate) fn take_released(&self) -> Vec<Released<(AppendTarget, Appended)>> {
        std::mem::take(&mut *self.released.borrow_mut())
    }

    pub(crate) fn give_released(&self, list: Vec<Released<(AppendTarget, Appended)>>) {
        debug_assert!(list.is_empty(), "every released waiter was told");
        *self.released.borrow_mut() = list;
    }

    fn flush_and_reap(&self, completions: &mut Vec<Completion>) {
        let mut engine = self.engine.borrow_mut();
        engine.flush();
        engine.reap(completions);
    }

    /// One turn: until no partition has work that can be started now.
    pub fn run_turn(self: &Rc<Self>) {
        let mut completions = Vec::new();
        loop {
            let mut any = self.coordinators.end_turn(self);
            any |= self.partitions.start_all(self);
            self.flush_and_reap(&mut completions);
            any |= !completions.is_empty();
            for completion in completions.drain(..) {
                self.partitions.io_done(self, completion);
            }
            if !any {
                break;
            }
        }
        self.remote.flush(self);
        for connection in self.turn.take_connections() {
            connection.pump();
        }
    }

    /// Runs something on another core, or here, and gives back what it gave.
    ///
    /// # Errors
    /// The other core is overloaded or has stopped.
    pub async fn on_core<R: Send + 'static>(
        self: &Rc<Self>,
        target: CoreId,
        run: impl FnOnce(&Rc<Core>) -> R + Send + 'static,
    ) -> Result<R, Unreachable> {
        if target == self.id {
            return Ok(run(self));
        }
        let (sender, receiver) = oneshot::channel();
        self.shared.mailbox(target).request(move |core| {
            let _ = sender.send(run(core));
        })?;
        receiver.await.map_err(|_| Unreachable)
    }

    /// As [`Core::on_core`] for what must wait on the other core.
    ///
    /// # Errors
    /// The other core is overloaded or has stopped.
    pub async fn on_core_async<R, F, Fut>(
        self: &Rc<Self>,
        target: CoreId,
        run: F,
    ) -> Result<R, Unreachable>
    where
        R: Send + 'static,
        F: FnOnce(Rc<Core>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        if target == self.id {
            return Ok(run(Rc::clone(self)).await);
        }
        let (sender, receiver) = oneshot::channel();
        self.shared.mailbox(target).request(move |core| {
            let future = run(Rc::clone(core));
            tokio::task::spawn_local(async move {
                let _ = sender.send(future.await);
            });
        })?;
        receiver.await.map_err(|_| Unreachable)
    }
}

/// Bytes of the Produce requests of a core that are not answered: they are held in memory until their disk has them. At the
/// bound (`queued.max.bytes`, shared by the cores) connections wait before they take another request.
#[derive(Debug, Default)]
pub struct InFlight {
    bytes: Cell<usize>,
    fewer: Notify,
}

impl InFlight {
    /// Counts a request.
    pub fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Counts the answer to it.
    pub fn remove(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
        self.fewer.notify_waiters();
    }

    /// Waits until there are fewer than `limit`.
    pub async fn below(&self, limit: usize) {
        while self.bytes.get() >= limit {
            self.fewer.notified().await;
        }
    }
}

/// What waits for the end of the turn.
#[derive(Debug, Default)]
pub struct Turn {
    wanted: Cell<bool>,
    notify: Notify,
    connections: RefCell<Vec<Rc<Connection>>>,
}

impl Turn {
    /// Asks for a turn after the tasks that are ready now.
    pub fn wake(&self) {
        if !self.wanted.replace(true) {
            self.notify.notify_one();
        }
    }

    /// Asks for a turn that sends on this connection.
    pub fn send_on(&self, connection: Rc<Connection>) {
        self.connections.borrow_mut().push(connection);
        self.wake();
    }

    async fn wanted(&self) {
        if !self.wanted.get() {
            self.notify.notified().await;
        }
    }

    fn begin(&self) {
        self.wanted.set(false);
    }

    fn take_connections(&self) -> Vec<Rc<Connection>> {
        std::mem::take(&mut *self.connections.borrow_mut())
    }
}
