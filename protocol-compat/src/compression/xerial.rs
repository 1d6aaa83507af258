//! Snappy as Kafka clients send it: blocks in the framing of xerial's Java library, or one raw block.
//!
//! ```text
//! 82 'SNAPPY' 00 | version i32 | compatible i32 | { block size i32 | block }*
//! ```

use bytes::Bytes;

use super::{Codec, CompressionError};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER: usize = 16;
/// The format shrinks data to a 21st at best; more is claimed only by a block that cannot be right.
pub(super) const SHRINKS_AT_MOST: usize = 64;
/// Uncompressed bytes of a block, as the Java library cuts them.
const BLOCK: usize = 32 << 10;

pub(super) fn compress(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + data.len() / 2);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&1_i32.to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    let mut block = vec![0; snap::raw::max_compress_len(BLOCK)];
    for chunk in data.chunks(BLOCK) {
        let size =
            encoder.compress(chunk, &mut block).expect("a block has room for its worst case");
        let length = i32::try_from(size).expect("a block is small");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&block[..size]);
    }
    out
}

pub(super) fn decompress(data: &[u8], limit_bytes: usize) -> Result<Bytes, CompressionError> {
    let mut out = Vec::new();
    let Some(mut rest) = blocks(data) else {
        append_block(data, limit_bytes, &mut out)?;
        return Ok(out.into());
    };
    while !rest.is_empty() {
        let (block, after) = next_block(rest).map_err(corrupt)?;
        append_block(block, limit_bytes, &mut out)?;
        rest = after;
    }
    Ok(out.into())
}

/// The blocks of the framing; `None` for a raw block.
pub(super) fn blocks(data: &[u8]) -> Option<&[u8]> {
    data.get(HEADER..).filter(|_| data.starts_with(&MAGIC))
}

/// The first block of several, and those after it.
pub(super) fn next_block(blocks: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let (length, after) = blocks.split_first_chunk::<4>().ok_or("a block size that is cut off")?;
    let length =
        usize::try_from(i32::from_be_bytes(*length)).map_err(|_| "a negative block size")?;
    after.split_at_checked(length).ok_or("a block that is cut off")
}

fn append_block(
    block: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), CompressionError> {
    let size = snap::raw::decompress_len(block).map_err(|error| corrupt(&error.to_string()))?;
    if size > limit_bytes.saturating_sub(out.len()) {
        return Err(CompressionError::TooLarge { limit_bytes });
    }
    if size / SHRINKS_AT_MOST > block.len() {
        return Err(corrupt("a block that claims more than it can hold"));
    }
    let start = out.len();
    out.resize(start + size, 0);
    snap::raw::Decoder::new()
        .decompress(block, &mut out[start..])
        .map_err(|error| corrupt(&error.to_string()))?;
    Ok(())
}

fn corrupt(what: &str) -> CompressionError {
    CompressionError::Corrupt { codec: Codec::Snappy, what: what.to_owned() }
}
