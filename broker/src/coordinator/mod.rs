//! Coordinators: the owners of state that lives in the partitions of an internal topic.
//!
//! A *shard* is one partition of `__consumer_offsets` (later also of `__transaction_state` and `__share_group_state`) and the
//! state that its records make. [`runtime::Runtime`] holds the shards of one core and is the same for every kind of
//! coordinator; [`group::GroupShard`] is the group coordinator. Everything here is a machine without IO, clock, locks or
//! randomness: the shell (the core that owns the partition) feeds [`runtime::Event`]s and carries out
//! [`runtime::Action`]s. It holds no rule of Kafka's.
//!
//! Deliberately absent: finding the coordinator of a group (`protocol_compat::hashing::coordinator_partition` and the
//! metadata image), authorisation, and the creation of the internal topic; those are the API handlers'.

pub mod group;
pub mod runtime;
pub mod shard;

pub use group::GroupShard;
pub use runtime::{Action, AppendId, Event, Runtime, RuntimeConfig};
pub use shard::{Now, Token};
