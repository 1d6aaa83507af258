//! Hand-written codecs of the two hot messages, Produce and Fetch, for all versions that are served.
//!
//! They slice record bytes instead of copying them and allocate a handful of times a request, whatever its shape. Each is
//! tested equal to the kafka-protocol crate on random input, and on golden bodies proved on Kafka's Java classes.
//! Every length and count from a peer is bounded by the bytes that are left before anything is allocated for it.

pub mod fetch_request;
pub mod fetch_response;
pub mod produce;
#[cfg(test)]
mod testkit;
mod wire;

use std::ops::Range;

use kafka_protocol::protocol::StrBytes;

use crate::ids::{BrokerId, LeaderEpoch, TopicId};

/// A topic as a request names it: by name in older versions, by id in newer ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopicRef {
    /// By name.
    Name(StrBytes),
    /// By id.
    Id(TopicId),
}

/// A topic and which of the flat list of partitions are its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicSpan {
    /// The topic.
    pub topic: TopicRef,
    /// Its partitions in the flat list.
    pub partitions: Range<usize>,
}

/// Who leads a partition now: the tagged field `CurrentLeader` (KIP-951).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurrentLeader {
    /// The leader; -1 when there is none.
    pub leader_id: BrokerId,
    /// Its epoch.
    pub leader_epoch: LeaderEpoch,
}

/// How to reach a broker: an element of the tagged field `NodeEndpoints` (KIP-951).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeEndpoint {
    /// The broker.
    pub node_id: BrokerId,
    /// Host name as advertised on the listener of the request.
    pub host: StrBytes,
    /// Port.
    pub port: i32,
    /// Rack, if configured.
    pub rack: Option<StrBytes>,
}

impl NodeEndpoint {
    fn write(&self, writer: &mut wire::Writer<'_>) -> Result<(), EncodeError> {
        writer.out.extend_from_slice(&self.node_id.0.to_be_bytes());
        writer.string(Some(&self.host))?;
        writer.out.extend_from_slice(&self.port.to_be_bytes());
        writer.string(self.rack.as_deref())?;
        writer.tag_count(0);
        Ok(())
    }

    /// The tagged field 0 of a flexible answer; nothing where there are none.
    fn write_all(list: &[Self], writer: &mut wire::Writer<'_>) -> Result<(), EncodeError> {
        if list.is_empty() {
            writer.tag_count(0);
            return Ok(());
        }
        let mut value = bytes::BytesMut::new();
        let mut inner = wire::Writer { out: &mut value, flexible: true };
        inner.count(Some(list.len()))?;
        for endpoint in list {
            endpoint.write(&mut inner)?;
        }
        let size = u32::try_from(value.len()).map_err(|_| EncodeError::TooLarge(value.len()))?;
        writer.tag_count(1);
        writer.tag(0, size);
        writer.out.extend_from_slice(&value);
        Ok(())
    }
}

impl TopicRef {
    /// Writes the topic as a version names it.
    fn write(
        &self,
        version: i16,
        by_id: bool,
        writer: &mut wire::Writer<'_>,
    ) -> Result<(), EncodeError> {
        match (self, by_id) {
            (Self::Name(name), false) => writer.string(Some(name)),
            (Self::Id(id), true) => {
                writer.out.extend_from_slice(id.0.as_bytes());
                Ok(())
            }
            (Self::Name(_), true) | (Self::Id(_), false) => Err(EncodeError::TopicRef(version)),
        }
    }
}

/// A body does not follow its schema. Kafka closes the connection on such a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The body ends before the field does.
    #[error("{field}: {needed} bytes are needed and {left} are left")]
    Short {
        /// The field.
        field: &'static str,
        /// Bytes that it claims.
        needed: usize,
        /// Bytes left in the body.
        left: usize,
    },
    /// The field has a value that its schema does not allow.
    #[error("{field}: {what}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// Bytes are left after the message.
    #[error("{0} bytes are left after the message")]
    Trailing(usize),
    /// The version is not one of this message.
    #[error("version {0} is not supported")]
    Version(i16),
}

/// An answer cannot be written in the version asked for: a defect of ours, not of the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The version is not one of this message.
    #[error("version {0} is not supported")]
    Version(i16),
    /// The topic is named in the way of other versions.
    #[error("version {0} names topics in another way")]
    TopicRef(i16),
    /// The frame would be larger than its length field can say.
    #[error("a frame of {0} bytes is too large")]
    TooLarge(usize),
    /// A text is longer than its length field can say.
    #[error("a text of {0} bytes is too long")]
    TextTooLong(usize),
}
