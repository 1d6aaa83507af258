//! AssignReplicasToDirs, and log directories that fail.

use crate::records::metadata::{
    BrokerRegistrationChangeRecord, MetadataRecord, PartitionChangeRecord,
};
use kafka_protocol::messages::assign_replicas_to_dirs_response::{
    DirectoryData, PartitionData, TopicData,
};
use kafka_protocol::messages::{AssignReplicasToDirsRequest, AssignReplicasToDirsResponse};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{BrokerId, DirectoryId, PartitionIndex, TopicId, Uuid};

use super::partition_change::PartitionChange;
use super::{Context, Decision, brokers};
use crate::image::BrokerRegistration;
use crate::image::topics::{DIRECTORY_LOST, DIRECTORY_UNASSIGNED};

/// AssignReplicasToDirs: where a broker put its replicas.
pub(crate) fn assign(
    context: &Context<'_>,
    request: &AssignReplicasToDirsRequest,
) -> Decision<AssignReplicasToDirsResponse> {
    let id = BrokerId(request.broker_id.0);
    if let Err(error) = brokers::check_epoch(context, id, request.broker_epoch) {
        let response = AssignReplicasToDirsResponse::default().with_error_code(error.code().code());
        return Decision::answer(response);
    }
    let mut records = Vec::new();
    let directories = request.directories.iter().map(|directory| {
        let topics = directory.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let index = PartitionIndex(partition.partition_index);
                let key = (TopicId(topic.topic_id), index);
                let code = match assign_one(context, id, DirectoryId(directory.id), key) {
                    Ok(record) => {
                        records.extend(record.map(MetadataRecord::PartitionChange));
                        ErrorCode::None
                    }
                    Err(code) => code,
                };
                PartitionData::default().with_partition_index(index.0).with_error_code(code.code())
            });
            TopicData::default().with_topic_id(topic.topic_id).with_partitions(partitions.collect())
        });
        DirectoryData::default().with_id(directory.id).with_topics(topics.collect())
    });
    let directories = directories.collect();
    let response = AssignReplicasToDirsResponse::default().with_directories(directories);
    Decision { records, response }
}

fn assign_one(
    context: &Context<'_>,
    broker: BrokerId,
    directory: DirectoryId,
    (topic, index): (TopicId, PartitionIndex),
) -> Result<Option<PartitionChangeRecord>, ErrorCode> {
    let topic = context.image.topics().by_id(topic).ok_or(ErrorCode::UnknownTopicId)?;
    let partition = topic.partition(index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let at = partition
        .replicas
        .iter()
        .position(|&id| id == broker)
        .ok_or(ErrorCode::NotLeaderOrFollower)?;
    if partition.directories.get(at) == Some(&directory) {
        return Ok(None);
    }
    let mut directories: Vec<Uuid> = partition.directories.iter().map(|id| id.0).collect();
    *directories.get_mut(at).ok_or(ErrorCode::UnknownServerError)? = directory.0;
    Ok(Some(PartitionChangeRecord {
        partition_id: index.0,
        topic_id: topic.id().0,
        directories: Some(directories),
        ..PartitionChangeRecord::default()
    }))
}

/// Directories that a heartbeat says are offline: off the registration, their replicas off ISR and leadership.
pub(crate) fn offline(
    context: &Context<'_>,
    broker: &BrokerRegistration,
    offline: &[Uuid],
    records: &mut Vec<MetadataRecord>,
) {
    let lost: Vec<_> = broker
        .log_dirs
        .iter()
        .copied()
        .filter(|directory| offline.contains(&directory.0))
        .collect();
    if lost.is_empty() {
        return;
    }
    let online: Vec<_> =
        broker.log_dirs.iter().filter(|id| !lost.contains(id)).map(|id| id.0).collect();
    // No directories mean no change in this record; a broker that lost its last one stops anyway.
    if !online.is_empty() {
        records.push(MetadataRecord::BrokerRegistrationChange(BrokerRegistrationChangeRecord {
            broker_id: broker.id.0,
            broker_epoch: broker.epoch.0,
            log_dirs: online,
            ..BrokerRegistrationChangeRecord::default()
        }));
    }
    for topic in context.image.topics().iter() {
        for (index, partition) in topic.partitions() {
            let Some(directory) = partition.directory(broker.id) else { continue };
            if !lost.contains(&directory)
                || directory == DIRECTORY_LOST
                || directory == DIRECTORY_UNASSIGNED
            {
                continue;
            }
            let in_use = partition.isr.contains(&broker.id) || partition.leader == Some(broker.id);
            if !in_use {
                continue;
            }
            let change = PartitionChange {
                topic: topic.id(),
                index,
                partition,
                acceptable: |id| id != broker.id && context.is_active(id),
                remove: Some(broker.id),
                unclean_shutdown: None,
                elr_enabled: context.elr_enabled(),
                min_isr: context.min_isr(topic.name()),
                unclean_election: context.unclean_election(topic.name()),
            };
            records.extend(change.build().map(MetadataRecord::PartitionChange));
        }
    }
}
