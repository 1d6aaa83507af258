//! Types of config values, and the rules that a value must keep.

use std::fmt;

/// Kafka's types of config values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigType {
    /// `true` or `false`, in any case.
    Boolean,
    /// Any text.
    String,
    /// 32 bits.
    Int,
    /// 16 bits.
    Short,
    /// 64 bits.
    Long,
    /// A decimal number.
    Double,
    /// Items between commas.
    List,
    /// The name of a Java class.
    Class,
    /// Text that is never shown.
    Password,
}

impl ConfigType {
    /// The type with this name in the tables.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" => Self::Boolean,
            "string" => Self::String,
            "int" => Self::Int,
            "short" => Self::Short,
            "long" => Self::Long,
            "double" => Self::Double,
            "list" => Self::List,
            "class" => Self::Class,
            "password" => Self::Password,
            _ => return None,
        })
    }

    /// The number in DescribeConfigs answers.
    #[must_use]
    pub fn wire(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    fn expects(self) -> &'static str {
        match self {
            Self::Boolean => "true or false",
            Self::String | Self::Class | Self::Password => "a text",
            Self::Int => "a whole number of 32 bits",
            Self::Short => "a whole number of 16 bits",
            Self::Long => "a whole number of 64 bits",
            Self::Double => "a number",
            Self::List => "a list with commas",
        }
    }
}

/// What a value must be beyond its type.
#[derive(Clone, PartialEq, Debug)]
pub enum Valid {
    /// Anything of the type.
    Any,
    /// A number from `min` to `max`, or the one exception.
    Range {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
        /// One more value that is allowed.
        or: Option<f64>,
    },
    /// One of these texts; of a list, each item.
    OneOf(Vec<&'static str>),
    /// As [`Valid::OneOf`], in any case.
    OneOfIgnoringCase(Vec<&'static str>),
    /// At least one character.
    NonEmpty,
}

impl Valid {
    /// Reads the tables' notation, which is Kafka's own.
    #[must_use]
    pub fn parse(text: &'static str) -> Self {
        if let Some(rest) = text.strip_prefix("(case insensitive) ") {
            return match Self::parse(rest) {
                Self::OneOf(items) => Self::OneOfIgnoringCase(items),
                other => other,
            };
        }
        if text == "non-empty string" {
            return Self::NonEmpty;
        }
        let (range, or) = match text.split_once(" or ") {
            Some((range, or)) => (range, or.parse().ok()),
            None => (text, None),
        };
        let Some(inner) = range.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
            return Self::Any;
        };
        if let Some((min, max)) = inner.split_once(",...") {
            let max = max.strip_prefix(',').map_or(Ok(f64::INFINITY), str::parse);
            return match (min.parse(), max) {
                (Ok(min), Ok(max)) => Self::Range { min, max, or },
                _ => Self::Any,
            };
        }
        // `[partitionId]:[brokerId],...` and `by_duration:P...` are patterns, not lists of words.
        if inner.contains([':', '[']) {
            return Self::Any;
        }
        Self::OneOf(inner.split(", ").collect())
    }

    fn check_number(&self, number: f64) -> bool {
        match self {
            Self::Range { min, max, or } => {
                (number >= *min && number <= *max) || *or == Some(number)
            }
            _ => true,
        }
    }

    fn check_text(&self, text: &str) -> bool {
        match self {
            Self::OneOf(items) => items.contains(&text),
            Self::OneOfIgnoringCase(items) => {
                items.iter().any(|item| item.eq_ignore_ascii_case(text))
            }
            Self::NonEmpty => !text.is_empty(),
            Self::Any | Self::Range { .. } => true,
        }
    }
}

impl fmt::Display for Valid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Range { min, max, or } => {
                write!(f, " of at least {min}")?;
                if max.is_finite() {
                    write!(f, " and at most {max}")?;
                }
                or.map_or(Ok(()), |or| write!(f, ", or {or}"))
            }
            Self::OneOf(items) => write!(f, ": {}", items.join(", ")),
            Self::OneOfIgnoringCase(items) => write!(f, ": {} (any case)", items.join(", ")),
            Self::NonEmpty => f.write_str(", not empty"),
        }
    }
}

/// Items of a list value; blanks around them and empty items are dropped.
pub fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// A boolean as Kafka reads it.
#[must_use]
pub fn boolean(value: &str) -> Option<bool> {
    let value = value.trim();
    if value.eq_ignore_ascii_case("true") {
        Some(true)
    } else if value.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Checks a value; the error says what would be valid.
///
/// # Errors
/// The value has another type, or breaks the rule.
pub fn check(kind: ConfigType, valid: &Valid, value: &str) -> Result<(), String> {
    let trimmed = value.trim();
    let whole = |min: i64, max: i64| {
        // Java's parseInt takes a leading plus, as Rust's does.
        trimmed.parse::<i64>().ok().filter(|number| (min..=max).contains(number))
    };
    #[allow(clippy::cast_precision_loss, reason = "bounds of ranges are small or open")]
    let fine = match kind {
        ConfigType::Boolean => boolean(trimmed).is_some(),
        ConfigType::Short => whole(i16::MIN.into(), i16::MAX.into())
            .is_some_and(|number| valid.check_number(number as f64)),
        ConfigType::Int => whole(i32::MIN.into(), i32::MAX.into())
            .is_some_and(|number| valid.check_number(number as f64)),
        ConfigType::Long => {
            whole(i64::MIN, i64::MAX).is_some_and(|number| valid.check_number(number as f64))
        }
        ConfigType::Double => trimmed.parse::<f64>().is_ok_and(|number| valid.check_number(number)),
        ConfigType::List => items(value).all(|item| valid.check_text(item)),
        ConfigType::String | ConfigType::Class => valid.check_text(trimmed),
        ConfigType::Password => true,
    };
    if fine { Ok(()) } else { Err(format!("{}{valid}", kind.expects())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafkas_notation_of_rules_is_understood() {
        let range = Valid::parse("[1,...,9] or -1");
        assert!(check(ConfigType::Int, &range, "9").is_ok());
        assert!(check(ConfigType::Int, &range, "-1").is_ok());
        assert!(check(ConfigType::Int, &range, "0").is_err());
        let codecs = Valid::parse("[uncompressed, zstd, lz4, snappy, gzip, producer]");
        assert!(check(ConfigType::String, &codecs, "zstd").is_ok());
        assert_eq!(
            check(ConfigType::String, &codecs, "ZSTD"),
            Err("a text: uncompressed, zstd, lz4, snappy, gzip, producer".to_owned()),
        );
        let any_case = Valid::parse("(case insensitive) [ES256, RS256]");
        assert!(check(ConfigType::String, &any_case, "es256").is_ok());
        assert_eq!(Valid::parse("[latest, earliest, by_duration:PnDTnHnMn.nS]"), Valid::Any);
        assert_eq!(Valid::parse("non-null string"), Valid::Any);
    }

    #[test]
    fn numbers_keep_to_their_width() {
        assert!(check(ConfigType::Short, &Valid::Any, "32768").is_err());
        assert!(check(ConfigType::Int, &Valid::Any, "2147483648").is_err());
        assert!(check(ConfigType::Long, &Valid::Any, "9223372036854775807").is_ok());
        assert!(check(ConfigType::Int, &Valid::Any, " 7 ").is_ok());
        assert!(check(ConfigType::Int, &Valid::Any, "").is_err());
        assert!(check(ConfigType::Boolean, &Valid::Any, "TRUE").is_ok());
        assert!(check(ConfigType::Boolean, &Valid::Any, "yes").is_err());
    }
}
