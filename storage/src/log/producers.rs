//! What the log remembers of producers: Kafka's `ProducerStateManager` and `ProducerAppendInfo`.
//!
//! Of each producer the last five batches are kept, by which a resent batch is known, and the open transaction. The first
//! offset of the oldest transaction that is open, or decided by a marker above the high watermark, bounds the last stable
//! offset.

use std::collections::{BTreeMap, HashMap};

use protocol_compat::batch::BatchHeader;
use protocol_compat::ids::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::{AppendError, ProducerView};
use crate::format::marker::EndTxnMarker;
use crate::format::producer_snapshot::ProducerEntry;
use crate::format::txn_index::AbortedTxn;

/// Batches remembered of each producer: clients have at most so many in flight.
const WINDOW: usize = 5;
const NO_SEQUENCE: i32 = -1;

/// A batch that was appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PastBatch {
    pub(super) last_sequence: i32,
    pub(super) last_offset: Offset,
    pub(super) offset_delta: i32,
    pub(super) timestamp: Timestamp,
}

impl PastBatch {
    pub(super) fn base_offset(&self) -> Offset {
        Offset(self.last_offset.0 - i64::from(self.offset_delta))
    }

    /// Sequences wrap from `i32::MAX` to 0.
    fn first_sequence(&self) -> i32 {
        self.last_sequence.wrapping_sub(self.offset_delta) & i32::MAX
    }
}

const NO_BATCH: PastBatch = PastBatch {
    last_sequence: NO_SEQUENCE,
    last_offset: Offset(-1),
    offset_delta: 0,
    timestamp: Timestamp(-1),
};

#[derive(Clone, Copy, Debug)]
struct Producer {
    epoch: ProducerEpoch,
    /// Oldest first.
    window: [PastBatch; WINDOW],
    count: usize,
    last_timestamp: Timestamp,
    coordinator_epoch: Option<i32>,
    transaction_start: Option<Offset>,
}

impl Producer {
    fn new(epoch: ProducerEpoch) -> Self {
        Self {
            epoch,
            window: [NO_BATCH; WINDOW],
            count: 0,
            last_timestamp: Timestamp(-1),
            coordinator_epoch: None,
            transaction_start: None,
        }
    }

    fn batches(&self) -> &[PastBatch] {
        &self.window[..self.count]
    }

    fn last(&self) -> Option<&PastBatch> {
        self.batches().last()
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.count = 0;
        }
    }

    fn push(&mut self, batch: PastBatch) {
        if self.count == WINDOW {
            self.window.copy_within(1.., 0);
            self.count -= 1;
        }
        self.window[self.count] = batch;
        self.count += 1;
    }
}

/// What the producer's state says to a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It may be appended.
    Append,
    /// It is in the log already.
    Duplicate(PastBatch),
}

/// A transaction that a marker ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CompletedTxn {
    pub(super) producer_id: ProducerId,
    pub(super) first_offset: Offset,
    pub(super) last_offset: Offset,
    pub(super) aborted: bool,
}

/// The producers of one log.
#[derive(Clone, Debug, Default)]
pub(super) struct Producers {
    producers: HashMap<ProducerId, Producer>,
    /// First offsets of open transactions.
    ongoing: BTreeMap<Offset, ProducerId>,
    /// Transactions whose marker is not yet below the high watermark: first offset and marker offset.
    unreplicated: BTreeMap<Offset, Offset>,
}

impl Producers {
    /// The producers of a snapshot file; those idle for too long are left out.
    pub(super) fn from_snapshot(
        entries: &[ProducerEntry],
        now: Timestamp,
        expiration_ms: i64,
    ) -> Self {
        let mut this = Self::default();
        for entry in entries {
            let mut producer = Producer::new(entry.epoch);
            producer.last_timestamp = entry.timestamp;
            producer.coordinator_epoch =
                (entry.coordinator_epoch >= 0).then_some(entry.coordinator_epoch);
            producer.transaction_start =
                (entry.txn_first_offset.0 >= 0).then_some(entry.txn_first_offset);
            if entry.last_offset.0 >= 0 {
                producer.push(PastBatch {
                    last_sequence: entry.last_sequence,
                    last_offset: entry.last_offset,
                    offset_delta: entry.offset_delta.max(0),
                    timestamp: entry.timestamp,
                });
            }
            if is_expired(&producer, now, expiration_ms) {
                continue;
            }
            if let Some(start) = producer.transaction_start {
                this.ongoing.insert(start, entry.producer_id);
            }
            this.producers.insert(entry.producer_id, producer);
        }
        this
    }

    /// The entries of a snapshot file, by id.
    pub(super) fn snapshot(&self) -> Vec<ProducerEntry> {
        let mut entries: Vec<ProducerEntry> = self
            .producers
            .iter()
            .map(|(id, producer)| {
                let last = producer.last().copied().unwrap_or(NO_BATCH);
                ProducerEntry {
                    producer_id: *id,
                    epoch: producer.epoch,
                    last_sequence: last.last_sequence,
                    last_offset: last.last_offset,
                    offset_delta: last.offset_delta,
                    timestamp: producer.last_timestamp,
                    coordinator_epoch: producer.coordinator_epoch.unwrap_or(-1),
                    txn_first_offset: producer.transaction_start.unwrap_or(Offset(-1)),
                }
            })
            .collect();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// Whether anything is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    pub(super) fn views(&self) -> Vec<ProducerView> {
        let mut views: Vec<ProducerView> = self
            .producers
            .iter()
            .map(|(id, producer)| ProducerView {
                producer_id: *id,
                epoch: producer.epoch,
                last_sequence: producer
                    .last()
                    .map(|last| last.last_sequence)
                    .filter(|sequence| *sequence >= 0),
                last_timestamp: producer.last_timestamp,
                coordinator_epoch: producer.coordinator_epoch,
                transaction_start: producer.transaction_start,
            })
            .collect();
        views.sort_unstable_by_key(|view| view.producer_id);
        views
    }

    /// Whether a batch of data may be appended at `offset`. Changes nothing.
    pub(super) fn check_data(
        &self,
        header: &BatchHeader,
        offset: Offset,
    ) -> Result<Verdict, AppendError> {
        let producer_id = header.producer_id;
        let Some(producer) = self.producers.get(&producer_id) else {
            // Nothing is known, perhaps because all was deleted or has expired: any sequence may come first.
            return Ok(Verdict::Append);
        };
        let first = header.base_sequence;
        // The coordinators' own appends carry no sequences.
        let sequenced = first >= 0;
        if sequenced
            && producer.epoch == header.producer_epoch
            && let Some(last) = header.last_sequence()
            && let Some(past) = producer
                .batches()
                .iter()
                .find(|past| past.first_sequence() == first && past.last_sequence == last)
        {
            return Ok(Verdict::Duplicate(*past));
        }
        check_epoch(producer, header, offset)?;
        if sequenced {
            let last = producer.last().map_or(NO_SEQUENCE, |last| last.last_sequence);
            let follows = if producer.epoch == header.producer_epoch {
                i64::from(first) == i64::from(last) + 1 || (first == 0 && last == i32::MAX)
            } else {
                first == 0
            };
            if !follows {
                return Err(AppendError::OutOfOrderSequence {
                    producer_id,
                    epoch: header.producer_epoch,
                    offset,
                    found: first,
                    last,
                });
            }
        }
        if producer.transaction_start.is_some() && !header.attributes.is_transactional() {
            return Err(AppendError::InvalidTransactionState { producer_id, offset });
        }
        Ok(Verdict::Append)
    }

    /// Whether a marker may be appended at `offset`. Changes nothing.
    pub(super) fn check_marker(
        &self,
        header: &BatchHeader,
        marker: &EndTxnMarker,
        offset: Offset,
    ) -> Result<(), AppendError> {
        let Some(producer) = self.producers.get(&header.producer_id) else { return Ok(()) };
        check_epoch(producer, header, offset)?;
        match producer.coordinator_epoch {
            Some(last) if last > marker.coordinator_epoch => Err(AppendError::CoordinatorFenced {
                producer_id: header.producer_id,
                found: marker.coordinator_epoch,
                last,
            }),
            _ => Ok(()),
        }
    }

    /// Notes a batch of data whose header has its final offsets and timestamps.
    pub(super) fn append_data(&mut self, header: &BatchHeader) {
        let producer = self
            .producers
            .entry(header.producer_id)
            .or_insert_with(|| Producer::new(header.producer_epoch));
        producer.set_epoch(header.producer_epoch);
        producer.push(PastBatch {
            last_sequence: header.last_sequence().unwrap_or(NO_SEQUENCE),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        producer.last_timestamp = header.max_timestamp;
        if header.attributes.is_transactional() && producer.transaction_start.is_none() {
            producer.transaction_start = Some(header.base_offset);
            self.ongoing.insert(header.base_offset, header.producer_id);
        }
    }

    /// Notes a marker; the entry for the transaction index when it aborted a transaction that has records.
    pub(super) fn append_marker(
        &mut self,
        header: &BatchHeader,
        marker: &EndTxnMarker,
    ) -> Option<AbortedTxn> {
        let producer = self
            .producers
            .entry(header.producer_id)
            .or_insert_with(|| Producer::new(header.producer_epoch));
        producer.set_epoch(header.producer_epoch);
        producer.coordinator_epoch = Some(marker.coordinator_epoch);
        producer.last_timestamp = marker.timestamp;
        let first_offset = producer.transaction_start.take()?;
        let completed = CompletedTxn {
            producer_id: header.producer_id,
            first_offset,
            last_offset: header.base_offset,
            aborted: marker.aborted,
        };
        self.ongoing.remove(&first_offset);
        self.unreplicated.insert(first_offset, completed.last_offset);
        let last_stable_offset =
            self.ongoing.keys().next().copied().unwrap_or(Offset(completed.last_offset.0 + 1));
        completed.aborted.then_some(AbortedTxn {
            producer_id: completed.producer_id,
            first_offset,
            last_offset: completed.last_offset,
            last_stable_offset,
        })
    }

    /// Adds a batch that is older than all that is remembered of its producer, newest such first. Snapshots hold only the
    /// last batch of each, yet a client may resend any of five.
    pub(super) fn remember_older(&mut self, header: &BatchHeader) {
        if let Some(producer) = self.producers.get_mut(&header.producer_id)
            && producer.epoch == header.producer_epoch
            && producer.count > 0
            && producer.count < WINDOW
            && let Some(last_sequence) = header.last_sequence()
            && header.last_offset() < producer.window[0].base_offset()
        {
            producer.window.copy_within(..WINDOW - 1, 1);
            producer.window[0] = PastBatch {
                last_sequence,
                last_offset: header.last_offset(),
                offset_delta: header.last_offset_delta,
                timestamp: header.max_timestamp,
            };
            producer.count += 1;
        }
    }

    /// First offset that is not decided or whose decision is not below the high watermark.
    pub(super) fn first_unstable(&self) -> Option<Offset> {
        let ongoing = self.ongoing.keys().next();
        let unreplicated = self.unreplicated.keys().next();
        ongoing.into_iter().chain(unreplicated).min().copied()
    }

    /// The high watermark moved: markers below it count.
    pub(super) fn high_watermark_moved(&mut self, high_watermark: Offset) {
        if !self.unreplicated.is_empty() {
            self.unreplicated.retain(|_, marker| *marker >= high_watermark);
        }
    }

    /// Forgets producers that are idle for too long and have no open transaction.
    pub(super) fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        self.producers.retain(|_, producer| !is_expired(producer, now, expiration_ms));
    }
}

fn is_expired(producer: &Producer, now: Timestamp, expiration_ms: i64) -> bool {
    producer.transaction_start.is_none()
        && now.0.saturating_sub(producer.last_timestamp.0) >= expiration_ms
}

fn check_epoch(
    producer: &Producer,
    header: &BatchHeader,
    offset: Offset,
) -> Result<(), AppendError> {
    if header.producer_epoch < producer.epoch {
        return Err(AppendError::InvalidProducerEpoch {
            producer_id: header.producer_id,
            offset,
            found: header.producer_epoch,
            last: producer.epoch,
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "producers_tests.rs"]
mod tests;
