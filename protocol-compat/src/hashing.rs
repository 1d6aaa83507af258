//! The two hashes that clients and brokers of Kafka must agree on.
//!
//! `murmur2` chooses the partition of a keyed record in the default partitioner of the Java client. Java's
//! `String.hashCode` chooses the partition of an internal topic that coordinates a group, a transactional id or a
//! share group.

/// Kafka's variant of MurmurHash2 (32 bits, seed `0x9747b28c`), as `org.apache.kafka.common.utils.Utils.murmur2`.
#[must_use]
pub fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len() & 0xffff_ffff).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        for (place, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    (hash ^ (hash >> 15)).cast_signed()
}

/// The partition, below `partition_count`, that the Java client's default partitioner gives a keyed record.
///
/// `None` when there are no partitions.
#[must_use]
pub fn partition_for_key(key: &[u8], partition_count: i32) -> Option<i32> {
    // `Utils.toPositive`: the sign bit is masked, which is not the absolute value.
    (partition_count > 0).then(|| (murmur2(key) & i32::MAX) % partition_count)
}

/// Java's `String.hashCode`: over UTF-16 units, wrapping.
#[must_use]
pub fn java_string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition, below `partition_count`, of the internal topic that coordinates `id` (a group or transactional id).
///
/// `None` when there are no partitions.
#[must_use]
pub fn coordinator_partition(id: &str, partition_count: i32) -> Option<i32> {
    // `Utils.abs`: the one number without a positive counterpart becomes zero.
    (partition_count > 0).then(|| java_string_hash(id).checked_abs().unwrap_or(0) % partition_count)
}
