//! IncrementalAlterConfigs and AlterConfigs.

use std::collections::{BTreeMap, BTreeSet};

use crate::records::metadata::{ClearElrRecord, ConfigRecord, MetadataRecord};
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse as AlterRow;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse as IncrementalRow;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use protocol_compat::ErrorCode;

use super::{Context, Decision, names, text};
use crate::config_defs::{self, Kind};
use crate::error::RequestError;
use crate::image::ConfigResource;
use crate::image::configs::ConfigResourceKind;

const MIN_ISR: &str = "min.insync.replicas";

/// What to do with one config.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Change {
    Set(String),
    Delete,
    Append(String),
    Subtract(String),
}

/// Changes of single configs of several resources, one by one.
pub(crate) fn incremental(
    context: &Context<'_>,
    request: &IncrementalAlterConfigsRequest,
) -> Decision<IncrementalAlterConfigsResponse> {
    let keys: Vec<_> =
        request.resources.iter().map(|r| (r.resource_type, r.resource_name.to_string())).collect();
    let mut records = Vec::new();
    let mut response = IncrementalAlterConfigsResponse::default();
    for (resource, key) in request.resources.iter().zip(&keys) {
        let decided = once(&keys, key).and_then(|()| {
            let configs = resource.configs.iter();
            let changes = configs
                .map(|config| {
                    (
                        config.name.as_str(),
                        config.config_operation,
                        config.value.as_ref().map(|v| v.as_str()),
                    )
                })
                .collect::<Vec<_>>();
            let changes = parse_changes(&changes)?;
            let resource = parse_resource(key.0, &key.1)?;
            alter_one(context, &resource, changes, false)
        });
        let (code, message) = answer(decided, &mut records);
        response.responses.push(
            IncrementalRow::default()
                .with_error_code(code)
                .with_error_message(message.map(text))
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone()),
        );
    }
    if request.validate_only {
        records.clear();
    }
    Decision { records, response }
}

/// Replacement of all configs of several resources, one by one.
pub(crate) fn replace(
    context: &Context<'_>,
    request: &AlterConfigsRequest,
) -> Decision<AlterConfigsResponse> {
    let keys: Vec<_> =
        request.resources.iter().map(|r| (r.resource_type, r.resource_name.to_string())).collect();
    let mut records = Vec::new();
    let mut response = AlterConfigsResponse::default();
    for (resource, key) in request.resources.iter().zip(&keys) {
        let decided = once(&keys, key).and_then(|()| {
            let changes = resource
                .configs
                .iter()
                .map(|config| (config.name.as_str(), 0, config.value.as_ref().map(|v| v.as_str())))
                .collect::<Vec<_>>();
            let changes = parse_changes(&changes)?;
            let resource = parse_resource(key.0, &key.1)?;
            alter_one(context, &resource, changes, true)
        });
        let (code, message) = answer(decided, &mut records);
        response.responses.push(
            AlterRow::default()
                .with_error_code(code)
                .with_error_message(message.map(text))
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone()),
        );
    }
    if request.validate_only {
        records.clear();
    }
    Decision { records, response }
}

fn answer(
    decided: Result<Vec<MetadataRecord>, RequestError>,
    records: &mut Vec<MetadataRecord>,
) -> (i16, Option<String>) {
    match decided {
        Ok(mut new) => {
            records.append(&mut new);
            (0, None)
        }
        Err(error) => {
            let message = (!error.message().is_empty()).then(|| error.message().to_owned());
            (error.code().code(), message)
        }
    }
}

fn invalid_request(message: impl Into<String>) -> RequestError {
    RequestError::new(ErrorCode::InvalidRequest, message)
}

fn invalid_config(message: impl Into<String>) -> RequestError {
    RequestError::new(ErrorCode::InvalidConfig, message)
}

fn once(keys: &[(i8, String)], key: &(i8, String)) -> Result<(), RequestError> {
    if keys.iter().filter(|other| *other == key).count() > 1 {
        return Err(invalid_request("Each resource must appear at most once."));
    }
    Ok(())
}

fn parse_changes(
    configs: &[(&str, i8, Option<&str>)],
) -> Result<BTreeMap<String, Change>, RequestError> {
    let distinct: BTreeSet<_> = configs.iter().map(|(name, ..)| name).collect();
    if distinct.len() != configs.len() {
        return Err(invalid_request("Error due to duplicate config keys"));
    }
    let nulls: Vec<_> = configs
        .iter()
        .filter(|(_, operation, value)| *operation != 1 && value.is_none())
        .map(|(name, ..)| *name)
        .collect();
    if !nulls.is_empty() {
        return Err(invalid_request(format!("Null value not supported for : {}", nulls.join(","))));
    }
    configs
        .iter()
        .map(|&(name, operation, value)| {
            let value = value.unwrap_or_default().to_owned();
            let change = match operation {
                0 => Change::Set(value),
                1 => Change::Delete,
                2 => Change::Append(value),
                3 => Change::Subtract(value),
                // Kafka has no better answer to this than an unexpected error.
                _ => return Err(RequestError::new(ErrorCode::UnknownServerError, "")),
            };
            Ok((name.to_owned(), change))
        })
        .collect()
}

fn parse_resource(kind: i8, name: &str) -> Result<ConfigResource, RequestError> {
    let kind = ConfigResourceKind::from_wire(kind)
        .ok_or_else(|| invalid_request(format!("Unknown resource type {kind}")))?;
    Ok(ConfigResource { kind, name: name.into() })
}

/// Kafka's rules for names of resources; whether the resource exists is asked after its values were checked.
fn check_name(resource: &ConfigResource) -> Result<(), RequestError> {
    let name = resource.name.as_ref();
    match resource.kind {
        ConfigResourceKind::Topic if name.is_empty() => {
            Err(invalid_request("Default topic resources are not allowed."))
        }
        ConfigResourceKind::Topic => names::validate(name)
            .map_err(|message| RequestError::new(ErrorCode::InvalidTopicException, message)),
        ConfigResourceKind::Broker if name.is_empty() => Ok(()),
        ConfigResourceKind::Broker => match name.parse::<i32>() {
            Ok(id) if id >= 0 => Ok(()),
            Ok(_) => Err(invalid_request("Invalid negative broker ID.")),
            Err(_) => Err(invalid_request("Unable to parse broker name as a base 10 number.")),
        },
        ConfigResourceKind::Group if name.is_empty() => {
            Err(invalid_request("Default group resources are not allowed."))
        }
        ConfigResourceKind::Group | ConfigResourceKind::ClientMetrics => Ok(()),
    }
}

/// Decides one resource. With `replace`, overrides that the request does not name are removed.
fn alter_one(
    context: &Context<'_>,
    resource: &ConfigResource,
    changes: BTreeMap<String, Change>,
    replace: bool,
) -> Result<Vec<MetadataRecord>, RequestError> {
    let before: BTreeMap<String, String> = context
        .image
        .configs()
        .of(resource)
        .map(|configs| configs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
        .unwrap_or_default();
    let mut after = before.clone();
    let mut altered = Vec::new();
    for (name, change) in changes.iter() {
        let value = changed_value(context, resource, name, before.get(name), change)?;
        // Broker configs are written even when equal: brokers reload files that they name (KAFKA-14136).
        if before.get(name) != value.as_ref() || resource.kind == ConfigResourceKind::Broker {
            altered.push((name.clone(), value.clone()));
        }
        match value {
            Some(value) => after.insert(name.clone(), value),
            None => after.remove(name),
        };
    }
    if replace {
        for name in before.keys().filter(|name| !changes.contains_key(*name)) {
            after.remove(name);
            altered.push((name.clone(), None));
        }
    }
    if context.elr_enabled() && resource.kind == ConfigResourceKind::Broker {
        check_min_isr(resource, &altered)?;
    }
    check_name(resource)?;
    validate(context, resource, &after)?;
    if resource.kind == ConfigResourceKind::Topic
        && context.image.topics().by_name(&resource.name).is_none()
    {
        return Err(RequestError::new(
            ErrorCode::UnknownTopicOrPartition,
            format!("The topic '{}' does not exist.", resource.name),
        ));
    }
    let clear_elr = context.elr_enabled() && altered.iter().any(|(name, _)| name == MIN_ISR);
    let mut records: Vec<_> = altered
        .into_iter()
        .map(|(name, value)| {
            MetadataRecord::Config(ConfigRecord {
                resource_type: resource.kind as i8,
                resource_name: resource.name.to_string(),
                name,
                value,
            })
        })
        .collect();
    if clear_elr {
        // Who is eligible depends on the minimum: it starts anew, for one topic or for all.
        let topic_name = match resource.kind {
            ConfigResourceKind::Topic => resource.name.to_string(),
            _ => String::new(),
        };
        records.push(MetadataRecord::ClearElr(ClearElrRecord { topic_name }));
    }
    Ok(records)
}

fn check_min_isr(
    resource: &ConfigResource,
    altered: &[(String, Option<String>)],
) -> Result<(), RequestError> {
    let Some((_, value)) = altered.iter().find(|(name, _)| name == MIN_ISR) else { return Ok(()) };
    if !resource.name.is_empty() && value.is_some() {
        return Err(invalid_config(
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ));
    }
    if resource.name.is_empty() && value.is_none() {
        return Err(invalid_config(
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ));
    }
    Ok(())
}

fn validate(
    context: &Context<'_>,
    resource: &ConfigResource,
    configs: &BTreeMap<String, String>,
) -> Result<(), RequestError> {
    let settings = &context.settings.static_configs;
    match resource.kind {
        ConfigResourceKind::Topic => config_defs::validate_topic(configs, settings),
        ConfigResourceKind::Group => config_defs::validate_group(configs, settings),
        ConfigResourceKind::ClientMetrics => {
            config_defs::validate_client_metrics(&resource.name, configs)
        }
        // The broker that took the request has checked them.
        ConfigResourceKind::Broker => Ok(()),
    }
    .map_err(|refusal| RequestError::new(refusal.code, refusal.message))
}

fn changed_value(
    context: &Context<'_>,
    resource: &ConfigResource,
    name: &str,
    before: Option<&String>,
    change: &Change,
) -> Result<Option<String>, RequestError> {
    let (operation, operand) = match change {
        Change::Set(value) => return Ok(Some(value.clone())),
        Change::Delete => return Ok(None),
        Change::Append(value) => ("APPEND", value),
        Change::Subtract(value) => ("SUBTRACT", value),
    };
    let table = match resource.kind {
        ConfigResourceKind::Topic => config_defs::TOPIC,
        ConfigResourceKind::Group => config_defs::GROUP,
        ConfigResourceKind::ClientMetrics => config_defs::CLIENT_METRICS,
        ConfigResourceKind::Broker => BROKER_LISTS,
    };
    let def = config_defs::find(table, name).filter(|def| def.kind == Kind::List);
    let Some(def) = def else {
        return Err(invalid_config(format!(
            "Can't {operation} to key {name} because its type is not LIST."
        )));
    };
    let now = before.cloned().or_else(|| {
        let fixed = &context.settings.static_configs;
        let set = def.synonyms.iter().find_map(|(synonym, _)| fixed.get(*synonym));
        set.or_else(|| fixed.get(name)).cloned().or_else(|| def.default.map(str::to_owned))
    });
    let now = now.unwrap_or_default();
    let mut parts: Vec<&str> = now.split(',').filter(|part| !part.is_empty()).collect();
    match change {
        Change::Append(_) => {
            for part in operand.split(',') {
                if !parts.contains(&part) {
                    parts.push(part);
                }
            }
        }
        _ => {
            for part in operand.split(',') {
                if let Some(at) = parts.iter().position(|known| *known == part) {
                    parts.remove(at);
                }
            }
        }
    }
    Ok(Some(parts.join(",")))
}

/// Broker configs of type list that change at run time.
const BROKER_LISTS: &[config_defs::ConfigDef] = &[
    list("log.cleanup.policy", "delete"),
    list("sasl.enabled.mechanisms", "GSSAPI"),
    list("ssl.cipher.suites", ""),
    list("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
    list("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
    list("listeners", "PLAINTEXT://:9092"),
    list("advertised.listeners", ""),
    list("sasl.kerberos.principal.to.local.rules", "DEFAULT"),
    list("leader.replication.throttled.replicas", ""),
    list("follower.replication.throttled.replicas", ""),
    list("cordoned.log.dirs", ""),
];

const fn list(name: &'static str, default: &'static str) -> config_defs::ConfigDef {
    config_defs::def(name, Kind::List, Some(default), config_defs::Valid::Any, &[])
}

#[cfg(test)]
#[path = "configs_tests.rs"]
mod tests;
