//! `docs/reference/config.md`, written from the tables that the parser uses.

use std::fmt::Write;

use super::definition::{self, Definition, Dynamic, Visibility};
use super::docs;
use super::valid::ConfigType;

/// The page.
#[must_use]
pub fn page() -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         Written by a test of the broker's from the tables that it parses with: `UPDATE_GOLDEN=1 cargo test -p broker config::reference`.\n\n\
         Names, types, defaults and rules are those of Apache Kafka 4.4.0; `kelda.*` are Kelda's own. Values come from, weakest first: \
         the defaults here; the file given to `kelda serve` (Java's properties syntax); the environment, where `KAFKA_LOG_DIRS` or \
         `KELDA_LOG_DIRS` is `log.dirs` (`__` is `_`, `___` is `-`, and `KELDA_DURABILITY` is `kelda.durability`); `--override name=value`. \
         Any config of a listener may stand behind `listener.name.NAME.`. A wrong value stops the start; an unknown name is a warning.\n\n",
    );
    text.push_str("## Kelda's own\n\n");
    table(&mut text, definition::all().filter(|known| known.name.starts_with("kelda.")));
    text.push_str("\n## Of the broker, as in Kafka\n\n");
    text.push_str("Which of them change while Kafka runs is told by *changes*: restart, broker (each broker for itself) or cluster.\n\n");
    table(
        &mut text,
        definition::all().filter(|known| {
            !known.name.starts_with("kelda.")
                && known.has_effect
                && known.visibility != Visibility::Internal
        }),
    );
    text.push_str("\n## Accepted without effect\n\n");
    text.push_str("They are of the JVM, or of a design that Kelda does not share. Those marked *refused* stop the start when they are set, since a cluster without them would not be what its operator meant.\n\n");
    for known in definition::all()
        .filter(|known| !known.has_effect && known.visibility != Visibility::Internal)
    {
        let refused = if known.refused_when_set { " (refused)" } else { "" };
        let _ = writeln!(text, "- `{}`{refused}", known.name);
    }
    text.push_str("\n## Of a topic\n\n| name | type | default | valid | default is set by | what it is for |\n| --- | --- | --- | --- | --- | --- |\n");
    for known in definition::topic().iter().filter(|known| !known.is_internal) {
        let synonyms: Vec<_> =
            known.synonyms.iter().map(|synonym| format!("`{}`", synonym.name)).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} |",
            known.name,
            kind(known.kind),
            value(known.default),
            known.valid.to_string().trim_start_matches([' ', ':', ',']),
            synonyms.join(", "),
            purpose(known.name),
        );
    }
    text
}

fn table<'a>(text: &mut String, known: impl Iterator<Item = &'a Definition>) {
    text.push_str("| name | type | default | valid | changes | what it is for |\n| --- | --- | --- | --- | --- | --- |\n");
    for known in known {
        let changes = match known.dynamic {
            Dynamic::ReadOnly => "restart",
            Dynamic::PerBroker => "broker",
            Dynamic::ClusterWide => "cluster",
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {changes} | {} |",
            known.name,
            kind(known.kind),
            value(known.default),
            known.valid.to_string().trim_start_matches([' ', ':', ',']),
            purpose(known.name),
        );
    }
}

fn kind(kind: ConfigType) -> String {
    format!("{kind:?}").to_lowercase()
}

fn value(default: Option<&str>) -> String {
    match default {
        None => "none".to_owned(),
        Some("") => "empty".to_owned(),
        Some(default) => format!("`{default}`"),
    }
}

/// A text of our own, where there is one.
fn purpose(name: &str) -> String {
    let text = docs::of(name);
    if text.starts_with("As in Apache Kafka.") { String::new() } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::environment;

    #[test]
    fn the_page_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/config.md");
        let fresh = page();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(std::path::Path::new(path).parent().expect("a folder"))
                .expect("made");
            std::fs::write(path, &fresh).expect("written");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == fresh, "{path} is stale: run this test with UPDATE_GOLDEN=1");
    }

    #[test]
    fn the_examples_of_variables_hold() {
        let config = environment::config_of("KELDA_DURABILITY", "fsync").map(|(name, _)| name);
        assert_eq!(config.as_deref(), Some("kelda.durability"));
    }
}
