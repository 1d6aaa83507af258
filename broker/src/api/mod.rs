//! The APIs: one file for each key. [`handle`] takes a frame, [`route`] knows which function answers it.

pub mod configs;
pub mod delete_records;
pub mod describe_cluster;
pub mod describe_log_dirs;
pub mod describe_topic_partitions;
pub mod each_partition;
pub mod fetch;
pub mod find_coordinator;
pub mod groups;
pub mod init_producer_id;
pub mod list_offsets;
pub mod metadata;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod route;
pub mod topics;

use std::rc::Rc;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;
pub use protocol_compat::frame::RequestHeader;

use crate::core::Core;
use crate::net::connection::{CloseReason, Connection, Peer};

/// Operations that a client may do on the cluster, as a set of bits: without authorisation, all that exist.
pub const CLUSTER_OPERATIONS: i32 = operations(&[5, 7, 8, 9, 10, 11, 12]);
/// The same for a topic.
pub const TOPIC_OPERATIONS: i32 = operations(&[3, 4, 5, 6, 7, 8, 10, 11]);
/// The same for a group.
pub const GROUP_OPERATIONS: i32 = operations(&[3, 6, 8, 10, 11]);
/// What stands there when they were not asked for.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

const fn operations(list: &[u8]) -> i32 {
    let mut bits = 0;
    let mut at = 0;
    while at < list.len() {
        bits |= 1 << list[at];
        at += 1;
    }
    bits
}

/// What the handlers of cold APIs know of a request besides its body.
#[derive(Clone, Debug)]
pub struct Context {
    /// Version of the request.
    pub version: i16,
    /// Who asks, by its own account; empty for null.
    pub client_id: StrBytes,
    /// The connection's other side.
    pub peer: Peer,
}

/// Answers one frame, or sees to it that it will be answered.
///
/// # Errors
/// A frame that is no request, or of an API or version that is not served, ends the connection, as in Kafka.
pub async fn handle(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    frame: Bytes,
) -> Result<(), CloseReason> {
    let (header, body) = route::open(frame)?;
    match header.api_key {
        route::PRODUCE => produce::handle(core, connection, &header, body),
        // The futures of the rest are large: on the heap, so that those of idle connections are small.
        route::FETCH => Box::pin(fetch::handle(core, connection, &header, body)).await,
        _ => Box::pin(route::answer(core, connection, header, body)).await,
    }
}
