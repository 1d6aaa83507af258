//! Rewrites of a batch that Kafka's leader makes: another codec, or its own clock.

use bytes::Bytes;

use crate::batch::{BATCH_OVERHEAD_BYTES, BatchError, BatchHeader};
use crate::compression::Compression;
use crate::ids::Timestamp;

/// The same batch with another codec. Offsets, timestamps, headers and the producer's stamp stay. Costs CPU: not on a core.
///
/// # Errors
/// A batch that does not decompress within `limit_bytes`, or a level that the codec does not have.
pub fn recompress(
    _batch: &Bytes,
    _target: Compression,
    _limit_bytes: usize,
) -> Result<Bytes, BatchError> {
    unimplemented!()
}

/// The header of the same batch stamped by the leader's clock: max timestamp `now`, the LogAppendTime bit and a new checksum.
///
/// The checksum is derived from the old one, which must have been verified; the records are not read again.
#[must_use]
pub fn rewrite_log_append_time(
    _header: &BatchHeader,
    _now: Timestamp,
) -> [u8; BATCH_OVERHEAD_BYTES] {
    unimplemented!()
}
