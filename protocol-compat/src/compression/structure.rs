//! Whether bytes are a stream of their codec as far as can be told without decompressing: the headers, and the sizes of the
//! blocks, which must lead to the stream's end. The cost is by blocks, not by bytes.
//!
//! What is inside a block is left to those who decompress it. Bytes after the end are judged as Kafka's readers judge them.

use super::{Codec, CompressionError, xerial};

/// Looks at the framing of a compressed stream.
///
/// # Errors
/// What cannot be a stream of this codec, or is cut off.
pub fn check(codec: Codec, data: &[u8]) -> Result<(), CompressionError> {
    let walk = match codec {
        Codec::None => return Ok(()),
        Codec::Gzip => gzip(&mut Input(data)),
        Codec::Snappy => snappy(data),
        Codec::Lz4 => lz4(&mut Input(data)),
        Codec::Zstd => zstd(&mut Input(data)),
    };
    walk.map_err(|what| CompressionError::Corrupt { codec, what: what.to_owned() })
}

type Walk = Result<(), &'static str>;

const CUT_OFF: &str = "the stream is cut off";

/// What is left of the stream.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn skip(&mut self, count: usize) -> Walk {
        self.0 = self.0.get(count..).ok_or(CUT_OFF)?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.0.split_first().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number of up to four bytes, least first.
    fn number(&mut self, bytes: usize) -> Result<u32, &'static str> {
        let mut number = 0;
        for at in 0..bytes {
            number |= u32::from(self.byte()?) << (8 * at);
        }
        Ok(number)
    }
}

/// RFC 1952: the first member's header, the first block's type, and room for the trailer.
fn gzip(input: &mut Input<'_>) -> Walk {
    const TRAILER: usize = 8;
    let (magic, method, flags) = (input.number(2)?, input.byte()?, input.byte()?);
    if magic != 0x8b1f || method != 8 || flags & 0xe0 != 0 {
        return Err("no gzip header");
    }
    input.skip(6)?;
    if flags & 4 != 0 {
        let extra = input.number(2)? as usize;
        input.skip(extra)?;
    }
    for text in [8, 16] {
        if flags & text != 0 {
            while input.byte()? != 0 {}
        }
    }
    if flags & 2 != 0 {
        input.skip(2)?;
    }
    if input.byte()? & 6 == 6 {
        return Err("a block of a type that does not exist");
    }
    input.skip(1 + TRAILER)
}

/// One raw block, or blocks in the framing of xerial's library: each begins with what it decompresses to.
fn snappy(data: &[u8]) -> Walk {
    let Some(mut rest) = xerial::blocks(data) else { return snappy_block(data) };
    while !rest.is_empty() {
        let (block, after) = xerial::next_block(rest)?;
        snappy_block(block)?;
        rest = after;
    }
    Ok(())
}

fn snappy_block(block: &[u8]) -> Walk {
    let size = snap::raw::decompress_len(block).map_err(|_| "a block without its size")?;
    if block.is_empty() {
        return Err(CUT_OFF);
    }
    if size / xerial::SHRINKS_AT_MOST > block.len() {
        return Err("a block that claims more than it can hold");
    }
    Ok(())
}

/// The LZ4 frame format 1.6: one frame.
fn lz4(input: &mut Input<'_>) -> Walk {
    const STORED: u32 = 1 << 31;
    if input.number(4)? != 0x184d_2204 {
        return Err("no lz4 frame");
    }
    let descriptor = input.0;
    let (flags, sizes) = (input.byte()?, input.byte()?);
    let largest = match (flags & 0xc2, sizes & 0x8f, sizes >> 4) {
        (0x40, 0, exponent @ 4..=7) => 1_u32 << (8 + 2 * exponent),
        _ => return Err("a frame descriptor of another version"),
    };
    let optional = (flags & 8) + 4 * (flags & 1);
    input.skip(usize::from(optional))?;
    let described = &descriptor[..2 + usize::from(optional)];
    if input.byte()? != (xxh32(described) >> 8) as u8 {
        return Err("a frame descriptor whose checksum differs");
    }
    let block_checksum = if flags & 16 != 0 { 4 } else { 0 };
    loop {
        let size = input.number(4)?;
        if size == 0 {
            return input.skip(if flags & 4 != 0 { 4 } else { 0 });
        }
        let size = size & !STORED;
        if size > largest {
            return Err("a block that is larger than its frame says");
        }
        input.skip(size as usize + block_checksum)?;
    }
}

/// RFC 8878: frames up to the end of the data.
fn zstd(input: &mut Input<'_>) -> Walk {
    const LARGEST_BLOCK: usize = 128 << 10;
    loop {
        let magic = input.number(4)?;
        if magic & 0xffff_fff0 == 0x184d_2a50 {
            let size = input.number(4)? as usize;
            input.skip(size)?;
        } else if magic == 0xfd2f_b528 {
            let descriptor = input.byte()?;
            if descriptor & 8 != 0 {
                return Err("a frame descriptor with a reserved bit");
            }
            let single = descriptor >> 5 & 1;
            let window = 1 - single;
            let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
            let content = [single, 2, 4, 8][usize::from(descriptor >> 6)];
            input.skip(usize::from(window) + dictionary + usize::from(content))?;
            loop {
                let block = input.number(3)?;
                let size = (block >> 3) as usize;
                match block >> 1 & 3 {
                    1 => input.skip(1)?,
                    3 => return Err("a block of a type that does not exist"),
                    _ if size > LARGEST_BLOCK => return Err("a block larger than any may be"),
                    _ => input.skip(size)?,
                }
                if block & 1 == 1 {
                    break;
                }
            }
            if descriptor & 4 != 0 {
                input.skip(4)?;
            }
        } else {
            return Err("no zstd frame");
        }
        if input.0.is_empty() {
            return Ok(());
        }
    }
}

/// XXH32 with seed 0 of fewer than 16 bytes, as a frame descriptor has.
fn xxh32(data: &[u8]) -> u32 {
    const PRIME: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];
    debug_assert!(data.len() < 16, "longer input has another beginning");
    let mut hash = PRIME[4].wrapping_add(u32::try_from(data.len()).unwrap_or(0));
    let words = data.chunks_exact(4);
    let rest = words.remainder();
    for word in words {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        hash =
            hash.wrapping_add(word.wrapping_mul(PRIME[2])).rotate_left(17).wrapping_mul(PRIME[3]);
    }
    for byte in rest {
        hash = hash
            .wrapping_add(u32::from(*byte).wrapping_mul(PRIME[4]))
            .rotate_left(11)
            .wrapping_mul(PRIME[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(PRIME[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(PRIME[2]);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compression::{Compression, compress};

    const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn compressed(codec: Codec, data: &[u8]) -> Vec<u8> {
        compress(Compression::from(codec), data).expect("compresses")
    }

    #[test]
    fn descriptors_are_summed_as_in_the_format() {
        // Values of the reference implementation.
        assert_eq!(xxh32(b""), 0x02cc_5d05);
        assert_eq!(xxh32(b"abc"), 0x32d1_53ff);
    }

    #[test]
    fn streams_with_every_option_of_their_format_are_taken() {
        use std::io::Write;
        let data = vec![b'x'; 300_000];
        for (checksum, block) in [
            (lz4::ContentChecksum::ChecksumEnabled, lz4::BlockSize::Max4MB),
            (lz4::ContentChecksum::NoChecksum, lz4::BlockSize::Max64KB),
        ] {
            for size in [0, 300_000] {
                let mut encoder = lz4::EncoderBuilder::new()
                    .checksum(checksum.clone())
                    .block_size(block.clone())
                    .content_size(size)
                    .build(Vec::new())
                    .expect("built");
                encoder.write_all(&data).expect("written");
                assert_eq!(check(Codec::Lz4, &encoder.finish().0), Ok(()));
            }
        }
        for flags in [(true, true), (true, false), (false, true), (false, false)] {
            let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("built");
            encoder.include_checksum(flags.0).expect("set");
            encoder.include_contentsize(flags.1).expect("set");
            encoder.write_all(&data).expect("written");
            let one = encoder.finish().expect("finished");
            assert_eq!(check(Codec::Zstd, &one), Ok(()));
            assert_eq!(check(Codec::Zstd, &[&one[..], &one].concat()), Ok(()));
        }
        let header = flate2::GzBuilder::new().filename("name").comment("text").extra(vec![1; 9]);
        let mut encoder = header.write(Vec::new(), flate2::Compression::best());
        encoder.write_all(&data).expect("written");
        assert_eq!(check(Codec::Gzip, &encoder.finish().expect("finished")), Ok(()));
        let raw = snap::raw::Encoder::new().compress_vec(&data).expect("compressed");
        assert_eq!(check(Codec::Snappy, &raw), Ok(()));
    }

    #[test]
    fn plain_records_are_no_stream_of_any_codec() {
        let records = b"\x18\x00\x00\x00\x01\x0cvalue one\x00\x18\x00\x00\x02\x01\x0cvalue two\x00";
        for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
            assert!(check(codec, records).is_err(), "{codec:?}");
            assert!(check(codec, b"").is_err(), "{codec:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_compressed_is_taken_and_what_is_cut_is_not(
            data in proptest::collection::vec(any::<u8>(), 1..2000),
            repeat in 1_usize..60,
            cut in any::<prop::sample::Index>(),
        ) {
            let data = data.repeat(repeat);
            for codec in CODECS {
                let stream = compressed(codec, &data);
                prop_assert_eq!(check(codec, &stream), Ok(()));
                if matches!(codec, Codec::Lz4 | Codec::Zstd) {
                    prop_assert!(check(codec, &stream[..cut.index(stream.len())]).is_err());
                }
            }
        }

        #[test]
        fn any_bytes_are_judged(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            for codec in CODECS {
                let _ = check(codec, &data);
                let mut framed = compressed(codec, b"abc");
                framed.truncate(8);
                framed.extend_from_slice(&data);
                let _ = check(codec, &framed);
            }
        }
    }
}
