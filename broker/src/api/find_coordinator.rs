//! FindCoordinator (10), v0 to v6. KIP-699 (several keys).

use std::rc::Rc;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{
    BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;
use protocol_compat::hashing::coordinator_partition;
use protocol_compat::ids::PartitionIndex;

use super::Context;
use crate::core::Core;
use crate::metadata::{OFFSETS_TOPIC, addresses, text};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// Answers a request.
pub async fn handle(
    core: &Rc<Core>,
    context: &Context,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let many = context.version >= 4;
    let keys = if many { request.coordinator_keys } else { vec![request.key] };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        found.push(find(core, context, request.key_type, key).await);
    }
    if many {
        return FindCoordinatorResponse::default()
            .with_node_id(BrokerId(0))
            .with_coordinators(found);
    }
    let answer = FindCoordinatorResponse::default();
    match found.into_iter().next() {
        Some(one) => answer
            .with_error_code(one.error_code)
            .with_error_message(if context.version >= 1 { one.error_message } else { None })
            .with_node_id(one.node_id)
            .with_host(one.host)
            .with_port(one.port),
        None => answer.with_error_code(ErrorCode::InvalidRequest as i16),
    }
}

async fn find(core: &Rc<Core>, context: &Context, kind: i8, key: StrBytes) -> Coordinator {
    let failed = |code: ErrorCode, message: &'static str| {
        Coordinator::default()
            .with_key(key.clone())
            .with_node_id(BrokerId(-1))
            .with_port(-1)
            .with_error_code(code as i16)
            .with_error_message(Some(StrBytes::from_static_str(message)))
    };
    match kind {
        GROUP => {}
        TRANSACTION => {
            return failed(
                ErrorCode::InvalidRequest,
                "transactions are not served by this release",
            );
        }
        SHARE if context.version >= 6 => {
            return failed(
                ErrorCode::InvalidRequest,
                "share groups are not served by this release",
            );
        }
        _ => return failed(ErrorCode::InvalidRequest, "unknown type of coordinator"),
    }
    if core.image().topics().by_name(OFFSETS_TOPIC).is_none() {
        let name = TopicName(StrBytes::from_static_str(OFFSETS_TOPIC));
        super::metadata::create(core, std::iter::once(&name)).await;
    }
    let image = core.image();
    let unavailable =
        || failed(ErrorCode::CoordinatorNotAvailable, "The coordinator is not available.");
    let Some(topic) = image.topics().by_name(OFFSETS_TOPIC) else { return unavailable() };
    let Ok(count) = i32::try_from(topic.partition_count()) else { return unavailable() };
    let Some(index) = coordinator_partition(&key, count) else { return unavailable() };
    let broker = topic
        .partition(PartitionIndex(index))
        .and_then(|partition| partition.leader)
        .and_then(|leader| image.broker(leader));
    let Some(broker) = broker else { return unavailable() };
    let Some(address) = addresses::of_broker(core, broker, &context.peer) else {
        return unavailable();
    };
    Coordinator::default()
        .with_key(key)
        .with_node_id(BrokerId(broker.id.0))
        .with_host(text(&address.host))
        .with_port(i32::from(address.port))
        .with_error_message(if context.version >= 4 { None } else { Some(text("NONE")) })
}
