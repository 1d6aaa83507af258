//! A few rounds of SIGKILL under acknowledged load; `make kill-loop` does many. `KELDA_TEST_ROUNDS` and `KELDA_TEST_SEED`
//! say how many and which.

use integration::killloop::run;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn nothing_acknowledged_is_lost_doubled_or_moved_by_kills() {
    let rounds = u32::try_from(number("KELDA_TEST_ROUNDS", 10)).expect("few rounds");
    let seed = number("KELDA_TEST_SEED", u64::from(std::process::id()));
    println!("KELDA_TEST_SEED={seed}");
    let outcomes = run(rounds, seed, &[]).expect("the rounds end");
    let first: Vec<_> = outcomes.verdicts.iter().take(10).collect();
    assert!(first.is_empty(), "{} faults, the first: {first:#?}", outcomes.verdicts.len());
    assert!(outcomes.acked > 0, "{outcomes:?}");
}
