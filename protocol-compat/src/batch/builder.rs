//! Makes batches from records.

use bytes::Bytes;

use crate::batch::{BatchError, ProducerStamp, TimestampType};
use crate::compression::Compression;
use crate::ids::{LeaderEpoch, Offset, Timestamp};

/// What a new batch is, besides its records.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Epoch of the leader; -1 in what a producer sends.
    pub leader_epoch: LeaderEpoch,
    /// Codec and level.
    pub compression: Compression,
    /// What the timestamps mean.
    pub timestamp_type: TimestampType,
    /// The producer, if idempotent or transactional.
    pub producer: Option<ProducerStamp>,
    /// Whether the records belong to a transaction.
    pub transactional: bool,
    /// Whether the records are control records.
    pub control: bool,
    /// The delete horizon that the cleaner sets (KIP-534).
    pub delete_horizon: Option<Timestamp>,
}

impl Default for BatchOptions {
    /// An uncompressed batch at offset 0 of no producer, as a plain client sends it.
    fn default() -> Self {
        Self {
            base_offset: Offset(0),
            leader_epoch: LeaderEpoch(-1),
            compression: crate::compression::Codec::None.into(),
            timestamp_type: TimestampType::CreateTime,
            producer: None,
            transactional: false,
            control: false,
            delete_horizon: None,
        }
    }
}

/// A record to be put into a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRecord<'a> {
    /// The timestamp; -1 for none.
    pub timestamp: Timestamp,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// Headers in order: key and value.
    pub headers: &'a [(&'a [u8], Option<&'a [u8]>)],
}

/// Collects records and gives the bytes of their batch.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    body: Vec<u8>,
    count: i32,
    last_offset_delta: i32,
}

impl BatchBuilder {
    /// An empty batch.
    #[must_use]
    pub fn new(options: BatchOptions) -> Self {
        Self { options, body: Vec::new(), count: 0, last_offset_delta: -1 }
    }

    /// Adds a record at the next offset.
    ///
    /// # Errors
    /// Sizes or counts past what the format holds.
    pub fn push(&mut self, record: NewRecord<'_>) -> Result<(), BatchError> {
        let offset = Offset(
            self.options.base_offset.0.saturating_add(i64::from(self.last_offset_delta) + 1),
        );
        self.push_at(offset, record)
    }

    /// Adds a record at `offset`, which must rise: compaction leaves gaps.
    ///
    /// # Errors
    /// An offset not above the last or too far from the base; sizes or counts past what the format holds.
    pub fn push_at(&mut self, _offset: Offset, _record: NewRecord<'_>) -> Result<(), BatchError> {
        unimplemented!()
    }

    /// Says that the batch ends at `offset`, though its last records are not there: kept by compaction, so that producer
    /// state and offsets survive. A batch may be empty so.
    pub fn set_last_offset(&mut self, _offset: Offset) {
        unimplemented!()
    }

    /// Records so far.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Bytes of the batch so far, before compression.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        super::BATCH_OVERHEAD_BYTES + self.body.len()
    }

    /// The finished batch with its checksum.
    ///
    /// # Errors
    /// A level that the codec does not have, or a batch of over 2 GiB.
    pub fn build(self) -> Result<Bytes, BatchError> {
        unimplemented!()
    }
}
