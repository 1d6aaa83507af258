//! OffsetForLeaderEpoch (23), v2 to v4. KIP-101, KIP-279, KIP-320.

use std::pin::Pin;
use std::rc::Rc;

use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{LeaderEpoch, PartitionIndex};

use super::each_partition::on_partition;
use crate::core::Core;
use crate::fetch::read::check_epoch;
use crate::partitions::Partition;

#[derive(Clone, Copy, Debug)]
struct Asked {
    current: Option<LeaderEpoch>,
    epoch: LeaderEpoch,
}

/// Answers a request.
pub async fn handle(
    core: &Rc<Core>,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let current = partition.current_leader_epoch;
            let asked = Asked {
                current: (current >= 0).then_some(LeaderEpoch(current)),
                epoch: LeaderEpoch(partition.leader_epoch),
            };
            let index = PartitionIndex(partition.partition);
            let end = on_partition(core, &topic.topic, index, asked, find).await;
            let answer = EpochEndOffset::default().with_partition(index.0);
            partitions.push(match end {
                Ok((epoch, offset)) => answer.with_leader_epoch(epoch).with_end_offset(offset),
                Err(code) => {
                    answer.with_error_code(code as i16).with_leader_epoch(-1).with_end_offset(-1)
                }
            });
        }
        topics.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic)
                .with_partitions(partitions),
        );
    }
    OffsetForLeaderEpochResponse::default().with_topics(topics)
}

fn find(
    _core: Rc<Core>,
    partition: Rc<Partition>,
    asked: Asked,
) -> Pin<Box<dyn Future<Output = Result<(i32, i64), ErrorCode>>>> {
    Box::pin(async move {
        check_epoch(&partition, asked.current)?;
        let replica = partition.replica.borrow();
        let end = replica.log().offset_for_leader_epoch(asked.epoch);
        Ok(end.map_or((-1, -1), |end| (end.leader_epoch.0, end.end_offset.0)))
    })
}
