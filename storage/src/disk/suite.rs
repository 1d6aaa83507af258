//! The conformance suite: what every [`Engine`] and [`FileSystem`] does alike.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::plain::{PlainEngine, PlainFs};
use super::sim::{Latency, SimDisk};
use super::uring::{AppendPath, RingEngine};
use super::{Completion, Done, Engine, FileRef, FileSystem, Op, OpenMode, Ticket};

/// An engine, its file system and an empty directory.
struct Rig {
    fs: Arc<dyn FileSystem>,
    engine: Box<dyn Engine>,
    dir: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Rig {
    fn on_disk(engine: Box<dyn Engine>) -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let dir = temporary.path().to_owned();
        Self { fs: Arc::new(PlainFs::new()), engine, dir, _temporary: Some(temporary) }
    }

    /// `None` where the kernel refuses io_uring: there the ring is never chosen.
    fn on_ring(append: AppendPath) -> Option<Self> {
        match RingEngine::new(append) {
            Ok(engine) => Some(Self::on_disk(Box::new(engine))),
            Err(error) => {
                eprintln!("no io_uring here: {error}");
                None
            }
        }
    }

    fn simulated(latency: Latency) -> Self {
        let disk = SimDisk::new(42);
        disk.set_latency(latency);
        let engine = Box::new(disk.engine());
        Self { fs: Arc::new(disk), engine, dir: PathBuf::from("/"), _temporary: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn create(&self, name: &str) -> FileRef {
        self.fs.open(&self.path(name), OpenMode::Create).expect("create")
    }

    /// Waits for all that is in flight.
    fn finish(&mut self) -> BTreeMap<Ticket, io::Result<Done>> {
        self.engine.flush();
        let mut out = Vec::new();
        loop {
            self.engine.reap(&mut out);
            if self.engine.in_flight() == 0 {
                break;
            }
            self.wait();
        }
        let count = out.len();
        let map: BTreeMap<_, _> =
            out.into_iter().map(|Completion { ticket, result }| (ticket, result)).collect();
        assert_eq!(map.len(), count, "each ticket ends once");
        map
    }

    /// Until readiness, which must come.
    fn wait(&self) {
        if let Some(fd) = self.engine.readiness() {
            let deadline = Timespec { tv_sec: 30, tv_nsec: 0 };
            let ready = loop {
                let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                match rustix::event::poll(&mut fds, Some(&deadline)) {
                    // The kernel finishes a cold read of the ring in this thread's name.
                    Err(Errno::INTR) => {}
                    ready => break ready.expect("poll"),
                }
            };
            assert_eq!(ready, 1, "an operation in flight raises readiness");
        }
    }

    fn run(&mut self, op: Op) -> io::Result<Done> {
        self.engine.submit(Ticket(u64::MAX), op);
        self.finish().remove(&Ticket(u64::MAX)).expect("ended")
    }

    fn write(&mut self, file: &FileRef, pos: u64, chunks: Vec<Bytes>) {
        let op = Op::Write { file: Arc::clone(file), pos, chunks };
        assert!(matches!(self.run(op), Ok(Done::Written)));
    }

    fn read(&mut self, file: &FileRef, pos: u64, len: usize) -> Bytes {
        match self.run(Op::Read { file: Arc::clone(file), pos, len }) {
            Ok(Done::Read(data)) => data,
            other => panic!("{other:?}"),
        }
    }
}

fn pattern(len: usize) -> Bytes {
    (0..len).map(|index| u8::try_from(index % 251).expect("small")).collect()
}

fn a_gathered_write_is_read_back(mut rig: Rig) {
    let file = rig.create("f");
    let chunks = vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cde")];
    rig.write(&file, 0, chunks);
    assert_eq!(rig.read(&file, 0, 5), b"abcde"[..]);
    rig.write(&file, 3, vec![Bytes::from_static(b"XYZ")]);
    assert_eq!(rig.read(&file, 0, 6), b"abcXYZ"[..]);
    assert_eq!(file.size().expect("size"), 6);
}

fn more_pieces_than_one_call_takes_arrive_in_order(mut rig: Rig) {
    let file = rig.create("f");
    let whole = pattern(5000);
    let chunks = (0..2500).map(|index| whole.slice(index * 2..index * 2 + 2)).collect();
    rig.write(&file, 7, chunks);
    assert_eq!(rig.read(&file, 7, 5000), whole);
    assert_eq!(rig.read(&file, 0, 7), [0; 7][..], "a hole reads as zeros");
}

fn a_large_write_and_read_are_whole(mut rig: Rig) {
    let file = rig.create("f");
    let whole = pattern(9 << 20);
    rig.write(&file, 0, vec![whole.slice(..5 << 20), whole.slice(5 << 20..)]);
    assert_eq!(rig.read(&file, 0, 9 << 20), whole);
}

fn a_write_of_nothing_ends(mut rig: Rig) {
    let file = rig.create("f");
    rig.write(&file, 0, Vec::new());
    rig.write(&file, 0, vec![Bytes::new()]);
    assert_eq!(file.size().expect("size"), 0);
}

fn a_read_is_short_only_at_the_end(mut rig: Rig) {
    let file = rig.create("f");
    rig.write(&file, 0, vec![pattern(1000)]);
    assert_eq!(rig.read(&file, 900, 200), pattern(1000).slice(900..));
    assert_eq!(rig.read(&file, 1000, 10), b""[..]);
    assert_eq!(rig.read(&file, 5000, 10), b""[..]);
    assert_eq!(rig.read(&file, 0, 0), b""[..]);
}

fn a_sync_ends(mut rig: Rig) {
    let file = rig.create("f");
    rig.write(&file, 0, vec![pattern(10)]);
    assert!(matches!(rig.run(Op::SyncData { file }), Ok(Done::Synced)));
}

fn many_operations_on_many_files_all_end(mut rig: Rig) {
    let files: Vec<_> = (0..20).map(|index| rig.create(&format!("f{index}"))).collect();
    let mut ticket = 0;
    let mut submit = |rig: &mut Rig, op| {
        rig.engine.submit(Ticket(ticket), op);
        ticket += 1;
        ticket - 1
    };
    for file in &files {
        for block in 0..40 {
            let op = Op::Write {
                file: Arc::clone(file),
                pos: block * 100,
                chunks: vec![pattern(60), pattern(40)],
            };
            submit(&mut rig, op);
        }
    }
    assert_eq!(rig.engine.in_flight(), 800);
    assert!(rig.finish().into_values().all(|result| matches!(result, Ok(Done::Written))));
    for file in &files {
        submit(&mut rig, Op::SyncData { file: Arc::clone(file) });
        for block in 0..40 {
            submit(&mut rig, Op::Read { file: Arc::clone(file), pos: block * 100, len: 100 });
        }
    }
    let done = rig.finish();
    assert_eq!(done.len(), 820);
    let expected: Bytes = [pattern(60), pattern(40)].concat().into();
    for result in done.into_values() {
        match result.expect("no fault") {
            Done::Synced => {}
            Done::Read(data) => assert_eq!(data, expected),
            Done::Written => panic!("no write was asked"),
        }
    }
}

fn an_error_is_the_operations_alone(mut rig: Rig) {
    let file = rig.create("f");
    rig.write(&file, 0, vec![pattern(10)]);
    let read_only = rig.fs.open(&rig.path("f"), OpenMode::Read).expect("open");
    rig.engine.submit(Ticket(1), Op::Write { file: read_only, pos: 0, chunks: vec![pattern(3)] });
    rig.engine.submit(Ticket(2), Op::Write { file, pos: 10, chunks: vec![pattern(10)] });
    let mut done = rig.finish();
    let error = done.remove(&Ticket(1)).expect("ended").expect_err("not writable");
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    assert!(matches!(done.remove(&Ticket(2)), Some(Ok(Done::Written))));
}

fn an_operation_keeps_its_file_open(mut rig: Rig) {
    let file = rig.create("f");
    rig.engine.submit(
        Ticket(1),
        Op::Write { file: Arc::clone(&file), pos: 0, chunks: vec![pattern(100)] },
    );
    rig.fs.remove_file(&rig.path("f")).expect("remove");
    assert!(rig.finish().into_values().all(|result| result.is_ok()));
    rig.engine.submit(Ticket(2), Op::Read { file, pos: 0, len: 100 });
    assert!(matches!(&rig.finish()[&Ticket(2)], Ok(Done::Read(data)) if *data == pattern(100)));
}

fn an_engine_may_be_dropped_with_work_in_flight(mut rig: Rig) {
    for index in 0..50 {
        let file = rig.create(&format!("f{index}"));
        let chunks = vec![pattern(100_000)];
        rig.engine.submit(Ticket(index * 3), Op::Write { file: Arc::clone(&file), pos: 0, chunks });
        rig.engine.submit(Ticket(index * 3 + 1), Op::SyncData { file: Arc::clone(&file) });
        rig.engine.submit(Ticket(index * 3 + 2), Op::Read { file, pos: 0, len: 100_000 });
    }
    rig.engine.flush();
    rig.engine.submit(Ticket(500), Op::SyncData { file: rig.create("never flushed") });
}

fn tickets_may_be_used_again(mut rig: Rig) {
    let file = rig.create("f");
    for round in 0..50_u8 {
        rig.write(&file, 0, vec![Bytes::copy_from_slice(&[round; 9])]);
        assert_eq!(rig.read(&file, 0, 9), [round; 9][..]);
    }
}

fn names_and_sizes(rig: Rig) {
    let fs = &rig.fs;
    let sub = rig.path("a/b");
    fs.create_dir_all(&sub).expect("mkdir");
    fs.create_dir_all(&sub).expect("present is fine");
    let write = |name: &str, data: &'static [u8]| {
        let file = fs.open(&sub.join(name), OpenMode::Truncate).expect("open");
        file.write_all_at(&[Bytes::from_static(data)], 0).expect("write");
        file
    };
    write("z", b"zz");
    write("y", b"y");
    let listed = |dir: &Path| -> Vec<_> {
        let entries = fs.list(dir).expect("list");
        entries.into_iter().map(|entry| (entry.name, entry.is_dir, entry.size)).collect()
    };
    assert_eq!(listed(&sub), [("y".to_owned(), false, 1), ("z".to_owned(), false, 2)]);
    assert!(listed(&rig.path("a")).contains(&("b".to_owned(), true, 0)));

    fs.rename(&sub.join("z"), &sub.join("y")).expect("replace");
    assert_eq!(listed(&sub), [("y".to_owned(), false, 2)]);
    fs.sync_dir(&sub).expect("sync");
    let missing = sub.join("missing");
    let not_found = |result: io::Result<()>| {
        assert_eq!(result.expect_err("absent").kind(), io::ErrorKind::NotFound);
    };
    not_found(fs.remove_file(&missing));
    not_found(fs.rename(&missing, &sub.join("x")));
    not_found(fs.open(&missing, OpenMode::Read).map(|_| ()));
    not_found(fs.open(&missing, OpenMode::ReadWrite).map(|_| ()));
    not_found(fs.list(&missing).map(|_| ()));
    not_found(fs.remove_dir_all(&missing));
    assert!(!fs.exists(&missing).expect("exists"));

    let file = fs.open(&sub.join("y"), OpenMode::Create).expect("kept");
    assert_eq!(file.size().expect("size"), 2);
    file.reserve(0, 1 << 20).expect("reserve");
    assert_eq!(file.size().expect("size"), 2, "a reservation is not part of the size");
    file.set_len(4).expect("extend");
    let mut buf = [9; 6];
    assert_eq!(file.read_at(&mut buf, 0).expect("read"), 4);
    assert_eq!(buf, *b"zz\0\0\x09\x09");
    assert_eq!(file.read_at_nowait(&mut buf, 3).expect("warm"), 1);
    assert!(file.is_cached(0, 4));
    file.set_len(1).expect("cut");
    assert_eq!(file.size().expect("size"), 1);

    fs.remove_dir_all(&rig.path("a")).expect("remove");
    assert!(!fs.exists(&sub).expect("exists"));
    assert_eq!(file.read_at(&mut buf, 0).expect("still open"), 1);
}

fn a_lock_is_exclusive_until_dropped(rig: Rig) {
    let path = rig.path(".lock");
    let guard = rig.fs.lock(&path).expect("free");
    let second = rig.fs.lock(&path);
    assert_eq!(second.err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    drop(guard);
    rig.fs.lock(&path).expect("free again");
}

macro_rules! suite {
    ($engine:ident, $rig:expr, $($case:ident)*) => {
        mod $engine {
            use super::*;

            $(
                #[test]
                fn $case() {
                    if let Some(rig) = $rig {
                        super::$case(rig);
                    }
                }
            )*
        }
    };
}

macro_rules! conforms {
    ($engine:ident, $rig:expr) => {
        suite!($engine, $rig,
            a_gathered_write_is_read_back
            more_pieces_than_one_call_takes_arrive_in_order
            a_large_write_and_read_are_whole
            a_write_of_nothing_ends
            a_read_is_short_only_at_the_end
            a_sync_ends
            many_operations_on_many_files_all_end
            an_error_is_the_operations_alone
            an_operation_keeps_its_file_open
            an_engine_may_be_dropped_with_work_in_flight
            tickets_may_be_used_again
            names_and_sizes
            a_lock_is_exclusive_until_dropped
        );
    };
}

conforms!(plain, Some(Rig::on_disk(Box::new(PlainEngine::new().expect("engine")))));
conforms!(ring, Rig::on_ring(AppendPath::InPlace));
conforms!(ring_for_writes, Rig::on_ring(AppendPath::Ring));
conforms!(simulated, Some(Rig::simulated(Latency::default())));
conforms!(simulated_slow, Some(Rig::simulated(Latency { write: 0..=3, sync: 1..=9, read: 0..=2 })));
