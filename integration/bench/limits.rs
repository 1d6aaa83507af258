//! What the machine itself can do, in the same run.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::bare;

/// The machine's limits.
#[derive(Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) cpus: usize,
    pub(crate) cpu_model: String,
    pub(crate) kernel: String,
    pub(crate) memory_gb: f64,
    /// One connection, one way, 64 KiB writes.
    pub(crate) loopback_mb_per_s: f64,
    /// Round trips of 64 bytes over one connection.
    pub(crate) loopback_round_trips_per_s: f64,
    pub(crate) loopback_round_trip_p999_ms: f64,
    /// 1 GiB written and synced once.
    pub(crate) disk_mb_per_s: f64,
    /// An append of 4 KiB and its fdatasync.
    pub(crate) fdatasync_p50_ms: f64,
    pub(crate) fdatasync_p99_ms: f64,
    /// A bare server: answers of 500 bytes for each of its CPU-seconds, and megabytes of answers from the page cache.
    pub(crate) bare_answers_per_cpu_s: f64,
    pub(crate) bare_64k_mb_per_cpu_s: f64,
    pub(crate) bare_1m_mb_per_cpu_s: f64,
}

impl Limits {
    pub(crate) fn summary(&self) -> String {
        format!(
            "{} x {}, {:.0} GB, Linux {}; loopback {:.0} MB/s, {:.0} round trips/s (p99.9 {:.3} ms); disk {:.0} MB/s, append and fdatasync p50 {:.3} ms, p99 {:.3} ms; a bare epoll server reaches {:.1} k answers of 500 B, {:.0} MB in answers of 64 KiB and {:.0} MB in answers of 1 MiB by sendfile for each of its CPU-seconds",
            self.cpus,
            self.cpu_model,
            self.memory_gb,
            self.kernel,
            self.loopback_mb_per_s,
            self.loopback_round_trips_per_s,
            self.loopback_round_trip_p999_ms,
            self.disk_mb_per_s,
            self.fdatasync_p50_ms,
            self.fdatasync_p99_ms,
            self.bare_answers_per_cpu_s / 1e3,
            self.bare_64k_mb_per_cpu_s,
            self.bare_1m_mb_per_cpu_s,
        )
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn field(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

pub(crate) fn measure(directory: &Path) -> anyhow::Result<Limits> {
    let (loopback_round_trips_per_s, loopback_round_trip_p999_ms) = round_trips()?;
    let (fdatasync_p50_ms, fdatasync_p99_ms) = syncs(directory)?;
    let path = directory.join("limit");
    std::fs::write(&path, vec![0x5a; 1 << 20])?;
    let bare = |answer, file| bare::measure(answer, file);
    let bare_answers_per_cpu_s = bare(500, None)?.answers_per_cpu_s;
    let bare_64k_mb_per_cpu_s = bare(64 << 10, Some(&*path))?.mb_per_cpu_s;
    let bare_1m_mb_per_cpu_s = bare(1 << 20, Some(&*path))?.mb_per_cpu_s;
    std::fs::remove_file(path)?;
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    Ok(Limits {
        cpus: std::thread::available_parallelism()?.get(),
        cpu_model: field(&read("/proc/cpuinfo"), "model name"),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        memory_gb: memory.trim_end_matches("kB").trim().parse::<f64>().unwrap_or(0.0) / 1e6,
        loopback_mb_per_s: stream()?,
        loopback_round_trips_per_s,
        loopback_round_trip_p999_ms,
        disk_mb_per_s: disk(directory)?,
        fdatasync_p50_ms,
        fdatasync_p99_ms,
        bare_answers_per_cpu_s,
        bare_64k_mb_per_cpu_s,
        bare_1m_mb_per_cpu_s,
    })
}

fn pair() -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

fn stream() -> anyhow::Result<f64> {
    let (mut one, mut other) = pair()?;
    let writer = std::thread::spawn(move || {
        let chunk = vec![0; 64 << 10];
        while one.write_all(&chunk).is_ok() {}
    });
    let mut buffer = vec![0; 1 << 20];
    let (start, mut bytes) = (Instant::now(), 0.0);
    while start.elapsed() < Duration::from_secs(1) {
        bytes += f64::from(u32::try_from(other.read(&mut buffer)?)?);
    }
    let rate = bytes / 1e6 / start.elapsed().as_secs_f64();
    drop(other);
    let _ = writer.join();
    Ok(rate)
}

fn round_trips() -> anyhow::Result<(f64, f64)> {
    let (mut one, mut other) = pair()?;
    let echo = std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while other.read_exact(&mut buffer).is_ok() && other.write_all(&buffer).is_ok() {}
    });
    let (start, mut times) = (Instant::now(), Vec::new());
    let mut buffer = [0; 64];
    while start.elapsed() < Duration::from_secs(1) {
        let sent = Instant::now();
        one.write_all(&buffer)?;
        one.read_exact(&mut buffer)?;
        times.push(sent.elapsed());
    }
    let rate = f64::from(u32::try_from(times.len())?) / start.elapsed().as_secs_f64();
    drop(one);
    let _ = echo.join();
    Ok((rate, quantile_ms(times, 999)))
}

fn disk(directory: &Path) -> anyhow::Result<f64> {
    let path = directory.join("limit");
    let mut file = File::create(&path)?;
    let chunk = vec![0x5a; 1 << 20];
    let start = Instant::now();
    for _ in 0..1024 {
        file.write_all(&chunk)?;
    }
    file.sync_data()?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(1024.0 * 1.048_576 / seconds)
}

fn syncs(directory: &Path) -> anyhow::Result<(f64, f64)> {
    let path = directory.join("limit");
    let mut file = File::create(&path)?;
    let chunk = vec![0x5a; 4096];
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        file.write_all(&chunk)?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok((quantile_ms(times.clone(), 500), quantile_ms(times, 990)))
}

/// A quantile in thousandths.
fn quantile_ms(mut times: Vec<Duration>, thousandths: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * thousandths / 1000).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
