//! `kelda topic`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, MetadataRequest, TopicName,
};
use protocol_compat::ErrorCode;
use protocol_compat::ids::to_base64;

use super::CliError;
use super::client::{Client, name_of, text};

/// `source` of a topic's own config in DescribeConfigs answers.
const SOURCE_TOPIC: i8 = 1;

#[derive(Debug, Args)]
pub(super) struct Topic {
    #[command(subcommand)]
    action: Action,
    /// Brokers to ask, as HOST:PORT with commas between.
    #[arg(
        long,
        short = 'b',
        visible_alias = "bootstrap",
        env = "KAFKA_BOOTSTRAP_SERVERS",
        default_value = "localhost:9092",
        global = true
    )]
    bootstrap_server: String,
    /// Seconds to wait for an answer.
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a topic.
    Create {
        /// Its name.
        name: String,
        /// Partitions; the broker's default without.
        #[arg(long, short)]
        partitions: Option<i32>,
        /// Replicas; the broker's default without.
        #[arg(long, short)]
        replication_factor: Option<i16>,
        /// A config, such as retention.ms=60000. May be given several times.
        #[arg(long, short, value_name = "NAME=VALUE")]
        config: Vec<String>,
        /// Succeed where it is there already.
        #[arg(long)]
        if_not_exists: bool,
    },
    /// List the names of topics.
    List {
        /// Leave out those of Kafka's own.
        #[arg(long)]
        exclude_internal: bool,
    },
    /// Show partitions, replicas and configs.
    Describe {
        /// Topics to show; all without.
        names: Vec<String>,
    },
    /// Delete topics.
    Delete {
        /// Their names.
        #[arg(required = true)]
        names: Vec<String>,
        /// Succeed where they are not there.
        #[arg(long)]
        if_exists: bool,
    },
}

impl Topic {
    pub(super) fn run(self) -> Result<(), CliError> {
        let mut client =
            Client::connect(&self.bootstrap_server, Duration::from_secs(self.timeout))?;
        let timeout_ms = i32::try_from(self.timeout.saturating_mul(1000)).unwrap_or(i32::MAX);
        match self.action {
            Action::Create { name, partitions, replication_factor, config, if_not_exists } => {
                let topic = CreatableTopic::default()
                    .with_name(TopicName(text(&name)))
                    .with_num_partitions(partitions.unwrap_or(-1))
                    .with_replication_factor(replication_factor.unwrap_or(-1))
                    .with_configs(configs(&config)?);
                create(&mut client, topic, timeout_ms, if_not_exists)
            }
            Action::List { exclude_internal } => list(&mut client, exclude_internal),
            Action::Describe { names } => describe(&mut client, &names),
            Action::Delete { names, if_exists } => {
                delete(&mut client, &names, timeout_ms, if_exists)
            }
        }
    }
}

fn configs(given: &[String]) -> Result<Vec<CreatableTopicConfig>, CliError> {
    given
        .iter()
        .map(|item| {
            let (name, value) = item.split_once('=').ok_or_else(|| {
                CliError::Usage(format!(
                    "--config {item}: expected NAME=VALUE, such as retention.ms=60000"
                ))
            })?;
            Ok(CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value))))
        })
        .collect()
}

fn create(
    client: &mut Client,
    topic: CreatableTopic,
    timeout_ms: i32,
    if_not_exists: bool,
) -> Result<(), CliError> {
    let name = topic.name.to_string();
    let request =
        CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms);
    let answer = client.call(&request)?;
    let Some(result) = answer.topics.first() else {
        return Err(CliError::Failed(format!("topic {name}: the broker's answer is empty")));
    };
    match ErrorCode::from_code(result.error_code) {
        Some(ErrorCode::None) => {
            println!("created topic {name}");
            Ok(())
        }
        Some(ErrorCode::TopicAlreadyExists) if if_not_exists => Ok(()),
        _ => Err(CliError::Failed(format!(
            "topic {name}: {}{}",
            name_of(result.error_code),
            detail(result.error_message.as_deref()),
        ))),
    }
}

fn topics(client: &mut Client, names: &[String]) -> Result<Vec<MetadataResponseTopic>, CliError> {
    let wanted = names
        .iter()
        .map(|name| MetadataRequestTopic::default().with_name(Some(TopicName(text(name)))))
        .collect();
    let request = MetadataRequest::default()
        .with_topics(if names.is_empty() { None } else { Some(wanted) })
        .with_allow_auto_topic_creation(false);
    let mut found = client.call(&request)?.topics;
    found.sort_by_key(|topic| name(topic).to_owned());
    Ok(found)
}

fn name(topic: &MetadataResponseTopic) -> &str {
    topic.name.as_ref().map_or("", |name| name.as_str())
}

fn list(client: &mut Client, exclude_internal: bool) -> Result<(), CliError> {
    for topic in topics(client, &[])? {
        if !(exclude_internal && topic.is_internal) {
            println!("{}", name(&topic));
        }
    }
    Ok(())
}

fn describe(client: &mut Client, names: &[String]) -> Result<(), CliError> {
    let found = topics(client, names)?;
    let mut missing = None;
    let known: Vec<_> = found
        .iter()
        .filter(|topic| {
            if topic.error_code != 0 {
                missing = Some(name(topic).to_owned());
            }
            topic.error_code == 0
        })
        .collect();
    let configs = overrides(client, &known)?;
    for topic in known {
        let replicas =
            topic.partitions.first().map_or(0, |partition| partition.replica_nodes.len());
        println!(
            "{}  id {}  partitions {}  replicas {replicas}  configs {}",
            name(topic),
            to_base64(topic.topic_id),
            topic.partitions.len(),
            configs.get(name(topic)).map_or("-", String::as_str),
        );
        let mut partitions: Vec<_> = topic.partitions.iter().collect();
        partitions.sort_by_key(|partition| partition.partition_index);
        for partition in partitions {
            let ids = |nodes: &[kafka_protocol::messages::BrokerId]| {
                nodes.iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(",")
            };
            println!(
                "  {}  leader {}  epoch {}  replicas {}  isr {}",
                partition.partition_index,
                partition.leader_id.0,
                partition.leader_epoch,
                ids(&partition.replica_nodes),
                ids(&partition.isr_nodes),
            );
        }
    }
    match missing {
        Some(missing) => Err(not_found(client, &missing)),
        None => Ok(()),
    }
}

/// The configs that topics have of their own, as `name=value,...`.
fn overrides(
    client: &mut Client,
    topics: &[&MetadataResponseTopic],
) -> Result<BTreeMap<String, String>, CliError> {
    if topics.is_empty() {
        return Ok(BTreeMap::new());
    }
    let resources = topics
        .iter()
        .map(|topic| {
            DescribeConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text(name(topic)))
                .with_configuration_keys(None)
        })
        .collect();
    let answer = client.call(&DescribeConfigsRequest::default().with_resources(resources))?;
    Ok(answer
        .results
        .iter()
        .map(|result| {
            let own: Vec<_> = result
                .configs
                .iter()
                .filter(|config| config.config_source == SOURCE_TOPIC)
                .map(|config| {
                    format!(
                        "{}={}",
                        config.name.as_str(),
                        config.value.as_deref().unwrap_or_default()
                    )
                })
                .collect();
            let own = if own.is_empty() { "-".to_owned() } else { own.join(",") };
            (result.resource_name.to_string(), own)
        })
        .collect())
}

fn delete(
    client: &mut Client,
    names: &[String],
    timeout_ms: i32,
    if_exists: bool,
) -> Result<(), CliError> {
    let states = names
        .iter()
        .map(|name| DeleteTopicState::default().with_name(Some(TopicName(text(name)))))
        .collect();
    // Version 6 has one field where older ones have another.
    let request = DeleteTopicsRequest::default().with_timeout_ms(timeout_ms).with_topics(states);
    let answer = if client.version(20, 6, 6).is_ok() {
        client.call(&request)?
    } else {
        let names = names.iter().map(|name| TopicName(text(name))).collect();
        client.call(&request.with_topics(Vec::new()).with_topic_names(names))?
    };
    let mut failure = None;
    for result in &answer.responses {
        let name = result.name.as_ref().map_or("", |name| name.as_str());
        match ErrorCode::from_code(result.error_code) {
            Some(ErrorCode::None) => println!("deleted topic {name}"),
            Some(ErrorCode::UnknownTopicOrPartition) if if_exists => {}
            Some(ErrorCode::UnknownTopicOrPartition) => {
                failure = Some(not_found(client, name));
            }
            _ => {
                failure = Some(CliError::Failed(format!(
                    "topic {name}: {}{}",
                    name_of(result.error_code),
                    detail(result.error_message.as_deref()),
                )));
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

fn detail(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(": {message}"))
}

/// Says that a topic is not there, and which name is near.
fn not_found(client: &mut Client, wanted: &str) -> CliError {
    let names = topics(client, &[]).unwrap_or_default();
    let near = names.iter().map(name).find(|known| {
        known.eq_ignore_ascii_case(wanted) || known.contains(wanted) || wanted.contains(known)
    });
    let near = near.map_or_else(
        || "; `kelda topic list` shows those that are there".to_owned(),
        |near| format!("; nearest: {near}"),
    );
    CliError::NotFound(format!("topic {wanted} not found{near}"))
}
