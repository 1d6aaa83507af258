//! Pure bytes of the Kafka protocol: no IO, no runtime, no file names.

pub mod api_table;
pub mod batch;
pub mod codec;
pub mod compression;
pub mod error_code;
pub mod frame;
pub mod guard;
pub mod hashing;
pub mod hot;
pub mod ids;

pub use error_code::ErrorCode;
