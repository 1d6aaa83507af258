//! One partition's log: segments, positions, appends, reads, recovery, retention.
//!
//! [`Log`] is a machine. Its append side does no IO: [`Log::stage`] gives offsets and keeps the bytes,
//! [`Log::next_io`] says what the shell must do next, and [`Log::write_done`], [`Log::sync_done`] and
//! [`Log::job_done`] say how it ended. What may block (open, roll, deletion, checkpoints) is a
//! [`LogJob`] for a pool thread. Reads never block: what is not in the page cache is answered
//! [`ReadError::Cold`].
//!
//! Compaction is absent: a later part rewrites segments beside these files.

mod ahead;
mod append;
mod config;
mod epochs;
mod error;
mod io;
mod jobs;
mod load;
#[allow(clippy::module_inception, reason = "the main type of this directory")]
mod log;
mod lookup;
mod producers;
mod read;
mod recover;
mod retention;
mod scan;
mod segment;
mod staging;
#[cfg(test)]
mod tests;
mod types;
mod work;

pub use config::{CleanupPolicy, Durability, LogConfig};
pub use error::{AppendError, DirectoryFailed, LogError, ReadError};
pub use io::{Cold, ColdFile, LogIo, LogJob, LogJobDone, LogSlice};
pub use log::Log;
pub use lookup::LookupJob;
pub use types::{
    AbortedTransaction, Appended, EpochEnd, LeaderAppend, Lookup, OpenArgs, ProducerView,
    RecoveryReport, StageOutcome, TimestampOffset,
};
