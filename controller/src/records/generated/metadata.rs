//! The records of the metadata log (`__cluster_metadata`), as Apache Kafka 4.4.0 defines them.
//!
//! Generated from the table of their fields; every version is flexible.

#![allow(
    clippy::derivable_impls,
    clippy::field_reassign_with_default,
    reason = "generated: one shape for all records"
)]

use bytes::Bytes;
use protocol_compat::ids::Uuid;

use super::codec::{Reader, RecordError, Tags, Writer};

/// Any record of the metadata log.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant, reason = "records live briefly, in a vector")]
pub enum MetadataRecord {
    /// Type 0.
    RegisterBroker(RegisterBrokerRecord),
    /// Type 1.
    UnregisterBroker(UnregisterBrokerRecord),
    /// Type 2.
    Topic(TopicRecord),
    /// Type 3.
    Partition(PartitionRecord),
    /// Type 4.
    Config(ConfigRecord),
    /// Type 5.
    PartitionChange(PartitionChangeRecord),
    /// Type 7.
    FenceBroker(FenceBrokerRecord),
    /// Type 8.
    UnfenceBroker(UnfenceBrokerRecord),
    /// Type 9.
    RemoveTopic(RemoveTopicRecord),
    /// Type 10.
    DelegationToken(DelegationTokenRecord),
    /// Type 11.
    UserScramCredential(UserScramCredentialRecord),
    /// Type 12.
    FeatureLevel(FeatureLevelRecord),
    /// Type 14.
    ClientQuota(ClientQuotaRecord),
    /// Type 15.
    ProducerIds(ProducerIdsRecord),
    /// Type 17.
    BrokerRegistrationChange(BrokerRegistrationChangeRecord),
    /// Type 18.
    AccessControlEntry(AccessControlEntryRecord),
    /// Type 19.
    RemoveAccessControlEntry(RemoveAccessControlEntryRecord),
    /// Type 20.
    NoOp(NoOpRecord),
    /// Type 21.
    ZkMigrationState(ZkMigrationStateRecord),
    /// Type 22.
    RemoveUserScramCredential(RemoveUserScramCredentialRecord),
    /// Type 23.
    BeginTransaction(BeginTransactionRecord),
    /// Type 24.
    EndTransaction(EndTransactionRecord),
    /// Type 25.
    AbortTransaction(AbortTransactionRecord),
    /// Type 26.
    RemoveDelegationToken(RemoveDelegationTokenRecord),
    /// Type 27.
    RegisterController(RegisterControllerRecord),
    /// Type 28.
    ClearElr(ClearElrRecord),
    /// Type 29.
    UnregisterController(UnregisterControllerRecord),
}

impl MetadataRecord {
    /// The record's type.
    #[must_use]
    pub fn api_key(&self) -> i16 {
        match self {
            Self::RegisterBroker(_) => 0,
            Self::UnregisterBroker(_) => 1,
            Self::Topic(_) => 2,
            Self::Partition(_) => 3,
            Self::Config(_) => 4,
            Self::PartitionChange(_) => 5,
            Self::FenceBroker(_) => 7,
            Self::UnfenceBroker(_) => 8,
            Self::RemoveTopic(_) => 9,
            Self::DelegationToken(_) => 10,
            Self::UserScramCredential(_) => 11,
            Self::FeatureLevel(_) => 12,
            Self::ClientQuota(_) => 14,
            Self::ProducerIds(_) => 15,
            Self::BrokerRegistrationChange(_) => 17,
            Self::AccessControlEntry(_) => 18,
            Self::RemoveAccessControlEntry(_) => 19,
            Self::NoOp(_) => 20,
            Self::ZkMigrationState(_) => 21,
            Self::RemoveUserScramCredential(_) => 22,
            Self::BeginTransaction(_) => 23,
            Self::EndTransaction(_) => 24,
            Self::AbortTransaction(_) => 25,
            Self::RemoveDelegationToken(_) => 26,
            Self::RegisterController(_) => 27,
            Self::ClearElr(_) => 28,
            Self::UnregisterController(_) => 29,
        }
    }

    /// Newest version of a type; `None` when the type is unknown.
    #[must_use]
    pub fn newest_version(api_key: i16) -> Option<i16> {
        Some(match api_key {
            0 => 4,
            1 | 2 | 4 | 7 | 8 | 9 | 10 | 11 | 12 | 14 | 15 | 18 | 19 | 20 | 21 | 22 | 23 | 24
            | 25 | 26 | 27 | 28 | 29 => 0,
            3 | 5 => 2,
            17 => 3,
            _ => return None,
        })
    }

    pub(crate) fn read_body(
        api_key: i16,
        version: i16,
        r: &mut Reader<'_>,
    ) -> Result<Self, RecordError> {
        Ok(match api_key {
            0 => Self::RegisterBroker(RegisterBrokerRecord::read(r, version)?),
            1 => Self::UnregisterBroker(UnregisterBrokerRecord::read(r, version)?),
            2 => Self::Topic(TopicRecord::read(r, version)?),
            3 => Self::Partition(PartitionRecord::read(r, version)?),
            4 => Self::Config(ConfigRecord::read(r, version)?),
            5 => Self::PartitionChange(PartitionChangeRecord::read(r, version)?),
            7 => Self::FenceBroker(FenceBrokerRecord::read(r, version)?),
            8 => Self::UnfenceBroker(UnfenceBrokerRecord::read(r, version)?),
            9 => Self::RemoveTopic(RemoveTopicRecord::read(r, version)?),
            10 => Self::DelegationToken(DelegationTokenRecord::read(r, version)?),
            11 => Self::UserScramCredential(UserScramCredentialRecord::read(r, version)?),
            12 => Self::FeatureLevel(FeatureLevelRecord::read(r, version)?),
            14 => Self::ClientQuota(ClientQuotaRecord::read(r, version)?),
            15 => Self::ProducerIds(ProducerIdsRecord::read(r, version)?),
            17 => Self::BrokerRegistrationChange(BrokerRegistrationChangeRecord::read(r, version)?),
            18 => Self::AccessControlEntry(AccessControlEntryRecord::read(r, version)?),
            19 => Self::RemoveAccessControlEntry(RemoveAccessControlEntryRecord::read(r, version)?),
            20 => Self::NoOp(NoOpRecord::read(r, version)?),
            21 => Self::ZkMigrationState(ZkMigrationStateRecord::read(r, version)?),
            22 => {
                Self::RemoveUserScramCredential(RemoveUserScramCredentialRecord::read(r, version)?)
            }
            23 => Self::BeginTransaction(BeginTransactionRecord::read(r, version)?),
            24 => Self::EndTransaction(EndTransactionRecord::read(r, version)?),
            25 => Self::AbortTransaction(AbortTransactionRecord::read(r, version)?),
            26 => Self::RemoveDelegationToken(RemoveDelegationTokenRecord::read(r, version)?),
            27 => Self::RegisterController(RegisterControllerRecord::read(r, version)?),
            28 => Self::ClearElr(ClearElrRecord::read(r, version)?),
            29 => Self::UnregisterController(UnregisterControllerRecord::read(r, version)?),
            _ => return Err(RecordError::UnknownType(api_key)),
        })
    }

    pub(crate) fn write_body(&self, w: &mut Writer, version: i16) {
        match self {
            Self::RegisterBroker(record) => record.write(w, version),
            Self::UnregisterBroker(record) => record.write(w, version),
            Self::Topic(record) => record.write(w, version),
            Self::Partition(record) => record.write(w, version),
            Self::Config(record) => record.write(w, version),
            Self::PartitionChange(record) => record.write(w, version),
            Self::FenceBroker(record) => record.write(w, version),
            Self::UnfenceBroker(record) => record.write(w, version),
            Self::RemoveTopic(record) => record.write(w, version),
            Self::DelegationToken(record) => record.write(w, version),
            Self::UserScramCredential(record) => record.write(w, version),
            Self::FeatureLevel(record) => record.write(w, version),
            Self::ClientQuota(record) => record.write(w, version),
            Self::ProducerIds(record) => record.write(w, version),
            Self::BrokerRegistrationChange(record) => record.write(w, version),
            Self::AccessControlEntry(record) => record.write(w, version),
            Self::RemoveAccessControlEntry(record) => record.write(w, version),
            Self::NoOp(record) => record.write(w, version),
            Self::ZkMigrationState(record) => record.write(w, version),
            Self::RemoveUserScramCredential(record) => record.write(w, version),
            Self::BeginTransaction(record) => record.write(w, version),
            Self::EndTransaction(record) => record.write(w, version),
            Self::AbortTransaction(record) => record.write(w, version),
            Self::RemoveDelegationToken(record) => record.write(w, version),
            Self::RegisterController(record) => record.write(w, version),
            Self::ClearElr(record) => record.write(w, version),
            Self::UnregisterController(record) => record.write(w, version),
        }
    }
}

/// `RegisterBrokerRecord`, type 0, versions 0-4.
#[derive(Clone, PartialEq, Debug)]
pub struct RegisterBrokerRecord {
    /// `BrokerId`.
    pub broker_id: i32,
    /// `IsMigratingZkBroker`, from version 2.
    pub is_migrating_zk_broker: bool,
    /// `IncarnationId`.
    pub incarnation_id: Uuid,
    /// `BrokerEpoch`.
    pub broker_epoch: i64,
    /// `EndPoints`.
    pub end_points: Vec<register_broker_record::BrokerEndpoint>,
    /// `Features`.
    pub features: Vec<register_broker_record::BrokerFeature>,
    /// `Rack`.
    pub rack: Option<String>,
    /// `Fenced`.
    pub fenced: bool,
    /// `InControlledShutdown`, from version 1.
    pub in_controlled_shutdown: bool,
    /// `LogDirs`, from version 3.
    pub log_dirs: Vec<Uuid>,
    /// `CordonedLogDirs`, from version 4.
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
}

impl Default for RegisterBrokerRecord {
    fn default() -> Self {
        Self {
            broker_id: Default::default(),
            is_migrating_zk_broker: false,
            incarnation_id: Default::default(),
            broker_epoch: Default::default(),
            end_points: Default::default(),
            features: Default::default(),
            rack: None,
            fenced: true,
            in_controlled_shutdown: false,
            log_dirs: Default::default(),
            cordoned_log_dirs: None,
        }
    }
}

impl RegisterBrokerRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.broker_id = r.int32()?;
        if version >= 2 {
            value.is_migrating_zk_broker = r.bool()?;
        }
        value.incarnation_id = r.uuid()?;
        value.broker_epoch = r.int64()?;
        value.end_points = r.array(|r| register_broker_record::BrokerEndpoint::read(r, version))?;
        value.features = r.array(|r| register_broker_record::BrokerFeature::read(r, version))?;
        value.rack = r.nullable_string()?;
        value.fenced = r.bool()?;
        if version >= 1 {
            value.in_controlled_shutdown = r.bool()?;
        }
        r.tags(|tag, r| {
            match tag {
                0 if version >= 3 => value.log_dirs = r.array(|r| r.uuid())?,
                1 if version >= 4 => value.cordoned_log_dirs = r.nullable_array(|r| r.uuid())?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.broker_id);
        if version >= 2 {
            w.bool(self.is_migrating_zk_broker);
        }
        w.uuid(self.incarnation_id);
        w.int64(self.broker_epoch);
        w.array(&self.end_points, |w, item| item.write(w, version));
        w.array(&self.features, |w, item| item.write(w, version));
        w.nullable_string(self.rack.as_deref());
        w.bool(self.fenced);
        if version >= 1 {
            w.bool(self.in_controlled_shutdown);
        }
        let default = Self::default();
        let mut tags = Tags::default();
        if version >= 3 && self.log_dirs != default.log_dirs {
            tags.put(0, |w| w.array(&self.log_dirs, |w, item| w.uuid(*item)));
        }
        if version >= 4 && self.cordoned_log_dirs != default.cordoned_log_dirs {
            tags.put(1, |w| {
                w.nullable_array(self.cordoned_log_dirs.as_deref(), |w, item| w.uuid(*item))
            });
        }
        w.tags(tags);
    }
}

/// Parts of [`RegisterBrokerRecord`].
pub mod register_broker_record {
    use super::*;

    /// An element of `EndPoints`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct BrokerEndpoint {
        /// `Name`.
        pub name: String,
        /// `Host`.
        pub host: String,
        /// `Port`.
        pub port: u16,
        /// `SecurityProtocol`.
        pub security_protocol: i16,
    }

    impl Default for BrokerEndpoint {
        fn default() -> Self {
            Self {
                name: Default::default(),
                host: Default::default(),
                port: Default::default(),
                security_protocol: Default::default(),
            }
        }
    }

    impl BrokerEndpoint {
        pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
            let _ = version;
            let mut value = Self::default();
            value.name = r.string()?;
            value.host = r.string()?;
            value.port = r.uint16()?;
            value.security_protocol = r.int16()?;
            r.tags(|_, _| Ok(false))?;
            Ok(value)
        }

        pub(crate) fn write(&self, w: &mut Writer, version: i16) {
            let _ = version;
            w.string(&self.name);
            w.string(&self.host);
            w.uint16(self.port);
            w.int16(self.security_protocol);
            w.tags(Tags::default());
        }
    }

    /// An element of `Features`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct BrokerFeature {
        /// `Name`.
        pub name: String,
        /// `MinSupportedVersion`.
        pub min_supported_version: i16,
        /// `MaxSupportedVersion`.
        pub max_supported_version: i16,
    }

    impl Default for BrokerFeature {
        fn default() -> Self {
            Self {
                name: Default::default(),
                min_supported_version: Default::default(),
                max_supported_version: Default::default(),
            }
        }
    }

    impl BrokerFeature {
        pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
            let _ = version;
            let mut value = Self::default();
            value.name = r.string()?;
            value.min_supported_version = r.int16()?;
            value.max_supported_version = r.int16()?;
            r.tags(|_, _| Ok(false))?;
            Ok(value)
        }

        pub(crate) fn write(&self, w: &mut Writer, version: i16) {
            let _ = version;
            w.string(&self.name);
            w.int16(self.min_supported_version);
            w.int16(self.max_supported_version);
            w.tags(Tags::default());
        }
    }
}

/// `UnregisterBrokerRecord`, type 1, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct UnregisterBrokerRecord {
    /// `BrokerId`.
    pub broker_id: i32,
    /// `BrokerEpoch`.
    pub broker_epoch: i64,
}

impl Default for UnregisterBrokerRecord {
    fn default() -> Self {
        Self { broker_id: Default::default(), broker_epoch: Default::default() }
    }
}

impl UnregisterBrokerRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.broker_id = r.int32()?;
        value.broker_epoch = r.int64()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.broker_id);
        w.int64(self.broker_epoch);
        w.tags(Tags::default());
    }
}

/// `TopicRecord`, type 2, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct TopicRecord {
    /// `Name`.
    pub name: String,
    /// `TopicId`.
    pub topic_id: Uuid,
}

impl Default for TopicRecord {
    fn default() -> Self {
        Self { name: Default::default(), topic_id: Default::default() }
    }
}

impl TopicRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.name = r.string()?;
        value.topic_id = r.uuid()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.string(&self.name);
        w.uuid(self.topic_id);
        w.tags(Tags::default());
    }
}

/// `PartitionRecord`, type 3, versions 0-2.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionRecord {
    /// `PartitionId`.
    pub partition_id: i32,
    /// `TopicId`.
    pub topic_id: Uuid,
    /// `Replicas`.
    pub replicas: Vec<i32>,
    /// `Isr`.
    pub isr: Vec<i32>,
    /// `RemovingReplicas`.
    pub removing_replicas: Vec<i32>,
    /// `AddingReplicas`.
    pub adding_replicas: Vec<i32>,
    /// `Leader`.
    pub leader: i32,
    /// `LeaderRecoveryState`.
    pub leader_recovery_state: i8,
    /// `LeaderEpoch`.
    pub leader_epoch: i32,
    /// `PartitionEpoch`.
    pub partition_epoch: i32,
    /// `Directories`, from version 1.
    pub directories: Vec<Uuid>,
    /// `EligibleLeaderReplicas`, from version 2.
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// `LastKnownElr`, from version 2.
    pub last_known_elr: Option<Vec<i32>>,
}

impl Default for PartitionRecord {
    fn default() -> Self {
        Self {
            partition_id: -1,
            topic_id: Default::default(),
            replicas: Default::default(),
            isr: Default::default(),
            removing_replicas: Default::default(),
            adding_replicas: Default::default(),
            leader: -1,
            leader_recovery_state: 0,
            leader_epoch: -1,
            partition_epoch: -1,
            directories: Default::default(),
            eligible_leader_replicas: None,
            last_known_elr: None,
        }
    }
}

impl PartitionRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.partition_id = r.int32()?;
        value.topic_id = r.uuid()?;
        value.replicas = r.array(|r| r.int32())?;
        value.isr = r.array(|r| r.int32())?;
        value.removing_replicas = r.array(|r| r.int32())?;
        value.adding_replicas = r.array(|r| r.int32())?;
        value.leader = r.int32()?;
        value.leader_epoch = r.int32()?;
        value.partition_epoch = r.int32()?;
        if version >= 1 {
            value.directories = r.array(|r| r.uuid())?;
        }
        r.tags(|tag, r| {
            match tag {
                0 => value.leader_recovery_state = r.int8()?,
                1 if version >= 2 => {
                    value.eligible_leader_replicas = r.nullable_array(|r| r.int32())?
                }
                2 if version >= 2 => value.last_known_elr = r.nullable_array(|r| r.int32())?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.partition_id);
        w.uuid(self.topic_id);
        w.array(&self.replicas, |w, item| w.int32(*item));
        w.array(&self.isr, |w, item| w.int32(*item));
        w.array(&self.removing_replicas, |w, item| w.int32(*item));
        w.array(&self.adding_replicas, |w, item| w.int32(*item));
        w.int32(self.leader);
        w.int32(self.leader_epoch);
        w.int32(self.partition_epoch);
        if version >= 1 {
            w.array(&self.directories, |w, item| w.uuid(*item));
        }
        let default = Self::default();
        let mut tags = Tags::default();
        if self.leader_recovery_state != default.leader_recovery_state {
            tags.put(0, |w| w.int8(self.leader_recovery_state));
        }
        if version >= 2 && self.eligible_leader_replicas != default.eligible_leader_replicas {
            tags.put(1, |w| {
                w.nullable_array(self.eligible_leader_replicas.as_deref(), |w, item| w.int32(*item))
            });
        }
        if version >= 2 && self.last_known_elr != default.last_known_elr {
            tags.put(2, |w| {
                w.nullable_array(self.last_known_elr.as_deref(), |w, item| w.int32(*item))
            });
        }
        w.tags(tags);
    }
}

/// `ConfigRecord`, type 4, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigRecord {
    /// `ResourceType`.
    pub resource_type: i8,
    /// `ResourceName`.
    pub resource_name: String,
    /// `Name`.
    pub name: String,
    /// `Value`.
    pub value: Option<String>,
}

impl Default for ConfigRecord {
    fn default() -> Self {
        Self {
            resource_type: Default::default(),
            resource_name: Default::default(),
            name: Default::default(),
            value: None,
        }
    }
}

impl ConfigRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.resource_type = r.int8()?;
        value.resource_name = r.string()?;
        value.name = r.string()?;
        value.value = r.nullable_string()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int8(self.resource_type);
        w.string(&self.resource_name);
        w.string(&self.name);
        w.nullable_string(self.value.as_deref());
        w.tags(Tags::default());
    }
}

/// `PartitionChangeRecord`, type 5, versions 0-2.
#[derive(Clone, PartialEq, Debug)]
pub struct PartitionChangeRecord {
    /// `PartitionId`.
    pub partition_id: i32,
    /// `TopicId`.
    pub topic_id: Uuid,
    /// `Isr`.
    pub isr: Option<Vec<i32>>,
    /// `Leader`.
    pub leader: i32,
    /// `Replicas`.
    pub replicas: Option<Vec<i32>>,
    /// `RemovingReplicas`.
    pub removing_replicas: Option<Vec<i32>>,
    /// `AddingReplicas`.
    pub adding_replicas: Option<Vec<i32>>,
    /// `LeaderRecoveryState`.
    pub leader_recovery_state: i8,
    /// `Directories`, from version 1.
    pub directories: Option<Vec<Uuid>>,
    /// `EligibleLeaderReplicas`, from version 2.
    pub eligible_leader_replicas: Option<Vec<i32>>,
    /// `LastKnownElr`, from version 2.
    pub last_known_elr: Option<Vec<i32>>,
}

impl Default for PartitionChangeRecord {
    fn default() -> Self {
        Self {
            partition_id: -1,
            topic_id: Default::default(),
            isr: None,
            leader: -2,
            replicas: None,
            removing_replicas: None,
            adding_replicas: None,
            leader_recovery_state: -1,
            directories: None,
            eligible_leader_replicas: None,
            last_known_elr: None,
        }
    }
}

impl PartitionChangeRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.partition_id = r.int32()?;
        value.topic_id = r.uuid()?;
        r.tags(|tag, r| {
            match tag {
                0 => value.isr = r.nullable_array(|r| r.int32())?,
                1 => value.leader = r.int32()?,
                2 => value.replicas = r.nullable_array(|r| r.int32())?,
                3 => value.removing_replicas = r.nullable_array(|r| r.int32())?,
                4 => value.adding_replicas = r.nullable_array(|r| r.int32())?,
                5 => value.leader_recovery_state = r.int8()?,
                8 if version >= 1 => value.directories = r.nullable_array(|r| r.uuid())?,
                6 if version >= 2 => {
                    value.eligible_leader_replicas = r.nullable_array(|r| r.int32())?
                }
                7 if version >= 2 => value.last_known_elr = r.nullable_array(|r| r.int32())?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.partition_id);
        w.uuid(self.topic_id);
        let default = Self::default();
        let mut tags = Tags::default();
        if self.isr != default.isr {
            tags.put(0, |w| w.nullable_array(self.isr.as_deref(), |w, item| w.int32(*item)));
        }
        if self.leader != default.leader {
            tags.put(1, |w| w.int32(self.leader));
        }
        if self.replicas != default.replicas {
            tags.put(2, |w| w.nullable_array(self.replicas.as_deref(), |w, item| w.int32(*item)));
        }
        if self.removing_replicas != default.removing_replicas {
            tags.put(3, |w| {
                w.nullable_array(self.removing_replicas.as_deref(), |w, item| w.int32(*item))
            });
        }
        if self.adding_replicas != default.adding_replicas {
            tags.put(4, |w| {
                w.nullable_array(self.adding_replicas.as_deref(), |w, item| w.int32(*item))
            });
        }
        if self.leader_recovery_state != default.leader_recovery_state {
            tags.put(5, |w| w.int8(self.leader_recovery_state));
        }
        if version >= 2 && self.eligible_leader_replicas != default.eligible_leader_replicas {
            tags.put(6, |w| {
                w.nullable_array(self.eligible_leader_replicas.as_deref(), |w, item| w.int32(*item))
            });
        }
        if version >= 2 && self.last_known_elr != default.last_known_elr {
            tags.put(7, |w| {
                w.nullable_array(self.last_known_elr.as_deref(), |w, item| w.int32(*item))
            });
        }
        if version >= 1 && self.directories != default.directories {
            tags.put(8, |w| w.nullable_array(self.directories.as_deref(), |w, item| w.uuid(*item)));
        }
        w.tags(tags);
    }
}

/// `FenceBrokerRecord`, type 7, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct FenceBrokerRecord {
    /// `Id`.
    pub id: i32,
    /// `Epoch`.
    pub epoch: i64,
}

impl Default for FenceBrokerRecord {
    fn default() -> Self {
        Self { id: Default::default(), epoch: Default::default() }
    }
}

impl FenceBrokerRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.id = r.int32()?;
        value.epoch = r.int64()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.id);
        w.int64(self.epoch);
        w.tags(Tags::default());
    }
}

/// `UnfenceBrokerRecord`, type 8, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct UnfenceBrokerRecord {
    /// `Id`.
    pub id: i32,
    /// `Epoch`.
    pub epoch: i64,
}

impl Default for UnfenceBrokerRecord {
    fn default() -> Self {
        Self { id: Default::default(), epoch: Default::default() }
    }
}

impl UnfenceBrokerRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.id = r.int32()?;
        value.epoch = r.int64()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.id);
        w.int64(self.epoch);
        w.tags(Tags::default());
    }
}

/// `RemoveTopicRecord`, type 9, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoveTopicRecord {
    /// `TopicId`.
    pub topic_id: Uuid,
}

impl Default for RemoveTopicRecord {
    fn default() -> Self {
        Self { topic_id: Default::default() }
    }
}

impl RemoveTopicRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.topic_id = r.uuid()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.uuid(self.topic_id);
        w.tags(Tags::default());
    }
}

/// `DelegationTokenRecord`, type 10, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct DelegationTokenRecord {
    /// `Owner`.
    pub owner: String,
    /// `Requester`.
    pub requester: String,
    /// `Renewers`.
    pub renewers: Vec<String>,
    /// `IssueTimestamp`.
    pub issue_timestamp: i64,
    /// `MaxTimestamp`.
    pub max_timestamp: i64,
    /// `ExpirationTimestamp`.
    pub expiration_timestamp: i64,
    /// `TokenId`.
    pub token_id: String,
}

impl Default for DelegationTokenRecord {
    fn default() -> Self {
        Self {
            owner: Default::default(),
            requester: Default::default(),
            renewers: Default::default(),
            issue_timestamp: Default::default(),
            max_timestamp: Default::default(),
            expiration_timestamp: Default::default(),
            token_id: Default::default(),
        }
    }
}

impl DelegationTokenRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.owner = r.string()?;
        value.requester = r.string()?;
        value.renewers = r.array(|r| r.string())?;
        value.issue_timestamp = r.int64()?;
        value.max_timestamp = r.int64()?;
        value.expiration_timestamp = r.int64()?;
        value.token_id = r.string()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.string(&self.owner);
        w.string(&self.requester);
        w.array(&self.renewers, |w, item| w.string(item));
        w.int64(self.issue_timestamp);
        w.int64(self.max_timestamp);
        w.int64(self.expiration_timestamp);
        w.string(&self.token_id);
        w.tags(Tags::default());
    }
}

/// `UserScramCredentialRecord`, type 11, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct UserScramCredentialRecord {
    /// `Name`.
    pub name: String,
    /// `Mechanism`.
    pub mechanism: i8,
    /// `Salt`.
    pub salt: Bytes,
    /// `StoredKey`.
    pub stored_key: Bytes,
    /// `ServerKey`.
    pub server_key: Bytes,
    /// `Iterations`.
    pub iterations: i32,
}

impl Default for UserScramCredentialRecord {
    fn default() -> Self {
        Self {
            name: Default::default(),
            mechanism: Default::default(),
            salt: Default::default(),
            stored_key: Default::default(),
            server_key: Default::default(),
            iterations: Default::default(),
        }
    }
}

impl UserScramCredentialRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.name = r.string()?;
        value.mechanism = r.int8()?;
        value.salt = r.bytes()?;
        value.stored_key = r.bytes()?;
        value.server_key = r.bytes()?;
        value.iterations = r.int32()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.string(&self.name);
        w.int8(self.mechanism);
        w.bytes(&self.salt);
        w.bytes(&self.stored_key);
        w.bytes(&self.server_key);
        w.int32(self.iterations);
        w.tags(Tags::default());
    }
}

/// `FeatureLevelRecord`, type 12, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct FeatureLevelRecord {
    /// `Name`.
    pub name: String,
    /// `FeatureLevel`.
    pub feature_level: i16,
}

impl Default for FeatureLevelRecord {
    fn default() -> Self {
        Self { name: Default::default(), feature_level: Default::default() }
    }
}

impl FeatureLevelRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.name = r.string()?;
        value.feature_level = r.int16()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.string(&self.name);
        w.int16(self.feature_level);
        w.tags(Tags::default());
    }
}

/// `ClientQuotaRecord`, type 14, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct ClientQuotaRecord {
    /// `Entity`.
    pub entity: Vec<client_quota_record::EntityData>,
    /// `Key`.
    pub key: String,
    /// `Value`.
    pub value: f64,
    /// `Remove`.
    pub remove: bool,
}

impl Default for ClientQuotaRecord {
    fn default() -> Self {
        Self {
            entity: Default::default(),
            key: Default::default(),
            value: Default::default(),
            remove: Default::default(),
        }
    }
}

impl ClientQuotaRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.entity = r.array(|r| client_quota_record::EntityData::read(r, version))?;
        value.key = r.string()?;
        value.value = r.float64()?;
        value.remove = r.bool()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.array(&self.entity, |w, item| item.write(w, version));
        w.string(&self.key);
        w.float64(self.value);
        w.bool(self.remove);
        w.tags(Tags::default());
    }
}

/// Parts of [`ClientQuotaRecord`].
pub mod client_quota_record {
    use super::*;

    /// An element of `Entity`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct EntityData {
        /// `EntityType`.
        pub entity_type: String,
        /// `EntityName`.
        pub entity_name: Option<String>,
    }

    impl Default for EntityData {
        fn default() -> Self {
            Self { entity_type: Default::default(), entity_name: None }
        }
    }

    impl EntityData {
        pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
            let _ = version;
            let mut value = Self::default();
            value.entity_type = r.string()?;
            value.entity_name = r.nullable_string()?;
            r.tags(|_, _| Ok(false))?;
            Ok(value)
        }

        pub(crate) fn write(&self, w: &mut Writer, version: i16) {
            let _ = version;
            w.string(&self.entity_type);
            w.nullable_string(self.entity_name.as_deref());
            w.tags(Tags::default());
        }
    }
}

/// `ProducerIdsRecord`, type 15, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct ProducerIdsRecord {
    /// `BrokerId`.
    pub broker_id: i32,
    /// `BrokerEpoch`.
    pub broker_epoch: i64,
    /// `NextProducerId`.
    pub next_producer_id: i64,
}

impl Default for ProducerIdsRecord {
    fn default() -> Self {
        Self {
            broker_id: Default::default(),
            broker_epoch: -1,
            next_producer_id: Default::default(),
        }
    }
}

impl ProducerIdsRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.broker_id = r.int32()?;
        value.broker_epoch = r.int64()?;
        value.next_producer_id = r.int64()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.broker_id);
        w.int64(self.broker_epoch);
        w.int64(self.next_producer_id);
        w.tags(Tags::default());
    }
}

/// `BrokerRegistrationChangeRecord`, type 17, versions 0-3.
#[derive(Clone, PartialEq, Debug)]
pub struct BrokerRegistrationChangeRecord {
    /// `BrokerId`.
    pub broker_id: i32,
    /// `BrokerEpoch`.
    pub broker_epoch: i64,
    /// `Fenced`.
    pub fenced: i8,
    /// `InControlledShutdown`, from version 1.
    pub in_controlled_shutdown: i8,
    /// `LogDirs`, from version 2.
    pub log_dirs: Vec<Uuid>,
    /// `CordonedLogDirs`, from version 3.
    pub cordoned_log_dirs: Option<Vec<Uuid>>,
}

impl Default for BrokerRegistrationChangeRecord {
    fn default() -> Self {
        Self {
            broker_id: Default::default(),
            broker_epoch: Default::default(),
            fenced: Default::default(),
            in_controlled_shutdown: Default::default(),
            log_dirs: Default::default(),
            cordoned_log_dirs: None,
        }
    }
}

impl BrokerRegistrationChangeRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.broker_id = r.int32()?;
        value.broker_epoch = r.int64()?;
        r.tags(|tag, r| {
            match tag {
                0 => value.fenced = r.int8()?,
                1 if version >= 1 => value.in_controlled_shutdown = r.int8()?,
                2 if version >= 2 => value.log_dirs = r.array(|r| r.uuid())?,
                3 if version >= 3 => value.cordoned_log_dirs = r.nullable_array(|r| r.uuid())?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.broker_id);
        w.int64(self.broker_epoch);
        let default = Self::default();
        let mut tags = Tags::default();
        if self.fenced != default.fenced {
            tags.put(0, |w| w.int8(self.fenced));
        }
        if version >= 1 && self.in_controlled_shutdown != default.in_controlled_shutdown {
            tags.put(1, |w| w.int8(self.in_controlled_shutdown));
        }
        if version >= 2 && self.log_dirs != default.log_dirs {
            tags.put(2, |w| w.array(&self.log_dirs, |w, item| w.uuid(*item)));
        }
        if version >= 3 && self.cordoned_log_dirs != default.cordoned_log_dirs {
            tags.put(3, |w| {
                w.nullable_array(self.cordoned_log_dirs.as_deref(), |w, item| w.uuid(*item))
            });
        }
        w.tags(tags);
    }
}

/// `AccessControlEntryRecord`, type 18, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct AccessControlEntryRecord {
    /// `Id`.
    pub id: Uuid,
    /// `ResourceType`.
    pub resource_type: i8,
    /// `ResourceName`.
    pub resource_name: String,
    /// `PatternType`.
    pub pattern_type: i8,
    /// `Principal`.
    pub principal: String,
    /// `Host`.
    pub host: String,
    /// `Operation`.
    pub operation: i8,
    /// `PermissionType`.
    pub permission_type: i8,
}

impl Default for AccessControlEntryRecord {
    fn default() -> Self {
        Self {
            id: Default::default(),
            resource_type: Default::default(),
            resource_name: Default::default(),
            pattern_type: Default::default(),
            principal: Default::default(),
            host: Default::default(),
            operation: Default::default(),
            permission_type: Default::default(),
        }
    }
}

impl AccessControlEntryRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.id = r.uuid()?;
        value.resource_type = r.int8()?;
        value.resource_name = r.string()?;
        value.pattern_type = r.int8()?;
        value.principal = r.string()?;
        value.host = r.string()?;
        value.operation = r.int8()?;
        value.permission_type = r.int8()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.uuid(self.id);
        w.int8(self.resource_type);
        w.string(&self.resource_name);
        w.int8(self.pattern_type);
        w.string(&self.principal);
        w.string(&self.host);
        w.int8(self.operation);
        w.int8(self.permission_type);
        w.tags(Tags::default());
    }
}

/// `RemoveAccessControlEntryRecord`, type 19, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoveAccessControlEntryRecord {
    /// `Id`.
    pub id: Uuid,
}

impl Default for RemoveAccessControlEntryRecord {
    fn default() -> Self {
        Self { id: Default::default() }
    }
}

impl RemoveAccessControlEntryRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.id = r.uuid()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.uuid(self.id);
        w.tags(Tags::default());
    }
}

/// `NoOpRecord`, type 20, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct NoOpRecord {}

impl Default for NoOpRecord {
    fn default() -> Self {
        Self {}
    }
}

impl NoOpRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let value = Self::default();
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.tags(Tags::default());
    }
}

/// `ZkMigrationStateRecord`, type 21, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct ZkMigrationStateRecord {
    /// `ZkMigrationState`.
    pub zk_migration_state: i8,
}

impl Default for ZkMigrationStateRecord {
    fn default() -> Self {
        Self { zk_migration_state: Default::default() }
    }
}

impl ZkMigrationStateRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.zk_migration_state = r.int8()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int8(self.zk_migration_state);
        w.tags(Tags::default());
    }
}

/// `RemoveUserScramCredentialRecord`, type 22, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoveUserScramCredentialRecord {
    /// `Name`.
    pub name: String,
    /// `Mechanism`.
    pub mechanism: i8,
}

impl Default for RemoveUserScramCredentialRecord {
    fn default() -> Self {
        Self { name: Default::default(), mechanism: Default::default() }
    }
}

impl RemoveUserScramCredentialRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.name = r.string()?;
        value.mechanism = r.int8()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.string(&self.name);
        w.int8(self.mechanism);
        w.tags(Tags::default());
    }
}

/// `BeginTransactionRecord`, type 23, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct BeginTransactionRecord {
    /// `Name`.
    pub name: Option<String>,
}

impl Default for BeginTransactionRecord {
    fn default() -> Self {
        Self { name: None }
    }
}

impl BeginTransactionRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        r.tags(|tag, r| {
            match tag {
                0 => value.name = r.nullable_string()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        let default = Self::default();
        let mut tags = Tags::default();
        if self.name != default.name {
            tags.put(0, |w| w.nullable_string(self.name.as_deref()));
        }
        w.tags(tags);
    }
}

/// `EndTransactionRecord`, type 24, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct EndTransactionRecord {}

impl Default for EndTransactionRecord {
    fn default() -> Self {
        Self {}
    }
}

impl EndTransactionRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let value = Self::default();
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.tags(Tags::default());
    }
}

/// `AbortTransactionRecord`, type 25, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct AbortTransactionRecord {
    /// `Reason`.
    pub reason: Option<String>,
}

impl Default for AbortTransactionRecord {
    fn default() -> Self {
        Self { reason: None }
    }
}

impl AbortTransactionRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        r.tags(|tag, r| {
            match tag {
                0 => value.reason = r.nullable_string()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        let default = Self::default();
        let mut tags = Tags::default();
        if self.reason != default.reason {
            tags.put(0, |w| w.nullable_string(self.reason.as_deref()));
        }
        w.tags(tags);
    }
}

/// `RemoveDelegationTokenRecord`, type 26, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoveDelegationTokenRecord {
    /// `TokenId`.
    pub token_id: String,
}

impl Default for RemoveDelegationTokenRecord {
    fn default() -> Self {
        Self { token_id: Default::default() }
    }
}

impl RemoveDelegationTokenRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.token_id = r.string()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.string(&self.token_id);
        w.tags(Tags::default());
    }
}

/// `RegisterControllerRecord`, type 27, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct RegisterControllerRecord {
    /// `ControllerId`.
    pub controller_id: i32,
    /// `IncarnationId`.
    pub incarnation_id: Uuid,
    /// `ZkMigrationReady`.
    pub zk_migration_ready: bool,
    /// `EndPoints`.
    pub end_points: Vec<register_controller_record::ControllerEndpoint>,
    /// `Features`.
    pub features: Vec<register_controller_record::ControllerFeature>,
}

impl Default for RegisterControllerRecord {
    fn default() -> Self {
        Self {
            controller_id: Default::default(),
            incarnation_id: Default::default(),
            zk_migration_ready: Default::default(),
            end_points: Default::default(),
            features: Default::default(),
        }
    }
}

impl RegisterControllerRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.controller_id = r.int32()?;
        value.incarnation_id = r.uuid()?;
        value.zk_migration_ready = r.bool()?;
        value.end_points =
            r.array(|r| register_controller_record::ControllerEndpoint::read(r, version))?;
        value.features =
            r.array(|r| register_controller_record::ControllerFeature::read(r, version))?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.controller_id);
        w.uuid(self.incarnation_id);
        w.bool(self.zk_migration_ready);
        w.array(&self.end_points, |w, item| item.write(w, version));
        w.array(&self.features, |w, item| item.write(w, version));
        w.tags(Tags::default());
    }
}

/// Parts of [`RegisterControllerRecord`].
pub mod register_controller_record {
    use super::*;

    /// An element of `EndPoints`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct ControllerEndpoint {
        /// `Name`.
        pub name: String,
        /// `Host`.
        pub host: String,
        /// `Port`.
        pub port: u16,
        /// `SecurityProtocol`.
        pub security_protocol: i16,
    }

    impl Default for ControllerEndpoint {
        fn default() -> Self {
            Self {
                name: Default::default(),
                host: Default::default(),
                port: Default::default(),
                security_protocol: Default::default(),
            }
        }
    }

    impl ControllerEndpoint {
        pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
            let _ = version;
            let mut value = Self::default();
            value.name = r.string()?;
            value.host = r.string()?;
            value.port = r.uint16()?;
            value.security_protocol = r.int16()?;
            r.tags(|_, _| Ok(false))?;
            Ok(value)
        }

        pub(crate) fn write(&self, w: &mut Writer, version: i16) {
            let _ = version;
            w.string(&self.name);
            w.string(&self.host);
            w.uint16(self.port);
            w.int16(self.security_protocol);
            w.tags(Tags::default());
        }
    }

    /// An element of `Features`.
    #[derive(Clone, PartialEq, Debug)]
    pub struct ControllerFeature {
        /// `Name`.
        pub name: String,
        /// `MinSupportedVersion`.
        pub min_supported_version: i16,
        /// `MaxSupportedVersion`.
        pub max_supported_version: i16,
    }

    impl Default for ControllerFeature {
        fn default() -> Self {
            Self {
                name: Default::default(),
                min_supported_version: Default::default(),
                max_supported_version: Default::default(),
            }
        }
    }

    impl ControllerFeature {
        pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
            let _ = version;
            let mut value = Self::default();
            value.name = r.string()?;
            value.min_supported_version = r.int16()?;
            value.max_supported_version = r.int16()?;
            r.tags(|_, _| Ok(false))?;
            Ok(value)
        }

        pub(crate) fn write(&self, w: &mut Writer, version: i16) {
            let _ = version;
            w.string(&self.name);
            w.int16(self.min_supported_version);
            w.int16(self.max_supported_version);
            w.tags(Tags::default());
        }
    }
}

/// `ClearElrRecord`, type 28, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct ClearElrRecord {
    /// `TopicName`.
    pub topic_name: String,
}

impl Default for ClearElrRecord {
    fn default() -> Self {
        Self { topic_name: Default::default() }
    }
}

impl ClearElrRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.topic_name = r.string()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.string(&self.topic_name);
        w.tags(Tags::default());
    }
}

/// `UnregisterControllerRecord`, type 29, versions 0.
#[derive(Clone, PartialEq, Debug)]
pub struct UnregisterControllerRecord {
    /// `ControllerId`.
    pub controller_id: i32,
}

impl Default for UnregisterControllerRecord {
    fn default() -> Self {
        Self { controller_id: Default::default() }
    }
}

impl UnregisterControllerRecord {
    pub(crate) fn read(r: &mut Reader<'_>, version: i16) -> Result<Self, RecordError> {
        let _ = version;
        let mut value = Self::default();
        value.controller_id = r.int32()?;
        r.tags(|_, _| Ok(false))?;
        Ok(value)
    }

    pub(crate) fn write(&self, w: &mut Writer, version: i16) {
        let _ = version;
        w.int32(self.controller_id);
        w.tags(Tags::default());
    }
}
