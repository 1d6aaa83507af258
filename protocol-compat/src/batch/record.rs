//! The records inside a batch.

use bytes::Bytes;

use crate::batch::BatchError;
use crate::ids::{Offset, Timestamp};

/// A header of a record. Keys may repeat and need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// The name.
    pub key: Bytes,
    /// The value; null is not the same as empty.
    pub value: Option<Bytes>,
}

/// A record, its fields sliced from the batch without a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its offset in the partition.
    pub offset: Offset,
    /// Its timestamp: the batch's where that is LogAppendTime. -1 when there is none.
    pub timestamp: Timestamp,
    /// Its sequence, where the batch has one.
    pub sequence: Option<i32>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; a null is a tombstone.
    pub value: Option<Bytes>,
    /// The headers in order.
    pub headers: Vec<RecordHeader>,
}

/// Iterator over the records of one batch; ends after the first error.
#[derive(Debug)]
pub struct Records {
    _body: Bytes,
}

/// The records of one whole batch. A compressed one is decompressed at once, to at most `limit_bytes`.
///
/// The checksum is not looked at.
///
/// # Errors
/// A bad header, fewer bytes than the header says, an unknown codec, or records that do not decompress.
pub fn records(_batch: &Bytes, _limit_bytes: usize) -> Result<Records, BatchError> {
    unimplemented!()
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}
