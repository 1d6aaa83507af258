//! Sockets: accepting, cutting frames, answering in order, sending with zero copies.

pub mod connection;
pub mod listener;
pub mod out_queue;
pub mod replies;

pub use connection::{CloseReason, Connection};
