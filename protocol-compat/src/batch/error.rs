//! Why a batch was refused, in the shape in which a Produce answer carries it.

use crate::error_code::ErrorCode;

/// One record of a refused batch (`RecordErrors` of Produce v8 and later, KIP-467).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError {
    /// Index of the record in its batch.
    pub batch_index: i32,
    /// What is wrong with it.
    pub message: Option<String>,
}

/// A batch was refused, or could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BatchError {
    /// The code the peer is answered with.
    pub code: ErrorCode,
    /// The reason, as the answer's `error_message` gives it.
    pub message: String,
    /// The records at fault, where single records are.
    pub record_errors: Vec<RecordError>,
}

impl BatchError {
    /// An error of the batch as a whole.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), record_errors: Vec::new() }
    }

    /// The code the peer is answered with.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

impl From<crate::compression::CompressionError> for BatchError {
    fn from(error: crate::compression::CompressionError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
