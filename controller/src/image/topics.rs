//! Topics and their partitions.

use std::sync::Arc;

use imbl::OrdMap;
use protocol_compat::ids::{BrokerId, DirectoryId, LeaderEpoch, PartitionIndex, TopicId, Uuid};

/// A replica whose log directory is not known yet (Kafka's `DirectoryId.UNASSIGNED`).
pub const DIRECTORY_UNASSIGNED: DirectoryId = DirectoryId(Uuid::from_u128(0));
/// A replica in a log directory that is offline (Kafka's `DirectoryId.LOST`).
pub const DIRECTORY_LOST: DirectoryId = DirectoryId(Uuid::from_u128(1));
/// A replica of a broker that registered without log directories (Kafka's `DirectoryId.MIGRATING`).
pub const DIRECTORY_MIGRATING: DirectoryId = DirectoryId(Uuid::from_u128(2));

/// Whether a new leader must recover the log before it serves (KIP-704).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LeaderRecoveryState {
    /// Nothing to recover.
    #[default]
    Recovered,
    /// Elected uncleanly and not recovered yet.
    Recovering,
}

/// One partition: who holds it, who leads it, since which epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionImage {
    /// Brokers with a replica, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// Log directory of each replica, in the order of `replicas`.
    pub directories: Vec<DirectoryId>,
    /// In-sync replicas.
    pub isr: Vec<BrokerId>,
    /// Replicas that a reassignment is taking away.
    pub removing_replicas: Vec<BrokerId>,
    /// Replicas that a reassignment is adding.
    pub adding_replicas: Vec<BrokerId>,
    /// Eligible leader replicas outside the ISR (KIP-966).
    pub elr: Vec<BrokerId>,
    /// Last known members of the ELR, or the last leader (KIP-966).
    pub last_known_elr: Vec<BrokerId>,
    /// The leader; `None` while no eligible replica is alive.
    pub leader: Option<BrokerId>,
    /// Whether the leader must recover first.
    pub leader_recovery_state: LeaderRecoveryState,
    /// Grows with each change of leader.
    pub leader_epoch: LeaderEpoch,
    /// Grows with each change of the partition; guards AlterPartition.
    pub partition_epoch: i32,
}

impl PartitionImage {
    /// The log directory of the replica on `broker`, if it has one.
    #[must_use]
    pub fn directory(&self, broker: BrokerId) -> Option<DirectoryId> {
        let at = self.replicas.iter().position(|&replica| replica == broker)?;
        self.directories.get(at).copied()
    }

    /// Whether a reassignment is under way.
    #[must_use]
    pub fn is_reassigning(&self) -> bool {
        !self.removing_replicas.is_empty() || !self.adding_replicas.is_empty()
    }
}

/// A topic with its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicImage {
    pub(crate) name: Arc<str>,
    pub(crate) id: TopicId,
    pub(crate) partitions: OrdMap<PartitionIndex, Arc<PartitionImage>>,
}

impl TopicImage {
    /// The topic's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The topic's id.
    #[must_use]
    pub fn id(&self) -> TopicId {
        self.id
    }

    /// Number of partitions.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// One partition.
    #[must_use]
    pub fn partition(&self, index: PartitionIndex) -> Option<&Arc<PartitionImage>> {
        self.partitions.get(&index)
    }

    /// Partitions in order of their indexes.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionIndex, &Arc<PartitionImage>)> {
        self.partitions.iter().map(|(&index, partition)| (index, partition))
    }
}

/// All topics, found by name and by id.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TopicsImage {
    pub(crate) by_name: OrdMap<Arc<str>, Arc<TopicImage>>,
    pub(crate) by_id: OrdMap<TopicId, Arc<TopicImage>>,
    pub(crate) partition_count: usize,
}

impl TopicsImage {
    /// The topic of this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.by_name.get(name)
    }

    /// The topic with this id.
    #[must_use]
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.by_id.get(&id)
    }

    /// Topics in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.values()
    }

    /// Topics in order of their names, from `name` (inclusive) on: for paged answers.
    pub fn iter_from(&self, name: &str) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.range(Arc::<str>::from(name)..).map(|(_, topic)| topic)
    }

    /// Number of topics.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no topic.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Number of partitions of all topics.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// A partition by topic id and index.
    #[must_use]
    pub fn partition(&self, topic: TopicId, index: PartitionIndex) -> Option<&Arc<PartitionImage>> {
        self.by_id.get(&topic)?.partition(index)
    }
}
