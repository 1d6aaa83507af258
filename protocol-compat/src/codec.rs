//! The bridge to the kafka-protocol crate, for every API but Produce and Fetch.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

use crate::api_table::{self, API_VERSIONS, ApiRow};
use crate::guard::{self, GuardError};

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
    if api_key == API_VERSIONS && version > row.crate_max {
        body = without_expected_node(&body);
    }
    T::decode(&mut body, version.min(row.crate_max))
        .map_err(|error| CodecError::Message(error.to_string()))
}

/// ApiVersions v5 without what it adds (KIP-1242): the cluster and node that the client means to reach, between the last
/// field of v4 and the tags. The body has passed the guard.
fn without_expected_node(body: &Bytes) -> Bytes {
    let mut end = 0;
    for _ in 0..2 {
        // A compact string: its length plus one as a varint, and its bytes.
        let (mut size, mut shift) = (0_usize, 0);
        while let Some(&byte) = body.get(end) {
            end += 1;
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 || shift > 28 {
                break;
            }
        }
        end = end.saturating_add(size.saturating_sub(1)).min(body.len());
    }
    let mut cut = BytesMut::with_capacity(end + 1);
    cut.extend_from_slice(&body[..end]);
    cut.put_u8(0);
    cut.freeze()
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
        .encode(out, version.min(row.crate_max))
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
