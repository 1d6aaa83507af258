//! What can go wrong in the controller: answered to a peer, or fatal to the process.

use protocol_compat::ErrorCode;

/// A request that was refused; the code goes to the peer, the text is its error message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestError {
    code: ErrorCode,
    message: String,
}

impl RequestError {
    /// An error with this code and text.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The code to answer.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The text to answer.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The controller cannot start or go on. The process should stop with this text.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A file could not be read or written.
    #[error("{attempt}: {source}")]
    Io {
        /// What was attempted, on which path.
        attempt: String,
        /// What the disk said.
        source: std::io::Error,
    },
    /// The metadata log or a snapshot holds something that cannot be what Kafka wrote.
    #[error("metadata log: {0}")]
    Corrupt(String),
    /// A record type or version that this release does not know: skipping it would lose metadata.
    #[error(
        "metadata record at offset {offset}: {reason}; this release reads the records of Apache Kafka 4.4"
    )]
    UnknownRecord {
        /// Where it stands.
        offset: i64,
        /// Which type and version.
        reason: String,
    },
    /// A record does not fit the state it is replayed on.
    #[error("replay of the metadata record at offset {offset}: {reason}")]
    Replay {
        /// Where it stands.
        offset: i64,
        /// What does not fit.
        reason: String,
    },
    /// The directory belongs to another cluster or node, or the configuration contradicts itself.
    #[error("{0}")]
    Refused(String),
}
