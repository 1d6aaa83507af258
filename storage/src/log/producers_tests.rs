//! The rules of `ProducerAppendInfo`, one a test.

use protocol_compat::batch::{Attributes, BatchHeader};
use protocol_compat::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::{Producers, Verdict};
use crate::format::marker::EndTxnMarker;
use crate::log::AppendError;

struct T {
    producers: Producers,
    end: i64,
}

impl T {
    fn new() -> Self {
        Self { producers: Producers::default(), end: 0 }
    }

    fn header(&self, epoch: i16, sequence: i32, count: i32, flags: i16) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(self.end),
            batch_length: 49,
            partition_leader_epoch: LeaderEpoch(0),
            crc: 0,
            attributes: Attributes(flags),
            last_offset_delta: count - 1,
            base_timestamp: Timestamp(1000 + self.end),
            max_timestamp: Timestamp(1000 + self.end),
            producer_id: ProducerId(7),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence: sequence,
            records_count: count,
        }
    }

    fn append(&mut self, header: BatchHeader) -> Result<Verdict, AppendError> {
        let verdict = self.producers.check_data(&header, Offset(self.end))?;
        if verdict == Verdict::Append {
            self.producers.append_data(&header);
            self.end += i64::from(header.last_offset_delta) + 1;
        }
        Ok(verdict)
    }

    fn send(&mut self, epoch: i16, sequence: i32, count: i32) -> Result<Verdict, AppendError> {
        self.append(self.header(epoch, sequence, count, 0))
    }

    fn send_txn(&mut self, epoch: i16, sequence: i32) -> Result<Verdict, AppendError> {
        self.append(self.header(epoch, sequence, 1, 0x10))
    }

    fn end_txn(
        &mut self,
        epoch: i16,
        coordinator_epoch: i32,
        aborted: bool,
    ) -> Result<Option<(i64, i64, i64)>, AppendError> {
        let header = self.header(epoch, -1, 1, 0x30);
        let marker = EndTxnMarker { aborted, coordinator_epoch, timestamp: Timestamp(2000) };
        self.producers.check_marker(&header, &marker, Offset(self.end))?;
        let entry = self.producers.append_marker(&header, &marker);
        self.end += 1;
        Ok(entry.map(|e| (e.first_offset.0, e.last_offset.0, e.last_stable_offset.0)))
    }
}

fn out_of_order(result: Result<Verdict, AppendError>) -> bool {
    matches!(result, Err(AppendError::OutOfOrderSequence { .. }))
}

#[test]
fn an_unknown_producer_may_begin_with_any_sequence() {
    assert_eq!(T::new().send(3, 500, 2).expect("appended"), Verdict::Append);
}

#[test]
fn sequences_must_follow_and_wrap() {
    let mut t = T::new();
    t.send(0, i32::MAX - 1, 2).expect("appended");
    assert!(out_of_order(t.send(0, 5, 1)));
    assert_eq!(t.send(0, 0, 3).expect("wraps"), Verdict::Append);
    assert_eq!(t.send(0, 3, 1).expect("follows"), Verdict::Append);
    assert!(out_of_order(t.send(0, 5, 1)));
    let mut t = T::new();
    t.send(0, i32::MAX - 2, 5).expect("wraps inside the batch");
    assert_eq!(t.send(0, 2, 1).expect("follows"), Verdict::Append);
}

#[test]
fn the_last_five_batches_are_known_and_older_ones_are_out_of_order() {
    let mut t = T::new();
    for batch in 0..7 {
        t.send(0, batch * 10, 10).expect("appended");
    }
    for batch in 2..7 {
        let Ok(Verdict::Duplicate(past)) = t.send(0, batch * 10, 10) else {
            panic!("batch {batch} is not known")
        };
        assert_eq!(past.base_offset(), Offset(i64::from(batch) * 10));
        assert_eq!(past.last_offset, Offset(i64::from(batch) * 10 + 9));
    }
    assert!(out_of_order(t.send(0, 10, 10)));
    assert!(out_of_order(t.send(0, 60, 9)), "the same first sequence is not enough");
}

#[test]
fn a_new_epoch_begins_at_zero_and_an_old_one_is_fenced() {
    let mut t = T::new();
    t.send(1, 0, 1).expect("appended");
    assert!(out_of_order(t.send(2, 1, 1)));
    t.send(2, 0, 1).expect("appended");
    assert!(matches!(t.send(1, 1, 1), Err(AppendError::InvalidProducerEpoch { .. })));
    assert!(matches!(t.send(1, 0, 1), Err(AppendError::InvalidProducerEpoch { .. })));
}

#[test]
fn a_marker_with_a_new_epoch_forgets_the_sequences() {
    let mut t = T::new();
    t.send_txn(0, 0).expect("appended");
    t.end_txn(1, 3, false).expect("appended");
    assert!(out_of_order(t.send(1, 1, 1)));
    t.send(1, 0, 1).expect("appended");
}

#[test]
fn transactions_bound_the_stable_offset_until_their_marker_is_replicated() {
    let mut t = T::new();
    t.send(0, 0, 1).expect("appended");
    t.send_txn(0, 1).expect("appended");
    t.send_txn(0, 2).expect("appended");
    assert_eq!(t.producers.first_unstable(), Some(Offset(1)));
    assert!(matches!(t.send(0, 3, 1), Err(AppendError::InvalidTransactionState { .. })));
    assert_eq!(t.end_txn(0, 4, true).expect("appended"), Some((1, 3, 4)));
    assert_eq!(t.producers.first_unstable(), Some(Offset(1)));
    t.producers.high_watermark_moved(Offset(3));
    assert_eq!(t.producers.first_unstable(), Some(Offset(1)));
    t.producers.high_watermark_moved(Offset(4));
    assert_eq!(t.producers.first_unstable(), None);
    assert_eq!(t.end_txn(0, 4, true).expect("empty"), None);
    assert!(matches!(t.end_txn(0, 3, true), Err(AppendError::CoordinatorFenced { .. })));
}

#[test]
fn a_snapshot_brings_the_last_batch_and_older_ones_are_added_from_the_log() {
    let mut t = T::new();
    let mut headers = Vec::new();
    for batch in 0..4 {
        headers.push(t.header(0, batch, 1, 0));
        t.send(0, batch, 1).expect("appended");
    }
    let entries = t.producers.snapshot();
    assert_eq!(entries.len(), 1);
    t.producers = Producers::from_snapshot(&entries, Timestamp(1000), 1000);
    assert_eq!(t.producers.snapshot(), entries);
    assert!(out_of_order(t.send(0, 2, 1)));
    for header in headers.iter().rev() {
        t.producers.remember_older(header);
    }
    assert!(matches!(t.send(0, 0, 1), Ok(Verdict::Duplicate(_))));
    assert!(matches!(t.send(0, 2, 1), Ok(Verdict::Duplicate(_))));
    assert_eq!(t.send(0, 4, 1).expect("follows"), Verdict::Append);
}

#[test]
fn idle_producers_expire_but_not_inside_a_transaction() {
    let mut t = T::new();
    t.send(0, 0, 1).expect("appended");
    let entries = t.producers.snapshot();
    assert!(Producers::from_snapshot(&entries, Timestamp(3000), 2000).is_empty());
    t.producers.expire(Timestamp(2999), 2000);
    assert!(!t.producers.is_empty());
    t.producers.expire(Timestamp(3000), 2000);
    assert!(t.producers.is_empty());
    t.send_txn(0, 0).expect("appended");
    t.producers.expire(Timestamp(i64::MAX), 2000);
    assert!(!t.producers.is_empty());
}
