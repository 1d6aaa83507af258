//! Decisions: read the image, give records and an answer. Nothing here changes state or does IO.
//!
//! Error codes and texts are those of Apache Kafka 4.4.0's controller (observed where the source left doubt).

pub mod activation;
pub(crate) mod brokers;
pub(crate) mod configs;
pub(crate) mod directories;
pub mod names;
pub(crate) mod partition_change;
pub(crate) mod partitions;
pub(crate) mod placement;
pub(crate) mod producer_ids;
#[cfg(test)]
pub(crate) mod testkit;
pub(crate) mod topics;

use std::collections::BTreeMap;

use crate::records::metadata::MetadataRecord;
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ids::{BrokerId, DirectoryId, Uuid};

use crate::image::topics::{DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED};
use crate::image::{ConfigResource, MetadataImage};

/// The feature that keeps former ISR members eligible (KIP-966).
const ELR_FEATURE: &str = "eligible.leader.replicas.version";

/// What does not change while the process runs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) node_id: BrokerId,
    pub(crate) cluster_id: String,
    /// `server.properties`: defaults of topics.
    pub(crate) static_configs: BTreeMap<String, String>,
}

impl Settings {
    /// A number of `server.properties`, or its default.
    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        self.static_configs.get(name).and_then(|text| text.trim().parse().ok()).unwrap_or(default)
    }

    /// A switch of `server.properties`, or its default.
    fn switch(&self, name: &str, default: bool) -> bool {
        match self.static_configs.get(name) {
            Some(text) => text.trim().eq_ignore_ascii_case("true"),
            None => default,
        }
    }
}

/// What a decision reads.
pub(crate) struct Context<'a> {
    pub(crate) image: &'a MetadataImage,
    pub(crate) settings: &'a Settings,
    /// Offset that the first record of the decision gets.
    pub(crate) next_offset: i64,
    /// Makes random ids.
    pub(crate) new_id: &'a mut dyn FnMut() -> Uuid,
}

impl Context<'_> {
    fn elr_enabled(&self) -> bool {
        self.image.features().level(ELR_FEATURE) > 0
    }

    /// The overrides of a topic, then of this broker, of all brokers, `server.properties`, the default.
    fn topic_config(&self, topic: &str, name: &str) -> Option<String> {
        let def = crate::config_defs::find(crate::config_defs::TOPIC, name)?;
        if let Some(value) = self.image.configs().get(&ConfigResource::topic(topic), name) {
            return Some(value.to_string());
        }
        let node = ConfigResource::broker(self.settings.node_id);
        crate::config_defs::effective_topic_config(
            def,
            &BTreeMap::new(),
            self.image.configs(),
            &node,
            &self.settings.static_configs,
        )
        .0
    }

    fn min_isr(&self, topic: &str) -> usize {
        self.topic_config(topic, "min.insync.replicas")
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(1)
    }

    fn unclean_election(&self, topic: &str) -> bool {
        self.topic_config(topic, "unclean.leader.election.enable")
            .is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
    }

    /// Whether partitions may be led there.
    fn is_active(&self, id: BrokerId) -> bool {
        self.image.broker(id).is_some_and(crate::image::BrokerRegistration::is_active)
    }

    /// The directory of a new replica: known only where the broker has just one.
    fn default_directory(&self, id: BrokerId) -> DirectoryId {
        match self.image.broker(id).map(|broker| broker.log_dirs.as_slice()) {
            None | Some([]) => DIRECTORY_MIGRATING,
            Some([only]) => *only,
            Some(_) => DIRECTORY_UNASSIGNED,
        }
    }
}

/// Records to append as one atomic batch, and the answer to give once they are durable.
#[derive(Clone, Debug)]
pub(crate) struct Decision<R> {
    pub(crate) records: Vec<MetadataRecord>,
    pub(crate) response: R,
}

impl<R> Decision<R> {
    /// An answer that changes nothing.
    pub(crate) fn answer(response: R) -> Self {
        Self { records: Vec::new(), response }
    }
}

/// Kafka's text form for the wire.
pub(crate) fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}

/// Kafka's own text of UNKNOWN_TOPIC_OR_PARTITION.
pub(crate) const UNKNOWN_TOPIC_TEXT: &str = "This server does not host this topic-partition.";
/// Kafka's own text of UNKNOWN_TOPIC_ID.
pub(crate) const UNKNOWN_TOPIC_ID_TEXT: &str = "This server does not host this topic ID.";
