//! Fetch: sessions, reading partitions wherever they live, trimming to what was asked for.

pub mod assemble;
pub mod read;
pub mod session;
