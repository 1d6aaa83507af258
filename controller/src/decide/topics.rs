//! CreateTopics and DeleteTopics.

use std::collections::{BTreeMap, BTreeSet};

use crate::records::metadata::{ConfigRecord, MetadataRecord, RemoveTopicRecord, TopicRecord};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{BrokerId, TopicId, Uuid};

use super::partitions::{self, NewPartition};
use super::{Context, Decision, UNKNOWN_TOPIC_ID_TEXT, UNKNOWN_TOPIC_TEXT, names, text};
use crate::config_defs;
use crate::error::RequestError;
use crate::image::{ConfigResource, TopicImage};

/// Most partitions that one request may make: they are one batch of records.
const PARTITIONS_MAX: usize = 10_000;
/// The metadata log, which looks like a topic to some tools.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Decides topics one by one; refused ones do not hold up the others.
pub(crate) fn create(
    context: &mut Context<'_>,
    request: &CreateTopicsRequest,
) -> Decision<CreateTopicsResponse> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *seen.entry(topic.name.as_str()).or_default() += 1;
    }
    let duplicates: BTreeSet<&str> =
        seen.iter().filter(|&(_, &count)| count > 1).map(|(&name, _)| name).collect();

    let mut response = CreateTopicsResponse::default();
    let mut records = Vec::new();
    let wanted: Vec<_> = request
        .topics
        .iter()
        .filter(|topic| {
            !duplicates.contains(topic.name.as_str()) && topic.name.as_str() != METADATA_TOPIC
        })
        .collect();
    let too_many = partitions_wanted(context, &wanted) > PARTITIONS_MAX;
    let collisions = collisions(context, &wanted);
    for topic in wanted {
        let decided = if too_many {
            Err(RequestError::new(
                ErrorCode::PolicyViolation,
                "Excessively large number of partitions per request.",
            ))
        } else {
            create_one(context, topic, &collisions)
        };
        response.topics.push(match decided {
            Ok((result, mut new)) => {
                records.append(&mut new);
                result
            }
            Err(error) => refused(&topic.name, &error),
        });
    }
    for name in duplicates {
        let error = RequestError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
        response.topics.push(refused(&TopicName(text(name)), &error));
    }
    if seen.get(METADATA_TOPIC) == Some(&1) {
        let error = RequestError::new(
            ErrorCode::InvalidRequest,
            format!("Creation of internal topic {METADATA_TOPIC} is prohibited."),
        );
        response.topics.push(refused(&TopicName(text(METADATA_TOPIC)), &error));
    }
    if request.validate_only {
        records.clear();
    }
    Decision { records, response }
}

fn refused(name: &TopicName, error: &RequestError) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(name.clone())
        .with_error_code(error.code().code())
        .with_error_message(Some(text(error.message())))
}

fn partitions_wanted(context: &Context<'_>, topics: &[&CreatableTopic]) -> usize {
    let default = context.settings.number("num.partitions", 1_usize);
    topics.iter().fold(0, |sum: usize, topic| {
        sum.saturating_add(if !topic.assignments.is_empty() {
            topic.assignments.len()
        } else if topic.num_partitions == -1 {
            default
        } else {
            usize::try_from(topic.num_partitions).unwrap_or(0)
        })
    })
}

/// Existing topics by the name that metrics show, for the names asked for.
fn collisions(context: &Context<'_>, topics: &[&CreatableTopic]) -> BTreeMap<String, String> {
    let keys: BTreeSet<_> =
        topics.iter().filter_map(|topic| names::collision_key(topic.name.as_str())).collect();
    if keys.is_empty() {
        return BTreeMap::new();
    }
    let existing = context.image.topics().iter().filter_map(|topic| {
        let key = names::collision_key(topic.name())?;
        keys.contains(&key).then(|| (key, topic.name().to_string()))
    });
    existing.collect()
}

fn create_one(
    context: &mut Context<'_>,
    topic: &CreatableTopic,
    collisions: &BTreeMap<String, String>,
) -> Result<(CreatableTopicResult, Vec<MetadataRecord>), RequestError> {
    let name = topic.name.as_str();
    let refuse = |code, message: String| Err(RequestError::new(code, message));
    if context.image.topics().by_name(name).is_some() {
        return refuse(ErrorCode::TopicAlreadyExists, format!("Topic '{name}' already exists."));
    }
    if let Err(message) = names::validate(name) {
        return refuse(ErrorCode::InvalidTopicException, message);
    }
    if let Some(other) = names::collision_key(name).and_then(|key| collisions.get(&key)) {
        return refuse(
            ErrorCode::InvalidTopicException,
            format!("Topic '{name}' collides with existing topic: {other}"),
        );
    }
    let configs = creation_configs(context, topic)?;
    let partitions = new_partitions(context, topic)?;

    let id = TopicId((context.new_id)());
    let mut records =
        vec![MetadataRecord::Topic(TopicRecord { name: name.to_owned(), topic_id: id.0 })];
    let config = |key: &str, value: Option<&str>| {
        MetadataRecord::Config(ConfigRecord {
            resource_type: 2,
            resource_name: name.to_owned(),
            name: key.to_owned(),
            value: value.map(str::to_owned),
        })
    };
    // Snapshots of Kafka 4.4.0 may keep overrides of deleted topics: a new topic must not inherit them.
    if let Some(leftovers) = context.image.configs().of(&ConfigResource::topic(name)) {
        let stale = leftovers.keys().filter(|key| !configs.contains_key(key.as_ref()));
        records.extend(stale.map(|key| config(key, None)));
    }
    records.extend(configs.iter().map(|(key, value)| config(key, Some(value))));
    for (index, partition) in (0..).zip(&partitions) {
        records.push(MetadataRecord::Partition(partition.record(id, index)));
    }
    Ok((created(context, topic, id, &partitions, &configs), records))
}

/// The overrides that a new topic gets, checked.
fn creation_configs(
    context: &Context<'_>,
    topic: &CreatableTopic,
) -> Result<BTreeMap<String, String>, RequestError> {
    let mut configs = BTreeMap::new();
    let mut nulls = Vec::new();
    for config in &topic.configs {
        match &config.value {
            Some(value) => {
                configs.insert(config.name.to_string(), value.to_string());
            }
            None => nulls.push(config.name.to_string()),
        }
    }
    if !nulls.is_empty() {
        return Err(RequestError::new(
            ErrorCode::InvalidConfig,
            format!("Null value not supported for topic configs: {}", nulls.join(",")),
        ));
    }
    config_defs::validate_topic(&configs, &context.settings.static_configs)
        .map_err(|refusal| RequestError::new(refusal.code, refusal.message))?;
    Ok(configs)
}

fn new_partitions(
    context: &mut Context<'_>,
    topic: &CreatableTopic,
) -> Result<Vec<NewPartition>, RequestError> {
    let refuse = |code, message: &str| Err(RequestError::new(code, message));
    if !topic.assignments.is_empty() {
        if topic.replication_factor != -1 {
            return refuse(
                ErrorCode::InvalidRequest,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            );
        }
        if topic.num_partitions != -1 {
            return refuse(
                ErrorCode::InvalidRequest,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            );
        }
        return manual(context, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        return refuse(
            ErrorCode::InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        );
    }
    if topic.num_partitions < -1 || topic.num_partitions == 0 {
        return refuse(
            ErrorCode::InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.",
        );
    }
    let count = usize::try_from(topic.num_partitions)
        .unwrap_or_else(|_| context.settings.number("num.partitions", 1));
    let factor = usize::try_from(topic.replication_factor)
        .unwrap_or_else(|_| context.settings.number("default.replication.factor", 1));
    partitions::place(context, count, factor)
}

fn manual(
    context: &Context<'_>,
    topic: &CreatableTopic,
) -> Result<Vec<NewPartition>, RequestError> {
    let bad = |message: String| RequestError::new(ErrorCode::InvalidReplicaAssignment, message);
    let mut placed = BTreeMap::new();
    let mut factor = None;
    for assignment in &topic.assignments {
        let index = assignment.partition_index;
        if placed.contains_key(&index) {
            return Err(bad(format!(
                "Found multiple manual partition assignments for partition {index}"
            )));
        }
        let replicas: Vec<_> = assignment.broker_ids.iter().map(|id| BrokerId(id.0)).collect();
        partitions::check_manual(context, &replicas, factor)?;
        factor = Some(replicas.len());
        placed.insert(index, partitions::manual(context, replicas, index)?);
    }
    if !placed.keys().copied().eq((0..).take(placed.len())) {
        return Err(bad("partitions should be a consecutive 0-based integer sequence".to_owned()));
    }
    Ok(placed.into_values().collect())
}

fn created(
    context: &Context<'_>,
    topic: &CreatableTopic,
    id: TopicId,
    partitions: &[NewPartition],
    overrides: &BTreeMap<String, String>,
) -> CreatableTopicResult {
    let node = ConfigResource::broker(context.settings.node_id);
    let shown = config_defs::TOPIC
        .iter()
        .filter(|def| !def.internal || overrides.contains_key(def.name))
        .map(|def| {
            let (value, source) = config_defs::effective_topic_config(
                def,
                overrides,
                context.image.configs(),
                &node,
                &context.settings.static_configs,
            );
            CreatableTopicConfigs::default()
                .with_name(text(def.name))
                .with_value(value.map(text))
                .with_read_only(false)
                .with_config_source(source as i8)
                .with_is_sensitive(false)
        })
        .collect();
    let factor = partitions.first().map_or(0, |partition| partition.replicas.len());
    CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_topic_id(id.0)
        .with_error_code(0)
        .with_error_message(None)
        .with_num_partitions(i32::try_from(partitions.len()).unwrap_or(i32::MAX))
        .with_replication_factor(i16::try_from(factor).unwrap_or(i16::MAX))
        .with_configs(Some(shown))
}

/// Decides deletions one by one, by name or id.
pub(crate) fn delete(
    context: &Context<'_>,
    request: &DeleteTopicsRequest,
) -> Decision<DeleteTopicsResponse> {
    // Versions before 6 carry names only.
    let old = request.topic_names.iter().map(|name| {
        DeleteTopicState::default().with_name(Some(name.clone())).with_topic_id(Uuid::nil())
    });
    let wanted: Vec<_> = request.topics.iter().cloned().chain(old).collect();
    let enabled = context.settings.switch("delete.topic.enable", true);
    let mut times = BTreeMap::new();
    for key in wanted.iter().filter_map(|state| resolve(context, state).ok().map(TopicImage::id)) {
        *times.entry(key).or_insert(0) += 1;
    }
    let mut told = BTreeSet::new();
    let mut records = Vec::new();
    let mut response = DeleteTopicsResponse::default();
    for state in &wanted {
        let result = if enabled {
            resolve(context, state)
        } else {
            Err(RequestError::new(ErrorCode::TopicDeletionDisabled, "Topic deletion is disabled."))
        };
        let result = match result {
            Ok(topic) if times.get(&topic.id()) > Some(&1) => {
                // One row for all its mentions.
                if !told.insert(topic.id()) {
                    continue;
                }
                let what = if state.name.is_some() {
                    "Duplicate topic name."
                } else {
                    "Duplicate topic id."
                };
                Err(RequestError::new(ErrorCode::InvalidRequest, what))
            }
            other => other,
        };
        response.responses.push(match result {
            Ok(topic) => {
                records.push(MetadataRecord::RemoveTopic(RemoveTopicRecord {
                    topic_id: topic.id().0,
                }));
                DeletableTopicResult::default()
                    .with_name(Some(TopicName(text(topic.name().as_ref()))))
                    .with_topic_id(topic.id().0)
                    .with_error_code(0)
                    .with_error_message(None)
            }
            Err(error) => DeletableTopicResult::default()
                .with_name(state.name.clone())
                .with_topic_id(state.topic_id)
                .with_error_code(error.code().code())
                .with_error_message(Some(text(error.message()))),
        });
    }
    Decision { records, response }
}

fn resolve<'a>(
    context: &Context<'a>,
    state: &DeleteTopicState,
) -> Result<&'a TopicImage, RequestError> {
    let topics = context.image.topics();
    let refuse = |code, message: &str| Err(RequestError::new(code, message));
    match (&state.name, Some(state.topic_id).filter(|id| !id.is_nil())) {
        (None, None) => {
            refuse(ErrorCode::InvalidRequest, "Neither topic name nor id were specified.")
        }
        (None, Some(id)) => match topics.by_id(TopicId(id)) {
            Some(topic) => Ok(topic.as_ref()),
            None => refuse(ErrorCode::UnknownTopicId, UNKNOWN_TOPIC_ID_TEXT),
        },
        (Some(name), None) => match topics.by_name(name.as_str()) {
            Some(topic) => Ok(topic.as_ref()),
            None => refuse(ErrorCode::UnknownTopicOrPartition, UNKNOWN_TOPIC_TEXT),
        },
        (Some(_), Some(_)) => {
            refuse(ErrorCode::InvalidRequest, "You may not specify both topic name and topic id.")
        }
    }
}
