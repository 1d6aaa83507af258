//! The command line of `kelda`.
//!
//! `serve` runs a broker; `topic` talks to any broker over the Kafka protocol; `bench` loads one. Answers go to stdout,
//! errors to stderr with what to do next; exit codes are in [`CliError`].

pub mod client;
mod logging;
mod serve;
mod topic;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use client::{Client, ClientError};

#[derive(Debug, Parser)]
#[command(name = "kelda", version, about = "A Kafka-compatible broker", propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a broker.
    Serve(serve::Serve),
    /// Create, list, describe and delete topics of any Kafka cluster.
    Topic(topic::Topic),
    /// Load any Kafka broker and measure it.
    Bench(crate::bench::Bench),
    /// Print the version.
    Version,
}

/// Why a command failed, with its exit code.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Something failed: 1.
    #[error("{0}")]
    Failed(String),
    /// The command makes no sense: 2.
    #[error("{0}")]
    Usage(String),
    /// What was named does not exist: 3.
    #[error("{0}")]
    NotFound(String),
    /// The broker could not be reached or did not answer in time: 5.
    #[error("{0}")]
    TimedOut(String),
}

impl CliError {
    fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NotFound(_) => 3,
            Self::TimedOut(_) => 5,
        }
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => {
                Self::TimedOut(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Runs the command that the process was given.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Topic(topic) => topic.run(),
        Command::Bench(bench) => bench.run(),
        Command::Version => {
            println!("kelda {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kelda: {error}");
            ExitCode::from(error.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        let parse = |words: &[&str]| Cli::try_parse_from(words).map(|_| ());
        parse(&["kelda", "serve"]).expect("no file");
        parse(&["kelda", "serve", "f", "--override", "a=b", "--override", "c=d"]).expect("fine");
        parse(&["kelda", "topic", "create", "t", "-p", "3", "-c", "a=b"]).expect("fine");
        parse(&["kelda", "topic", "list", "--bootstrap-server", "h:1"]).expect("fine");
        assert!(parse(&["kelda", "topic", "create"]).is_err());
    }
}
