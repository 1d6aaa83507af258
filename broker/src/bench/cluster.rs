//! The topic of a load and the brokers that lead its partitions.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteTopicsRequest, ListOffsetsRequest, MetadataRequest,
    TopicName,
};
use protocol_compat::ErrorCode;

use super::TopicArgs;
use super::frames::{FETCH_VERSION, FrameSet, PRODUCE_VERSION};
use crate::cli::CliError;
use crate::cli::client::{Client, name_of, text};

/// How long a topic may take to have leaders.
const LEADERS_WITHIN: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(60);

/// A topic that a load uses.
pub(super) struct Topic {
    pub(super) name: String,
    bootstrap: String,
    is_own: bool,
    leaders: BTreeMap<SocketAddr, Vec<i32>>,
}

/// The first address of a bootstrap list that can be resolved.
pub(super) fn first_address(bootstrap: &str) -> Result<SocketAddr, CliError> {
    bootstrap
        .split(',')
        .find_map(|item| item.trim().to_socket_addrs().ok()?.next())
        .ok_or_else(|| CliError::Usage(format!("{bootstrap}: expected HOST:PORT")))
}

impl Topic {
    /// Makes the topic where it is not there, and waits until all its partitions have leaders.
    pub(super) fn open(
        bootstrap: &str,
        args: &TopicArgs,
        partitions: i32,
    ) -> Result<Self, CliError> {
        let mut client = Client::connect(bootstrap, TIMEOUT)?;
        client.version(0, PRODUCE_VERSION, PRODUCE_VERSION)?;
        client.version(1, FETCH_VERSION, FETCH_VERSION)?;
        let name = args.topic.clone().unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            format!("kelda-bench-{}-{}", std::process::id(), now.as_millis() % 1_000_000)
        });
        create(&mut client, &name, partitions.max(1), &args.topic_config)?;
        let leaders = leaders(&mut client, &name)?;
        for (address, partitions) in &leaders {
            wait_until_led(*address, &name, partitions)?;
        }
        Ok(Self { name, bootstrap: bootstrap.to_owned(), is_own: args.topic.is_none(), leaders })
    }

    /// Partitions of the topic.
    pub(super) fn partition_count(&self) -> usize {
        self.leaders.values().map(Vec::len).sum()
    }

    /// What to send to each broker, by the partitions that it leads.
    pub(super) fn each_leader(
        &self,
        mut make: impl FnMut(&[i32]) -> Result<FrameSet, CliError>,
    ) -> Result<Vec<(SocketAddr, Arc<FrameSet>)>, CliError> {
        self.leaders
            .iter()
            .map(|(address, partitions)| Ok((*address, Arc::new(make(partitions)?))))
            .collect()
    }

    /// Deletes the topic if it was made for this load.
    pub(super) fn close(self) -> Result<(), CliError> {
        if !self.is_own {
            return Ok(());
        }
        let mut client = Client::connect(&self.bootstrap, TIMEOUT)?;
        let name = TopicName(text(&self.name));
        let request = DeleteTopicsRequest::default().with_timeout_ms(30_000);
        if client.version(20, 6, 6).is_ok() {
            let state = DeleteTopicState::default().with_name(Some(name));
            client.call(&request.with_topics(vec![state]))?;
        } else {
            client.call(&request.with_topic_names(vec![name]))?;
        }
        Ok(())
    }
}

fn create(
    client: &mut Client,
    name: &str,
    partitions: i32,
    configs: &[String],
) -> Result<(), CliError> {
    let configs = configs
        .iter()
        .map(|item| {
            let (name, value) = item.split_once('=').ok_or_else(|| {
                CliError::Usage(format!("--topic-config {item}: expected NAME=VALUE"))
            })?;
            Ok(CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value))))
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    let topic = CreatableTopic::default()
        .with_name(TopicName(text(name)))
        .with_num_partitions(partitions)
        .with_replication_factor(1)
        .with_configs(configs);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(60_000);
    let answer = client.call(&request)?;
    let Some(result) = answer.topics.first() else { return Ok(()) };
    match ErrorCode::from_code(result.error_code) {
        Some(ErrorCode::None | ErrorCode::TopicAlreadyExists) => Ok(()),
        _ => Err(CliError::Failed(format!(
            "topic {name} cannot be made: {} {}",
            name_of(result.error_code),
            result.error_message.as_deref().unwrap_or_default(),
        ))),
    }
}

fn leaders(client: &mut Client, name: &str) -> Result<BTreeMap<SocketAddr, Vec<i32>>, CliError> {
    let wanted = MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![wanted]))
        .with_allow_auto_topic_creation(false);
    let deadline = Instant::now() + LEADERS_WITHIN;
    loop {
        let answer = client.call(&request)?;
        let mut leaders: BTreeMap<SocketAddr, Vec<i32>> = BTreeMap::new();
        let topic = answer.topics.first().filter(|topic| topic.error_code == 0);
        let partitions = topic.map(|topic| topic.partitions.as_slice()).unwrap_or_default();
        let mut is_whole = !partitions.is_empty();
        for partition in partitions {
            let broker = answer.brokers.iter().find(|broker| broker.node_id == partition.leader_id);
            let address = broker.filter(|_| partition.error_code == 0).and_then(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                (broker.host.as_str(), port).to_socket_addrs().ok()?.next()
            });
            match address {
                Some(address) => {
                    leaders.entry(address).or_default().push(partition.partition_index)
                }
                None => is_whole = false,
            }
        }
        if is_whole {
            leaders.values_mut().for_each(|partitions| partitions.sort_unstable());
            return Ok(leaders);
        }
        if Instant::now() > deadline {
            return Err(CliError::TimedOut(format!(
                "topic {name} has no leaders that can be reached"
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until all partitions of a topic have leaders that answer.
///
/// # Errors
/// They have none within a minute, or no broker can be reached.
pub fn wait_until_served(bootstrap: &str, name: &str) -> Result<(), CliError> {
    let mut client = Client::connect(bootstrap, TIMEOUT)?;
    for (address, partitions) in leaders(&mut client, name)? {
        wait_until_led(address, name, &partitions)?;
    }
    Ok(())
}

/// Waits until a broker has heard that it leads: the metadata may be ahead of it.
fn wait_until_led(address: SocketAddr, name: &str, partitions: &[i32]) -> Result<(), CliError> {
    let mut client = Client::connect(&address.to_string(), TIMEOUT)?;
    let latest = partitions.iter().map(|&index| {
        ListOffsetsPartition::default()
            .with_partition_index(index)
            .with_current_leader_epoch(-1)
            .with_timestamp(-1)
    });
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(text(name)))
        .with_partitions(latest.collect());
    let request =
        ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    let deadline = Instant::now() + LEADERS_WITHIN;
    loop {
        let answer = client.call_up_to(&request, 7)?;
        let error = answer
            .topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .map(|partition| partition.error_code)
            .find(|code| *code != 0);
        match error {
            None => return Ok(()),
            Some(code) if Instant::now() > deadline => {
                return Err(CliError::TimedOut(format!("topic {name}: {}", name_of(code))));
            }
            Some(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
