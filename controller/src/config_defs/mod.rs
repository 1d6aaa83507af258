//! What configs of topics, groups and client metrics subscriptions exist, and which values they take.
//!
//! Texts of refusals are those of Apache Kafka 4.4.0 (observed). Broker configs are not here: the broker that
//! owns them checks them before it forwards a request.

mod client_metrics_table;
mod group_table;
mod rules;
mod topic_table;

use std::collections::BTreeMap;
use std::fmt;

pub use client_metrics_table::CLIENT_METRICS;
pub use group_table::GROUP;
pub use rules::{validate_client_metrics, validate_group, validate_topic};
pub use topic_table::TOPIC;

use crate::image::{ConfigResource, ConfigsImage};

/// Type of a config's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `true` or `false`, in any case.
    Boolean,
    /// 32-bit integer.
    Int,
    /// 64-bit integer.
    Long,
    /// Floating point number.
    Double,
    /// Text.
    String,
    /// Texts separated by commas.
    List,
}

/// Which values of its type a config takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Valid {
    /// All.
    Any,
    /// Numbers from this on.
    AtLeast(i64),
    /// Numbers from the first to the second, inclusive.
    Between(i64, i64),
    /// These words; for lists, each element.
    OneOf(&'static [&'static str]),
    /// 1 to 9, or -1.
    GzipLevel,
    /// `*`, or `partition:broker` pairs.
    ThrottledReplicas,
    /// `earliest`, `latest` or `by_duration:` with an ISO 8601 duration.
    OffsetReset,
}

/// One config.
#[derive(Clone, Copy, Debug)]
pub struct ConfigDef {
    /// Its name.
    pub name: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Default; `None` is null.
    pub default: Option<&'static str>,
    /// Which values.
    pub valid: Valid,
    /// Broker configs that give the default, strongest first, with the factor of their unit.
    pub synonyms: &'static [(&'static str, i64)],
    /// Whether it is left out of descriptions.
    pub internal: bool,
}

pub(crate) const fn def(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    valid: Valid,
    synonyms: &'static [(&'static str, i64)],
) -> ConfigDef {
    ConfigDef { name, kind, default, valid, synonyms, internal: false }
}

impl ConfigDef {
    pub(crate) const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }
}

/// The definition of this name in a table.
#[must_use]
pub fn find(table: &'static [ConfigDef], name: &str) -> Option<&'static ConfigDef> {
    table.iter().find(|def| def.name == name)
}

/// Where a value comes from; the numbers are those of `DescribeConfigs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub enum Source {
    /// An override of the topic.
    Topic = 1,
    /// An override of this broker.
    Broker = 2,
    /// The cluster-wide broker default.
    BrokerDefault = 3,
    /// `server.properties`.
    Static = 4,
    /// The built-in default.
    Default = 5,
}

/// The value that holds for a topic, and where it comes from.
#[must_use]
pub fn effective_topic_config(
    def: &ConfigDef,
    topic: &BTreeMap<String, String>,
    configs: &ConfigsImage,
    node: &ConfigResource,
    static_configs: &BTreeMap<String, String>,
) -> (Option<String>, Source) {
    if let Some(value) = topic.get(def.name) {
        return (Some(value.clone()), Source::Topic);
    }
    let dynamic =
        [(node.clone(), Source::Broker), (ConfigResource::broker_default(), Source::BrokerDefault)];
    for (resource, source) in dynamic {
        for &(synonym, factor) in def.synonyms {
            if let Some(value) = configs.get(&resource, synonym) {
                return (Some(in_unit(value, factor)), source);
            }
        }
    }
    for &(synonym, factor) in def.synonyms {
        if let Some(value) = static_configs.get(synonym) {
            return (Some(in_unit(value, factor)), Source::Static);
        }
    }
    (def.default.map(str::to_owned), Source::Default)
}

/// A broker config in the unit of the topic config; -1 means the same in every unit.
fn in_unit(value: &str, factor: i64) -> String {
    match value.trim().parse::<i64>() {
        Ok(number) if factor != 1 && number >= 0 => number.saturating_mul(factor).to_string(),
        _ => value.to_owned(),
    }
}

/// A config was refused; its text is the answer's message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// INVALID_CONFIG or INVALID_REQUEST.
    pub code: protocol_compat::ErrorCode,
    /// Kafka's text.
    pub message: String,
}

impl Refusal {
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self { code: protocol_compat::ErrorCode::InvalidConfig, message: message.into() }
    }

    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self { code: protocol_compat::ErrorCode::InvalidRequest, message: message.into() }
    }

    fn value(def: &ConfigDef, value: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::config(format!("Invalid value {value} for configuration {}: {why}", def.name))
    }
}

/// A value of the right type.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// Boolean.
    Boolean,
    /// Int or long.
    Number(i64),
    /// Double.
    Double(f64),
    /// String.
    Text(String),
    /// List.
    List(Vec<String>),
}

/// Reads a value by its type and checks it by its rule.
pub(crate) fn parse(def: &ConfigDef, text: &str) -> Result<Value, Refusal> {
    let trimmed = text.trim();
    let not = |kind: &str| Refusal::value(def, text, format_args!("Not a number of type {kind}"));
    let value = match def.kind {
        Kind::Boolean
            if trimmed.eq_ignore_ascii_case("true") || trimmed.eq_ignore_ascii_case("false") =>
        {
            Value::Boolean
        }
        Kind::Boolean => {
            return Err(Refusal::value(def, text, "Expected value to be either true or false"));
        }
        Kind::Int => Value::Number(i64::from(trimmed.parse::<i32>().map_err(|_| not("INT"))?)),
        Kind::Long => Value::Number(trimmed.parse().map_err(|_| not("LONG"))?),
        Kind::Double => Value::Double(java_double(trimmed).ok_or_else(|| not("DOUBLE"))?),
        Kind::String => Value::Text(trimmed.to_owned()),
        Kind::List if trimmed.is_empty() => Value::List(Vec::new()),
        Kind::List => Value::List(trimmed.split(',').map(|part| part.trim().to_owned()).collect()),
    };
    check(def, &value)?;
    Ok(value)
}

/// Java's spelling of doubles: an optional `d` or `f` behind, `NaN` and `Infinity` by name.
fn java_double(text: &str) -> Option<f64> {
    match text.trim_start_matches(['+', '-']) {
        "NaN" => return Some(f64::NAN),
        "Infinity" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        _ => {}
    }
    let digits = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    // Rust also reads words such as `inf`, which Java refuses.
    if !digits.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    digits.parse().ok()
}

/// A double as Java prints it, as far as configs need it.
fn java_text(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e7 {
        format!("{value:.1}")
    } else {
        value.to_string()
    }
}

fn check(def: &ConfigDef, value: &Value) -> Result<(), Refusal> {
    match (def.valid, value) {
        (Valid::AtLeast(min), Value::Number(number)) => at_least(def, *number, min),
        (Valid::Between(min, max), Value::Number(number)) => {
            at_least(def, *number, min)?;
            if *number > max {
                return Err(Refusal::value(
                    def,
                    number,
                    format_args!("Value must be no more than {max}"),
                ));
            }
            Ok(())
        }
        #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
        (Valid::Between(min, max), Value::Double(number)) => {
            if *number < min as f64 {
                return Err(Refusal::value(
                    def,
                    java_text(*number),
                    format_args!("Value must be at least {min}"),
                ));
            }
            if *number > max as f64 {
                return Err(Refusal::value(
                    def,
                    java_text(*number),
                    format_args!("Value must be no more than {max}"),
                ));
            }
            Ok(())
        }
        (Valid::OneOf(words), Value::Text(text)) => one_of(def, words, text),
        (Valid::OneOf(words), Value::List(parts)) => {
            if parts.iter().any(String::is_empty) {
                return Err(Refusal::config(format!(
                    "Configuration '{}' values must not be empty.",
                    def.name
                )));
            }
            parts.iter().try_for_each(|part| one_of(def, words, part))
        }
        (Valid::GzipLevel, Value::Number(level)) if *level != -1 && !(1..=9).contains(level) => {
            Err(Refusal::value(def, level, "Value must be between 1 and 9 or equal to -1"))
        }
        (Valid::ThrottledReplicas, Value::List(parts)) => throttled_replicas(def, parts),
        (Valid::OffsetReset, Value::Text(text)) => offset_reset(def, text),
        _ => Ok(()),
    }
}

fn at_least(def: &ConfigDef, number: i64, min: i64) -> Result<(), Refusal> {
    if number < min {
        return Err(Refusal::value(def, number, format_args!("Value must be at least {min}")));
    }
    Ok(())
}

fn one_of(def: &ConfigDef, words: &[&str], text: &str) -> Result<(), Refusal> {
    if words.contains(&text) {
        return Ok(());
    }
    Err(Refusal::value(def, text, format_args!("String must be one of: {}", words.join(", "))))
}

fn throttled_replicas(def: &ConfigDef, parts: &[String]) -> Result<(), Refusal> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pair = |part: &String| part.split_once(':').is_some_and(|(p, b)| digits(p) && digits(b));
    if parts.iter().all(pair) || parts == ["*"] {
        return Ok(());
    }
    Err(Refusal::value(
        def,
        format_args!("[{}]", parts.join(", ")),
        format_args!(
            "{} must be the literal '*' or a list of replicas in the following format: \
             [partitionId]:[brokerId],[partitionId]:[brokerId],...",
            def.name
        ),
    ))
}

fn offset_reset(def: &ConfigDef, text: &str) -> Result<(), Refusal> {
    let valid = match text.split_once(':') {
        None => text == "earliest" || text == "latest",
        Some((word, duration)) => word == "by_duration" && is_duration(duration),
    };
    if valid {
        return Ok(());
    }
    Err(Refusal::value(
        def,
        text,
        format_args!(
            "Invalid value `{text}` for configuration {}. The value must be either 'earliest', 'latest' or of the \
             format 'by_duration:<PnDTnHnMn.nS>'.",
            def.name
        ),
    ))
}

/// A positive ISO 8601 duration of days to seconds, as `java.time.Duration` reads it.
fn is_duration(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let Some(rest) = text.strip_prefix('P') else { return false };
    let (date, time) = match rest.split_once('T') {
        Some((_, "")) => return false,
        Some((date, time)) => (date, time),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return false;
    }
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let date_fits = date.is_empty() || date.strip_suffix('D').is_some_and(number);
    let mut rest = time;
    for unit in ['H', 'M'] {
        if let Some((amount, behind)) = rest.split_once(unit) {
            if !number(amount) {
                return false;
            }
            rest = behind;
        }
    }
    let seconds = rest.strip_suffix('S').is_some_and(|amount| match amount.split_once('.') {
        Some((whole, part)) => {
            number(whole) && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit())
        }
        None => number(amount),
    });
    date_fits && (rest.is_empty() || seconds)
}
