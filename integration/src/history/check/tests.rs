//! The checker checked: histories that are wrong in one way each, and some that are right.

use super::*;

const STRICT: Rules = Rules { idempotent: true, dense: true };
const LOOSE: Rules = Rules { idempotent: false, dense: false };

fn ack(value: Value, offset: i64) -> Event {
    sent(0, value, Outcome::Acked(Some(offset)))
}

fn sent(process: Process, value: Value, outcome: Outcome) -> Event {
    Event::Send { process, partition: 0, value, outcome }
}

fn poll(process: Process, records: &[(i64, Value)]) -> Event {
    Event::Poll { process, partition: 0, records: records.to_vec() }
}

fn end(records: &[(i64, Value)]) -> Event {
    let end = records.last().map_or(0, |last| last.0 + 1);
    Event::Final { partition: 0, start: 0, end, records: records.to_vec() }
}

fn ends(start: i64, end: i64, records: &[(i64, Value)]) -> Event {
    Event::Final { partition: 0, start, end, records: records.to_vec() }
}

fn name(verdict: &Verdict) -> String {
    let text = verdict.to_string();
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

#[test]
fn right_histories_pass() {
    let unknown = Outcome::Unknown;
    let good: Vec<(&str, Rules, Vec<Event>)> = vec![
        ("plain", STRICT, vec![ack(1, 0), ack(2, 1), end(&[(0, 1), (1, 2)])]),
        (
            "an unknown send is there",
            STRICT,
            vec![ack(1, 0), sent(0, 2, unknown), end(&[(0, 1), (1, 2)])],
        ),
        (
            "an unknown send is not there",
            STRICT,
            vec![ack(1, 0), sent(0, 2, unknown), end(&[(0, 1)])],
        ),
        (
            "a failed send is not there",
            STRICT,
            vec![sent(0, 9, Outcome::Failed), ack(1, 0), end(&[(0, 1)])],
        ),
        (
            "acknowledged without an offset",
            STRICT,
            vec![sent(0, 1, Outcome::Acked(None)), end(&[(0, 1)])],
        ),
        (
            "polls in pieces",
            STRICT,
            vec![
                ack(1, 0),
                ack(2, 1),
                ack(3, 2),
                poll(7, &[(0, 1)]),
                poll(7, &[(1, 2), (2, 3)]),
                end(&[(0, 1), (1, 2), (2, 3)]),
            ],
        ),
        (
            "a reader that begins again after reassignment",
            STRICT,
            vec![
                ack(1, 0),
                ack(2, 1),
                poll(7, &[(0, 1), (1, 2)]),
                Event::Reassigned { process: 7 },
                poll(7, &[(0, 1)]),
                end(&[(0, 1), (1, 2)]),
            ],
        ),
        (
            "two producers between each other",
            STRICT,
            vec![
                ack(1, 0),
                sent(1, 10, Outcome::Acked(Some(1))),
                ack(2, 2),
                end(&[(0, 1), (1, 10), (2, 2)]),
            ],
        ),
        ("twice, by a producer that may", LOOSE, vec![ack(1, 1), end(&[(0, 1), (1, 1)])]),
        (
            "gaps of a compacted log",
            LOOSE,
            vec![ack(1, 0), ack(2, 5), poll(7, &[(0, 1), (5, 2)]), ends(0, 9, &[(0, 1), (5, 2)])],
        ),
        ("deleted from the front", STRICT, vec![ack(1, 0), ack(2, 1), ends(1, 2, &[(1, 2)])]),
        (
            "two partitions",
            STRICT,
            vec![
                ack(1, 0),
                Event::Send {
                    process: 0,
                    partition: 1,
                    value: 2,
                    outcome: Outcome::Acked(Some(0)),
                },
                end(&[(0, 1)]),
                Event::Final { partition: 1, start: 0, end: 1, records: vec![(0, 2)] },
            ],
        ),
    ];
    for (what, rules, events) in good {
        assert_eq!(check(&events, rules), BTreeSet::new(), "{what}");
    }
}

#[test]
fn wrong_histories_are_caught() {
    let failed = Outcome::Failed;
    let bad: Vec<(&str, &str, Vec<Event>)> = vec![
        ("the last is lost", "Lost", vec![ack(1, 0), ack(2, 1), end(&[(0, 1)])]),
        ("the first is lost", "Lost", vec![ack(1, 0), ack(2, 1), ends(0, 2, &[(1, 2)])]),
        (
            "one in the middle is lost",
            "Lost",
            vec![ack(1, 0), ack(2, 1), ack(3, 2), end(&[(0, 1), (2, 3)])],
        ),
        ("all are lost", "Lost", vec![ack(1, 0), poll(7, &[(0, 1)]), ends(0, 0, &[])]),
        (
            "lost without a known offset",
            "Lost",
            vec![ack(1, 0), sent(0, 2, Outcome::Acked(None)), end(&[(0, 1)])],
        ),
        (
            "lost and its place taken",
            "Lost",
            vec![ack(1, 0), ack(2, 1), ack(3, 1), end(&[(0, 1), (1, 3)])],
        ),
        (
            "its place taken",
            "InconsistentOffset",
            vec![ack(1, 0), ack(2, 1), ack(3, 1), end(&[(0, 1), (1, 3)])],
        ),
        (
            "another value read than acknowledged",
            "InconsistentOffset",
            vec![ack(1, 0), ack(2, 1), end(&[(0, 2), (1, 1)])],
        ),
        (
            "two readers see two values",
            "InconsistentOffset",
            vec![
                ack(1, 0),
                sent(0, 2, Outcome::Unknown),
                sent(1, 3, Outcome::Unknown),
                poll(7, &[(1, 2)]),
                poll(8, &[(1, 3)]),
                end(&[(0, 1), (1, 3)]),
            ],
        ),
        (
            "read before a crash, other after",
            "InconsistentOffset",
            vec![
                ack(1, 0),
                sent(0, 2, Outcome::Unknown),
                poll(7, &[(1, 2)]),
                ack(3, 1),
                end(&[(0, 1), (1, 3)]),
            ],
        ),
        ("twice in the log", "Duplicate", vec![ack(1, 0), end(&[(0, 1), (1, 1)])]),
        (
            "twice, far apart",
            "Duplicate",
            vec![ack(1, 0), ack(2, 1), end(&[(0, 1), (1, 2), (2, 1)])],
        ),
        (
            "acknowledged at one place, read at another",
            "Duplicate",
            vec![ack(1, 0), ack(2, 2), end(&[(0, 1), (1, 2)])],
        ),
        (
            "an unknown send twice",
            "Duplicate",
            vec![ack(1, 0), sent(0, 2, Outcome::Unknown), end(&[(0, 1), (1, 2), (2, 2)])],
        ),
        (
            "retried and acknowledged twice",
            "Duplicate",
            vec![ack(1, 0), ack(1, 1), end(&[(0, 1), (1, 1)])],
        ),
        ("nobody sent it", "Invented", vec![ack(1, 0), end(&[(0, 1), (1, 99)])]),
        ("a poll invents", "Invented", vec![ack(1, 0), poll(7, &[(1, 50)]), end(&[(0, 1)])]),
        (
            "in the wrong partition",
            "Misplaced",
            vec![
                ack(1, 0),
                Event::Send { process: 0, partition: 1, value: 2, outcome: Outcome::Unknown },
                end(&[(0, 1), (1, 2)]),
            ],
        ),
        (
            "acknowledged here, read there",
            "Misplaced",
            vec![
                ack(1, 0),
                end(&[(0, 1)]),
                Event::Final { partition: 1, start: 0, end: 1, records: vec![(0, 1)] },
            ],
        ),
        (
            "failed but read in the end",
            "AbortedRead",
            vec![ack(1, 0), sent(0, 2, failed), end(&[(0, 1), (1, 2)])],
        ),
        (
            "failed but polled",
            "AbortedRead",
            vec![ack(1, 0), sent(0, 2, failed), poll(7, &[(1, 2)]), end(&[(0, 1)])],
        ),
        (
            "read once, then gone",
            "Vanished",
            vec![ack(1, 0), sent(0, 2, Outcome::Unknown), poll(7, &[(1, 2)]), end(&[(0, 1)])],
        ),
        (
            "all that was read is gone",
            "Vanished",
            vec![
                sent(0, 1, Outcome::Unknown),
                ack(2, 1),
                poll(7, &[(0, 1), (1, 2)]),
                ends(0, 2, &[(1, 2)]),
            ],
        ),
        (
            "two sends change places",
            "Reordered",
            vec![
                sent(0, 1, Outcome::Unknown),
                sent(0, 2, Outcome::Unknown),
                ack(3, 2),
                end(&[(0, 2), (1, 1), (2, 3)]),
            ],
        ),
        (
            "a retry lands behind the next",
            "Reordered",
            vec![ack(1, 0), ack(2, 2), ack(3, 1), end(&[(0, 1), (1, 3), (2, 2)])],
        ),
        (
            "a poll goes back",
            "NonmonotonicPoll",
            vec![
                ack(1, 0),
                ack(2, 1),
                poll(7, &[(0, 1), (1, 2)]),
                poll(7, &[(1, 2)]),
                end(&[(0, 1), (1, 2)]),
            ],
        ),
        (
            "back within a poll",
            "NonmonotonicPoll",
            vec![ack(1, 0), ack(2, 1), poll(7, &[(1, 2), (0, 1)]), end(&[(0, 1), (1, 2)])],
        ),
        (
            "the final read goes back",
            "NonmonotonicPoll",
            vec![ack(1, 0), ack(2, 1), ends(0, 2, &[(0, 1), (1, 2), (1, 2)])],
        ),
        (
            "a poll skips",
            "Skipped",
            vec![
                ack(1, 0),
                ack(2, 1),
                ack(3, 2),
                poll(7, &[(0, 1), (2, 3)]),
                end(&[(0, 1), (1, 2), (2, 3)]),
            ],
        ),
        (
            "skips between two polls",
            "Skipped",
            vec![
                ack(1, 0),
                ack(2, 1),
                ack(3, 2),
                poll(7, &[(0, 1)]),
                poll(7, &[(2, 3)]),
                end(&[(0, 1), (1, 2), (2, 3)]),
            ],
        ),
        ("a gap", "Gap", vec![ack(1, 0), ack(2, 2), end(&[(0, 1), (2, 2)])]),
        ("a gap at the start", "Gap", vec![ack(1, 1), ends(0, 2, &[(1, 1)])]),
        (
            "records before the start",
            "Gap",
            vec![ack(1, 0), ack(2, 1), ends(1, 2, &[(0, 1), (1, 2)])],
        ),
        ("the end is further than the records", "WrongEnd", vec![ack(1, 0), ends(0, 3, &[(0, 1)])]),
        (
            "records past the end",
            "WrongEnd",
            vec![ack(1, 0), ack(2, 1), ends(0, 1, &[(0, 1), (1, 2)])],
        ),
        ("nothing acknowledged", "Empty", vec![sent(0, 1, Outcome::Unknown), end(&[(0, 1)])]),
        ("nothing read", "Empty", vec![ack(1, 0)]),
    ];
    assert!(bad.len() >= 30);
    for (what, verdict, events) in bad {
        let found: BTreeSet<String> = check(&events, STRICT).iter().map(name).collect();
        assert!(found.contains(verdict), "{what}: {found:?} has no {verdict}");
    }
}
