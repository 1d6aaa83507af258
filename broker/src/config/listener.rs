//! Listeners: `NAME://host:port` lists and the security protocol of each name.

use std::collections::BTreeMap;

use super::valid::items;

/// How clients of a listener are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext,
    /// TLS.
    Ssl,
    /// SASL without TLS.
    SaslPlaintext,
    /// SASL in TLS.
    SaslSsl,
}

impl SecurityProtocol {
    /// The protocol with this name, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Plaintext, Self::Ssl, Self::SaslPlaintext, Self::SaslSsl]
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Kafka's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// The number in registrations.
    #[must_use]
    pub fn id(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }
}

/// One listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Its name, in capitals as Kafka keeps it.
    pub name: String,
    /// Host to bind or to advertise; empty binds every address.
    pub host: String,
    /// Its port; 0 lets the system choose.
    pub port: u16,
    /// Its protocol.
    pub security_protocol: SecurityProtocol,
}

/// Reads `listener.security.protocol.map`.
///
/// # Errors
/// What is wrong with an item.
pub fn parse_map(text: &str) -> Result<BTreeMap<String, SecurityProtocol>, String> {
    items(text)
        .map(|item| {
            let (name, protocol) =
                item.split_once(':').ok_or_else(|| format!("{item} is not NAME:PROTOCOL"))?;
            let protocol = SecurityProtocol::from_name(protocol.trim()).ok_or_else(|| {
                format!("{item}: the protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
            })?;
            Ok((name.trim().to_ascii_uppercase(), protocol))
        })
        .collect()
}

/// Reads `listeners` or `advertised.listeners`. Empty items are dropped: test tools leave a comma at the end.
///
/// # Errors
/// What is wrong with an item.
pub fn parse_list(
    text: &str,
    map: &BTreeMap<String, SecurityProtocol>,
) -> Result<Vec<Listener>, String> {
    let mut found: Vec<Listener> = Vec::new();
    for item in items(text) {
        let listener = parse_one(item, map)?;
        // Kafka allows one name twice where one address is IPv4 and the other IPv6; here one of them must go.
        if found.iter().any(|other| other.name == listener.name) {
            return Err(format!("the name {} stands there twice", listener.name));
        }
        found.push(listener);
    }
    if found.is_empty() {
        return Err("expected NAME://HOST:PORT, such as PLAINTEXT://:9092".to_owned());
    }
    Ok(found)
}

fn parse_one(item: &str, map: &BTreeMap<String, SecurityProtocol>) -> Result<Listener, String> {
    let malformed = || format!("{item} is not NAME://HOST:PORT, such as PLAINTEXT://:9092");
    let (name, address) = item.split_once("://").ok_or_else(malformed)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    let port = port.parse().map_err(|_| format!("{item}: the port is 0 to 65535"))?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(malformed)?,
        None if host.contains(':') => {
            return Err(format!("{item}: an IPv6 address stands in brackets, such as [::1]"));
        }
        None => host,
    };
    let name = name.to_ascii_uppercase();
    if name.is_empty() || host.contains(['/', ' ']) {
        return Err(malformed());
    }
    let security_protocol = *map.get(&name).ok_or_else(|| {
        format!("{name} has no protocol: add it to listener.security.protocol.map, such as {name}:PLAINTEXT")
    })?;
    Ok(Listener { name, host: host.to_owned(), port, security_protocol })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_people_write_them() {
        let map = parse_map("PLAINTEXT:PLAINTEXT, external:sasl_ssl").expect("fine");
        let list = parse_list("plaintext://:9092, EXTERNAL://[::1]:19092,", &map).expect("fine");
        assert_eq!(list.len(), 2);
        assert_eq!(
            (list[0].name.as_str(), list[0].host.as_str(), list[0].port),
            ("PLAINTEXT", "", 9092)
        );
        assert_eq!(
            (list[1].host.as_str(), list[1].security_protocol),
            ("::1", SecurityProtocol::SaslSsl)
        );
    }

    #[test]
    fn mistakes_say_what_is_right() {
        let map = parse_map("PLAINTEXT:PLAINTEXT").expect("fine");
        for (text, part) in [
            ("localhost:9092", "is not NAME://HOST:PORT"),
            ("PLAINTEXT://localhost", "NAME://HOST:PORT"),
            ("PLAINTEXT://h:70000", "0 to 65535"),
            ("PLAINTEXT://::1:9092", "brackets"),
            ("OTHER://h:1", "OTHER:PLAINTEXT"),
            ("PLAINTEXT://:1,PLAINTEXT://:2", "twice"),
            ("", "such as PLAINTEXT://:9092"),
        ] {
            let error = parse_list(text, &map).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
        assert!(parse_map("A:B").is_err());
        assert!(parse_map("A").is_err());
    }
}
