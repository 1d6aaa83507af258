//! Experiment: buffered appends in place (`pwritev`) against the ring, without syncs.
//!
//! A turn writes one batch to each dirty file, all under one submission, and waits for the end. `alone` is one submission
//! and wait for each write. Files grow, as logs do.
//!
//! `cargo bench -p storage --bench append_ring -- dir=DIR rounds=5`

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags};
use storage::disk::plain::PlainFs;
use storage::disk::uring::{AppendPath, RingEngine};
use storage::disk::{Engine, FileSystem, Op, OpenMode, Ticket};

use common::{argument, median, micros, percentile, process_cpu, switches};

/// Bytes that one case writes at most.
const TOTAL: usize = 192 << 20;
const TURNS_MAX: usize = 4000;

struct Outcome {
    cpu_us: f64,
    switches: f64,
    turn_p50_us: f64,
    turn_p99_us: f64,
}

fn run(dir: &Path, append: AppendPath, alone: bool, size: usize, files: usize) -> Outcome {
    let fs = PlainFs::new();
    let open =
        |index| fs.open(&dir.join(format!("{index}")), OpenMode::Truncate).expect("a new file");
    let handles: Vec<_> = (0..files).map(open).collect();
    let mut engine = RingEngine::new(append).expect("io_uring");
    let batch = Bytes::from(vec![7; size]);
    let turns = (TOTAL / size / files).clamp(1, TURNS_MAX);
    let mut samples = Vec::with_capacity(turns);
    let mut out = Vec::new();
    let (cpu, switched) = (process_cpu(), switches());
    for turn in 0..turns {
        let begin = Instant::now();
        for (index, file) in handles.iter().enumerate() {
            let op = Op::Write {
                file: Arc::clone(file),
                pos: (turn * size) as u64,
                chunks: vec![batch.clone()],
            };
            engine.submit(Ticket(index as u64), op);
            if alone {
                finish(&mut engine, &mut out);
            }
        }
        finish(&mut engine, &mut out);
        samples.push(begin.elapsed());
    }
    let count = (turns * files) as f64;
    Outcome {
        cpu_us: micros(process_cpu() - cpu) / count,
        switches: (switches() - switched) as f64 / count,
        turn_p50_us: micros(percentile(&mut samples, 0.5)),
        turn_p99_us: micros(percentile(&mut samples, 0.99)),
    }
}

fn finish(engine: &mut RingEngine, out: &mut Vec<storage::disk::Completion>) {
    engine.flush();
    engine.reap(out);
    while engine.in_flight() > 0 {
        let fd = engine.readiness().expect("an eventfd");
        let _ = rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None);
        engine.reap(out);
    }
    for completion in out.drain(..) {
        completion.result.expect("no fault");
    }
}

fn main() {
    let dir: PathBuf = argument("dir", std::env::temp_dir().join("append_ring"));
    let rounds: usize = argument("rounds", 5);
    fs::create_dir_all(&dir).expect("a directory");
    let ways = [
        ("in place", AppendPath::InPlace, false),
        ("ring", AppendPath::Ring, false),
        ("ring, alone", AppendPath::Ring, true),
    ];
    let mut outcomes: BTreeMap<(usize, usize, usize), Vec<Outcome>> = BTreeMap::new();
    for _ in 0..rounds {
        for size in [1500, 4096, 16_384, 65_536] {
            for files in [1, 16, 256] {
                for (way, &(_, append, alone)) in ways.iter().enumerate() {
                    if alone && files > 1 {
                        continue;
                    }
                    let outcome = run(&dir, append, alone, size, files);
                    outcomes.entry((size, files, way)).or_default().push(outcome);
                    fs::remove_dir_all(&dir).expect("remove");
                    fs::create_dir_all(&dir).expect("a directory");
                    // Lets the next case begin without this one's dirty pages.
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
    println!(
        "| batch | dirty files | way | CPU us/write | switches/write | turn p50 us | turn p99 us |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for ((size, files, way), outcomes) in outcomes {
        let middle = |of: fn(&Outcome) -> f64| median(outcomes.iter().map(of).collect());
        println!(
            "| {size} | {files} | {} | {:.1} | {:.2} | {:.0} | {:.0} |",
            ways[way].0,
            middle(|o| o.cpu_us),
            middle(|o| o.switches),
            middle(|o| o.turn_p50_us),
            middle(|o| o.turn_p99_us),
        );
    }
    fs::remove_dir_all(&dir).expect("remove");
}
