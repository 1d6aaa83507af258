//! Which core owns a partition.

use protocol_compat::ids::{PartitionIndex, TopicId};

/// One of the broker's cores.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CoreId(pub u16);

impl CoreId {
    /// Place in tables that have an entry for each core.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The rule: the same on every core, so that nothing needs to be agreed upon.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    cores: u16,
}

impl Placement {
    /// A placement over this many cores, at least one.
    #[must_use]
    pub fn new(cores: u16) -> Self {
        Self { cores: cores.max(1) }
    }

    /// All cores.
    pub fn cores(self) -> impl Iterator<Item = CoreId> {
        (0..self.cores).map(CoreId)
    }

    /// Number of cores.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.cores)
    }

    /// The owner of a partition. Partitions of one topic go round the cores, starting anywhere.
    #[must_use]
    pub fn owner(self, topic: TopicId, partition: PartitionIndex) -> CoreId {
        let (high, low) = topic.0.as_u64_pair();
        let start = (high ^ low) % u64::from(self.cores);
        let index = u64::from(partition.0.unsigned_abs());
        let owner = (start + index) % u64::from(self.cores);
        CoreId(u16::try_from(owner).expect("below the number of cores"))
    }

    /// The core that a connection goes to.
    #[must_use]
    pub fn of_connection(self, number: u64) -> CoreId {
        CoreId(u16::try_from(number % u64::from(self.cores)).expect("below the number of cores"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol_compat::ids::Uuid;

    #[test]
    fn partitions_of_a_topic_are_spread_evenly() {
        let placement = Placement::new(3);
        let mut counts = [0; 3];
        for index in 0..30 {
            let topic = TopicId(Uuid::from_u128(0x1234_5678_9abc));
            counts[placement.owner(topic, PartitionIndex(index)).index()] += 1;
        }
        assert_eq!(counts, [10, 10, 10]);
    }
}
