//! The records inside a batch.

use std::ops::Range;

use bytes::Bytes;

use crate::batch::{BATCH_OVERHEAD_BYTES, BatchError, BatchHeader, TimestampType};
use crate::compression::decompress;
use crate::error_code::ErrorCode;
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
    body: Bytes,
    header: BatchHeader,
    position: usize,
    left: usize,
}

/// The records of one whole batch. A compressed one is decompressed at once, to at most `limit_bytes`.
///
/// The checksum is not looked at.
///
/// # Errors
/// A bad header, fewer bytes than the header says, an unknown codec, or records that do not decompress.
pub fn records(batch: &Bytes, limit_bytes: usize) -> Result<Records, BatchError> {
    let header = BatchHeader::parse(batch)?;
    if batch.len() < header.batch_size() {
        return Err(corrupt(format!(
            "a batch of {} bytes ends after {}",
            header.batch_size(),
            batch.len()
        )));
    }
    let codec = header.attributes.codec().ok_or_else(|| {
        corrupt(format!("unknown codec in attributes {:#x}", header.attributes.0))
    })?;
    let body = batch.slice(BATCH_OVERHEAD_BYTES..header.batch_size());
    let body = decompress(codec, &body, limit_bytes)?;
    let left = usize::try_from(header.records_count)
        .map_err(|_| corrupt(format!("a batch of {} records", header.records_count)))?;
    Ok(Records { body, header, position: 0, left })
}

impl Records {
    /// Bytes after the records: none in a batch that is right.
    #[must_use]
    pub fn trailing_bytes(&self) -> usize {
        self.body.len() - self.position
    }

    fn read(&mut self) -> Result<Record, BatchError> {
        let (raw, next) = RawRecord::parse(&self.body, self.position)?;
        let headers = raw.headers(&self.body)?;
        self.position = next;
        let slice = |range: &Option<Range<usize>>| {
            range.as_ref().map(|range| self.body.slice(range.clone()))
        };
        let timestamp = match self.header.attributes.timestamp_type() {
            TimestampType::LogAppendTime => self.header.max_timestamp,
            TimestampType::CreateTime => {
                Timestamp(self.header.base_timestamp.0.wrapping_add(raw.timestamp_delta))
            }
        };
        let sequence = (self.header.base_sequence >= 0)
            .then(|| self.header.base_sequence.wrapping_add(raw.offset_delta) & i32::MAX);
        Ok(Record {
            offset: Offset(self.header.base_offset.0.wrapping_add(i64::from(raw.offset_delta))),
            timestamp,
            sequence,
            key: slice(&raw.key),
            value: slice(&raw.value),
            headers,
        })
    }
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let record = self.read();
        if record.is_err() {
            self.left = 0;
        }
        Some(record)
    }
}

/// Where the fields of a record are in the body of its batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RawRecord {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    header_count: usize,
    headers: Range<usize>,
}

impl RawRecord {
    /// The record at `position`, and where the next one begins. All lengths are checked, those of the headers too.
    #[inline]
    pub(super) fn parse(body: &[u8], position: usize) -> Result<(Self, usize), BatchError> {
        let mut at = position;
        let size = read_varint(body, &mut at)?;
        let end = usize::try_from(size)
            .ok()
            .and_then(|size| at.checked_add(size))
            .filter(|end| *end <= body.len())
            .ok_or_else(|| corrupt(format!("a record of {size} bytes at {position}")))?;
        let body = &body[..end];
        if at >= end {
            return Err(corrupt(format!("an empty record at {position}")));
        }
        // Attributes: unused in this format.
        at += 1;
        let timestamp_delta = read_varlong(body, &mut at)?;
        let offset_delta = read_varint(body, &mut at)?;
        let key = read_bytes(body, &mut at)?;
        let value = read_bytes(body, &mut at)?;
        let count = read_varint(body, &mut at)?;
        let header_count = usize::try_from(count)
            .map_err(|_| corrupt(format!("a record with {count} headers at {position}")))?;
        let headers = at..end;
        for _ in 0..header_count {
            if read_bytes(body, &mut at)?.is_none() {
                return Err(corrupt(format!("a header without a key at {position}")));
            }
            read_bytes(body, &mut at)?;
        }
        if at != end {
            return Err(corrupt(format!("{} bytes after the record at {position}", end - at)));
        }
        Ok((Self { timestamp_delta, offset_delta, key, value, header_count, headers }, end))
    }

    fn headers(&self, body: &Bytes) -> Result<Vec<RecordHeader>, BatchError> {
        let mut at = self.headers.start;
        // Each takes two bytes at least, so the count is bounded by what was parsed.
        let mut headers = Vec::with_capacity(self.header_count.min(self.headers.len()));
        for _ in 0..self.header_count {
            let key = read_bytes(body, &mut at)?.unwrap_or_default();
            let value = read_bytes(body, &mut at)?;
            headers.push(RecordHeader {
                key: body.slice(key),
                value: value.map(|range| body.slice(range)),
            });
        }
        Ok(headers)
    }
}

#[cold]
pub(super) fn corrupt(message: String) -> BatchError {
    BatchError::new(ErrorCode::CorruptMessage, message)
}

#[inline]
fn read_bytes(body: &[u8], at: &mut usize) -> Result<Option<Range<usize>>, BatchError> {
    let length = read_varint(body, at)?;
    if length < 0 {
        return if length == -1 { Ok(None) } else { Err(corrupt(format!("a length of {length}"))) };
    }
    let start = *at;
    let end = usize::try_from(length)
        .ok()
        .and_then(|length| start.checked_add(length))
        .filter(|end| *end <= body.len())
        .ok_or_else(|| corrupt(format!("a field of {length} bytes at {start}")))?;
    *at = end;
    Ok(Some(start..end))
}

#[inline]
fn read_varint(body: &[u8], at: &mut usize) -> Result<i32, BatchError> {
    // Most varints of a record are one byte.
    if let Some(&byte) = body.get(*at)
        && byte < 0x80
    {
        *at += 1;
        return Ok(i32::from(byte >> 1) ^ -i32::from(byte & 1));
    }
    let raw = read_unsigned(body, at, 5)?;
    let raw = u32::try_from(raw).map_err(|_| corrupt("a varint of over 32 bits".to_owned()))?;
    Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

#[inline]
fn read_varlong(body: &[u8], at: &mut usize) -> Result<i64, BatchError> {
    if let Some(&byte) = body.get(*at)
        && byte < 0x80
    {
        *at += 1;
        return Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1));
    }
    let raw = read_unsigned(body, at, 10)?;
    Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed())
}

fn read_unsigned(body: &[u8], at: &mut usize, bytes_max: usize) -> Result<u64, BatchError> {
    let mut value = 0_u64;
    for (index, &byte) in body.get(*at..).unwrap_or_default().iter().take(bytes_max).enumerate() {
        let shift = 7 * index;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            *at += index + 1;
            return Ok(value);
        }
    }
    Err(corrupt(format!("a varint without an end at {at}")))
}

/// Appends a zigzag varint.
pub(super) fn write_varlong(out: &mut Vec<u8>, value: i64) {
    let mut raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while raw >= 0x80 {
        out.push((raw & 0x7f) as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Bytes that [`write_varlong`] takes.
pub(super) fn varlong_size(value: i64) -> usize {
    let raw = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let bits = usize::try_from(64 - raw.leading_zeros()).unwrap_or(64).max(1);
    bits.div_ceil(7)
}
