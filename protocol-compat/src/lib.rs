//! Pure bytes of the Kafka protocol: no IO, no runtime, no file names.

pub mod batch;
pub mod compression;
pub mod error_code;
pub mod hashing;
pub mod hot;
pub mod ids;

pub use error_code::ErrorCode;
