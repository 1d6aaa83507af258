//! What a log asks its shell to do, and what it gives to readers.

use std::fmt;
use std::io;

use bytes::Bytes;

use crate::disk::FileRef;

/// One piece of work for the shell. At most one write-or-roll, one sync and one background job of a
/// log are out at a time; which completion to call is named at each variant.
#[derive(Debug)]
pub enum LogIo {
    /// Write the chunks at `pos`, then call [`super::Log::write_done`].
    Write {
        /// The active segment.
        file: FileRef,
        /// First byte.
        pos: u64,
        /// At most 1024 pieces and 4 MiB (more only when one batch is larger).
        chunks: Vec<Bytes>,
    },
    /// fdatasync the file, then call [`super::Log::sync_done`].
    Sync {
        /// The oldest segment that is not synced.
        file: FileRef,
    },
    /// Run on a pool thread, then call [`super::Log::job_done`] with what it gave.
    Job(LogJob),
}

/// Work that may block.
pub struct LogJob {
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnOnce() -> LogJobDone + Send>,
}

impl LogJob {
    /// Does the work. Blocks; never panics on what it finds on disk.
    #[must_use]
    pub fn run(self) -> LogJobDone {
        (self.run)()
    }

    /// What it does, for logs and metrics: `roll`, `seal`, `checkpoint`, `delete`, ...
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for LogJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogJob").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a [`LogJob`] gave; opaque, to be handed to [`super::Log::job_done`].
#[derive(Debug)]
pub struct LogJobDone {
    // Filled in with the jobs.
}

/// Bytes of a segment file: whole batches, except that the last may be cut where no boundary was known.
#[derive(Clone, Debug)]
pub struct LogSlice {
    /// Keeps the file open over its deletion.
    pub file: FileRef,
    /// First byte: the start of the batch that holds the offset asked for.
    pub pos: u64,
    /// Bytes; 0 when there is nothing to read yet.
    pub len: u32,
    /// Size of the first batch, 0 when there is none. May exceed `len` unless `min_one_batch` was asked.
    pub first_batch_size: u32,
}

/// What must come into memory before a read can be answered.
#[derive(Debug)]
pub enum Cold {
    /// Bytes of an open file.
    Range {
        /// The file.
        file: FileRef,
        /// First byte.
        pos: u64,
        /// Bytes.
        len: u32,
    },
    /// A file that has to be opened first.
    Open(ColdFile),
}

/// A file to be opened on a pool thread.
#[derive(Debug)]
pub struct ColdFile {
    // Filled in with the segments.
}

impl Cold {
    /// Opens or reads what is missing. Blocks: for a pool thread. The read must then be asked again.
    ///
    /// # Errors
    /// What the disk reports.
    pub fn warm(self) -> io::Result<()> {
        unimplemented!()
    }
}
