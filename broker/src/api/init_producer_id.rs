//! InitProducerId (22), v0 to v5, for idempotent producers. KIP-98. Transactions come with a later release.

use std::rc::Rc;

use kafka_protocol::messages::{
    AllocateProducerIdsRequest, BrokerId, InitProducerIdRequest, InitProducerIdResponse,
};
use protocol_compat::ErrorCode;

use crate::core::Core;

/// Ids that the controller gave to this core and that no producer has yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProducerIdBlock {
    next: i64,
    end: i64,
}

impl ProducerIdBlock {
    fn take(&mut self) -> Option<i64> {
        let id = self.next;
        (id < self.end).then(|| {
            self.next += 1;
            id
        })
    }
}

/// Answers a request.
pub async fn handle(core: &Rc<Core>, request: InitProducerIdRequest) -> InitProducerIdResponse {
    let answer = InitProducerIdResponse::default();
    if request.transactional_id.is_some() {
        let code = match &request.transactional_id {
            Some(id) if id.is_empty() => ErrorCode::InvalidRequest,
            _ => ErrorCode::TransactionalIdNotFound,
        };
        return refused(answer, code);
    }
    match next_id(core).await {
        Ok(id) => answer.with_producer_id(id.into()).with_producer_epoch(0),
        Err(code) => refused(answer, code),
    }
}

fn refused(answer: InitProducerIdResponse, code: ErrorCode) -> InitProducerIdResponse {
    answer.with_error_code(code as i16).with_producer_id((-1).into()).with_producer_epoch(-1)
}

async fn next_id(core: &Rc<Core>) -> Result<i64, ErrorCode> {
    loop {
        if let Some(id) = core.producer_ids.borrow_mut().take() {
            return Ok(id);
        }
        let request = AllocateProducerIdsRequest::default()
            .with_broker_id(BrokerId(core.shared.node_id().0))
            .with_broker_epoch(core.shared.broker_epoch());
        let block = core.shared.controller.allocate_producer_ids(request).await;
        if block.error_code != 0 {
            // Clients try again; the code of the controller means nothing to them.
            tracing::warn!(code = block.error_code, "no producer ids from the controller");
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        let start = block.producer_id_start.0;
        let fresh = ProducerIdBlock { next: start, end: start + i64::from(block.producer_id_len) };
        // Another request may have brought a block meanwhile: ids of the older one are skipped, never given twice.
        *core.producer_ids.borrow_mut() = fresh;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_each_id_once() {
        let mut block = ProducerIdBlock { next: 1000, end: 1002 };
        assert_eq!([block.take(), block.take(), block.take()], [Some(1000), Some(1001), None]);
    }
}
