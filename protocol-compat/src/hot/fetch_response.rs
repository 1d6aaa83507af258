//! Fetch v4 to v18: encoder of answers into chunks, so that records go from file to socket without passing through here.

use bytes::{BufMut, Bytes, BytesMut};

use crate::error_code::ErrorCode;
use crate::hot::fetch_request::{MAX_VERSION, MIN_VERSION};
use crate::hot::wire::Writer;
use crate::hot::{CurrentLeader, EncodeError, NodeEndpoint, TopicSpan};
use crate::ids::{LeaderEpoch, Offset, PartitionIndex};

const FLEXIBLE_SINCE: i16 = 12;
const TOPIC_IDS_SINCE: i16 = 13;
const ENDPOINTS_SINCE: i16 = 16;

/// A transaction that was aborted and whose records a read_committed consumer must skip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AbortedTransaction {
    /// Its producer.
    pub producer_id: i64,
    /// Its first offset in the partition.
    pub first_offset: i64,
}

/// An epoch and an offset, as in the tagged fields `DivergingEpoch` and `SnapshotId`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochAndOffset {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The offset after the last of that epoch, or of the snapshot.
    pub end_offset: Offset,
}

/// The answer for one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchPartitionResponse {
    /// The partition.
    pub partition: PartitionIndex,
    /// The outcome.
    pub error_code: ErrorCode,
    /// The high watermark; -1 on errors.
    pub high_watermark: i64,
    /// The last stable offset; -1 on errors and, as Kafka does, for read_uncommitted.
    pub last_stable_offset: i64,
    /// First offset of the log (v5 and later); -1 on errors.
    pub log_start_offset: i64,
    /// Where the follower's log parts from the leader's (v12 and later).
    pub diverging_epoch: Option<EpochAndOffset>,
    /// Who leads the partition (v12 and later).
    pub current_leader: Option<CurrentLeader>,
    /// The snapshot to fetch instead (v12 and later).
    pub snapshot_id: Option<EpochAndOffset>,
    /// Aborted transactions within the records; `None` is null, as for read_uncommitted.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The replica to read from instead (v11 and later); -1 for none.
    pub preferred_read_replica: i32,
    /// Bytes of the records that the caller sends in place of [`Chunk::Records`]; `None` is null.
    pub records_size_bytes: Option<u32>,
}

/// A Fetch answer. Topics and partitions are flat, in the order in which they are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchResponse {
    /// How long the client was or must be throttled, in milliseconds.
    pub throttle_time_ms: i32,
    /// The outcome as a whole (v7 and later).
    pub error_code: ErrorCode,
    /// The fetch session, 0 for none (v7 and later).
    pub session_id: i32,
    /// The topics.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics.
    pub partitions: Vec<FetchPartitionResponse>,
    /// Where the leaders named by `current_leader` are (v16 and later).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// A piece of the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// These bytes.
    Bytes(Bytes),
    /// The records of the partition with this index in [`FetchResponse::partitions`]: exactly `records_size_bytes`.
    Records(usize),
}

/// The whole frame of an answer in pieces: length, header, body. Fields that the version lacks are left out; partitions
/// without records have no [`Chunk::Records`].
///
/// # Errors
/// See [`EncodeError`].
pub fn encode(
    version: i16,
    correlation_id: i32,
    response: &FetchResponse,
) -> Result<Vec<Chunk>, EncodeError> {
    if !(MIN_VERSION..=MAX_VERSION).contains(&version) {
        return Err(EncodeError::Version(version));
    }
    let mut frame = Frame { pieces: Vec::new(), out: BytesMut::new(), records_bytes: 0 };
    frame.out.reserve(64 + 80 * response.partitions.len());
    frame.out.put_i32(0);
    frame.out.put_i32(correlation_id);
    let flexible = version >= FLEXIBLE_SINCE;
    let mut writer = Writer { out: &mut frame.out, flexible };
    writer.tag_count(0);
    writer.out.put_i32(response.throttle_time_ms);
    if version >= 7 {
        writer.out.put_i16(response.error_code as i16);
        writer.out.put_i32(response.session_id);
    }
    writer.count(Some(response.topics.len()))?;
    for span in &response.topics {
        let mut writer = Writer { out: &mut frame.out, flexible };
        span.topic.write(version, version >= TOPIC_IDS_SINCE, &mut writer)?;
        let partitions = response.partitions.get(span.partitions.clone()).unwrap_or_default();
        writer.count(Some(partitions.len()))?;
        for (at, partition) in span.partitions.clone().zip(partitions) {
            frame.partition(version, at, partition)?;
        }
        Writer { out: &mut frame.out, flexible }.tag_count(0);
    }
    let mut writer = Writer { out: &mut frame.out, flexible };
    if version >= ENDPOINTS_SINCE {
        NodeEndpoint::write_all(&response.node_endpoints, &mut writer)?;
    } else {
        writer.tag_count(0);
    }
    frame.finish()
}

/// A frame that is being written.
struct Frame {
    /// Bytes, and the partition whose records follow them.
    pieces: Vec<(BytesMut, usize)>,
    out: BytesMut,
    records_bytes: usize,
}

impl Frame {
    fn partition(
        &mut self,
        version: i16,
        at: usize,
        partition: &FetchPartitionResponse,
    ) -> Result<(), EncodeError> {
        let mut writer = Writer { out: &mut self.out, flexible: version >= FLEXIBLE_SINCE };
        writer.out.put_i32(partition.partition.0);
        writer.out.put_i16(partition.error_code as i16);
        writer.out.put_i64(partition.high_watermark);
        writer.out.put_i64(partition.last_stable_offset);
        if version >= 5 {
            writer.out.put_i64(partition.log_start_offset);
        }
        let aborted = partition.aborted_transactions.as_deref();
        writer.count(aborted.map(<[_]>::len))?;
        for transaction in aborted.unwrap_or_default() {
            writer.out.put_i64(transaction.producer_id);
            writer.out.put_i64(transaction.first_offset);
            writer.tag_count(0);
        }
        if version >= 11 {
            writer.out.put_i32(partition.preferred_read_replica);
        }
        let size = partition.records_size_bytes.map(|size| size as usize);
        writer.count(size)?;
        let size = size.unwrap_or(0);
        if size > 0 {
            self.records_bytes += size;
            let bytes = self.out.split();
            self.pieces.push((bytes, at));
        }
        self.partition_tags(version, partition);
        Ok(())
    }

    fn partition_tags(&mut self, version: i16, partition: &FetchPartitionResponse) {
        let mut writer = Writer { out: &mut self.out, flexible: version >= FLEXIBLE_SINCE };
        if !writer.flexible {
            return;
        }
        let FetchPartitionResponse { diverging_epoch, current_leader, snapshot_id, .. } = partition;
        let count = [diverging_epoch.is_some(), current_leader.is_some(), snapshot_id.is_some()];
        writer.tag_count(count.iter().map(|present| u32::from(*present)).sum());
        if let Some(diverging) = diverging_epoch {
            writer.tag(0, 13);
            writer.out.put_i32(diverging.epoch.0);
            writer.out.put_i64(diverging.end_offset.0);
            writer.tag_count(0);
        }
        if let Some(leader) = current_leader {
            writer.tag(1, 9);
            writer.out.put_i32(leader.leader_id.0);
            writer.out.put_i32(leader.leader_epoch.0);
            writer.tag_count(0);
        }
        if let Some(snapshot) = snapshot_id {
            writer.tag(2, 13);
            writer.out.put_i64(snapshot.end_offset.0);
            writer.out.put_i32(snapshot.epoch.0);
            writer.tag_count(0);
        }
    }

    fn finish(mut self) -> Result<Vec<Chunk>, EncodeError> {
        let headers: usize = self.pieces.iter().map(|(bytes, _)| bytes.len()).sum();
        let size = headers + self.out.len() + self.records_bytes - 4;
        let length = i32::try_from(size).map_err(|_| EncodeError::TooLarge(size))?;
        let first = self.pieces.first_mut().map_or(&mut self.out, |(bytes, _)| bytes);
        first[..4].copy_from_slice(&length.to_be_bytes());
        let mut chunks = Vec::with_capacity(2 * self.pieces.len() + 1);
        for (bytes, at) in self.pieces {
            chunks.push(Chunk::Bytes(bytes.freeze()));
            chunks.push(Chunk::Records(at));
        }
        if !self.out.is_empty() {
            chunks.push(Chunk::Bytes(self.out.freeze()));
        }
        Ok(chunks)
    }
}

#[cfg(test)]
mod tests;
