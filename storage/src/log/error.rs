//! Why a log could not do what it was asked.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use protocol_compat::ErrorCode;
use protocol_compat::ids::{Offset, ProducerEpoch, ProducerId};

use super::Cold;

/// The log directory that holds this log failed: it goes offline and nothing on it is retried.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{attempt} failed: {cause}")]
pub struct DirectoryFailed {
    /// What was tried, with the path.
    pub attempt: String,
    /// What the disk reported.
    pub cause: Arc<io::Error>,
}

impl DirectoryFailed {
    /// `KAFKA_STORAGE_ERROR`.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::KafkaStorageError
    }
}

/// A log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("{0}")]
    Directory(#[from] DirectoryFailed),
    /// A segment holds batches of magic 0 or 1, which cannot be served; nothing was changed.
    #[error(
        "{path} holds a batch of magic {magic} at {position}: convert it with Apache Kafka 3.x first"
    )]
    OldMagic {
        /// The segment file.
        path: PathBuf,
        /// Byte of the batch.
        position: u64,
        /// Its magic.
        magic: i8,
    },
}

/// A batch was not appended; the peer is answered with [`AppendError::code`].
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The sequence does not follow the producer's last one.
    #[error(
        "out of order sequence number for producer {producer_id} epoch {epoch} at offset {offset}: {found} (incoming), {last} (current end)"
    )]
    OutOfOrderSequence {
        /// The producer.
        producer_id: ProducerId,
        /// Its epoch in the batch.
        epoch: ProducerEpoch,
        /// Offset that the batch would have got.
        offset: Offset,
        /// First sequence of the batch.
        found: i32,
        /// Last sequence that was appended.
        last: i32,
    },
    /// The producer's epoch is older than one seen.
    #[error(
        "epoch of producer {producer_id} at offset {offset} is {found}, which is smaller than the last seen epoch {last}"
    )]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// Offset that the batch would have got.
        offset: Offset,
        /// Its epoch in the batch.
        found: ProducerEpoch,
        /// Newest epoch seen.
        last: ProducerEpoch,
    },
    /// A batch outside the producer's open transaction.
    #[error("expected transactional write from producer {producer_id} at offset {offset}")]
    InvalidTransactionState {
        /// The producer.
        producer_id: ProducerId,
        /// Offset that the batch would have got.
        offset: Offset,
    },
    /// A transaction marker of an older coordinator.
    #[error("coordinator epoch {found} of producer {producer_id} is older than the last, {last}")]
    CoordinatorFenced {
        /// The producer.
        producer_id: ProducerId,
        /// Coordinator epoch of the marker.
        found: i32,
        /// Newest coordinator epoch seen.
        last: i32,
    },
    /// The batch alone is larger than a segment may be.
    #[error("batch of {size_bytes} bytes exceeds the segment size of {segment_bytes}")]
    TooLarge {
        /// Bytes of the batch.
        size_bytes: usize,
        /// `segment.bytes`.
        segment_bytes: u32,
    },
    /// The bytes are not the one batch that their header describes.
    #[error("{0}")]
    Malformed(String),
    /// Offsets of a replicated batch do not continue the log.
    #[error("batch at offset {found} does not follow the log end {log_end}")]
    OffsetsNotContinuous {
        /// First offset of the batch.
        found: Offset,
        /// Where the log ends.
        log_end: Offset,
    },
    /// The log is being truncated or closed; ask again after it.
    #[error("the log is being truncated or closed")]
    Busy,
    /// The directory failed before.
    #[error("{0}")]
    Directory(#[from] DirectoryFailed),
}

impl AppendError {
    /// The code the peer is answered with.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            Self::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            Self::InvalidTransactionState { .. } => ErrorCode::InvalidTxnState,
            Self::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
            Self::TooLarge { .. } => ErrorCode::RecordListTooLarge,
            Self::Malformed(_) => ErrorCode::CorruptMessage,
            Self::OffsetsNotContinuous { .. } => ErrorCode::OffsetOutOfRange,
            Self::Busy => ErrorCode::NotLeaderOrFollower,
            Self::Directory(error) => error.code(),
        }
    }
}

/// A read gave no slice.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The offset is before the log start or past the log end.
    #[error("offset {offset} is out of range: the log holds {log_start} to {log_end}")]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// First offset of the log.
        log_start: Offset,
        /// Offset after the last.
        log_end: Offset,
    },
    /// The bytes needed are not in memory: warm them ([`Cold::warm`] on the pool, or the engine) and read again.
    #[error("data is not in the page cache")]
    Cold(Cold),
    /// The file does not hold what it must.
    #[error("segment data is corrupt: {0}")]
    Corrupt(String),
    /// The disk failed.
    #[error("{0}")]
    Directory(#[from] DirectoryFailed),
}

impl ReadError {
    /// The code the peer is answered with; `Cold` never reaches one.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            Self::Cold(_) | Self::Directory(_) => ErrorCode::KafkaStorageError,
            Self::Corrupt(_) => ErrorCode::CorruptMessage,
        }
    }
}
