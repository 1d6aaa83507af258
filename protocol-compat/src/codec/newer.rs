//! The newest versions of messages that the kafka-protocol crate does not know, bridged to those that it does: each differs
//! from the version before by one field.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages as m;
use kafka_protocol::protocol::buf::ByteBufMut;
use kafka_protocol::protocol::{Encodable, StrBytes};

use crate::guard;
use crate::ids::TopicId;

/// Keys of OffsetCommit and OffsetFetch, whose requests name topics by id from this version on (KIP-848).
const BY_TOPIC_ID: [i16; 2] = [8, 9];
const BY_TOPIC_ID_SINCE: i16 = 10;

/// The topics of an OffsetCommit or OffsetFetch by id, in the order of the request; none in versions that have names.
#[must_use]
pub fn topic_ids(api_key: i16, version: i16, body: &Bytes) -> Vec<TopicId> {
    places(api_key, version, body)
        .into_iter()
        .filter_map(|at| body.get(at..at + 16)?.first_chunk::<16>())
        .map(|bytes| TopicId::from_bytes(*bytes))
        .collect()
}

fn places(api_key: i16, version: i16, body: &Bytes) -> Vec<usize> {
    if !BY_TOPIC_ID.contains(&api_key) || version < BY_TOPIC_ID_SINCE {
        return Vec::new();
    }
    guard::uuids(api_key, version, body).unwrap_or_default()
}

/// The body in the version before, which has an empty name in the place of each id.
pub(super) fn without_topic_ids(api_key: i16, version: i16, body: Bytes) -> Bytes {
    if !BY_TOPIC_ID.contains(&api_key) || version < BY_TOPIC_ID_SINCE {
        return body;
    }
    let mut named = BytesMut::with_capacity(body.len());
    let mut copied = 0;
    for at in places(api_key, version, &body) {
        named.extend_from_slice(&body[copied..at]);
        named.put_u8(1);
        copied = at + 16;
    }
    named.extend_from_slice(&body[copied..]);
    named.freeze()
}

type Outcome<T> = Result<T, anyhow::Error>;

/// DeleteGroups with the messages of version 3 (KIP-1043), one for each result.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeleteGroupsResponse {
    /// The fields of version 2.
    pub response: m::DeleteGroupsResponse,
    /// What went wrong; `None` where nothing did.
    pub messages: Vec<Option<StrBytes>>,
}

impl Encodable for DeleteGroupsResponse {
    fn encode<B: ByteBufMut>(&self, out: &mut B, version: i16) -> Outcome<()> {
        if version < 3 {
            return self.response.encode(out, version);
        }
        out.put_i32(self.response.throttle_time_ms);
        put_size(out, Some(self.response.results.len()))?;
        for (at, result) in self.response.results.iter().enumerate() {
            let message = self.messages.get(at).and_then(Option::as_ref);
            with_field(out, result, 2, |out| {
                put_size(out, message.map(|text| text.len()))?;
                out.put_slice(message.map_or(&[], |text| text.as_bytes()));
                Ok(())
            })?;
        }
        out.put_u8(0);
        Ok(())
    }

    fn compute_size(&self, version: i16) -> Outcome<usize> {
        size_of(self, version)
    }
}

/// DescribeLogDirs with what version 5 says of each directory (KIP-1066).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DescribeLogDirsResponse {
    /// The fields of version 4.
    pub response: m::DescribeLogDirsResponse,
    /// Directories, by their place, that take no new partitions.
    pub cordoned: Vec<bool>,
}

impl Encodable for DescribeLogDirsResponse {
    fn encode<B: ByteBufMut>(&self, out: &mut B, version: i16) -> Outcome<()> {
        if version < 5 {
            return self.response.encode(out, version);
        }
        out.put_i32(self.response.throttle_time_ms);
        out.put_i16(self.response.error_code);
        put_size(out, Some(self.response.results.len()))?;
        for (at, result) in self.response.results.iter().enumerate() {
            let cordoned = self.cordoned.get(at).copied().unwrap_or_default();
            with_field(out, result, 4, |out| {
                out.put_u8(u8::from(cordoned));
                Ok(())
            })?;
        }
        out.put_u8(0);
        Ok(())
    }

    fn compute_size(&self, version: i16) -> Outcome<usize> {
        size_of(self, version)
    }
}

/// The size of a compact array or text, or null.
fn put_size<B: ByteBufMut>(out: &mut B, size: Option<usize>) -> Outcome<()> {
    let mut rest = size.map_or(Ok(0), |size| u32::try_from(size + 1))?;
    while rest >= 0x80 {
        out.put_u8((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8((rest & 0x7f) as u8);
    Ok(())
}

/// A structure in the crate's newest version with one field more, which stands before the tagged fields; there are none.
fn with_field<B: ByteBufMut, T: Encodable>(
    out: &mut B,
    structure: &T,
    version: i16,
    field: impl FnOnce(&mut B) -> Outcome<()>,
) -> Outcome<()> {
    let mut known = BytesMut::new();
    structure.encode(&mut known, version)?;
    anyhow::ensure!(known.last() == Some(&0), "tagged fields in a structure that has none");
    out.put_slice(&known[..known.len() - 1]);
    field(out)?;
    out.put_u8(0);
    Ok(())
}

fn size_of<T: Encodable>(message: &T, version: i16) -> Outcome<usize> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version)?;
    Ok(bytes.len())
}
