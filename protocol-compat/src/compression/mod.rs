//! The five codecs of record batches, with hard limits on their output.
//!
//! Whoever decompresses says how many bytes may come out; a stream that would give more ends with
//! [`CompressionError::TooLarge`]. What a stream claims about itself (the length in front of a snappy block, the window
//! of a zstd frame, the block size of an lz4 frame) is bounded before anything is allocated for it.
//! Every call owns its buffers; none is shared between threads (KAFKA-15653).

pub mod structure;
mod xerial;

use std::io::{self, Read, Write};

use bytes::Bytes;

use crate::error_code::ErrorCode;

/// Kafka's default level of lz4.
const LZ4_LEVEL: u32 = 9;
/// The library's highest level; Kafka's 17 is the same to it.
const LZ4_LEVEL_MAX: u32 = 16;
/// Kafka's default level of zstd.
const ZSTD_LEVEL: i32 = 3;
/// 128 MiB: what decoders take without being told otherwise.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How the records of a batch are compressed; the numbers stand in the batch attributes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Codec {
    /// Not at all.
    None = 0,
    /// RFC 1952.
    Gzip = 1,
    /// Snappy blocks in the framing of xerial's Java library; a raw block is accepted as well.
    Snappy = 2,
    /// The LZ4 frame format.
    Lz4 = 3,
    /// Zstandard frames (KIP-110).
    Zstd = 4,
}

impl Codec {
    /// The codec with this number, if Kafka 4.4 has it.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The number in the batch attributes.
    #[must_use]
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Kafka's name, as in `compression.type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec with this name in `compression.type`; `uncompressed` is the topic config's word for none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" | "uncompressed" => Some(Self::None),
            "gzip" => Some(Self::Gzip),
            "snappy" => Some(Self::Snappy),
            "lz4" => Some(Self::Lz4),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// A codec and how hard it tries: topic configs `compression.type`, `compression.gzip.level`, `compression.lz4.level`,
/// `compression.zstd.level` (KIP-390).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// Its level; `None` is Kafka's default (gzip -1, lz4 9, zstd 3). Codecs without levels ignore it.
    pub level: Option<i32>,
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        Self { codec, level: None }
    }
}

/// Why bytes could not be decompressed or compressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    /// More than the allowed output would come out.
    #[error("decompressed records are larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit that was given.
        limit_bytes: usize,
    },
    /// The bytes are not a valid stream of this codec.
    #[error("corrupt {} data: {what}", codec.name())]
    Corrupt {
        /// The codec.
        codec: Codec,
        /// What was wrong.
        what: String,
    },
    /// The level is not one of this codec.
    #[error("{} has no level {level}", codec.name())]
    Level {
        /// The codec.
        codec: Codec,
        /// The level asked for.
        level: i32,
    },
}

impl CompressionError {
    /// The code a peer is answered with.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            // Not CORRUPT_MESSAGE, which makes a producer send the same bytes again: their checksum was right.
            Self::TooLarge { .. } | Self::Corrupt { .. } => ErrorCode::InvalidRecord,
            Self::Level { .. } => ErrorCode::InvalidConfig,
        }
    }
}

/// Compresses `data` into one stream as Kafka's Java classes read it.
///
/// # Errors
/// A level that the codec does not have.
pub fn compress(compression: Compression, data: &[u8]) -> Result<Vec<u8>, CompressionError> {
    let Compression { codec, level } = compression;
    let bad_level = || CompressionError::Level { codec, level: level.unwrap_or_default() };
    let failed = |error: io::Error| CompressionError::Corrupt { codec, what: error.to_string() };
    match codec {
        Codec::None => Ok(data.to_vec()),
        Codec::Gzip => {
            let level = match level {
                None | Some(-1) => flate2::Compression::default(),
                Some(level @ 1..=9) => flate2::Compression::new(level.unsigned_abs()),
                Some(_) => return Err(bad_level()),
            };
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(data).and_then(|()| encoder.finish()).map_err(failed)
        }
        Codec::Snappy => Ok(xerial::compress(data)),
        Codec::Lz4 => {
            let level = match level {
                None => LZ4_LEVEL,
                Some(level @ 1..=17) => level.unsigned_abs(),
                Some(_) => return Err(bad_level()),
            };
            let mut encoder = lz4::EncoderBuilder::new()
                .level(level.min(LZ4_LEVEL_MAX))
                .block_size(lz4::BlockSize::Max64KB)
                .block_mode(lz4::BlockMode::Independent)
                .checksum(lz4::ContentChecksum::NoChecksum)
                .build(Vec::new())
                .map_err(failed)?;
            encoder.write_all(data).map_err(failed)?;
            let (out, result) = encoder.finish();
            result.map(|()| out).map_err(failed)
        }
        Codec::Zstd => {
            let level = level.unwrap_or(ZSTD_LEVEL);
            if !(-131_072..=22).contains(&level) {
                return Err(bad_level());
            }
            zstd::bulk::compress(data, level).map_err(failed)
        }
    }
}

/// Decompresses all of `data`; at most `limit_bytes` come out. `Codec::None` gives the input back without a copy.
///
/// # Errors
/// Corrupt input, or more output than allowed.
pub fn decompress(
    codec: Codec,
    data: &Bytes,
    limit_bytes: usize,
) -> Result<Bytes, CompressionError> {
    let failed = |error: io::Error| CompressionError::Corrupt { codec, what: error.to_string() };
    match codec {
        Codec::None => Ok(data.clone()),
        Codec::Gzip => read_all(
            codec,
            flate2::bufread::MultiGzDecoder::new(&data[..]),
            data.len(),
            limit_bytes,
        ),
        Codec::Snappy => xerial::decompress(data, limit_bytes),
        Codec::Lz4 => {
            let decoder = lz4::Decoder::new(&data[..]).map_err(failed)?;
            read_all(codec, decoder, data.len(), limit_bytes)
        }
        Codec::Zstd => {
            let mut decoder =
                zstd::stream::read::Decoder::with_buffer(&data[..]).map_err(failed)?;
            // A frame may ask for a window of gigabytes: no more than what may come out, in steps that the format has.
            let window = usize::BITS - limit_bytes.leading_zeros();
            decoder.window_log_max(window.clamp(10, ZSTD_WINDOW_LOG_MAX)).map_err(failed)?;
            read_all(codec, decoder, data.len(), limit_bytes)
        }
    }
}

/// Reads a stream to its end. The output grows as it comes, whatever the input claims about it.
fn read_all(
    codec: Codec,
    stream: impl Read,
    input_bytes: usize,
    limit_bytes: usize,
) -> Result<Bytes, CompressionError> {
    let mut out = Vec::with_capacity(input_bytes.saturating_mul(2).min(limit_bytes));
    let limit = u64::try_from(limit_bytes).unwrap_or(u64::MAX);
    stream
        .take(limit.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|error| CompressionError::Corrupt { codec, what: error.to_string() })?;
    if out.len() > limit_bytes {
        return Err(CompressionError::TooLarge { limit_bytes });
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests;
