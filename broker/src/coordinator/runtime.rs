//! The coordinator runtime: one for every kind of coordinator.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol_compat::ErrorCode;
use protocol_compat::batch::{
    BatchBuilder, BatchError, BatchIter, BatchOptions, NewRecord, records,
};
use protocol_compat::ids::{LeaderEpoch, Offset, PartitionIndex, Timestamp};

use super::shard::{CoordinatorRecord, Effects, Now, ReplayContext, Shard, Token};

/// Limits of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeConfig {
    /// Largest batch that is built from the records of one turn, in bytes; Kafka's is the topic's `max.message.bytes`.
    pub batch_bytes_max: usize,
    /// Bytes a shard may have appended and not committed. At the bound requests are refused with
    /// `COORDINATOR_LOAD_IN_PROGRESS`, which clients take as "the same broker again, a little later".
    pub in_flight_bytes_max: usize,
    /// How long a reply waits for its records to be committed before it fails (`offsets.commit.timeout.ms`).
    pub commit_timeout: Duration,
    /// Bytes that one batch may unfold to when it is loaded.
    pub load_batch_bytes_max: usize,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            batch_bytes_max: 1_048_588,
            in_flight_bytes_max: 16 << 20,
            commit_timeout: Duration::from_millis(5_000),
            load_batch_bytes_max: 64 << 20,
        }
    }
}

/// Names one append of a shard. Rising; never used again, also after a failure or a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId(pub u64);

/// What the shell tells about one shard.
#[derive(Debug)]
pub enum Event<Request> {
    /// This broker leads the partition now. Requests are answered with `COORDINATOR_LOAD_IN_PROGRESS` until `LoadDone`.
    ///
    /// The shell then reads the log from its start to its end and gives it in slices. A shard that is loaded already under
    /// an older epoch is unloaded first.
    Load {
        /// The epoch to append under.
        leader_epoch: LeaderEpoch,
        /// Secret random bits for this load, from which member ids are made.
        entropy: u128,
    },
    /// The next slice of the log: whole record batches, in order. An incomplete batch at the end is an error.
    LoadBatches {
        /// As they stand in the log.
        batches: Bytes,
    },
    /// Everything up to the log's end has been given.
    LoadDone {
        /// Offset after the last record of the log.
        log_end_offset: Offset,
        /// Records below it are committed.
        high_watermark: Offset,
    },
    /// The log cannot be read. The shard answers `NOT_COORDINATOR` until it is loaded again.
    LoadFailed,
    /// This broker leads the partition no longer, or its directory is offline.
    Unload,
    /// A request for a group of this shard.
    Request {
        /// Comes back with the reply.
        token: Token,
        /// The request.
        request: Request,
    },
    /// The log took the batch of [`Action::Append`]: its offsets are assigned.
    Appended {
        /// Which append.
        append: AppendId,
        /// Offset of the batch's last record.
        last_offset: Offset,
    },
    /// The log refused the batch: nothing of it will ever be in the log.
    AppendFailed {
        /// Which append.
        append: AppendId,
        /// The log's code, such as `NOT_LEADER_OR_FOLLOWER` or `KAFKA_STORAGE_ERROR`.
        code: ErrorCode,
    },
    /// Records below this offset are committed. Never goes back.
    HighWatermark(Offset),
    /// A deadline has passed.
    Tick,
    /// The core's turn is at its flush: what was gathered in it is appended now.
    TurnEnd,
}

/// What the shell must do.
#[derive(Debug, PartialEq)]
pub enum Action<Response> {
    /// Append one batch to the local log and report `Appended` or `AppendFailed`, in the order of the actions.
    Append {
        /// The partition of the coordinator's topic.
        partition: PartitionIndex,
        /// To be named in the report.
        append: AppendId,
        /// The log must refuse the batch when it has another epoch.
        leader_epoch: LeaderEpoch,
        /// One complete record batch, base offset 0.
        batch: Bytes,
    },
    /// Answer a request.
    Reply {
        /// As it came in.
        token: Token,
        /// The answer.
        response: Response,
    },
}

/// The shards of one core and kind.
pub struct Runtime<S: Shard> {
    config: RuntimeConfig,
    new_shard: Box<dyn Fn(PartitionIndex, u128) -> S>,
    shards: BTreeMap<PartitionIndex, Slot<S>>,
}

impl<S: Shard> fmt::Debug for Runtime<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// What was replayed together and is appended as one batch.
struct Step<S: Shard> {
    append: AppendId,
    records: Vec<CoordinatorRecord>,
    undo: Vec<S::Undo>,
    replies: Vec<(Token, S::Response)>,
    continuations: Vec<S::Continuation>,
    size_bytes: usize,
    /// Known once the log took the batch.
    last_offset: Option<Offset>,
    deadline: Instant,
}

struct Slot<S: Shard> {
    shard: S,
    leader_epoch: LeaderEpoch,
    active: bool,
    /// Appended, not committed; oldest first.
    in_flight: VecDeque<Step<S>>,
    in_flight_bytes: usize,
    /// Replayed in this turn, not appended.
    gathering: Option<Step<S>>,
    high_watermark: Offset,
    next_append: u64,
}

impl<S: Shard> Runtime<S> {
    /// A runtime without shards. `new_shard` makes the empty state of a partition that is to be loaded.
    pub fn new(
        config: RuntimeConfig,
        new_shard: impl Fn(PartitionIndex, u128) -> S + 'static,
    ) -> Self {
        Self { config, new_shard: Box::new(new_shard), shards: BTreeMap::new() }
    }

    /// Feeds one event of the shard of `partition`. Never blocks, never panics on what a peer sent.
    pub fn handle(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        event: Event<S::Request>,
        out: &mut Vec<Action<S::Response>>,
    ) {
        match event {
            Event::Load { leader_epoch, entropy } => {
                let next = self.unload(partition, out);
                let shard = (self.new_shard)(partition, entropy);
                self.shards.insert(partition, Slot::new(shard, leader_epoch, next));
            }
            Event::LoadFailed => {
                self.unload(partition, out);
            }
            Event::Unload => {
                self.unload(partition, out);
            }
            Event::Request { token, request } => self.request(now, partition, token, request, out),
            Event::LoadBatches { batches } => {
                let limit = self.config.load_batch_bytes_max;
                if let Some(slot) = self.shards.get_mut(&partition) {
                    slot.load(&batches, limit);
                }
            }
            Event::LoadDone { high_watermark, .. } => {
                let config = self.config;
                if let Some(slot) = self.shards.get_mut(&partition) {
                    slot.active = true;
                    slot.high_watermark = high_watermark;
                    let mut fx = Effects::default();
                    slot.shard.loaded(now, &mut fx);
                    slot.absorb(now, partition, &config, fx, out);
                }
            }
            Event::Appended { append, last_offset } => {
                let config = self.config;
                if let Some(slot) = self.shards.get_mut(&partition) {
                    let step = slot.in_flight.iter_mut().find(|step| step.append == append);
                    if let Some(step) = step {
                        step.last_offset = Some(last_offset);
                    }
                    slot.commit(now, partition, &config, out);
                }
            }
            Event::AppendFailed { append, code } => {
                let config = self.config;
                if let Some(slot) = self.shards.get_mut(&partition) {
                    slot.failed(now, partition, &config, append, client_code(code), out);
                }
            }
            Event::HighWatermark(offset) => {
                let config = self.config;
                if let Some(slot) = self.shards.get_mut(&partition) {
                    slot.high_watermark = slot.high_watermark.max(offset);
                    slot.commit(now, partition, &config, out);
                }
            }
            Event::Tick => {
                let config = self.config;
                if let Some(slot) = self.shards.get_mut(&partition) {
                    slot.tick(now, partition, &config, out);
                }
            }
            Event::TurnEnd => {
                let config = self.config;
                if let Some(slot) = self.shards.get_mut(&partition) {
                    slot.flush(now, partition, &config, out);
                }
            }
        }
    }

    fn request(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        token: Token,
        request: S::Request,
        out: &mut Vec<Action<S::Response>>,
    ) {
        let config = self.config;
        let refusal = match self.shards.get(&partition) {
            None => Some(ErrorCode::NotCoordinator),
            Some(slot) if !slot.active => Some(ErrorCode::CoordinatorLoadInProgress),
            Some(slot) if slot.in_flight_bytes >= config.in_flight_bytes_max => {
                Some(ErrorCode::CoordinatorLoadInProgress)
            }
            Some(_) => None,
        };
        if let Some(code) = refusal {
            out.push(Action::Reply { token, response: S::refuse(request, code) });
            return;
        }
        if let Some(slot) = self.shards.get_mut(&partition) {
            let mut fx = Effects::default();
            slot.shard.decide(now, token, request, &mut fx);
            slot.absorb(now, partition, &config, fx, out);
        }
    }

    /// Drops a shard and answers whoever waits; gives the number of its next append.
    fn unload(&mut self, partition: PartitionIndex, out: &mut Vec<Action<S::Response>>) -> u64 {
        let Some(mut slot) = self.shards.remove(&partition) else { return 0 };
        let code = ErrorCode::NotCoordinator;
        let steps = slot.in_flight.drain(..).chain(slot.gathering.take());
        for (token, response) in steps.flat_map(|step| step.replies) {
            out.push(Action::Reply { token, response: S::fail(response, code) });
        }
        for (token, response) in slot.shard.unloaded(code) {
            out.push(Action::Reply { token, response });
        }
        slot.next_append
    }

    /// `TurnEnd` for every shard that has something to append.
    pub fn end_turn(&mut self, now: Now, out: &mut Vec<Action<S::Response>>) {
        let config = self.config;
        for (partition, slot) in &mut self.shards {
            slot.flush(now, *partition, &config, out);
        }
    }

    /// `Tick` for every shard that has something due.
    pub fn tick(&mut self, now: Now, out: &mut Vec<Action<S::Response>>) {
        let config = self.config;
        for (partition, slot) in &mut self.shards {
            if slot.next_deadline().is_some_and(|deadline| deadline <= now.clock) {
                slot.tick(now, *partition, &config, out);
            }
        }
    }

    /// When `tick` must be called next, if ever.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.shards.values().filter_map(Slot::next_deadline).min()
    }

    /// Whether the shard of `partition` is loaded and serves.
    #[must_use]
    pub fn is_active(&self, partition: PartitionIndex) -> bool {
        self.shards.get(&partition).is_some_and(|slot| slot.active)
    }
}

/// What a client is told when its records could not be appended.
fn client_code(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        _ => ErrorCode::UnknownServerError,
    }
}

impl<S: Shard> Slot<S> {
    fn new(shard: S, leader_epoch: LeaderEpoch, next_append: u64) -> Self {
        Self {
            shard,
            leader_epoch,
            active: false,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            gathering: None,
            high_watermark: Offset(0),
            next_append,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.in_flight.front().filter(|step| !step.replies.is_empty());
        let commit = waiting.map(|step| step.deadline);
        [commit, self.shard.next_deadline().filter(|_| self.active)].into_iter().flatten().min()
    }

    /// Replays batches of the log. What cannot be read is left out and logged: the rest must be served.
    fn load(&mut self, batches: &Bytes, limit: usize) {
        for batch in BatchIter::new(batches) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => {
                    tracing::error!(%error, "a batch of the coordinator's log cannot be read");
                    return;
                }
            };
            let header = batch.header;
            let bytes = batches.slice(batch.position..batch.position + batch.bytes.len());
            let producer = header
                .producer()
                .filter(|_| header.attributes.is_transactional())
                .map(|producer| (producer.id, producer.epoch));
            let list = match records(&bytes, limit) {
                Ok(list) => list,
                Err(error) => {
                    tracing::error!(%error, offset = %header.base_offset, "a batch of the coordinator's log cannot be read");
                    continue;
                }
            };
            for record in list {
                let Ok(record) = record else {
                    tracing::error!(offset = %header.base_offset, "a record of the coordinator's log cannot be read");
                    break;
                };
                if header.attributes.is_control() {
                    // Key: version, type; 0 is abort, 1 is commit.
                    let kind = record.key.as_deref().and_then(|key| key.get(3)).copied();
                    if let (Some((id, _)), Some(kind @ 0..=1)) = (producer, kind) {
                        self.shard.replay_end_transaction(id, kind == 1);
                    }
                    continue;
                }
                let Some(key) = record.key else { continue };
                let context = ReplayContext { offset: Some(record.offset), producer };
                let record = CoordinatorRecord { key, value: record.value };
                if let Err(error) = self.shard.replay(context, &record) {
                    tracing::warn!(%error, "a record of the coordinator's log was left out");
                }
            }
        }
    }

    /// Carries out what a step of the shard led to.
    fn absorb(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        config: &RuntimeConfig,
        fx: Effects<S::Response, S::Continuation>,
        out: &mut Vec<Action<S::Response>>,
    ) {
        for (token, response) in fx.replies {
            out.push(Action::Reply { token, response });
        }
        if fx.records.is_empty() {
            self.attach(now, partition, config, fx.replies_when_committed, fx.continuations, out);
            return;
        }
        let size: usize = fx.records.iter().map(record_size).sum();
        let gathered = self.gathering.as_ref().map_or(0, |step| step.size_bytes);
        if gathered > 0 && gathered + size > config.batch_bytes_max {
            self.flush(now, partition, config, out);
        }
        let mut undo = Vec::with_capacity(fx.records.len());
        for record in &fx.records {
            match self.shard.replay(ReplayContext { offset: None, producer: None }, record) {
                Ok(back) => undo.push(back),
                Err(error) => tracing::error!(%error, "a record of our own cannot be replayed"),
            }
        }
        let next_append = &mut self.next_append;
        let step = self.gathering.get_or_insert_with(|| {
            let append = AppendId(*next_append);
            *next_append += 1;
            Step {
                append,
                records: Vec::new(),
                undo: Vec::new(),
                replies: Vec::new(),
                continuations: Vec::new(),
                size_bytes: 0,
                last_offset: None,
                deadline: now.clock + config.commit_timeout,
            }
        });
        step.records.extend(fx.records);
        step.undo.append(&mut undo);
        step.replies.extend(fx.replies_when_committed);
        step.continuations.extend(fx.continuations);
        step.size_bytes += size;
    }

    /// Replies and continuations without records of their own wait for all that was replayed before them.
    fn attach(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        config: &RuntimeConfig,
        replies: Vec<(Token, S::Response)>,
        continuations: Vec<S::Continuation>,
        out: &mut Vec<Action<S::Response>>,
    ) {
        if let Some(step) = self.gathering.as_mut().or(self.in_flight.back_mut()) {
            step.replies.extend(replies);
            step.continuations.extend(continuations);
            return;
        }
        for (token, response) in replies {
            out.push(Action::Reply { token, response });
        }
        self.resume(now, partition, config, continuations, Ok(()), out);
    }

    fn resume(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        config: &RuntimeConfig,
        continuations: Vec<S::Continuation>,
        result: Result<(), ErrorCode>,
        out: &mut Vec<Action<S::Response>>,
    ) {
        for continuation in continuations {
            let mut fx = Effects::default();
            self.shard.resume(now, continuation, result, &mut fx);
            self.absorb(now, partition, config, fx, out);
        }
    }

    /// Appends what was gathered.
    fn flush(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        config: &RuntimeConfig,
        out: &mut Vec<Action<S::Response>>,
    ) {
        let Some(mut step) = self.gathering.take() else { return };
        let batch = build(&step.records, now.wall);
        step.records = Vec::new();
        let append = step.append;
        self.in_flight_bytes += step.size_bytes;
        self.in_flight.push_back(step);
        match batch {
            Ok(batch) => {
                let leader_epoch = self.leader_epoch;
                out.push(Action::Append { partition, append, leader_epoch, batch });
            }
            Err(error) => {
                tracing::error!(%error, "records of a coordinator do not make a batch");
                self.failed(now, partition, config, append, ErrorCode::UnknownServerError, out);
            }
        }
    }

    fn commit(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        config: &RuntimeConfig,
        out: &mut Vec<Action<S::Response>>,
    ) {
        loop {
            let high_watermark = self.high_watermark;
            let front = self.in_flight.front();
            if !front.and_then(|step| step.last_offset).is_some_and(|last| last < high_watermark) {
                return;
            }
            let Some(step) = self.in_flight.pop_front() else { return };
            self.in_flight_bytes -= step.size_bytes;
            for (token, response) in step.replies {
                out.push(Action::Reply { token, response });
            }
            self.resume(now, partition, config, step.continuations, Ok(()), out);
        }
    }

    /// Takes back everything from a failed append on: what came later was decided on top of it.
    fn failed(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        config: &RuntimeConfig,
        append: AppendId,
        code: ErrorCode,
        out: &mut Vec<Action<S::Response>>,
    ) {
        let Some(at) = self.in_flight.iter().position(|step| step.append == append) else { return };
        let mut lost: Vec<Step<S>> = self.in_flight.drain(at..).collect();
        self.in_flight_bytes -= lost.iter().map(|step| step.size_bytes).sum::<usize>();
        lost.extend(self.gathering.take());
        let mut continuations = Vec::new();
        for step in lost.iter_mut().rev() {
            for undo in step.undo.drain(..).rev() {
                self.shard.revert(undo);
            }
        }
        for step in lost {
            for (token, response) in step.replies {
                out.push(Action::Reply { token, response: S::fail(response, code) });
            }
            continuations.extend(step.continuations);
        }
        self.resume(now, partition, config, continuations, Err(code), out);
    }

    fn tick(
        &mut self,
        now: Now,
        partition: PartitionIndex,
        config: &RuntimeConfig,
        out: &mut Vec<Action<S::Response>>,
    ) {
        for step in self.in_flight.iter_mut().filter(|step| step.deadline <= now.clock) {
            for (token, response) in step.replies.drain(..) {
                let code = ErrorCode::CoordinatorNotAvailable;
                out.push(Action::Reply { token, response: S::fail(response, code) });
            }
        }
        if self.active && self.shard.next_deadline().is_some_and(|at| at <= now.clock) {
            let mut fx = Effects::default();
            self.shard.tick(now, &mut fx);
            self.absorb(now, partition, config, fx, out);
        }
    }
}

fn record_size(record: &CoordinatorRecord) -> usize {
    // Lengths, deltas and counts of the record format take less than this.
    record.key.len() + record.value.as_ref().map_or(0, Bytes::len) + 32
}

fn build(records: &[CoordinatorRecord], now: Timestamp) -> Result<Bytes, BatchError> {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for record in records {
        builder.push(NewRecord {
            timestamp: now,
            key: Some(&record.key),
            value: record.value.as_deref(),
            headers: &[],
        })?;
    }
    builder.build()
}

#[cfg(test)]
mod tests;
