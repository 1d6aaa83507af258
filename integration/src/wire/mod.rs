//! A client that speaks the protocol request by request, in any version, right or wrong as a test wants it.

pub mod batch;
mod client;
pub mod requests;
mod topics;

pub use client::{Client, frame};
pub use topics::{create_topic, create_topic_with, unique};
