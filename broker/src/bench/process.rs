//! CPU time and memory of a process of this machine, from `/proc`.

use std::time::Duration;

/// Ticks of the CPU times in `/proc`: `USER_HZ`, 100 on every architecture that Kelda runs on.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time of all threads of a process, also of those that ended; `None` when there is no such process.
pub(super) fn cpu(pid: u32) -> Option<Duration> {
    parse_cpu(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_cpu(stat: &str) -> Option<Duration> {
    // The name in brackets may hold anything; fields are counted from behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// Bytes of a process that are in memory.
pub(super) fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_user_and_system_time() {
        let stat = "12 (a) b) S 1 12 12 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 4 0 100 1 1";
        assert_eq!(parse_cpu(stat), Some(Duration::from_secs(2)));
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(resident_bytes(std::process::id()).expect("it is alive") > 1 << 16);
        assert!(cpu(std::process::id()).is_some());
        assert_eq!(cpu(u32::MAX), None);
    }
}
