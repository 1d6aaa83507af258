//! `kelda bench`: a lean load generator for any Kafka broker.
//!
//! ```text
//!   cluster.rs   makes the topic, finds the leaders
//!   frames.rs    encodes all requests once; a load sends the same bytes again and again
//!   worker.rs    one thread and one blocking socket for each connection: a write for all free slots, a read for all answers
//!   run.rs       warm-up, measured window, progress line, CPU and memory of the broker at both ends of the window
//!   report.rs    numbers, as text or JSON
//! ```
//!
//! The generator must cost far less than what it measures: no record is encoded while it runs, answers are checked at
//! fixed places, and what a Fetch brings is copied once, into one buffer. It reports its own CPU time beside the broker's.

mod cluster;
mod connections;
mod frames;
mod process;
mod report;
mod run;
mod worker;

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use protocol_compat::compression::Codec;

use crate::cli::CliError;
use frames::{FetchShape, ProduceShape};

pub use cluster::wait_until_served;

/// Loads a broker and measures it.
#[derive(Debug, Args)]
pub struct Bench {
    #[command(subcommand)]
    load: Load,
}

#[derive(Debug, Subcommand)]
enum Load {
    /// Produce as fast as the broker answers.
    Produce(Produce),
    /// Fetch what was just produced, as fast as the broker answers.
    Fetch(Fetch),
    /// Small requests that touch no data.
    Requests(Requests),
    /// Produce at a fixed rate, for latency.
    Paced(Paced),
    /// Many connections with little to do.
    Connections(Connections),
    /// Produce to many partitions.
    Partitions(Partitions),
}

#[derive(Clone, Debug, Args)]
struct Common {
    /// Brokers to ask first, as HOST:PORT with commas between.
    #[arg(
        long,
        short,
        visible_alias = "bootstrap-server",
        env = "KAFKA_BOOTSTRAP_SERVERS",
        default_value = "localhost:9092"
    )]
    bootstrap: String,
    /// Seconds that are measured.
    #[arg(long, short, default_value_t = 10.0)]
    duration: f64,
    /// Seconds before them.
    #[arg(long, short, default_value_t = 2.0)]
    warmup: f64,
    /// Process id of the broker, where it runs on this machine: its CPU time and memory are measured.
    #[arg(long)]
    pid: Option<u32>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// No progress line.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Debug, Args)]
struct TopicArgs {
    /// Topic to use; it is made where it is not there. Without: one of its own, deleted in the end.
    #[arg(long)]
    topic: Option<String>,
    /// Config of a topic that is made, such as kelda.durability=page-cache. May be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    topic_config: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum AcksArg {
    /// No answer.
    #[value(name = "0")]
    Zero,
    /// The leader has it.
    #[value(name = "1")]
    One,
    /// All replicas in sync have it.
    #[value(name = "all", alias = "-1")]
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Api {
    /// ApiVersions.
    ApiVersions,
    /// Metadata of no topic.
    Metadata,
}

#[derive(Clone, Debug, Args)]
struct BatchArgs {
    /// Records of each batch.
    #[arg(long, short, default_value_t = 500)]
    records: usize,
    /// Bytes of each record's value.
    #[arg(long, short, default_value_t = 100)]
    size: usize,
    /// When a produce counts as done.
    #[arg(long, short, value_enum, default_value = "1")]
    acks: AcksArg,
    /// Codec of the batches: none, gzip, snappy, lz4 or zstd.
    #[arg(long, short = 'z', default_value = "none", value_parser = codec)]
    compression: Codec,
}

#[derive(Clone, Debug, Args)]
struct Produce {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    topic: TopicArgs,
    #[command(flatten)]
    batch: BatchArgs,
    /// Connections.
    #[arg(long, short = 'n', default_value_t = 2)]
    connections: usize,
    /// Requests that each connection sends ahead of their answers.
    #[arg(long, short = 'i', default_value_t = 5)]
    in_flight: usize,
    /// Partitions of the topic.
    #[arg(long, short, default_value_t = 2)]
    partitions: i32,
    /// Partitions that each request writes to.
    #[arg(long, default_value_t = 1)]
    partitions_per_request: usize,
}

#[derive(Clone, Debug, Args)]
struct Paced {
    #[command(flatten)]
    produce: Produce,
    /// Requests per second of each connection.
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
}

#[derive(Clone, Debug, Args)]
struct Fetch {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    topic: TopicArgs,
    #[command(flatten)]
    batch: BatchArgs,
    /// Connections.
    #[arg(long, short = 'n', default_value_t = 2)]
    connections: usize,
    /// Requests that each connection sends ahead of their answers.
    #[arg(long, short = 'i', default_value_t = 1)]
    in_flight: usize,
    /// Partitions of the topic.
    #[arg(long, short, default_value_t = 2)]
    partitions: i32,
    /// Partitions that each request reads.
    #[arg(long, default_value_t = 1)]
    partitions_per_request: usize,
    /// Most bytes of each partition in an answer.
    #[arg(long, default_value_t = 1 << 20)]
    partition_max_bytes: i32,
    /// Megabytes to write to the topic first.
    #[arg(long, default_value_t = 256)]
    preload_mb: usize,
    /// Requests per second of each connection; as fast as the broker answers without.
    #[arg(long)]
    rate: Option<f64>,
    /// Have the kernel drop the data instead of copying it once, as a client would: a reader that is never slow.
    #[arg(long)]
    discard: bool,
}

#[derive(Clone, Debug, Args)]
struct Requests {
    #[command(flatten)]
    common: Common,
    /// Which request.
    #[arg(long, value_enum, default_value = "api-versions")]
    api: Api,
    /// Connections.
    #[arg(long, short = 'n', default_value_t = 2)]
    connections: usize,
    /// Requests that each connection sends ahead of their answers.
    #[arg(long, short = 'i', default_value_t = 1)]
    in_flight: usize,
}

#[derive(Clone, Debug, Args)]
struct Connections {
    #[command(flatten)]
    common: Common,
    /// Connections to hold open.
    #[arg(long, short = 'n', default_value_t = 5000)]
    connections: usize,
    /// Requests per second, over all of them in turn.
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
}

#[derive(Clone, Debug, Args)]
struct Partitions {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    topic: TopicArgs,
    /// Partitions of the topic.
    #[arg(long, short, default_value_t = 1000)]
    partitions: i32,
    /// Partitions that each request writes to.
    #[arg(long, default_value_t = 100)]
    partitions_per_request: usize,
    /// Records of each batch.
    #[arg(long, short, default_value_t = 1)]
    records: usize,
    /// Bytes of each record's value.
    #[arg(long, short, default_value_t = 100)]
    size: usize,
    /// When a produce counts as done.
    #[arg(long, short, value_enum, default_value = "all")]
    acks: AcksArg,
    /// Connections.
    #[arg(long, short = 'n', default_value_t = 2)]
    connections: usize,
    /// Requests that each connection sends ahead of their answers.
    #[arg(long, short = 'i', default_value_t = 2)]
    in_flight: usize,
}

fn codec(text: &str) -> Result<Codec, String> {
    Codec::from_name(text).ok_or_else(|| "expected none, gzip, snappy, lz4 or zstd".to_owned())
}

fn interval(rate: f64) -> Result<Duration, CliError> {
    if rate > 0.0 && rate <= 1e6 {
        Ok(Duration::from_secs_f64(1.0 / rate))
    } else {
        Err(CliError::Usage("--rate: expected requests per second".to_owned()))
    }
}

impl AcksArg {
    fn wire(self) -> i16 {
        match self {
            Self::Zero => 0,
            Self::One => 1,
            Self::All => -1,
        }
    }
}

impl Common {
    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.duration.clamp(0.1, 86_400.0))
    }

    fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup.clamp(0.0, 86_400.0))
    }
}

impl Bench {
    /// Runs the load.
    ///
    /// # Errors
    /// The broker cannot be reached, or answers with errors.
    pub fn run(self) -> Result<(), CliError> {
        match self.load {
            Load::Produce(produce) => produce.run("produce", None),
            Load::Paced(paced) => {
                let interval = interval(paced.rate)?;
                paced.produce.run("paced", Some(interval))
            }
            Load::Partitions(partitions) => Produce {
                common: partitions.common,
                topic: partitions.topic,
                batch: BatchArgs {
                    records: partitions.records,
                    size: partitions.size,
                    acks: partitions.acks,
                    compression: Codec::None,
                },
                connections: partitions.connections,
                in_flight: partitions.in_flight,
                partitions: partitions.partitions,
                partitions_per_request: partitions.partitions_per_request,
            }
            .run("partitions", None),
            Load::Fetch(fetch) => fetch.run(),
            Load::Requests(requests) => requests.run(),
            Load::Connections(connections) => connections.run(),
        }
    }
}

impl Produce {
    fn shape(&self) -> ProduceShape {
        ProduceShape {
            records: self.batch.records.max(1),
            size_bytes: self.batch.size,
            acks: self.batch.acks.wire(),
            compression: self.batch.compression,
            partitions_per_request: self.partitions_per_request.max(1),
        }
    }

    fn run(self, name: &str, interval: Option<Duration>) -> Result<(), CliError> {
        let shape = self.shape();
        let topic = cluster::Topic::open(&self.common.bootstrap, &self.topic, self.partitions)?;
        let plan = run::Plan {
            name: name.to_owned(),
            connections: self.connections.max(1),
            in_flight: self.in_flight.max(1),
            interval,
            limit: None,
            sets: topic.each_leader(|partitions| {
                frames::produce(&topic.name, partitions, &shape, self.in_flight)
            })?,
        };
        let measured = run::run(&plan, &self.common)?;
        report::print(&plan.name, &measured, &self.common);
        topic.close()
    }
}

impl Fetch {
    fn run(self) -> Result<(), CliError> {
        let topic = cluster::Topic::open(&self.common.bootstrap, &self.topic, self.partitions)?;
        let shape = ProduceShape {
            records: self.batch.records.max(1),
            size_bytes: self.batch.size,
            acks: 1,
            compression: self.batch.compression,
            partitions_per_request: 1,
        };
        let mut batches = 0;
        let sets = topic.each_leader(|partitions| {
            let set = frames::produce(&topic.name, partitions, &shape, 5)?;
            batches = (self.preload_mb << 20).div_ceil(set.bytes_per_request.max(1))
                / partitions.len().max(1);
            Ok(set)
        })?;
        let batches = batches.max(1);
        // One connection, so that each partition gets the same number of batches.
        let limit = Some(u64::try_from(batches * topic.partition_count()).unwrap_or(u64::MAX));
        let preload = run::Plan {
            name: "preload".to_owned(),
            connections: sets.len(),
            in_flight: 5,
            interval: None,
            limit,
            sets,
        };
        run::run_to_limit(&preload)?;
        let batch_bytes = preload.sets.first().map_or(1, |(_, set)| set.bytes_per_request);
        let fetch = FetchShape {
            partitions_per_request: self.partitions_per_request.max(1),
            partition_max_bytes: self.partition_max_bytes,
            is_discarding: self.discard,
            batches,
            records_per_batch: shape.records,
            batch_bytes,
        };
        let plan = run::Plan {
            name: "fetch".to_owned(),
            connections: self.connections.max(1),
            in_flight: self.in_flight.max(1),
            interval: self.rate.map(interval).transpose()?,
            limit: None,
            sets: topic.each_leader(|partitions| {
                frames::fetch(&topic.name, partitions, &fetch, self.in_flight)
            })?,
        };
        let measured = run::run(&plan, &self.common)?;
        report::print(&plan.name, &measured, &self.common);
        topic.close()
    }
}

impl Requests {
    fn run(self) -> Result<(), CliError> {
        let address = cluster::first_address(&self.common.bootstrap)?;
        let set = match self.api {
            Api::ApiVersions => frames::api_versions(self.in_flight),
            Api::Metadata => frames::metadata(self.in_flight),
        }?;
        let plan = run::Plan {
            name: "requests".to_owned(),
            connections: self.connections.max(1),
            in_flight: self.in_flight.max(1),
            interval: None,
            limit: None,
            sets: vec![(address, std::sync::Arc::new(set))],
        };
        let measured = run::run(&plan, &self.common)?;
        report::print(&plan.name, &measured, &self.common);
        Ok(())
    }
}
