//! Cluster metadata: the KRaft node, the immutable image of the cluster, and the decisions that change it.
//!
//! ```text
//!   ControllerHandle ──requests──► quorum thread (driver.rs)
//!                                    │ decide/  reads the image, gives records + answer
//!                                    │ image::replay  the only place that changes an image
//!                                    │ raft/    batches records into the metadata log, moves the watermark
//!                                    ▼
//!                            publisher(image, delta) ──► broker;  answers to callers
//! ```
//!
//! Answers leave only after their records are durable, replayed and published.

pub mod bootstrap;
mod clock;
pub mod config_defs;
pub mod controller;
pub mod decide;
mod driver;
pub mod error;
pub mod image;
mod not_controller;
pub mod raft;
pub mod records;

pub use controller::{Controller, ControllerConfig, ControllerHandle, QuorumConfig};
pub use decide::activation::SUPPORTED as SUPPORTED_FEATURES;
pub use error::{ControllerError, RequestError};
pub use image::MetadataImage;
pub use image::delta::MetadataDelta;
