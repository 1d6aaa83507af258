//! Makes batches from records.

use bytes::Bytes;

use super::record::{varlong_size, write_varlong};
use crate::batch::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchError, BatchHeader, CRC_START, LENGTH_PREFIX_BYTES,
    ProducerStamp, TimestampType,
};
use crate::compression::{Codec, Compression, compress};
use crate::error_code::ErrorCode;
use crate::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// Bytes of records that a batch can hold: its length field has 31 bits.
const MAX_BODY: usize = (1 << 31) - 1 - BATCH_OVERHEAD_BYTES;

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
            compression: Codec::None.into(),
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
    base_timestamp: i64,
    max_timestamp: i64,
}

impl BatchBuilder {
    /// An empty batch.
    #[must_use]
    pub fn new(options: BatchOptions) -> Self {
        Self {
            options,
            body: Vec::new(),
            count: 0,
            last_offset_delta: -1,
            base_timestamp: -1,
            max_timestamp: -1,
        }
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
    pub fn push_at(&mut self, offset: Offset, record: NewRecord<'_>) -> Result<(), BatchError> {
        let delta = offset
            .0
            .checked_sub(self.options.base_offset.0)
            .and_then(|delta| i32::try_from(delta).ok())
            .filter(|delta| *delta > self.last_offset_delta)
            .ok_or_else(|| invalid(format!("offset {offset} does not follow in the batch")))?;
        if self.count == 0 {
            self.base_timestamp = record.timestamp.0;
        }
        let timestamp_delta = record.timestamp.0.wrapping_sub(self.base_timestamp);
        let mut size = 1 + varlong_size(timestamp_delta) + varlong_size(i64::from(delta));
        size += field_size(record.key) + field_size(record.value);
        size += varlong_size(length(record.headers.len()));
        for (key, value) in record.headers {
            size += field_size(Some(key)) + field_size(*value);
        }
        let fits = self.body.len() + size <= MAX_BODY && i32::try_from(size).is_ok();
        if !fits {
            return Err(invalid("the batch would be larger than its length field can say".into()));
        }
        let body = &mut self.body;
        write_varlong(body, length(size));
        body.push(0);
        write_varlong(body, timestamp_delta);
        write_varlong(body, i64::from(delta));
        write_field(body, record.key);
        write_field(body, record.value);
        write_varlong(body, length(record.headers.len()));
        for (key, value) in record.headers {
            write_field(body, Some(key));
            write_field(body, *value);
        }
        self.max_timestamp = self.max_timestamp.max(record.timestamp.0);
        self.count += 1;
        self.last_offset_delta = delta;
        Ok(())
    }

    /// Says that the batch ends at `offset`, though its last records are not there: kept by compaction, so that producer
    /// state and offsets survive. A batch may be empty so.
    pub fn set_last_offset(&mut self, offset: Offset) {
        let delta = offset.0.saturating_sub(self.options.base_offset.0);
        let delta = i32::try_from(delta).unwrap_or(i32::MAX);
        self.last_offset_delta = self.last_offset_delta.max(delta);
    }

    /// Records so far.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Bytes of the batch so far, before compression.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        BATCH_OVERHEAD_BYTES + self.body.len()
    }

    /// The finished batch with its checksum.
    ///
    /// # Errors
    /// A level that the codec does not have, or a batch of over 2 GiB.
    pub fn build(self) -> Result<Bytes, BatchError> {
        let options = &self.options;
        let mut attributes = Attributes::default()
            .with_codec(options.compression.codec)
            .with_timestamp_type(options.timestamp_type)
            .with_transactional(options.transactional)
            .with_control(options.control);
        let mut base_timestamp = Timestamp(self.base_timestamp);
        if let Some(horizon) = options.delete_horizon {
            attributes = attributes.with_delete_horizon(true);
            base_timestamp = horizon;
        }
        let producer = options.producer;
        let header = BatchHeader {
            base_offset: options.base_offset,
            batch_length: 0,
            partition_leader_epoch: options.leader_epoch,
            crc: 0,
            attributes,
            last_offset_delta: self.last_offset_delta.max(0),
            base_timestamp,
            max_timestamp: Timestamp(self.max_timestamp),
            producer_id: producer.map_or(ProducerId(-1), |producer| producer.id),
            producer_epoch: producer.map_or(ProducerEpoch(-1), |producer| producer.epoch),
            base_sequence: producer.map_or(-1, |producer| producer.base_sequence),
            records_count: self.count,
        };
        assemble(header, options.compression, &self.body)
    }
}

/// A batch of this header over these records, compressed as the header's codec must be; length and checksum are set.
pub(super) fn assemble(
    mut header: BatchHeader,
    compression: Compression,
    body: &[u8],
) -> Result<Bytes, BatchError> {
    header.attributes = header.attributes.with_codec(compression.codec);
    let compressed;
    let body = if compression.codec == Codec::None {
        body
    } else {
        compressed = compress(compression, body)?;
        &compressed
    };
    header.batch_length = i32::try_from(BATCH_OVERHEAD_BYTES - LENGTH_PREFIX_BYTES + body.len())
        .map_err(|_| invalid("the batch is larger than its length field can say".into()))?;
    let mut bytes = Vec::with_capacity(BATCH_OVERHEAD_BYTES + body.len());
    bytes.extend_from_slice(&header.to_bytes());
    bytes.extend_from_slice(body);
    let crc = super::crc32c(&bytes[CRC_START..]);
    bytes[super::CRC_OFFSET..CRC_START].copy_from_slice(&crc.to_be_bytes());
    Ok(bytes.into())
}

fn invalid(message: String) -> BatchError {
    BatchError::new(ErrorCode::InvalidRecord, message)
}

fn length(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn field_size(field: Option<&[u8]>) -> usize {
    field.map_or(1, |bytes| varlong_size(length(bytes.len())) + bytes.len())
}

fn write_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => write_varlong(out, -1),
        Some(bytes) => {
            write_varlong(out, length(bytes.len()));
            out.extend_from_slice(bytes);
        }
    }
}
