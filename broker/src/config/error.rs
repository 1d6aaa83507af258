//! Why a configuration cannot be used.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// A line of a properties file.
    File {
        /// Which file.
        path: Arc<PathBuf>,
        /// The line where the entry begins, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// An `--override`.
    Override,
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment variable {name}"),
            Self::Override => f.write_str("--override"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// The config's name.
    pub name: String,
    /// Its value; empty for secrets.
    pub value: String,
    /// What would be valid, or what to do.
    pub valid: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}={}: {}", self.origin, self.name, self.value, self.valid)
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An `--override` is not `name=value`.
    #[error("--override {0}: expected NAME=VALUE, such as log.dirs=/var/lib/kelda")]
    Override(String),
    /// Values that cannot be used: all of them, so that one start shows all.
    #[error("{}", join(.0))]
    Invalid(Vec<Problem>),
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
