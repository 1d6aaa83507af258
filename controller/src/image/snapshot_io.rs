//! An image as the records that build it: what a snapshot holds, in the order of Kafka's `MetadataImage.write`.

use super::MetadataImage;
use super::cluster::{BrokerRegistration, ControllerRegistration};
use super::features::METADATA_VERSION;
use super::topics::{DIRECTORY_MIGRATING, LeaderRecoveryState, PartitionImage, TopicImage};
use crate::records::MetadataRecord;
use crate::records::metadata::*;
use protocol_compat::ids::{BrokerId, PartitionIndex};

/// The records, to be replayed on an empty image.
#[must_use]
pub fn to_records(image: &MetadataImage) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    features(image, &mut records);
    records.extend(image.cluster.brokers().map(broker));
    records.extend(image.cluster.controllers().map(controller));
    for topic in image.topics.iter() {
        records.push(MetadataRecord::Topic(TopicRecord {
            name: topic.name.to_string(),
            topic_id: topic.id.0,
        }));
        records.extend(topic.partitions().map(|(index, p)| partition(topic, index, p)));
    }
    for (resource, configs) in image.configs.iter() {
        records.extend(configs.iter().map(|(name, value)| {
            MetadataRecord::Config(ConfigRecord {
                resource_type: resource.kind as i8,
                resource_name: resource.name.to_string(),
                name: name.to_string(),
                value: Some(value.to_string()),
            })
        }));
    }
    quotas(image, &mut records);
    if let Some(next) = image.next_producer_id {
        records.push(MetadataRecord::ProducerIds(ProducerIdsRecord {
            broker_id: -1,
            broker_epoch: -1,
            next_producer_id: next.0,
        }));
    }
    security(image, &mut records);
    records
}

fn features(image: &MetadataImage, records: &mut Vec<MetadataRecord>) {
    let level = |name: &str, level: i16| {
        MetadataRecord::FeatureLevel(FeatureLevelRecord {
            name: name.to_owned(),
            feature_level: level,
        })
    };
    // It decides how the records after it are read, so it comes first.
    let metadata_version = image.features.metadata_version();
    if metadata_version > 0 {
        records.push(level(METADATA_VERSION, metadata_version));
    }
    let others = image.features.levels.iter().filter(|(name, _)| name.as_ref() != METADATA_VERSION);
    records.extend(others.map(|(name, &number)| level(name, number)));
}

fn broker(broker: &BrokerRegistration) -> MetadataRecord {
    MetadataRecord::RegisterBroker(RegisterBrokerRecord {
        broker_id: broker.id.0,
        is_migrating_zk_broker: broker.is_migrating_zk_broker,
        incarnation_id: broker.incarnation_id,
        broker_epoch: broker.epoch.0,
        end_points: broker
            .endpoints
            .iter()
            .map(|endpoint| register_broker_record::BrokerEndpoint {
                name: endpoint.name.clone(),
                host: endpoint.host.clone(),
                port: endpoint.port,
                security_protocol: endpoint.security_protocol,
            })
            .collect(),
        features: broker
            .features
            .iter()
            .map(|(name, levels)| register_broker_record::BrokerFeature {
                name: name.clone(),
                min_supported_version: levels.min,
                max_supported_version: levels.max,
            })
            .collect(),
        rack: broker.rack.clone(),
        fenced: broker.fenced,
        in_controlled_shutdown: broker.in_controlled_shutdown,
        log_dirs: broker.log_dirs.iter().map(|id| id.0).collect(),
        cordoned_log_dirs: broker
            .cordoned_log_dirs
            .as_ref()
            .map(|ids| ids.iter().map(|id| id.0).collect()),
    })
}

fn controller(controller: &ControllerRegistration) -> MetadataRecord {
    MetadataRecord::RegisterController(RegisterControllerRecord {
        controller_id: controller.id.0,
        incarnation_id: controller.incarnation_id,
        zk_migration_ready: controller.zk_migration_ready,
        end_points: controller
            .endpoints
            .iter()
            .map(|endpoint| register_controller_record::ControllerEndpoint {
                name: endpoint.name.clone(),
                host: endpoint.host.clone(),
                port: endpoint.port,
                security_protocol: endpoint.security_protocol,
            })
            .collect(),
        features: controller
            .features
            .iter()
            .map(|(name, levels)| register_controller_record::ControllerFeature {
                name: name.clone(),
                min_supported_version: levels.min,
                max_supported_version: levels.max,
            })
            .collect(),
    })
}

fn partition(
    topic: &TopicImage,
    index: PartitionIndex,
    partition: &PartitionImage,
) -> MetadataRecord {
    let numbers = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let elr = |ids: &[BrokerId]| (!ids.is_empty()).then(|| numbers(ids));
    // Partitions of before directories were known have none in their records either.
    let without = partition.directories.iter().all(|&id| id == DIRECTORY_MIGRATING);
    MetadataRecord::Partition(PartitionRecord {
        partition_id: index.0,
        topic_id: topic.id.0,
        replicas: numbers(&partition.replicas),
        isr: numbers(&partition.isr),
        removing_replicas: numbers(&partition.removing_replicas),
        adding_replicas: numbers(&partition.adding_replicas),
        leader: partition.leader.map_or(-1, |id| id.0),
        leader_recovery_state: match partition.leader_recovery_state {
            LeaderRecoveryState::Recovered => 0,
            LeaderRecoveryState::Recovering => 1,
        },
        leader_epoch: partition.leader_epoch.0,
        partition_epoch: partition.partition_epoch,
        directories: if without {
            Vec::new()
        } else {
            partition.directories.iter().map(|id| id.0).collect()
        },
        eligible_leader_replicas: elr(&partition.elr),
        last_known_elr: elr(&partition.last_known_elr),
    })
}

fn quotas(image: &MetadataImage, records: &mut Vec<MetadataRecord>) {
    for (entity, values) in image.client_quotas.iter() {
        let entity: Vec<_> = entity
            .iter()
            .map(|(kind, name)| client_quota_record::EntityData {
                entity_type: kind.clone(),
                entity_name: name.clone(),
            })
            .collect();
        records.extend(values.iter().map(|(key, &value)| {
            MetadataRecord::ClientQuota(ClientQuotaRecord {
                entity: entity.clone(),
                key: key.to_string(),
                value,
                remove: false,
            })
        }));
    }
}

fn security(image: &MetadataImage, records: &mut Vec<MetadataRecord>) {
    records.extend(image.acls.iter().map(|(id, entry)| {
        MetadataRecord::AccessControlEntry(AccessControlEntryRecord {
            id,
            resource_type: entry.resource_type,
            resource_name: entry.resource_name.clone(),
            pattern_type: entry.pattern_type,
            principal: entry.principal.clone(),
            host: entry.host.clone(),
            operation: entry.operation,
            permission_type: entry.permission_type,
        })
    }));
    records.extend(image.scram.iter().map(|(mechanism, user, credential)| {
        MetadataRecord::UserScramCredential(UserScramCredentialRecord {
            name: user.to_owned(),
            mechanism,
            salt: credential.salt.clone(),
            stored_key: credential.stored_key.clone(),
            server_key: credential.server_key.clone(),
            iterations: credential.iterations,
        })
    }));
    records.extend(image.delegation_tokens.iter().map(|(id, token)| {
        MetadataRecord::DelegationToken(DelegationTokenRecord {
            owner: token.owner.clone(),
            requester: token.requester.clone(),
            renewers: token.renewers.clone(),
            issue_timestamp: token.issue_timestamp_ms,
            max_timestamp: token.max_timestamp_ms,
            expiration_timestamp: token.expiration_timestamp_ms,
            token_id: id.to_owned(),
        })
    }));
}
