//! The only place that changes an image: applies metadata records, in the order of the log.
//!
//! Records of a metadata transaction (KIP-866) are applied like others; the image from before it is kept, and
//! [`Replay::finish`] refuses to give an image out while one is open.

use std::sync::Arc;

use crate::records::metadata::*;
use imbl::OrdMap;
use protocol_compat::ids::{
    BrokerEpoch, BrokerId, DirectoryId, LeaderEpoch, Offset, PartitionIndex, ProducerId, TopicId,
    Uuid,
};

use super::cluster::{BrokerRegistration, ControllerRegistration, Endpoint, SupportedLevels};
use super::configs::{ConfigResource, ConfigResourceKind};
use super::features::KRAFT_VERSION;
use super::security::{AccessControlEntry, DelegationToken, QuotaEntity, ScramCredential};
use super::topics::{DIRECTORY_MIGRATING, LeaderRecoveryState, PartitionImage, TopicImage};
use super::{MetadataDelta, MetadataImage};
use crate::error::ControllerError;

/// An image under change, with what changed since the one it started from.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    image: MetadataImage,
    delta: MetadataDelta,
    /// What stood before the open metadata transaction.
    before_transaction: Option<Box<(MetadataImage, MetadataDelta)>>,
}

type Result<T = (), E = String> = std::result::Result<T, E>;

impl Replay {
    /// Starts from an image.
    #[must_use]
    pub fn new(image: MetadataImage) -> Self {
        Self { image, delta: MetadataDelta::default(), before_transaction: None }
    }

    /// The image as it stands, records of an open transaction included.
    #[must_use]
    pub fn image(&self) -> &MetadataImage {
        &self.image
    }

    /// Whether a metadata transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.before_transaction.is_some()
    }

    /// Applies one record.
    ///
    /// # Errors
    /// The record does not fit the state: the log is not one that Kafka wrote.
    pub fn apply(
        &mut self,
        offset: Offset,
        record: &MetadataRecord,
    ) -> Result<(), ControllerError> {
        self.apply_record(record)
            .map_err(|reason| ControllerError::Replay { offset: offset.0, reason })
    }

    /// Says where the log stands after a batch.
    pub fn advance(&mut self, offset: Offset, epoch: LeaderEpoch, timestamp_ms: i64) {
        let provenance = &mut self.image.provenance;
        provenance.offset = offset;
        provenance.epoch = epoch;
        provenance.timestamp_ms = timestamp_ms;
    }

    /// The level of `kraft.version`, which control records carry.
    pub fn set_kraft_version(&mut self, level: i16) {
        if self.image.features.kraft_version != level {
            self.image.features.kraft_version = level;
            self.delta.features_changed = true;
        }
    }

    /// Gives out image and delta, and goes on from the image. Not while a transaction is open.
    pub fn finish(&mut self) -> Option<(MetadataImage, MetadataDelta)> {
        if self.in_transaction() {
            return None;
        }
        Some((self.image.clone(), std::mem::take(&mut self.delta)))
    }

    fn apply_record(&mut self, record: &MetadataRecord) -> Result {
        match record {
            MetadataRecord::RegisterBroker(record) => self.register_broker(record),
            MetadataRecord::UnregisterBroker(record) => self.unregister_broker(record),
            MetadataRecord::Topic(record) => self.topic(record),
            MetadataRecord::Partition(record) => self.partition(record),
            MetadataRecord::Config(record) => self.config(record),
            MetadataRecord::PartitionChange(record) => self.partition_change(record),
            MetadataRecord::FenceBroker(record) => {
                self.change_broker(record.id, record.epoch, |broker| broker.fenced = true)
            }
            MetadataRecord::UnfenceBroker(record) => {
                self.change_broker(record.id, record.epoch, |broker| broker.fenced = false)
            }
            MetadataRecord::RemoveTopic(record) => self.remove_topic(TopicId(record.topic_id)),
            MetadataRecord::DelegationToken(record) => {
                self.delegation_token(record);
                Ok(())
            }
            MetadataRecord::UserScramCredential(record) => {
                self.scram(record);
                Ok(())
            }
            MetadataRecord::FeatureLevel(record) => {
                self.feature_level(record);
                Ok(())
            }
            MetadataRecord::ClientQuota(record) => {
                self.client_quota(record);
                Ok(())
            }
            MetadataRecord::ProducerIds(record) => {
                self.image.next_producer_id = Some(ProducerId(record.next_producer_id));
                self.delta.producer_ids_changed = true;
                Ok(())
            }
            MetadataRecord::BrokerRegistrationChange(record) => {
                self.broker_registration_change(record)
            }
            MetadataRecord::AccessControlEntry(record) => {
                self.access_control_entry(record);
                Ok(())
            }
            MetadataRecord::RemoveAccessControlEntry(record) => {
                self.image
                    .acls
                    .entries
                    .remove(&record.id)
                    .ok_or_else(|| format!("no access control entry {} to remove", record.id))?;
                self.delta.acls_changed = true;
                Ok(())
            }
            // The state of a migration from ZooKeeper that ended before 4.0: nothing reads it any more.
            MetadataRecord::NoOp(_) | MetadataRecord::ZkMigrationState(_) => Ok(()),
            MetadataRecord::RemoveUserScramCredential(record) => {
                let key = (record.mechanism, Arc::from(record.name.as_str()));
                self.image
                    .scram
                    .credentials
                    .remove(&key)
                    .ok_or_else(|| format!("no credential of {} to remove", record.name))?;
                self.delta.scram_changed = true;
                Ok(())
            }
            MetadataRecord::BeginTransaction(_) => self.begin_transaction(),
            MetadataRecord::EndTransaction(_) => self
                .before_transaction
                .take()
                .map(|_| self.image.in_transaction = false)
                .ok_or_else(|| "no metadata transaction to end".to_owned()),
            MetadataRecord::AbortTransaction(_) => self.abort_transaction(),
            MetadataRecord::RemoveDelegationToken(record) => {
                self.image
                    .delegation_tokens
                    .tokens
                    .remove(record.token_id.as_str())
                    .ok_or_else(|| format!("no delegation token {} to remove", record.token_id))?;
                self.delta.delegation_tokens_changed = true;
                Ok(())
            }
            MetadataRecord::RegisterController(record) => {
                self.register_controller(record);
                Ok(())
            }
            MetadataRecord::ClearElr(record) => self.clear_elr(&record.topic_name),
            MetadataRecord::UnregisterController(record) => {
                let id = BrokerId(record.controller_id);
                self.image
                    .cluster
                    .controllers
                    .remove(&id)
                    .ok_or_else(|| format!("no controller {id} to unregister"))?;
                self.delta.changed_controllers.insert(id);
                Ok(())
            }
        }
    }

    fn begin_transaction(&mut self) -> Result {
        if self.in_transaction() {
            return Err("a metadata transaction is open already".to_owned());
        }
        self.before_transaction = Some(Box::new((self.image.clone(), self.delta.clone())));
        self.image.in_transaction = true;
        Ok(())
    }

    fn abort_transaction(&mut self) -> Result {
        let before = self.before_transaction.take().ok_or("no metadata transaction to abort")?;
        let (image, delta) = *before;
        let provenance = self.image.provenance;
        // Control records are outside of transactions.
        let kraft_version = self.image.features.kraft_version;
        self.image = image;
        self.image.provenance = provenance;
        self.image.features.kraft_version = kraft_version;
        self.delta = delta;
        Ok(())
    }

    fn register_broker(&mut self, record: &RegisterBrokerRecord) -> Result {
        let id = BrokerId(record.broker_id);
        let broker = BrokerRegistration {
            id,
            epoch: BrokerEpoch(record.broker_epoch),
            incarnation_id: record.incarnation_id,
            endpoints: record
                .end_points
                .iter()
                .map(|endpoint| Endpoint {
                    name: endpoint.name.clone(),
                    host: endpoint.host.clone(),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                })
                .collect(),
            features: record
                .features
                .iter()
                .map(|feature| {
                    let levels = SupportedLevels {
                        min: feature.min_supported_version,
                        max: feature.max_supported_version,
                    };
                    (feature.name.clone(), levels)
                })
                .collect(),
            rack: record.rack.clone(),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
            is_migrating_zk_broker: record.is_migrating_zk_broker,
            log_dirs: sorted(&record.log_dirs),
            cordoned_log_dirs: record.cordoned_log_dirs.as_deref().map(sorted),
        };
        self.image.cluster.brokers.insert(id, Arc::new(broker));
        self.delta.changed_brokers.insert(id);
        Ok(())
    }

    fn unregister_broker(&mut self, record: &UnregisterBrokerRecord) -> Result {
        let id = BrokerId(record.broker_id);
        let broker = self
            .image
            .cluster
            .brokers
            .remove(&id)
            .ok_or_else(|| format!("no broker {id} to unregister"))?;
        check_epoch(&broker, record.broker_epoch)?;
        self.delta.changed_brokers.insert(id);
        Ok(())
    }

    fn change_broker(
        &mut self,
        id: i32,
        epoch: i64,
        change: impl FnOnce(&mut BrokerRegistration),
    ) -> Result {
        let id = BrokerId(id);
        let broker = self
            .image
            .cluster
            .brokers
            .get_mut(&id)
            .ok_or_else(|| format!("broker {id} is not registered"))?;
        check_epoch(broker, epoch)?;
        change(Arc::make_mut(broker));
        self.delta.changed_brokers.insert(id);
        Ok(())
    }

    fn broker_registration_change(&mut self, record: &BrokerRegistrationChangeRecord) -> Result {
        let fenced = tristate(record.fenced, "fenced")?;
        let in_controlled_shutdown = match record.in_controlled_shutdown {
            0 => None,
            1 => Some(true),
            other => return Err(format!("inControlledShutdown is {other}")),
        };
        self.change_broker(record.broker_id, record.broker_epoch, |broker| {
            if let Some(fenced) = fenced {
                broker.fenced = fenced;
            }
            if let Some(in_controlled_shutdown) = in_controlled_shutdown {
                broker.in_controlled_shutdown = in_controlled_shutdown;
            }
            if !record.log_dirs.is_empty() {
                broker.log_dirs = sorted(&record.log_dirs);
            }
            if let Some(cordoned) = &record.cordoned_log_dirs {
                broker.cordoned_log_dirs = Some(sorted(cordoned));
            }
        })
    }

    fn register_controller(&mut self, record: &RegisterControllerRecord) {
        let id = BrokerId(record.controller_id);
        let controller = ControllerRegistration {
            id,
            incarnation_id: record.incarnation_id,
            zk_migration_ready: record.zk_migration_ready,
            endpoints: record
                .end_points
                .iter()
                .map(|endpoint| Endpoint {
                    name: endpoint.name.clone(),
                    host: endpoint.host.clone(),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                })
                .collect(),
            features: record
                .features
                .iter()
                .map(|feature| {
                    let levels = SupportedLevels {
                        min: feature.min_supported_version,
                        max: feature.max_supported_version,
                    };
                    (feature.name.clone(), levels)
                })
                .collect(),
        };
        self.image.cluster.controllers.insert(id, Arc::new(controller));
        self.delta.changed_controllers.insert(id);
    }

    fn topic(&mut self, record: &TopicRecord) -> Result {
        let topics = &mut self.image.topics;
        let id = TopicId(record.topic_id);
        if let Some(other) = topics.by_name.get(record.name.as_str()) {
            return Err(format!("topic {} exists already with id {}", record.name, other.id));
        }
        if let Some(other) = topics.by_id.get(&id) {
            return Err(format!("topic id {id} belongs to {} already", other.name));
        }
        let name: Arc<str> = record.name.as_str().into();
        let topic = Arc::new(TopicImage { name: Arc::clone(&name), id, partitions: OrdMap::new() });
        topics.by_name.insert(name, Arc::clone(&topic));
        topics.by_id.insert(id, topic);
        self.delta.created_topics.insert(id);
        Ok(())
    }

    fn remove_topic(&mut self, id: TopicId) -> Result {
        let topics = &mut self.image.topics;
        let topic = topics.by_id.remove(&id).ok_or_else(|| format!("no topic {id} to remove"))?;
        topics.by_name.remove(&topic.name);
        topics.partition_count -= topic.partitions.len();
        let resource = ConfigResource::topic(&topic.name);
        if self.image.configs.resources.remove(&resource).is_some() {
            self.delta.changed_configs.insert(resource);
        }
        self.delta.changed_partitions.remove(&id);
        if !self.delta.created_topics.remove(&id) {
            self.delta.deleted_topics.insert(id, topic);
        }
        Ok(())
    }

    fn partition(&mut self, record: &PartitionRecord) -> Result {
        let replicas = brokers(&record.replicas);
        let partition = PartitionImage {
            directories: directories(record.directories.clone(), replicas.len())?,
            replicas,
            isr: brokers(&record.isr),
            removing_replicas: brokers(&record.removing_replicas),
            adding_replicas: brokers(&record.adding_replicas),
            elr: record.eligible_leader_replicas.as_deref().map(brokers).unwrap_or_default(),
            last_known_elr: record.last_known_elr.as_deref().map(brokers).unwrap_or_default(),
            leader: leader(record.leader),
            leader_recovery_state: recovery_state(record.leader_recovery_state)?,
            leader_epoch: LeaderEpoch(record.leader_epoch),
            partition_epoch: record.partition_epoch,
        };
        if record.partition_id < 0 {
            return Err(format!("partition {} is negative", record.partition_id));
        }
        let added = self.put_partition(
            TopicId(record.topic_id),
            PartitionIndex(record.partition_id),
            Arc::new(partition),
        )?;
        if added {
            self.image.topics.partition_count += 1;
        }
        Ok(())
    }

    /// Puts a partition into its topic; whether it is new.
    fn put_partition(
        &mut self,
        id: TopicId,
        index: PartitionIndex,
        partition: Arc<PartitionImage>,
    ) -> Result<bool> {
        let topics = &mut self.image.topics;
        let topic = topics.by_id.get_mut(&id).ok_or_else(|| format!("there is no topic {id}"))?;
        let name = Arc::clone(&topic.name);
        // The other map holds the same topic: dropped first, so that the change below copies nothing of it.
        topics.by_name.remove(&name);
        let changed = Arc::make_mut(topic);
        let added = changed.partitions.insert(index, partition).is_none();
        let topic = Arc::clone(topic);
        topics.by_name.insert(name, topic);
        self.delta.changed_partitions.entry(id).or_default().insert(index);
        Ok(added)
    }

    fn partition_change(&mut self, record: &PartitionChangeRecord) -> Result {
        let id = TopicId(record.topic_id);
        let index = PartitionIndex(record.partition_id);
        let before = self
            .image
            .topics
            .partition(id, index)
            .ok_or_else(|| format!("there is no partition {index} of topic {id}"))?;
        let after = changed_partition(before, record)?;
        self.put_partition(id, index, Arc::new(after)).map(|_| ())
    }

    fn clear_elr(&mut self, topic_name: &str) -> Result {
        let topics: Vec<_> = if topic_name.is_empty() {
            self.image.topics.by_id.values().cloned().collect()
        } else {
            let topic = self.image.topics.by_name.get(topic_name);
            vec![topic.cloned().ok_or_else(|| format!("there is no topic {topic_name}"))?]
        };
        for topic in topics {
            for (&index, partition) in &topic.partitions {
                if partition.elr.is_empty() && partition.last_known_elr.is_empty() {
                    continue;
                }
                let mut partition = partition.as_ref().clone();
                partition.elr.clear();
                partition.last_known_elr.clear();
                partition.partition_epoch += 1;
                self.put_partition(topic.id, index, Arc::new(partition))?;
            }
        }
        Ok(())
    }

    fn config(&mut self, record: &ConfigRecord) -> Result {
        let kind = ConfigResourceKind::from_wire(record.resource_type).ok_or_else(|| {
            format!("config of the unknown resource type {}", record.resource_type)
        })?;
        let resource = ConfigResource { kind, name: record.resource_name.as_str().into() };
        let resources = &mut self.image.configs.resources;
        match &record.value {
            Some(value) => {
                resources
                    .entry(resource.clone())
                    .or_default()
                    .insert(record.name.as_str().into(), value.as_str().into());
            }
            None => {
                if let Some(configs) = resources.get_mut(&resource) {
                    configs.remove(record.name.as_str());
                    if configs.is_empty() {
                        resources.remove(&resource);
                    }
                }
            }
        }
        self.delta.changed_configs.insert(resource);
        Ok(())
    }

    fn feature_level(&mut self, record: &FeatureLevelRecord) {
        if record.name == KRAFT_VERSION {
            return;
        }
        let levels = &mut self.image.features.levels;
        if record.feature_level == 0 {
            levels.remove(record.name.as_str());
        } else {
            levels.insert(record.name.as_str().into(), record.feature_level);
        }
        self.delta.features_changed = true;
    }

    fn client_quota(&mut self, record: &ClientQuotaRecord) {
        let entity: QuotaEntity = record
            .entity
            .iter()
            .map(|part| (part.entity_type.clone(), part.entity_name.clone()))
            .collect();
        let quotas = &mut self.image.client_quotas.quotas;
        if record.remove {
            if let Some(values) = quotas.get_mut(&entity) {
                values.remove(record.key.as_str());
                if values.is_empty() {
                    quotas.remove(&entity);
                }
            }
        } else {
            quotas.entry(entity).or_default().insert(record.key.as_str().into(), record.value);
        }
        self.delta.client_quotas_changed = true;
    }

    fn access_control_entry(&mut self, record: &AccessControlEntryRecord) {
        let entry = AccessControlEntry {
            resource_type: record.resource_type,
            resource_name: record.resource_name.clone(),
            pattern_type: record.pattern_type,
            principal: record.principal.clone(),
            host: record.host.clone(),
            operation: record.operation,
            permission_type: record.permission_type,
        };
        self.image.acls.entries.insert(record.id, Arc::new(entry));
        self.delta.acls_changed = true;
    }

    fn scram(&mut self, record: &UserScramCredentialRecord) {
        let credential = ScramCredential {
            salt: record.salt.clone(),
            stored_key: record.stored_key.clone(),
            server_key: record.server_key.clone(),
            iterations: record.iterations,
        };
        let key = (record.mechanism, Arc::from(record.name.as_str()));
        self.image.scram.credentials.insert(key, Arc::new(credential));
        self.delta.scram_changed = true;
    }

    fn delegation_token(&mut self, record: &DelegationTokenRecord) {
        let token = DelegationToken {
            owner: record.owner.clone(),
            requester: record.requester.clone(),
            renewers: record.renewers.clone(),
            issue_timestamp_ms: record.issue_timestamp,
            max_timestamp_ms: record.max_timestamp,
            expiration_timestamp_ms: record.expiration_timestamp,
        };
        let tokens = &mut self.image.delegation_tokens.tokens;
        tokens.insert(record.token_id.as_str().into(), Arc::new(token));
        self.delta.delegation_tokens_changed = true;
    }
}

/// The partition after a change (Kafka's `PartitionRegistration.merge`).
fn changed_partition(
    before: &PartitionImage,
    record: &PartitionChangeRecord,
) -> Result<PartitionImage> {
    let mut after = before.clone();
    if let Some(replicas) = &record.replicas {
        after.replicas = brokers(replicas);
        // Directories follow their brokers; a new replica has none yet.
        after.directories = after
            .replicas
            .iter()
            .map(|&broker| before.directory(broker).unwrap_or(DIRECTORY_MIGRATING))
            .collect();
    }
    if let Some(ids) = &record.directories {
        after.directories = directories(ids.clone(), after.replicas.len())?;
    }
    if let Some(isr) = &record.isr {
        after.isr = brokers(isr);
    }
    if let Some(removing) = &record.removing_replicas {
        after.removing_replicas = brokers(removing);
    }
    if let Some(adding) = &record.adding_replicas {
        after.adding_replicas = brokers(adding);
    }
    if let Some(elr) = &record.eligible_leader_replicas {
        after.elr = brokers(elr);
    }
    if let Some(elr) = &record.last_known_elr {
        after.last_known_elr = brokers(elr);
    }
    // -2 leaves the leader as it is; any other value is a new term, also of the same leader.
    if record.leader != -2 {
        after.leader = leader(record.leader);
        after.leader_epoch = LeaderEpoch(before.leader_epoch.0.wrapping_add(1));
    }
    if record.leader_recovery_state != -1 {
        after.leader_recovery_state = recovery_state(record.leader_recovery_state)?;
    }
    after.partition_epoch = before.partition_epoch.wrapping_add(1);
    Ok(after)
}

fn check_epoch(broker: &BrokerRegistration, epoch: i64) -> Result {
    if broker.epoch.0 == epoch {
        return Ok(());
    }
    Err(format!("broker {} has epoch {}, and the record epoch {epoch}", broker.id, broker.epoch))
}

fn tristate(value: i8, what: &str) -> Result<Option<bool>> {
    match value {
        0 => Ok(None),
        1 => Ok(Some(true)),
        -1 => Ok(Some(false)),
        other => Err(format!("{what} is {other}")),
    }
}

fn leader(id: i32) -> Option<BrokerId> {
    (id >= 0).then_some(BrokerId(id))
}

fn recovery_state(state: i8) -> Result<LeaderRecoveryState> {
    match state {
        0 => Ok(LeaderRecoveryState::Recovered),
        1 => Ok(LeaderRecoveryState::Recovering),
        other => Err(format!("leaderRecoveryState is {other}")),
    }
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn sorted(ids: &[Uuid]) -> Vec<DirectoryId> {
    let mut ids: Vec<_> = ids.iter().copied().map(DirectoryId).collect();
    ids.sort_unstable();
    ids
}

/// Directories of a partition; a record of before directories were known has none.
fn directories(ids: Vec<Uuid>, replicas: usize) -> Result<Vec<DirectoryId>> {
    if ids.is_empty() {
        return Ok(vec![DIRECTORY_MIGRATING; replicas]);
    }
    if ids.len() != replicas {
        return Err(format!("{} directories of {replicas} replicas", ids.len()));
    }
    Ok(ids.into_iter().map(DirectoryId).collect())
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
