use super::*;
use proptest::prelude::*;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

#[test]
fn output_above_the_limit_is_refused() {
    let data = vec![7; 1 << 20];
    for codec in CODECS.into_iter().skip(1) {
        let packed = Bytes::from(compress(codec.into(), &data).expect("compresses"));
        assert_eq!(decompress(codec, &packed, data.len()).expect("fits"), data);
        let error = decompress(codec, &packed, data.len() - 1).expect_err("too large");
        assert_eq!(error, CompressionError::TooLarge { limit_bytes: data.len() - 1 });
    }
}

#[test]
fn levels_out_of_range_are_refused() {
    for (codec, level) in [(Codec::Gzip, 0), (Codec::Gzip, 10), (Codec::Lz4, 18), (Codec::Zstd, 23)]
    {
        let compression = Compression { codec, level: Some(level) };
        assert_eq!(compress(compression, b"x"), Err(CompressionError::Level { codec, level }));
    }
}

#[test]
fn a_raw_snappy_block_is_read_and_a_false_claim_is_not_believed() {
    let raw = snap::raw::Encoder::new().compress_vec(b"hello hello hello").expect("compresses");
    let read = decompress(Codec::Snappy, &raw.into(), 100).expect("reads");
    assert_eq!(read, &b"hello hello hello"[..]);
    // Six bytes that claim two gigabytes.
    let claim = Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x07, 0x00]);
    assert!(decompress(Codec::Snappy, &claim, usize::MAX).is_err());
}

proptest! {
    #[test]
    fn what_was_compressed_comes_back(data in proptest::collection::vec(any::<u8>(), 0..100_000)) {
        for codec in CODECS {
            let packed = Bytes::from(compress(codec.into(), &data).expect("compresses"));
            prop_assert_eq!(&decompress(codec, &packed, data.len()).expect("fits")[..], &data[..]);
        }
    }

    #[test]
    fn garbage_is_refused_or_bounded(data in proptest::collection::vec(any::<u8>(), 0..500), at in 0_usize..500, flip in 1_u8..) {
        for codec in CODECS {
            let _ = decompress(codec, &data.clone().into(), 10_000);
            let mut packed = compress(codec.into(), &data).expect("compresses");
            let at = at % packed.len().max(1);
            if let Some(byte) = packed.get_mut(at) {
                *byte ^= flip;
            }
            if let Ok(out) = decompress(codec, &packed.into(), 10_000) {
                prop_assert!(out.len() <= 10_000);
            }
        }
    }
}
