//! The brokers that are compared.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use broker::cli::Client;
use rustix::process::{Pid, Signal, kill_process};

use crate::Options;

/// Which broker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// Apache Kafka, as its own start script runs it.
    Kafka,
    /// Kelda that answers acks=all once the kernel has the data, as Kafka does.
    PageCache,
    /// Kelda as it is by default: on the disk first.
    Fsync,
}

impl Kind {
    pub(crate) const ALL: &'static [Self] = &[Self::Kafka, Self::PageCache, Self::Fsync];

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "kafka" => Self::Kafka,
            "page-cache" => Self::PageCache,
            "fsync" => Self::Fsync,
            _ => bail!("{text}: expected kafka, page-cache or fsync"),
        })
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Kafka => "Apache Kafka 4.4.0",
            Self::PageCache => "Kelda, page cache",
            Self::Fsync => "Kelda, fsync",
        }
    }

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::PageCache => "kelda-page-cache",
            Self::Fsync => "kelda-fsync",
        }
    }
}

/// The script that runs Apache Kafka and its tools.
pub(crate) fn kafka_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kafka/kafka.sh")
}

/// A broker that runs.
#[derive(Debug)]
pub(crate) struct Broker {
    kind: Kind,
    directory: PathBuf,
    port: u16,
    kelda: PathBuf,
    child: Option<Child>,
}

impl Broker {
    /// Prepares an empty directory.
    pub(crate) fn new(options: &Options, kind: Kind) -> anyhow::Result<Self> {
        let directory = options.scratch.join(kind.key());
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory)?;
        if kind == Kind::Kafka {
            let status = Command::new(kafka_script())
                .arg("configure")
                .arg(&directory)
                .arg(options.port.to_string())
                .status()
                .context("kafka.sh configure")?;
            if !status.success() {
                bail!("Apache Kafka could not be configured");
            }
        }
        Ok(Self { kind, directory, port: options.port, kelda: options.kelda.clone(), child: None })
    }

    /// Where clients find it.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.child.as_ref().context("the broker does not run")?.id())
    }

    /// Starts it; the time until it answered Metadata with itself.
    pub(crate) fn start(&mut self) -> anyhow::Result<Duration> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = match self.kind {
            Kind::Kafka => {
                let mut command = Command::new(kafka_script());
                command.arg("run").arg(&self.directory);
                command
            }
            Kind::PageCache | Kind::Fsync => {
                let durability = if self.kind == Kind::Fsync { "fsync" } else { "page-cache" };
                let mut command = Command::new(&self.kelda);
                command.arg("serve");
                for value in [
                    format!("listeners=PLAINTEXT://127.0.0.1:{}", self.port),
                    format!("log.dirs={}", self.directory.join("data").display()),
                    format!("kelda.durability={durability}"),
                ] {
                    command.arg("--override").arg(value);
                }
                command
            }
        };
        let start = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting the broker")?;
        self.child = Some(child);
        self.wait_until_it_answers(start)
    }

    fn wait_until_it_answers(&mut self, start: Instant) -> anyhow::Result<Duration> {
        let deadline = start + Duration::from_secs(120);
        loop {
            if let Ok(mut client) = Client::connect(&self.bootstrap(), Duration::from_secs(30))
                && client.broker_count().is_ok_and(|count| count > 0)
            {
                return Ok(start.elapsed());
            }
            let child = self.child.as_mut().context("the broker does not run")?;
            if let Some(status) = child.try_wait()? {
                bail!("the broker ended with {status}: {}", self.last_lines());
            }
            if Instant::now() > deadline {
                bail!("the broker does not answer: {}", self.last_lines());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.join("broker.log")
    }

    fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// Kills it, as a crash of the process would.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.end(Signal::KILL)
    }

    /// Stops it cleanly.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        self.end(Signal::TERM)
    }

    fn end(&mut self, signal: Signal) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if child.try_wait()?.is_none()
            && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            kill_process(pid, signal)?;
        }
        child.wait()?;
        Ok(())
    }

    /// Bytes of it that are in memory.
    pub(crate) fn resident_mb(&self) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kilobytes * 1024.0 / 1e6)
    }

    /// CPU seconds that it has used.
    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks: f64 = times.filter_map(|field| field.parse::<f64>().ok()).sum();
        Ok(ticks / 100.0)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
