//! How much of a file is in the page cache: the system call `cachestat` (Linux 6.5), which no library wraps yet.
#![allow(unsafe_code, reason = "a bare system call")]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

/// The number of the call, the same on every architecture that has it by name.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    pos: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of the range that are in the page cache; none where the kernel or the file system cannot say.
pub(super) fn cached_pages(file: BorrowedFd<'_>, pos: u64, len: u64) -> Option<u64> {
    static REFUSED: OnceLock<()> = OnceLock::new();
    if REFUSED.get().is_some() {
        return None;
    }
    let range = Range { pos, len };
    let mut counts = Counts::default();
    // SAFETY: both structures are those of the kernel's interface, alive for the call; the descriptor is borrowed for it.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0)
    };
    if result != 0 {
        let _ = REFUSED.set(());
        return None;
    }
    Some(counts.cached)
}
