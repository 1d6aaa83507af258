//! What DescribeConfigs answers: every config of a resource with its value, where it comes from, and what stands behind.

use std::borrow::Cow;

use controller::image::ConfigsImage;
use controller::image::configs::{ConfigMap, ConfigResource, ConfigResourceKind};

use super::definition::{self, Definition, Dynamic, ResourceDefinition, Visibility};
use super::settings::Settings;
use super::valid::{self, ConfigType};
use super::{BrokerConfig, docs, topic};

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigSource {
    /// The topic's own override.
    DynamicTopic,
    /// Set on one broker at run time.
    DynamicBroker,
    /// Set on all brokers at run time.
    DynamicDefaultBroker,
    /// The broker's file, environment or command line.
    StaticBroker,
    /// Nobody set it.
    Default,
    /// The client-metrics subscription's own value.
    ClientMetrics,
    /// The group's own override.
    Group,
}

impl ConfigSource {
    /// The number in answers.
    #[must_use]
    pub fn wire(self) -> i8 {
        match self {
            Self::DynamicTopic => 1,
            Self::DynamicBroker => 2,
            Self::DynamicDefaultBroker => 3,
            Self::StaticBroker => 4,
            Self::Default => 5,
            Self::ClientMetrics => 7,
            Self::Group => 8,
        }
    }
}

/// A value that counts, or would if those before it were not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SynonymEntry {
    /// Name that the value is set under.
    pub name: String,
    /// The value; `None` for secrets.
    pub value: Option<String>,
    /// Where it is set.
    pub source: ConfigSource,
}

/// One config of a resource.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` is null, and stands for secrets.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Its type; `None` where the name is unknown.
    pub kind: Option<ConfigType>,
    /// Whether clients cannot change it.
    pub is_read_only: bool,
    /// Whether its value is never shown.
    pub is_sensitive: bool,
    /// The value that counts and those behind it, strongest first.
    pub synonyms: Vec<SynonymEntry>,
}

impl ConfigEntry {
    /// The type's number in answers; 0 where the name is unknown.
    #[must_use]
    pub fn kind_wire(&self) -> i8 {
        self.kind.map_or(0, ConfigType::wire)
    }

    /// Whether nobody set it: what versions before sources asked for.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.source == ConfigSource::Default
    }

    /// What it is for, in a sentence.
    #[must_use]
    pub fn documentation(&self) -> Cow<'static, str> {
        docs::of(&self.name)
    }
}

/// The configs of a resource, by name. `wanted` picks names; without, or empty, all are listed, as in Kafka.
///
/// Whether a topic exists is for the caller to know; so is whether a broker resource is this broker.
#[must_use]
pub fn describe(
    broker: &BrokerConfig,
    configs: &ConfigsImage,
    resource: &ConfigResource,
    wanted: Option<&[&str]>,
) -> Vec<ConfigEntry> {
    let own = configs.of(resource);
    let [of_broker, of_all] = topic::dynamic_of(configs, broker.node_id);
    let static_values = StaticValues::new(broker);
    let sources = Sources { broker: of_broker, all: of_all, static_values: &static_values };
    let mut entries = match resource.kind {
        ConfigResourceKind::Topic => sources.topic(own),
        ConfigResourceKind::Broker if resource.name.is_empty() => sources.all_brokers(),
        ConfigResourceKind::Broker => sources.this_broker(),
        ConfigResourceKind::Group => sources.group(own),
        ConfigResourceKind::ClientMetrics => client_metrics(own),
    };
    if let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) {
        entries.retain(|entry| wanted.contains(&entry.name.as_str()));
    }
    entries
}

/// What was set at the start. Either of `node.id` and `broker.id` sets both, as in Kafka.
struct StaticValues<'a> {
    settings: &'a Settings,
    node_id: Option<String>,
}

impl<'a> StaticValues<'a> {
    fn new(broker: &'a BrokerConfig) -> Self {
        let settings = &*broker.settings;
        let is_set =
            ["node.id", "broker.id"].iter().any(|name| settings.explicit_value(name).is_some());
        Self { settings, node_id: is_set.then(|| broker.node_id.to_string()) }
    }

    fn get(&self, name: &str) -> Option<&str> {
        match name {
            "node.id" | "broker.id" => self.node_id.as_deref(),
            _ => self.settings.explicit_value(name),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|(name, _)| name)
    }
}

/// The layers of broker configs.
struct Sources<'a> {
    broker: Option<&'a ConfigMap>,
    all: Option<&'a ConfigMap>,
    static_values: &'a StaticValues<'a>,
}

impl Sources<'_> {
    /// The values behind a broker config, strongest first; those before the first of its own name are left out, so that
    /// `log.roll.ms` that nobody set does not seem to be set by `log.roll.hours`.
    fn synonyms(&self, name: &str) -> Vec<SynonymEntry> {
        let own = [name];
        let base = name
            .strip_prefix("listener.name.")
            .and_then(|_| definition::find_prefixed(name))
            .map(|known| [name, known.name]);
        let names: &[&str] = match (&base, definition::broker_synonyms(name)) {
            (Some(both), _) => both,
            (None, []) => &own,
            (None, synonyms) => synonyms,
        };
        let mut found = Vec::new();
        let mut add = |name: &str, value: Option<&str>, source| {
            if let Some(value) = value {
                let value = (!is_sensitive(name)).then(|| value.to_owned());
                found.push(SynonymEntry { name: name.to_owned(), value, source });
            }
        };
        let of = |map: Option<&ConfigMap>, name: &str| map?.get(name).map(ToString::to_string);
        for name in names {
            add(name, of(self.broker, name).as_deref(), ConfigSource::DynamicBroker);
        }
        for name in names {
            add(name, of(self.all, name).as_deref(), ConfigSource::DynamicDefaultBroker);
        }
        for name in names {
            add(name, self.static_values.get(name), ConfigSource::StaticBroker);
        }
        for name in names {
            let default =
                definition::find(name).filter(|known| known.visibility == Visibility::Listed);
            add(name, default.and_then(|known| known.default), ConfigSource::Default);
        }
        let first = found.iter().position(|synonym| synonym.name == name).unwrap_or(found.len());
        found.split_off(first)
    }

    fn broker_entry(&self, name: &str, known: Option<&Definition>) -> ConfigEntry {
        let synonyms = self.synonyms(name);
        let first = synonyms.first();
        ConfigEntry {
            name: name.to_owned(),
            value: first.and_then(|first| shown(first.value.as_deref()?, known?.kind)),
            source: first.map_or(ConfigSource::Default, |first| first.source),
            kind: known.map(|known| known.kind),
            // Kafka holds names with a listener's prefix for read-only, though it takes changes of them.
            is_read_only: definition::find(name)
                .is_none_or(|known| known.dynamic == Dynamic::ReadOnly),
            is_sensitive: is_sensitive(name),
            synonyms,
        }
    }

    fn this_broker(&self) -> Vec<ConfigEntry> {
        let listed = definition::all()
            .filter(|known| known.visibility == Visibility::Listed)
            .map(|known| known.name);
        let dynamic = [self.broker, self.all].into_iter().flatten().flat_map(ConfigMap::keys);
        let mut names: Vec<&str> =
            listed.chain(dynamic.map(|name| &**name)).chain(self.static_values.names()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| self.broker_entry(name, known_of(name))).collect()
    }

    fn all_brokers(&self) -> Vec<ConfigEntry> {
        let Some(all) = self.all else { return Vec::new() };
        let only = Sources { broker: None, all: Some(all), static_values: self.static_values };
        all.keys()
            .map(|name| {
                let mut entry = only.broker_entry(name, known_of(name));
                entry
                    .synonyms
                    .retain(|synonym| synonym.source == ConfigSource::DynamicDefaultBroker);
                entry
            })
            .collect()
    }

    fn topic(&self, own: Option<&ConfigMap>) -> Vec<ConfigEntry> {
        definition::topic()
            .iter()
            .filter(|known| !known.is_internal)
            .map(|known| {
                let set = own.and_then(|map| map.get(known.name)).map(ToString::to_string);
                let behind = known.synonyms.first().map(|synonym| self.synonyms(synonym.name));
                let dynamic = [self.broker, self.all];
                let default = topic::default_value(known, dynamic, self.static_values.settings);
                let value = set.as_deref().or(default.as_deref());
                resource_entry(known, value, set.as_deref(), ConfigSource::DynamicTopic, behind)
            })
            .collect()
    }

    fn group(&self, own: Option<&ConfigMap>) -> Vec<ConfigEntry> {
        definition::group()
            .iter()
            .filter(|known| !known.is_internal)
            .map(|known| {
                let set = own.and_then(|map| map.get(known.name)).map(ToString::to_string);
                let broker_name = match known.name {
                    "streams.assignor.name" => "group.streams.assignors".to_owned(),
                    name => format!("group.{name}"),
                };
                let behind = if definition::find(&broker_name).is_some() {
                    self.synonyms(&broker_name)
                } else {
                    self.synonyms_of_group(known)
                };
                let default = behind.first().and_then(|first| first.value.clone());
                let value = set.as_deref().or(default.as_deref()).or(known.default);
                resource_entry(known, value, set.as_deref(), ConfigSource::Group, Some(behind))
            })
            .collect()
    }

    fn synonyms_of_group(&self, known: &ResourceDefinition) -> Vec<SynonymEntry> {
        if definition::find(known.name).is_some() {
            return self.synonyms(known.name);
        }
        let default = known.default.map(str::to_owned);
        vec![SynonymEntry {
            name: known.name.to_owned(),
            value: default,
            source: ConfigSource::Default,
        }]
    }
}

fn client_metrics(own: Option<&ConfigMap>) -> Vec<ConfigEntry> {
    definition::client_metrics()
        .iter()
        .map(|known| {
            let set = own.and_then(|map| map.get(known.name)).map(ToString::to_string);
            let value = set.as_deref().or(known.default);
            resource_entry(known, value, set.as_deref(), ConfigSource::ClientMetrics, None)
        })
        .collect()
}

fn resource_entry(
    known: &ResourceDefinition,
    value: Option<&str>,
    set: Option<&str>,
    source: ConfigSource,
    behind: Option<Vec<SynonymEntry>>,
) -> ConfigEntry {
    let own = set.map(|value| SynonymEntry {
        name: known.name.to_owned(),
        value: Some(value.to_owned()),
        source,
    });
    let synonyms: Vec<_> = own.into_iter().chain(behind.unwrap_or_default()).collect();
    ConfigEntry {
        name: known.name.to_owned(),
        value: value.and_then(|value| shown(value, known.kind)),
        source: synonyms.first().map_or(ConfigSource::Default, |first| first.source),
        kind: Some(known.kind),
        is_read_only: false,
        is_sensitive: false,
        synonyms,
    }
}

fn known_of(name: &str) -> Option<&'static Definition> {
    // `super.users` and such are read by plug-ins; Kafka itself does not know their types.
    definition::find_prefixed(name).filter(|known| {
        known.visibility != Visibility::WhenSet || known.dynamic != Dynamic::ReadOnly
    })
}

fn is_sensitive(name: &str) -> bool {
    known_of(name).is_none_or(|known| known.kind == ConfigType::Password)
}

/// A value as Kafka shows it once it is parsed; `None` for secrets.
fn shown(value: &str, kind: ConfigType) -> Option<String> {
    match kind {
        ConfigType::Password => None,
        ConfigType::List => Some(valid::items(value).collect::<Vec<_>>().join(",")),
        ConfigType::Boolean => Some(value.trim().to_ascii_lowercase()),
        ConfigType::String
        | ConfigType::Int
        | ConfigType::Short
        | ConfigType::Long
        | ConfigType::Double
        | ConfigType::Class => Some(value.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    /// The settings that the broker had whose answers are in the golden file.
    const STATIC: &[&str] = &[
        "process.roles=broker,controller",
        "node.id=1",
        "controller.quorum.voters=1@127.0.0.1:25001",
        "listeners=PLAINTEXT://127.0.0.1:25000,CONTROLLER://127.0.0.1:25001",
        "advertised.listeners=PLAINTEXT://127.0.0.1:25000",
        "controller.listener.names=CONTROLLER",
        "inter.broker.listener.name=PLAINTEXT",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs=/data",
        "offsets.topic.replication.factor=1",
        "transaction.state.log.replication.factor=1",
        "transaction.state.log.min.isr=1",
        "share.coordinator.state.topic.replication.factor=1",
        "share.coordinator.state.topic.min.isr=1",
        "log.retention.hours=24",
        "log.roll.hours=3",
        "foo.bar=1",
        "message.max.bytes=2000000",
        "listener.name.plaintext.connections.max.idle.ms=5",
        "listener.name.plaintext.ssl.key.password=x",
        "super.users=User:a",
        "log.flush.scheduler.interval.ms=99999",
    ];

    fn map(values: &[(&str, &str)]) -> ConfigMap {
        values.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value))).collect()
    }

    /// Lines of the golden file of one resource, by name.
    fn golden(resource: &str) -> BTreeMap<&'static str, &'static str> {
        include_str!("testdata/describe.tsv")
            .lines()
            .filter_map(|line| {
                let rest = line.strip_prefix(resource)?.strip_prefix('\t')?;
                Some((rest.split('\t').next()?, rest))
            })
            .collect()
    }

    fn line(entry: &ConfigEntry) -> String {
        let source = |source| match source {
            ConfigSource::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
            ConfigSource::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            ConfigSource::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            ConfigSource::StaticBroker => "STATIC_BROKER_CONFIG",
            ConfigSource::Default => "DEFAULT_CONFIG",
            ConfigSource::ClientMetrics => "DYNAMIC_CLIENT_METRICS_CONFIG",
            ConfigSource::Group => "DYNAMIC_GROUP_CONFIG",
        };
        let null = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
        let synonyms: Vec<_> = entry
            .synonyms
            .iter()
            .map(|synonym| {
                format!("{}:{}={}", source(synonym.source), synonym.name, null(&synonym.value))
            })
            .collect();
        [
            entry.name.clone(),
            null(&entry.value),
            source(entry.source).to_owned(),
            entry
                .kind
                .map_or_else(|| "UNKNOWN".to_owned(), |kind| format!("{kind:?}").to_uppercase()),
            if entry.is_read_only { "ro" } else { "rw" }.to_owned(),
            if entry.is_sensitive { "S" } else { "-" }.to_owned(),
            synonyms.join("; "),
        ]
        .join("\t")
    }

    fn compare(resource: &str, entries: &[ConfigEntry], except: &[&str]) {
        let mut golden = golden(resource);
        for entry in entries {
            if entry.name.starts_with("kelda.") {
                continue;
            }
            let expected = golden.remove(entry.name.as_str());
            if !except.contains(&entry.name.as_str()) {
                assert_eq!(Some(line(entry).as_str()), expected);
            }
        }
        assert!(golden.is_empty(), "Kafka lists more: {golden:?}");
    }

    fn with_sources(run: impl FnOnce(&Sources<'_>)) {
        let values: Vec<_> = STATIC.iter().map(|text| (*text).to_owned()).collect();
        let settings = Settings::load(None, [], &values).expect("fine");
        let config = BrokerConfig::of(settings).expect("fine");
        let broker = map(&[
            ("log.segment.bytes", "2000000"),
            ("follower.replication.throttled.rate", "5"),
            ("listener.name.plaintext.ssl.keystore.password", "abc"),
        ]);
        let all = map(&[
            ("log.segment.bytes", "3000000"),
            ("log.retention.ms", "7000"),
            ("min.insync.replicas", "1"),
        ]);
        let static_values = StaticValues::new(&config);
        run(&Sources { broker: Some(&broker), all: Some(&all), static_values: &static_values });
    }

    #[test]
    fn a_broker_is_described_as_kafka_describes_it() {
        with_sources(|sources| {
            compare(
                "BROKER",
                &sources.this_broker(),
                &[
                    // Kelda's own defaults.
                    "controller.listener.names",
                    "log.dir",
                    "node.id",
                    "process.roles",
                    // Kafka shows the default where a dynamic log.retention.ms is set beside: an accident of its parsing.
                    "log.retention.hours",
                ],
            );
        });
    }

    #[test]
    fn all_brokers_show_what_is_set_for_them() {
        with_sources(|sources| compare("BROKER_DEFAULT", &sources.all_brokers(), &[]));
    }

    #[test]
    fn a_topic_is_described_as_kafka_describes_it() {
        let own = map(&[("retention.ms", "1000"), ("cleanup.policy", "compact")]);
        with_sources(|sources| compare("TOPIC", &sources.topic(Some(&own)), &[]));
    }

    #[test]
    fn groups_and_subscriptions_are_described_as_kafka_describes_them() {
        with_sources(|sources| compare("GROUP", &sources.group(None), &[]));
        compare("CLIENT_METRICS", &client_metrics(None), &[]);
    }

    #[test]
    fn names_can_be_picked() {
        let config = BrokerConfig::default();
        let configs = ConfigsImage::default();
        let topic = ConfigResource::topic("t");
        let picked = describe(&config, &configs, &topic, Some(&["retention.ms", "nonsense"]));
        assert_eq!(picked.len(), 1);
        assert!(picked[0].is_default());
        assert_eq!(picked[0].value.as_deref(), Some("604800000"));
        assert_eq!(describe(&config, &configs, &topic, Some(&[])).len(), 38);
        assert!(!picked[0].documentation().is_empty());
    }
}
