//! Apache Kafka's files, byte for byte: parsing and writing of everything in a log directory but the batches.
//!
//! Pure: bytes and names in, bytes and names out. Who reads the files decides what a bad one means. Nothing else in the
//! project parses or names these files. All integers are big-endian.

pub mod clean_shutdown;
pub mod epoch_checkpoint;
pub mod marker;
pub mod meta_properties;
pub mod names;
pub mod offset_checkpoint;
pub mod offset_index;
pub mod partition_metadata;
pub mod producer_snapshot;
pub mod time_index;
pub mod txn_index;

/// A file is not what its name says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormatError(pub String);

impl FormatError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// `N` bytes at `at`, or `None` past the end.
fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}
