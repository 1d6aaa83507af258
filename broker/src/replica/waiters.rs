//! Appends that wait for a position, and long polls that wait for news.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use protocol_compat::ids::Offset;
use tokio::sync::Notify;

use crate::core::mailbox::Mailbox;
use crate::core::placement::CoreId;

/// Appends that wait until a position passes their end; positions only grow, so a queue is enough.
#[derive(Debug)]
pub struct AppendWaiters<T> {
    queue: VecDeque<(Offset, T)>,
}

impl<T> Default for AppendWaiters<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new() }
    }
}

impl<T> AppendWaiters<T> {
    /// Waits until the position is at least `end`. A duplicate may wait for less than those before it: it is released with
    /// them, since the answer of the batch that it repeats is on its way, too.
    pub fn push(&mut self, end: Offset, waiter: T) {
        self.queue.push_back((end, waiter));
    }

    /// Moves out, in order, everyone whose end the position has passed.
    pub fn release(&mut self, position: Offset, out: &mut Vec<T>) {
        while self.queue.front().is_some_and(|(end, _)| *end <= position) {
            if let Some((_, waiter)) = self.queue.pop_front() {
                out.push(waiter);
            }
        }
    }

    /// Moves out everyone: the log takes no more.
    pub fn drain(&mut self, out: &mut Vec<T>) {
        out.extend(self.queue.drain(..).map(|(_, waiter)| waiter));
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// Above this many a poll reads all of its partitions again instead of those that changed.
const CHANGED_MAX: usize = 64;

/// A long poll's side of its watches: which of its partitions have news.
#[derive(Debug, Default)]
pub struct Poll {
    changed: RefCell<Vec<u32>>,
    notify: Notify,
}

impl Poll {
    /// Tells that the partition with this number in the poll has news.
    pub fn wake(&self, index: u32) {
        let mut changed = self.changed.borrow_mut();
        if changed.len() <= CHANGED_MAX && !changed.contains(&index) {
            changed.push(index);
        }
        self.notify.notify_one();
    }

    /// Waits for news and gives the numbers of the partitions that have some; `None` is many.
    pub async fn changed(&self) -> Option<Vec<u32>> {
        loop {
            let changed = std::mem::take(&mut *self.changed.borrow_mut());
            if !changed.is_empty() {
                return (changed.len() <= CHANGED_MAX).then_some(changed);
            }
            self.notify.notified().await;
        }
    }
}

/// Where a poll is.
#[derive(Clone, Debug)]
pub enum PollRef {
    /// On this core.
    Local(Rc<Poll>),
    /// On another core, under its number there.
    Remote {
        /// That core's mailbox.
        mailbox: Mailbox,
        /// Its id.
        core: CoreId,
        /// The poll.
        number: u64,
    },
}

impl PollRef {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(a), Self::Local(b)) => Rc::ptr_eq(a, b),
            (Self::Remote { core: a, number: m, .. }, Self::Remote { core: b, number: n, .. }) => {
                a == b && m == n
            }
            (Self::Local(_), Self::Remote { .. }) | (Self::Remote { .. }, Self::Local(_)) => false,
        }
    }
}

#[derive(Debug)]
struct Watch {
    poll: PollRef,
    index: u32,
    /// A remote poll was told and has not read since.
    told: Cell<bool>,
}

/// Who wants to hear of news of one partition.
#[derive(Debug, Default)]
pub struct Watchers {
    watches: Vec<Watch>,
}

impl Watchers {
    /// Adds a poll, or notes that it has read. `index` is the partition's number in the poll.
    pub fn add(&mut self, poll: &PollRef, index: u32) {
        match self.watches.iter().find(|watch| watch.index == index && watch.poll.is(poll)) {
            Some(watch) => watch.told.set(false),
            None => {
                self.watches.push(Watch { poll: poll.clone(), index, told: Cell::new(false) });
            }
        }
    }

    /// Takes a poll away.
    pub fn remove(&mut self, poll: &PollRef) {
        self.watches.retain(|watch| !watch.poll.is(poll));
    }

    /// Wakes all.
    pub fn wake(&self) {
        for watch in &self.watches {
            match &watch.poll {
                PollRef::Local(poll) => poll.wake(watch.index),
                PollRef::Remote { mailbox, number, .. } => {
                    if !watch.told.replace(true) {
                        let (number, index) = (*number, watch.index);
                        mailbox.answer(move |core| core.polls.wake(number, index));
                    }
                }
            }
        }
    }

    /// Polls that watch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.watches.len()
    }
}

/// Polls of a core by number, for owners of partitions on other cores.
#[derive(Debug, Default)]
pub struct Polls {
    next: Cell<u64>,
    polls: RefCell<HashMap<u64, Rc<Poll>>>,
}

impl Polls {
    /// Gives a poll a number.
    pub fn register(&self, poll: &Rc<Poll>) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        self.polls.borrow_mut().insert(number, Rc::clone(poll));
        number
    }

    /// Forgets a poll.
    pub fn unregister(&self, number: u64) {
        self.polls.borrow_mut().remove(&number);
    }

    fn wake(&self, number: u64, index: u32) {
        if let Some(poll) = self.polls.borrow().get(&number) {
            poll.wake(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_leave_in_order_as_the_position_passes_them() {
        let mut waiters = AppendWaiters::default();
        for end in [3, 5, 9] {
            waiters.push(Offset(end), end);
        }
        let mut out = Vec::new();
        waiters.release(Offset(2), &mut out);
        assert!(out.is_empty());
        waiters.release(Offset(5), &mut out);
        assert_eq!(out, [3, 5]);
        waiters.drain(&mut out);
        assert_eq!(out, [3, 5, 9]);
        assert!(waiters.is_empty());
    }
}
