//! Record batches, written and read independently of the broker's own code, wrong where a test wants them wrong.

use protocol_compat::batch::crc32c;

/// A record as a test sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// Offset; ignored when a batch is built.
    pub offset: i64,
    /// Timestamp in milliseconds.
    pub timestamp: i64,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value.
    pub value: Option<Vec<u8>>,
}

impl Record {
    /// A record with a value only.
    #[must_use]
    pub fn value(value: &str) -> Self {
        Self { timestamp: 1_000, value: Some(value.as_bytes().to_vec()), ..Self::default() }
    }

    /// A record with key and value.
    #[must_use]
    pub fn keyed(key: &str, value: &str) -> Self {
        Self { key: Some(key.as_bytes().to_vec()), ..Self::value(value) }
    }

    /// This record at another time.
    #[must_use]
    pub fn at(mut self, timestamp: i64) -> Self {
        self.timestamp = timestamp;
        self
    }
}

/// The fields of a batch; the defaults are those of a plain producer. Every field is written as it stands.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Format; 2.
    pub magic: i8,
    /// Codec and flags.
    pub attributes: i16,
    /// Offset of the last record from the base; `None` is what the records say.
    pub last_offset_delta: Option<i32>,
    /// Largest timestamp; `None` is what the records say.
    pub max_timestamp: Option<i64>,
    /// Producer id, -1 for none.
    pub producer_id: i64,
    /// Producer epoch, -1 for none.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 for none.
    pub base_sequence: i32,
    /// Number of records; `None` is what the records say.
    pub records_count: Option<i32>,
    /// Added to the length field.
    pub length_error: i32,
    /// Added to the checksum.
    pub crc_error: u32,
    /// The records.
    pub records: Vec<Record>,
    /// What stands in the place of the records' bytes, such as a compressed stream.
    pub payload: Option<Vec<u8>>,
}

impl Batch {
    /// A batch of records of a plain producer.
    #[must_use]
    pub fn of(records: Vec<Record>) -> Self {
        Self {
            base_offset: 0,
            magic: 2,
            attributes: 0,
            last_offset_delta: None,
            max_timestamp: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            records_count: None,
            length_error: 0,
            crc_error: 0,
            records,
            payload: None,
        }
    }

    /// One record with this value.
    #[must_use]
    pub fn value(value: &str) -> Self {
        Self::of(vec![Record::value(value)])
    }

    /// This batch as of an idempotent producer.
    #[must_use]
    pub fn from_producer(mut self, id: i64, epoch: i16, sequence: i32) -> Self {
        (self.producer_id, self.producer_epoch, self.base_sequence) = (id, epoch, sequence);
        self
    }

    /// The bytes of the records alone, before any codec.
    #[must_use]
    pub fn records_bytes(&self) -> Vec<u8> {
        let base_timestamp = self.records.first().map_or(-1, |record| record.timestamp);
        let mut bytes = Vec::new();
        for (delta, record) in (0..).zip(&self.records) {
            let mut body = vec![0];
            put_varint(&mut body, record.timestamp - base_timestamp);
            put_varint(&mut body, delta);
            put_bytes(&mut body, record.key.as_deref());
            put_bytes(&mut body, record.value.as_deref());
            put_varint(&mut body, 0);
            put_varint(&mut bytes, i64::try_from(body.len()).expect("a small record"));
            bytes.extend(body);
        }
        bytes
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let count = i32::try_from(self.records.len()).expect("few records");
        let base_timestamp = self.records.first().map_or(-1, |record| record.timestamp);
        let max = self.records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
        let mut covered = Vec::new();
        covered.extend(self.attributes.to_be_bytes());
        covered.extend(self.last_offset_delta.unwrap_or(count - 1).to_be_bytes());
        covered.extend(base_timestamp.to_be_bytes());
        covered.extend(self.max_timestamp.unwrap_or(max).to_be_bytes());
        covered.extend(self.producer_id.to_be_bytes());
        covered.extend(self.producer_epoch.to_be_bytes());
        covered.extend(self.base_sequence.to_be_bytes());
        covered.extend(self.records_count.unwrap_or(count).to_be_bytes());
        covered.extend(self.payload.clone().unwrap_or_else(|| self.records_bytes()));
        let mut out = Vec::new();
        out.extend(self.base_offset.to_be_bytes());
        let length = i32::try_from(covered.len() + 9).expect("a small batch") + self.length_error;
        out.extend(length.to_be_bytes());
        out.extend((-1_i32).to_be_bytes());
        out.extend(self.magic.to_be_bytes());
        out.extend(crc32c(&covered).wrapping_add(self.crc_error).to_be_bytes());
        out.extend(covered);
        out
    }
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push((rest & 0x7f) as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, i64::try_from(bytes.len()).expect("few bytes"));
            out.extend(bytes);
        }
    }
}

/// What stands in the header of a batch, for tests that look at it.
#[derive(Clone, Debug)]
pub struct Header {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Leader epoch.
    pub leader_epoch: i32,
    /// Codec and flags.
    pub attributes: i16,
    /// Largest timestamp.
    pub max_timestamp: i64,
    /// Number of records.
    pub records_count: i32,
    /// Offset of the last record from the base.
    pub last_offset_delta: i32,
}

impl Header {
    /// The offset after the last.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta) + 1
    }
}

/// The uncompressed, non-control records of what a Fetch answered, and the headers of all whole batches.
///
/// # Panics
/// On anything that is not batches of magic 2 with right checksums; the last batch may be cut off.
#[must_use]
pub fn read(bytes: &[u8]) -> (Vec<Header>, Vec<Record>) {
    let (mut headers, mut records) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    while rest.len() >= 61 {
        let size = 12 + usize::try_from(i32_at(rest, 8)).expect("a batch length");
        if rest.len() < size {
            break;
        }
        let batch = &rest[..size];
        rest = &rest[size..];
        assert_eq!(batch[16], 2, "magic");
        assert_eq!(
            crc32c(&batch[21..]),
            u32::from_be_bytes(batch[17..21].try_into().expect("4")),
            "checksum"
        );
        let header = Header {
            base_offset: i64_at(batch, 0),
            leader_epoch: i32_at(batch, 12),
            attributes: i16::from_be_bytes([batch[21], batch[22]]),
            max_timestamp: i64_at(batch, 35),
            records_count: i32_at(batch, 57),
            last_offset_delta: i32_at(batch, 23),
        };
        if header.attributes & 0x27 == 0 {
            let log_append = header.attributes & 8 != 0;
            let mut body = &batch[61..];
            for _ in 0..header.records_count {
                let record_size = usize::try_from(get_varint(&mut body)).expect("a size");
                let mut record = &body[1..record_size];
                body = &body[record_size..];
                let timestamp = i64_at(batch, 27) + get_varint(&mut record);
                records.push(Record {
                    timestamp: if log_append { header.max_timestamp } else { timestamp },
                    offset: header.base_offset + get_varint(&mut record),
                    key: get_bytes(&mut record),
                    value: get_bytes(&mut record),
                });
            }
        }
        headers.push(header);
    }
    (headers, records)
}

fn i32_at(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn get_varint(bytes: &mut &[u8]) -> i64 {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let (first, rest) = bytes.split_first().expect("a varint");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
        }
        shift += 7;
    }
}

fn get_bytes(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let size = usize::try_from(get_varint(bytes)).ok()?;
    let (taken, rest) = bytes.split_at(size);
    *bytes = rest;
    Some(taken.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_back() {
        let records = vec![
            Record::keyed("k", "v").at(5_000),
            Record { timestamp: 4_999, key: None, value: None, ..Record::default() },
            Record::value(&"x".repeat(300)).at(1 << 40),
        ];
        let mut bytes = Batch::of(records.clone()).from_producer(7, 1, 3).bytes();
        bytes.extend(&Batch::value("cut off").bytes()[..70]);
        let (headers, read_back) = read(&bytes);
        assert_eq!((headers.len(), headers[0].records_count), (1, 3));
        assert_eq!(headers[0].max_timestamp, 1 << 40);
        let offsets: Vec<i64> = read_back.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [0, 1, 2]);
        let plain: Vec<Record> =
            read_back.into_iter().map(|record| Record { offset: 0, ..record }).collect();
        assert_eq!(plain, records);
    }
}
