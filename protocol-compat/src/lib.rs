//! Pure bytes of the Kafka protocol: no IO, no runtime, no file names.

pub mod error_code;
pub mod ids;

pub use error_code::ErrorCode;
