//! What configs are for: a sentence each, in our own words.

use std::borrow::Cow;

use super::definition;

const TEXTS: &str = include_str!("data/docs.tsv");

/// What a config is for; of one without a text of its own, what the table knows of it.
#[must_use]
pub fn of(name: &str) -> Cow<'static, str> {
    let text = TEXTS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    if let Some(text) = text {
        return Cow::Borrowed(text);
    }
    let known =
        definition::find_prefixed(name).map(|known| (known.kind, known.default, &known.valid));
    let topic =
        definition::topic().iter().chain(definition::group()).chain(definition::client_metrics());
    let known = known.or_else(|| {
        let mut all = topic;
        all.find(|known| known.name == name).map(|known| (known.kind, known.default, &known.valid))
    });
    match known {
        Some((kind, default, valid)) => Cow::Owned(format!(
            "As in Apache Kafka. Type {kind:?}{valid}; default {}.",
            match default {
                Some("") => "empty",
                Some(default) => default,
                None => "none",
            }
        )),
        None => Cow::Borrowed("Not a config of Kafka or Kelda."),
    }
}
