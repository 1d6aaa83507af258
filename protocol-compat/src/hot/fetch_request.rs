//! Fetch v4 to v18: parser of requests.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use crate::hot::wire::Reader;
use crate::hot::{TopicRef, TopicSpan, WireError};
use crate::ids::{
    BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, Offset, PartitionIndex, TopicId,
};

/// The oldest version read.
pub const MIN_VERSION: i16 = 4;
/// The newest version read.
pub const MAX_VERSION: i16 = 18;
const SESSIONS_SINCE: i16 = 7;
const FLEXIBLE_SINCE: i16 = 12;
const TOPIC_IDS_SINCE: i16 = 13;
const REPLICA_STATE_SINCE: i16 = 15;

/// What is asked of one partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchPartition {
    /// The partition.
    pub partition: PartitionIndex,
    /// The epoch in which the client believes the leader to be (v9 and later).
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// The first offset wanted.
    pub fetch_offset: Offset,
    /// Epoch of the last record that a follower has (v12 and later).
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// First offset of a follower's log (v5 and later); -1 from consumers.
    pub log_start_offset: i64,
    /// Most bytes wanted from this partition.
    pub partition_max_bytes: i32,
    /// The follower's directory (v17 and later).
    pub replica_directory_id: Option<DirectoryId>,
    /// The high watermark that a follower knows (v18 and later); `None` when not sent.
    pub high_watermark: Option<Offset>,
}

/// Partitions that leave a fetch session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForgottenTopic {
    /// The topic.
    pub topic: TopicRef,
    /// Its partitions.
    pub partitions: Vec<PartitionIndex>,
}

/// A Fetch request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// The cluster that the sender believes to be in (v12 and later).
    pub cluster_id: Option<StrBytes>,
    /// The follower that fetches; `None` is a consumer. -2 (a debugging consumer) is kept as it is.
    pub replica_id: Option<BrokerId>,
    /// The follower's incarnation (v15 and later).
    pub replica_epoch: Option<BrokerEpoch>,
    /// How long to wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Fewest bytes worth an answer before the wait is over.
    pub min_bytes: i32,
    /// Most bytes wanted in all.
    pub max_bytes: i32,
    /// 0 read_uncommitted, 1 read_committed.
    pub isolation_level: i8,
    /// The fetch session, 0 for none or a new one (v7 and later).
    pub session_id: i32,
    /// The session's epoch, -1 for a full request without a session (v7 and later).
    pub session_epoch: i32,
    /// The topics in request order.
    pub topics: Vec<TopicSpan>,
    /// The partitions of all topics in request order.
    pub partitions: Vec<FetchPartition>,
    /// Partitions to forget (v7 and later).
    pub forgotten: Vec<ForgottenTopic>,
    /// The client's rack, empty for none (v11 and later).
    pub rack_id: StrBytes,
}

impl FetchRequest {
    /// Reads the body of a request: everything after the request header.
    ///
    /// # Errors
    /// A body that is not exactly one message of this version.
    pub fn parse(version: i16, body: Bytes) -> Result<Self, WireError> {
        if !(MIN_VERSION..=MAX_VERSION).contains(&version) {
            return Err(WireError::Version(version));
        }
        let mut reader = Reader::new(body, version >= FLEXIBLE_SINCE);
        let mut replica_id =
            if version < REPLICA_STATE_SINCE { some_id(reader.i32("replica_id")?) } else { None };
        let max_wait_ms = reader.i32("max_wait_ms")?;
        let min_bytes = reader.i32("min_bytes")?;
        let max_bytes = reader.i32("max_bytes")?;
        let isolation_level = reader.i8("isolation_level")?;
        let (session_id, session_epoch) = if version >= SESSIONS_SINCE {
            (reader.i32("session_id")?, reader.i32("session_epoch")?)
        } else {
            (0, -1)
        };
        let (topics, partitions) = read_topics(&mut reader, version)?;
        let forgotten = if version >= SESSIONS_SINCE {
            read_forgotten(&mut reader, version)?
        } else {
            Vec::new()
        };
        let rack_id =
            if version >= 11 { reader.string("rack_id")? } else { StrBytes::from_static_str("") };
        let mut cluster_id = None;
        let mut replica_epoch = None;
        reader.tags("request", |reader, tag| match tag {
            0 => {
                cluster_id = reader.nullable_string("cluster_id")?;
                Ok(true)
            }
            1 if version >= REPLICA_STATE_SINCE => {
                replica_id = some_id(reader.i32("replica_state.replica_id")?);
                let epoch = reader.i64("replica_state.replica_epoch")?;
                replica_epoch = (epoch >= 0).then_some(BrokerEpoch(epoch));
                reader.no_tags("replica_state")?;
                Ok(true)
            }
            _ => Ok(false),
        })?;
        reader.end()?;
        Ok(Self {
            cluster_id,
            replica_id,
            replica_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            partitions,
            forgotten,
            rack_id,
        })
    }
}

fn some_id(id: i32) -> Option<BrokerId> {
    (id != -1).then_some(BrokerId(id))
}

fn some_epoch(epoch: i32) -> Option<LeaderEpoch> {
    (epoch >= 0).then_some(LeaderEpoch(epoch))
}

fn read_topic(reader: &mut Reader, version: i16) -> Result<TopicRef, WireError> {
    if version >= TOPIC_IDS_SINCE {
        Ok(TopicRef::Id(TopicId(reader.uuid("topic_id")?)))
    } else {
        Ok(TopicRef::Name(reader.string("topic")?))
    }
}

fn read_topics(
    reader: &mut Reader,
    version: i16,
) -> Result<(Vec<TopicSpan>, Vec<FetchPartition>), WireError> {
    let topic_count = reader.count("topics", 4)?;
    let mut topics = Vec::with_capacity(topic_count);
    let mut partitions = Vec::new();
    for _ in 0..topic_count {
        let topic = read_topic(reader, version)?;
        let count = reader.count("partitions", 16)?;
        let start = partitions.len();
        partitions.reserve(count);
        for _ in 0..count {
            partitions.push(read_partition(reader, version)?);
        }
        reader.no_tags("topics")?;
        topics.push(TopicSpan { topic, partitions: start..partitions.len() });
    }
    Ok((topics, partitions))
}

fn read_partition(reader: &mut Reader, version: i16) -> Result<FetchPartition, WireError> {
    let partition = PartitionIndex(reader.i32("partition")?);
    let current_leader_epoch =
        if version >= 9 { some_epoch(reader.i32("current_leader_epoch")?) } else { None };
    let fetch_offset = Offset(reader.i64("fetch_offset")?);
    let last_fetched_epoch =
        if version >= 12 { some_epoch(reader.i32("last_fetched_epoch")?) } else { None };
    let log_start_offset = if version >= 5 { reader.i64("log_start_offset")? } else { -1 };
    let partition_max_bytes = reader.i32("partition_max_bytes")?;
    let mut replica_directory_id = None;
    let mut high_watermark = None;
    reader.tags("partitions", |reader, tag| match tag {
        0 if version >= 17 => {
            let id = reader.uuid("replica_directory_id")?;
            replica_directory_id = (!id.is_nil()).then_some(DirectoryId(id));
            Ok(true)
        }
        1 if version >= 18 => {
            let offset = reader.i64("high_watermark")?;
            high_watermark = (offset != i64::MAX).then_some(Offset(offset));
            Ok(true)
        }
        _ => Ok(false),
    })?;
    Ok(FetchPartition {
        partition,
        current_leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
        partition_max_bytes,
        replica_directory_id,
        high_watermark,
    })
}

fn read_forgotten(reader: &mut Reader, version: i16) -> Result<Vec<ForgottenTopic>, WireError> {
    let count = reader.count("forgotten_topics_data", 4)?;
    let mut forgotten = Vec::with_capacity(count);
    for _ in 0..count {
        let topic = read_topic(reader, version)?;
        let count = reader.count("forgotten_topics_data.partitions", 4)?;
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            partitions.push(PartitionIndex(reader.i32("forgotten_topics_data.partitions")?));
        }
        reader.no_tags("forgotten_topics_data")?;
        forgotten.push(ForgottenTopic { topic, partitions });
    }
    Ok(forgotten)
}

#[cfg(test)]
mod tests;
