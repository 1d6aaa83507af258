//! The record that moves one partition to a new ISR and leader: elections, and eligible leader replicas (KIP-966).
//!
//! What Kafka's `PartitionChangeBuilder` decides. Reassignments are absent: one node has none.

use crate::records::metadata::PartitionChangeRecord;
use protocol_compat::ids::{BrokerId, PartitionIndex, TopicId};

use crate::image::PartitionImage;
use crate::image::topics::LeaderRecoveryState;

/// Everything a decision about one partition depends on.
#[derive(Clone, Copy)]
pub(crate) struct PartitionChange<'a, F: Fn(BrokerId) -> bool> {
    pub(crate) topic: TopicId,
    pub(crate) index: PartitionIndex,
    pub(crate) partition: &'a PartitionImage,
    /// Who may lead: registered, unfenced, not about to stop, its directory online.
    pub(crate) acceptable: F,
    /// Taken out of the ISR.
    pub(crate) remove: Option<BrokerId>,
    /// Stopped uncleanly: taken out of the ISR and of the ELR.
    pub(crate) unclean_shutdown: Option<BrokerId>,
    /// `eligible.leader.replicas.version` is above 0.
    pub(crate) elr_enabled: bool,
    /// `min.insync.replicas` of the topic.
    pub(crate) min_isr: usize,
    /// `unclean.leader.election.enable` of the topic.
    pub(crate) unclean_election: bool,
}

impl<F: Fn(BrokerId) -> bool> PartitionChange<'_, F> {
    /// The record, or `None` when nothing changes.
    pub(crate) fn build(&self) -> Option<PartitionChangeRecord> {
        let before = self.partition;
        let gone = |id: BrokerId| Some(id) == self.remove || Some(id) == self.unclean_shutdown;
        let mut isr: Vec<_> = before.isr.iter().copied().filter(|&id| !gone(id)).collect();
        let mut elr = self.target_elr(&isr);
        let mut last_known = before.last_known_elr.clone();
        let mut recovery = before.leader_recovery_state;

        let (leader, unclean) = self.elect(&isr, &elr);
        if leader != before.leader
            && let Some(leader) = leader
        {
            if unclean {
                // The others may hold what the new leader lacks: they must copy it.
                isr = vec![leader];
                elr.clear();
                last_known.clear();
                recovery = LeaderRecoveryState::Recovering;
            } else if !isr.contains(&leader) {
                isr = vec![leader];
                elr.retain(|&id| id != leader);
                if isr.len() >= self.min_isr_of_replicas() {
                    elr.clear();
                }
            }
        }
        if isr.is_empty() && !self.elr_enabled {
            // Without an ELR the last member stays, as the only one who may lead later.
            isr.clone_from(&before.isr);
        }
        if self.elr_enabled {
            if isr.is_empty() && before.leader.is_some() {
                last_known = before.leader.into_iter().collect();
            } else if leader.is_some() {
                last_known.clear();
            }
        } else {
            elr.clear();
            last_known.clear();
        }
        self.record(&isr, &elr, &last_known, leader, recovery)
    }

    fn record(
        &self,
        isr: &[BrokerId],
        elr: &[BrokerId],
        last_known: &[BrokerId],
        leader: Option<BrokerId>,
        recovery: LeaderRecoveryState,
    ) -> Option<PartitionChangeRecord> {
        let before = self.partition;
        let changed = |now: &[BrokerId], then: &[BrokerId]| {
            (now != then).then(|| now.iter().map(|id| id.0).collect::<Vec<_>>())
        };
        let record = PartitionChangeRecord {
            partition_id: self.index.0,
            topic_id: self.topic.0,
            isr: changed(isr, &before.isr),
            leader: if leader == before.leader { -2 } else { leader.map_or(-1, |id| id.0) },
            leader_recovery_state: match (recovery == before.leader_recovery_state, recovery) {
                (true, _) => -1,
                (false, LeaderRecoveryState::Recovered) => 0,
                (false, LeaderRecoveryState::Recovering) => 1,
            },
            eligible_leader_replicas: changed(elr, &before.elr),
            last_known_elr: changed(last_known, &before.last_known_elr),
            ..PartitionChangeRecord::default()
        };
        let empty = record.isr.is_none()
            && record.leader == -2
            && record.leader_recovery_state == -1
            && record.eligible_leader_replicas.is_none()
            && record.last_known_elr.is_none();
        (!empty).then_some(record)
    }

    fn min_isr_of_replicas(&self) -> usize {
        self.min_isr.min(self.partition.replicas.len())
    }

    /// Former members of a shrinking ISR stay eligible while the ISR is below its minimum.
    fn target_elr(&self, isr: &[BrokerId]) -> Vec<BrokerId> {
        if !self.elr_enabled || isr.len() >= self.min_isr_of_replicas() {
            return Vec::new();
        }
        let mut elr = self.partition.elr.clone();
        for &id in &self.partition.isr {
            if !elr.contains(&id) {
                elr.push(id);
            }
        }
        elr.retain(|id| !isr.contains(id) && Some(*id) != self.unclean_shutdown);
        elr
    }

    /// The leader, and whether records may be lost by it.
    fn elect(&self, isr: &[BrokerId], elr: &[BrokerId]) -> (Option<BrokerId>, bool) {
        let clean = |id: BrokerId| {
            (isr.contains(&id) || (isr.is_empty() && elr.contains(&id))) && (self.acceptable)(id)
        };
        if let Some(leader) = self.partition.leader
            && clean(leader)
        {
            return (Some(leader), false);
        }
        if let Some(&leader) = self.partition.replicas.iter().find(|&&id| clean(id)) {
            return (Some(leader), false);
        }
        // Nobody eligible is left at all, but the last leader came back.
        if let [last] = self.partition.last_known_elr[..]
            && self.elr_enabled
            && isr.is_empty()
            && elr.is_empty()
            && (self.acceptable)(last)
        {
            return (Some(last), true);
        }
        if self.unclean_election
            && let Some(&leader) = self.partition.replicas.iter().find(|&&id| (self.acceptable)(id))
        {
            return (Some(leader), true);
        }
        (None, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::topics::DIRECTORY_UNASSIGNED;
    use protocol_compat::ids::{LeaderEpoch, Uuid};

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn partition(replicas: &[i32], isr: &[i32], leader: i32) -> PartitionImage {
        PartitionImage {
            replicas: ids(replicas),
            directories: vec![DIRECTORY_UNASSIGNED; replicas.len()],
            isr: ids(isr),
            removing_replicas: Vec::new(),
            adding_replicas: Vec::new(),
            elr: Vec::new(),
            last_known_elr: Vec::new(),
            leader: (leader >= 0).then_some(BrokerId(leader)),
            leader_recovery_state: LeaderRecoveryState::Recovered,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: 0,
        }
    }

    fn change<'a>(
        partition: &'a PartitionImage,
        alive: &'a [i32],
    ) -> PartitionChange<'a, impl Fn(BrokerId) -> bool> {
        PartitionChange {
            topic: TopicId(Uuid::from_u128(9)),
            index: PartitionIndex(0),
            partition,
            acceptable: move |id| alive.contains(&id.0),
            remove: None,
            unclean_shutdown: None,
            elr_enabled: true,
            min_isr: 1,
            unclean_election: false,
        }
    }

    /// As Apache Kafka 4.4.0 wrote it when its only broker shut down.
    #[test]
    fn last_member_that_stops_cleanly_stays_eligible() {
        let partition = partition(&[1], &[1], 1);
        let record = PartitionChange { remove: Some(BrokerId(1)), ..change(&partition, &[]) }
            .build()
            .expect("a change");
        assert_eq!(record.isr, Some(vec![]));
        assert_eq!(record.leader, -1);
        assert_eq!(record.eligible_leader_replicas, Some(vec![1]));
        assert_eq!(record.last_known_elr, Some(vec![1]));
    }

    /// As Apache Kafka 4.4.0 wrote it when that broker came back.
    #[test]
    fn eligible_replica_leads_again_when_it_comes_back() {
        let mut partition = partition(&[1], &[], -1);
        partition.elr = ids(&[1]);
        partition.last_known_elr = ids(&[1]);
        let record = change(&partition, &[1]).build().expect("a change");
        assert_eq!(record.isr, Some(vec![1]));
        assert_eq!(record.leader, 1);
        assert_eq!(record.eligible_leader_replicas, Some(vec![]));
        assert_eq!(record.last_known_elr, Some(vec![]));
        assert_eq!(record.leader_recovery_state, -1);
    }

    #[test]
    fn last_leader_recovers_after_an_unclean_stop() {
        let mut partition = partition(&[1], &[1], 1);
        let record =
            PartitionChange { unclean_shutdown: Some(BrokerId(1)), ..change(&partition, &[]) }
                .build()
                .expect("a change");
        assert_eq!((record.isr, record.leader), (Some(vec![]), -1));
        assert_eq!((record.eligible_leader_replicas, record.last_known_elr), (None, Some(vec![1])));
        partition.isr.clear();
        partition.leader = None;
        partition.last_known_elr = ids(&[1]);
        let record = change(&partition, &[1]).build().expect("a change");
        assert_eq!((record.isr, record.leader), (Some(vec![1]), 1));
        assert_eq!((record.leader_recovery_state, record.last_known_elr), (1, Some(vec![])));
    }

    #[test]
    fn follower_that_leaves_changes_the_isr_only() {
        let partition = partition(&[1, 2], &[1, 2], 1);
        let record = PartitionChange { remove: Some(BrokerId(2)), ..change(&partition, &[1]) }
            .build()
            .expect("a change");
        assert_eq!((record.isr, record.leader), (Some(vec![1]), -2));
        assert_eq!((record.eligible_leader_replicas, record.last_known_elr), (None, None));
    }

    #[test]
    fn without_elr_the_last_member_stays_in_the_isr() {
        let partition = partition(&[1], &[1], 1);
        let record = PartitionChange {
            remove: Some(BrokerId(1)),
            elr_enabled: false,
            ..change(&partition, &[])
        }
        .build()
        .expect("a change");
        assert_eq!((record.isr, record.leader, record.last_known_elr), (None, -1, None));
    }

    #[test]
    fn unclean_election_takes_any_living_replica_where_it_is_allowed() {
        let partition = partition(&[1, 2], &[1], 1);
        let change = PartitionChange {
            remove: Some(BrokerId(1)),
            elr_enabled: false,
            ..change(&partition, &[2])
        };
        assert_eq!(change.build().expect("a change").leader, -1);
        let record =
            PartitionChange { unclean_election: true, ..change }.build().expect("a change");
        assert_eq!(
            (record.leader, record.isr, record.leader_recovery_state),
            (2, Some(vec![2]), 1)
        );
    }

    #[test]
    fn nothing_changes_when_the_leader_stays() {
        let partition = partition(&[1], &[1], 1);
        assert!(change(&partition, &[1]).build().is_none());
    }
}
