//! Requests, encoded once.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiVersionsRequest, BrokerId, FetchRequest, MetadataRequest, ProduceRequest, TopicName,
};
use kafka_protocol::records::{
    Compression as WireCompression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use protocol_compat::compression::Codec;

use crate::cli::CliError;
use crate::cli::client::{frame, text};

/// The newest versions that name topics by their names; every broker of the last years has them.
pub(super) const PRODUCE_VERSION: i16 = 9;
pub(super) const FETCH_VERSION: i16 = 12;
/// Frames of one set are held in memory, at most so many bytes.
const SET_BYTES_MAX: usize = 256 << 20;
/// Different requests of a fetch load, each from another offset.
const FETCH_VARIANTS: usize = 64;
/// Name that the generator gives itself.
const CLIENT_ID: &str = "kelda-bench";

/// What is produced.
#[derive(Clone, Debug)]
pub(super) struct ProduceShape {
    pub(super) records: usize,
    pub(super) size_bytes: usize,
    pub(super) acks: i16,
    pub(super) compression: Codec,
    pub(super) partitions_per_request: usize,
}

/// What is fetched.
#[derive(Clone, Debug)]
pub(super) struct FetchShape {
    pub(super) partitions_per_request: usize,
    pub(super) partition_max_bytes: i32,
    pub(super) is_discarding: bool,
    /// Batches that each partition holds.
    pub(super) batches: usize,
    pub(super) records_per_batch: usize,
    pub(super) batch_bytes: usize,
}

/// Requests back to back, and how their answers are checked.
#[derive(Debug, Default)]
pub(super) struct FrameSet {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Where answers have error codes, counted from behind their size.
    pub(super) error_offsets: Vec<usize>,
    /// Whether an answer's bytes are data, to be counted and dropped.
    pub(super) is_fetch: bool,
    /// Whether the data is dropped in the kernel instead of being copied once.
    pub(super) is_discarding: bool,
    /// Whether there are answers.
    pub(super) has_answers: bool,
    /// Records that each request writes.
    pub(super) records_per_request: usize,
    /// Bytes of batches that each request writes; for a fetch, bytes of a batch.
    pub(super) bytes_per_request: usize,
    /// Records of a fetched byte.
    pub(super) records_per_byte: f64,
}

impl FrameSet {
    /// How many requests there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of `count` requests from `first` on, as far as the end of the set.
    pub(super) fn slice(&self, first: usize, count: usize) -> (&[u8], usize) {
        let last = (first + count).min(self.ends.len());
        let start = if first == 0 { 0 } else { self.ends[first - 1] };
        (&self.bytes[start..self.ends[last - 1]], last - first)
    }

    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    /// Repeats the requests until `wanted` can be sent with one write.
    fn repeat(&mut self, wanted: usize) {
        let (once, ends) = (self.bytes.clone(), self.ends.clone());
        while self.ends.len() < wanted && self.bytes.len() + once.len() <= SET_BYTES_MAX {
            let base = self.bytes.len();
            self.bytes.extend_from_slice(&once);
            self.ends.extend(ends.iter().map(|end| base + end));
        }
    }
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Failed(format!("a request cannot be encoded: {error}"))
}

/// Bytes of a varint that holds a compact length.
fn varint_len(value: usize) -> usize {
    let bits = usize::BITS - value.leading_zeros();
    usize::try_from(bits.div_ceil(7)).unwrap_or(1).max(1)
}

/// Where the error codes of a Produce answer stand in versions 9 to 12: the header is a correlation id and no tags.
fn produce_error_offsets(topic: &str, partitions: usize) -> Vec<usize> {
    // Index, error, base offset, append time, log start, no record errors, no message, no tags.
    const PARTITION: usize = 4 + 2 + 8 + 8 + 8 + 1 + 1 + 1;
    let first = 4 + 1 + 1 + varint_len(topic.len() + 1) + topic.len() + varint_len(partitions + 1);
    (0..partitions).map(|at| first + at * PARTITION + 4).collect()
}

/// Where the first error codes of a Fetch answer stand in version 12.
fn fetch_error_offsets(topic: &str, partitions: usize) -> Vec<usize> {
    let topics = 4 + 1 + 4 + 2 + 4;
    let first = topics + 1 + varint_len(topic.len() + 1) + topic.len() + varint_len(partitions + 1);
    vec![9, first + 4]
}

/// Produce requests that touch each of `partitions` once in turn.
pub(super) fn produce(
    topic: &str,
    partitions: &[i32],
    shape: &ProduceShape,
    in_flight: usize,
) -> Result<FrameSet, CliError> {
    let batch = batch(shape).map_err(failed)?;
    let group = shape.partitions_per_request.min(partitions.len()).max(1);
    let mut set = FrameSet {
        error_offsets: produce_error_offsets(topic, group),
        has_answers: shape.acks != 0,
        records_per_request: shape.records * group,
        bytes_per_request: batch.len() * group,
        ..FrameSet::default()
    };
    let rounds = partitions.len().div_ceil(group);
    for round in 0..rounds {
        let data = (0..group).map(|at| {
            PartitionProduceData::default()
                .with_index(partitions[(round * group + at) % partitions.len()])
                .with_records(Some(batch.clone()))
        });
        let data = TopicProduceData::default()
            .with_name(TopicName(text(topic)))
            .with_partition_data(data.collect());
        let request = ProduceRequest::default()
            .with_acks(shape.acks)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![data]);
        let frame =
            frame(&request, PRODUCE_VERSION, correlation(round), CLIENT_ID).map_err(failed)?;
        set.push(&frame);
        if set.bytes.len() > SET_BYTES_MAX {
            break;
        }
    }
    set.repeat(in_flight);
    Ok(set)
}

/// Fetch requests from offsets all over what was preloaded.
pub(super) fn fetch(
    topic: &str,
    partitions: &[i32],
    shape: &FetchShape,
    in_flight: usize,
) -> Result<FrameSet, CliError> {
    let group = shape.partitions_per_request.min(partitions.len()).max(1);
    let max_bytes = usize::try_from(shape.partition_max_bytes).unwrap_or(0);
    // Not so near to the end that an answer would be short.
    let last = shape.batches.saturating_sub(max_bytes / shape.batch_bytes.max(1) + 1);
    let mut set = FrameSet {
        error_offsets: fetch_error_offsets(topic, group),
        is_fetch: true,
        is_discarding: shape.is_discarding,
        has_answers: true,
        bytes_per_request: shape.batch_bytes,
        records_per_byte: ratio(shape.records_per_batch, shape.batch_bytes),
        ..FrameSet::default()
    };
    for variant in 0..FETCH_VARIANTS {
        let offset = (variant * last / FETCH_VARIANTS) * shape.records_per_batch;
        let offset = i64::try_from(offset).unwrap_or(0);
        let data = (0..group).map(|at| {
            FetchPartition::default()
                .with_partition(partitions[(variant * group + at) % partitions.len()])
                .with_current_leader_epoch(-1)
                .with_fetch_offset(offset)
                .with_last_fetched_epoch(-1)
                .with_log_start_offset(-1)
                .with_partition_max_bytes(shape.partition_max_bytes)
        });
        let topic = FetchTopic::default()
            .with_topic(TopicName(text(topic)))
            .with_partitions(data.collect());
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(500)
            .with_min_bytes(1)
            .with_max_bytes(i32::MAX)
            .with_session_epoch(-1)
            .with_topics(vec![topic]);
        let frame =
            frame(&request, FETCH_VERSION, correlation(variant), CLIENT_ID).map_err(failed)?;
        set.push(&frame);
    }
    set.repeat(in_flight);
    Ok(set)
}

/// ApiVersions requests.
pub(super) fn api_versions(in_flight: usize) -> Result<FrameSet, CliError> {
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text(CLIENT_ID))
        .with_client_software_version(text("1"));
    let frame = frame(&request, 3, 0, CLIENT_ID).map_err(failed)?;
    // The answer's header has no tags in any version.
    let mut set = FrameSet { error_offsets: vec![4], has_answers: true, ..FrameSet::default() };
    set.push(&frame);
    set.repeat(in_flight);
    Ok(set)
}

/// Metadata requests for no topic.
pub(super) fn metadata(in_flight: usize) -> Result<FrameSet, CliError> {
    let request = MetadataRequest::default()
        .with_topics(Some(Vec::new()))
        .with_allow_auto_topic_creation(false);
    let frame = frame(&request, 9, 0, CLIENT_ID).map_err(failed)?;
    let mut set = FrameSet { has_answers: true, ..FrameSet::default() };
    set.push(&frame);
    set.repeat(in_flight);
    Ok(set)
}

fn correlation(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(0)
}

#[allow(clippy::cast_precision_loss, reason = "a ratio to print")]
fn ratio(a: usize, b: usize) -> f64 {
    a as f64 / b.max(1) as f64
}

/// One batch of records.
fn batch(shape: &ProduceShape) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = i64::try_from(now.as_millis())?;
    let records: Vec<Record> = (0..shape.records)
        .map(|at| {
            Ok(Record {
                transactional: false,
                control: false,
                delete_horizon: false,
                partition_leader_epoch: -1,
                producer_id: -1,
                producer_epoch: -1,
                timestamp_type: TimestampType::Creation,
                offset: i64::try_from(at)?,
                // Consecutive like the offsets, or the encoder begins a new batch.
                sequence: i32::try_from(at)?.wrapping_sub(1),
                timestamp,
                key: None,
                value: Some(value(at, shape.size_bytes)),
                headers: IndexMap::new(),
            })
        })
        .collect::<Result<_, Box<dyn Error + Send + Sync>>>()?;
    let options = RecordEncodeOptions {
        version: 2,
        compression: match shape.compression {
            Codec::None => WireCompression::None,
            Codec::Gzip => WireCompression::Gzip,
            Codec::Snappy => WireCompression::Snappy,
            Codec::Lz4 => WireCompression::Lz4,
            Codec::Zstd => WireCompression::Zstd,
        },
    };
    let codec = shape.compression;
    let mut encoded = BytesMut::new();
    RecordBatchEncoder::encode_with_custom_compression(
        &mut encoded,
        &records,
        &options,
        Some(|plain: &mut BytesMut, out: &mut BytesMut, _: WireCompression| {
            if codec == Codec::None {
                out.extend_from_slice(plain);
            } else {
                let plain = plain.copy_to_bytes(plain.remaining());
                out.extend_from_slice(&protocol_compat::compression::compress(
                    codec.into(),
                    &plain,
                )?);
            }
            Ok(())
        }),
    )?;
    Ok(encoded.freeze())
}

/// A value that looks like an event, so that codecs find in it about what they find in life.
fn value(at: usize, size_bytes: usize) -> Bytes {
    let mut random = at as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = String::with_capacity(size_bytes + 96);
    while text.len() < size_bytes {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!(
            "{{\"user\":{},\"session\":\"{:016x}\",\"page\":\"/item/{}\",\"ms\":{}}}",
            random >> 44,
            random.rotate_left(17),
            (random >> 20) % 5000,
            (random >> 33) % 900,
        ));
    }
    text.truncate(size_bytes);
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::produce_response::{
        PartitionProduceResponse, TopicProduceResponse,
    };
    use kafka_protocol::messages::{FetchResponse, ProduceResponse, ResponseHeader};
    use kafka_protocol::protocol::{Encodable, HeaderVersion};

    use super::*;

    fn shape() -> ProduceShape {
        ProduceShape {
            records: 10,
            size_bytes: 100,
            acks: -1,
            compression: Codec::None,
            partitions_per_request: 3,
        }
    }

    #[test]
    fn a_batch_is_one_batch() {
        let batch = batch(&shape()).expect("encoded");
        let header = protocol_compat::batch::BATCH_OVERHEAD_BYTES;
        assert!(batch.len() > header + 10 * 100);
        let length = i32::from_be_bytes(batch[8..12].try_into().expect("four bytes"));
        assert_eq!(usize::try_from(length).expect("positive") + 12, batch.len());
        assert_eq!(i32::from_be_bytes(batch[57..61].try_into().expect("four bytes")), 10);
        assert_eq!(batch[43..57], [0xff; 14], "no producer id, epoch or sequence");
    }

    #[test]
    fn errors_of_produce_answers_are_found() {
        let partitions = (0..3).map(|index| {
            PartitionProduceResponse::default()
                .with_index(index)
                .with_error_code(0x0101 + i16::try_from(index).expect("small"))
        });
        let response = ProduceResponse::default().with_responses(vec![
            TopicProduceResponse::default()
                .with_name(TopicName(text("orders")))
                .with_partition_responses(partitions.collect()),
        ]);
        for version in 9..=12 {
            let mut bytes = BytesMut::new();
            ResponseHeader::default()
                .encode(&mut bytes, ProduceResponse::header_version(version))
                .expect("fine");
            response.encode(&mut bytes, version).expect("fine");
            for (at, offset) in produce_error_offsets("orders", 3).into_iter().enumerate() {
                assert_eq!(usize::from(bytes[offset + 1]), 1 + at, "version {version}");
            }
        }
    }

    #[test]
    fn errors_of_fetch_answers_are_found() {
        let response = FetchResponse::default().with_error_code(7).with_responses(vec![
            FetchableTopicResponse::default()
                .with_topic(TopicName(text("orders")))
                .with_partitions(vec![PartitionData::default().with_error_code(9)]),
        ]);
        let mut bytes = BytesMut::new();
        ResponseHeader::default()
            .encode(&mut bytes, FetchResponse::header_version(12))
            .expect("fine");
        response.encode(&mut bytes, 12).expect("fine");
        let found: Vec<_> =
            fetch_error_offsets("orders", 1).into_iter().map(|at| bytes[at + 1]).collect();
        assert_eq!(found, [7, 9]);
    }

    #[test]
    fn requests_are_cut_at_the_end_of_the_set() {
        let set = produce("t", &[0, 1, 2, 3], &shape(), 5).expect("encoded");
        assert_eq!(set.count(), 6, "two rounds of three partitions, three times");
        let (all, count) = set.slice(0, 100);
        assert_eq!((all.len(), count), (set.bytes.len(), 6));
        let (one, count) = set.slice(5, 2);
        assert_eq!(count, 1);
        let size = i32::from_be_bytes(one[..4].try_into().expect("four bytes"));
        assert_eq!(usize::try_from(size).expect("positive") + 4, one.len());
    }
}
