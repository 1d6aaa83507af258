//! Ports for brokers: below the range that the kernel gives to outgoing connections, so that none is taken by chance.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 26_000;
const PAIRS: u16 = 100;

/// A port P such that P and P + 1 are free on loopback just now. Within one process no pair is given twice in a row.
///
/// # Panics
/// When all are taken.
#[must_use]
pub fn free_port_pair() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test programs that run side by side begin at different places.
    let offset = u16::try_from(std::process::id() % u32::from(PAIRS)).unwrap_or(0);
    for _ in 0..PAIRS {
        let step = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(offset) % PAIRS;
        let port = FIRST + step * 2;
        if is_free(port) && is_free(port + 1) {
            return port;
        }
    }
    panic!("no two neighbouring ports are free from {FIRST} on");
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
