//! Registered brokers and controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;
use protocol_compat::ids::{BrokerEpoch, BrokerId, DirectoryId, Uuid};

/// One advertised listener of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Listener name, as in `listeners`.
    pub name: String,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: u16,
    /// Security protocol id: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// Inclusive range of levels that a node supports of one feature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SupportedLevels {
    /// Lowest.
    pub min: i16,
    /// Highest.
    pub max: i16,
}

/// What the cluster knows of one broker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BrokerRegistration {
    /// `node.id`.
    pub id: BrokerId,
    /// Offset of the registration: names this incarnation.
    pub epoch: BrokerEpoch,
    /// Chosen at random by each start of the process.
    pub incarnation_id: Uuid,
    /// Advertised listeners, in the order of registration.
    pub endpoints: Vec<Endpoint>,
    /// Feature levels the broker supports.
    pub features: BTreeMap<String, SupportedLevels>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Whether it may not lead and is hidden from clients.
    pub fenced: bool,
    /// Whether it asked to shut down.
    pub in_controlled_shutdown: bool,
    /// Whether it registered in the ZooKeeper migration mode of old releases.
    pub is_migrating_zk_broker: bool,
    /// Its online log directories, sorted.
    pub log_dirs: Vec<DirectoryId>,
    /// Log directories that take no new partitions; `None` before metadata.version 30.
    pub cordoned_log_dirs: Option<Vec<DirectoryId>>,
}

impl BrokerRegistration {
    /// The endpoint of one listener.
    #[must_use]
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.name == listener)
    }

    /// Whether partitions may be led here: neither fenced nor about to stop.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }
}

/// What the cluster knows of one controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControllerRegistration {
    /// `node.id`.
    pub id: BrokerId,
    /// Chosen at random by each start of the process.
    pub incarnation_id: Uuid,
    /// Kept only because the record has it.
    pub zk_migration_ready: bool,
    /// Advertised controller listeners.
    pub endpoints: Vec<Endpoint>,
    /// Feature levels the controller supports.
    pub features: BTreeMap<String, SupportedLevels>,
}

/// All registered nodes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClusterImage {
    pub(crate) brokers: OrdMap<BrokerId, Arc<BrokerRegistration>>,
    pub(crate) controllers: OrdMap<BrokerId, Arc<ControllerRegistration>>,
}

impl ClusterImage {
    /// One broker, fenced or not.
    #[must_use]
    pub fn broker(&self, id: BrokerId) -> Option<&BrokerRegistration> {
        self.brokers.get(&id).map(AsRef::as_ref)
    }

    /// Brokers in order of their ids.
    pub fn brokers(&self) -> impl Iterator<Item = &BrokerRegistration> {
        self.brokers.values().map(AsRef::as_ref)
    }

    /// One controller.
    #[must_use]
    pub fn controller(&self, id: BrokerId) -> Option<&ControllerRegistration> {
        self.controllers.get(&id).map(AsRef::as_ref)
    }

    /// Controllers in order of their ids.
    pub fn controllers(&self) -> impl Iterator<Item = &ControllerRegistration> {
        self.controllers.values().map(AsRef::as_ref)
    }
}
