//! [`SimEngine`]: operations that take a drawn number of reaps and end in a drawn order.

use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;

use bytes::Bytes;

use super::image::SyncPoint;
use super::{SimDisk, SimFile};
use crate::disk::{Completion, Done, Engine, FileRef, Op, Ticket};

/// The engine of a [`SimDisk`]. Time is the count of reaps: see [`super::Latency`].
#[derive(Debug)]
pub struct SimEngine {
    disk: SimDisk,
    queued: Vec<(Ticket, Op)>,
    running: Vec<Running>,
    ended: Vec<Completion>,
    reaps: u64,
}

#[derive(Debug)]
struct Running {
    ticket: Ticket,
    op: Op,
    due: u64,
    /// What a sync found when it began: data written later is not promised.
    sync: Option<io::Result<SyncPoint>>,
}

impl SimEngine {
    pub(super) fn new(disk: SimDisk) -> Self {
        Self { disk, queued: Vec::new(), running: Vec::new(), ended: Vec::new(), reaps: 0 }
    }

    fn start(&mut self, ticket: Ticket, op: Op) {
        let mut state = self.disk.lock();
        let latency = state.latency.clone();
        let wait = state.rng.within(match &op {
            Op::Write { .. } => &latency.write,
            Op::SyncData { .. } => &latency.sync,
            Op::Read { .. } => &latency.read,
        });
        drop(state);
        let sync = match &op {
            Op::SyncData { file } => simulated(file).map(|file| self.disk.begin_sync(file)),
            Op::Write { .. } | Op::Read { .. } => None,
        };
        self.running.push(Running { ticket, op, due: self.reaps + u64::from(wait), sync });
    }

    /// Ends what is due, in a drawn order.
    fn end_due(&mut self) {
        let (mut due, later): (Vec<_>, Vec<_>) =
            self.running.drain(..).partition(|running| running.due <= self.reaps);
        self.running = later;
        while !due.is_empty() {
            let index = self.disk.lock().rng.below(due.len() as u64);
            let running = due.swap_remove(usize::try_from(index).expect("below a length"));
            let ticket = running.ticket;
            self.ended.push(Completion { ticket, result: self.end(running) });
        }
    }

    fn end(&self, running: Running) -> io::Result<Done> {
        match running.op {
            Op::Write { file, pos, chunks } => {
                file.write_all_at(&chunks, pos).map(|()| Done::Written)
            }
            Op::SyncData { file } => {
                match (simulated(&file), running.sync) {
                    (Some(file), Some(point)) => self.disk.end_sync(file, point?)?,
                    _ => file.sync_data()?,
                }
                Ok(Done::Synced)
            }
            Op::Read { file, pos, len } => {
                let mut buf = vec![0; len];
                let count = file.read_at(&mut buf, pos)?;
                buf.truncate(count);
                Ok(Done::Read(Bytes::from(buf)))
            }
        }
    }
}

fn simulated(file: &FileRef) -> Option<&SimFile> {
    let file: &dyn Any = &**file;
    file.downcast_ref()
}

impl Engine for SimEngine {
    fn submit(&mut self, ticket: Ticket, op: Op) {
        self.queued.push((ticket, op));
    }

    fn flush(&mut self) {
        for (ticket, op) in std::mem::take(&mut self.queued) {
            self.start(ticket, op);
        }
        self.end_due();
    }

    fn reap(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.ended);
        self.reaps += 1;
        self.end_due();
        out.append(&mut self.ended);
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn in_flight(&self) -> usize {
        self.queued.len() + self.running.len() + self.ended.len()
    }

    fn name(&self) -> &'static str {
        "sim"
    }
}
