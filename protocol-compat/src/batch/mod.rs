//! Record batches of magic 2: the header view, iteration, building, validation of what producers send, recompression.
//!
//! A batch is 61 bytes of header and then records, plain or compressed as a whole. All numbers are big-endian:
//!
//! ```text
//!  0 base_offset i64 | 8 batch_length i32 (bytes after this field) | 12 partition_leader_epoch i32 | 16 magic i8
//! 17 crc u32 (CRC-32C of all that follows) | 21 attributes i16 | 23 last_offset_delta i32 | 27 base_timestamp i64
//! 35 max_timestamp i64 | 43 producer_id i64 | 51 producer_epoch i16 | 53 base_sequence i32 | 57 records_count i32 | 61
//! ```
//!
//! The first 21 bytes are outside the checksum, so a broker gives a batch its offset and leader epoch by writing 16 bytes
//! ([`BatchHeader::prefix`]) and leaves the rest as the producer sent it. Nothing above this module re-encodes a batch.

mod builder;
mod error;
mod header;
mod iter;
pub mod produce;
mod recompress;
mod record;

pub use builder::{BatchBuilder, BatchOptions, NewRecord};
pub use error::{BatchError, RecordError};
pub use header::{
    Attributes, BATCH_OVERHEAD_BYTES, BatchHeader, CRC_OFFSET, CRC_START, LENGTH_PREFIX_BYTES,
    MAGIC_OFFSET, MAGIC_V2, PREFIX_BYTES, ProducerStamp, TimestampType,
};
pub use iter::{BatchIter, BatchRef};
pub use recompress::{recompress, rewrite_log_append_time};
pub use record::{Record, RecordHeader, Records, records};

/// CRC-32C (Castagnoli) of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) & 0xffff_ffff)
        .expect("32 bits")
}
