//! Runs the connections of a load and measures a window of it.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::frames::FrameSet;
use super::worker::{Counters, Phase, Worker};
use super::{Common, process};
use crate::cli::CliError;

/// A load.
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) connections: usize,
    pub(super) in_flight: usize,
    /// From one request of a connection to its next; without, as fast as answers come.
    pub(super) interval: Option<Duration>,
    /// Requests of each connection.
    pub(super) limit: Option<u64>,
    /// What is sent, for each broker.
    pub(super) sets: Vec<(SocketAddr, Arc<FrameSet>)>,
}

/// What the measured window showed.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) records: f64,
    pub(super) bytes: f64,
    /// Nanoseconds.
    pub(super) latencies: Histogram<u64>,
    pub(super) broker: Option<Broker>,
    pub(super) generator_cpu_seconds: f64,
}

/// What the broker used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broker {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes_before: u64,
    pub(super) resident_bytes: u64,
}

type Handle = JoinHandle<std::io::Result<Histogram<u64>>>;

struct Running {
    phase: Arc<Phase>,
    counters: Vec<Arc<Counters>>,
    handles: Vec<Handle>,
}

impl Running {
    fn start(plan: &Plan) -> Result<Self, CliError> {
        let phase = Arc::new(Phase::default());
        phase.set(Phase::WARM_UP);
        let mut counters = Vec::new();
        let mut workers = Vec::new();
        for number in 0..plan.connections {
            let (address, set) = &plan.sets[number % plan.sets.len()];
            let counter = Arc::new(Counters::default());
            counters.push(Arc::clone(&counter));
            let worker =
                Worker::connect(*address, Arc::clone(set), number, Arc::clone(&phase), counter)
                    .map_err(|error| {
                        CliError::TimedOut(format!("cannot connect to {address}: {error}"))
                    })?;
            workers.push(worker);
        }
        let count = u32::try_from(plan.connections).unwrap_or(u32::MAX);
        let mut handles = Vec::new();
        for (number, worker) in workers.into_iter().enumerate() {
            let (in_flight, limit, interval) = (plan.in_flight, plan.limit, plan.interval);
            let offset = interval.unwrap_or_default() / count * u32::try_from(number).unwrap_or(0);
            let handle = std::thread::Builder::new()
                .name(format!("load-{number}"))
                .spawn(move || match interval {
                    Some(interval) => worker.run_paced(interval, offset),
                    None => worker.run(in_flight, limit),
                })
                .map_err(|error| CliError::Failed(error.to_string()))?;
            handles.push(handle);
        }
        Ok(Self { phase, counters, handles })
    }

    fn totals(&self) -> (u64, u64) {
        self.counters.iter().fold((0, 0), |(requests, bytes), counters| {
            (
                requests + counters.requests.load(Ordering::Relaxed),
                bytes + counters.bytes.load(Ordering::Relaxed),
            )
        })
    }

    fn has_failed(&self) -> bool {
        self.handles.iter().any(JoinHandle::is_finished)
    }

    fn join(self) -> Result<Histogram<u64>, CliError> {
        let mut all: Option<Histogram<u64>> = None;
        let mut failure = None;
        for handle in self.handles {
            match handle.join() {
                Ok(Ok(latencies)) => match &mut all {
                    Some(all) => {
                        all.add(latencies).map_err(|error| CliError::Failed(error.to_string()))?
                    }
                    None => all = Some(latencies),
                },
                Ok(Err(error)) => {
                    failure = Some(CliError::Failed(format!("a connection failed: {error}")))
                }
                Err(_) => {
                    failure = Some(CliError::Failed("a connection's thread panicked".to_owned()))
                }
            }
        }
        match (failure, all) {
            (None, Some(all)) => Ok(all),
            (Some(failure), _) => Err(failure),
            (None, None) => Err(CliError::Failed("there were no connections".to_owned())),
        }
    }
}

/// Runs a load that ends by itself.
pub(super) fn run_to_limit(plan: &Plan) -> Result<(), CliError> {
    Running::start(plan)?.join().map(|_| ())
}

/// Runs a load: warm-up, then the window that is measured.
pub(super) fn run(plan: &Plan, common: &Common) -> Result<Measured, CliError> {
    if let Some(pid) = common.pid
        && process::cpu(pid).is_none()
    {
        return Err(CliError::Usage(format!(
            "--pid {pid}: there is no such process on this machine"
        )));
    }
    let resident_bytes_before = common.pid.and_then(process::resident_bytes).unwrap_or(0);
    let running = Running::start(plan)?;
    watch(&running, plan, common, "warm-up", common.warmup());
    running.phase.set(Phase::MEASURE);
    let me = std::process::id();
    let start = Instant::now();
    let (requests, bytes) = running.totals();
    let (cpu, own_cpu) = (common.pid.and_then(process::cpu), process::cpu(me));
    watch(&running, plan, common, "measured", common.duration());
    let seconds = start.elapsed().as_secs_f64();
    let (requests_end, bytes_end) = running.totals();
    let (cpu_end, own_cpu_end) = (common.pid.and_then(process::cpu), process::cpu(me));
    let resident_bytes = common.pid.and_then(process::resident_bytes).unwrap_or(0);
    running.phase.set(Phase::STOP);
    let latencies = running.join()?;
    let used = |end: Option<Duration>, start: Option<Duration>| {
        Some(end?.saturating_sub(start?).as_secs_f64())
    };
    let requests = requests_end - requests;
    let first = &plan.sets[0].1;
    #[allow(clippy::cast_precision_loss, reason = "numbers to print")]
    let (requests_f, fetched) = (requests as f64, (bytes_end - bytes) as f64);
    #[allow(clippy::cast_precision_loss, reason = "numbers to print")]
    let (records, bytes) = if first.is_fetch {
        (fetched * first.records_per_byte, fetched)
    } else {
        (requests_f * first.records_per_request as f64, requests_f * first.bytes_per_request as f64)
    };
    Ok(Measured {
        seconds,
        requests,
        records,
        bytes,
        latencies,
        broker: used(cpu_end, cpu).map(|cpu_seconds| Broker {
            cpu_seconds,
            resident_bytes_before,
            resident_bytes,
        }),
        generator_cpu_seconds: used(own_cpu_end, own_cpu).unwrap_or(0.0),
    })
}

/// Waits, with a line each second; ends early when a connection did.
fn watch(running: &Running, plan: &Plan, common: &Common, what: &str, time: Duration) {
    let start = Instant::now();
    let (mut last, mut last_at) = (running.totals().0, start);
    while start.elapsed() < time && !running.has_failed() {
        let left = time.saturating_sub(start.elapsed());
        std::thread::sleep(left.min(Duration::from_secs(1)));
        if common.quiet || last_at.elapsed() < Duration::from_millis(900) {
            continue;
        }
        let requests = running.totals().0;
        #[allow(clippy::cast_precision_loss, reason = "numbers to print")]
        let rate = (requests - last) as f64 / last_at.elapsed().as_secs_f64();
        (last, last_at) = (requests, Instant::now());
        let mut line = std::io::stderr().lock();
        let _ = writeln!(
            line,
            "{}: {what} {:.0}/{:.0} s  {rate:.0} requests/s",
            plan.name,
            start.elapsed().as_secs_f64(),
            time.as_secs_f64(),
        );
    }
}
