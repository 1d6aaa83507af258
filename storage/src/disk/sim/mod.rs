//! [`SimDisk`]: a disk in memory with faults, for simulations and power-loss tests.
//!
//! It is a [`FileSystem`], and [`SimDisk::engine`] gives [`Engine`](crate::disk::Engine)s over the same files. All
//! chance comes from one seed. Rules, stricter than any one file system:
//! - Data is unsure until a sync of its file has *ended*. At a power loss each unsynced sector of 512 bytes is kept,
//!   lost, torn, or has what stood there before its last write; an unsynced size is old, new or between.
//! - Names (creations, renames, removals) are unsure until [`FileSystem::sync_dir`] of their directory, also when the
//!   file itself was synced. A rename is whole; changes of one name or file keep their order; others do not.
//! - After a failed sync the data may or may not have arrived, and the next sync does not bring it.
//!
//! ```
//! use std::path::Path;
//! use bytes::Bytes;
//! use storage::disk::{FileSystem, OpenMode, sim::{PowerLoss, SimDisk}};
//!
//! let disk = SimDisk::new(7);
//! disk.create_dir_all(Path::new("/d"))?;
//! disk.sync_dir(Path::new("/"))?;
//! let file = disk.open(Path::new("/d/f"), OpenMode::Create)?;
//! disk.sync_dir(Path::new("/d"))?;
//! file.write_all_at(&[Bytes::from_static(b"kept")], 0)?;
//! file.sync_data()?;
//! file.write_all_at(&[Bytes::from_static(b"lost")], 4)?;
//! let after = disk.power_loss(PowerLoss::DropUnsynced);
//! assert!(file.size().is_err(), "old handles are dead");
//! assert_eq!(after.open(Path::new("/d/f"), OpenMode::Read)?.size()?, 4);
//! # std::io::Result::Ok(())
//! ```

mod engine;
mod image;
mod names;
mod rng;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

pub use engine::SimEngine;

use self::image::SyncPoint;
use self::names::{Ino, Tree};
use self::rng::Rng;
use super::{DirEntry, File, FileRef, FileSystem, OpenMode};

/// Largest file: keeps a wild position from taking all memory.
const FILE_BYTES_MAX: u64 = 1 << 32;

/// What a power loss does to unsynced data and names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerLoss {
    /// Nothing unsynced survives.
    DropUnsynced,
    /// All of it survives.
    KeepUnsynced,
    /// All survives, except that each file's last write is torn.
    TearLastWrite,
    /// Each sector and name has its own luck.
    Random,
}

/// Kinds of calls that a [`Fault`] can hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// Opening, creating.
    Open,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// [`File::sync_data`] and [`FileSystem::sync_dir`].
    Sync,
    /// Changes of the size, reservations.
    SetLen,
    /// Renames (the path is the old one).
    Rename,
    /// Removals.
    Remove,
}

/// An error to come.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which calls.
    pub call: Call,
    /// Only paths that contain this; empty for all. A file keeps the path it was opened with.
    pub path_part: String,
    /// So many matching calls pass first.
    pub after: u32,
    /// So many fail then; `u32::MAX` for all.
    pub times: u32,
    /// With this errno (`libc::EIO`, `libc::ENOSPC`).
    pub errno: i32,
}

/// How many [`reap`](crate::disk::Engine::reap)s an operation of a [`SimEngine`] takes, drawn anew for each.
/// All zero (the default): operations end within [`flush`](crate::disk::Engine::flush).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latency {
    /// Of writes.
    pub write: RangeInclusive<u32>,
    /// Of syncs.
    pub sync: RangeInclusive<u32>,
    /// Of reads.
    pub read: RangeInclusive<u32>,
}

impl Default for Latency {
    fn default() -> Self {
        Self { write: 0..=0, sync: 0..=0, read: 0..=0 }
    }
}

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with(Tree::new(), Rng::new(seed), None)
    }

    fn with(tree: Tree, rng: Rng, capacity: Option<u64>) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                tree,
                rng,
                locked: BTreeSet::new(),
                capacity,
                faults: Vec::new(),
                latency: Latency::default(),
                changes: 0,
                off_at: None,
                off: false,
            })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine over this disk.
    #[must_use]
    pub fn engine(&self) -> SimEngine {
        SimEngine::new(self.clone())
    }

    /// Bounds the bytes of all files; writes past it fail with `ENOSPC` after what fits.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Sets how long operations of engines take from now on.
    pub fn set_latency(&self, latency: Latency) {
        self.lock().latency = latency;
    }

    /// Plans an error. Planned errors are asked in the order of their planning; the first that matches decides.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// Forgets all planned errors.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Changes so far: writes, syncs, sizes, names. With [`SimDisk::power_off_at`] a test visits each point of a run.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Cuts the power within the change number `change` (counted from 0 over the life of this disk): it may happen in
    /// part and fails; all later calls fail. [`SimDisk::power_loss`] then tells what survived.
    pub fn power_off_at(&self, change: u64) {
        self.lock().off_at = Some(change);
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.lock().off
    }

    /// Cuts the power and gives the disk as the next start finds it. Handles, engines and locks of this one are dead:
    /// their calls answer `EIO`.
    #[must_use]
    pub fn power_loss(&self, style: PowerLoss) -> Self {
        let mut state = self.lock();
        state.off = true;
        let State { tree, rng, .. } = &mut *state;
        let tree = tree.survivor(style, rng);
        let seed = rng.next();
        Self::with(tree, Rng::new(seed), state.capacity)
    }

    /// Kills the process but not the machine: all that was written stays (unsynced data stays unsynced), handles,
    /// engines and locks are dead.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut state = self.lock();
        state.off = true;
        let seed = state.rng.next();
        Self::with(state.tree.killed(), Rng::new(seed), state.capacity)
    }

    fn begin_sync(&self, file: &SimFile) -> io::Result<SyncPoint> {
        let mut state = self.lock();
        state.live()?;
        Ok(state.tree.file(file.ino)?.begin_sync())
    }

    fn end_sync(&self, file: &SimFile, point: SyncPoint) -> io::Result<()> {
        let mut state = self.lock();
        let gate = match state.gate(Call::Sync, &file.path) {
            Ok(gate) => gate,
            Err(error) => {
                if !state.off {
                    let State { tree, rng, .. } = &mut *state;
                    tree.file(file.ino)?.fail_sync(rng);
                }
                return Err(error);
            }
        };
        if gate == Gate::Go {
            state.tree.file(file.ino)?.end_sync(point);
        }
        gate.end()
    }
}

impl FileSystem for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<FileRef> {
        let mut state = self.lock();
        let state = &mut *state;
        state.live()?;
        state.fail(Call::Open, path)?;
        let gate;
        let ino = match state.tree.find(path) {
            Ok(ino) => {
                gate = if mode == OpenMode::Truncate { state.count() } else { Gate::Go };
                ino
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => match mode {
                OpenMode::Read | OpenMode::ReadWrite => return Err(error),
                OpenMode::Create | OpenMode::Truncate => {
                    gate = state.count();
                    state.tree.create(path)?
                }
            },
            Err(error) => return Err(error),
        };
        let file = state.tree.file(ino)?;
        if mode == OpenMode::Truncate {
            file.set_len(0, &mut state.rng);
        }
        gate.end()?;
        file.handles += 1;
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            ino,
            path: path.to_owned(),
            writable: mode != OpenMode::Read,
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut state = self.lock();
        state.live()?;
        state.fail(Call::Open, dir)?;
        let entries = state.tree.list(dir)?;
        Ok(entries
            .into_iter()
            .map(|(name, is_dir, size)| DirEntry { name, is_dir, size })
            .collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.lock();
        state.live()?;
        match state.tree.find(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let gate = state.gate(Call::Open, dir)?;
        state.tree.create_dir_all(dir)?;
        gate.end()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let gate = state.gate(Call::Rename, from)?;
        state.tree.rename(from, to)?;
        gate.end()
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let gate = state.gate(Call::Remove, path)?;
        state.tree.remove_file(path)?;
        gate.end()
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let gate = state.gate(Call::Remove, dir)?;
        state.tree.remove_dir_all(dir)?;
        gate.end()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.lock();
        let gate = state.gate(Call::Sync, dir)?;
        if gate == Gate::Go {
            state.tree.sync_dir(dir)?;
        }
        gate.end()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = SimDisk::lock(self);
        state.live()?;
        state.fail(Call::Open, path)?;
        let ino = state.tree.create(path)?;
        if !state.locked.insert(ino) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock { disk: self.clone(), ino }))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let state = SimDisk::lock(self);
        state.live()?;
        state.tree.find(path)?;
        Ok(state.free().unwrap_or(u64::MAX))
    }
}

#[derive(Debug)]
struct State {
    tree: Tree,
    rng: Rng,
    locked: BTreeSet<Ino>,
    capacity: Option<u64>,
    faults: Vec<Fault>,
    latency: Latency,
    changes: u64,
    off_at: Option<u64>,
    off: bool,
}

/// How a change goes on.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Go,
    /// The power goes off in the middle: do it in part, promise nothing.
    Cut,
}

impl Gate {
    fn end(self) -> io::Result<()> {
        match self {
            Self::Go => Ok(()),
            Self::Cut => Err(power_is_off()),
        }
    }
}

fn power_is_off() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl State {
    fn live(&self) -> io::Result<()> {
        if self.off { Err(power_is_off()) } else { Ok(()) }
    }

    /// Asks the planned errors.
    fn fail(&mut self, call: Call, path: &Path) -> io::Result<()> {
        let path = path.to_string_lossy();
        for fault in &mut self.faults {
            if fault.call != call || fault.times == 0 || !path.contains(&fault.path_part) {
                continue;
            }
            if fault.after > 0 {
                fault.after -= 1;
                continue;
            }
            if fault.times != u32::MAX {
                fault.times -= 1;
            }
            return Err(io::Error::from_raw_os_error(fault.errno));
        }
        Ok(())
    }

    fn count(&mut self) -> Gate {
        let change = self.changes;
        self.changes += 1;
        if self.off_at.is_some_and(|at| change >= at) {
            self.off = true;
            Gate::Cut
        } else {
            Gate::Go
        }
    }

    /// Before each change.
    fn gate(&mut self, call: Call, path: &Path) -> io::Result<Gate> {
        self.live()?;
        self.fail(call, path)?;
        Ok(self.count())
    }

    fn free(&self) -> Option<u64> {
        self.capacity.map(|capacity| capacity.saturating_sub(self.tree.space()))
    }
}

struct SimLock {
    disk: SimDisk,
    ino: Ino,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.lock().locked.remove(&self.ino);
    }
}

/// An open file of a [`SimDisk`].
struct SimFile {
    disk: SimDisk,
    ino: Ino,
    path: PathBuf,
    writable: bool,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if let Ok(file) = self.disk.lock().tree.file(self.ino) {
            file.handles -= 1;
        }
    }
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }
}

impl File for SimFile {
    fn read_at(&self, buf: &mut [u8], pos: u64) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.live()?;
        state.fail(Call::Read, &self.path)?;
        let data = &state.tree.file(self.ino)?.live;
        let start = usize::try_from(pos).map_or(data.len(), |pos| pos.min(data.len()));
        let count = buf.len().min(data.len() - start);
        buf[..count].copy_from_slice(&data[start..start + count]);
        Ok(count)
    }

    fn is_cached(&self, _pos: u64, _len: u32) -> bool {
        true
    }

    /// As [`File::read_at`]: memory is never cold.
    fn read_at_nowait(&self, buf: &mut [u8], pos: u64) -> io::Result<usize> {
        self.read_at(buf, pos)
    }

    fn write_all_at(&self, chunks: &[Bytes], pos: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut data = chunks.concat();
        let end = pos.checked_add(data.len() as u64).filter(|&end| end <= FILE_BYTES_MAX);
        if end.is_none() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let pos = usize::try_from(pos).expect("below the largest file");
        let mut state = self.disk.lock();
        let gate = state.gate(Call::Write, &self.path)?;
        if gate == Gate::Cut {
            let part = state.rng.below(data.len() as u64 + 1);
            data.truncate(usize::try_from(part).expect("below a length"));
        }
        let mut full = false;
        if let Some(free) = state.free() {
            let file = state.tree.file(self.ino)?;
            let limit = usize::try_from(file.space() + free).unwrap_or(usize::MAX);
            if pos + data.len() > limit {
                data.truncate(limit.saturating_sub(pos));
                full = true;
            }
        }
        let State { tree, rng, .. } = &mut *state;
        tree.file(self.ino)?.write(pos, &data, rng);
        gate.end()?;
        if full { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        let point = self.disk.begin_sync(self)?;
        self.disk.end_sync(self, point)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        if len > FILE_BYTES_MAX {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let mut state = self.disk.lock();
        let gate = state.gate(Call::SetLen, &self.path)?;
        let State { tree, rng, .. } = &mut *state;
        tree.file(self.ino)?.set_len(usize::try_from(len).expect("below the largest file"), rng);
        gate.end()
    }

    fn reserve(&self, pos: u64, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.lock();
        let gate = state.gate(Call::SetLen, &self.path)?;
        let free = state.free();
        let file = state.tree.file(self.ino)?;
        let end = pos.saturating_add(len);
        if free.is_some_and(|free| end.saturating_sub(file.space()) > free) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        file.reserved = file.reserved.max(end);
        gate.end()
    }

    fn size(&self) -> io::Result<u64> {
        let mut state = self.disk.lock();
        state.live()?;
        Ok(state.tree.file(self.ino)?.live.len() as u64)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
