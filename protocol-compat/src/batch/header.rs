//! The 61 bytes in front of every batch.

use crate::batch::BatchError;
use crate::compression::Codec;
use crate::error_code::ErrorCode;
use crate::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

/// Bytes of the header: also the size of a batch without records.
pub const BATCH_OVERHEAD_BYTES: usize = 61;
/// Bytes up to and including the length field; `batch_length` counts what follows them.
pub const LENGTH_PREFIX_BYTES: usize = 12;
/// Bytes that a leader rewrites when it appends: base offset, length and leader epoch.
pub const PREFIX_BYTES: usize = 16;
/// Where the magic byte stands, in this and in all older formats.
pub const MAGIC_OFFSET: usize = 16;
/// Where the checksum stands.
pub const CRC_OFFSET: usize = 17;
/// Where the bytes under the checksum begin; they go on to the end of the batch.
pub const CRC_START: usize = 21;
/// The only format that may be written.
pub const MAGIC_V2: i8 = 2;

/// What the timestamps of a batch mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimestampType {
    /// When the producer made the record.
    CreateTime,
    /// When the leader appended the batch; the batch's max timestamp holds for all its records.
    LogAppendTime,
}

/// The attribute bits of a batch: 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const TIMESTAMP_TYPE: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    /// The codec; `None` when the number is of no codec.
    #[must_use]
    pub fn codec(self) -> Option<Codec> {
        Codec::from_id((self.0 & 7).to_be_bytes()[1])
    }

    /// What the timestamps mean.
    #[must_use]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::TIMESTAMP_TYPE == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the batch holds control records (transaction markers, quorum messages).
    #[must_use]
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp is the time after which the cleaner may drop tombstones and markers (KIP-534).
    #[must_use]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// These bits with another codec.
    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Self((self.0 & !7) | i16::from(codec.id()))
    }

    /// These bits with another timestamp type.
    #[must_use]
    pub fn with_timestamp_type(self, kind: TimestampType) -> Self {
        self.with(Self::TIMESTAMP_TYPE, kind == TimestampType::LogAppendTime)
    }

    /// These bits with the transactional bit set or not.
    #[must_use]
    pub fn with_transactional(self, on: bool) -> Self {
        self.with(Self::TRANSACTIONAL, on)
    }

    /// These bits with the control bit set or not.
    #[must_use]
    pub fn with_control(self, on: bool) -> Self {
        self.with(Self::CONTROL, on)
    }

    /// These bits with the delete horizon bit set or not.
    #[must_use]
    pub fn with_delete_horizon(self, on: bool) -> Self {
        self.with(Self::DELETE_HORIZON, on)
    }

    fn with(self, bit: i16, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }
}

/// Who wrote a batch, when an idempotent or transactional producer did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerStamp {
    /// The producer.
    pub id: ProducerId,
    /// Its incarnation.
    pub epoch: ProducerEpoch,
    /// Sequence of the first record; -1 in control batches.
    pub base_sequence: i32,
}

/// The header of a batch of magic 2, field by field as it stands in the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// Offset of the first record; stays when the first records are compacted away.
    pub base_offset: Offset,
    /// Bytes after the length field; at least 49.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch; -1 in what producers send.
    pub partition_leader_epoch: LeaderEpoch,
    /// CRC-32C of the bytes from [`CRC_START`] to the end.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: Attributes,
    /// Offset of the last record, counted from the base offset; stays when the last records are compacted away.
    pub last_offset_delta: i32,
    /// Base of the records' timestamps, or the delete horizon where that bit is set. -1 when there is none.
    pub base_timestamp: Timestamp,
    /// Largest timestamp of the records; -1 when there is none.
    pub max_timestamp: Timestamp,
    /// The producer, -1 for none; [`Self::producer`] says it better.
    pub producer_id: ProducerId,
    /// The producer's incarnation, -1 for none.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, -1 for none.
    pub base_sequence: i32,
    /// Number of records.
    pub records_count: i32,
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`, which may be shorter or longer than the batch.
    ///
    /// The magic and the least possible length are checked; the checksum is not.
    ///
    /// # Errors
    /// Fewer than 61 bytes, a length below 49, or another magic.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        let Some(head) = bytes.first_chunk::<BATCH_OVERHEAD_BYTES>() else {
            return Err(BatchError::new(
                ErrorCode::CorruptMessage,
                format!(
                    "a batch header has {BATCH_OVERHEAD_BYTES} bytes, {} are left",
                    bytes.len()
                ),
            ));
        };
        let header = Self::from_array(head);
        let magic = i8::from_be_bytes([head[MAGIC_OFFSET]]);
        if magic != MAGIC_V2 {
            return Err(BatchError::new(
                ErrorCode::CorruptMessage,
                format!("batch magic {magic} is not supported"),
            ));
        }
        if header.batch_length < MIN_BATCH_LENGTH {
            return Err(BatchError::new(
                ErrorCode::CorruptMessage,
                format!(
                    "batch length {} is below the least of {MIN_BATCH_LENGTH}",
                    header.batch_length
                ),
            ));
        }
        Ok(header)
    }

    fn from_array(b: &[u8; BATCH_OVERHEAD_BYTES]) -> Self {
        Self {
            base_offset: Offset(i64::from_be_bytes(field(b, 0))),
            batch_length: i32::from_be_bytes(field(b, 8)),
            partition_leader_epoch: LeaderEpoch(i32::from_be_bytes(field(b, 12))),
            crc: u32::from_be_bytes(field(b, 17)),
            attributes: Attributes(i16::from_be_bytes(field(b, 21))),
            last_offset_delta: i32::from_be_bytes(field(b, 23)),
            base_timestamp: Timestamp(i64::from_be_bytes(field(b, 27))),
            max_timestamp: Timestamp(i64::from_be_bytes(field(b, 35))),
            producer_id: ProducerId(i64::from_be_bytes(field(b, 43))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(field(b, 51))),
            base_sequence: i32::from_be_bytes(field(b, 53)),
            records_count: i32::from_be_bytes(field(b, 57)),
        }
    }

    /// The header as bytes, checksum field as it is.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; BATCH_OVERHEAD_BYTES] {
        let mut out = [0; BATCH_OVERHEAD_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.base_offset.0.to_be_bytes());
        put(8, &self.batch_length.to_be_bytes());
        put(12, &self.partition_leader_epoch.0.to_be_bytes());
        put(16, &MAGIC_V2.to_be_bytes());
        put(17, &self.crc.to_be_bytes());
        put(21, &self.attributes.0.to_be_bytes());
        put(23, &self.last_offset_delta.to_be_bytes());
        put(27, &self.base_timestamp.0.to_be_bytes());
        put(35, &self.max_timestamp.0.to_be_bytes());
        put(43, &self.producer_id.0.to_be_bytes());
        put(51, &self.producer_epoch.0.to_be_bytes());
        put(53, &self.base_sequence.to_be_bytes());
        put(57, &self.records_count.to_be_bytes());
        out
    }

    /// The 16 bytes that give a batch its place in a log; the rest of the batch stays as it is.
    #[must_use]
    pub fn prefix(&self, base_offset: Offset, leader_epoch: LeaderEpoch) -> [u8; PREFIX_BYTES] {
        let mut out = [0; PREFIX_BYTES];
        out[..8].copy_from_slice(&base_offset.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        out[12..].copy_from_slice(&leader_epoch.0.to_be_bytes());
        out
    }

    /// Bytes of the whole batch, header included.
    #[must_use]
    pub fn batch_size(&self) -> usize {
        LENGTH_PREFIX_BYTES + usize::try_from(self.batch_length).unwrap_or(0)
    }

    /// Offset of the last record (or of the last that was there before compaction).
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// The offset after the last.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// The producer, where an idempotent or transactional one wrote the batch.
    #[must_use]
    pub fn producer(&self) -> Option<ProducerStamp> {
        (self.producer_id.0 >= 0).then_some(ProducerStamp {
            id: self.producer_id,
            epoch: self.producer_epoch,
            base_sequence: self.base_sequence,
        })
    }

    /// Sequence of the last record; sequences wrap from `i32::MAX` to 0. `None` where there is no sequence.
    #[must_use]
    pub fn last_sequence(&self) -> Option<i32> {
        (self.base_sequence >= 0)
            .then(|| self.base_sequence.wrapping_add(self.last_offset_delta.max(0)) & i32::MAX)
    }

    /// The time after which tombstones and markers in the batch may be dropped, where one is set.
    #[must_use]
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// Whether the checksum is that of `batch`, which must be the whole batch.
    #[must_use]
    pub fn crc_matches(&self, batch: &[u8]) -> bool {
        batch.len() == self.batch_size()
            && batch
                .get(CRC_START..)
                .is_some_and(|covered| crate::batch::crc32c(covered) == self.crc)
    }
}

const MIN_BATCH_LENGTH: i32 = 49;

/// `N` bytes of the header at a constant place.
fn field<const N: usize>(head: &[u8; BATCH_OVERHEAD_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&head[at..at + N]);
    out
}
