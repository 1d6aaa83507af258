//! Experiment: what a turn of a tokio current-thread runtime costs against a bare epoll loop.
//!
//! A server thread echoes frames of 64 bytes on `connections` sockets over loopback; a client thread keeps one frame in
//! flight on each. CPU is the server thread's. `tokio task` has a task for each connection (readable, try_read, try_write),
//! as the broker does; `epoll` is level-triggered epoll_wait, read and write. Then the cost of the parts without sockets.
//!
//! `cargo bench -p broker --bench turn -- rounds=5 seconds=0.3`
#![allow(unsafe_code, reason = "bare epoll")]

#[path = "../../storage/benches/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use common::{argument, median, micros, thread_cpu};

const FRAME: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Epoll,
    Tokio,
}

/// Echoes until all connections are closed; CPU used.
fn serve_epoll(listener: &TcpListener, connections: usize) -> Duration {
    let mut sockets: Vec<TcpStream> =
        (0..connections).map(|_| listener.accept().expect("accept").0).collect();
    // SAFETY: no memory is passed.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    for (index, socket) in sockets.iter().enumerate() {
        socket.set_nonblocking(true).expect("nonblocking");
        socket.set_nodelay(true).expect("nodelay");
        let mut event =
            libc::epoll_event { events: libc::EPOLLIN.cast_unsigned(), u64: index as u64 };
        // SAFETY: the event outlives the call.
        let added = unsafe {
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event)
        };
        assert_eq!(added, 0, "epoll_ctl");
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
    let mut open = connections;
    let mut buf = [0; 4096];
    let cpu = thread_cpu();
    while open > 0 {
        // SAFETY: the array outlives the call and has as many places.
        let count = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 256, -1) };
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            let socket = &mut sockets[usize::try_from(event.u64).expect("an index")];
            match socket.read(&mut buf) {
                Ok(0) | Err(_) => {
                    open -= 1;
                    // SAFETY: no memory is passed.
                    unsafe {
                        libc::epoll_ctl(
                            epoll,
                            libc::EPOLL_CTL_DEL,
                            socket.as_raw_fd(),
                            std::ptr::null_mut(),
                        )
                    };
                }
                Ok(count) => socket.write_all(&buf[..count]).expect("write"),
            }
        }
    }
    // SAFETY: ours, and not used again.
    unsafe { libc::close(epoll) };
    thread_cpu() - cpu
}

fn serve_tokio(listener: TcpListener, connections: usize) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .expect("tokio");
    let local = tokio::task::LocalSet::new();
    let cpu = thread_cpu();
    local.block_on(&runtime, async move {
        let tasks: Vec<_> = (0..connections)
            .map(|_| {
                let socket = listener.accept().expect("accept").0;
                socket.set_nonblocking(true).expect("nonblocking");
                socket.set_nodelay(true).expect("nodelay");
                let socket = tokio::net::TcpStream::from_std(socket).expect("in a runtime");
                tokio::task::spawn_local(async move {
                    let mut buf = [0; 4096];
                    loop {
                        socket.readable().await.expect("readable");
                        match socket.try_read(&mut buf) {
                            Ok(0) => return,
                            Ok(count) => {
                                socket.try_write(&buf[..count]).expect("room");
                            }
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                            Err(_) => return,
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    thread_cpu() - cpu
}

fn client(address: SocketAddr, connections: usize, limit: Duration) -> u64 {
    let mut sockets: Vec<_> = (0..connections)
        .map(|_| {
            let socket = TcpStream::connect(address).expect("connect");
            socket.set_nodelay(true).expect("nodelay");
            socket
        })
        .collect();
    let begin = Instant::now();
    let mut frames = 0;
    let mut frame = [1; FRAME];
    while begin.elapsed() < limit {
        for socket in &mut sockets {
            socket.write_all(&frame).expect("write");
        }
        for socket in &mut sockets {
            socket.read_exact(&mut frame).expect("read");
        }
        frames += connections as u64;
    }
    frames
}

fn run(way: Way, connections: usize, limit: Duration) -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("an address");
    let server = thread::spawn(move || match way {
        Way::Epoll => serve_epoll(&listener, connections),
        Way::Tokio => serve_tokio(listener, connections),
    });
    let frames = client(address, connections, limit) as f64;
    let cpu = server.join().expect("the server ends");
    (micros(cpu) / frames, frames / limit.as_secs_f64())
}

/// Nanoseconds of CPU for one of `count` steps.
fn step(count: u32, future: impl Future<Output = ()>) -> f64 {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let local = tokio::task::LocalSet::new();
    let cpu = thread_cpu();
    local.block_on(&runtime, future);
    micros(thread_cpu() - cpu) * 1000.0 / f64::from(count)
}

fn main() {
    let rounds: usize = argument("rounds", 5);
    let limit = Duration::from_secs_f64(argument("seconds", 0.3));
    let mut outcomes: BTreeMap<(usize, Way), Vec<(f64, f64)>> = BTreeMap::new();
    let mut steps: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for connections in [1, 8, 64] {
            for way in [Way::Epoll, Way::Tokio] {
                outcomes.entry((connections, way)).or_default().push(run(way, connections, limit));
            }
        }
        steps.entry("yield_now of the only task").or_default().push(step(200_000, async {
            for _ in 0..200_000 {
                tokio::task::yield_now().await;
            }
        }));
        steps.entry("spawn_local and join").or_default().push(step(200_000, async {
            for _ in 0..200_000 {
                tokio::task::spawn_local(async {}).await.expect("no panic");
            }
        }));
        steps.entry("wake of another local task and back").or_default().push(step(
            100_000,
            async {
                let (there, back) =
                    (Rc::new(tokio::sync::Notify::new()), Rc::new(tokio::sync::Notify::new()));
                let task = tokio::task::spawn_local({
                    let (there, back) = (Rc::clone(&there), Rc::clone(&back));
                    async move {
                        loop {
                            there.notified().await;
                            back.notify_one();
                        }
                    }
                });
                for _ in 0..100_000 {
                    there.notify_one();
                    back.notified().await;
                }
                task.abort();
            },
        ));
    }
    println!("| connections | way | server CPU us/frame | frames/s |");
    println!("| --- | --- | --- | --- |");
    for ((connections, way), outcomes) in outcomes {
        let cpu = median(outcomes.iter().map(|o| o.0).collect());
        let rate = median(outcomes.iter().map(|o| o.1).collect());
        println!("| {connections} | {way:?} | {cpu:.2} | {rate:.0} |");
    }
    println!("\n| step | ns |\n| --- | --- |");
    for (name, values) in steps {
        println!("| {name} | {:.0} |", median(values));
    }
}
