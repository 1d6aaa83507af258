//! The thread of a core: a tokio current-thread runtime with the tasks that keep the core going.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol_compat::ids::Timestamp;
use storage::disk::Engine;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

use super::Core;
use super::mailbox::{Inbox, Message};
use super::placement::CoreId;
use super::shared::Shared;

/// Messages taken from the mailbox before other tasks run.
const MESSAGES_A_STEP: usize = 256;
/// A turn that takes longer than this is logged: something blocked the core.
const STALL: Duration = Duration::from_millis(50);

/// The monotonic clock.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that reads it for cores")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// The wall clock in milliseconds.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "the one place that reads it for cores")]
pub fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A running core thread.
#[derive(Debug)]
pub struct CoreThread {
    thread: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl CoreThread {
    /// Starts the thread of a core.
    ///
    /// # Errors
    /// The operating system gives no thread, or no readiness queue.
    pub fn start(
        id: CoreId,
        shared: Arc<Shared>,
        inbox: Inbox,
        make_engine: impl FnOnce() -> io::Result<Box<dyn Engine>> + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let thread =
            std::thread::Builder::new().name(format!("core-{}", id.0)).spawn(move || {
                let started = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .event_interval(61)
                    .build()
                    .and_then(|runtime| Ok((runtime, make_engine()?)));
                let (runtime, engine) = match started {
                    Ok(parts) => {
                        let _ = ready.send(Ok(()));
                        parts
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return;
                    }
                };
                let local = LocalSet::new();
                local.block_on(&runtime, run(id, shared, inbox, engine, stopped));
            })?;
        is_ready.recv().map_err(|_| io::Error::other("a core thread ended while starting"))??;
        Ok(Self { thread, stop: Some(stop) })
    }

    /// Asks the core to end; what it owns must be closed before.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Waits for the end of the thread.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("a core thread panicked");
        }
    }
}

async fn run(
    id: CoreId,
    shared: Arc<Shared>,
    inbox: Inbox,
    engine: Box<dyn Engine>,
    stopped: oneshot::Receiver<()>,
) {
    let readiness = engine.readiness().map(|fd| fd.try_clone_to_owned());
    let core = Core::new(id, shared, engine);
    spawn_local(vital(take_messages(Rc::clone(&core), inbox)));
    spawn_local(vital(take_turns(Rc::clone(&core))));
    match readiness {
        Some(Ok(fd)) => {
            spawn_local(vital(reap_when_ready(Rc::clone(&core), fd)));
        }
        Some(Err(error)) => {
            tracing::error!(%error, "the disk engine's completions cannot be watched");
            return;
        }
        None => {}
    }
    spawn_local(vital(crate::timers::run(Rc::clone(&core))));
    spawn_local(vital(crate::metadata::apply::run(Rc::clone(&core))));
    let _ = stopped.await;
}

/// A task without which the core is not one: when it panics, an invariant is broken, and the process ends at once rather
/// than serve on. The next start recovers what was acknowledged.
async fn vital(task: impl Future<Output = ()>) {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            if std::thread::panicking() {
                tracing::error!("a task of a core panicked: the broker ends");
                std::process::abort();
            }
        }
    }
    let _guard = Guard;
    task.await;
}

async fn take_messages(core: Rc<Core>, mut inbox: Inbox) {
    let mut messages: Vec<Message> = Vec::new();
    while inbox.receive(&mut messages, MESSAGES_A_STEP).await > 0 {
        core.read_clocks();
        for message in messages.drain(..) {
            message(&core);
        }
    }
}

async fn take_turns(core: Rc<Core>) {
    loop {
        core.turn.wanted().await;
        // After the connections that are ready now, so that one turn serves them all.
        Later::default().await;
        core.turn.begin();
        let before = monotonic();
        core.run_turn();
        let after = monotonic();
        core.read_clocks();
        if after - before > STALL {
            tracing::warn!(took = ?(after - before), core = id_of(&core), "a turn stalled the core");
        }
    }
}

fn id_of(core: &Core) -> u16 {
    core.id.0
}

/// Runs the rest of a task after all tasks that are ready now, without a look at the sockets in between
/// (`tokio::task::yield_now` would ask the kernel for events first).
#[derive(Debug, Default)]
struct Later {
    polled: bool,
}

impl Future for Later {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.polled {
            return Poll::Ready(());
        }
        self.polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn reap_when_ready(core: Rc<Core>, fd: OwnedFd) {
    #[allow(deprecated, reason = "an owned descriptor is what makes it sound")]
    let watched = match AsyncFd::with_interest(fd, Interest::READABLE) {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!(%error, "the disk engine's completions cannot be watched");
            return;
        }
    };
    loop {
        match watched.readable().await {
            Ok(mut ready) => {
                ready.clear_ready();
                // The engine clears its descriptor when it is reaped, in the turn.
                core.read_clocks();
                core.turn.wake();
            }
            Err(error) => {
                tracing::error!(%error, "the disk engine's completions cannot be watched");
                return;
            }
        }
    }
}
