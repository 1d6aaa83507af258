//! What a kind of coordinator gives to the runtime: the decide / replay split.

use std::time::Instant;

use bytes::Bytes;
use protocol_compat::ErrorCode;
use protocol_compat::ids::{Offset, ProducerEpoch, ProducerId, Timestamp};

/// The two clocks that a coordinator needs, read by the shell once a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic: sessions, rebalances and other timers.
    pub clock: Instant,
    /// Wall clock: what stands in records (commit timestamps) and decides about retention.
    pub wall: Timestamp,
}

/// Names one request until its reply; chosen by the shell, opaque here.
///
/// Each token that comes in with a request leaves exactly once, in one [`super::Action::Reply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// A record of a coordinator's log: what is written, and what is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// Type number and key fields.
    pub key: Bytes,
    /// Version number and value fields; `None` is a tombstone.
    pub value: Option<Bytes>,
}

/// Where a replayed record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayContext {
    /// Offset of the record, where it is known: in normal running records are replayed before they are appended.
    pub offset: Option<Offset>,
    /// The transactional producer whose batch holds the record.
    pub producer: Option<(ProducerId, ProducerEpoch)>,
}

/// What one step of a shard (a request, a timer, a finished append) leads to.
#[derive(Debug)]
pub struct Effects<Response, Continuation> {
    /// Records to replay now and to append, in this order and in one batch.
    pub records: Vec<CoordinatorRecord>,
    /// Replies that must not leave before everything that was replayed until now is committed.
    pub replies_when_committed: Vec<(Token, Response)>,
    /// Replies that depend on nothing in the log.
    pub replies: Vec<(Token, Response)>,
    /// What the shard wants to hear again when `records` are committed or have failed.
    pub continuations: Vec<Continuation>,
}

impl<Response, Continuation> Default for Effects<Response, Continuation> {
    fn default() -> Self {
        Self {
            records: Vec::new(),
            replies_when_committed: Vec::new(),
            replies: Vec::new(),
            continuations: Vec::new(),
        }
    }
}

/// One kind of coordinator: its state for one partition of its topic.
///
/// *Hard* state is what the records make of it, and only [`Shard::replay`] and [`Shard::revert`] change it. *Soft* state
/// (sessions, requests that wait for others, a rebalance under way) lives beside it and dies with the shard.
pub trait Shard {
    /// A request for this shard.
    type Request;
    /// Its answer.
    type Response;
    /// What undoes one replayed record.
    type Undo;
    /// What is to be done when the records of a step are committed or have failed.
    type Continuation;

    /// Decides about a request: reads hard state, may change soft state, says which records follow.
    ///
    /// The token must come back in a reply of this or of a later step.
    fn decide(
        &mut self,
        now: Now,
        token: Token,
        request: Self::Request,
        fx: &mut Effects<Self::Response, Self::Continuation>,
    );

    /// Applies one record to the hard state.
    ///
    /// # Errors
    /// A record that cannot be read. Nothing has changed then.
    fn replay(
        &mut self,
        context: ReplayContext,
        record: &CoordinatorRecord,
    ) -> Result<Self::Undo, ReplayError>;

    /// Applies the end of a transaction: what its producer wrote counts from now on (commit) or never (abort).
    fn replay_end_transaction(&mut self, producer: ProducerId, commit: bool);

    /// Takes back one replayed record. Called from the newest to the oldest.
    fn revert(&mut self, undo: Self::Undo);

    /// The log is replayed to its end: builds the soft state, starts sessions.
    fn loaded(&mut self, now: Now, fx: &mut Effects<Self::Response, Self::Continuation>);

    /// The partition went to another leader: gives back every request that still waits, answered with `code`.
    fn unloaded(&mut self, code: ErrorCode) -> Vec<(Token, Self::Response)>;

    /// The records of an earlier step are committed (`Ok`), or were taken back because their append failed.
    fn resume(
        &mut self,
        now: Now,
        continuation: Self::Continuation,
        result: Result<(), ErrorCode>,
        fx: &mut Effects<Self::Response, Self::Continuation>,
    );

    /// Runs what is due.
    fn tick(&mut self, now: Now, fx: &mut Effects<Self::Response, Self::Continuation>);

    /// When `tick` has something to do next.
    fn next_deadline(&self) -> Option<Instant>;

    /// The answer to a request that the runtime cannot give to the shard.
    fn refuse(request: Self::Request, code: ErrorCode) -> Self::Response;

    /// Turns a reply that waited for its records into the one for their failure.
    fn fail(response: Self::Response, code: ErrorCode) -> Self::Response;
}

/// A record of the log cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ReplayError {
    /// What is wrong with which record.
    pub what: String,
}
