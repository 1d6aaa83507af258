//! Partitions: new ones (placed or assigned by hand), CreatePartitions, and what a broker's coming or going does to them.

use std::collections::BTreeMap;

use crate::records::metadata::{MetadataRecord, PartitionRecord};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{BrokerId, DirectoryId, TopicId};

use super::partition_change::PartitionChange;
use super::placement;
use super::{Context, Decision, text};
use crate::error::RequestError;
use crate::image::PartitionImage;
use crate::image::topics::DIRECTORY_LOST;

/// Most partitions that one request may add.
const PARTITIONS_MAX: usize = 10_000;

/// A partition that does not exist yet.
#[derive(Clone, Debug)]
pub(crate) struct NewPartition {
    pub(crate) replicas: Vec<BrokerId>,
    pub(crate) directories: Vec<DirectoryId>,
    pub(crate) isr: Vec<BrokerId>,
}

impl NewPartition {
    /// Its record; the first member of the ISR leads.
    pub(crate) fn record(&self, topic: TopicId, index: i32) -> PartitionRecord {
        PartitionRecord {
            partition_id: index,
            topic_id: topic.0,
            replicas: numbers(&self.replicas),
            isr: numbers(&self.isr),
            leader: self.isr.first().map_or(-1, |id| id.0),
            leader_epoch: 0,
            partition_epoch: 0,
            directories: self.directories.iter().map(|id| id.0).collect(),
            ..PartitionRecord::default()
        }
    }
}

fn numbers(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}

/// Places new partitions by the controller's own choice.
pub(crate) fn place(
    context: &mut Context<'_>,
    count: usize,
    factor: usize,
) -> Result<Vec<NewPartition>, RequestError> {
    let bad = |why: &str| {
        RequestError::new(
            ErrorCode::InvalidReplicationFactor,
            format!("Unable to replicate the partition {factor} time(s): {why}"),
        )
    };
    let [a, b, c, d, ..] = *(context.new_id)().as_bytes();
    let start = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(0);
    let placed =
        placement::place(context.image.brokers(), count, factor, start).map_err(|why| bad(&why))?;
    placed
        .into_iter()
        .map(|replicas| {
            let partition = with_directories(context, replicas);
            if partition.isr.is_empty() {
                return Err(bad("All brokers are currently fenced or in controlled shutdown."));
            }
            Ok(partition)
        })
        .collect()
}

fn with_directories(context: &Context<'_>, replicas: Vec<BrokerId>) -> NewPartition {
    NewPartition {
        directories: replicas.iter().map(|&id| context.default_directory(id)).collect(),
        isr: replicas.iter().copied().filter(|&id| context.is_active(id)).collect(),
        replicas,
    }
}

/// Checks replicas that a client assigned; `factor` is that of the partitions before.
pub(crate) fn check_manual(
    context: &Context<'_>,
    replicas: &[BrokerId],
    factor: Option<usize>,
) -> Result<(), RequestError> {
    let bad =
        |message: String| Err(RequestError::new(ErrorCode::InvalidReplicaAssignment, message));
    if replicas.is_empty() {
        return bad("The manual partition assignment includes an empty replica list.".to_owned());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    let mut last = None;
    for id in sorted {
        if last == Some(id) {
            return bad(format!(
                "The manual partition assignment includes the broker {id} more than once."
            ));
        }
        last = Some(id);
        if context.image.broker(id).is_none() {
            return bad(format!(
                "The manual partition assignment includes broker {id}, but no such broker is registered."
            ));
        }
    }
    if let Some(factor) = factor
        && factor != replicas.len()
    {
        return bad(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent \
             with previous partitions, which have {factor} replica(s).",
            replicas.len()
        ));
    }
    Ok(())
}

/// A partition of checked replicas.
pub(crate) fn manual(
    context: &Context<'_>,
    replicas: Vec<BrokerId>,
    index: i32,
) -> Result<NewPartition, RequestError> {
    let partition = with_directories(context, replicas);
    if partition.isr.is_empty() {
        return Err(RequestError::new(
            ErrorCode::InvalidReplicaAssignment,
            format!(
                "All brokers specified in the manual partition assignment for partition {index} are fenced or in \
                 controlled shutdown."
            ),
        ));
    }
    Ok(partition)
}

/// CreatePartitions: topics one by one.
pub(crate) fn create(
    context: &mut Context<'_>,
    request: &CreatePartitionsRequest,
) -> Decision<CreatePartitionsResponse> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *seen.entry(topic.name.as_str()).or_default() += 1;
    }
    let too_many = additional(context, request) > PARTITIONS_MAX;
    let mut response = CreatePartitionsResponse::default();
    let mut records = Vec::new();
    for topic in &request.topics {
        let decided = match seen.get_mut(topic.name.as_str()) {
            Some(count) if *count > 1 => {
                // One row for all its mentions: the others are skipped below.
                *count = 0;
                Err(refusal(ErrorCode::InvalidRequest, "Duplicate topic name."))
            }
            Some(0) => continue,
            _ if too_many => Err(refusal(
                ErrorCode::PolicyViolation,
                "Excessively large number of additional partitions per request.",
            )),
            _ => create_one(context, topic),
        };
        let result = CreatePartitionsTopicResult::default().with_name(topic.name.clone());
        response.results.push(match decided {
            Ok(mut new) => {
                records.append(&mut new);
                result.with_error_code(0).with_error_message(None)
            }
            Err(error) => result
                .with_error_code(error.code().code())
                // Kafka gives no text for a topic that does not exist.
                .with_error_message((!error.message().is_empty()).then(|| text(error.message()))),
        });
    }
    if request.validate_only {
        records.clear();
    }
    Decision { records, response }
}

fn refusal(code: ErrorCode, message: impl Into<String>) -> RequestError {
    RequestError::new(code, message)
}

fn additional(context: &Context<'_>, request: &CreatePartitionsRequest) -> usize {
    request.topics.iter().fold(0, |sum: usize, topic| {
        let now = context
            .image
            .topics()
            .by_name(topic.name.as_str())
            .map_or(usize::MAX, |topic| topic.partition_count());
        sum.saturating_add(usize::try_from(topic.count).unwrap_or(0).saturating_sub(now))
    })
}

fn create_one(
    context: &mut Context<'_>,
    request: &CreatePartitionsTopic,
) -> Result<Vec<MetadataRecord>, RequestError> {
    let name = request.name.as_str();
    let Some(topic) = context.image.topics().by_name(name).cloned() else {
        return Err(refusal(ErrorCode::UnknownTopicOrPartition, ""));
    };
    let now = topic.partition_count();
    let wanted = usize::try_from(request.count).unwrap_or(0);
    if wanted == now {
        return Err(refusal(
            ErrorCode::InvalidPartitions,
            format!("Topic already has {now} partition(s)."),
        ));
    }
    if wanted < now {
        return Err(refusal(
            ErrorCode::InvalidPartitions,
            format!(
                "The topic {name} currently has {now} partition(s); {} would not be an increase.",
                request.count
            ),
        ));
    }
    let additional = wanted - now;
    let first = i32::try_from(now).unwrap_or(i32::MAX);
    let factor = topic.partitions().next().map_or(1, |(_, partition)| partition.replicas.len());
    let partitions = match &request.assignments {
        None => place(context, additional, factor)?,
        Some(assignments) if assignments.len() != additional => {
            return Err(refusal(
                ErrorCode::InvalidReplicaAssignment,
                format!(
                    "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                    assignments.len()
                ),
            ));
        }
        Some(assignments) => {
            let mut partitions = Vec::with_capacity(additional);
            for (index, assignment) in (first..).zip(assignments) {
                let replicas: Vec<_> =
                    assignment.broker_ids.iter().map(|id| BrokerId(id.0)).collect();
                check_manual(context, &replicas, Some(factor))?;
                partitions.push(manual(context, replicas, index)?);
            }
            partitions
        }
    };
    Ok((first..)
        .zip(&partitions)
        .map(|(index, partition)| MetadataRecord::Partition(partition.record(topic.id(), index)))
        .collect())
}

/// What happens to a broker, as far as its partitions care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BrokerEvent {
    /// It is fenced or stops: out of every ISR.
    Leaves(BrokerId),
    /// It died without a clean stop: out of every ISR and ELR.
    UncleanShutdown(BrokerId),
    /// It is unfenced: may lead what has no leader.
    Returns(BrokerId),
}

/// The changes of all partitions that a broker's event touches.
pub(crate) fn broker_changes(
    context: &Context<'_>,
    event: BrokerEvent,
    records: &mut Vec<MetadataRecord>,
) {
    for topic in context.image.topics().iter() {
        // Looked up once a topic and only where a partition of it is touched.
        let mut configs = None;
        for (index, partition) in topic.partitions() {
            let touched = match event {
                BrokerEvent::Leaves(id) => partition.isr.contains(&id),
                BrokerEvent::UncleanShutdown(id) => {
                    partition.isr.contains(&id) || partition.elr.contains(&id)
                }
                BrokerEvent::Returns(_) => partition.leader.is_none(),
            };
            if !touched {
                continue;
            }
            let (min_isr, unclean_election) = *configs.get_or_insert_with(|| {
                (context.min_isr(topic.name()), context.unclean_election(topic.name()))
            });
            let change = PartitionChange {
                topic: topic.id(),
                index,
                partition,
                acceptable: |id| acceptable(context, event, partition, id),
                remove: match event {
                    BrokerEvent::Leaves(id) => Some(id),
                    _ => None,
                },
                unclean_shutdown: match event {
                    BrokerEvent::UncleanShutdown(id) => Some(id),
                    _ => None,
                },
                elr_enabled: context.elr_enabled(),
                min_isr,
                unclean_election,
            };
            records.extend(change.build().map(MetadataRecord::PartitionChange));
        }
    }
}

/// Whether a broker may lead a partition once the event has happened.
fn acceptable(
    context: &Context<'_>,
    event: BrokerEvent,
    partition: &PartitionImage,
    id: BrokerId,
) -> bool {
    let alive = match event {
        BrokerEvent::Leaves(gone) | BrokerEvent::UncleanShutdown(gone) if gone == id => false,
        BrokerEvent::Returns(back) if back == id => true,
        _ => context.is_active(id),
    };
    alive && directory_online(context, partition, id)
}

/// Whether the replica's directory is one that its broker has online (or is not known yet).
fn directory_online(context: &Context<'_>, partition: &PartitionImage, id: BrokerId) -> bool {
    let Some(broker) = context.image.broker(id) else { return false };
    match partition.directory(id) {
        Some(DIRECTORY_LOST) => false,
        // Kafka keeps two reserved ids for what is unknown; both count as online.
        Some(directory) if directory.0.as_u128() < 100 => true,
        Some(directory) => broker.log_dirs.is_empty() || broker.log_dirs.contains(&directory),
        None => false,
    }
}

#[cfg(test)]
#[path = "partitions_tests.rs"]
mod tests;
