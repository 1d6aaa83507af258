//! Answers of a controller that has stopped: every row says NOT_CONTROLLER, so that clients ask again.

use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse as AlterRow;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse as IncrementalRow;
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterConfigsRequest,
    AlterConfigsResponse, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse, CreatePartitionsRequest, CreatePartitionsResponse,
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;

const CODE: i16 = ErrorCode::NotController as i16;

fn message() -> Option<StrBytes> {
    Some(StrBytes::from_static_str("This is not the correct controller for this cluster."))
}

/// A request that can be refused as a whole.
pub(crate) trait NotController {
    /// Its answer.
    type Response;

    /// The refusal.
    fn not_controller(&self) -> Self::Response;
}

impl NotController for CreateTopicsRequest {
    type Response = CreateTopicsResponse;

    fn not_controller(&self) -> CreateTopicsResponse {
        let rows = self.topics.iter().map(|topic| {
            CreatableTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_code(CODE)
                .with_error_message(message())
        });
        CreateTopicsResponse::default().with_topics(rows.collect())
    }
}

impl NotController for DeleteTopicsRequest {
    type Response = DeleteTopicsResponse;

    fn not_controller(&self) -> DeleteTopicsResponse {
        let rows = self.topics.iter().map(|topic| {
            DeletableTopicResult::default()
                .with_name(topic.name.clone())
                .with_topic_id(topic.topic_id)
        });
        let names = self.topic_names.iter();
        let rows = rows
            .chain(names.map(|name| DeletableTopicResult::default().with_name(Some(name.clone()))));
        let rows = rows.map(|row| row.with_error_code(CODE).with_error_message(message()));
        DeleteTopicsResponse::default().with_responses(rows.collect())
    }
}

impl NotController for CreatePartitionsRequest {
    type Response = CreatePartitionsResponse;

    fn not_controller(&self) -> CreatePartitionsResponse {
        let rows = self.topics.iter().map(|topic| {
            CreatePartitionsTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_code(CODE)
                .with_error_message(message())
        });
        CreatePartitionsResponse::default().with_results(rows.collect())
    }
}

impl NotController for IncrementalAlterConfigsRequest {
    type Response = IncrementalAlterConfigsResponse;

    fn not_controller(&self) -> IncrementalAlterConfigsResponse {
        let rows = self.resources.iter().map(|resource| {
            IncrementalRow::default()
                .with_error_code(CODE)
                .with_error_message(message())
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
        });
        IncrementalAlterConfigsResponse::default().with_responses(rows.collect())
    }
}

impl NotController for AlterConfigsRequest {
    type Response = AlterConfigsResponse;

    fn not_controller(&self) -> AlterConfigsResponse {
        let rows = self.resources.iter().map(|resource| {
            AlterRow::default()
                .with_error_code(CODE)
                .with_error_message(message())
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone())
        });
        AlterConfigsResponse::default().with_responses(rows.collect())
    }
}

impl NotController for AllocateProducerIdsRequest {
    type Response = AllocateProducerIdsResponse;

    fn not_controller(&self) -> AllocateProducerIdsResponse {
        AllocateProducerIdsResponse::default().with_error_code(CODE)
    }
}

impl NotController for BrokerRegistrationRequest {
    type Response = BrokerRegistrationResponse;

    fn not_controller(&self) -> BrokerRegistrationResponse {
        BrokerRegistrationResponse::default().with_error_code(CODE).with_broker_epoch(-1)
    }
}

impl NotController for BrokerHeartbeatRequest {
    type Response = BrokerHeartbeatResponse;

    fn not_controller(&self) -> BrokerHeartbeatResponse {
        BrokerHeartbeatResponse::default().with_error_code(CODE)
    }
}

impl NotController for AssignReplicasToDirsRequest {
    type Response = AssignReplicasToDirsResponse;

    fn not_controller(&self) -> AssignReplicasToDirsResponse {
        AssignReplicasToDirsResponse::default().with_error_code(CODE)
    }
}
