//! The only door to files.
//!
//! Two ways in, over the same files:
//! - [`FileSystem`] and [`File`]: calls that may block. Start-up, recovery, rolls, retention and
//!   checkpoints use them, on pool threads.
//! - [`Engine`]: one per core, never blocks. The data path submits [`Op`]s and reaps [`Completion`]s.
//!
//! Three implementations pass one conformance suite (`suite.rs`): the io_uring engine, the plain
//! engine for kernels that refuse io_uring, and a simulated disk with faults.

mod cachestat;
mod eventfd;
pub mod plain;
pub mod probe;
pub mod sim;
#[cfg(test)]
mod suite;
pub mod uring;

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

pub use probe::{EngineReport, EngineSetting, open_engine};

/// An open file. Positioned reads and writes only; there is no cursor.
pub trait File: Any + Send + Sync + Debug {
    /// Reads at `pos` until `buf` is full or the file ends; the count is short only at the end.
    ///
    /// # Errors
    /// What the disk reports.
    fn read_at(&self, buf: &mut [u8], pos: u64) -> io::Result<usize>;

    /// As [`File::read_at`], but answers [`io::ErrorKind::WouldBlock`] when the bytes are not in
    /// the page cache.
    ///
    /// # Errors
    /// `WouldBlock`, or what the disk reports.
    fn read_at_nowait(&self, buf: &mut [u8], pos: u64) -> io::Result<usize>;

    /// Whether the range is in the page cache, as far as can be told without reading it.
    fn is_cached(&self, pos: u64, len: u32) -> bool;

    /// Writes all chunks back to back from `pos`, extending the file where needed.
    ///
    /// # Errors
    /// What the disk reports; how much arrived is then unknown.
    fn write_all_at(&self, chunks: &[Bytes], pos: u64) -> io::Result<()>;

    /// Makes the written bytes and the size durable (fdatasync). Must never be retried after a failure.
    ///
    /// # Errors
    /// What the disk reports.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts or extends (with zeros) to `len` bytes.
    ///
    /// # Errors
    /// What the disk reports.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves blocks for the range without changing the size (`FALLOC_FL_KEEP_SIZE`).
    ///
    /// # Errors
    /// What the disk reports; a file system without the call answers `Unsupported`.
    fn reserve(&self, pos: u64, len: u64) -> io::Result<()>;

    /// Size in bytes.
    ///
    /// # Errors
    /// What the disk reports.
    fn size(&self) -> io::Result<u64>;

    /// The descriptor, for zero-copy sending and for the ring. A simulated file has none.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

/// A shared handle: slices on their way to a socket keep their file open after its deletion.
pub type FileRef = Arc<dyn File>;

/// How [`FileSystem::open`] treats an absent or present file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// Reading only; absent is an error.
    Read,
    /// Reading and writing; absent is an error.
    ReadWrite,
    /// Reading and writing; made when absent, kept when present.
    Create,
    /// Reading and writing; made anew, emptied when present.
    Truncate,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// File name, without its directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Size in bytes (0 for directories).
    pub size: u64,
}

/// Calls on names that may block: for pool threads, start and stop.
pub trait FileSystem: Send + Sync + Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// What the disk reports.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<FileRef>;

    /// Entries of a directory, ordered by name. Names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// What the disk reports.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Whether something stands at the path.
    ///
    /// # Errors
    /// What the disk reports.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Makes a directory and its missing parents; present is fine.
    ///
    /// # Errors
    /// What the disk reports.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file or directory, replacing a file that stands there. Durable after [`FileSystem::sync_dir`].
    ///
    /// # Errors
    /// What the disk reports.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the disk reports; absent is `NotFound`.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and all in it.
    ///
    /// # Errors
    /// What the disk reports.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in `dir` durable.
    ///
    /// # Errors
    /// What the disk reports.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes an exclusive lock on a file (made when absent) until the guard is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// Bytes free for this process in the file system that holds `path`.
    ///
    /// # Errors
    /// What the disk reports.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// Names an operation in flight; chosen by the caller, unique while in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// What an [`Engine`] can be asked to do. It owns buffers and file until the completion is reaped.
#[derive(Debug)]
pub enum Op {
    /// Writes all chunks back to back from `pos`. Short writes are continued inside.
    Write {
        /// Where to.
        file: FileRef,
        /// First byte.
        pos: u64,
        /// What, in order.
        chunks: Vec<Bytes>,
    },
    /// fdatasync. A failure is reported once and never retried.
    SyncData {
        /// Which file.
        file: FileRef,
    },
    /// Reads up to `len` bytes; short only at the end of the file.
    Read {
        /// Where from.
        file: FileRef,
        /// First byte.
        pos: u64,
        /// How many.
        len: usize,
    },
}

/// What an [`Op`] gave.
#[derive(Debug)]
pub enum Done {
    /// All chunks are in the page cache and visible to readers.
    Written,
    /// All that was written before the submission is durable.
    Synced,
    /// The bytes read.
    Read(Bytes),
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// Which one.
    pub ticket: Ticket,
    /// How it ended.
    pub result: io::Result<Done>,
}

/// Operations of one core. Never blocks, except that a write may run in place where the start-up
/// probe found that cheaper (page-cache copy).
pub trait Engine: Debug {
    /// Queues an operation; [`Engine::flush`] starts it. Operations on one file may run in any order:
    /// who needs an order waits for the completion.
    fn submit(&mut self, ticket: Ticket, op: Op);

    /// Starts all queued operations. What ends within this call is not announced by
    /// [`Engine::readiness`]: reap after each flush.
    fn flush(&mut self);

    /// Moves what has ended into `out`. Never blocks.
    fn reap(&mut self, out: &mut Vec<Completion>);

    /// Readable when an operation ended after [`Engine::flush`] had returned and was not reaped. It may stay readable
    /// for a few reaps longer. `None`: there is no descriptor, ask [`Engine::reap`] (the simulated disk).
    fn readiness(&self) -> Option<BorrowedFd<'_>>;

    /// Operations submitted and not reaped. Dropping an engine waits for those that the kernel works on.
    fn in_flight(&self) -> usize;

    /// `uring`, `plain` or `sim`: for the log and a metric.
    fn name(&self) -> &'static str;
}
