//! The broker: cores, connections, APIs, partitions, coordinators, configuration and the `kelda` commands.

pub mod api;
pub mod bench;
pub mod cli;
pub mod config;
pub mod coordinator;
pub mod core;
pub mod directories;
pub mod fetch;
pub mod groups;
pub mod metadata;
pub mod net;
pub mod partitions;
pub mod replica;
pub mod server;
pub mod timers;
