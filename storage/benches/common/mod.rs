//! Clocks and counters that the experiments share.
#![allow(dead_code, reason = "each experiment uses a part")]
#![allow(unsafe_code, reason = "resource usage has no safe door in the standard library")]

use std::fs;
use std::mem::MaybeUninit;
use std::time::Duration;

/// CPU time of this process with all its threads; the ring's kernel workers are among them.
pub(crate) fn process_cpu() -> Duration {
    usage(libc::RUSAGE_SELF).0
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    usage(libc::RUSAGE_THREAD).0
}

/// Context switches of this process.
pub(crate) fn switches() -> i64 {
    usage(libc::RUSAGE_SELF).1
}

fn usage(who: libc::c_int) -> (Duration, i64) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure that we own.
    unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    // SAFETY: all zeros is a valid value.
    let usage = unsafe { usage.assume_init() };
    let of = |time: libc::timeval| {
        Duration::from_micros(u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0))
    };
    (of(usage.ru_utime) + of(usage.ru_stime), usage.ru_nvcsw + usage.ru_nivcsw)
}

/// CPU time of the whole machine since its start, as the kernel counts it in ticks: it includes the threads of the kernel
/// that write back and commit journals, and alas all other processes. Take the least of several rounds.
pub(crate) fn machine_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let mut next = || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let (user, nice, system) = (next(), next(), next());
    let (_idle, _wait, irq, soft_irq) = (next(), next(), next(), next());
    Duration::from_millis(10 * (user + nice + system + irq + soft_irq))
}

/// The value below which `share` of the samples lie.
pub(crate) fn percentile(samples: &mut [Duration], share: f64) -> Duration {
    if samples.is_empty() {
        return Duration::ZERO;
    }
    samples.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let index = ((samples.len() as f64 * share) as usize).min(samples.len() - 1);
    samples[index]
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// The least.
pub(crate) fn least(values: Vec<f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// `name=value` among the program's arguments.
pub(crate) fn argument<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::args()
        .filter_map(|arg| arg.strip_prefix(&format!("{name}="))?.parse().ok())
        .next_back()
        .unwrap_or(default)
}
