//! Answers of one connection, given back in the order of its requests.

use std::collections::VecDeque;

use super::out_queue::OutQueue;
use crate::api::produce::PendingProduce;
use std::rc::Rc;

/// Names the place of one answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PlaceId(u64);

#[derive(Debug)]
enum Slot {
    /// The answer is being made by the connection's own task.
    Waiting,
    /// The answer of a Produce request that waits for its partitions.
    Produce(Rc<PendingProduce>),
    /// The answer waits for those before it.
    Ready(OutQueue),
}

/// The places that are taken and not yet sent.
#[derive(Debug, Default)]
pub struct Replies {
    first: u64,
    slots: VecDeque<Slot>,
}

impl Replies {
    /// Takes the next place.
    pub fn reserve(&mut self) -> PlaceId {
        self.slots.push_back(Slot::Waiting);
        PlaceId(self.first + self.slots.len() as u64 - 1)
    }

    /// Takes the next place for a Produce request, so that [`Replies::pending_produces`] finds it.
    pub fn reserve_produce(&mut self, pending: Rc<PendingProduce>) {
        self.slots.push_back(Slot::Produce(pending));
    }

    /// The place that the next `reserve` gives.
    #[must_use]
    pub fn next_place(&self) -> PlaceId {
        PlaceId(self.first + self.slots.len() as u64)
    }

    /// Places taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Fills a place by `write`, which appends the answer to the queue it is given (nothing for no answer).
    /// What can leave is then at the end of `out`.
    pub fn complete(
        &mut self,
        place: PlaceId,
        out: &mut OutQueue,
        write: impl FnOnce(&mut OutQueue),
    ) {
        let Some(index) = place.0.checked_sub(self.first) else { return };
        if index == 0 {
            write(out);
            self.slots.pop_front();
            self.first += 1;
            while let Some(Slot::Ready(_)) = self.slots.front() {
                if let Some(Slot::Ready(ready)) = self.slots.pop_front() {
                    out.append(ready);
                    self.first += 1;
                }
            }
        } else if let Some(slot) = usize::try_from(index).ok().and_then(|at| self.slots.get_mut(at))
        {
            let mut ready = OutQueue::default();
            write(&mut ready);
            *slot = Slot::Ready(ready);
        }
    }

    /// Produce requests that still wait.
    pub fn pending_produces(&self) -> impl Iterator<Item = &Rc<PendingProduce>> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Produce(pending) => Some(pending),
            Slot::Waiting | Slot::Ready(_) => None,
        })
    }

    /// Drops everything: the connection is gone.
    pub fn clear(&mut self) {
        self.first += self.slots.len() as u64;
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_leave_in_the_order_of_requests() {
        let mut replies = Replies::default();
        let mut out = OutQueue::default();
        let places = [replies.reserve(), replies.reserve(), replies.reserve()];
        for at in [2, 0, 1] {
            let text = [b'a' + u8::try_from(at).expect("small")];
            replies.complete(places[at], &mut out, |out| out.buffer().extend_from_slice(&text));
        }
        assert_eq!(out.into_bytes(), b"abc");
        assert_eq!(replies.len(), 0);
    }

    #[test]
    fn a_place_of_a_cleared_connection_is_ignored() {
        let mut replies = Replies::default();
        let mut out = OutQueue::default();
        let place = replies.reserve();
        replies.clear();
        replies.complete(place, &mut out, |out| out.buffer().extend_from_slice(b"late"));
        assert!(out.is_empty());
    }
}
