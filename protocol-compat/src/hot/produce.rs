//! Produce v3 to v13: parser of requests, encoder of answers.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::StrBytes;

use crate::batch::RecordError;
use crate::error_code::ErrorCode;
use crate::hot::wire::{Reader, Writer};
use crate::hot::{CurrentLeader, EncodeError, NodeEndpoint, TopicRef, TopicSpan, WireError};
use crate::ids::{PartitionIndex, TopicId};

/// The oldest version read.
pub const MIN_VERSION: i16 = 3;
/// The newest version read.
pub const MAX_VERSION: i16 = 13;
const FLEXIBLE_SINCE: i16 = 9;
const LEADERS_SINCE: i16 = 10;
const TOPIC_IDS_SINCE: i16 = 13;

/// The records for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducePartition {
    /// The partition.
    pub index: PartitionIndex,
    /// Its records, sliced from the frame; `None` is null.
    pub records: Option<Bytes>,
}

/// A Produce request; records are slices of the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProduceRequestView {
    /// The transactional id, if the producer has one.
    pub transactional_id: Option<StrBytes>,
    /// Acknowledgements wanted; -1 is all, others than -1, 0, 1 are not valid (the parser lets them pass).
    pub acks: i16,
    /// How long to wait for replicas, in milliseconds.
    pub timeout_ms: i32,
    /// The topics in request order.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics in request order.
    pub partitions: Vec<ProducePartition>,
}

impl ProduceRequestView {
    /// Reads the body of a request: everything after the request header.
    ///
    /// # Errors
    /// A body that is not exactly one message of this version.
    pub fn parse(version: i16, body: Bytes) -> Result<Self, WireError> {
        if !(MIN_VERSION..=MAX_VERSION).contains(&version) {
            return Err(WireError::Version(version));
        }
        let flexible = version >= FLEXIBLE_SINCE;
        let mut reader = Reader::new(body, flexible);
        let transactional_id = reader.nullable_string("transactional_id")?;
        let acks = reader.i16("acks")?;
        let timeout_ms = reader.i32("timeout_ms")?;
        let topic_count = reader.count("topic_data", 4)?;
        let mut topics = Vec::with_capacity(topic_count);
        let mut partitions = Vec::new();
        for _ in 0..topic_count {
            let topic = if version >= TOPIC_IDS_SINCE {
                TopicRef::Id(TopicId(reader.uuid("topic_id")?))
            } else {
                TopicRef::Name(reader.string("name")?)
            };
            let count = reader.count("partition_data", 5)?;
            let start = partitions.len();
            partitions.reserve(count);
            for _ in 0..count {
                let index = PartitionIndex(reader.i32("index")?);
                let records = reader.records("records")?;
                reader.no_tags("partition_data")?;
                partitions.push(ProducePartition { index, records });
            }
            reader.no_tags("topic_data")?;
            topics.push(TopicSpan { topic, partitions: start..partitions.len() });
        }
        reader.no_tags("request")?;
        reader.end()?;
        Ok(Self { transactional_id, acks, timeout_ms, topics, partitions })
    }
}

/// The answer for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducePartitionResponse {
    /// The partition.
    pub index: PartitionIndex,
    /// The outcome.
    pub error_code: ErrorCode,
    /// Offset of the first record; -1 on errors.
    pub base_offset: i64,
    /// The leader's clock under LogAppendTime, else -1.
    pub log_append_time_ms: i64,
    /// First offset of the log; -1 on errors.
    pub log_start_offset: i64,
    /// Records at fault (v8 and later).
    pub record_errors: Vec<RecordError>,
    /// The reason (v8 and later).
    pub error_message: Option<Cow<'static, str>>,
    /// Who leads the partition, with NOT_LEADER_OR_FOLLOWER (v10 and later).
    pub current_leader: Option<CurrentLeader>,
}

/// A Produce answer. Topics and partitions are flat as in [`ProduceRequestView`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProduceResponse {
    /// The topics in request order.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics.
    pub partitions: Vec<ProducePartitionResponse>,
    /// How long the client was or must be throttled, in milliseconds.
    pub throttle_time_ms: i32,
    /// Where the leaders named by `current_leader` are (v10 and later).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// Appends the whole frame of an answer to `out`: length, header, body. Fields that the version lacks are left out.
///
/// # Errors
/// See [`EncodeError`]; `out` is then as it was.
pub fn encode_response(
    version: i16,
    correlation_id: i32,
    response: &ProduceResponse,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    let start = out.len();
    let result = encode_into(version, correlation_id, response, out).and_then(|()| {
        let size = out.len() - start - 4;
        i32::try_from(size).map_err(|_| EncodeError::TooLarge(size))
    });
    match result {
        Ok(size) => {
            out[start..start + 4].copy_from_slice(&size.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

fn encode_into(
    version: i16,
    correlation_id: i32,
    response: &ProduceResponse,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    if !(MIN_VERSION..=MAX_VERSION).contains(&version) {
        return Err(EncodeError::Version(version));
    }
    out.reserve(64 + 64 * response.partitions.len());
    out.put_i32(0);
    out.put_i32(correlation_id);
    let mut writer = Writer { out, flexible: version >= FLEXIBLE_SINCE };
    writer.tag_count(0);
    writer.count(Some(response.topics.len()))?;
    for span in &response.topics {
        span.topic.write(version, version >= TOPIC_IDS_SINCE, &mut writer)?;
        let partitions = response.partitions.get(span.partitions.clone()).unwrap_or_default();
        writer.count(Some(partitions.len()))?;
        for partition in partitions {
            partition.write(version, &mut writer)?;
        }
        writer.tag_count(0);
    }
    writer.out.put_i32(response.throttle_time_ms);
    if version >= LEADERS_SINCE {
        NodeEndpoint::write_all(&response.node_endpoints, &mut writer)?;
    } else {
        writer.tag_count(0);
    }
    Ok(())
}

impl ProducePartitionResponse {
    fn write(&self, version: i16, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.out.put_i32(self.index.0);
        writer.out.put_i16(self.error_code as i16);
        writer.out.put_i64(self.base_offset);
        writer.out.put_i64(self.log_append_time_ms);
        if version >= 5 {
            writer.out.put_i64(self.log_start_offset);
        }
        if version >= 8 {
            writer.count(Some(self.record_errors.len()))?;
            for error in &self.record_errors {
                writer.out.put_i32(error.batch_index);
                writer.string(error.message.as_deref())?;
                writer.tag_count(0);
            }
            writer.string(self.error_message.as_deref())?;
        }
        match self.current_leader {
            Some(leader) if version >= LEADERS_SINCE => {
                writer.tag_count(1);
                writer.tag(0, 9);
                writer.out.put_i32(leader.leader_id.0);
                writer.out.put_i32(leader.leader_epoch.0);
                writer.tag_count(0);
            }
            Some(_) | None => writer.tag_count(0),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
