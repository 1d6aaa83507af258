//! `.kafka_cleanshutdown`: the last write of a clean stop.

use super::FormatError;

/// The file of a broker that stops at this epoch; -1 when it has none.
#[must_use]
pub fn encode(broker_epoch: i64) -> String {
    format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}")
}

/// The broker epoch in a file. Releases before 3.9 wrote an empty file: `None`.
///
/// # Errors
/// A text that is not of this form.
pub fn parse(bytes: &[u8]) -> Result<Option<i64>, FormatError> {
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::new("not UTF-8"))?;
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    if compact.is_empty() {
        return Ok(None);
    }
    let bad = || FormatError::new(format!("`{compact}` is no clean-shutdown file"));
    let body = compact.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or_else(bad)?;
    let (mut version, mut epoch) = (None, None);
    for pair in body.split(',') {
        let (name, value) = pair.split_once(':').ok_or_else(bad)?;
        let value: i64 = value.parse().map_err(|_| bad())?;
        match name {
            "\"version\"" => version = Some(value),
            "\"brokerEpoch\"" => epoch = Some(value),
            _ => {}
        }
    }
    if version != Some(0) {
        return Err(bad());
    }
    epoch.map(Some).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kafkas() {
        assert_eq!(encode(17), "{\"version\":0,\"brokerEpoch\":17}");
        assert_eq!(parse(encode(17).as_bytes()), Ok(Some(17)));
        assert_eq!(parse(b"{ \"brokerEpoch\" : -1, \"version\": 0 }\n"), Ok(Some(-1)));
        assert_eq!(parse(b""), Ok(None));
        assert!(parse(b"{\"version\":1,\"brokerEpoch\":17}").is_err());
        assert!(parse(b"{}").is_err());
    }
}
