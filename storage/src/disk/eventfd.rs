//! A counter that polls as readable: how an engine tells its core that a completion waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

/// An eventfd that never blocks.
#[derive(Debug)]
pub(super) struct EventFd(OwnedFd);

impl EventFd {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable. A full counter (2^64 - 2 signals) is readable already.
    pub(super) fn signal(&self) {
        // Any other error would be a closed descriptor, which ownership rules out.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes it unreadable until the next signal.
    pub(super) fn drain(&self) {
        let mut count = [0; 8];
        // `WouldBlock` says that nothing was signalled.
        let _ = rustix::io::read(&self.0, &mut count);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
