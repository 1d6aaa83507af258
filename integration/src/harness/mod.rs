//! Starts, stops and kills real brokers: the `kelda` binary of this tree or Apache Kafka, each as a process of its own.

mod broker;
mod paths;
mod ports;
mod spawn;

pub use broker::{Broker, Kind, kafka_script};
pub use paths::{build_kelda, repository};
pub use ports::free_port_pair;
pub use spawn::{run, spawn_bound};

use std::time::{Duration, Instant};

/// Calls `condition` until it gives something or `limit` has passed; the pause between calls grows to 50 ms.
pub fn wait_for<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(value) = condition() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
