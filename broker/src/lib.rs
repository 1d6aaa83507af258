//! broker
pub mod config;
pub mod coordinator;
