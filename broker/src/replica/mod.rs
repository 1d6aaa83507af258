//! A partition as its leader sees it: positions, who waits for them, what the high watermark is.
//!
//! A machine without IO: [`Replica`] owns the [`Log`], whose work its shell ([`crate::partitions`]) carries out. This broker
//! is the only replica, so the high watermark follows the log: `flushed` under durability `fsync`, `written` under
//! `page-cache`. Followers and the ISR join here with the cluster.

pub mod waiters;

use protocol_compat::ErrorCode;
use protocol_compat::batch::produce::CheckedBatch;
use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};
use storage::log::{AppendError, Appended, Durability, LeaderAppend, Log, LogConfig, StageOutcome};

use crate::replica::waiters::{AppendWaiters, Watchers};

/// What an append waits for before it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// Nothing: `acks=0`.
    None,
    /// Written by the leader: `acks=1`.
    Leader,
    /// Committed: `acks=all`.
    All,
}

/// A waiter that was released, and how.
#[derive(Debug)]
pub struct Released<T> {
    /// Whom to tell.
    pub waiter: T,
    /// The append's outcome.
    pub result: Result<(), ErrorCode>,
}

/// The leader of one partition. `T` is whom an append's outcome is told.
#[derive(Debug)]
pub struct Replica<T> {
    log: Log,
    leader_epoch: LeaderEpoch,
    waiting_written: AppendWaiters<T>,
    waiting_committed: AppendWaiters<T>,
    watchers: Watchers,
    /// The directory failed: nothing is appended or read any more.
    offline: bool,
}

impl<T> Replica<T> {
    /// Becomes the leader over an open log.
    pub fn lead(mut log: Log, leader_epoch: LeaderEpoch) -> Self {
        log.start_leader_epoch(leader_epoch);
        let mut replica = Self {
            log,
            leader_epoch,
            waiting_written: AppendWaiters::default(),
            waiting_committed: AppendWaiters::default(),
            watchers: Watchers::default(),
            offline: false,
        };
        // What a restart finds is committed: there is no other replica that could know better.
        if replica.log.flushed() < replica.log.written() {
            replica.log.request_sync();
        }
        replica.advance_high_watermark();
        replica
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The log, for its shell.
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Gives the log back: the replica is closed or moves.
    #[must_use]
    pub fn into_log(self) -> Log {
        self.log
    }

    /// The epoch it leads in.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// Leads in a later epoch.
    pub fn set_leader_epoch(&mut self, epoch: LeaderEpoch) {
        if epoch > self.leader_epoch {
            self.leader_epoch = epoch;
            self.log.start_leader_epoch(epoch);
        }
    }

    /// Whether its directory failed.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Takes new settings, which may move the high watermark.
    pub fn set_config(&mut self, config: LogConfig, released: &mut Vec<Released<T>>) {
        self.log.set_config(config);
        if self.needs_sync() {
            self.log.request_sync();
        }
        self.progress(released);
    }

    fn needs_sync(&self) -> bool {
        self.log.config().durability == Durability::Fsync && self.log.flushed() < self.log.staged()
    }

    /// Appends a batch. `Ok` with a waiter that comes back later in `released` by [`Replica::progress`], or at once where
    /// nothing is waited for.
    ///
    /// # Errors
    /// The batch was not appended; the waiter is given back.
    pub fn append(
        &mut self,
        batch: CheckedBatch,
        acks: Acks,
        now: Timestamp,
    ) -> Result<(Appended, Option<WaitFor>), AppendError> {
        let outcome =
            self.log.stage(batch, LeaderAppend { leader_epoch: self.leader_epoch, now })?;
        if self.log.config().durability == Durability::Fsync {
            self.log.request_sync();
        }
        let (StageOutcome::Appended(appended) | StageOutcome::Duplicate(appended)) = outcome;
        let end = Offset(appended.last_offset.0 + 1);
        let wait = match acks {
            Acks::None => None,
            Acks::Leader => (self.log.written() < end).then_some(WaitFor::Written(end)),
            Acks::All => (self.log.high_watermark() < end).then_some(WaitFor::Committed(end)),
        };
        Ok((appended, wait))
    }

    /// Waits for a position, as [`Replica::append`] said.
    pub fn wait(&mut self, wait: WaitFor, waiter: T) {
        match wait {
            WaitFor::Written(end) => self.waiting_written.push(end, waiter),
            WaitFor::Committed(end) => self.waiting_committed.push(end, waiter),
        }
    }

    fn advance_high_watermark(&mut self) -> bool {
        let before = self.log.high_watermark();
        let to = match self.log.config().durability {
            Durability::Fsync => self.log.flushed(),
            Durability::PageCache => self.log.written(),
        };
        if to > before {
            self.log.advance_high_watermark(to);
        }
        self.log.high_watermark() > before
    }

    /// After the log moved: moves the high watermark, releases who waited for it, wakes long polls.
    /// Returns whether the high watermark moved.
    pub fn progress(&mut self, released: &mut Vec<Released<T>>) -> bool {
        let moved = self.advance_high_watermark();
        let mut waiters = Vec::new();
        self.waiting_written.release(self.log.written(), &mut waiters);
        self.waiting_committed.release(self.log.high_watermark(), &mut waiters);
        released.extend(waiters.into_iter().map(|waiter| Released { waiter, result: Ok(()) }));
        if moved {
            self.watchers.wake();
        }
        moved
    }

    /// The directory failed: everyone who waits is told, nothing more is taken.
    pub fn fail(&mut self, code: ErrorCode, released: &mut Vec<Released<T>>) {
        self.offline = true;
        let mut waiters = Vec::new();
        self.waiting_written.drain(&mut waiters);
        self.waiting_committed.drain(&mut waiters);
        released.extend(waiters.into_iter().map(|waiter| Released { waiter, result: Err(code) }));
        self.watchers.wake();
    }

    /// Long polls over this partition.
    pub fn watchers(&mut self) -> &mut Watchers {
        &mut self.watchers
    }
}

/// What an append waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitFor {
    /// The log end is at least this.
    Written(Offset),
    /// The high watermark is at least this.
    Committed(Offset),
}
