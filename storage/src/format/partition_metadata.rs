//! `partition.metadata`: the topic id of a partition.

use protocol_compat::ids::TopicId;

use super::FormatError;

/// The file of this id.
#[must_use]
pub fn encode(topic_id: TopicId) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

/// The id in a file.
///
/// # Errors
/// Another version, or no id.
pub fn parse(bytes: &[u8]) -> Result<TopicId, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::new("not UTF-8"))?;
    let mut lines = text.lines();
    match lines.next().map(str::trim) {
        Some("version: 0") => {}
        other => return Err(FormatError::new(format!("{other:?} instead of `version: 0`"))),
    }
    let line = lines.next().ok_or_else(|| FormatError::new("no topic id"))?;
    let id = line
        .strip_prefix("topic_id:")
        .ok_or_else(|| FormatError::new(format!("bad line `{line}`")))?;
    id.trim().parse().map_err(|error| FormatError::new(format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol_compat::ids::Uuid;

    #[test]
    fn the_text_is_kafkas() {
        let id = TopicId(Uuid::from_u128(1));
        assert_eq!(encode(id), "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(parse(encode(id).as_bytes()), Ok(id));
        assert!(parse(b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ").is_err());
        assert!(parse(b"version: 0\n").is_err());
        assert!(parse(b"").is_err());
    }
}
