//! Metadata (3), v0 to v13. KIP-4 (auto-creation), KIP-430 (operations), KIP-516 (topic ids).

use std::rc::Rc;

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, MetadataRequest, MetadataResponse, TopicName,
};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{self, TopicId};

use super::{CLUSTER_OPERATIONS, Context, OPERATIONS_NOT_ASKED, TOPIC_OPERATIONS};
use crate::core::Core;
use crate::metadata::{OFFSETS_TOPIC, addresses, is_internal, text};
use controller::MetadataImage;
use controller::image::{PartitionImage, TopicImage};

/// Answers a request.
pub async fn handle(
    core: &Rc<Core>,
    context: &Context,
    request: MetadataRequest,
) -> MetadataResponse {
    let version = context.version;
    let all = match &request.topics {
        None => true,
        Some(topics) => version == 0 && topics.is_empty(),
    };
    if !all && (request.allow_auto_topic_creation || version < 4) {
        create_missing(core, request.topics.as_deref().unwrap_or_default()).await;
    }
    let image = core.image();
    let topic_operations = if version >= 8 && request.include_topic_authorized_operations {
        TOPIC_OPERATIONS
    } else {
        OPERATIONS_NOT_ASKED
    };
    let mut topics = Vec::new();
    if all {
        for topic in image.topics().iter() {
            topics.push(describe(core, &image, topic, context));
        }
    } else {
        for asked in request.topics.unwrap_or_default() {
            topics.push(describe_asked(core, &image, asked, context));
        }
    }
    for topic in &mut topics {
        topic.topic_authorized_operations =
            if topic.error_code == 0 { topic_operations } else { OPERATIONS_NOT_ASKED };
    }
    let ask_cluster = (8..=10).contains(&version) && request.include_cluster_authorized_operations;
    MetadataResponse::default()
        .with_brokers(brokers(core, &image, context))
        .with_cluster_id(Some(text(&core.shared.cluster_id)))
        .with_controller_id(BrokerId(controller_id(&image)))
        .with_topics(topics)
        .with_cluster_authorized_operations(if ask_cluster {
            CLUSTER_OPERATIONS
        } else {
            OPERATIONS_NOT_ASKED
        })
}

/// The broker that clients send administrative requests to: any that lives, as under KRaft.
#[must_use]
pub fn controller_id(image: &MetadataImage) -> i32 {
    image.brokers().find(|broker| broker.is_active()).map_or(-1, |broker| broker.id.0)
}

fn brokers(core: &Core, image: &MetadataImage, context: &Context) -> Vec<MetadataResponseBroker> {
    image
        .brokers()
        .filter(|broker| !broker.fenced)
        .filter_map(|broker| {
            let address = addresses::of_broker(core, broker, &context.peer)?;
            Some(
                MetadataResponseBroker::default()
                    .with_node_id(BrokerId(broker.id.0))
                    .with_host(text(&address.host))
                    .with_port(i32::from(address.port))
                    .with_rack(broker.rack.as_deref().map(text)),
            )
        })
        .collect()
}

fn describe_asked(
    core: &Core,
    image: &MetadataImage,
    asked: MetadataRequestTopic,
    context: &Context,
) -> MetadataResponseTopic {
    let by_id = !asked.topic_id.is_nil();
    let topic = match &asked.name {
        _ if by_id => image.topics().by_id(TopicId(asked.topic_id)),
        Some(name) => image.topics().by_name(name),
        None => None,
    };
    if let Some(topic) = topic {
        return describe(core, image, topic, context);
    }
    let code = if by_id {
        ErrorCode::UnknownTopicId
    } else if asked.name.as_deref().is_some_and(|name| is_valid_name(name)) {
        ErrorCode::UnknownTopicOrPartition
    } else {
        ErrorCode::InvalidTopicException
    };
    let internal = asked.name.as_deref().is_some_and(|name| is_internal(name));
    // Before v12 a name cannot be null.
    let name = asked.name.or((context.version < 12).then(TopicName::default));
    MetadataResponseTopic::default()
        .with_error_code(code as i16)
        .with_name(name)
        .with_topic_id(asked.topic_id)
        .with_is_internal(internal)
}

fn describe(
    core: &Core,
    image: &MetadataImage,
    topic: &TopicImage,
    context: &Context,
) -> MetadataResponseTopic {
    let partitions = topic
        .partitions()
        .map(|(index, partition)| describe_partition(core, image, index.0, partition, context))
        .collect();
    MetadataResponseTopic::default()
        .with_name(Some(TopicName(text(topic.name()))))
        .with_topic_id(topic.id().0)
        .with_is_internal(is_internal(topic.name()))
        .with_partitions(partitions)
}

/// Ids for the wire.
#[must_use]
pub fn wire_ids(ids: &[ids::BrokerId]) -> Vec<BrokerId> {
    ids.iter().map(|id| BrokerId(id.0)).collect()
}

/// Replicas on brokers that are not alive.
#[must_use]
pub fn offline_replicas(image: &MetadataImage, partition: &PartitionImage) -> Vec<BrokerId> {
    partition
        .replicas
        .iter()
        .filter(|id| image.broker(**id).is_none_or(|broker| broker.fenced))
        .map(|id| BrokerId(id.0))
        .collect()
}

/// The code and leader that clients are told.
#[must_use]
pub fn leader_for(
    core: &Core,
    image: &MetadataImage,
    partition: &PartitionImage,
    context: &Context,
) -> (ErrorCode, i32) {
    let leader = partition.leader.and_then(|id| image.broker(id)).filter(|broker| !broker.fenced);
    match leader {
        None => (ErrorCode::LeaderNotAvailable, -1),
        Some(broker) if addresses::of_broker(core, broker, &context.peer).is_none() => {
            // Before v6 there was no code for it.
            let code = if context.version >= 6 {
                ErrorCode::ListenerNotFound
            } else {
                ErrorCode::LeaderNotAvailable
            };
            (code, -1)
        }
        Some(broker) => (ErrorCode::None, broker.id.0),
    }
}

fn describe_partition(
    core: &Core,
    image: &MetadataImage,
    index: i32,
    partition: &PartitionImage,
    context: &Context,
) -> MetadataResponsePartition {
    let (code, leader) = leader_for(core, image, partition, context);
    MetadataResponsePartition::default()
        .with_error_code(code as i16)
        .with_partition_index(index)
        .with_leader_id(BrokerId(leader))
        .with_leader_epoch(partition.leader_epoch.0)
        .with_replica_nodes(wire_ids(&partition.replicas))
        .with_isr_nodes(wire_ids(&partition.isr))
        .with_offline_replicas(offline_replicas(image, partition))
}

/// Kafka's rule for topic names.
#[must_use]
pub fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.len() <= 249
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Creates the topics that are named and not there, as `auto.create.topics.enable` says, and waits until they can be used:
/// Kafka answers an error and has the client ask again; ours gets its partitions at once.
async fn create_missing(core: &Rc<Core>, asked: &[MetadataRequestTopic]) {
    if !core.config().auto_create_topics_enable {
        return;
    }
    let image = core.image();
    let missing: Vec<&TopicName> = asked
        .iter()
        .filter(|topic| topic.topic_id.is_nil())
        .filter_map(|topic| topic.name.as_ref())
        .filter(|name| is_valid_name(name) && image.topics().by_name(name).is_none())
        .collect();
    create(core, missing.into_iter()).await;
}

/// Creates topics with the broker's defaults, or those of the topic of offsets.
pub async fn create(core: &Rc<Core>, names: impl Iterator<Item = &TopicName>) {
    let topics: Vec<CreatableTopic> = names
        .map(|name| {
            if &***name == OFFSETS_TOPIC {
                return offsets_topic(core);
            }
            CreatableTopic::default()
                .with_name(name.clone())
                .with_num_partitions(core.config().num_partitions)
                .with_replication_factor(core.config().default_replication_factor)
        })
        .collect();
    if topics.is_empty() {
        return;
    }
    let request = CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(30_000);
    let response = core.shared.controller.create_topics(request).await;
    for topic in response.topics {
        if topic.error_code != 0 && topic.error_code != ErrorCode::TopicAlreadyExists as i16 {
            tracing::warn!(
                topic = %&**topic.name, code = topic.error_code, message = ?topic.error_message,
                "a topic could not be created on demand"
            );
        }
    }
    core.shared.wait_applied(core.shared.controller.image().offset().0).await;
}

fn offsets_topic(core: &Core) -> CreatableTopic {
    use kafka_protocol::messages::create_topics_request::CreatableTopicConfig;
    let config = core.config();
    let setting = |name: &str, value: &str| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    CreatableTopic::default()
        .with_name(TopicName(text(OFFSETS_TOPIC)))
        .with_num_partitions(config.offsets_topic_num_partitions)
        .with_replication_factor(config.offsets_topic_replication_factor)
        .with_configs(vec![
            setting("cleanup.policy", "compact"),
            setting("segment.bytes", &config.offsets_topic_segment_bytes.to_string()),
            setting("compression.type", "producer"),
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rule() {
        assert!(is_valid_name("a.b_c-9"));
        for bad in ["", ".", "..", "a b", "ä", &"x".repeat(250)] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
