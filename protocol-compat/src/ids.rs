//! Ids and quantities as types, so that two numbers of one kind are never swapped with another kind.
//!
//! Sentinels of the wire (`-1`, the zero uuid) exist only in codecs; inside the broker they are `Option`.

use std::fmt;

pub use uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

number!(
    /// Position of a record in a partition.
    Offset(i64)
);
number!(
    /// Term of a partition's leader, or of the metadata quorum's.
    LeaderEpoch(i32)
);
number!(
    /// Id of a broker or controller (`node.id`).
    BrokerId(i32)
);
number!(
    /// Incarnation of a broker: the metadata offset of its registration.
    BrokerEpoch(i64)
);
number!(
    /// Id of an idempotent or transactional producer.
    ProducerId(i64)
);
number!(
    /// Incarnation of a producer id.
    ProducerEpoch(i16)
);
number!(
    /// Index of a partition within its topic.
    PartitionIndex(i32)
);
number!(
    /// Milliseconds since the Unix epoch, as Kafka stamps records.
    Timestamp(i64)
);

impl Offset {
    /// The offset `count` records later, or `None` past the end of the number line.
    #[must_use]
    pub fn checked_add(self, count: i64) -> Option<Self> {
        self.0.checked_add(count).map(Self)
    }
}

/// A 16-byte id that Kafka prints as 22 characters of unpadded URL-safe base64.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The id with these bytes.
            #[must_use]
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&to_base64(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), to_base64(self.0))
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadUuid;
            fn from_str(text: &str) -> Result<Self, BadUuid> {
                from_base64(text).map(Self)
            }
        }
    };
}

uuid_id!(
    /// Id of a topic (KIP-516).
    TopicId
);
uuid_id!(
    /// Id of a log directory (KIP-858).
    DirectoryId
);

/// A partition by topic name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: std::sync::Arc<str>,
    /// Index of the partition.
    pub partition: PartitionIndex,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A text is not 22 characters of unpadded URL-safe base64.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a Kafka id: 22 characters of A-Z a-z 0-9 - _ are expected")]
pub struct BadUuid(String);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Prints an id as Kafka does: base64url of its 16 bytes, no padding.
#[must_use]
pub fn to_base64(id: Uuid) -> String {
    let value = id.as_u128();
    // 128 bits are 21 groups of six and two bits left, which stand in the high bits of the last.
    (0..22)
        .map(|group| {
            let six = if group < 21 { value >> (122 - 6 * group) } else { value << 4 };
            char::from(ALPHABET[usize::try_from(six & 63).expect("six bits")])
        })
        .collect()
}

/// Reads an id in Kafka's spelling.
///
/// # Errors
/// Any other length or alphabet.
pub fn from_base64(text: &str) -> Result<Uuid, BadUuid> {
    let bad = || BadUuid(text.chars().take(64).collect());
    if text.len() != 22 {
        return Err(bad());
    }
    let mut value = 0u128;
    for (group, byte) in text.bytes().enumerate() {
        let six = ALPHABET.iter().position(|&c| c == byte).ok_or_else(bad)? as u128;
        value = if group < 21 { (value << 6) | six } else { (value << 2) | (six >> 4) };
    }
    Ok(Uuid::from_u128(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_spelled_as_kafka_spells_them() {
        assert_eq!(to_base64(Uuid::nil()), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(to_base64(Uuid::from_u128(1)), "AAAAAAAAAAAAAAAAAAAAAQ");
        let id = from_base64("5L6g3nShT-eMCtK--X86sw").expect("a cluster id of Kafka's image");
        assert_eq!(to_base64(id), "5L6g3nShT-eMCtK--X86sw");
        assert_eq!(from_base64("short"), Err(BadUuid("short".into())));
        assert!(from_base64("5L6g3nShT-eMCtK--X86s=").is_err());
    }
}
