//! The values of a node, merged from their layers, each with its origin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::definition::{self, Definition};
use super::error::{ConfigError, Origin, Problem};
use super::valid::{self, ConfigType};
use super::{environment, properties};

/// A value that someone set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The value, as written.
    pub value: String,
    /// Who set it.
    pub origin: Origin,
}

/// What a node was told, and the defaults behind it. Immutable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    explicit: BTreeMap<String, Setting>,
    warnings: Vec<String>,
}

/// One source of values.
#[derive(Default)]
struct Layer {
    name: &'static str,
    values: BTreeMap<String, Setting>,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        // Texts stay texts: their types are Kafka's, not a markup language's.
        let dict: Dict = self
            .values
            .iter()
            .map(|(name, setting)| (name.clone(), Value::from(setting.value.clone())))
            .collect();
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

impl Settings {
    /// Merges file, environment and overrides, weakest first, and checks every value.
    ///
    /// # Errors
    /// The file cannot be read, or values are wrong: then all of them are named.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        overrides: &[String],
    ) -> Result<Self, ConfigError> {
        let layers = [
            file.map(file_layer).transpose()?.unwrap_or_default(),
            environment_layer(environment),
            override_layer(overrides)?,
        ];
        let settings = Self::merge(&layers)?;
        settings.check()?;
        Ok(settings)
    }

    fn merge(layers: &[Layer]) -> Result<Self, ConfigError> {
        let mut figment = Figment::new();
        for layer in layers {
            figment = figment.merge(layer);
        }
        let unreadable = |error: figment::Error| ConfigError::Override(error.to_string());
        let merged = figment.data().map_err(unreadable)?;
        let mut settings = Self::default();
        for (name, value) in merged.into_values().flatten() {
            let source = figment.get_metadata(value.tag()).map(|metadata| metadata.name.clone());
            let setting = layers
                .iter()
                .filter(|layer| source.as_deref() == Some(layer.name))
                .find_map(|layer| layer.values.get(&name));
            if let Some(setting) = setting {
                settings.explicit.insert(name, setting.clone());
            }
        }
        settings.warnings = settings.find_warnings();
        Ok(settings)
    }

    fn find_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut idle = Vec::new();
        for (name, Setting { origin, .. }) in &self.explicit {
            match definition::find_prefixed(name) {
                Some(known) if !known.has_effect => idle.push(name.as_str()),
                Some(_) => {}
                None => warnings.push(match definition::nearest(name) {
                    Some(near) => {
                        format!("{origin}: {name} is not a known config; did you mean {near}?")
                    }
                    None => format!("{origin}: {name} is not a known config"),
                }),
            }
        }
        if !idle.is_empty() {
            warnings.push(format!("set, and without effect in Kelda: {}", idle.join(", ")));
        }
        warnings
    }

    fn check(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::new();
        for (name, setting) in &self.explicit {
            if let Some(valid) = refusal(name, &setting.value) {
                problems.push(self.problem(name, valid));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(problems)) }
    }

    /// What to tell of a value that cannot be used.
    #[must_use]
    pub fn problem(&self, name: &str, valid: impl Into<String>) -> Problem {
        let origin = self.explicit.get(name).map_or(Origin::Default, |set| set.origin.clone());
        let is_secret =
            definition::find_prefixed(name).is_none_or(|known| known.kind == ConfigType::Password);
        let value = if is_secret { "[hidden]" } else { self.get(name).unwrap_or_default() };
        Problem { origin, name: name.to_owned(), value: value.to_owned(), valid: valid.into() }
    }

    /// What was set, name to value.
    #[must_use]
    pub fn explicit(&self) -> BTreeMap<String, String> {
        self.explicit.iter().map(|(name, set)| (name.clone(), set.value.clone())).collect()
    }

    /// What was set, with origins, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.explicit.iter().map(|(name, setting)| (name.as_str(), setting))
    }

    /// What the operator should know: unknown names, values without effect.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The value that was set, if any.
    #[must_use]
    pub fn explicit_value(&self, name: &str) -> Option<&str> {
        self.explicit.get(name).map(|setting| setting.value.as_str())
    }

    /// The value that was set, or the default; `None` is null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.explicit_value(name).or_else(|| definition::find(name)?.default)
    }

    /// A text; empty for null.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default().trim()
    }

    /// A whole number; `None` is null.
    #[must_use]
    pub fn optional_int(&self, name: &str) -> Option<i64> {
        self.get(name)?.trim().parse().ok()
    }

    /// A whole number of a config that is never null.
    ///
    /// # Panics
    /// The table has no such config: a mistake in the program.
    #[must_use]
    pub fn int(&self, name: &str) -> i64 {
        self.optional_int(name).expect("the table has a default and the value was checked")
    }

    /// A boolean.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).and_then(valid::boolean).unwrap_or(false)
    }

    /// Items of a list.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        valid::items(self.get(name).unwrap_or_default())
    }
}

/// Why a value is refused, if it is.
fn refusal(name: &str, value: &str) -> Option<String> {
    if name.starts_with("zookeeper.") {
        return Some(
            "ZooKeeper is gone since Kafka 4.0: remove this line; a cluster that still uses ZooKeeper is first moved to KRaft"
                .to_owned(),
        );
    }
    let known: &Definition = definition::find_prefixed(name)?;
    if known.refused_when_set && !value.trim().is_empty() {
        return Some(
            "a plug-in of the JVM, which cannot be loaded here; leave it out only if the cluster is right without it"
                .to_owned(),
        );
    }
    if name == "remote.log.storage.system.enable" && valid::boolean(value) == Some(true) {
        return Some("tiered storage is not served yet; valid: false".to_owned());
    }
    let expected = valid::check(known.kind, &known.valid, value).err()?;
    Some(match known.default {
        Some(default) if !default.is_empty() => {
            format!("expected {expected} (default {default})")
        }
        _ => format!("expected {expected}"),
    })
}

fn file_layer(path: &Path) -> Result<Layer, ConfigError> {
    let bytes = std::fs::read(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let path: Arc<PathBuf> = Arc::new(path.to_owned());
    let entries = properties::parse(&bytes).map_err(|bad| {
        ConfigError::Invalid(vec![Problem {
            origin: Origin::File { path: Arc::clone(&path), line: bad.line },
            name: "\\u".to_owned(),
            value: String::new(),
            valid: "expected four hexadecimal digits after \\u".to_owned(),
        }])
    })?;
    let values = entries.into_iter().map(|entry| {
        let origin = Origin::File { path: Arc::clone(&path), line: entry.line };
        (entry.name, Setting { value: entry.value, origin })
    });
    Ok(Layer { name: "file", values: values.collect() })
}

fn environment_layer(variables: impl IntoIterator<Item = (String, String)>) -> Layer {
    let mut found: Vec<_> = variables
        .into_iter()
        .filter_map(|(variable, value)| {
            let (name, strength) = environment::config_of(&variable, &value)?;
            Some((strength, variable, name, value))
        })
        .collect();
    // Weakest first, and the same whatever order the environment has.
    found.sort();
    let values = found.into_iter().map(|(_, variable, name, value)| {
        (name, Setting { value, origin: Origin::Environment(variable) })
    });
    Layer { name: "environment", values: values.collect() }
}

fn override_layer(overrides: &[String]) -> Result<Layer, ConfigError> {
    let mut values = BTreeMap::new();
    for text in overrides {
        let (name, value) =
            text.split_once('=').ok_or_else(|| ConfigError::Override(text.clone()))?;
        if name.trim().is_empty() {
            return Err(ConfigError::Override(text.clone()));
        }
        values.insert(
            name.trim().to_owned(),
            Setting { value: value.to_owned(), origin: Origin::Override },
        );
    }
    Ok(Layer { name: "overrides", values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(
        file: &str,
        environment: &[(&str, &str)],
        overrides: &[&str],
    ) -> Result<Settings, ConfigError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("server.properties");
        std::fs::write(&path, file).expect("written");
        let environment =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let overrides: Vec<_> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Settings::load(Some(&path), environment, &overrides)
    }

    #[test]
    fn later_layers_win_and_know_where_they_came_from() {
        let settings = load(
            "num.partitions=2\nlog.segment.bytes=2000000\nnode.id=5\nnode.id=6",
            &[
                ("KAFKA_NUM_PARTITIONS", "3"),
                ("KELDA_LOG_SEGMENT_BYTES", "3000000"),
                ("KAFKA_LOG_SEGMENT_BYTES", "4"),
            ],
            &["num.partitions=4"],
        )
        .expect("fine");
        let all: Vec<_> = settings
            .iter()
            .map(|(name, set)| {
                let origin = set.origin.to_string();
                let origin = origin.rsplit('/').next().unwrap_or_default().to_owned();
                (name, set.value.as_str(), origin)
            })
            .collect();
        assert_eq!(
            all,
            [
                (
                    "log.segment.bytes",
                    "3000000",
                    "environment variable KELDA_LOG_SEGMENT_BYTES".to_owned()
                ),
                ("node.id", "6", "server.properties:4".to_owned()),
                ("num.partitions", "4", "--override".to_owned()),
            ]
        );
        assert_eq!(settings.int("message.max.bytes"), 1_048_588);
        assert_eq!(settings.get("log.dirs"), None);
    }

    #[test]
    fn a_wrong_value_names_file_line_name_value_and_what_is_valid() {
        let error = load(
            "# x\nnum.partitions=none\n",
            &[("KAFKA_COMPRESSION_TYPE", "rar")],
            &["log.segment.bytes=x"],
        )
        .expect_err("wrong")
        .to_string();
        assert!(error.contains("server.properties:2: num.partitions=none: expected a whole number of 32 bits of at least 1 (default 1)"), "{error}");
        assert!(error.contains("environment variable KAFKA_COMPRESSION_TYPE: compression.type=rar: expected a text: uncompressed, zstd, lz4, snappy, gzip, producer (default producer)"), "{error}");
        assert!(
            error.contains("--override: log.segment.bytes=x: expected a whole number"),
            "{error}"
        );
    }

    #[test]
    fn unknown_names_are_kept_with_a_warning() {
        let settings =
            load("log.retention.hour=3\nmy.own=1\nnum.io.threads=4", &[], &[]).expect("fine");
        assert_eq!(settings.get("my.own"), Some("1"));
        let warnings = settings.warnings();
        assert!(warnings[0].ends_with("server.properties:1: log.retention.hour is not a known config; did you mean log.retention.hours?"), "{warnings:?}");
        assert!(warnings[1].ends_with(":2: my.own is not a known config"), "{warnings:?}");
        assert_eq!(warnings[2], "set, and without effect in Kelda: num.io.threads");
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for line in [
            "zookeeper.connect=localhost:2181",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "create.topic.policy.class.name=com.acme.Policy",
            "remote.log.storage.system.enable=true",
        ] {
            assert!(load(line, &[], &[]).is_err(), "{line}");
        }
        assert!(
            load("authorizer.class.name=\nremote.log.storage.system.enable=false", &[], &[])
                .is_ok()
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let settings =
            load("ssl.keystore.password=geheim\nlistener.name.x.ssl.key.password=geheim", &[], &[])
                .expect("fine");
        for name in ["ssl.keystore.password", "listener.name.x.ssl.key.password", "unknown"] {
            assert!(!settings.problem(name, "").to_string().contains("geheim"));
        }
    }
}
