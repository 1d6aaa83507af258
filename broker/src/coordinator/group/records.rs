//! The records of classic groups and their offsets in `__consumer_offsets`, as Apache Kafka 4.4 writes and reads them.
//!
//! Keys begin with the record's type. Newer kinds of groups have types of their own, which this release leaves alone.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use protocol_compat::ids::{LeaderEpoch, Offset, PartitionIndex, Timestamp, TopicId, Uuid};

use crate::coordinator::shard::{CoordinatorRecord, ReplayError};

/// What a record is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    /// A committed offset (types 0 and 1).
    Offset {
        /// The group.
        group: Arc<str>,
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionIndex,
    },
    /// A classic group (type 2).
    Group {
        /// The group.
        group: Arc<str>,
    },
    /// Another kind of group: not served, left as it is.
    Other(i16),
}

/// A committed offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetValue {
    /// The next offset to read.
    pub offset: Offset,
    /// Epoch of the last record that was read.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Free text of the client.
    pub metadata: Arc<str>,
    /// When it was committed.
    pub commit_timestamp: Timestamp,
    /// When it expires, for clients that say so.
    pub expire_timestamp: Option<Timestamp>,
    /// Id of the topic.
    pub topic_id: Option<TopicId>,
}

/// A member as the group's record keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as Kafka's fields")]
pub struct MemberValue {
    pub member_id: Arc<str>,
    pub group_instance_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub subscription: Bytes,
    pub assignment: Bytes,
}

/// A classic group as its record keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as Kafka's fields")]
pub struct GroupValue {
    pub protocol_type: Arc<str>,
    pub generation: i32,
    pub protocol: Option<Arc<str>>,
    pub leader: Option<Arc<str>>,
    pub current_state_timestamp: i64,
    pub members: Vec<MemberValue>,
}

fn bad(what: &str) -> ReplayError {
    ReplayError { what: what.to_owned() }
}

struct Reader<'a> {
    bytes: &'a [u8],
    flexible: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], ReplayError> {
        let (head, rest) =
            self.bytes.split_at_checked(size).ok_or_else(|| bad("a record that is cut off"))?;
        self.bytes = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReplayError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn i16(&mut self) -> Result<i16, ReplayError> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, ReplayError> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, ReplayError> {
        self.array().map(i64::from_be_bytes)
    }

    fn uvarint(&mut self) -> Result<u32, ReplayError> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(bad("a varint without an end"))
    }

    fn size(&mut self, wide: bool) -> Result<Option<usize>, ReplayError> {
        let size = match (self.flexible, wide) {
            (true, _) => i64::from(self.uvarint()?) - 1,
            (false, true) => i64::from(self.i32()?),
            (false, false) => i64::from(self.i16()?),
        };
        if size == -1 {
            return Ok(None);
        }
        usize::try_from(size).map(Some).map_err(|_| bad("a negative length"))
    }

    fn nullable_string(&mut self) -> Result<Option<Arc<str>>, ReplayError> {
        let Some(size) = self.size(false)? else { return Ok(None) };
        let text = std::str::from_utf8(self.take(size)?).map_err(|_| bad("text is not UTF-8"))?;
        Ok(Some(text.into()))
    }

    fn string(&mut self) -> Result<Arc<str>, ReplayError> {
        self.nullable_string()?.ok_or_else(|| bad("null where text must be"))
    }

    fn bytes(&mut self) -> Result<Bytes, ReplayError> {
        let size = self.size(true)?.unwrap_or(0);
        self.take(size).map(Bytes::copy_from_slice)
    }

    fn tags(&mut self, mut known: impl FnMut(u32, &[u8])) -> Result<(), ReplayError> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.uvarint()? {
            let tag = self.uvarint()?;
            let size = usize::try_from(self.uvarint()?).unwrap_or(usize::MAX);
            known(tag, self.take(size)?);
        }
        Ok(())
    }
}

/// Reads a key.
///
/// # Errors
/// A key that is cut off or no text.
pub fn read_key(bytes: &[u8]) -> Result<Key, ReplayError> {
    let mut reader = Reader { bytes, flexible: false };
    match reader.i16()? {
        0 | 1 => Ok(Key::Offset {
            group: reader.string()?,
            topic: reader.string()?,
            partition: PartitionIndex(reader.i32()?),
        }),
        2 => Ok(Key::Group { group: reader.string()? }),
        kind => Ok(Key::Other(kind)),
    }
}

/// Reads the value of a committed offset, versions 0 to 4.
///
/// # Errors
/// Another version, or a value that is cut off.
pub fn read_offset(bytes: &[u8]) -> Result<OffsetValue, ReplayError> {
    let mut reader = Reader { bytes, flexible: false };
    let version = reader.i16()?;
    if !(0..=4).contains(&version) {
        return Err(bad(&format!("a committed offset of version {version}")));
    }
    reader.flexible = version >= 4;
    let offset = Offset(reader.i64()?);
    let leader_epoch = if version >= 3 { reader.i32()? } else { -1 };
    let metadata = reader.string()?;
    let commit_timestamp = Timestamp(reader.i64()?);
    let expire = if version == 1 { reader.i64()? } else { -1 };
    let mut topic_id = None;
    reader.tags(|tag, value| {
        if let (0, Ok(id)) = (tag, <[u8; 16]>::try_from(value)) {
            let id = Uuid::from_bytes(id);
            topic_id = (!id.is_nil()).then_some(TopicId(id));
        }
    })?;
    Ok(OffsetValue {
        offset,
        leader_epoch: (leader_epoch >= 0).then_some(LeaderEpoch(leader_epoch)),
        metadata,
        commit_timestamp,
        expire_timestamp: (expire >= 0).then_some(Timestamp(expire)),
        topic_id,
    })
}

/// Reads the value of a classic group, versions 0 to 4.
///
/// # Errors
/// Another version, or a value that is cut off.
pub fn read_group(bytes: &[u8]) -> Result<GroupValue, ReplayError> {
    let mut reader = Reader { bytes, flexible: false };
    let version = reader.i16()?;
    if !(0..=4).contains(&version) {
        return Err(bad(&format!("a group of version {version}")));
    }
    reader.flexible = version >= 4;
    let protocol_type = reader.string()?;
    let generation = reader.i32()?;
    let protocol = reader.nullable_string()?;
    let leader = reader.nullable_string()?;
    let current_state_timestamp = if version >= 2 { reader.i64()? } else { -1 };
    let count = reader.size(true)?.unwrap_or(0);
    let mut members = Vec::new();
    for _ in 0..count {
        let member_id = reader.string()?;
        let group_instance_id = if version >= 3 { reader.nullable_string()? } else { None };
        let client_id = reader.string()?;
        let client_host = reader.string()?;
        let rebalance = if version >= 1 { Some(reader.i32()?) } else { None };
        let session_timeout_ms = reader.i32()?;
        let subscription = reader.bytes()?;
        let assignment = reader.bytes()?;
        reader.tags(|_, _| {})?;
        members.push(MemberValue {
            member_id,
            group_instance_id,
            client_id,
            client_host,
            rebalance_timeout_ms: rebalance.unwrap_or(session_timeout_ms),
            session_timeout_ms,
            subscription,
            assignment,
        });
    }
    reader.tags(|_, _| {})?;
    Ok(GroupValue { protocol_type, generation, protocol, leader, current_state_timestamp, members })
}

fn put_string(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        // Texts came in frames with lengths of 15 bits; a longer one is cut rather than written wrongly.
        Some(text) => {
            let size = text.len().min(0x7fff);
            out.put_u16(u16::try_from(size).unwrap_or(0));
            out.put_slice(&text.as_bytes()[..size]);
        }
        None => out.put_i16(-1),
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(0));
    out.put_slice(bytes);
}

fn put_uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value.to_be_bytes()[3] | 0x80);
        value >>= 7;
    }
    out.push(value.to_be_bytes()[3]);
}

fn offset_key(group: &str, topic: &str, partition: PartitionIndex) -> Bytes {
    let mut out = Vec::with_capacity(10 + group.len() + topic.len());
    out.put_i16(1);
    put_string(&mut out, Some(group));
    put_string(&mut out, Some(topic));
    out.put_i32(partition.0);
    out.into()
}

/// The record of a committed offset; `None` takes it away.
#[must_use]
pub fn offset_record(
    group: &str,
    topic: &str,
    partition: PartitionIndex,
    value: Option<&OffsetValue>,
) -> CoordinatorRecord {
    let value = value.map(|value| {
        let mut out = Vec::with_capacity(48 + value.metadata.len());
        let epoch = value.leader_epoch.map_or(-1, |epoch| epoch.0);
        match value.expire_timestamp {
            // The only version with an expiry of its own.
            Some(expire) => {
                out.put_i16(1);
                out.put_i64(value.offset.0);
                put_string(&mut out, Some(&value.metadata));
                out.put_i64(value.commit_timestamp.0);
                out.put_i64(expire.0);
            }
            None => {
                out.put_i16(4);
                out.put_i64(value.offset.0);
                out.put_i32(epoch);
                put_uvarint(&mut out, u32::try_from(value.metadata.len()).unwrap_or(0) + 1);
                out.put_slice(value.metadata.as_bytes());
                out.put_i64(value.commit_timestamp.0);
                match value.topic_id {
                    Some(id) => {
                        out.put_slice(&[1, 0, 16]);
                        out.put_slice(id.0.as_bytes());
                    }
                    None => out.push(0),
                }
            }
        }
        Bytes::from(out)
    });
    CoordinatorRecord { key: offset_key(group, topic, partition), value }
}

/// The record of a classic group; `None` takes it away.
#[must_use]
pub fn group_record(group: &str, value: Option<&GroupValue>) -> CoordinatorRecord {
    let mut key = Vec::with_capacity(4 + group.len());
    key.put_i16(2);
    put_string(&mut key, Some(group));
    let value = value.map(|value| {
        let mut out = Vec::new();
        out.put_i16(3);
        put_string(&mut out, Some(&value.protocol_type));
        out.put_i32(value.generation);
        put_string(&mut out, value.protocol.as_deref());
        put_string(&mut out, value.leader.as_deref());
        out.put_i64(value.current_state_timestamp);
        out.put_u32(u32::try_from(value.members.len()).unwrap_or(0));
        for member in &value.members {
            put_string(&mut out, Some(&member.member_id));
            put_string(&mut out, member.group_instance_id.as_deref());
            put_string(&mut out, Some(&member.client_id));
            put_string(&mut out, Some(&member.client_host));
            out.put_i32(member.rebalance_timeout_ms);
            out.put_i32(member.session_timeout_ms);
            put_bytes(&mut out, &member.subscription);
            put_bytes(&mut out, &member.assignment);
        }
        Bytes::from(out)
    });
    CoordinatorRecord { key: key.into(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(expire: Option<i64>, id: Option<u128>) -> OffsetValue {
        OffsetValue {
            offset: Offset(42),
            leader_epoch: if expire.is_some() { None } else { Some(LeaderEpoch(3)) },
            metadata: "meta".into(),
            commit_timestamp: Timestamp(1000),
            expire_timestamp: expire.map(Timestamp),
            topic_id: id.map(|id| TopicId(Uuid::from_u128(id))),
        }
    }

    #[test]
    fn offsets_come_back() {
        for value in [value(None, None), value(None, Some(7)), value(Some(9), None)] {
            let record = offset_record("g", "t", PartitionIndex(5), Some(&value));
            let key =
                Key::Offset { group: "g".into(), topic: "t".into(), partition: PartitionIndex(5) };
            assert_eq!(read_key(&record.key).expect("key"), key);
            assert_eq!(read_offset(&record.value.expect("value")).expect("value"), value);
        }
    }

    #[test]
    fn groups_come_back_and_no_cut_panics() {
        let group = GroupValue {
            protocol_type: "consumer".into(),
            generation: 4,
            protocol: Some("range".into()),
            leader: Some("m".into()),
            current_state_timestamp: 77,
            members: vec![MemberValue {
                member_id: "m".into(),
                group_instance_id: Some("i".into()),
                client_id: "c".into(),
                client_host: "/127.0.0.1".into(),
                rebalance_timeout_ms: 60_000,
                session_timeout_ms: 10_000,
                subscription: Bytes::from_static(b"sub"),
                assignment: Bytes::from_static(b"assigned"),
            }],
        };
        let record = group_record("g", Some(&group));
        assert_eq!(read_key(&record.key).expect("key"), Key::Group { group: "g".into() });
        let bytes = record.value.expect("value");
        assert_eq!(read_group(&bytes).expect("value"), group);
        for cut in 0..bytes.len() {
            assert!(read_group(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn other_kinds_of_groups_are_left_alone() {
        assert_eq!(read_key(&[0, 3, 0, 1, b'g']).expect("key"), Key::Other(3));
    }
}
