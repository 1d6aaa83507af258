//! Experiment: how to append under durability `fsync`.
//!
//! Each file keeps one batch in flight: write, then fdatasync on the ring, then the next batch. Ways to write:
//! - `extend`: buffered, the file grows (a journal commit for each sync);
//! - `allocated`: buffered, blocks reserved by fallocate, the file grows;
//! - `zeroed`: buffered, into space that was written with zeros before (no journal commit);
//! - `zeroed-cold`: the same after the zeros left the page cache;
//! - `direct`: O_DIRECT on the ring into zeroed space, then fdatasync;
//! - `ahead-1M`, `ahead-8M`: as `zeroed`, with the zeroing in the account: a second ring writes zeros (buffered) in pieces
//!   of that size, and syncs them, when less than half a piece is left;
//! - `dsync`: as `direct` with `RWF_DSYNC` in place of the fdatasync.
//!
//! `cargo bench -p storage --bench append_sync -- dir=DIR rounds=3 seconds=0.5 only=100/4096/extend workers=4`
//! (`only` takes a part of the name; it and `workers`, the bound on the kernel's worker threads, may be left out).
#![allow(unsafe_code, reason = "O_DIRECT takes aligned memory")]

mod common;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags};
use storage::disk::uring::{AppendPath, RingEngine};
use storage::disk::{Completion, Done, Engine, File, FileRef, Op, Ticket};

use common::{argument, least, machine_cpu, median, micros, percentile, process_cpu};

const TOTAL: u64 = 400 << 20;
/// As writes in place do.
const STEP: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Extend,
    Allocated,
    Zeroed,
    ZeroedCold,
    Direct,
    Dsync,
    Ahead1,
    Ahead8,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Extend => "extend",
            Self::Allocated => "allocated",
            Self::Zeroed => "zeroed",
            Self::ZeroedCold => "zeroed-cold",
            Self::Direct => "direct",
            Self::Dsync => "dsync",
            Self::Ahead1 => "ahead-1M",
            Self::Ahead8 => "ahead-8M",
        }
    }

    /// Bytes zeroed at once while it runs.
    fn ahead(self) -> u64 {
        match self {
            Self::Ahead1 => 1 << 20,
            Self::Ahead8 => 8 << 20,
            _ => 0,
        }
    }

    fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Dsync)
    }
}

/// A file with the flags of the way.
#[derive(Debug)]
struct RawFile(fs::File);

impl File for RawFile {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn read_at_nowait(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn is_cached(&self, _: u64, _: u32) -> bool {
        true
    }
    fn write_all_at(&self, chunks: &[Bytes], mut pos: u64) -> io::Result<()> {
        for piece in chunks.iter().flat_map(|chunk| chunk.chunks(STEP)) {
            self.0.write_all_at(piece, pos)?;
            pos += piece.len() as u64;
        }
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn reserve(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// Memory at a page boundary.
struct Aligned(*mut u8, Layout);

// SAFETY: owned memory, only read after its making.
unsafe impl Send for Aligned {}

impl Aligned {
    fn new(len: usize) -> Bytes {
        let layout = Layout::from_size_align(len, 4096).expect("a valid layout");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        assert!(!memory.is_null(), "out of memory");
        for index in 0..len {
            // SAFETY: within the allocation.
            unsafe { memory.add(index).write(u8::try_from(index % 251).expect("small")) };
        }
        Bytes::from_owner(Self(memory, layout))
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: initialised in `new`, of that length.
        unsafe { std::slice::from_raw_parts(self.0, self.1.size()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.0, self.1) };
    }
}

#[derive(Clone, Copy, Default)]
struct Outcome {
    cpu_us: f64,
    machine_us: f64,
    p50_us: f64,
    p99_us: f64,
    syncs_per_second: f64,
}

fn prepare(dir: &Path, way: Way, files: usize) -> Vec<FileRef> {
    let each = TOTAL / files as u64;
    let zeros = Aligned::new(1 << 20).iter().map(|_| 0).collect::<Vec<u8>>();
    (0..files)
        .map(|index| {
            let path = dir.join(format!("{index}"));
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .expect("open");
            match way {
                Way::Extend | Way::Ahead1 | Way::Ahead8 => {}
                Way::Allocated => {
                    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, each)
                        .expect("fallocate");
                }
                Way::Zeroed | Way::ZeroedCold | Way::Direct | Way::Dsync => {
                    let mut pos = 0;
                    while pos < each {
                        let len = (each - pos).min(zeros.len() as u64);
                        let zeros = &zeros[..usize::try_from(len).expect("small")];
                        file.write_all_at(zeros, pos).expect("zero");
                        pos += len;
                    }
                }
            }
            file.sync_all().expect("sync");
            if matches!(way, Way::ZeroedCold | Way::Direct | Way::Dsync) {
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
            }
            let mut flags = 0;
            if way.is_direct() {
                flags |= libc::O_DIRECT;
            }
            if way == Way::Dsync {
                flags |= libc::O_DSYNC;
            }
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(flags)
                .open(&path)
                .expect("open");
            Arc::new(RawFile(file)) as FileRef
        })
        .collect()
}

fn run(dir: &Path, way: Way, size: usize, files: usize, limit: Duration) -> Outcome {
    let handles = prepare(dir, way, files);
    let append = if way.is_direct() { AppendPath::Ring } else { AppendPath::InPlace };
    let mut engine = RingEngine::new(append).expect("io_uring");
    let workers = argument("workers", 0);
    if workers > 0 {
        engine.limit_workers(workers).expect("a kernel that knows the bound");
    }
    let mut background = RingEngine::new(AppendPath::Ring).expect("io_uring");
    let zeros = Bytes::from(vec![0; 8 << 20]).slice(..usize::try_from(way.ahead()).expect("small"));
    let mut zeroed = vec![0_u64; files];
    let mut zeroing = vec![false; files];
    let batch = Aligned::new(size);
    let each = TOTAL / files as u64;
    let mut ends = vec![0_u64; files];
    let mut started = vec![Instant::now(); files];
    let mut samples = Vec::new();
    let mut out: Vec<Completion> = Vec::new();

    let cpu = process_cpu();
    let machine = machine_cpu();
    let begin = Instant::now();
    let mut open = files;
    let write = |engine: &mut RingEngine, ends: &mut [u64], index: usize| {
        let op = Op::Write {
            file: Arc::clone(&handles[index]),
            pos: ends[index],
            chunks: vec![batch.clone()],
        };
        ends[index] += size as u64;
        engine.submit(Ticket(index as u64), op);
    };
    for index in 0..files {
        write(&mut engine, &mut ends, index);
    }
    engine.flush();
    while open > 0 {
        if way.ahead() > 0 {
            background.reap(&mut out);
            for Completion { ticket, result } in out.drain(..) {
                let index = usize::try_from(ticket.0).expect("an index");
                match result.expect("no fault") {
                    Done::Written => {
                        let file = Arc::clone(&handles[index]);
                        background.submit(ticket, Op::SyncData { file });
                    }
                    _ => zeroing[index] = false,
                }
            }
            for index in 0..files {
                if !zeroing[index] && ends[index] + way.ahead() / 2 > zeroed[index] {
                    let pos = zeroed[index].max(ends[index]);
                    zeroed[index] = pos + way.ahead();
                    zeroing[index] = true;
                    let file = Arc::clone(&handles[index]);
                    let chunks = vec![zeros.clone()];
                    background.submit(Ticket(index as u64), Op::Write { file, pos, chunks });
                }
            }
            background.flush();
        }
        engine.reap(&mut out);
        if out.is_empty() {
            let mut fds = [&engine, &background].map(|engine| {
                let fd = engine.readiness().expect("an eventfd");
                PollFd::from_borrowed_fd(fd, PollFlags::IN)
            });
            let _ = rustix::event::poll(&mut fds, None);
            continue;
        }
        for Completion { ticket, result } in out.drain(..) {
            let index = usize::try_from(ticket.0).expect("an index");
            let done = result.expect("no fault");
            if matches!(done, Done::Written) && way != Way::Dsync {
                engine.submit(ticket, Op::SyncData { file: Arc::clone(&handles[index]) });
                continue;
            }
            samples.push(started[index].elapsed());
            if begin.elapsed() < limit && ends[index] + size as u64 <= each {
                started[index] = Instant::now();
                write(&mut engine, &mut ends, index);
            } else {
                open -= 1;
            }
        }
        engine.flush();
    }
    let wall = begin.elapsed();
    let count = samples.len() as f64;
    Outcome {
        cpu_us: micros(process_cpu() - cpu) / count,
        machine_us: micros(machine_cpu() - machine) / count,
        p50_us: micros(percentile(&mut samples, 0.5)),
        p99_us: micros(percentile(&mut samples, 0.99)),
        syncs_per_second: count / wall.as_secs_f64(),
    }
}

fn main() {
    let dir: PathBuf = argument("dir", std::env::temp_dir().join("append_sync"));
    let rounds: usize = argument("rounds", 3);
    let limit = Duration::from_secs_f64(argument("seconds", 0.5));
    fs::create_dir_all(&dir).expect("a directory");
    let ways = [
        Way::Extend,
        Way::Allocated,
        Way::Zeroed,
        Way::ZeroedCold,
        Way::Direct,
        Way::Dsync,
        Way::Ahead1,
        Way::Ahead8,
    ];
    let mut outcomes: BTreeMap<(usize, usize, Way), Vec<Outcome>> = BTreeMap::new();
    for _ in 0..rounds {
        for files in [1, 100] {
            for size in [1500, 4096, 65_536, 1 << 20] {
                for way in ways {
                    let only: String = argument("only", String::new());
                    let case = format!("{files}/{size}/{}", way.name());
                    if way.is_direct() && size % 4096 != 0 || !case.contains(&only) {
                        continue;
                    }
                    let outcome = run(&dir, way, size, files, limit);
                    outcomes.entry((files, size, way)).or_default().push(outcome);
                }
            }
        }
    }
    println!(
        "| files | batch | way | CPU us/sync | machine CPU us/sync | p50 us | p99 us | syncs/s | MB per CPU-s |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for ((files, size, way), outcomes) in outcomes {
        let middle = |of: fn(&Outcome) -> f64| median(outcomes.iter().map(of).collect());
        let (cpu, machine) =
            (middle(|o| o.cpu_us), least(outcomes.iter().map(|o| o.machine_us).collect()));
        println!(
            "| {files} | {size} | {} | {cpu:.1} | {machine:.1} | {:.0} | {:.0} | {:.0} | {:.0} |",
            way.name(),
            middle(|o| o.p50_us),
            middle(|o| o.p99_us),
            middle(|o| o.syncs_per_second),
            size as f64 / machine,
        );
    }
    fs::remove_dir_all(&dir).expect("remove");
}
