//! DescribeConfigs (key 32), from request to answer; the API's handler adds what it knows of topics.

use controller::image::ConfigsImage;
use controller::image::configs::ConfigResource;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;

use super::BrokerConfig;
use super::describe::{ConfigEntry, describe};

/// Wire numbers of resource types.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
/// What Kafka says to a type that it does not know.
const UNKNOWN_TYPE: &str = "Unsupported resource type";

/// Answers DescribeConfigs v1 to v4 as Apache Kafka 4.4.0 does; each resource has its own error.
#[must_use]
pub fn answer(
    request: &DescribeConfigsRequest,
    broker: &BrokerConfig,
    configs: &ConfigsImage,
    topic_exists: impl Fn(&str) -> bool,
) -> DescribeConfigsResponse {
    let results = request.resources.iter().map(|resource| {
        let result = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
            .with_error_message(Some(StrBytes::from_static_str("")));
        match find(resource, broker, &topic_exists) {
            Ok(None) => result,
            Ok(Some(found)) => {
                let keys = resource.configuration_keys.as_ref();
                let keys: Option<Vec<&str>> =
                    keys.map(|keys| keys.iter().map(|key| key.as_str()).collect());
                let entries = describe(broker, configs, &found, keys.as_deref());
                result.with_configs(entries.into_iter().map(|entry| wire(entry, request)).collect())
            }
            Err((code, message)) => result
                .with_error_code(code.code())
                .with_error_message(Some(StrBytes::from_string(message))),
        }
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

/// The resource that is asked for; `None` is one without configs.
fn find(
    resource: &DescribeConfigsResource,
    broker: &BrokerConfig,
    topic_exists: &impl Fn(&str) -> bool,
) -> Result<Option<ConfigResource>, (ErrorCode, String)> {
    use controller::image::configs::ConfigResourceKind as Kind;
    let name = resource.resource_name.as_str();
    let invalid = |message: &str| Err((ErrorCode::InvalidRequest, message.to_owned()));
    let named = |kind| Ok(Some(ConfigResource { kind, name: name.into() }));
    match resource.resource_type {
        TOPIC => {
            if let Some(why) = bad_topic_name(name) {
                return Err((
                    ErrorCode::InvalidTopicException,
                    format!("Topic name is invalid: {why}"),
                ));
            }
            if !topic_exists(name) {
                return Err((ErrorCode::UnknownTopicOrPartition, String::new()));
            }
            named(Kind::Topic)
        }
        BROKER if name.is_empty() => named(Kind::Broker),
        BROKER => match name.parse::<i32>() {
            Ok(id) if id == broker.node_id.0 => named(Kind::Broker),
            Ok(id) => invalid(&format!(
                "Unexpected broker id, expected {} or empty string, but received {id}",
                broker.node_id
            )),
            Err(_) => invalid(&format!("Broker id must be an integer, but it is: {name}")),
        },
        BROKER_LOGGER if name.is_empty() => invalid("Broker id must not be empty"),
        BROKER_LOGGER => match name.parse::<i32>() {
            // Log levels are not set by logger here.
            Ok(id) if id == broker.node_id.0 => Ok(None),
            Ok(id) => invalid(&format!(
                "Unexpected broker id, expected {} but received {id}",
                broker.node_id
            )),
            Err(_) => invalid(&format!("Broker id must be an integer, but it is: {name}")),
        },
        CLIENT_METRICS if name.is_empty() => {
            invalid("Client metrics subscription name must not be empty")
        }
        CLIENT_METRICS => named(Kind::ClientMetrics),
        GROUP if name.is_empty() => invalid("Group name must not be empty"),
        GROUP => named(Kind::Group),
        // Kafka fails the whole request; one bad resource need not hide the others.
        _ => invalid(UNKNOWN_TYPE),
    }
}

/// Why a text is no topic name, in Kafka's words.
fn bad_topic_name(name: &str) -> Option<String> {
    const LENGTH_MAX: usize = 249;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() {
        Some("the empty string is not allowed".to_owned())
    } else if name == "." || name == ".." {
        Some(format!("'{name}' is not allowed"))
    } else if name.len() > LENGTH_MAX {
        Some(format!("the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"))
    } else if !name.chars().all(is_fine) {
        Some(format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ))
    } else {
        None
    }
}

fn wire(entry: ConfigEntry, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let text = StrBytes::from_string;
    let documentation =
        request.include_documentation.then(|| text(entry.documentation().into_owned()));
    let synonyms = if request.include_synonyms {
        let wire = |synonym: &super::describe::SynonymEntry| {
            DescribeConfigsSynonym::default()
                .with_name(text(synonym.name.clone()))
                .with_value(synonym.value.clone().map(text))
                .with_source(synonym.source.wire())
        };
        entry.synonyms.iter().map(wire).collect()
    } else {
        Vec::new()
    };
    DescribeConfigsResourceResult::default()
        .with_read_only(entry.is_read_only)
        .with_config_source(entry.source.wire())
        .with_is_sensitive(entry.is_sensitive)
        .with_synonyms(synonyms)
        .with_config_type(entry.kind_wire())
        .with_documentation(documentation)
        .with_name(text(entry.name))
        .with_value(entry.value.map(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(resources: &[(i8, &str)], all: bool) -> DescribeConfigsResponse {
        let resources = resources.iter().map(|(kind, name)| {
            DescribeConfigsResource::default()
                .with_resource_type(*kind)
                .with_resource_name(StrBytes::from_string((*name).to_owned()))
                .with_configuration_keys(None)
        });
        let request = DescribeConfigsRequest::default()
            .with_resources(resources.collect())
            .with_include_synonyms(all)
            .with_include_documentation(all);
        answer(&request, &BrokerConfig::default(), &ConfigsImage::default(), |name| {
            name == "orders"
        })
    }

    /// What Apache Kafka 4.4.0 with node.id 1 answered.
    #[test]
    fn errors_are_kafkas() {
        let cases: &[(i8, &str, i16, &str)] = &[
            (2, "nope", 3, ""),
            (
                2,
                "a b",
                17,
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
            (2, "", 17, "Topic name is invalid: the empty string is not allowed"),
            (4, "7", 42, "Unexpected broker id, expected 1 or empty string, but received 7"),
            (4, "x", 42, "Broker id must be an integer, but it is: x"),
            (4, "", 0, ""),
            (8, "1", 0, ""),
            (8, "7", 42, "Unexpected broker id, expected 1 but received 7"),
            (8, "", 42, "Broker id must not be empty"),
            (16, "", 42, "Client metrics subscription name must not be empty"),
            (32, "", 42, "Group name must not be empty"),
            (3, "x", 42, UNKNOWN_TYPE),
        ];
        let asked: Vec<_> = cases.iter().map(|(kind, name, _, _)| (*kind, *name)).collect();
        let answer = ask(&asked, false);
        for ((kind, name, code, message), result) in cases.iter().zip(&answer.results) {
            assert_eq!(result.error_code, *code, "{kind} {name}");
            assert_eq!(result.error_message.as_deref(), Some(*message));
            assert!(result.configs.is_empty());
        }
    }

    #[test]
    fn each_resource_lists_its_configs() {
        let answer = ask(&[(2, "orders"), (4, "1"), (16, "m"), (32, "g")], true);
        let counts: Vec<_> = answer.results.iter().map(|result| result.configs.len()).collect();
        // Kafka lists 37, 350, 3 and 21; the rest is named kelda.*.
        assert_eq!(counts, [38, 358, 3, 21]);
        let config =
            answer.results[0].configs.iter().find(|config| config.name.as_str() == "retention.ms");
        let config = config.expect("it is listed");
        assert_eq!(config.value.as_deref(), Some("604800000"));
        assert_eq!((config.config_source, config.config_type), (5, 5));
        assert!(config.documentation.is_some());
    }

    #[test]
    fn synonyms_and_documentation_come_when_asked_for() {
        let answer = ask(&[(2, "orders")], false);
        assert!(
            answer.results[0]
                .configs
                .iter()
                .all(|config| config.synonyms.is_empty() && config.documentation.is_none())
        );
    }
}
