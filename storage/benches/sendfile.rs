//! Experiment: from which size on sendfile is the cheaper way to answer a fetch from the page cache.
//!
//! An answer is a header of 120 bytes and a slice of a file in the page cache, over loopback:
//! - `sendfile`: the header with `MSG_MORE`, then sendfile;
//! - `copy`: pread behind the header, then one send;
//! - `memory`: header and body from memory with one vectored send: what a cache of our own would cost.
//!
//! CPU is that of the sending thread; on loopback it includes the receiver's side of TCP, the same for all three.
//! The receiver discards what it gets.
//!
//! `cargo bench -p storage --bench sendfile -- rounds=5 seconds=0.2 step=65536`
#![allow(unsafe_code, reason = "MSG_MORE and MSG_TRUNC have no safe door in the standard library")]

mod common;

use std::collections::BTreeMap;
use std::io::{IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use common::{argument, least, median, micros, thread_cpu};

const FILE: usize = 64 << 20;
const HEADER: usize = 120;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Sendfile,
    Copy,
    Memory,
}

fn run(way: Way, size: usize, limit: Duration, file: &std::fs::File, memory: &[u8]) -> (f64, f64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("an address");
    pin(0);
    let receiver = thread::spawn(move || {
        pin(1);
        let (socket, _) = listener.accept().expect("accept");
        let mut buf = vec![0_u8; 1 << 20];
        loop {
            // SAFETY: the buffer outlives the call. MSG_TRUNC makes TCP discard in place of copying.
            let count = unsafe {
                libc::recv(socket.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), libc::MSG_TRUNC)
            };
            if count <= 0 {
                break;
            }
        }
    });
    let mut socket = TcpStream::connect(address).expect("connect");
    socket.set_nodelay(true).expect("nodelay");
    let header = [1_u8; HEADER];
    let mut buf = vec![0_u8; HEADER + size];
    let mut answers = 0_u64;
    let mut pos = 0;
    let begin = Instant::now();
    let cpu = thread_cpu();
    while begin.elapsed() < limit {
        for _ in 0..16 {
            pos = if pos + 2 * size > FILE { 0 } else { pos + size };
            match way {
                Way::Sendfile => {
                    // SAFETY: the header outlives the call.
                    let sent = unsafe {
                        libc::send(
                            socket.as_raw_fd(),
                            header.as_ptr().cast(),
                            HEADER,
                            libc::MSG_MORE | libc::MSG_NOSIGNAL,
                        )
                    };
                    assert_eq!(usize::try_from(sent), Ok(HEADER));
                    let mut from = pos as u64;
                    let mut left = size;
                    while left > 0 {
                        left -= rustix::fs::sendfile(&socket, file, Some(&mut from), left)
                            .expect("sendfile");
                    }
                }
                Way::Copy => {
                    buf[..HEADER].copy_from_slice(&header);
                    file.read_exact_at(&mut buf[HEADER..], pos as u64).expect("read");
                    socket.write_all(&buf).expect("send");
                }
                Way::Memory => {
                    let mut slices =
                        &mut [IoSlice::new(&header), IoSlice::new(&memory[pos..pos + size])][..];
                    while !slices.is_empty() {
                        let sent = socket.write_vectored(slices).expect("send");
                        IoSlice::advance_slices(&mut slices, sent);
                    }
                }
            }
            answers += 1;
        }
    }
    let cpu = thread_cpu() - cpu;
    let wall = begin.elapsed();
    drop(socket);
    receiver.join().expect("the receiver ends");
    let count = answers as f64;
    (micros(cpu) / count, count * size as f64 / wall.as_secs_f64() / 1e6)
}

/// Keeps the calling thread on one CPU, where there is such a one: which side shares a CPU with what doubles the figures.
fn pin(cpu: usize) {
    let mut set = std::mem::MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: all zeros is the empty set.
    let set = unsafe { set.assume_init_mut() };
    // SAFETY: the set is ours, and the CPU below its size.
    unsafe { libc::CPU_SET(cpu, set) };
    // SAFETY: the set outlives the call.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

fn main() {
    let rounds: usize = argument("rounds", 5);
    let limit = Duration::from_secs_f64(argument("seconds", 0.2));
    let path = std::env::temp_dir().join(format!("sendfile-{}", std::process::id()));
    let memory = vec![7_u8; FILE];
    // Written in steps, as the broker does: the size of a write sets the size of the page cache's folios.
    let step: usize = argument("step", 64 << 10);
    let file = std::fs::File::create_new(&path).expect("a new file");
    for (index, piece) in memory.chunks(step).enumerate() {
        file.write_all_at(piece, (index * step) as u64).expect("write");
    }
    let file = std::fs::File::open(&path).expect("open");
    let mut outcomes: BTreeMap<(usize, Way), Vec<(f64, f64)>> = BTreeMap::new();
    for _ in 0..rounds {
        for size in [256, 1024, 2048, 4096, 8192, 16_384, 65_536, 262_144, 1 << 20] {
            for way in [Way::Sendfile, Way::Copy, Way::Memory] {
                let outcome = run(way, size, limit, &file, &memory);
                outcomes.entry((size, way)).or_default().push(outcome);
            }
        }
    }
    std::fs::remove_file(&path).expect("remove");
    println!("| body bytes | way | CPU us/answer (least) | ns/byte | MB/s on loopback |");
    println!("| --- | --- | --- | --- | --- |");
    for ((size, way), outcomes) in outcomes {
        let cpu = least(outcomes.iter().map(|o| o.0).collect());
        let rate = median(outcomes.iter().map(|o| o.1).collect());
        println!("| {size} | {way:?} | {cpu:.2} | {:.2} | {rate:.0} |", cpu * 1000.0 / size as f64);
    }
}
