//! Files by ordinary system calls.
//!
//! [`PlainFs`] and [`PlainFile`] serve every engine: the ring works on the same descriptors.
//! [`PlainEngine`] is the engine for kernels that refuse io_uring.
//! Nothing here is cached and nothing is retried but interrupted and short transfers.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::{Errno, ReadWriteFlags};

use super::cachestat::cached_pages;
use super::{DirEntry, File, FileRef, FileSystem, OpenMode};

mod engine;

pub use engine::PlainEngine;

/// Mode of new files: the group may read (backups), others nothing.
const FILE_MODE: u32 = 0o640;
/// Mode of new directories.
const DIR_MODE: u32 = 0o750;
/// Most pieces that Linux takes in one vectored call.
pub(super) const IOV_MAX: usize = 1024;
/// Most bytes of one `pwritev`. The kernel sizes the page-cache folios that a write makes by its length, and large ones
/// may have to be scraped together (or faulted in by a host): single writes of 256 KiB to 1 MiB took 0.23 ms for each
/// MiB in the median and up to 3.4 ms, in steps of 64 KiB 0.23 and at most 0.28.
const STEP_BYTES: usize = 64 << 10;
/// Vectored writes up to this many pieces need no allocation.
const IOV_ON_STACK: usize = 32;

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// The file system of the operating system.
#[derive(Clone, Copy, Default, Debug)]
pub struct PlainFs;

impl PlainFs {
    /// A handle; it holds no state.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl FileSystem for PlainFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<FileRef> {
        Ok(Arc::new(PlainFile::open(path, mode)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed between the two calls.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let is_dir = metadata.is_dir();
            entries.push(DirEntry { name, is_dir, size: if is_dir { 0 } else { metadata.len() } });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(dir)?;
        // Not `File::sync_all`, which repeats the call when interrupted.
        rustix::fs::fsync(&dir)?;
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(LockGuard::take(path)?))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// An open file of the operating system.
#[derive(Debug)]
pub struct PlainFile {
    file: fs::File,
    /// Cleared when the file system refuses `RWF_NOWAIT` (FUSE, 9p, some network file systems).
    nowait: AtomicBool,
}

impl PlainFile {
    /// Opens a file; never follows a symbolic link at the last component.
    ///
    /// # Errors
    /// What the system reports.
    pub fn open(path: &Path, mode: OpenMode) -> io::Result<Self> {
        let mut options = fs::OpenOptions::new();
        options.read(true).mode(FILE_MODE).custom_flags(libc::O_NOFOLLOW);
        match mode {
            OpenMode::Read => {}
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true);
            }
            OpenMode::Truncate => {
                options.write(true).create(true).truncate(true);
            }
        }
        Ok(Self { file: options.open(path)?, nowait: AtomicBool::new(true) })
    }
}

impl File for PlainFile {
    fn read_at(&self, buf: &mut [u8], pos: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], pos + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Where the file system does not know `RWF_NOWAIT` this is an ordinary read and may block: answering
    /// `WouldBlock` for ever would send the caller in circles, and such file systems are not meant for logs.
    fn read_at_nowait(&self, buf: &mut [u8], pos: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() && self.nowait.load(Ordering::Relaxed) {
            let mut slices = [IoSliceMut::new(&mut buf[done..])];
            match rustix::io::preadv2(
                &self.file,
                &mut slices,
                pos + done as u64,
                ReadWriteFlags::NOWAIT,
            ) {
                Ok(0) => return Ok(done),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.nowait.store(false, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let rest = self.read_at(&mut buf[done..], pos + done as u64)?;
        Ok(done + rest)
    }

    fn is_cached(&self, pos: u64, len: u32) -> bool {
        if len == 0 {
            return true;
        }
        let last = pos + u64::from(len) - 1;
        if let Some(cached) = cached_pages(self.file.as_fd(), pos, u64::from(len)) {
            return cached > last / page_bytes() - pos / page_bytes();
        }
        // An older kernel: the ends and three places between.
        let step = u64::from(len / 4).max(1);
        (0..4).map(|quarter| (pos + quarter * step).min(last)).chain([last]).all(|pos| {
            let read = self.read_at_nowait(&mut [0], pos);
            !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        })
    }

    fn write_all_at(&self, chunks: &[Bytes], pos: u64) -> io::Result<()> {
        write_chunks(self.file.as_fd(), chunks, pos)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not `File::sync_data`, which repeats the call when interrupted.
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn reserve(&self, pos: u64, len: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, pos, len) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// `pwritev` until all has arrived, in steps of at most [`IOV_MAX`] pieces and [`STEP_BYTES`].
pub(super) fn write_chunks(fd: BorrowedFd<'_>, chunks: &[Bytes], mut pos: u64) -> io::Result<()> {
    let mut cursor = ChunkCursor::new(chunks);
    let mut on_stack = [IoSlice::new(&[]); IOV_ON_STACK];
    let mut on_heap = Vec::new();
    let window: &mut [IoSlice<'_>] = if chunks.len() <= IOV_ON_STACK {
        &mut on_stack
    } else {
        on_heap.resize(chunks.len().min(IOV_MAX), IoSlice::new(&[]));
        &mut on_heap
    };
    loop {
        let count = cursor.fill(window);
        if count == 0 {
            return Ok(());
        }
        match rustix::io::pwritev(fd, &window[..count], pos) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                cursor.advance(written);
                pos += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Where a gathered write stands in its chunks.
#[derive(Clone, Copy, Debug)]
struct ChunkCursor<'a> {
    chunks: &'a [Bytes],
    /// Bytes of the first chunk that are already written.
    skip: usize,
}

impl<'a> ChunkCursor<'a> {
    fn new(chunks: &'a [Bytes]) -> Self {
        Self { chunks, skip: 0 }
    }

    /// Fills `window` with the next pieces, at most [`STEP_BYTES`]; how many it used (0 at the end).
    fn fill(&self, window: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut skip = self.skip;
        let mut left = STEP_BYTES;
        for chunk in self.chunks {
            if count == window.len() || left == 0 {
                break;
            }
            let piece = &chunk.chunk()[skip..];
            let piece = &piece[..piece.len().min(left)];
            skip = 0;
            left -= piece.len();
            if !piece.is_empty() {
                window[count] = IoSlice::new(piece);
                count += 1;
            }
        }
        count
    }

    /// Steps over `written` bytes.
    fn advance(&mut self, mut written: usize) {
        while let Some((first, rest)) = self.chunks.split_first() {
            let left = first.len() - self.skip;
            if written < left {
                self.skip += written;
                return;
            }
            written -= left;
            self.chunks = rest;
            self.skip = 0;
        }
    }
}

/// Device and inode of each lock file this process holds.
static HELD: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// A lock file held with `fcntl`, the kind of lock the JVM takes, so that the two exclude each other.
///
/// Such a lock belongs to the process: a second taking in the same process would succeed, and closing any
/// descriptor of the file would release it. [`HELD`] therefore refuses the second taking before it opens the file.
#[derive(Debug)]
struct LockGuard {
    file: Option<fs::File>,
    id: (u64, u64),
}

impl LockGuard {
    fn take(path: &Path) -> io::Result<Self> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(metadata) = fs::metadata(path)
            && held.contains(&(metadata.dev(), metadata.ino()))
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            // POSIX allows either.
            Err(Errno::ACCESS | Errno::AGAIN) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
        let metadata = file.metadata()?;
        let id = (metadata.dev(), metadata.ino());
        held.insert(id);
        Ok(Self { file: Some(file), id })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed under the registry's lock: closing later would release a lock that was taken meanwhile.
        drop(self.file.take());
        held.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Advice, fadvise};

    #[test]
    fn what_is_cached_can_be_read_without_waiting() {
        let dir = tempfile::tempdir().expect("directory");
        let file = PlainFile::open(&dir.path().join("file"), OpenMode::Create).expect("file");
        file.write_all_at(&[vec![7; 300_000].into()], 0).expect("written");
        assert!(file.is_cached(1, 299_999) && file.is_cached(299_999, 1) && file.is_cached(5, 0));
        file.sync_data().expect("synced");
        // A file system in memory keeps it all the same, and a fast disk may have it back before a read gives up.
        fadvise(&file.file, 0, None, Advice::DontNeed).expect("dropped");
        let mut all = vec![0; 300_000];
        let cached = file.is_cached(0, 300_000);
        let read = file.read_at_nowait(&mut all, 0);
        assert!(!cached || read.is_ok_and(|count| count == all.len()));
    }
}
