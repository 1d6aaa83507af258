//! Config overrides that live in the metadata log.

use std::sync::Arc;

use imbl::OrdMap;

/// What a config override belongs to. Ordered by type number, then name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConfigResource {
    /// The wire's number of the resource type.
    pub kind: ConfigResourceKind,
    /// Topic, group or subscription name, broker id in decimal; empty for the cluster-wide broker default.
    pub name: Arc<str>,
}

/// Types of config resources that metadata can hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i8)]
pub enum ConfigResourceKind {
    /// A topic.
    Topic = 2,
    /// A broker, or all brokers when the name is empty.
    Broker = 4,
    /// A client metrics subscription (KIP-714).
    ClientMetrics = 16,
    /// A group (KIP-848).
    Group = 32,
}

impl ConfigResourceKind {
    /// The kind with this number on the wire.
    #[must_use]
    pub fn from_wire(kind: i8) -> Option<Self> {
        match kind {
            2 => Some(Self::Topic),
            4 => Some(Self::Broker),
            16 => Some(Self::ClientMetrics),
            32 => Some(Self::Group),
            _ => None,
        }
    }
}

impl ConfigResource {
    /// A topic's configs.
    #[must_use]
    pub fn topic(name: &str) -> Self {
        Self { kind: ConfigResourceKind::Topic, name: name.into() }
    }

    /// One broker's configs.
    #[must_use]
    pub fn broker(id: protocol_compat::ids::BrokerId) -> Self {
        Self { kind: ConfigResourceKind::Broker, name: id.to_string().into() }
    }

    /// The configs of all brokers (`--entity-default`).
    #[must_use]
    pub fn broker_default() -> Self {
        Self { kind: ConfigResourceKind::Broker, name: "".into() }
    }
}

/// Overrides of one resource: name to value, in order of names.
pub type ConfigMap = OrdMap<Arc<str>, Arc<str>>;

/// All config overrides.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConfigsImage {
    pub(crate) resources: OrdMap<ConfigResource, ConfigMap>,
}

impl ConfigsImage {
    /// Overrides of one resource, if it has any.
    #[must_use]
    pub fn of(&self, resource: &ConfigResource) -> Option<&ConfigMap> {
        self.resources.get(resource)
    }

    /// One override of one resource.
    #[must_use]
    pub fn get(&self, resource: &ConfigResource, name: &str) -> Option<&Arc<str>> {
        self.resources.get(resource)?.get(name)
    }

    /// Overrides of a topic, if it has any.
    #[must_use]
    pub fn of_topic(&self, topic: &str) -> Option<&ConfigMap> {
        self.of(&ConfigResource::topic(topic))
    }

    /// Resources that have overrides, ordered.
    pub fn iter(&self) -> impl Iterator<Item = (&ConfigResource, &ConfigMap)> {
        self.resources.iter()
    }
}
