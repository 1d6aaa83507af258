//! `killloop ROUNDS [SEED]`: kills a broker ROUNDS times under load and says whether anything acknowledged was lost.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(200);
    let seed = arguments.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(1, |since| u64::from(since.subsec_nanos()))
    });
    println!("seed {seed}");
    match integration::killloop::run(rounds, seed, &[]) {
        Ok(outcomes) => {
            println!(
                "{} kills, {} records acknowledged, {} batches sent again, back within {} ms at most",
                outcomes.rounds,
                outcomes.acked,
                outcomes.resent,
                outcomes.restart_max.as_millis()
            );
            for verdict in outcomes.verdicts.iter().take(20) {
                println!("{verdict}");
            }
            println!("{} faults", outcomes.verdicts.len());
            if outcomes.verdicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
