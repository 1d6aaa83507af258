//! broker
pub mod bench;
pub mod cli;
pub mod config;
pub mod coordinator;
