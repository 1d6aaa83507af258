//! [`PlainEngine`]: the engine for kernels that refuse io_uring.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use crate::disk::eventfd::EventFd;
use crate::disk::{Completion, Done, Engine, FileRef, Op, Ticket};

/// Most helper threads of one engine. They only wait for the disk, so that syncs of several files
/// share one journal commit; started when first needed.
const WORKERS_MAX: usize = 16;
/// They run a system call each and need little.
const STACK_BYTES: usize = 64 << 10;

/// Writes run in place, as `pwritev` during [`Engine::flush`]: a page-cache copy. Syncs and reads that
/// miss the page cache run on a few helper threads.
///
/// What ends within `flush` is there for the next [`Engine::reap`] and does not raise readiness.
/// Dropping the engine waits for the helper threads' current calls; what they had not begun is dropped.
#[derive(Debug)]
pub struct PlainEngine {
    queued: Vec<(Ticket, Op)>,
    ended: Vec<Completion>,
    /// Handed to the helpers and not reaped.
    helping: usize,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl PlainEngine {
    /// An engine without threads; they start with the first sync or cold read.
    ///
    /// # Errors
    /// No descriptor is left for the eventfd.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            queued: Vec::new(),
            ended: Vec::new(),
            helping: 0,
            shared: Arc::new(Shared {
                state: Mutex::default(),
                work: Condvar::new(),
                ready: EventFd::new()?,
            }),
            workers: Vec::new(),
        })
    }

    /// Gives work to the helpers; answers it in place when not one thread can be started.
    fn help(&mut self, jobs: Vec<Job>) {
        let mut state = self.shared.lock();
        state.jobs.extend(jobs);
        let missing = state.jobs.len().saturating_sub(state.idle);
        drop(state);
        for _ in 0..missing.min(WORKERS_MAX - self.workers.len()) {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("disk".to_owned()).stack_size(STACK_BYTES);
            match thread.spawn(move || shared.work()) {
                Ok(worker) => self.workers.push(worker),
                Err(error) => {
                    tracing::warn!(%error, "no thread for disk work");
                    break;
                }
            }
        }
        if self.workers.is_empty() {
            self.shared.lock().closed = true;
            Arc::clone(&self.shared).work();
            self.shared.lock().closed = false;
        } else {
            self.shared.work.notify_all();
        }
    }
}

impl Engine for PlainEngine {
    fn submit(&mut self, ticket: Ticket, op: Op) {
        self.queued.push((ticket, op));
    }

    fn flush(&mut self) {
        let mut jobs = Vec::new();
        for (ticket, op) in self.queued.drain(..) {
            match op {
                Op::Write { file, pos, chunks } => {
                    let result = file.write_all_at(&chunks, pos).map(|()| Done::Written);
                    self.ended.push(Completion { ticket, result });
                }
                Op::SyncData { file } => jobs.push(Job { ticket, work: Work::Sync(file) }),
                Op::Read { file, pos, len } => {
                    let mut buf = vec![0; len];
                    match file.read_at_nowait(&mut buf, pos) {
                        Ok(count) => {
                            buf.truncate(count);
                            let result = Ok(Done::Read(Bytes::from(buf)));
                            self.ended.push(Completion { ticket, result });
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            jobs.push(Job { ticket, work: Work::Read { file, pos, buf } });
                        }
                        Err(error) => self.ended.push(Completion { ticket, result: Err(error) }),
                    }
                }
            }
        }
        if !jobs.is_empty() {
            self.helping += jobs.len();
            self.help(jobs);
        }
    }

    fn reap(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.ended);
        if self.helping > 0 {
            let mut state = self.shared.lock();
            if !state.ended.is_empty() {
                self.helping -= state.ended.len();
                out.append(&mut state.ended);
                // Under the lock, as the signal is: readable exactly while something waits.
                self.shared.ready.drain();
            }
        }
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.ready.as_fd())
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.ended.len() + self.helping
    }

    fn name(&self) -> &'static str {
        "plain"
    }
}

impl Drop for PlainEngine {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.jobs.clear();
        drop(state);
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has nothing to hand back.
            let _ = worker.join();
        }
    }
}

#[derive(Debug)]
struct Job {
    ticket: Ticket,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Sync(FileRef),
    Read { file: FileRef, pos: u64, buf: Vec<u8> },
}

impl Work {
    fn run(self) -> io::Result<Done> {
        match self {
            Self::Sync(file) => file.sync_data().map(|()| Done::Synced),
            Self::Read { file, pos, mut buf } => {
                let count = file.read_at(&mut buf, pos)?;
                buf.truncate(count);
                Ok(Done::Read(Bytes::from(buf)))
            }
        }
    }
}

/// What the engine and its helpers share. A lock, since one queue has several takers; it is held for
/// pushes and pops only.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    ready: EventFd,
}

#[derive(Default, Debug)]
struct State {
    jobs: VecDeque<Job>,
    ended: Vec<Completion>,
    /// Helpers that wait for a job.
    idle: usize,
    /// No more jobs come: helpers end when the queue is empty.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A helper's life.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                let completion = Completion { ticket: job.ticket, result: job.work.run() };
                state = self.lock();
                if state.ended.is_empty() {
                    self.ready.signal();
                }
                state.ended.push(completion);
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}
