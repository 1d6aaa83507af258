//! Blocks of producer ids.

use crate::records::metadata::{MetadataRecord, ProducerIdsRecord};
use kafka_protocol::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{BrokerId, ProducerId};

use super::{Context, Decision, brokers};

/// Ids of one block.
const BLOCK_COUNT: i32 = 1_000;

/// AllocateProducerIds: the next block, never given twice.
pub(crate) fn allocate(
    context: &Context<'_>,
    request: &AllocateProducerIdsRequest,
) -> Decision<AllocateProducerIdsResponse> {
    let refuse = |code: ErrorCode| {
        Decision::answer(AllocateProducerIdsResponse::default().with_error_code(code.code()))
    };
    let id = BrokerId(request.broker_id.0);
    if let Err(error) = brokers::check_epoch(context, id, request.broker_epoch) {
        return refuse(error.code());
    }
    let start = context.image.next_producer_id().unwrap_or(ProducerId(0)).0;
    let Some(next) = start.checked_add(i64::from(BLOCK_COUNT)) else {
        return refuse(ErrorCode::UnknownServerError);
    };
    let record = ProducerIdsRecord {
        broker_id: id.0,
        broker_epoch: request.broker_epoch,
        next_producer_id: next,
    };
    Decision {
        records: vec![MetadataRecord::ProducerIds(record)],
        response: AllocateProducerIdsResponse::default()
            .with_producer_id_start(kafka_protocol::messages::ProducerId(start))
            .with_producer_id_len(BLOCK_COUNT),
    }
}
