//! Experiment: what a hop between two cores costs.
//!
//! Two threads, each a tokio current-thread runtime with a `LocalSet`, bounce messages: `flight` of them are out at a time.
//! A message is a boxed closure, as in `core::mailbox`. A round trip is two hops.
//! - `tokio mpsc`: `unbounded_channel` with `recv_many`;
//! - `queue + Notify`: a locked vector that is swapped out whole, and `tokio::sync::Notify` when it was empty;
//! - `queue + eventfd`: the same with an eventfd in place of `Notify`;
//! - `std mpsc + Notify`: `std::sync::mpsc`, `Notify` at each send.
//!
//! `cargo bench -p broker --bench mailbox -- rounds=5 seconds=0.3`
#![allow(unsafe_code, reason = "an eventfd has no safe door in the standard library")]

#[path = "../../storage/benches/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc};

use common::{argument, median, micros, process_cpu};

type Message = Box<dyn FnOnce() -> u64 + Send>;

trait Sender: Clone + Send + 'static {
    fn send(&self, message: Message);
}

trait Receiver: Send + 'static {
    type Ready;
    fn start(self) -> Self::Ready;
    fn receive(ready: &mut Self::Ready, into: &mut Vec<Message>) -> impl Future<Output = ()>;
}

impl Sender for mpsc::UnboundedSender<Message> {
    fn send(&self, message: Message) {
        let _ = mpsc::UnboundedSender::send(self, message);
    }
}

impl Receiver for mpsc::UnboundedReceiver<Message> {
    type Ready = Self;
    fn start(self) -> Self {
        self
    }
    async fn receive(ready: &mut Self, into: &mut Vec<Message>) {
        ready.recv_many(into, 256).await;
    }
}

#[derive(Clone)]
struct NotifyQueue(Arc<(Mutex<Vec<Message>>, Notify)>);

impl Sender for NotifyQueue {
    fn send(&self, message: Message) {
        let mut queue = self.0.0.lock().expect("no panic");
        let was_empty = queue.is_empty();
        queue.push(message);
        drop(queue);
        if was_empty {
            self.0.1.notify_one();
        }
    }
}

impl Receiver for NotifyQueue {
    type Ready = Self;
    fn start(self) -> Self {
        self
    }
    async fn receive(ready: &mut Self, into: &mut Vec<Message>) {
        loop {
            std::mem::swap(into, &mut *ready.0.0.lock().expect("no panic"));
            if !into.is_empty() {
                return;
            }
            ready.0.1.notified().await;
        }
    }
}

#[derive(Clone)]
struct EventQueue(Arc<(Mutex<Vec<Message>>, File)>);

impl EventQueue {
    fn new() -> Self {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        assert!(fd >= 0, "eventfd");
        // SAFETY: the descriptor is new and ours.
        Self(Arc::new((Mutex::default(), unsafe { File::from_raw_fd(fd) })))
    }
}

impl Sender for EventQueue {
    fn send(&self, message: Message) {
        let mut queue = self.0.0.lock().expect("no panic");
        let was_empty = queue.is_empty();
        queue.push(message);
        drop(queue);
        if was_empty {
            let _ = (&self.0.1).write(&1_u64.to_ne_bytes());
        }
    }
}

impl Receiver for EventQueue {
    type Ready = (Self, AsyncFd<File>);
    fn start(self) -> Self::Ready {
        let fd = self.0.1.try_clone().expect("a descriptor");
        (self, AsyncFd::with_interest(fd, Interest::READABLE).expect("in a runtime"))
    }
    async fn receive(ready: &mut Self::Ready, into: &mut Vec<Message>) {
        loop {
            std::mem::swap(into, &mut *ready.0.0.0.lock().expect("no panic"));
            if !into.is_empty() {
                return;
            }
            let mut guard = ready.1.readable().await.expect("readable");
            let _ = guard.try_io(|fd| fd.get_ref().read(&mut [0; 8]));
        }
    }
}

#[derive(Clone)]
struct StdSender(std_mpsc::Sender<Message>, Arc<Notify>);

struct StdReceiver(std_mpsc::Receiver<Message>, Arc<Notify>);

impl Sender for StdSender {
    fn send(&self, message: Message) {
        let _ = self.0.send(message);
        self.1.notify_one();
    }
}

impl Receiver for StdReceiver {
    type Ready = Self;
    fn start(self) -> Self {
        self
    }
    async fn receive(ready: &mut Self, into: &mut Vec<Message>) {
        loop {
            into.extend(ready.0.try_iter().take(256));
            if !into.is_empty() {
                return;
            }
            ready.1.notified().await;
        }
    }
}

fn core<R: Receiver>(inbox: R, other: impl Sender, stop: Arc<AtomicBool>, hops: Arc<AtomicU64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("tokio");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let mut inbox = inbox.start();
        let mut messages = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            R::receive(&mut inbox, &mut messages).await;
            hops.fetch_add(messages.len() as u64, Ordering::Relaxed);
            for message in messages.drain(..) {
                let value = message();
                other.send(Box::new(move || value + 1));
            }
            // Other tasks get their turn, as on a real core.
            tokio::task::yield_now().await;
        }
        // Wakes the other side, so that it sees the end.
        other.send(Box::new(|| 0));
    });
}

/// CPU of both sides for a hop, and time for a round trip.
fn run<S: Sender, R: Receiver>(make: fn() -> (S, R), flight: usize, limit: Duration) -> (f64, f64) {
    let ((to_a, inbox_a), (to_b, inbox_b)) = (make(), make());
    let stop = Arc::new(AtomicBool::new(false));
    let hops = Arc::new(AtomicU64::new(0));
    let cpu = process_cpu();
    let begin = Instant::now();
    for _ in 0..flight {
        to_a.send(Box::new(|| 0));
    }
    let threads = [
        thread::spawn({
            let (stop, hops) = (Arc::clone(&stop), Arc::clone(&hops));
            move || core(inbox_a, to_b, stop, hops)
        }),
        thread::spawn({
            let (stop, hops) = (Arc::clone(&stop), Arc::clone(&hops));
            move || core(inbox_b, to_a, stop, hops)
        }),
    ];
    thread::sleep(limit);
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("the core ends");
    }
    let count = hops.load(Ordering::Relaxed) as f64;
    let wall = begin.elapsed();
    (micros(process_cpu() - cpu) / count, micros(wall) * 2.0 * flight as f64 / count)
}

fn main() {
    let rounds: usize = argument("rounds", 5);
    let limit = Duration::from_secs_f64(argument("seconds", 0.3));
    let mut outcomes: BTreeMap<(usize, &str), Vec<(f64, f64)>> = BTreeMap::new();
    for _ in 0..rounds {
        for flight in [1, 16, 256] {
            let mut add = |name, outcome| {
                outcomes.entry((flight, name)).or_default().push(outcome);
            };
            add("tokio mpsc", run(mpsc::unbounded_channel, flight, limit));
            let queue = || {
                let queue = NotifyQueue(Arc::new((Mutex::default(), Notify::new())));
                (queue.clone(), queue)
            };
            add("queue + Notify", run(queue, flight, limit));
            let queue = || {
                let queue = EventQueue::new();
                (queue.clone(), queue)
            };
            add("queue + eventfd", run(queue, flight, limit));
            let channel = || {
                let (sender, receiver) = std_mpsc::channel();
                let notify = Arc::new(Notify::new());
                (StdSender(sender, Arc::clone(&notify)), StdReceiver(receiver, notify))
            };
            add("std mpsc + Notify", run(channel, flight, limit));
        }
    }
    println!("| in flight | mailbox | CPU us/hop (both sides) | round trip us |");
    println!("| --- | --- | --- | --- |");
    for ((flight, name), outcomes) in outcomes {
        let cpu = median(outcomes.iter().map(|o| o.0).collect());
        let trip = median(outcomes.iter().map(|o| o.1).collect());
        println!("| {flight} | {name} | {cpu:.2} | {trip:.1} |");
    }
}
