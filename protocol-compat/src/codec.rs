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
    T::decode(&mut body, version.min(row.crate_max))
        .map_err(|error| CodecError::Message(error.to_string()))
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
