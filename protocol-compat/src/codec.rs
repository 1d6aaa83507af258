//! The bridge to the kafka-protocol crate, for every API but Produce and Fetch.

mod newer;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

use crate::api_table::{self, API_VERSIONS, ApiRow};
use crate::guard::{self, GuardError};

pub use newer::{DeleteGroupsResponse, DescribeLogDirsResponse, topic_ids};

/// A message cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The API, or this version of it, is not served.
    #[error("version {version} of API key {key} is not served")]
    NotServed {
        /// The key.
        key: i16,
        /// The version.
        version: i16,
    },
    /// A field that does not follow the schema.
    #[error("{0}")]
    Guard(#[from] GuardError),
    /// The crate refuses what the guard passed, or cannot write an answer.
    #[error("{0}")]
    Message(String),
    /// An answer larger than its length field can say.
    #[error("an answer of {0} bytes is too large")]
    TooLarge(usize),
}

fn served(key: i16, version: i16) -> Result<&'static ApiRow, CodecError> {
    api_table::lookup(key)
        .filter(|row| row.supports(version))
        .ok_or(CodecError::NotServed { key, version })
}

/// Reads the body of a request.
///
/// # Errors
/// An API or version that is not served, or a body that is not exactly one message of it.
pub fn decode_request<T: Decodable>(
    api_key: i16,
    version: i16,
    mut body: Bytes,
) -> Result<T, CodecError> {
    let row = served(api_key, version)?;
    guard::check(api_key, version, &body)?;
    if api_key == API_VERSIONS && version > row.request_max {
        body = without_expected_node(&body);
    }
    let mut body = newer::without_topic_ids(api_key, version, body);
    T::decode(&mut body, version.min(row.request_max))
        .map_err(|error| CodecError::Message(error.to_string()))
}

/// ApiVersions v5 without what it adds, [`ExpectedNode`], which stands between the last field of v4 and the tags. The body
/// has passed the guard.
fn without_expected_node(body: &Bytes) -> Bytes {
    let end = compact_text(body, 0).and_then(|(_, end)| compact_text(body, end));
    let end = end.map_or(body.len(), |(_, end)| end);
    let mut cut = BytesMut::with_capacity(end + 1);
    cut.extend_from_slice(&body[..end]);
    cut.put_u8(0);
    cut.freeze()
}

/// The cluster and node that a client of ApiVersions v5 means to reach (KIP-1242).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedNode {
    /// The cluster's id; `None` is null.
    pub cluster_id: Option<Bytes>,
    /// The node's id, -1 for none.
    pub node_id: i32,
}

impl ExpectedNode {
    /// Reads it from the body of a request of ApiVersions v5; `None` when the body is none.
    #[must_use]
    pub fn read(body: &Bytes) -> Option<Self> {
        let (_, name) = compact_text(body, 0)?;
        let (_, version) = compact_text(body, name)?;
        let (cluster, end) = compact_text(body, version)?;
        let node_id = body.get(end..)?.first_chunk::<4>().copied().map(i32::from_be_bytes)?;
        Some(Self { cluster_id: cluster.map(|range| body.slice(range)), node_id })
    }
}

/// A compact string at `start`: where its bytes are (`None` is null), and where it ends.
fn compact_text(body: &[u8], start: usize) -> Option<(Option<std::ops::Range<usize>>, usize)> {
    let (mut at, mut size, mut shift) = (start, 0_usize, 0);
    loop {
        let byte = *body.get(at)?;
        at += 1;
        size |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
        if shift > 28 {
            return None;
        }
    }
    let Some(size) = size.checked_sub(1) else { return Some((None, at)) };
    let end = at.checked_add(size).filter(|end| *end <= body.len())?;
    Some((Some(at..end), end))
}

/// Appends the frame of an answer to `out`: length, header, body. On errors `out` is as it was.
///
/// # Errors
/// An API or version that is not served; fields that the version lacks.
pub fn encode_response<T: Encodable>(
    api_key: i16,
    version: i16,
    correlation_id: i32,
    response: &T,
    out: &mut BytesMut,
) -> Result<(), CodecError> {
    let row = served(api_key, version)?;
    let start = out.len();
    out.put_i32(0);
    out.put_i32(correlation_id);
    if row.is_flexible(version) && api_key != API_VERSIONS {
        out.put_u8(0);
    }
    let encoded = response
        .encode(out, version.min(row.response_max))
        .map_err(|error| CodecError::Message(error.to_string()))
        .and_then(|()| {
            let size = out.len() - start - 4;
            i32::try_from(size).map_err(|_| CodecError::TooLarge(size))
        });
    match encoded {
        Ok(size) => {
            out[start..start + 4].copy_from_slice(&size.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests;
