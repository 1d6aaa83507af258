//! Threads for what may block: opening and recovering logs, rolls, checkpoints, searches, recompression.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The pool has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the broker is stopping")]
pub struct PoolStopped;

/// A handle of the pool; the last one to go ends its threads after the jobs before.
#[derive(Clone, Debug)]
pub struct Pool {
    sender: mpsc::Sender<Job>,
}

/// The threads.
#[derive(Debug)]
pub struct PoolThreads {
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(count: usize) -> std::io::Result<(Self, PoolThreads)> {
        let (sender, receiver) = mpsc::channel::<Job>();
        // The lock is held only to take a job, never on the data path.
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::with_capacity(count);
        for index in 0..count.max(1) {
            let receiver = Arc::clone(&receiver);
            let body = move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    match job {
                        Ok(job) => job(),
                        Err(mpsc::RecvError) => return,
                    }
                }
            };
            threads.push(
                std::thread::Builder::new()
                    .name(format!("pool-{index}"))
                    .stack_size(1 << 20)
                    .spawn(body)?,
            );
        }
        Ok((Self { sender }, PoolThreads { threads }))
    }

    /// Runs a job some time soon.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        let _ = self.sender.send(Box::new(job));
    }

    /// Runs a job and gives back what it gave.
    ///
    /// # Errors
    /// The job panicked, or the pool has stopped.
    pub async fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, PoolStopped> {
        let (sender, receiver) = oneshot::channel();
        self.spawn(move || {
            let _ = sender.send(job());
        });
        receiver.await.map_err(|_| PoolStopped)
    }
}

impl PoolThreads {
    /// Waits until the threads are gone; every [`Pool`] handle must be dropped before.
    pub fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a pool thread panicked");
            }
        }
    }
}
