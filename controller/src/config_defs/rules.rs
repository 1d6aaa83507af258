//! Checks of whole sets of configs: names, values, and values against each other.

use std::collections::BTreeMap;

use super::{CLIENT_METRICS, ConfigDef, GROUP, Refusal, TOPIC, Value, find, parse};

/// Largest name and value of an override, in bytes.
const VALUE_BYTES_MAX: usize = 32_767;

/// Checks all overrides that a topic would have.
///
/// # Errors
/// INVALID_CONFIG with Kafka's text.
pub fn validate_topic(
    configs: &BTreeMap<String, String>,
    static_configs: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let values = parse_all(TOPIC, configs, "Unknown topic config name: ", Refusal::config)?;
    let number = |name: &str| match values.get(name) {
        Some(Value::Number(number)) => *number,
        _ => default_number(TOPIC, name, static_configs),
    };
    let min = number("min.compaction.lag.ms");
    let max = number("max.compaction.lag.ms");
    if min > max {
        return Err(Refusal::config(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    if configs
        .get("remote.storage.enable")
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    {
        return Err(Refusal::config(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ));
    }
    Ok(())
}

/// Checks all overrides that a group would have, against the bounds that the broker's own configs set.
///
/// # Errors
/// INVALID_CONFIG with Kafka's text.
pub fn validate_group(
    configs: &BTreeMap<String, String>,
    static_configs: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    let values = parse_all(GROUP, configs, "Unknown group config name: ", Refusal::config)?;
    let bound = |name: &str, default: i64| {
        static_configs.get(name).and_then(|text| text.trim().parse().ok()).unwrap_or(default)
    };
    for &(name, min, max) in GROUP_BOUNDS {
        let Some(Value::Number(value)) = values.get(name) else { continue };
        let min = min.map(|(name, default)| bound(name, default));
        let max = bound(max.0, max.1);
        match min {
            Some(min) if !(min..=max).contains(value) => {
                return Err(Refusal::config(format!(
                    "{name} must be in the range {min} to {max} inclusive."
                )));
            }
            None if *value > max => {
                return Err(Refusal::config(format!("{name} must be less than or equal to {max}")));
            }
            _ => {}
        }
    }
    for kind in ["consumer", "share", "streams"] {
        let session_name = format!("{kind}.session.timeout.ms");
        let heartbeat_name = format!("{kind}.heartbeat.interval.ms");
        let number = |name: &str| match values.get(name) {
            Some(Value::Number(number)) => *number,
            _ => bound(&format!("group.{name}"), default_number(GROUP, name, static_configs)),
        };
        if number(&session_name) <= number(&heartbeat_name) {
            return Err(Refusal::config(format!(
                "{session_name} must be greater than {heartbeat_name}"
            )));
        }
    }
    if let Some(topic) = configs.get("errors.deadletterqueue.topic.name")
        && topic.starts_with("__")
    {
        return Err(Refusal::config(
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ));
    }
    Ok(())
}

/// A bound that a broker config sets: its name and its own default.
type Bound = (&'static str, i64);

/// Group configs that broker configs bound, below and above.
const GROUP_BOUNDS: &[(&str, Option<Bound>, Bound)] = &[
    (
        "consumer.heartbeat.interval.ms",
        Some(("group.consumer.min.heartbeat.interval.ms", 5_000)),
        ("group.consumer.max.heartbeat.interval.ms", 15_000),
    ),
    (
        "consumer.session.timeout.ms",
        Some(("group.consumer.min.session.timeout.ms", 45_000)),
        ("group.consumer.max.session.timeout.ms", 60_000),
    ),
    (
        "consumer.assignment.interval.ms",
        Some(("group.consumer.min.assignment.interval.ms", 0)),
        ("group.consumer.max.assignment.interval.ms", 15_000),
    ),
    (
        "share.heartbeat.interval.ms",
        Some(("group.share.min.heartbeat.interval.ms", 5_000)),
        ("group.share.max.heartbeat.interval.ms", 15_000),
    ),
    (
        "share.session.timeout.ms",
        Some(("group.share.min.session.timeout.ms", 45_000)),
        ("group.share.max.session.timeout.ms", 60_000),
    ),
    (
        "share.record.lock.duration.ms",
        Some(("group.share.min.record.lock.duration.ms", 15_000)),
        ("group.share.max.record.lock.duration.ms", 60_000),
    ),
    (
        "share.delivery.count.limit",
        Some(("group.share.min.delivery.count.limit", 2)),
        ("group.share.max.delivery.count.limit", 10),
    ),
    (
        "share.partition.max.record.locks",
        Some(("group.share.min.partition.max.record.locks", 100)),
        ("group.share.max.partition.max.record.locks", 4_000),
    ),
    (
        "share.assignment.interval.ms",
        Some(("group.share.min.assignment.interval.ms", 0)),
        ("group.share.max.assignment.interval.ms", 15_000),
    ),
    (
        "streams.heartbeat.interval.ms",
        Some(("group.streams.min.heartbeat.interval.ms", 5_000)),
        ("group.streams.max.heartbeat.interval.ms", 15_000),
    ),
    (
        "streams.session.timeout.ms",
        Some(("group.streams.min.session.timeout.ms", 45_000)),
        ("group.streams.max.session.timeout.ms", 60_000),
    ),
    (
        "streams.assignment.interval.ms",
        Some(("group.streams.min.assignment.interval.ms", 0)),
        ("group.streams.max.assignment.interval.ms", 15_000),
    ),
    ("streams.num.standby.replicas", None, ("group.streams.max.standby.replicas", 2)),
];

/// Checks all overrides that a client metrics subscription would have.
///
/// # Errors
/// INVALID_REQUEST or INVALID_CONFIG with Kafka's text.
pub fn validate_client_metrics(
    name: &str,
    configs: &BTreeMap<String, String>,
) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::request("Subscription name can't be empty"));
    }
    let values = parse_all(
        CLIENT_METRICS,
        configs,
        "Unknown client metrics configuration: ",
        Refusal::request,
    )?;
    if let Some(Value::Number(interval)) = values.get("interval.ms")
        && !(100..=3_600_000).contains(interval)
    {
        return Err(Refusal::request(format!(
            "Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )));
    }
    const SELECTORS: [&str; 7] = [
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
        "",
    ];
    if let Some(Value::List(patterns)) = values.get("match") {
        for pattern in patterns {
            let fits = pattern.split_once('=').is_some_and(|(name, regex)| {
                !name.is_empty()
                    && SELECTORS.contains(&name.trim())
                    && looks_like_regex(regex.trim())
            });
            if !fits {
                return Err(Refusal::config(format!("Illegal client matching pattern: {pattern}")));
            }
        }
    }
    Ok(())
}

/// Whether brackets are closed and nothing is escaped at the end: a whole regex parser is not worth its place here.
fn looks_like_regex(pattern: &str) -> bool {
    let (mut round, mut square, mut escaped) = (0_i32, false, false);
    for character in pattern.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' if square => square = false,
            _ if square => {}
            '[' => square = true,
            '(' => round += 1,
            ')' => round -= 1,
            _ => {}
        }
        if round < 0 {
            return false;
        }
    }
    round == 0 && !square && !escaped && !pattern.is_empty()
}

fn parse_all(
    table: &'static [ConfigDef],
    configs: &BTreeMap<String, String>,
    unknown: &str,
    refuse: fn(String) -> Refusal,
) -> Result<BTreeMap<&'static str, Value>, Refusal> {
    for name in configs.keys() {
        if find(table, name).is_none() {
            return Err(refuse(format!("{unknown}{name}")));
        }
    }
    let mut values = BTreeMap::new();
    for (name, text) in configs {
        if text.len() > VALUE_BYTES_MAX {
            return Err(Refusal::config(format!(
                "The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes."
            )));
        }
        if let Some(def) = find(table, name) {
            values.insert(def.name, parse(def, text)?);
        }
    }
    Ok(values)
}

fn default_number(
    table: &'static [ConfigDef],
    name: &str,
    static_configs: &BTreeMap<String, String>,
) -> i64 {
    let Some(def) = find(table, name) else { return 0 };
    let set = def.synonyms.iter().find_map(|&(synonym, factor)| {
        static_configs.get(synonym)?.trim().parse::<i64>().ok()?.checked_mul(factor)
    });
    set.or_else(|| def.default?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, value: &str) -> Result<(), String> {
        let configs = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        validate_topic(&configs, &BTreeMap::new()).map_err(|refusal| refusal.message)
    }

    fn group(name: &str, value: &str) -> Result<(), String> {
        let configs = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        validate_group(&configs, &BTreeMap::new()).map_err(|refusal| refusal.message)
    }

    #[test]
    fn tables_are_sorted_and_hold_valid_defaults() {
        for table in [TOPIC, GROUP, CLIENT_METRICS] {
            let names: Vec<_> =
                table.iter().map(|def| def.name).filter(|n| !n.starts_with("kelda")).collect();
            assert!(names.is_sorted());
            for def in table {
                if let Some(default) = def.default {
                    parse(def, default).expect(def.name);
                }
            }
        }
        assert_eq!(TOPIC.iter().filter(|def| !def.internal).count(), 37);
    }

    /// Values and answers as Apache Kafka 4.4.0 gave them to CreateTopics.
    #[test]
    fn topic_configs_are_refused_in_kafkas_words() {
        for (name, value) in [
            ("cleanup.policy", ""),
            ("cleanup.policy", "delete, compact"),
            ("cleanup.policy", "delete,delete"),
            ("retention.bytes", "-3"),
            ("unclean.leader.election.enable", "TRUE"),
            ("retention.ms", " 5 "),
            ("retention.ms", "+5"),
            ("min.cleanable.dirty.ratio", "0.5d"),
            ("min.cleanable.dirty.ratio", "NaN"),
            ("internal.segment.bytes", "5"),
            ("leader.replication.throttled.replicas", "0:1,1:2"),
            ("leader.replication.throttled.replicas", "*"),
            ("local.retention.ms", "-1"),
            ("kelda.durability", "page-cache"),
        ] {
            assert_eq!(topic(name, value), Ok(()), "{name}={value}");
        }
        for (name, value, message) in [
            ("nope", "1", "Unknown topic config name: nope"),
            (
                "retention.ms",
                "x",
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                "",
                "Invalid value  for configuration retention.ms: Not a number of type LONG",
            ),
            (
                "retention.ms",
                "-2",
                "Invalid value -2 for configuration retention.ms: Value must be at least -1",
            ),
            (
                "cleanup.policy",
                "delete,none",
                "Invalid value none for configuration cleanup.policy: String must be one of: compact, delete",
            ),
            (
                "cleanup.policy",
                "delete,,compact",
                "Configuration 'cleanup.policy' values must not be empty.",
            ),
            (
                "cleanup.policy",
                ",delete",
                "Configuration 'cleanup.policy' values must not be empty.",
            ),
            (
                "compression.type",
                "GZIP",
                "Invalid value GZIP for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
            ),
            (
                "min.cleanable.dirty.ratio",
                "2",
                "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
            ),
            (
                "min.cleanable.dirty.ratio",
                "abc",
                "Invalid value abc for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
            ),
            (
                "preallocate",
                "maybe",
                "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
            ),
            (
                "compression.gzip.level",
                "0",
                "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
            ),
            (
                "compression.zstd.level",
                "100",
                "Invalid value 100 for configuration compression.zstd.level: Value must be no more than 22",
            ),
            (
                "leader.replication.throttled.replicas",
                "zz",
                "Invalid value [zz] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            ),
            (
                "max.message.bytes",
                "2147483648",
                "Invalid value 2147483648 for configuration max.message.bytes: Not a number of type INT",
            ),
            (
                "remote.storage.enable",
                "true",
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
            ),
        ] {
            assert_eq!(topic(name, value), Err(message.to_owned()), "{name}={value}");
        }
        let lag = BTreeMap::from([
            ("min.compaction.lag.ms".to_owned(), "10".to_owned()),
            ("max.compaction.lag.ms".to_owned(), "5".to_owned()),
        ]);
        assert_eq!(
            validate_topic(&lag, &BTreeMap::new()).expect_err("conflict").message,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
        );
    }

    #[test]
    fn group_configs_are_refused_in_kafkas_words() {
        assert_eq!(group("consumer.session.timeout.ms", "46000"), Ok(()));
        assert_eq!(group("share.auto.offset.reset", "by_duration:PT1S"), Ok(()));
        for (name, value, message) in [
            (
                "consumer.session.timeout.ms",
                "5",
                "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
            ),
            ("nope", "5", "Unknown group config name: nope"),
            (
                "share.delivery.count.limit",
                "100",
                "share.delivery.count.limit must be in the range 2 to 10 inclusive.",
            ),
            (
                "share.delivery.count.limit",
                "1",
                "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2",
            ),
            (
                "share.auto.offset.reset",
                "by_duration:x",
                "Invalid value by_duration:x for configuration share.auto.offset.reset: Invalid value `by_duration:x` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
            ),
            (
                "streams.num.standby.replicas",
                "100",
                "streams.num.standby.replicas must be less than or equal to 2",
            ),
            (
                "errors.deadletterqueue.topic.name",
                "__x",
                "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
            ),
        ] {
            assert_eq!(group(name, value), Err(message.to_owned()), "{name}={value}");
        }
    }

    #[test]
    fn client_metrics_are_refused_in_kafkas_words() {
        let check = |name: &str, value: &str| {
            let configs = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            validate_client_metrics("s", &configs)
                .map_err(|refusal| (refusal.code.code(), refusal.message))
        };
        assert_eq!(check("interval.ms", "100"), Ok(()));
        assert_eq!(check("match", "client_id=a.*"), Ok(()));
        assert_eq!(
            check("interval.ms", "5"),
            Err((
                42,
                "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)".to_owned()
            ))
        );
        assert_eq!(
            check("nope", "a"),
            Err((42, "Unknown client metrics configuration: nope".to_owned()))
        );
        assert_eq!(
            check("match", "client_id=["),
            Err((40, "Illegal client matching pattern: client_id=[".to_owned()))
        );
    }
}
