//! What one topic uses: its overrides, else the broker configs that give the default, else Kafka's default.

use std::borrow::Cow;

use controller::image::ConfigsImage;
use controller::image::configs::{ConfigMap, ConfigResource};
use protocol_compat::batch::TimestampType;
use protocol_compat::compression::{Codec, Compression};
use protocol_compat::ids::BrokerId;
use storage::log::{CleanupPolicy, Durability, LogConfig};

use super::definition::{self, ResourceDefinition};
use super::settings::Settings;
use super::{BrokerConfig, valid};

/// What one topic uses.
#[derive(Clone, PartialEq, Debug)]
pub struct TopicConfig {
    /// What its logs use.
    pub log: LogConfig,
    /// `max.message.bytes`: largest batch as sent.
    pub max_message_bytes: usize,
    /// `compression.type` with its level; `None` keeps what was sent (`producer`).
    pub compression: Option<Compression>,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `min.insync.replicas`.
    pub min_insync_replicas: usize,
}

/// Where a topic's values come from, strongest first.
struct Sources<'a> {
    topic: Option<&'a ConfigMap>,
    broker: Option<&'a ConfigMap>,
    broker_default: Option<&'a ConfigMap>,
    settings: &'a Settings,
}

impl TopicConfig {
    /// What `topic` uses on this broker.
    #[must_use]
    pub fn effective(broker: &BrokerConfig, configs: &ConfigsImage, topic: &str) -> Self {
        let sources = Sources {
            topic: configs.of_topic(topic),
            broker: configs.of(&ConfigResource::broker(broker.node_id)),
            broker_default: configs.of(&ConfigResource::broker_default()),
            settings: &broker.settings,
        };
        // Most topics have no overrides, and then all use one thing.
        if sources.topic.is_none() && sources.broker.is_none() && sources.broker_default.is_none() {
            return broker.topic_defaults.clone();
        }
        sources.read()
    }

    /// What a topic without overrides uses, from the static settings alone.
    #[must_use]
    pub fn of_settings(settings: &Settings) -> Self {
        Sources { topic: None, broker: None, broker_default: None, settings }.read()
    }
}

/// The value that a topic config has by `settings` and dynamic broker configs: of several synonyms the strongest that is
/// set, in the topic config's unit; `None` is null.
pub(super) fn default_value<'a>(
    known: &ResourceDefinition,
    dynamic: [Option<&'a ConfigMap>; 2],
    settings: &'a Settings,
) -> Option<Cow<'a, str>> {
    for synonym in &known.synonyms {
        let set = dynamic
            .into_iter()
            .flatten()
            .find_map(|map| map.get(synonym.name).map(|value| &**value))
            .or_else(|| settings.explicit_value(synonym.name));
        let Some(value) = set else { continue };
        if synonym.factor == 1 {
            return Some(Cow::Borrowed(value));
        }
        // Hours of -1 are "without end" in any unit.
        let scaled = match value.trim().parse::<i64>() {
            Ok(number) if number < 0 => -1,
            Ok(number) => number.saturating_mul(synonym.factor),
            Err(_) => continue,
        };
        return Some(Cow::Owned(scaled.to_string()));
    }
    known.default.map(Cow::Borrowed)
}

impl<'a> Sources<'a> {
    fn value(&self, name: &str) -> Cow<'a, str> {
        let known = definition::topic().binary_search_by_key(&name, |known| known.name);
        let known = &definition::topic()[known.expect("only names of the table are asked for")];
        if let Some(value) = self.topic.and_then(|map| map.get(name))
            // The controller checked it; a value of another release is as if it were not there.
            && valid::check(known.kind, &known.valid, value).is_ok()
        {
            return Cow::Borrowed(value);
        }
        default_value(known, [self.broker, self.broker_default], self.settings).unwrap_or_default()
    }

    fn number(&self, name: &str) -> i64 {
        self.value(name).trim().parse().unwrap_or_else(|_| {
            let known = definition::topic().iter().find(|known| known.name == name);
            known.and_then(|known| known.default?.parse().ok()).unwrap_or(0)
        })
    }

    /// For numbers that the table keeps within 0 and 2^31.
    fn size(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).unwrap_or(0)
    }

    fn read(&self) -> TopicConfig {
        let policy = self.value("cleanup.policy");
        let has = |wanted| valid::items(&policy).any(|item| item == wanted);
        let limit = |number: i64| (number != i64::MAX).then_some(number);
        let segment_bytes = match self.topic.and_then(|map| map.get("internal.segment.bytes")) {
            Some(bytes) => bytes.parse().unwrap_or_else(|_| self.size("segment.bytes")),
            None => self.size("segment.bytes"),
        };
        let log = LogConfig {
            segment_bytes,
            segment_ms: self.number("segment.ms"),
            segment_jitter_ms: self.number("segment.jitter.ms"),
            segment_index_bytes: self.size("segment.index.bytes"),
            index_interval_bytes: self.size("index.interval.bytes"),
            retention_ms: Some(self.number("retention.ms")).filter(|ms| *ms >= 0),
            retention_bytes: u64::try_from(self.number("retention.bytes")).ok(),
            cleanup_policy: CleanupPolicy { delete: has("delete"), compact: has("compact") },
            file_delete_delay_ms: self.number("file.delete.delay.ms"),
            timestamp_type: match &*self.value("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            flush_messages: limit(self.number("flush.messages"))
                .and_then(|n| u64::try_from(n).ok()),
            flush_ms: limit(self.number("flush.ms")),
            durability: match &*self.value("kelda.durability") {
                "page-cache" => Durability::PageCache,
                _ => Durability::Fsync,
            },
            producer_id_expiration_ms: self.broker_number("producer.id.expiration.ms"),
        };
        TopicConfig {
            log,
            max_message_bytes: usize::try_from(self.number("max.message.bytes")).unwrap_or(0),
            compression: self.compression(),
            timestamp_before_max_ms: self.number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms: self.number("message.timestamp.after.max.ms"),
            min_insync_replicas: usize::try_from(self.number("min.insync.replicas")).unwrap_or(1),
        }
    }

    fn broker_number(&self, name: &str) -> i64 {
        [self.broker, self.broker_default]
            .into_iter()
            .flatten()
            .find_map(|map| map.get(name)?.parse().ok())
            .unwrap_or_else(|| self.settings.int(name))
    }

    fn compression(&self) -> Option<Compression> {
        let codec = Codec::from_name(&self.value("compression.type"))?;
        let level = match codec {
            Codec::None | Codec::Snappy => None,
            Codec::Gzip => Some("compression.gzip.level"),
            Codec::Lz4 => Some("compression.lz4.level"),
            Codec::Zstd => Some("compression.zstd.level"),
        };
        let level = level.and_then(|name| i32::try_from(self.number(name)).ok());
        Some(Compression { codec, level })
    }
}

/// The dynamic configs of a broker and of all brokers.
pub(super) fn dynamic_of(configs: &ConfigsImage, broker: BrokerId) -> [Option<&ConfigMap>; 2] {
    [configs.of(&ConfigResource::broker(broker)), configs.of(&ConfigResource::broker_default())]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn settings(values: &[&str]) -> Settings {
        let values: Vec<_> = values.iter().map(|text| (*text).to_owned()).collect();
        Settings::load(None, [], &values).expect("fine")
    }

    fn map(values: &[(&str, &str)]) -> ConfigMap {
        values.iter().map(|(name, value)| (Arc::from(*name), Arc::from(*value))).collect()
    }

    #[test]
    fn nothing_set_is_kafkas_default() {
        let config = TopicConfig::of_settings(&settings(&[]));
        assert_eq!(config.log, LogConfig::default());
        assert_eq!(config.max_message_bytes, 1_048_588);
        assert_eq!(config.compression, None);
        assert_eq!(config.timestamp_before_max_ms, i64::MAX);
        assert_eq!(config.timestamp_after_max_ms, 3_600_000);
        assert_eq!(config.min_insync_replicas, 1);
    }

    #[test]
    fn the_strongest_synonym_gives_the_default_in_the_topics_unit() {
        let hours = settings(&["log.retention.hours=2", "log.roll.hours=3"]);
        let config = TopicConfig::of_settings(&hours);
        assert_eq!(config.log.retention_ms, Some(7_200_000));
        assert_eq!(config.log.segment_ms, 10_800_000);
        let both = settings(&["log.retention.hours=2", "log.retention.minutes=1"]);
        assert_eq!(TopicConfig::of_settings(&both).log.retention_ms, Some(60_000));
        let never = settings(&["log.retention.hours=-1"]);
        assert_eq!(TopicConfig::of_settings(&never).log.retention_ms, None);
        let flush = settings(&["log.flush.scheduler.interval.ms=9"]);
        assert_eq!(TopicConfig::of_settings(&flush).log.flush_ms, Some(9));
    }

    #[test]
    fn a_topic_beats_a_broker_beats_all_brokers_beats_the_file() {
        let settings = settings(&[
            "message.max.bytes=1",
            "log.segment.bytes=2000000",
            "kelda.durability=page-cache",
        ]);
        let topic = map(&[
            ("max.message.bytes", "4"),
            ("cleanup.policy", "compact, delete"),
            ("compression.type", "gzip"),
        ]);
        let broker = map(&[("message.max.bytes", "3"), ("log.segment.bytes", "3000000")]);
        let all = map(&[
            ("message.max.bytes", "2"),
            ("log.segment.bytes", "4"),
            ("min.insync.replicas", "2"),
        ]);
        let sources = |topic, broker, broker_default| Sources {
            topic,
            broker,
            broker_default,
            settings: &settings,
        };
        let config = sources(Some(&topic), Some(&broker), Some(&all)).read();
        assert_eq!(config.max_message_bytes, 4);
        assert_eq!(config.log.segment_bytes, 3_000_000);
        assert_eq!(config.min_insync_replicas, 2);
        assert_eq!(config.log.durability, Durability::PageCache);
        assert_eq!(config.log.cleanup_policy, CleanupPolicy { delete: true, compact: true });
        assert_eq!(config.compression, Some(Compression { codec: Codec::Gzip, level: Some(-1) }));
        assert_eq!(sources(None, None, Some(&all)).read().max_message_bytes, 2);
        assert_eq!(sources(None, None, None).read().max_message_bytes, 1);
    }
}
