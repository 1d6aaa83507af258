//! Kafka's on-disk log. Knows partitions by directory, not topics by policy; serves no requests.

pub mod checkpointer;
pub mod dirs;
pub mod disk;
pub mod format;
pub mod log;
mod small_files;
