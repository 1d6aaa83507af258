//! ListOffsets (2), v1 to v11. KIP-79, KIP-734 (max timestamp), KIP-405 (tiers), KIP-320 (epochs).

use std::pin::Pin;
use std::rc::Rc;

use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{LeaderEpoch, PartitionIndex, Timestamp};
use storage::log::Lookup;

use super::Context;
use super::each_partition::on_partition;
use crate::core::Core;
use crate::fetch::read::check_epoch;
use crate::partitions::Partition;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// Whether a version knows a special timestamp; all versions know times.
fn is_known(timestamp: i64, version: i16) -> bool {
    let since = match timestamp {
        0.. => return true,
        LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => return false,
    };
    version >= since
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    timestamp: i64,
    epoch: Option<LeaderEpoch>,
    read_committed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Found {
    timestamp: i64,
    offset: i64,
    epoch: i32,
}

impl Found {
    const NOTHING: Self = Self { timestamp: -1, offset: -1, epoch: -1 };
}

/// Answers a request.
pub async fn handle(
    core: &Rc<Core>,
    context: &Context,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let epoch = partition.current_leader_epoch;
            let asked = Asked {
                timestamp: partition.timestamp,
                epoch: (context.version >= 4 && epoch >= 0).then_some(LeaderEpoch(epoch)),
                read_committed: request.isolation_level == 1,
            };
            let index = PartitionIndex(partition.partition_index);
            let found = if !is_known(asked.timestamp, context.version) {
                Err(ErrorCode::UnsupportedVersion)
            } else if request.replica_id.0 >= 0 {
                Err(ErrorCode::NotLeaderOrFollower)
            } else {
                on_partition(core, &topic.name, index, asked, find_boxed).await
            };
            let answer = ListOffsetsPartitionResponse::default().with_partition_index(index.0);
            partitions.push(match found {
                Ok(found) => answer
                    .with_timestamp(found.timestamp)
                    .with_offset(found.offset)
                    .with_leader_epoch(if context.version >= 4 { found.epoch } else { -1 }),
                Err(code) => answer
                    .with_error_code(code as i16)
                    .with_timestamp(-1)
                    .with_offset(-1)
                    .with_leader_epoch(-1),
            });
        }
        topics.push(
            ListOffsetsTopicResponse::default().with_name(topic.name).with_partitions(partitions),
        );
    }
    ListOffsetsResponse::default().with_topics(topics)
}

fn find_boxed(
    core: Rc<Core>,
    partition: Rc<Partition>,
    asked: Asked,
) -> Pin<Box<dyn Future<Output = Result<Found, ErrorCode>>>> {
    Box::pin(find(core, partition, asked))
}

async fn find(core: Rc<Core>, partition: Rc<Partition>, asked: Asked) -> Result<Found, ErrorCode> {
    check_epoch(&partition, asked.epoch)?;
    let (job, end) = {
        let replica = partition.replica.borrow();
        let log = replica.log();
        let end =
            if asked.read_committed { log.last_stable_offset() } else { log.high_watermark() };
        let epoch_of_end = log.latest_leader_epoch().map_or(-1, |epoch| epoch.0);
        let lookup = match asked.timestamp {
            LATEST => {
                return Ok(Found { timestamp: -1, offset: end.0, epoch: epoch_of_end });
            }
            EARLIEST | EARLIEST_LOCAL => {
                let start = log.log_start_offset();
                let epoch = log.leader_epoch_at(start).map_or(-1, |epoch| epoch.0);
                return Ok(Found { timestamp: -1, offset: start.0, epoch });
            }
            // There is no other tier.
            LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(Found::NOTHING),
            MAX_TIMESTAMP => Lookup::MaxTimestamp,
            time => Lookup::AtLeast(Timestamp(time)),
        };
        (log.lookup(lookup, end), end)
    };
    let found = core
        .shared
        .pool
        .call(move || job.run())
        .await
        .map_err(|_| ErrorCode::NotLeaderOrFollower)?;
    match found {
        Ok(Some(found)) if found.offset < end => Ok(Found {
            timestamp: found.timestamp.0,
            offset: found.offset.0,
            epoch: found.leader_epoch.map_or(-1, |epoch| epoch.0),
        }),
        Ok(_) => Ok(Found::NOTHING),
        Err(error) => {
            tracing::warn!(partition = %partition.name(), %error, "a search by timestamp failed");
            Err(error.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_timestamps_are_known_since_their_versions() {
        assert!(is_known(0, 1) && is_known(LATEST, 1) && is_known(EARLIEST, 1));
        assert!(!is_known(MAX_TIMESTAMP, 6) && is_known(MAX_TIMESTAMP, 7));
        assert!(!is_known(LATEST_TIERED, 8) && is_known(LATEST_TIERED, 9));
        assert!(!is_known(EARLIEST_PENDING_UPLOAD, 10) && !is_known(-7, 11));
    }
}
