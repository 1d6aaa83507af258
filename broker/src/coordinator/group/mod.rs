//! The group coordinator: classic groups and committed offsets of one partition of `__consumer_offsets`.

pub mod api;
pub mod config;

use std::time::Instant;

use protocol_compat::ErrorCode;
use protocol_compat::ids::{PartitionIndex, ProducerId};

pub use api::{GroupRequest, GroupResponse, RequestContext};
pub use config::GroupConfig;

use super::shard::{CoordinatorRecord, Effects, Now, ReplayContext, ReplayError, Shard, Token};

/// The groups of one partition of `__consumer_offsets`.
#[derive(Debug)]
pub struct GroupShard {
    config: GroupConfig,
}

/// What undoes one record of a group.
#[derive(Debug)]
pub enum Undo {}

/// What waits for the records of a group.
#[derive(Debug)]
pub enum Continuation {}

impl GroupShard {
    /// The empty state of a partition. `entropy` is a secret that member ids are made from.
    #[must_use]
    pub fn new(config: GroupConfig, _partition: PartitionIndex, _entropy: u128) -> Self {
        Self { config }
    }
}

type Fx = Effects<GroupResponse, Continuation>;

impl Shard for GroupShard {
    type Request = GroupRequest;
    type Response = GroupResponse;
    type Undo = Undo;
    type Continuation = Continuation;

    fn decide(&mut self, _now: Now, _token: Token, _request: GroupRequest, _fx: &mut Fx) {
        let _ = &self.config;
        unimplemented!()
    }

    fn replay(
        &mut self,
        _context: ReplayContext,
        _record: &CoordinatorRecord,
    ) -> Result<Undo, ReplayError> {
        unimplemented!()
    }

    fn replay_end_transaction(&mut self, _producer: ProducerId, _commit: bool) {
        unimplemented!()
    }

    fn revert(&mut self, undo: Undo) {
        match undo {}
    }

    fn loaded(&mut self, _now: Now, _fx: &mut Fx) {
        unimplemented!()
    }

    fn unloaded(&mut self, _code: ErrorCode) -> Vec<(Token, GroupResponse)> {
        unimplemented!()
    }

    fn resume(
        &mut self,
        _now: Now,
        continuation: Continuation,
        _result: Result<(), ErrorCode>,
        _fx: &mut Fx,
    ) {
        match continuation {}
    }

    fn tick(&mut self, _now: Now, _fx: &mut Fx) {
        unimplemented!()
    }

    fn next_deadline(&self) -> Option<Instant> {
        unimplemented!()
    }

    fn refuse(_request: GroupRequest, _code: ErrorCode) -> GroupResponse {
        unimplemented!()
    }

    fn fail(_response: GroupResponse, _code: ErrorCode) -> GroupResponse {
        unimplemented!()
    }
}
