//! What changed between two images: names and ids only, the content is read from the new image (or, for
//! what is gone, from the delta itself).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_compat::ids::{BrokerId, PartitionIndex, TopicId};

use super::configs::ConfigResource;
use super::topics::TopicImage;

/// Changes since the image that was published before.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetadataDelta {
    /// Topics that exist now and did not before.
    pub created_topics: BTreeSet<TopicId>,
    /// Topics that existed before and do not now, as they were.
    pub deleted_topics: BTreeMap<TopicId, Arc<TopicImage>>,
    /// Partitions that are new or differ, by topic; of created topics all partitions. Deleted ones are not here.
    pub changed_partitions: BTreeMap<TopicId, BTreeSet<PartitionIndex>>,
    /// Resources whose overrides differ, those that have none any more included.
    pub changed_configs: BTreeSet<ConfigResource>,
    /// Brokers registered, unregistered, fenced, unfenced or otherwise changed.
    pub changed_brokers: BTreeSet<BrokerId>,
    /// Controllers registered, unregistered or changed.
    pub changed_controllers: BTreeSet<BrokerId>,
    /// Whether a finalised feature level changed.
    pub features_changed: bool,
    /// Whether a block of producer ids was handed out.
    pub producer_ids_changed: bool,
    /// Whether quotas changed.
    pub client_quotas_changed: bool,
    /// Whether access control entries changed.
    pub acls_changed: bool,
    /// Whether SCRAM credentials changed.
    pub scram_changed: bool,
    /// Whether delegation tokens changed.
    pub delegation_tokens_changed: bool,
    /// Whether the image was loaded from the start (a snapshot or the whole log): everything counts as new.
    pub from_start: bool,
}

impl MetadataDelta {
    /// Whether nothing but the offset moved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
