//! The state of the cluster as the metadata log tells it: immutable, cheap to clone, shared by all threads.
//!
//! Only [`replay`] changes an image (a fresh clone of one); everyone else reads. Maps are persistent trees in
//! key order, so that a clone costs a few reference counts and iteration is the same on every run.

pub mod cluster;
pub mod configs;
pub mod delta;
pub mod features;
pub mod replay;
pub mod security;
pub mod snapshot_io;
pub mod topics;

use protocol_compat::ids::{BrokerId, LeaderEpoch, Offset, ProducerId};

pub use cluster::{BrokerRegistration, ClusterImage, ControllerRegistration, Endpoint};
pub use configs::{ConfigResource, ConfigsImage};
pub use delta::MetadataDelta;
pub use features::FeaturesImage;
pub use security::{AclImage, ClientQuotasImage, DelegationTokenImage, ScramImage};
pub use topics::{PartitionImage, TopicImage, TopicsImage};

/// Where in the metadata log an image stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The last record that is part of the image; -1 before the first.
    pub offset: Offset,
    /// The quorum's epoch of that record.
    pub epoch: LeaderEpoch,
    /// Its append time in milliseconds; -1 before the first.
    pub timestamp_ms: i64,
}

impl Default for Provenance {
    fn default() -> Self {
        Self { offset: Offset(-1), epoch: LeaderEpoch(0), timestamp_ms: -1 }
    }
}

/// All cluster metadata at one offset of the metadata log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetadataImage {
    pub(crate) provenance: Provenance,
    pub(crate) features: FeaturesImage,
    pub(crate) cluster: ClusterImage,
    pub(crate) topics: TopicsImage,
    pub(crate) configs: ConfigsImage,
    pub(crate) client_quotas: ClientQuotasImage,
    pub(crate) next_producer_id: Option<ProducerId>,
    pub(crate) acls: AclImage,
    pub(crate) scram: ScramImage,
    pub(crate) delegation_tokens: DelegationTokenImage,
    /// Whether a metadata transaction is open: its records are applied to no published image yet.
    pub(crate) in_transaction: bool,
}

impl MetadataImage {
    /// The last metadata offset contained; -1 for an empty image.
    #[must_use]
    pub fn offset(&self) -> Offset {
        self.provenance.offset
    }

    /// Offset, epoch and time of the last record contained.
    #[must_use]
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// Finalised feature levels.
    #[must_use]
    pub fn features(&self) -> &FeaturesImage {
        &self.features
    }

    /// Registered brokers and controllers.
    #[must_use]
    pub fn cluster(&self) -> &ClusterImage {
        &self.cluster
    }

    /// One broker's registration, fenced or not.
    #[must_use]
    pub fn broker(&self, id: BrokerId) -> Option<&BrokerRegistration> {
        self.cluster.broker(id)
    }

    /// Registered brokers in order of their ids, fenced ones included.
    pub fn brokers(&self) -> impl Iterator<Item = &BrokerRegistration> {
        self.cluster.brokers()
    }

    /// Topics and partitions.
    #[must_use]
    pub fn topics(&self) -> &TopicsImage {
        &self.topics
    }

    /// Overrides of topic, broker, group and client-metrics configs.
    #[must_use]
    pub fn configs(&self) -> &ConfigsImage {
        &self.configs
    }

    /// Client and ip quotas.
    #[must_use]
    pub fn client_quotas(&self) -> &ClientQuotasImage {
        &self.client_quotas
    }

    /// The first producer id that no block contains yet; `None` before the first block.
    #[must_use]
    pub fn next_producer_id(&self) -> Option<ProducerId> {
        self.next_producer_id
    }

    /// Access control entries.
    #[must_use]
    pub fn acls(&self) -> &AclImage {
        &self.acls
    }

    /// SCRAM credentials.
    #[must_use]
    pub fn scram(&self) -> &ScramImage {
        &self.scram
    }

    /// Delegation tokens.
    #[must_use]
    pub fn delegation_tokens(&self) -> &DelegationTokenImage {
        &self.delegation_tokens
    }
}
