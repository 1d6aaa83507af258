//! What is measured, and how.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::broker::{Broker, Kind};
use crate::{Options, java};

/// One number of the table.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Load and number, such as `produce-500.records`.
    pub(crate) id: &'static str,
    /// The load, for people.
    pub(crate) load: &'static str,
    /// The number, for people.
    pub(crate) what: &'static str,
    /// Whether more is better.
    pub(crate) is_more_better: bool,
    /// What Kelda is to reach with page-cache durability.
    pub(crate) goal: f64,
}

const fn metric(
    id: &'static str,
    load: &'static str,
    what: &'static str,
    is_more_better: bool,
    goal: f64,
) -> Metric {
    Metric { id, load, what, is_more_better, goal }
}

/// All numbers, in the order of the table. Records hold 100 bytes unless said.
pub(crate) const METRICS: &[Metric] = &[
    metric(
        "produce-500.records",
        "500 a batch, acks=1, 2 connections x 5 in flight",
        "records per CPU-second",
        true,
        6.5e6,
    ),
    metric(
        "produce-150.records",
        "150 a batch, acks=all, 2 x 5",
        "records per CPU-second",
        true,
        5e6,
    ),
    metric("produce-150.rate", "150 a batch, acks=all, 2 x 5", "records per second", true, 0.0),
    metric("produce-150.p999", "150 a batch, acks=all, 2 x 5", "p99.9 ms", false, 3.0),
    metric(
        "produce-1.requests",
        "1 a batch, acks=1, 2 x 20",
        "requests per CPU-second",
        true,
        100e3,
    ),
    metric("single.requests", "1 a batch, acks=all, 2 x 1", "requests per second", true, 25e3),
    metric("single.p999", "1 a batch, acks=all, 2 x 1", "p99.9 ms", false, 0.6),
    metric(
        "multi.requests",
        "10 a batch, 3 partitions a request, acks=all, 2 x 5",
        "requests per CPU-second",
        true,
        50e3,
    ),
    metric("paced.p99", "4 x 500 requests/s of 10, acks=all", "p99 ms", false, 0.4),
    metric("paced.p999", "4 x 500 requests/s of 10, acks=all", "p99.9 ms", false, 1.2),
    metric("paced.cpu", "4 x 500 requests/s of 10, acks=all", "CPU seconds in 5 s", false, 0.4),
    metric("lz4.records", "lz4, 500 a batch, acks=1, 2 x 5", "records per CPU-second", true, 6e6),
    metric(
        "fetch-1m.mb",
        "fetch from page cache, 1 MiB a partition",
        "MB per CPU-second",
        true,
        3500.0,
    ),
    metric(
        "fetch-64k.mb",
        "fetch from page cache, 64 KiB a partition",
        "MB per CPU-second",
        true,
        1900.0,
    ),
    metric(
        "ping.requests",
        "ApiVersions ping-pong, 2 connections",
        "requests per CPU-second",
        true,
        100e3,
    ),
    metric("java-produce.cpu", "Java ProducerPerformance, 5 M records", "CPU seconds", false, 1.2),
    metric(
        "java-single.rate",
        "Java ProducerPerformance, batch.size=1, 300 k",
        "requests per second",
        true,
        35e3,
    ),
    metric(
        "java-single.cpu",
        "Java ProducerPerformance, batch.size=1, 300 k",
        "CPU seconds",
        false,
        2.0,
    ),
    metric("java-consume.cpu", "Java ConsumerPerformance, 11 M records", "CPU seconds", false, 0.4),
    metric(
        "stream.p99",
        "100,000 records/s of 1 KiB, acks=all, as much read beside",
        "p99 ms",
        false,
        3.0,
    ),
    metric(
        "start.ms",
        "start on an empty directory",
        "ms to the first Metadata answer",
        false,
        20.0,
    ),
    metric("memory.idle", "memory after the start", "MB", false, 12.0),
    metric("memory.after", "memory after these loads", "MB", false, 50.0),
    metric(
        "restart.s",
        "restart after kill -9, 8 GB in 20 partitions",
        "s until it serves",
        false,
        0.3,
    ),
];

/// Numbers of one broker: one a round.
type Values = BTreeMap<&'static str, Vec<f64>>;

struct Session<'a> {
    options: &'a Options,
    broker: Broker,
    values: &'a mut Values,
}

/// Runs all loads on one broker.
pub(crate) fn run_all(options: &Options, kind: Kind, values: &mut Values) -> anyhow::Result<()> {
    let mut broker = Broker::new(options, kind)?;
    let took = broker.start()?;
    let mut session = Session { options, broker, values };
    session.note("start.ms", took.as_secs_f64() * 1e3);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let idle = session.broker.resident_mb()?;
    session.note("memory.idle", idle);
    session.warm_up(kind)?;
    for load in LOADS {
        if !options.wants(load.name) {
            continue;
        }
        // What the loads before left to be written would be written at this one's cost.
        rustix::fs::sync();
        if let Err(error) = (load.run)(&mut session) {
            eprintln!("  {}: failed: {error:#}", load.name);
        }
    }
    let after = session.broker.resident_mb()?;
    session.note("memory.after", after);
    if options.wants("restart")
        && let Err(error) = session.restart()
    {
        eprintln!("  restart: failed: {error:#}");
    }
    session.broker.stop()
}

struct Load {
    name: &'static str,
    run: fn(&mut Session<'_>) -> anyhow::Result<()>,
}

const LOADS: &[Load] = &[
    Load {
        name: "produce-500",
        run: |session| {
            let found =
                session.bench(&["produce", "-r", "500", "-a", "1", "-n", "2", "-i", "5"])?;
            session.note_from("produce-500.records", &found, "/broker/records_per_cpu_s")
        },
    },
    Load {
        name: "produce-150",
        run: |session| {
            let found =
                session.bench(&["produce", "-r", "150", "-a", "all", "-n", "2", "-i", "5"])?;
            session.note_from("produce-150.records", &found, "/broker/records_per_cpu_s")?;
            session.note_from("produce-150.rate", &found, "/records_per_s")?;
            session.note_from("produce-150.p999", &found, "/latency_ms/p99_9")
        },
    },
    Load {
        name: "produce-1",
        run: |session| {
            let found = session.bench(&["produce", "-r", "1", "-a", "1", "-n", "2", "-i", "20"])?;
            session.note_from("produce-1.requests", &found, "/broker/requests_per_cpu_s")
        },
    },
    Load {
        name: "single",
        run: |session| {
            let found =
                session.bench(&["produce", "-r", "1", "-a", "all", "-n", "2", "-i", "1"])?;
            session.note_from("single.requests", &found, "/requests_per_s")?;
            session.note_from("single.p999", &found, "/latency_ms/p99_9")
        },
    },
    Load {
        name: "multi",
        run: |session| {
            let found = session.bench(&[
                "produce",
                "-r",
                "10",
                "-a",
                "all",
                "-n",
                "2",
                "-i",
                "5",
                "-p",
                "6",
                "--partitions-per-request",
                "3",
            ])?;
            session.note_from("multi.requests", &found, "/broker/requests_per_cpu_s")
        },
    },
    Load {
        name: "paced",
        run: |session| {
            let found = session.bench_for(
                5.0,
                &["paced", "-n", "4", "--rate", "500", "-r", "10", "-a", "all", "-p", "4"],
            )?;
            session.note_from("paced.p99", &found, "/latency_ms/p99")?;
            session.note_from("paced.p999", &found, "/latency_ms/p99_9")?;
            session.note_from("paced.cpu", &found, "/broker/cpu_seconds")
        },
    },
    Load {
        name: "lz4",
        run: |session| {
            let found = session
                .bench(&["produce", "-r", "500", "-a", "1", "-n", "2", "-i", "5", "-z", "lz4"])?;
            session.note_from("lz4.records", &found, "/broker/records_per_cpu_s")
        },
    },
    Load {
        name: "fetch-1m",
        run: |session| {
            let found = session.bench(&["fetch", "--partition-max-bytes", "1048576", "-n", "2"])?;
            session.note_from("fetch-1m.mb", &found, "/broker/mb_per_cpu_s")
        },
    },
    Load {
        name: "fetch-64k",
        run: |session| {
            let found = session.bench(&["fetch", "--partition-max-bytes", "65536", "-n", "2"])?;
            session.note_from("fetch-64k.mb", &found, "/broker/mb_per_cpu_s")
        },
    },
    Load {
        name: "ping",
        run: |session| {
            let found = session.bench(&["requests", "-n", "2", "-i", "1"])?;
            session.note_from("ping.requests", &found, "/broker/requests_per_cpu_s")
        },
    },
    Load { name: "stream", run: |session| session.stream() },
    Load {
        name: "java-produce",
        run: |session| {
            session.topic("java-produce")?;
            let records = session.scaled(5_000_000);
            let (_, cpu) = java::produce(&session.broker, "java-produce", records, &[])?;
            session.note("java-produce.cpu", session.unscaled(cpu));
            Ok(())
        },
    },
    Load {
        name: "java-single",
        run: |session| {
            session.topic("java-single")?;
            let records = session.scaled(300_000);
            let (rate, cpu) =
                java::produce(&session.broker, "java-single", records, &["batch.size=1"])?;
            session.note("java-single.rate", rate);
            session.note("java-single.cpu", session.unscaled(cpu));
            Ok(())
        },
    },
    Load {
        name: "java-consume",
        run: |session| {
            let megabytes = session.scaled(1250).to_string();
            session.kelda(&[
                "bench",
                "fetch",
                "--topic",
                "java-consume",
                "-p",
                "2",
                "--preload-mb",
                &megabytes,
                "-d",
                "0.1",
                "-w",
                "0",
            ])?;
            let cpu = java::consume(&session.broker, "java-consume", session.scaled(11_000_000))?;
            session.note("java-consume.cpu", session.unscaled(cpu));
            Ok(())
        },
    },
];

impl Session<'_> {
    fn note(&mut self, id: &'static str, value: f64) {
        eprintln!("  {id:<24} {value:.3}");
        self.values.entry(id).or_default().push(value);
    }

    fn note_from(&mut self, id: &'static str, found: &Value, pointer: &str) -> anyhow::Result<()> {
        let value = found.pointer(pointer).and_then(Value::as_f64);
        self.note(id, value.with_context(|| format!("{pointer} is missing in {found}"))?);
        Ok(())
    }

    /// A quarter of the records where it must be quick; the numbers are scaled back.
    fn scaled(&self, count: u64) -> u64 {
        if self.options.is_quick { count / 4 } else { count }
    }

    fn unscaled(&self, value: f64) -> f64 {
        if self.options.is_quick { value * 4.0 } else { value }
    }

    fn kelda(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.options.kelda)
            .args(arguments)
            .env("KAFKA_BOOTSTRAP_SERVERS", self.broker.bootstrap())
            .stdin(Stdio::null())
            .output()
            .with_context(|| self.options.kelda.display().to_string())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("{}", text.trim().lines().take(3).collect::<Vec<_>>().join(" | "));
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    fn topic(&self, name: &str) -> anyhow::Result<()> {
        self.kelda(&["topic", "create", name, "-p", "2", "--if-not-exists"]).map(|_| ())
    }

    fn bench(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        self.bench_for(if self.options.is_quick { 2.0 } else { 5.0 }, arguments)
    }

    fn bench_for(&self, seconds: f64, arguments: &[&str]) -> anyhow::Result<Value> {
        let (pid, seconds) = (self.broker.pid()?.to_string(), seconds.to_string());
        let warm_up = if self.options.is_quick { "1" } else { "2" };
        let mut all = vec!["bench"];
        all.extend(arguments);
        all.extend(["--pid", &pid, "-d", &seconds, "-w", warm_up, "--quiet", "--json"]);
        if arguments[0] != "requests" {
            // Data of a load that is over goes at once, instead of being written back beside the next.
            all.extend(["--topic-config", "file.delete.delay.ms=0"]);
        }
        let text = self.kelda(&all)?;
        serde_json::from_str(&text).with_context(|| text.clone())
    }

    /// A JVM compiles what runs often: it is measured only after it had the time.
    fn warm_up(&self, kind: Kind) -> anyhow::Result<()> {
        let seconds = match (kind, self.options.is_quick) {
            (Kind::Kafka, false) => 8.0,
            (Kind::Kafka, true) => 3.0,
            _ => 1.0,
        };
        for load in [
            &["produce", "-r", "150", "-a", "all"][..],
            &["produce", "-r", "1", "-a", "1", "-i", "20"],
            &["fetch", "--partition-max-bytes", "65536"],
        ] {
            self.bench_for(seconds, load)?;
        }
        Ok(())
    }

    /// 100 requests of 1 KiB records a batch, 1000 requests a second; another process reads at the same rate.
    fn stream(&mut self) -> anyhow::Result<()> {
        let seconds = if self.options.is_quick { "4" } else { "8" };
        let reader = Command::new(&self.options.kelda)
            .args([
                "bench",
                "fetch",
                "-n",
                "1",
                "--rate",
                "100",
                "-s",
                "1024",
                "-r",
                "100",
                "--preload-mb",
                "128",
            ])
            .args(["-d", seconds, "-w", "1", "--quiet", "--json"])
            .env("KAFKA_BOOTSTRAP_SERVERS", self.broker.bootstrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let found = self.bench(&[
            "paced", "-n", "4", "--rate", "250", "-r", "100", "-s", "1024", "-a", "all", "-p", "4",
        ]);
        let mut reader = reader;
        reader.wait()?;
        let found = found?;
        let rate = found.pointer("/records_per_s").and_then(Value::as_f64).unwrap_or(0.0);
        if rate < 95_000.0 {
            eprintln!("  stream: only {rate:.0} records/s were taken");
        }
        self.note_from("stream.p99", &found, "/latency_ms/p99")
    }

    fn restart(&mut self) -> anyhow::Result<()> {
        let megabytes = self.scaled(8192).to_string();
        self.kelda(&[
            "bench",
            "fetch",
            "--topic",
            "restart",
            "-p",
            "20",
            "--preload-mb",
            &megabytes,
            "-d",
            "0.1",
            "-w",
            "0",
            "--quiet",
        ])?;
        self.broker.kill()?;
        let start = Instant::now();
        self.broker.start()?;
        broker::bench::wait_until_served(&self.broker.bootstrap(), "restart")
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        self.note("restart.s", start.elapsed().as_secs_f64());
        Ok(())
    }
}
