//! `make bench`: Apache Kafka and Kelda side by side, on one machine, in one run.
//!
//! ```text
//!   broker.rs   starts and stops the brokers, one at a time, each on an empty directory
//!   loads.rs    what is measured, and the loads that measure it
//!   java.rs     Kafka's own performance tools as loads
//!   limits.rs   what loopback and disk of the machine can do      bare.rs   the least that a server can do on it
//!   report.rs   docs/bench/README.md and results.json      plot.rs   the picture
//! ```
//!
//! Rounds are interleaved: each round runs every broker once through all loads, in turn, so that what changes on the
//! machine in the meantime meets all of them. The table shows medians over the rounds.

mod bare;
mod broker;
mod java;
mod limits;
mod loads;
mod plot;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};

use broker::Kind;

/// What to run.
#[derive(Debug)]
struct Options {
    is_quick: bool,
    rounds: usize,
    brokers: Vec<Kind>,
    loads: Option<Vec<String>>,
    kelda: PathBuf,
    port: u16,
    out: PathBuf,
    scratch: PathBuf,
}

const USAGE: &str =
    "usage: bench [--quick] [--rounds N] [--brokers kafka,page-cache,fsync] [--loads NAME,...]
             [--kelda BINARY] [--port N] [--out DIR] [--scratch DIR]";

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut options = Self {
            is_quick: false,
            rounds: 0,
            brokers: Kind::ALL.to_vec(),
            loads: None,
            kelda: std::env::current_exe()?.with_file_name("kelda"),
            port: 29_092,
            out: PathBuf::from("docs/bench"),
            scratch: std::env::temp_dir().join(format!("kelda-bench-{}", std::process::id())),
        };
        while let Some(word) = words.next() {
            if word == "--quick" {
                options.is_quick = true;
                continue;
            }
            let value =
                words.next().with_context(|| format!("{word}: a value is missing\n{USAGE}"))?;
            match word.as_str() {
                "--rounds" => options.rounds = value.parse()?,
                "--brokers" => {
                    options.brokers =
                        value.split(',').map(Kind::parse).collect::<Result<_, _>>()?;
                }
                "--loads" => options.loads = Some(value.split(',').map(str::to_owned).collect()),
                "--kelda" => options.kelda = value.into(),
                "--port" => options.port = value.parse()?,
                "--out" => options.out = value.into(),
                "--scratch" => options.scratch = value.into(),
                _ => bail!("{word}: unknown option\n{USAGE}"),
            }
        }
        if options.rounds == 0 {
            options.rounds = if options.is_quick { 1 } else { 3 };
        }
        Ok(options)
    }

    fn wants(&self, load: &str) -> bool {
        self.loads.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == load))
    }
}

/// Values of each metric, one a round, for each broker.
type Results = BTreeMap<Kind, BTreeMap<&'static str, Vec<f64>>>;

fn main() -> anyhow::Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    if options.brokers.iter().any(|kind| *kind != Kind::Kafka) && !options.kelda.exists() {
        bail!(
            "{} is not there: build it first with cargo build --release",
            options.kelda.display()
        );
    }
    std::fs::create_dir_all(&options.scratch)?;
    let ended = run(&options);
    let _ = std::fs::remove_dir_all(&options.scratch);
    ended
}

fn run(options: &Options) -> anyhow::Result<()> {
    let limits = limits::measure(&options.scratch)?;
    eprintln!("machine: {}", limits.summary());
    let mut results = Results::new();
    for round in 0..options.rounds {
        for at in 0..options.brokers.len() {
            // Each round begins with another broker.
            let kind = options.brokers[(round + at) % options.brokers.len()];
            eprintln!("round {} of {}: {}", round + 1, options.rounds, kind.title());
            let values = results.entry(kind).or_default();
            if let Err(error) = loads::run_all(options, kind, values) {
                eprintln!("  {} failed: {error:#}", kind.title());
            }
        }
        // After each round, so that what was measured is not lost with a later one.
        report::write(options, round + 1, &limits, &results)?;
    }
    eprintln!("written: {}", options.out.join("README.md").display());
    Ok(())
}
