//! The offset checkpoints of a log directory: `topic partition offset` a line.

use std::collections::BTreeMap;

use protocol_compat::ids::{Offset, PartitionIndex, TopicPartition};

use super::FormatError;

/// Offsets by partition.
pub type OffsetCheckpoint = BTreeMap<TopicPartition, Offset>;

/// The file of these offsets.
#[must_use]
pub fn encode(entries: &OffsetCheckpoint) -> String {
    let mut out = format!("0\n{}\n", entries.len());
    for (partition, offset) in entries {
        out.push_str(&format!("{} {} {offset}\n", partition.topic, partition.partition));
    }
    out
}

/// The offsets of a file.
///
/// # Errors
/// Another version, a wrong count, or a line that is no entry.
pub fn parse(bytes: &[u8]) -> Result<OffsetCheckpoint, FormatError> {
    let mut entries = OffsetCheckpoint::new();
    for line in entry_lines(bytes)? {
        let (partition, offset) =
            parse_line(line).ok_or_else(|| FormatError::new(format!("bad line `{line}`")))?;
        entries.insert(partition, offset);
    }
    Ok(entries)
}

fn parse_line(line: &str) -> Option<(TopicPartition, Offset)> {
    let mut words = line.split_ascii_whitespace();
    let (topic, partition, offset) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    let partition = PartitionIndex(partition.parse().ok()?);
    let offset = Offset(offset.parse().ok().filter(|offset| *offset >= 0)?);
    Some((TopicPartition { topic: topic.into(), partition }, offset))
}

/// The entry lines of a text checkpoint: line 1 is version 0, line 2 their number.
pub(super) fn entry_lines(bytes: &[u8]) -> Result<Vec<&str>, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::new("not UTF-8"))?;
    let mut lines = text.lines();
    match lines.next() {
        Some("0") => {}
        other => return Err(FormatError::new(format!("version {other:?} instead of 0"))),
    }
    let count: usize = lines
        .next()
        .and_then(|line| line.parse().ok())
        .ok_or_else(|| FormatError::new("no number of entries"))?;
    let lines: Vec<&str> = lines.collect();
    if lines.len() != count {
        return Err(FormatError::new(format!("{} entries instead of {count}", lines.len())));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kafkas() {
        let mut entries = OffsetCheckpoint::new();
        let key = |topic: &str, partition| TopicPartition {
            topic: topic.into(),
            partition: PartitionIndex(partition),
        };
        entries.insert(key("b", 0), Offset(7));
        entries.insert(key("a.x", 12), Offset(0));
        assert_eq!(encode(&entries), "0\n2\na.x 12 0\nb 0 7\n");
        assert_eq!(parse(encode(&entries).as_bytes()), Ok(entries));
        assert_eq!(parse(b"0\n0\n"), Ok(OffsetCheckpoint::new()));
    }

    #[test]
    fn broken_files_are_refused() {
        for text in ["", "0\n", "0\nx\n", "0\n1\na 0\n", "0\n1\na 0 -4\n", "0\n1\na 0 1 2\n"] {
            assert!(parse(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse(b"0\n1\n\xff 0 1\n").is_err());
    }
}
