//! DescribeTopicPartitions (75), v0. KIP-966: Metadata in pages.

use std::rc::Rc;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName,
};
use protocol_compat::ErrorCode;

use super::metadata::{is_valid_name, leader_for, offline_replicas, wire_ids};
use super::{Context, TOPIC_OPERATIONS};
use crate::core::Core;
use crate::metadata::{is_internal, text};
use controller::MetadataImage;
use controller::image::TopicImage;

/// `max.request.partition.size.limit`: partitions of one page.
const PARTITIONS_MAX: usize = 2000;

/// Answers a request.
pub fn handle(
    core: &Rc<Core>,
    context: &Context,
    request: &DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let image = core.image();
    let limit =
        usize::try_from(request.response_partition_limit).unwrap_or(0).clamp(1, PARTITIONS_MAX);
    let from = request.cursor.as_ref().map(|cursor| {
        (cursor.topic_name.to_string(), usize::try_from(cursor.partition_index).unwrap_or(0))
    });
    let mut names: Vec<String> = if request.topics.is_empty() {
        image.topics().iter().map(|topic| topic.name().to_string()).collect()
    } else {
        request.topics.iter().map(|topic| topic.name.to_string()).collect()
    };
    names.sort_unstable();
    names.dedup();
    if let Some((first, _)) = &from {
        names.retain(|name| name >= first);
    }
    let mut page = Page { left: limit, topics: Vec::new(), next: None };
    for name in names {
        let skip = match &from {
            Some((first, partition)) if *first == name => *partition,
            _ => 0,
        };
        match image.topics().by_name(&name) {
            Some(topic) => page.add(core, context, &image, topic, skip),
            None => page.add_unknown(&name),
        }
        if page.next.is_some() {
            break;
        }
    }
    DescribeTopicPartitionsResponse::default().with_topics(page.topics).with_next_cursor(page.next)
}

struct Page {
    left: usize,
    topics: Vec<DescribeTopicPartitionsResponseTopic>,
    next: Option<Cursor>,
}

impl Page {
    fn cursor(&mut self, topic: &str, partition: usize) {
        self.next = Some(
            Cursor::default()
                .with_topic_name(TopicName(text(topic)))
                .with_partition_index(i32::try_from(partition).unwrap_or(i32::MAX)),
        );
    }

    fn add_unknown(&mut self, name: &str) {
        let code = if is_valid_name(name) {
            ErrorCode::UnknownTopicOrPartition
        } else {
            ErrorCode::InvalidTopicException
        };
        self.topics.push(
            DescribeTopicPartitionsResponseTopic::default()
                .with_error_code(code as i16)
                .with_name(Some(TopicName(text(name))))
                .with_is_internal(is_internal(name)),
        );
    }

    fn add(
        &mut self,
        core: &Core,
        context: &Context,
        image: &MetadataImage,
        topic: &TopicImage,
        skip: usize,
    ) {
        if self.left == 0 {
            self.cursor(topic.name(), skip);
            return;
        }
        let mut partitions = Vec::new();
        for (at, (index, partition)) in topic.partitions().enumerate().skip(skip) {
            if self.left == 0 {
                self.cursor(topic.name(), at);
                break;
            }
            self.left -= 1;
            let (code, leader) = leader_for(core, image, partition, context);
            partitions.push(
                DescribeTopicPartitionsResponsePartition::default()
                    .with_error_code(code as i16)
                    .with_partition_index(index.0)
                    .with_leader_id(BrokerId(leader))
                    .with_leader_epoch(partition.leader_epoch.0)
                    .with_replica_nodes(wire_ids(&partition.replicas))
                    .with_isr_nodes(wire_ids(&partition.isr))
                    .with_eligible_leader_replicas(Some(wire_ids(&partition.elr)))
                    .with_last_known_elr(Some(wire_ids(&partition.last_known_elr)))
                    .with_offline_replicas(offline_replicas(image, partition)),
            );
        }
        self.topics.push(
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(TopicName(text(topic.name()))))
                .with_topic_id(topic.id().0)
                .with_is_internal(is_internal(topic.name()))
                .with_partitions(partitions)
                .with_topic_authorized_operations(TOPIC_OPERATIONS),
        );
    }
}
