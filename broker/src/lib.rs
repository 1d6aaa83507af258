//! broker
pub mod coordinator;
