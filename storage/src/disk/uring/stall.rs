//! [`StallGuard`]: when writes in place have begun to wait, the ring takes them for a while.

use std::time::{Duration, Instant};

/// A page-cache copy that takes longer waited for something, most likely for dirty pages to be written back.
const SLOW: Duration = Duration::from_millis(2);
/// How long after a slow write each write is watched closely.
const WATCH: Duration = Duration::from_millis(200);
/// How long the ring writes after a stall.
const RING: Duration = Duration::from_secs(1);

/// Decides between a write in place and the ring.
///
/// The wall clock alone does not tell a stall: on a busy machine the scheduler may have taken the CPU away. So a slow
/// write only makes the next ones watched, and only a watched slow write that *slept* (voluntary context switches of
/// the thread, 0.3 us to ask) sends writes to the ring.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct StallGuard {
    watch_until: Option<Instant>,
    ring_until: Option<Instant>,
}

impl StallGuard {
    /// Whether the ring should write now.
    pub(super) fn prefers_ring(&mut self, now: Instant) -> bool {
        match self.ring_until {
            Some(until) if now < until => true,
            Some(_) => {
                self.ring_until = None;
                // What stalled once is watched from its first write on.
                self.watch_until = Some(now + WATCH);
                false
            }
            None => false,
        }
    }

    /// Whether the thread's sleeps are to be counted around the next write.
    pub(super) fn watches(&mut self, now: Instant) -> bool {
        match self.watch_until {
            Some(until) if now < until => true,
            Some(_) => {
                self.watch_until = None;
                false
            }
            None => false,
        }
    }

    /// A write in place took from `start` to `end`; `slept` is known when it was watched. True when writes move to the ring.
    pub(super) fn wrote(&mut self, start: Instant, end: Instant, slept: Option<bool>) -> bool {
        if end - start < SLOW {
            return false;
        }
        if slept == Some(true) {
            self.ring_until = Some(end + RING);
            return true;
        }
        self.watch_until = Some(end + WATCH);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_second_slow_write_that_slept_moves_writes_to_the_ring() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut guard = StallGuard::default();
        assert!(!guard.wrote(at(0), at(1), None), "fast");
        assert!(!guard.watches(at(1)));
        assert!(!guard.wrote(at(1), at(4), None), "slow, but why?");
        assert!(guard.watches(at(5)));
        assert!(!guard.wrote(at(5), at(9), Some(false)), "preempted");
        assert!(!guard.prefers_ring(at(9)));
        assert!(guard.wrote(at(10), at(13), Some(true)));
        assert!(guard.prefers_ring(at(500)));
        assert!(!guard.prefers_ring(at(1100)));
        assert!(guard.watches(at(1100)));
        assert!(!guard.watches(at(1400)));
    }
}
