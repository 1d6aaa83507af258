//! CreateTopics (19), DeleteTopics (20), CreatePartitions (37): the controller decides, this broker waits until its cores
//! have applied what was decided, so that a client can use what it was told.

use std::rc::Rc;

use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse,
};
use protocol_compat::ErrorCode;

use crate::core::Core;
use crate::metadata::text;

async fn applied(core: &Core) {
    core.shared.wait_applied(core.shared.controller.image().offset().0).await;
}

/// CreateTopics v2 to v7. KIP-4, KIP-464 (defaults), KIP-525 (answers with configs).
pub async fn create(core: &Rc<Core>, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let response = core.shared.controller.create_topics(request).await;
    applied(core).await;
    response
}

/// DeleteTopics v1 to v6. KIP-516 (ids).
pub async fn delete(
    core: &Rc<Core>,
    version: i16,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    if !core.config().delete_topic_enable {
        return deletion_disabled(version, request);
    }
    let response = core.shared.controller.delete_topics(request).await;
    applied(core).await;
    response
}

fn deletion_disabled(version: i16, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
    let code =
        if version < 3 { ErrorCode::InvalidRequest } else { ErrorCode::TopicDeletionDisabled };
    let message = (version >= 5).then(|| text("Topic deletion is disabled."));
    let refused = |name, id| {
        DeletableTopicResult::default()
            .with_name(name)
            .with_topic_id(id)
            .with_error_code(code as i16)
            .with_error_message(message.clone())
    };
    let named = request.topic_names.into_iter().map(|name| (Some(name), uuid_nil()));
    let states = request.topics.into_iter().map(|topic| (topic.name, topic.topic_id));
    let responses = named.chain(states).map(|(name, id)| refused(name, id)).collect();
    DeleteTopicsResponse::default().with_responses(responses)
}

fn uuid_nil() -> protocol_compat::ids::Uuid {
    protocol_compat::ids::Uuid::nil()
}

/// CreatePartitions v0 to v3. KIP-195.
pub async fn create_partitions(
    core: &Rc<Core>,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let response = core.shared.controller.create_partitions(request).await;
    applied(core).await;
    response
}
