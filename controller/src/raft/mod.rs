//! The metadata quorum of one voter: its log, its snapshots, its promises.

pub(crate) mod batch;
#[cfg(test)]
mod golden_tests;
pub(crate) mod log_port;
pub(crate) mod memory_log;
pub(crate) mod node;
pub mod quorum_store;
pub(crate) mod snapshot;
pub(crate) mod storage_log;

/// The log that a controller uses unless it is told otherwise.
pub(crate) use storage_log::open as default_log;
