//! What a log asks its shell to do, and what it gives to readers.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::DirectoryFailed;
use super::jobs::Outcome;
use super::segment::SegmentFiles;
use crate::disk::FileRef;

/// One piece of work for the shell. At most one write-or-roll, one sync, one background job and one reservation of space of
/// a log are out at a time; which completion to call is named at each variant.
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

/// Which of a log's job slots a job holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// The write's: nothing is written meanwhile.
    Front,
    /// The background's.
    Back,
    /// That of space for later appends.
    Ahead,
}

type Run = Box<dyn FnOnce() -> Result<Outcome, DirectoryFailed> + Send>;

/// Work that may block.
pub struct LogJob {
    name: &'static str,
    slot: Slot,
    run: Run,
}

impl LogJob {
    pub(super) fn new(
        name: &'static str,
        slot: Slot,
        run: impl FnOnce() -> Result<Outcome, DirectoryFailed> + Send + 'static,
    ) -> Self {
        Self { name, slot, run: Box::new(run) }
    }

    /// Does the work. Blocks; never panics on what it finds on disk.
    #[must_use]
    pub fn run(self) -> LogJobDone {
        LogJobDone { slot: self.slot, result: (self.run)() }
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

/// What a [`LogJob`] gave; to be handed to [`super::Log::job_done`], but for that of [`super::Log::close`].
#[derive(Debug)]
pub struct LogJobDone {
    pub(super) slot: Slot,
    pub(super) result: Result<Outcome, DirectoryFailed>,
}

impl LogJobDone {
    /// How it ended, for the job of [`super::Log::close`], whose log is no more.
    ///
    /// # Errors
    /// The directory failed.
    pub fn into_result(self) -> Result<(), DirectoryFailed> {
        self.result.map(drop)
    }
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
    pub(super) files: Arc<SegmentFiles>,
    pub(super) what: ColdPart,
}

/// Which file of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ColdPart {
    Log,
    Index,
    Aborted,
}

impl Cold {
    /// Opens or reads what is missing. Blocks: for a pool thread. The read must then be asked again.
    ///
    /// # Errors
    /// What the disk reports.
    pub fn warm(self) -> io::Result<()> {
        match self {
            Self::Range { file, mut pos, len } => {
                let end = pos + u64::from(len);
                let mut buffer = vec![0; (len as usize).min(1 << 18)];
                while pos < end {
                    let want = usize::try_from(end - pos).unwrap_or(usize::MAX).min(buffer.len());
                    match file.read_at(&mut buffer[..want], pos)? {
                        0 => break,
                        count => pos += count as u64,
                    }
                }
                Ok(())
            }
            Self::Open(ColdFile { files, what }) => match what {
                ColdPart::Log => files.open_log().map(drop),
                ColdPart::Index => files.open_index().map(drop),
                ColdPart::Aborted => files.read_aborted().map(drop),
            },
        }
    }
}
