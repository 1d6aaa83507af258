//! Configuration: Kafka's own names, in layers, each value knowing where it came from.
//!
//! ```text
//!   defaults (data/*.tsv) < server.properties < environment < --override
//!        │ definition.rs        │ properties.rs    │ environment.rs
//!        └──────────────► settings.rs: merged by figment, each value checked against its definition
//!                              │
//!                              ▼
//!        broker_config.rs: what the broker uses, typed    topic.rs: what one topic uses
//!        describe.rs: what DescribeConfigs lists          answer.rs: its answer
//! ```
//!
//! The tables are Apache Kafka 4.4.0's definitions; `data/kelda.tsv` holds what Kelda adds, all named `kelda.*`.
//! Whether a *changed* topic or broker config is allowed is the controller's to decide; nothing of that is here.

pub mod answer;
pub mod broker_config;
pub mod definition;
pub mod describe;
pub mod docs;
pub mod environment;
pub mod error;
pub mod listener;
pub mod properties;
pub mod reference;
pub mod settings;
pub mod topic;
pub mod valid;

pub use broker_config::{BrokerConfig, EngineSetting};
pub use error::ConfigError;
pub use listener::{Listener, SecurityProtocol};
pub use settings::Settings;
pub use topic::TopicConfig;
