//! Names of files and directories.

use protocol_compat::ids::{Offset, PartitionIndex, Uuid};

/// Records of a segment.
pub const LOG_SUFFIX: &str = ".log";
/// Offset index of a segment.
pub const INDEX_SUFFIX: &str = ".index";
/// Time index of a segment.
pub const TIME_INDEX_SUFFIX: &str = ".timeindex";
/// Aborted transactions of a segment.
pub const TXN_INDEX_SUFFIX: &str = ".txnindex";
/// Producers before an offset.
pub const SNAPSHOT_SUFFIX: &str = ".snapshot";
/// A file that is to be removed.
pub const DELETED_SUFFIX: &str = ".deleted";
/// A file that the cleaner was writing.
pub const CLEANED_SUFFIX: &str = ".cleaned";
/// A file that the cleaner finished and had not yet put in place.
pub const SWAP_SUFFIX: &str = ".swap";
/// A checkpoint being written.
pub const TMP_SUFFIX: &str = ".tmp";
/// Leader epochs of a partition.
pub const EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// Topic id of a partition.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// Identity of a log directory.
pub const META_PROPERTIES: &str = "meta.properties";
/// Held while a process uses a log directory.
pub const LOCK: &str = ".lock";
/// Present after a clean stop.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// Offsets up to which data is durable and indexed.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// High watermarks.
pub const HIGH_WATERMARK_CHECKPOINT: &str = "replication-offset-checkpoint";
/// Log starts above the first segment's base.
pub const LOG_START_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// Longest name that file systems take.
const NAME_BYTES_MAX: usize = 255;

/// `%020d` and the suffix.
#[must_use]
pub fn file_name(base_offset: Offset, suffix: &str) -> String {
    format!("{:020}{suffix}", base_offset.0)
}

/// The offset in a name made by [`file_name`] with this suffix.
#[must_use]
pub fn parse_file_name(name: &str, suffix: &str) -> Option<Offset> {
    let digits = name.strip_suffix(suffix)?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(Offset)
}

/// What a directory in a log directory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionDirKind {
    /// Serves.
    Current,
    /// Is being deleted.
    Deleted,
    /// Is not in the metadata.
    Stray,
    /// Is being moved between directories.
    Future,
}

/// The name of a partition's directory, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionDirName {
    /// Name of the topic; cut when kind is `Deleted` or `Stray` and the name was long.
    pub topic: String,
    /// Index of the partition.
    pub partition: PartitionIndex,
    /// By the suffix.
    pub kind: PartitionDirKind,
}

impl PartitionDirName {
    /// Takes a name apart; `None` when it is no partition's.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        for (suffix, kind) in [
            ("-delete", PartitionDirKind::Deleted),
            ("-stray", PartitionDirKind::Stray),
            ("-future", PartitionDirKind::Future),
        ] {
            if let Some(rest) = name.strip_suffix(suffix)
                && let Some((partition, id)) = rest.rsplit_once('.')
                && id.len() == 32
                && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            {
                return Self::parse_plain(partition, kind);
            }
        }
        Self::parse_plain(name, PartitionDirKind::Current)
    }

    fn parse_plain(name: &str, kind: PartitionDirKind) -> Option<Self> {
        let (topic, partition) = name.rsplit_once('-')?;
        if topic.is_empty() || !partition.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let partition = PartitionIndex(partition.parse().ok()?);
        Some(Self { topic: topic.to_owned(), partition, kind })
    }
}

/// `TOPIC-PARTITION`.
#[must_use]
pub fn partition_dir(topic: &str, partition: PartitionIndex) -> String {
    format!("{topic}-{partition}")
}

/// `TOPIC-PARTITION.HEX32-delete`, the topic cut so that the name fits in 255 bytes.
#[must_use]
pub fn deleted_partition_dir(topic: &str, partition: PartitionIndex, unique: Uuid) -> String {
    cut_partition_dir(topic, partition, unique, "-delete")
}

/// `TOPIC-PARTITION.HEX32-stray`, cut likewise.
#[must_use]
pub fn stray_partition_dir(topic: &str, partition: PartitionIndex, unique: Uuid) -> String {
    cut_partition_dir(topic, partition, unique, "-stray")
}

fn cut_partition_dir(topic: &str, partition: PartitionIndex, unique: Uuid, kind: &str) -> String {
    let suffix = format!("-{partition}.{:032x}{kind}", unique.as_u128());
    // Topic names are ASCII; a name that is not must still not be cut inside a character.
    let mut end = topic.len().min(NAME_BYTES_MAX - suffix.len());
    while !topic.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &topic[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_have_twenty_digits() {
        assert_eq!(file_name(Offset(42), LOG_SUFFIX), "00000000000000000042.log");
        assert_eq!(parse_file_name("00000000000000000042.log", LOG_SUFFIX), Some(Offset(42)));
        assert_eq!(parse_file_name("42.log", LOG_SUFFIX), None);
        assert_eq!(parse_file_name("00000000000000000042.log.deleted", LOG_SUFFIX), None);
        assert_eq!(parse_file_name("99999999999999999999.log", LOG_SUFFIX), None);
    }

    #[test]
    fn partition_directories_are_told_apart() {
        let name = PartitionDirName::parse("a-b-3").expect("a partition");
        assert_eq!(
            (name.topic.as_str(), name.partition, name.kind),
            ("a-b", PartitionIndex(3), PartitionDirKind::Current)
        );
        let deleted = deleted_partition_dir("t", PartitionIndex(7), Uuid::from_u128(0xabc));
        assert_eq!(deleted, "t-7.00000000000000000000000000000abc-delete");
        let parsed = PartitionDirName::parse(&deleted).expect("a partition");
        assert_eq!((parsed.topic.as_str(), parsed.kind), ("t", PartitionDirKind::Deleted));
        for name in ["x", "-1", "x-", "x-1a", "x-99999999999"] {
            assert_eq!(PartitionDirName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn long_topics_are_cut_to_what_file_systems_take() {
        let topic = "t".repeat(249);
        let name = stray_partition_dir(&topic, PartitionIndex(12), Uuid::nil());
        assert_eq!(name.len(), 255);
        assert!(PartitionDirName::parse(&name).is_some());
    }
}
