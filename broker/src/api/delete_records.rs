//! DeleteRecords (21), v0 to v2. KIP-107: moves the start of a log.

use std::pin::Pin;
use std::rc::Rc;

use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{Offset, PartitionIndex};

use super::Context;
use super::each_partition::on_partition;
use crate::core::Core;
use crate::metadata::is_internal;
use crate::partitions::Partition;

/// The offset that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

/// Answers a request.
pub async fn handle(
    core: &Rc<Core>,
    context: &Context,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let refused = is_internal(&topic.name) && &*context.client_id != "__admin_client";
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let index = PartitionIndex(partition.partition_index);
            let start = if refused {
                Err(ErrorCode::InvalidTopicException)
            } else {
                on_partition(core, &topic.name, index, partition.offset, delete).await
            };
            let answer = DeleteRecordsPartitionResult::default().with_partition_index(index.0);
            partitions.push(match start {
                Ok(start) => answer.with_low_watermark(start),
                Err(code) => answer.with_error_code(code as i16).with_low_watermark(-1),
            });
        }
        topics.push(
            DeleteRecordsTopicResult::default().with_name(topic.name).with_partitions(partitions),
        );
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

fn delete(
    core: Rc<Core>,
    partition: Rc<Partition>,
    offset: i64,
) -> Pin<Box<dyn Future<Output = Result<i64, ErrorCode>>>> {
    Box::pin(async move {
        if !partition.topic.config().log.cleanup_policy.delete {
            return Err(ErrorCode::PolicyViolation);
        }
        let start = {
            let mut replica = partition.replica.borrow_mut();
            let log = replica.log_mut();
            let offset = if offset == HIGH_WATERMARK { log.high_watermark().0 } else { offset };
            if offset < 0 || offset > log.high_watermark().0 {
                return Err(ErrorCode::OffsetOutOfRange);
            }
            log.advance_log_start(Offset(offset))
        };
        core.partitions.mark_dirty(&core, &partition);
        Ok(start.0)
    })
}
