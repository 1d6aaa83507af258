//! [`RingEngine`]: the engine over io_uring.
//!
//! Syncs and cold reads always go through the ring. Writes go in place (`pwritev`) or through the ring, as
//! [`AppendPath`] says: see `docs/decisions/0001`.
//!
//! Ownership: an operation in flight lives in the [`Table`] with its file and buffers, also when the caller has lost
//! interest; the ring's `user_data` is its key. Memory is freed when the kernel has reported the end, and the ring
//! is closed when nothing is in flight.
#![allow(unsafe_code, reason = "the ring takes pointers; see the SAFETY notes")]

mod stall;
mod table;
mod transfer;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};

use self::stall::StallGuard;
use self::table::{Key, Table};
use self::transfer::{ReadTransfer, Step, WriteTransfer, take_sync};
use super::eventfd::EventFd;
use super::{Completion, Done, Engine, File, FileRef, Op, Ticket};

/// Places of the submission queue. A turn submits at most a sync or write for each dirty partition; more wait in the
/// engine's own queue.
const SUBMISSIONS: u32 = 256;
/// Places of the completion queue, and so the most that the kernel works on at once.
const COMPLETIONS: u32 = 1024;
/// Kernel threads for syncs of one ring. Syncs that run at the same time share a journal commit: with 100 dirty files on
/// two CPUs, 32 threads in place of the kernel's own bound of 8 gave 1.8 times the syncs at 0.75 of the CPU each. Idle
/// ones end after five seconds.
const WORKERS: u32 = 32;
/// After so many reaps in a row that found nothing, readiness is cleared. See [`RingEngine::reap`].
const EMPTY_REAPS: u32 = 16;

/// Where writes run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendPath {
    /// `pwritev` during [`Engine::flush`]; through the ring for a while after a write in place stalled.
    InPlace,
    /// Always through the ring.
    Ring,
}

/// An engine over one ring.
pub struct RingEngine {
    ring: IoUring,
    table: Table<Running>,
    /// Entries of the table that the kernel has not been given.
    waiting: VecDeque<Key>,
    /// Entries that the ring holds: submitted, or in the submission queue.
    in_ring: usize,
    queued: Vec<(Ticket, Op)>,
    ended: Vec<Completion>,
    ready: EventFd,
    empty_reaps: u32,
    append: AppendPath,
    stall: StallGuard,
}

#[derive(Debug)]
struct Running {
    ticket: Ticket,
    file: FileRef,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Write(WriteTransfer),
    Sync,
    Read(ReadTransfer),
}

impl std::fmt::Debug for RingEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingEngine")
            .field("append", &self.append)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl RingEngine {
    /// A ring with its eventfd, after a check that the kernel knows each operation.
    ///
    /// # Errors
    /// What the kernel reports; [`io::ErrorKind::Unsupported`] when it lacks an operation. [`super::probe`] explains.
    pub fn new(append: AppendPath) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            // One refused entry must not hold up those behind it.
            .setup_submit_all()
            .dontfork()
            .build(SUBMISSIONS)
            .or_else(|error| match error.raw_os_error() {
                // Before Linux 5.18 `submit_all` is unknown; `pump` submits again what was held up.
                Some(libc::EINVAL) => {
                    IoUring::builder().setup_cqsize(COMPLETIONS).dontfork().build(SUBMISSIONS)
                }
                _ => Err(error),
            })?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Writev::CODE, opcode::Fsync::CODE, opcode::Read::CODE];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_submit_stable() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let ready = EventFd::new()?;
        ring.submitter().register_eventfd(ready.as_fd().as_raw_fd())?;
        let engine = Self {
            ring,
            table: Table::new(),
            waiting: VecDeque::new(),
            in_ring: 0,
            queued: Vec::new(),
            ended: Vec::new(),
            ready,
            empty_reaps: 0,
            append,
            stall: StallGuard::default(),
        };
        if let Err(error) = engine.limit_workers(WORKERS) {
            tracing::debug!(%error, "the kernel keeps its own bound on disk workers");
        }
        Ok(engine)
    }

    /// Bounds the kernel's worker threads of the calling thread's rings; syncs run on them.
    ///
    /// # Errors
    /// What the kernel reports; before Linux 5.15 it knows no other bound than its own, four for each CPU.
    pub fn limit_workers(&self, count: u32) -> io::Result<()> {
        // The second number bounds workers for sockets and the like, which this ring has none of; 0 keeps it.
        self.ring.submitter().register_iowq_max_workers(&mut [count, 0])
    }

    fn start(&mut self, ticket: Ticket, op: Op, in_place: bool) {
        let (file, work) = match op {
            Op::Write { file, pos, chunks } => {
                if in_place || file.fd().is_none() {
                    let result = self.write_in_place(&*file, &chunks, pos);
                    self.ended.push(Completion { ticket, result: result.map(|()| Done::Written) });
                    return;
                }
                (file, Work::Write(WriteTransfer::new(chunks, pos)))
            }
            Op::SyncData { file } => (file, Work::Sync),
            Op::Read { file, pos, len } => (file, Work::Read(ReadTransfer::new(pos, len))),
        };
        let running = Running { ticket, file, work };
        let nothing_to_do = match &running.work {
            Work::Write(transfer) => transfer.is_done(),
            Work::Read(transfer) => transfer.is_done(),
            Work::Sync => false,
        };
        if nothing_to_do {
            self.ended.push(running.ended(Ok(())));
        } else if running.file.fd().is_none() {
            // A file of a simulated disk.
            let ended = running.without_ring();
            self.ended.push(ended);
        } else {
            self.waiting.push_back(self.table.insert(running));
        }
    }

    fn write_in_place(
        &mut self,
        file: &dyn File,
        chunks: &[bytes::Bytes],
        pos: u64,
    ) -> io::Result<()> {
        let start = Instant::now();
        let sleeps = self.stall.watches(start).then(sleeps);
        let result = file.write_all_at(chunks, pos);
        let slept = sleeps.map(sleeps_since);
        if self.stall.wrote(start, Instant::now(), slept) {
            tracing::debug!("a write waited for the disk; the ring writes for a while");
        }
        result
    }

    /// Moves what waits into the submission queue and submits it.
    fn pump(&mut self) {
        loop {
            let mut queue = self.ring.submission();
            while self.in_ring < COMPLETIONS as usize && !queue.is_full() {
                let Some(key) = self.waiting.pop_front() else {
                    break;
                };
                let Some(running) = self.table.get_mut(key) else {
                    continue;
                };
                let Some(entry) = running.entry() else {
                    continue;
                };
                let entry = entry.user_data(key.to_bits());
                // SAFETY: the entry's descriptor, pieces and buffer belong to the table's entry `key`, whose
                // allocations do not move and are dropped only after its completion was reaped.
                if unsafe { queue.push(&entry) }.is_err() {
                    self.waiting.push_front(key);
                    break;
                }
                self.in_ring += 1;
            }
            if queue.is_empty() {
                return;
            }
            drop(queue);
            match self.ring.submit() {
                // Once more: for what waits, and (before Linux 5.18) for what stood behind a refused entry.
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Out of memory or of completions for now: whoever waits for readiness must come back.
                    Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => {
                        self.ready.signal();
                        return;
                    }
                    _ => panic!("io_uring_enter refused a valid ring: {error}"),
                },
            }
        }
    }

    /// Takes one completion of the ring.
    fn take(&mut self, key: Key, result: i32) {
        self.in_ring -= 1;
        let Some(running) = self.table.get_mut(key) else {
            // Keys are removed only here, so the kernel reported one operation twice.
            panic!("io_uring reported an unknown operation");
        };
        let result = match running.work.take(result) {
            Step::Again => {
                self.waiting.push_back(key);
                return;
            }
            Step::Done => Ok(()),
            Step::Failed(error) => Err(error),
        };
        if let Some(running) = self.table.remove(key) {
            self.ended.push(running.ended(result));
        }
    }

    /// Takes all completions that the ring shows; how many.
    fn take_all(&mut self) -> usize {
        let mut count = 0;
        loop {
            let Some(entry) = self.ring.completion().next() else {
                return count;
            };
            count += 1;
            self.take(Key::from_bits(entry.user_data()), entry.result());
        }
    }
}

impl Engine for RingEngine {
    fn submit(&mut self, ticket: Ticket, op: Op) {
        self.queued.push((ticket, op));
    }

    fn flush(&mut self) {
        if !self.queued.is_empty() {
            let in_place = match self.append {
                AppendPath::Ring => false,
                AppendPath::InPlace => !self.stall.prefers_ring(Instant::now()),
            };
            let mut queued = mem::take(&mut self.queued);
            for (ticket, op) in queued.drain(..) {
                self.start(ticket, op, in_place);
            }
            self.queued = queued;
        }
        if !self.waiting.is_empty() {
            self.pump();
        }
    }

    /// Readiness is cleared before the completions are read. The kernel signals after it has shown a completion, so a
    /// signal may come when its completion is long reaped; a core that sleeps on level-triggered readiness then
    /// finds nothing, up to [`EMPTY_REAPS`] times. Clearing at each empty reap would cost a system call each turn.
    fn reap(&mut self, out: &mut Vec<Completion>) {
        if self.in_ring > 0 {
            if self.ring.completion().is_empty() {
                self.empty_reaps += 1;
                if self.empty_reaps == EMPTY_REAPS {
                    self.ready.drain();
                    self.empty_reaps = 0;
                }
            } else {
                self.ready.drain();
                self.empty_reaps = 0;
            }
            // Also after an empty look: a completion may have come just before readiness was cleared.
            self.take_all();
        } else {
            self.empty_reaps += 1;
            if self.empty_reaps == EMPTY_REAPS {
                self.ready.drain();
                self.empty_reaps = 0;
            }
        }
        if !self.waiting.is_empty() {
            self.pump();
        }
        out.append(&mut self.ended);
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.as_fd())
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.table.len() + self.ended.len()
    }

    fn name(&self) -> &'static str {
        "uring"
    }
}

impl Drop for RingEngine {
    /// Waits for what the kernel works on; what it was not given is dropped.
    fn drop(&mut self) {
        while self.in_ring > 0 {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => {}
                Err(error) => {
                    tracing::error!(%error, in_ring = self.in_ring, "leaking disk buffers");
                    // The kernel may still write into them.
                    mem::forget(mem::replace(&mut self.table, Table::new()));
                    return;
                }
            }
            self.take_all();
        }
    }
}

impl Running {
    /// The submission for what is left; `None` never happens for files that came this far.
    fn entry(&mut self) -> Option<squeue::Entry> {
        let fd = Fd(self.raw_fd()?);
        Some(match &mut self.work {
            Work::Write(transfer) => {
                let pos = transfer.pos();
                let pieces = transfer.pieces();
                let count = u32::try_from(pieces.len()).expect("at most IOV_MAX");
                opcode::Writev::new(fd, pieces.as_ptr(), count).offset(pos).build()
            }
            Work::Sync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            Work::Read(transfer) => {
                let (buf, pos) = transfer.rest();
                let len = u32::try_from(buf.len()).expect("at most TRANSFER_BYTES_MAX");
                opcode::Read::new(fd, buf.as_mut_ptr(), len).offset(pos).build()
            }
        })
    }

    fn raw_fd(&self) -> Option<RawFd> {
        self.file.fd().map(|fd| fd.as_raw_fd())
    }

    fn ended(self, result: io::Result<()>) -> Completion {
        let result = result.map(|()| match self.work {
            Work::Write(_) => Done::Written,
            Work::Sync => Done::Synced,
            Work::Read(transfer) => Done::Read(transfer.into_bytes()),
        });
        Completion { ticket: self.ticket, result }
    }

    fn without_ring(mut self) -> Completion {
        let result = match &mut self.work {
            Work::Write(_) => Err(io::ErrorKind::Unsupported.into()),
            Work::Sync => self.file.sync_data(),
            Work::Read(transfer) => {
                let (buf, pos) = transfer.rest();
                self.file.read_at(buf, pos).map(|count| {
                    // A count of 0 ends it as well.
                    let _ = transfer.take(i32::try_from(count).expect("TRANSFER_BYTES_MAX"));
                })
            }
        };
        self.ended(result)
    }
}

impl Work {
    fn take(&mut self, result: i32) -> Step {
        match self {
            Self::Write(transfer) => transfer.take(result),
            Self::Sync => take_sync(result),
            Self::Read(transfer) => transfer.take(result),
        }
    }
}

/// How often this thread has given up the CPU to wait.
fn sleeps() -> i64 {
    let mut usage = mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure that we own; all zeros is a valid value should it refuse.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: zeroed above.
    unsafe { usage.assume_init() }.ru_nvcsw
}

fn sleeps_since(before: i64) -> bool {
    sleeps() > before
}
