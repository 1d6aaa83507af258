//! The coordinator runtime: one for every kind of coordinator.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol_compat::ErrorCode;
use protocol_compat::ids::{LeaderEpoch, Offset, PartitionIndex};

use super::shard::{Now, Shard, Token};

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
#[derive(Debug)]
pub struct Runtime<S: Shard> {
    config: RuntimeConfig,
    shards: BTreeMap<PartitionIndex, S>,
}

impl<S: Shard> Runtime<S> {
    /// A runtime without shards. `new_shard` makes the empty state of a partition that is to be loaded.
    pub fn new(
        config: RuntimeConfig,
        _new_shard: impl Fn(PartitionIndex, u128) -> S + 'static,
    ) -> Self {
        Self { config, shards: BTreeMap::new() }
    }

    /// Feeds one event of the shard of `partition`. Never blocks, never panics on what a peer sent.
    pub fn handle(
        &mut self,
        _now: Now,
        _partition: PartitionIndex,
        _event: Event<S::Request>,
        _out: &mut Vec<Action<S::Response>>,
    ) {
        let _ = (&self.config, &self.shards);
    }

    /// `TurnEnd` for every shard that has something to append.
    pub fn end_turn(&mut self, _now: Now, _out: &mut Vec<Action<S::Response>>) {}

    /// `Tick` for every shard that has something due.
    pub fn tick(&mut self, _now: Now, _out: &mut Vec<Action<S::Response>>) {}

    /// When `tick` must be called next, if ever.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Whether the shard of `partition` is loaded and serves.
    #[must_use]
    pub fn is_active(&self, _partition: PartitionIndex) -> bool {
        unimplemented!()
    }

    /// The partitions that are loaded and serve: where ListGroups must be asked.
    pub fn active_partitions(&self) -> impl Iterator<Item = PartitionIndex> + '_ {
        self.shards.keys().copied()
    }
}
