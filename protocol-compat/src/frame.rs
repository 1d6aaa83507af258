//! The header of a request. Frames are cut by their length by whoever holds the socket.

use bytes::{Buf, Bytes};
use kafka_protocol::protocol::StrBytes;

use crate::api_table;
use crate::hot::WireError;

/// The header of a request, in its versions 1 and 2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// Which API.
    pub api_key: i16,
    /// In which version.
    pub api_version: i16,
    /// Comes back with the answer.
    pub correlation_id: i32,
    /// Who asks, by its own account.
    pub client_id: Option<StrBytes>,
}

/// Reads the header of a frame and gives it with the body.
///
/// The body of an API that is not served is what follows the client id.
///
/// # Errors
/// A frame that ends too soon, or a client id that is no text.
pub fn read_header(mut frame: Bytes) -> Result<(RequestHeader, Bytes), WireError> {
    const FIXED: usize = 2 + 2 + 4 + 2;
    if frame.len() < FIXED {
        return Err(short("header", FIXED, frame.len()));
    }
    let api_key = frame.get_i16();
    let api_version = frame.get_i16();
    let correlation_id = frame.get_i32();
    let client_id = match usize::try_from(frame.get_i16()) {
        Err(_) => None,
        Ok(size) if size > frame.len() => return Err(short("client_id", size, frame.len())),
        Ok(size) => Some(StrBytes::from_utf8(frame.split_to(size)).map_err(|_| {
            WireError::Invalid { field: "client_id", what: "a text that is not UTF-8" }
        })?),
    };
    if api_table::lookup(api_key).is_some_and(|row| row.is_flexible(api_version)) {
        skip_tags(&mut frame)?;
    }
    Ok((RequestHeader { api_key, api_version, correlation_id, client_id }, frame))
}

fn short(field: &'static str, needed: usize, left: usize) -> WireError {
    WireError::Short { field, needed, left }
}

/// Tagged fields of the header: none is known.
fn skip_tags(frame: &mut Bytes) -> Result<(), WireError> {
    for _ in 0..uvarint(frame)? {
        let _tag = uvarint(frame)?;
        let size = usize::try_from(uvarint(frame)?).unwrap_or(usize::MAX);
        if size > frame.len() {
            return Err(short("header tags", size, frame.len()));
        }
        frame.advance(size);
    }
    Ok(())
}

fn uvarint(frame: &mut Bytes) -> Result<u32, WireError> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        if frame.is_empty() {
            return Err(short("header tags", 1, 0));
        }
        let byte = frame.get_u8();
        if shift == 28 && byte > 0x0f {
            break;
        }
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(WireError::Invalid { field: "header tags", what: "a varint of over 32 bits" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_versions_are_read() {
        let old = Bytes::from_static(&[0, 3, 0, 1, 0, 0, 0, 7, 0, 1, b'a', 9]);
        let (header, body) = read_header(old).expect("reads");
        assert_eq!((header.api_key, header.api_version, header.correlation_id), (3, 1, 7));
        assert_eq!((header.client_id.as_deref(), &body[..]), (Some("a"), &[9][..]));
        let flexible = Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0, 7, 255, 255, 1, 5, 2, 1, 1, 9]);
        let (header, body) = read_header(flexible).expect("reads");
        assert_eq!((header.client_id, &body[..]), (None, &[9][..]));
    }

    #[test]
    fn every_cut_of_a_header_is_refused_or_is_shorter() {
        let bytes = [0, 3, 0, 9, 0, 0, 0, 7, 0, 2, b'a', b'b', 1, 5, 2, 1, 1];
        for cut in 0..bytes.len() {
            assert!(read_header(Bytes::copy_from_slice(&bytes[..cut])).is_err(), "{cut}");
        }
        let text = [0, 3, 0, 0, 0, 0, 0, 7, 0, 1, 0xff];
        assert!(read_header(Bytes::copy_from_slice(&text)).is_err());
    }
}
