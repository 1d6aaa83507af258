//! Many connections with little to do: what each costs the broker.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;

use super::{Connections, cluster, frames, process};
use crate::cli::CliError;

impl Connections {
    /// Opens all connections, asks ApiVersions on each, then asks one after another at the given rate.
    pub(super) fn run(self) -> Result<(), CliError> {
        raise_descriptor_limit();
        let address = cluster::first_address(&self.common.bootstrap)?;
        let set = frames::api_versions(1)?;
        let (request, _) = set.slice(0, 1);
        let resident = || self.common.pid.and_then(process::resident_bytes).unwrap_or(0);
        let cpu = || self.common.pid.and_then(process::cpu).unwrap_or_default();
        let failed = |error: std::io::Error| CliError::Failed(format!("{address}: {error}"));
        let (resident_before, cpu_before, start) = (resident(), cpu(), Instant::now());
        let mut open = Vec::with_capacity(self.connections);
        for number in 0..self.connections {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(30))
                .map_err(|error| {
                    CliError::Failed(format!("{address} took {number} connections, then: {error}"))
                })?;
            stream.set_nodelay(true).map_err(failed)?;
            stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(failed)?;
            ask(&mut stream, request).map_err(failed)?;
            open.push(stream);
            if !self.common.quiet && (number + 1).is_multiple_of(1000) {
                eprintln!("connections: {} open", number + 1);
            }
        }
        let opened = start.elapsed();
        let (resident_open, cpu_open) = (resident(), cpu());
        let mut latencies = Histogram::<u64>::new_with_bounds(1, 120_000_000_000, 3)
            .map_err(|error| CliError::Failed(error.to_string()))?;
        let interval = Duration::from_secs_f64(1.0 / self.rate.clamp(0.1, 1e6));
        let (start, mut due) = (Instant::now(), Instant::now());
        while start.elapsed() < self.common.duration() && !open.is_empty() {
            for stream in &mut open {
                if start.elapsed() >= self.common.duration() {
                    break;
                }
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let sent = Instant::now();
                ask(stream, request).map_err(failed)?;
                latencies.saturating_record(
                    u64::try_from(sent.elapsed().as_nanos()).unwrap_or(u64::MAX),
                );
                due += interval;
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "numbers to print")]
        let ms = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e6;
        #[allow(clippy::cast_precision_loss, reason = "numbers to print")]
        let (count, grown) =
            (self.connections.max(1) as f64, resident_open.saturating_sub(resident_before) as f64);
        let opening_cpu = (cpu_open - cpu_before).as_secs_f64();
        let idle_cpu = (cpu() - cpu_open).as_secs_f64();
        if self.common.json {
            println!(
                "{}",
                json!({
                    "load": "connections",
                    "connections": self.connections,
                    "opened_per_s": count / opened.as_secs_f64(),
                    "seconds": seconds,
                    "requests": latencies.len(),
                    "latency_ms": {"p50": ms(0.5), "p99": ms(0.99), "p99_9": ms(0.999), "max": ms(1.0)},
                    "broker": {
                        "opening_cpu_seconds": opening_cpu,
                        "cpu_seconds": idle_cpu,
                        "bytes_per_connection": grown / count,
                    },
                })
            );
        } else {
            println!(
                "connections: {} open, {:.0} opened/s\n  latency ms  p50 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}",
                self.connections,
                count / opened.as_secs_f64(),
                ms(0.5),
                ms(0.99),
                ms(0.999),
                ms(1.0),
            );
            if self.common.pid.is_some() {
                println!(
                    "  broker: {opening_cpu:.2} CPU s for opening, {idle_cpu:.2} in {seconds:.0} s after  {:.0} bytes per connection",
                    grown / count,
                );
            }
        }
        Ok(())
    }
}

/// One request and its answer.
fn ask(stream: &mut TcpStream, request: &[u8]) -> std::io::Result<()> {
    stream.write_all(request)?;
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if size > 1 << 20 {
        return Err(std::io::Error::other("an answer has an impossible size"));
    }
    let mut answer = vec![0; size];
    stream.read_exact(&mut answer)
}

fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is not allowed, the connection that is too many says so.
    let _ = setrlimit(Resource::Nofile, limit);
}
