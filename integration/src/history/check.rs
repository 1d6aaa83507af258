//! The checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Event, Outcome, Partition, Process, Value};

/// What the producers and the log promise beside the certain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Producers are idempotent and keep the order of their sends: no value twice, none overtakes.
    pub idempotent: bool,
    /// Offsets have no gaps: no transactions, no compaction.
    pub dense: bool,
}

/// What is wrong with a history: where, which values or offsets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "the fields are what their names say")]
pub enum Verdict {
    /// Two values were seen at one offset.
    InconsistentOffset { partition: Partition, offset: i64, values: (Value, Value) },
    /// One value was seen at two offsets.
    Duplicate { partition: Partition, value: Value, offsets: (i64, i64) },
    /// A value was seen in a partition that it was not sent to.
    Misplaced { partition: Partition, value: Value },
    /// A value was read that nobody sent.
    Invented { partition: Partition, value: Value },
    /// A value was read whose send certainly failed.
    AbortedRead { partition: Partition, value: Value },
    /// An acknowledged value is not there in the end.
    Lost { partition: Partition, value: Value, offset: Option<i64> },
    /// A value that was read once is not there in the end.
    Vanished { partition: Partition, value: Value, offset: i64 },
    /// Two sends of one process are in the log the other way round.
    Reordered { partition: Partition, process: Process, values: (Value, Value) },
    /// A poll gave offsets that do not rise.
    NonmonotonicPoll { partition: Partition, process: Process, offsets: (i64, i64) },
    /// A process was not given records between two that it was given, though they are there.
    Skipped { partition: Partition, process: Process, offsets: (i64, i64) },
    /// Offsets between two neighbours hold nothing.
    Gap { partition: Partition, offsets: (i64, i64) },
    /// Less could be read than the log says that it has, or more.
    WrongEnd { partition: Partition, last: Option<i64>, end: i64 },
    /// Nothing was acknowledged, or nothing read: the test tests nothing.
    Empty,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// All that is wrong with a history; empty when it is right.
#[must_use]
pub fn check(events: &[Event], rules: Rules) -> BTreeSet<Verdict> {
    let mut checker = Checker::new(rules);
    checker.collect(events);
    checker.polls(events);
    checker.finals(events);
    checker.order(events);
    checker.found
}

struct Checker {
    rules: Rules,
    found: BTreeSet<Verdict>,
    /// How each value was sent.
    sent: BTreeMap<Value, (Partition, Outcome)>,
    /// What stands at an offset, by all that anyone was told.
    at: BTreeMap<(Partition, i64), Value>,
    /// Where a value stands.
    place: BTreeMap<(Partition, Value), i64>,
    /// Which values were read by anyone.
    read: BTreeSet<(Partition, Value)>,
}

impl Checker {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            found: BTreeSet::new(),
            sent: BTreeMap::new(),
            at: BTreeMap::new(),
            place: BTreeMap::new(),
            read: BTreeSet::new(),
        }
    }

    fn collect(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Send { partition, value, outcome, .. } = event {
                self.sent.insert(*value, (*partition, *outcome));
            }
        }
        let mut acked = false;
        for event in events {
            match event {
                Event::Send { partition, value, outcome, .. } => {
                    acked |= matches!(outcome, Outcome::Acked(_));
                    if let Outcome::Acked(Some(offset)) = outcome {
                        self.seen(*partition, *offset, *value);
                    }
                }
                Event::Poll { partition, records, .. }
                | Event::Final { partition, records, .. } => {
                    for (offset, value) in records {
                        self.read_one(*partition, *offset, *value);
                    }
                }
                Event::Reassigned { .. } => {}
            }
        }
        if !acked || self.read.is_empty() {
            self.found.insert(Verdict::Empty);
        }
    }

    fn seen(&mut self, partition: Partition, offset: i64, value: Value) {
        let there = *self.at.entry((partition, offset)).or_insert(value);
        if there != value {
            let values = (there.min(value), there.max(value));
            self.found.insert(Verdict::InconsistentOffset { partition, offset, values });
        }
        let place = *self.place.entry((partition, value)).or_insert(offset);
        if place != offset && self.rules.idempotent {
            let offsets = (place.min(offset), place.max(offset));
            self.found.insert(Verdict::Duplicate { partition, value, offsets });
        }
    }

    fn read_one(&mut self, partition: Partition, offset: i64, value: Value) {
        self.read.insert((partition, value));
        self.seen(partition, offset, value);
        match self.sent.get(&value) {
            None => {
                self.found.insert(Verdict::Invented { partition, value });
            }
            Some((other, _)) if *other != partition => {
                self.found.insert(Verdict::Misplaced { partition, value });
            }
            Some((_, Outcome::Failed)) => {
                self.found.insert(Verdict::AbortedRead { partition, value });
            }
            Some(_) => {}
        }
    }

    /// Each process sees rising offsets and misses none that is there.
    fn polls(&mut self, events: &[Event]) {
        let mut position: BTreeMap<(Process, Partition), i64> = BTreeMap::new();
        for event in events {
            match event {
                Event::Poll { process, partition, records } => {
                    for (offset, _) in records {
                        let last = position.insert((*process, *partition), *offset);
                        self.step(*process, *partition, last, *offset);
                    }
                }
                Event::Reassigned { process } => position.retain(|(other, _), _| other != process),
                Event::Send { .. } | Event::Final { .. } => {}
            }
        }
    }

    fn step(&mut self, process: Process, partition: Partition, last: Option<i64>, offset: i64) {
        let Some(last) = last else { return };
        let offsets = (last, offset);
        if offset <= last {
            self.found.insert(Verdict::NonmonotonicPoll { partition, process, offsets });
        } else if self.at.range((partition, last + 1)..(partition, offset)).next().is_some() {
            self.found.insert(Verdict::Skipped { partition, process, offsets });
        }
    }

    /// In the end all that was acknowledged or read is there, once, without gaps.
    fn finals(&mut self, events: &[Event]) {
        for event in events {
            let Event::Final { partition, start, end, records } = event else { continue };
            let partition = *partition;
            let there: BTreeSet<Value> = records.iter().map(|(_, value)| *value).collect();
            for (value, (own, outcome)) in &self.sent {
                let Outcome::Acked(offset) = outcome else { continue };
                let gone = offset.is_some_and(|offset| offset < *start);
                if *own == partition && !there.contains(value) && !gone {
                    let verdict = Verdict::Lost { partition, value: *value, offset: *offset };
                    self.found.insert(verdict);
                }
            }
            for ((own, value), offset) in &self.place {
                let was_read = self.read.contains(&(*own, *value));
                if *own == partition && was_read && !there.contains(value) && offset >= start {
                    let verdict = Verdict::Vanished { partition, value: *value, offset: *offset };
                    self.found.insert(verdict);
                }
            }
            for pair in records.windows(2) {
                let offsets = (pair[0].0, pair[1].0);
                if offsets.1 <= offsets.0 {
                    let process = Process::MAX;
                    self.found.insert(Verdict::NonmonotonicPoll { partition, process, offsets });
                } else if self.rules.dense && offsets.1 != offsets.0 + 1 {
                    self.found.insert(Verdict::Gap { partition, offsets });
                }
            }
            let last = records.last().map(|(offset, _)| *offset);
            let first = records.first().map(|(offset, _)| *offset);
            let ends = last.map_or(*start, |last| last + 1);
            if (self.rules.dense && ends != *end) || ends > *end {
                self.found.insert(Verdict::WrongEnd { partition, last, end: *end });
            }
            if let Some(first) = first
                && (first < *start || (self.rules.dense && first != *start))
            {
                self.found.insert(Verdict::Gap { partition, offsets: (*start, first) });
            }
        }
    }

    /// The values of one process stand in the order in which it sent them.
    fn order(&mut self, events: &[Event]) {
        if !self.rules.idempotent {
            return;
        }
        let mut last: BTreeMap<(Process, Partition), (Value, i64)> = BTreeMap::new();
        for event in events {
            let Event::Send { process, partition, value, .. } = event else { continue };
            let Some(&offset) = self.place.get(&(*partition, *value)) else { continue };
            if let Some((before, place)) = last.insert((*process, *partition), (*value, offset))
                && place > offset
            {
                let values = (before, *value);
                let verdict =
                    Verdict::Reordered { partition: *partition, process: *process, values };
                self.found.insert(verdict);
            }
        }
    }
}

#[cfg(test)]
mod tests;
