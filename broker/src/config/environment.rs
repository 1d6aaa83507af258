//! Environment variables that are configs.
//!
//! `KAFKA_` and a name as Kafka's container image spells it: `_` is a dot, `__` an underscore, `___` a dash. `KAFKA_CFG_` is
//! another image's spelling of the same. `KELDA_` does the same and wins; `KELDA_DURABILITY` is `kelda.durability`.

use super::definition;

/// Variables of Kafka's scripts and images that are no configs.
const NOT_CONFIGS: &[&str] = &[
    "CLASSPATH",
    "DEBUG",
    "GC_LOG_OPTS",
    "HEAP_OPTS",
    "HOME",
    "JMX_HOSTNAME",
    "JMX_OPTS",
    "JMX_PORT",
    "JVM_PERFORMANCE_OPTS",
    "LIBS",
    "LOG4J_LOGGERS",
    "LOG4J_OPTS",
    "LOG4J_ROOT_LOGLEVEL",
    "OPTS",
    "TOOLS_LOG4J_LOGLEVEL",
    "VERSION",
];

/// The config that a variable sets, with how strong it is: of two that set one config, the stronger wins.
#[must_use]
pub fn config_of(variable: &str, value: &str) -> Option<(String, Strength)> {
    // Compose files write `X=${X:-}`: an empty variable is one that was not set. Kubernetes gives every pod beside a Service
    // called `kafka` variables such as KAFKA_PORT=tcp://10.0.0.1:9092.
    if value.is_empty() || value.starts_with("tcp://") {
        return None;
    }
    match variable {
        "CLUSTER_ID" | "KAFKA_CLUSTER_ID" | "KAFKA_KRAFT_CLUSTER_ID" => {
            return Some(("kelda.cluster.id".to_owned(), Strength::Kafka));
        }
        _ => {}
    }
    if let Some(rest) = variable.strip_prefix("KELDA_") {
        let name = name_of(rest);
        let own = format!("kelda.{name}");
        let name = if definition::find(&own).is_some() { own } else { name };
        // KELDA_LOG and such are the process's own; only known names count.
        return definition::find_prefixed(&name).map(|_| (name, Strength::Kelda));
    }
    let rest = variable.strip_prefix("KAFKA_")?;
    let rest = rest.strip_prefix("CFG_").unwrap_or(rest);
    if NOT_CONFIGS.contains(&rest) || rest.starts_with("SERVICE_") || rest.starts_with("PORT_") {
        return None;
    }
    Some((name_of(rest), Strength::Kafka))
}

/// Order of the variables that can set one config.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Strength {
    /// `KAFKA_...`.
    Kafka,
    /// `KELDA_...`.
    Kelda,
}

fn name_of(rest: &str) -> String {
    let mut name = String::with_capacity(rest.len());
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '_' {
            name.push(c.to_ascii_lowercase());
            continue;
        }
        let mut run = 1;
        while chars.next_if_eq(&'_').is_some() {
            run += 1;
        }
        for _ in 0..run / 3 {
            name.push('-');
        }
        match run % 3 {
            1 => name.push('.'),
            2 => name.push('_'),
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_configs_as_the_images_do() {
        let name = |variable, value| config_of(variable, value).map(|(name, _)| name);
        assert_eq!(name("KAFKA_LOG_DIRS", "/d").as_deref(), Some("log.dirs"));
        assert_eq!(name("KAFKA_CFG_NODE_ID", "1").as_deref(), Some("node.id"));
        assert_eq!(
            name("KAFKA_LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG", "x")
                .as_deref(),
            Some("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"),
        );
        assert_eq!(name("KELDA_DURABILITY", "fsync").as_deref(), Some("kelda.durability"));
        assert_eq!(name("KELDA_NUM_PARTITIONS", "3").as_deref(), Some("num.partitions"));
        assert_eq!(name("CLUSTER_ID", "x").as_deref(), Some("kelda.cluster.id"));
        for (variable, value) in [
            ("KAFKA_HEAP_OPTS", "-Xmx1G"),
            ("KAFKA_PORT", "tcp://10.0.0.1:9092"),
            ("KAFKA_SERVICE_HOST", "10.0.0.1"),
            ("KAFKA_NUM_PARTITIONS", ""),
            ("KELDA_CACHE", "/tmp"),
            ("PATH", "/bin"),
        ] {
            assert_eq!(name(variable, value), None, "{variable}");
        }
    }
}
