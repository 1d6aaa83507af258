//! DescribeCluster (60), v0 to v2. KIP-700, KIP-919 (endpoint types), KIP-1073 (fenced brokers).

use std::rc::Rc;

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};
use protocol_compat::ErrorCode;

use super::metadata::controller_id;
use super::{CLUSTER_OPERATIONS, Context, OPERATIONS_NOT_ASKED};
use crate::core::Core;
use crate::metadata::{addresses, text};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers a request.
pub fn handle(
    core: &Rc<Core>,
    context: &Context,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse {
    let answer = DescribeClusterResponse::default()
        .with_controller_id(BrokerId(-1))
        .with_cluster_authorized_operations(OPERATIONS_NOT_ASKED);
    if context.version >= 1 && request.endpoint_type != BROKERS {
        let (code, message) = if request.endpoint_type == CONTROLLERS {
            (
                ErrorCode::MismatchedEndpointType,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            )
        } else {
            (ErrorCode::UnsupportedEndpointType, "Unsupported endpoint type")
        };
        return answer
            .with_error_code(code as i16)
            .with_error_message(Some(text(message)))
            .with_endpoint_type(BROKERS);
    }
    let image = core.image();
    let with_fenced = context.version >= 2 && request.include_fenced_brokers;
    let brokers = image
        .brokers()
        .filter(|broker| with_fenced || !broker.fenced)
        .filter_map(|broker| {
            let address = addresses::of_broker(core, broker, &context.peer)?;
            Some(
                DescribeClusterBroker::default()
                    .with_broker_id(BrokerId(broker.id.0))
                    .with_host(text(&address.host))
                    .with_port(i32::from(address.port))
                    .with_rack(broker.rack.as_deref().map(text))
                    .with_is_fenced(broker.fenced),
            )
        })
        .collect();
    answer
        .with_endpoint_type(BROKERS)
        .with_cluster_id(text(&core.shared.cluster_id))
        .with_controller_id(BrokerId(controller_id(&image)))
        .with_brokers(brokers)
        .with_cluster_authorized_operations(if request.include_cluster_authorized_operations {
            CLUSTER_OPERATIONS
        } else {
            OPERATIONS_NOT_ASKED
        })
}
