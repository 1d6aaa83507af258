//! The tables of what can be configured.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::valid::{ConfigType, Valid};

/// How a broker config may change while the broker runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dynamic {
    /// Only by a restart.
    ReadOnly,
    /// For each broker.
    PerBroker,
    /// For all brokers at once, or for each.
    ClusterWide,
}

/// Whether DescribeConfigs lists a config that is not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visibility {
    /// Always.
    Listed,
    /// Never: Kafka keeps it for itself.
    Internal,
    /// Only where it is set.
    WhenSet,
}

/// One broker config.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ConfigType,
    /// Value when it is not set; `None` is null.
    pub default: Option<&'static str>,
    /// What its value must be.
    pub valid: Valid,
    /// How it may change.
    pub dynamic: Dynamic,
    /// Who sees it.
    pub visibility: Visibility,
    /// Whether it does something here. Others are accepted so that files of Kafka work.
    pub has_effect: bool,
    /// Whether it names a JVM plug-in without which the cluster would not be what its operator meant.
    pub refused_when_set: bool,
}

/// A topic, group or client-metrics config.
#[derive(Clone, Debug)]
pub struct ResourceDefinition {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ConfigType,
    /// Value when neither it nor a synonym is set; `None` is null.
    pub default: Option<&'static str>,
    /// What its value must be.
    pub valid: Valid,
    /// Broker configs that give its default, strongest first.
    pub synonyms: Vec<Synonym>,
    /// Not shown to clients.
    pub is_internal: bool,
}

/// A broker config that gives a topic config its default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synonym {
    /// Its name.
    pub name: &'static str,
    /// Its unit in units of the topic config.
    pub factor: i64,
}

const BROKER: &str = include_str!("data/broker.tsv");
const KELDA: &str = include_str!("data/kelda.tsv");
const RESOURCE: &str = include_str!("data/resource.tsv");

/// Where Kelda's default is not Kafka's: one command starts a node, without a file.
const OWN_DEFAULTS: &[(&str, &str)] = &[
    ("controller.listener.names", "CONTROLLER"),
    ("log.dir", "kelda-data"),
    ("node.id", "1"),
    ("process.roles", "broker,controller"),
];

/// Accepted without effect: the threads and buffers that they size do not exist here.
const WITHOUT_EFFECT: &[&str] = &[
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.replica.alter.log.dirs.threads",
    "queued.max.requests",
];

static DEFINITIONS: LazyLock<BTreeMap<&'static str, Definition>> = LazyLock::new(|| {
    lines(BROKER).chain(lines(KELDA)).map(definition).map(|found| (found.name, found)).collect()
});

static TOPIC: LazyLock<Vec<ResourceDefinition>> = LazyLock::new(|| resources("topic"));
static GROUP: LazyLock<Vec<ResourceDefinition>> = LazyLock::new(|| resources("group"));
static CLIENT_METRICS: LazyLock<Vec<ResourceDefinition>> =
    LazyLock::new(|| resources("client-metrics"));

/// The broker config with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Definition> {
    DEFINITIONS.get(name)
}

/// As [`find`], also behind a prefix `listener.name.NAME.` or `listener.name.NAME.MECHANISM.`.
#[must_use]
pub fn find_prefixed(name: &str) -> Option<&'static Definition> {
    if let Some(found) = find(name) {
        return Some(found);
    }
    let rest = name.strip_prefix("listener.name.")?;
    let (_, rest) = rest.split_once('.')?;
    find(rest).or_else(|| find(rest.split_once('.')?.1))
}

/// All broker configs, by name.
pub fn all() -> impl Iterator<Item = &'static Definition> {
    DEFINITIONS.values()
}

/// All topic configs, by name.
#[must_use]
pub fn topic() -> &'static [ResourceDefinition] {
    &TOPIC
}

/// All group configs, by name.
#[must_use]
pub fn group() -> &'static [ResourceDefinition] {
    &GROUP
}

/// All client-metrics configs, by name.
#[must_use]
pub fn client_metrics() -> &'static [ResourceDefinition] {
    &CLIENT_METRICS
}

/// The names that Kafka treats as one when it looks for the value of a broker config, strongest first.
#[must_use]
pub fn broker_synonyms(name: &str) -> &'static [&'static str] {
    match name {
        "log.roll.ms" | "log.roll.hours" => &["log.roll.ms", "log.roll.hours"],
        "log.roll.jitter.ms" | "log.roll.jitter.hours" => {
            &["log.roll.jitter.ms", "log.roll.jitter.hours"]
        }
        "log.retention.ms" | "log.retention.minutes" | "log.retention.hours" => {
            &["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
        }
        _ => &[],
    }
}

/// The known name that is closest to an unknown one, if one is close.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    let limit = 1 + name.len() / 6;
    all()
        .map(|known| (distance(known.name, name, limit), known.name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, known)| known)
}

/// Levenshtein distance; anything above `limit` may come out as `limit + 1`.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    let b: Vec<char> = b.chars().take(256).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn lines(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split('\t').collect())
}

fn column(columns: &[&'static str], at: usize) -> &'static str {
    columns.get(at).copied().unwrap_or_default()
}

fn default_of(text: &'static str) -> Option<&'static str> {
    (text != "null" && text != "<required>").then_some(text)
}

fn definition(columns: Vec<&'static str>) -> Definition {
    let name = column(&columns, 0);
    let own = OWN_DEFAULTS.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
    let note = column(&columns, 7);
    Definition {
        name,
        kind: ConfigType::from_name(column(&columns, 1)).unwrap_or(ConfigType::String),
        default: own.or_else(|| default_of(column(&columns, 2))),
        valid: Valid::parse(column(&columns, 3)),
        dynamic: match column(&columns, 4) {
            "per-broker" => Dynamic::PerBroker,
            "cluster-wide" => Dynamic::ClusterWide,
            _ => Dynamic::ReadOnly,
        },
        visibility: match column(&columns, 5) {
            "internal" => Visibility::Internal,
            "dynamic-only" | "not in ConfigDef" => Visibility::WhenSet,
            _ => Visibility::Listed,
        },
        has_effect: column(&columns, 6) != "ignore" && !WITHOUT_EFFECT.contains(&name),
        refused_when_set: note.contains("refuse when set") || name == "authorizer.class.name",
    }
}

fn resources(scope: &str) -> Vec<ResourceDefinition> {
    let mut all: Vec<_> =
        lines(RESOURCE).filter(|columns| column(columns, 0) == scope).map(resource).collect();
    all.sort_by_key(|definition| definition.name);
    all
}

fn resource(columns: Vec<&'static str>) -> ResourceDefinition {
    let synonyms = column(&columns, 5);
    ResourceDefinition {
        name: column(&columns, 1),
        kind: ConfigType::from_name(column(&columns, 2)).unwrap_or(ConfigType::String),
        default: default_of(column(&columns, 3)),
        valid: Valid::parse(column(&columns, 4)),
        is_internal: synonyms == "internal",
        synonyms: synonyms
            .split(' ')
            .filter(|word| !word.is_empty() && *word != "internal")
            .map(|word| match word.split_once('*') {
                Some((name, factor)) => Synonym { name, factor: factor.parse().unwrap_or(1) },
                None => Synonym { name: word, factor: 1 },
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::valid::check;

    #[test]
    fn tables_are_whole() {
        assert_eq!(all().count(), 384 + 8);
        // 38 of Kafka and kelda.durability.
        assert_eq!(topic().len(), 39);
        assert_eq!(group().len(), 27);
        for known in all() {
            if let Some(default) = known.default {
                assert_eq!(check(known.kind, &known.valid, default), Ok(()), "{}", known.name);
            }
        }
        for known in topic() {
            for synonym in &known.synonyms {
                let broker = find(synonym.name).expect("a synonym is a broker config");
                assert!(synonym.factor > 1 || broker.kind == known.kind, "{}", known.name);
            }
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        assert_eq!(nearest("log.retention.hour"), Some("log.retention.hours"));
        assert_eq!(nearest("num.partition"), Some("num.partitions"));
        assert_eq!(nearest("foo.bar"), None);
    }

    #[test]
    fn names_may_stand_behind_a_listener() {
        assert!(find_prefixed("listener.name.external.ssl.keystore.location").is_some());
        assert!(find_prefixed("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config").is_some());
        assert!(find_prefixed("listener.name.external.nonsense").is_none());
    }
}
