//! Where each leader epoch began: Kafka's `LeaderEpochFileCache`.

use protocol_compat::ids::{LeaderEpoch, Offset};

use super::EpochEnd;
use crate::format::epoch_checkpoint::{self, EpochEntry};

/// The epochs of a log, rising in epoch and offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Epochs {
    entries: Vec<EpochEntry>,
}

impl Epochs {
    pub(super) fn new(entries: Vec<EpochEntry>) -> Self {
        Self { entries }
    }

    pub(super) fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.epoch)
    }

    pub(super) fn file(&self) -> Vec<u8> {
        epoch_checkpoint::encode(&self.entries).into_bytes()
    }

    /// Notes that `epoch` begins at `start_offset`; whether anything changed. Entries that it contradicts go.
    pub(super) fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if epoch.0 < 0 || self.latest().is_some_and(|latest| latest >= epoch) {
            return false;
        }
        while self.entries.last().is_some_and(|last| last.start_offset >= start_offset) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry { epoch, start_offset });
        true
    }

    /// Forgets epochs that begin at or after `end`; whether anything changed.
    pub(super) fn truncate_end(&mut self, end: Offset) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start_offset < end);
        self.entries.len() != before
    }

    /// Forgets epochs that ended before `start`; whether anything changed.
    pub(super) fn truncate_start(&mut self, start: Offset) -> bool {
        let first_kept = self.entries.partition_point(|entry| entry.start_offset <= start);
        if first_kept == 0 || self.entries[first_kept - 1].start_offset == start && first_kept == 1
        {
            return false;
        }
        self.entries[first_kept - 1].start_offset = start;
        self.entries.drain(..first_kept - 1);
        true
    }

    /// Kafka's `endOffsetFor`: for an epoch below all known ones it answers that epoch itself.
    pub(super) fn end_of(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        if self.latest()? == epoch {
            return Some(EpochEnd { leader_epoch: epoch, end_offset: log_end });
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end_offset = self.entries.get(higher)?.start_offset;
        let leader_epoch = higher.checked_sub(1).map_or(epoch, |floor| self.entries[floor].epoch);
        Some(EpochEnd { leader_epoch, end_offset })
    }

    /// The epoch of the record at `offset`.
    pub(super) fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        after.checked_sub(1).map(|at| self.entries[at].epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(list: &[(i32, i64)]) -> Epochs {
        let mut epochs = Epochs::default();
        for (epoch, start) in list {
            epochs.assign(LeaderEpoch(*epoch), Offset(*start));
        }
        epochs
    }

    fn list(epochs: &Epochs) -> Vec<(i32, i64)> {
        epochs.entries.iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
    }

    #[test]
    fn an_epoch_without_records_is_replaced_by_the_next() {
        assert_eq!(list(&epochs(&[(0, 0), (1, 10), (2, 10)])), [(0, 0), (2, 10)]);
        assert_eq!(list(&epochs(&[(3, 5), (3, 9), (2, 12)])), [(3, 5)]);
    }

    #[test]
    fn ends_are_answered_as_kafka_does() {
        let epochs = epochs(&[(2, 10), (5, 20)]);
        let end = |epoch| {
            epochs
                .end_of(LeaderEpoch(epoch), Offset(30))
                .map(|e| (e.leader_epoch.0, e.end_offset.0))
        };
        assert_eq!(end(5), Some((5, 30)));
        assert_eq!(end(4), Some((2, 20)));
        assert_eq!(end(2), Some((2, 20)));
        assert_eq!(end(1), Some((1, 10)));
        assert_eq!(end(6), None);
        assert_eq!(Epochs::default().end_of(LeaderEpoch(0), Offset(0)), None);
    }

    #[test]
    fn truncation_keeps_what_still_has_records() {
        let mut a = epochs(&[(0, 0), (1, 10), (2, 20)]);
        assert!(a.truncate_end(Offset(20)));
        assert_eq!(list(&a), [(0, 0), (1, 10)]);
        assert!(!a.truncate_start(Offset(0)));
        assert!(a.truncate_start(Offset(5)));
        assert_eq!(list(&a), [(0, 5), (1, 10)]);
        assert!(a.truncate_start(Offset(10)));
        assert_eq!(list(&a), [(1, 10)]);
        assert_eq!(a.epoch_at(Offset(11)), Some(LeaderEpoch(1)));
        assert_eq!(a.epoch_at(Offset(9)), None);
    }
}
