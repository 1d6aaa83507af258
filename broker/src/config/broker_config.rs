//! What the broker uses, typed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use controller::QuorumConfig;
use protocol_compat::compression::{Codec, Compression};
use protocol_compat::ids::{BrokerId, from_base64};
use storage::log::Durability;

use super::error::{ConfigError, Origin, Problem};
use super::listener::{self, Listener, SecurityProtocol};
pub use storage::disk::EngineSetting;

use super::settings::Settings;
use super::topic::TopicConfig;
use crate::coordinator::group::GroupConfig;

/// What the broker uses. Kafka's names in the docs of the fields; none of these changes while the broker runs.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// `node.id`, or `broker.id`.
    pub node_id: BrokerId,
    /// `kelda.cluster.id`: refuse directories of other clusters, format empty ones for this one.
    pub cluster_id: Option<String>,
    /// `log.dirs`, or `log.dir`.
    pub log_dirs: Vec<PathBuf>,
    /// `metadata.log.dir`.
    pub metadata_log_dir: Option<PathBuf>,
    /// `listeners`, those of the controller too.
    pub listeners: Vec<Listener>,
    /// `advertised.listeners`, or `listeners` with this machine's name in place of no host. Without those of the controller.
    pub advertised_listeners: Vec<Listener>,
    /// Whether `advertised.listeners` was set.
    pub has_advertised_listeners: bool,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `controller.listener.names`.
    pub controller_listener_names: Vec<String>,
    /// `controller.quorum.voters`, or a dynamic quorum without.
    pub quorum: QuorumConfig,
    /// `kelda.cores`.
    pub num_cores: Option<usize>,
    /// `kelda.pool.threads`.
    pub pool_threads: Option<usize>,
    /// `kelda.engine`.
    pub engine: EngineSetting,
    /// `kelda.durability`, the default of topics.
    pub durability: Durability,
    /// What a topic without overrides uses.
    pub topic_defaults: TopicConfig,
    /// `auto.create.topics.enable`.
    pub auto_create_topics_enable: bool,
    /// `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub default_replication_factor: i16,
    /// `message.max.bytes`.
    pub message_max_bytes: usize,
    /// `socket.request.max.bytes`.
    pub socket_request_max_bytes: usize,
    /// `socket.send.buffer.bytes`; `None` leaves it to the system.
    pub socket_send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves it to the system.
    pub socket_receive_buffer_bytes: Option<usize>,
    /// `socket.listen.backlog.size`.
    pub socket_listen_backlog_size: i32,
    /// `max.connections`; `usize::MAX` is no limit.
    pub max_connections: usize,
    /// `max.connections.per.ip`; `usize::MAX` is no limit.
    pub max_connections_per_ip: usize,
    /// `max.connections.per.ip.overrides`: address or host name to limit.
    pub max_connections_per_ip_overrides: BTreeMap<String, usize>,
    /// `connections.max.idle.ms`; below 0 in Kafka is never, here `Duration::MAX`.
    pub connections_max_idle: Duration,
    /// `queued.max.request.bytes`: bytes of requests that were read and not answered. Kafka's -1, no limit, is 256 MiB here.
    pub queued_max_bytes: usize,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: u32,
    /// `max.request.partition.size.limit`.
    pub max_request_partition_size_limit: usize,
    /// `max.incremental.fetch.session.cache.slots`.
    pub max_incremental_fetch_session_cache_slots: usize,
    /// `offsets.topic.num.partitions`.
    pub offsets_topic_num_partitions: i32,
    /// `offsets.topic.replication.factor`, as far as there are brokers: one.
    pub offsets_topic_replication_factor: i16,
    /// `offsets.topic.segment.bytes`.
    pub offsets_topic_segment_bytes: i32,
    /// `offsets.topic.compression.codec`.
    pub offsets_topic_compression: Compression,
    /// `offsets.load.buffer.size`.
    pub offsets_load_buffer_size: usize,
    /// `offsets.commit.timeout.ms`.
    pub offsets_commit_timeout: Duration,
    /// Classic groups.
    pub group: GroupConfig,
    /// `log.retention.check.interval.ms`.
    pub log_retention_check_interval_ms: u64,
    /// `log.flush.offset.checkpoint.interval.ms`.
    pub log_flush_offset_checkpoint_interval_ms: u64,
    /// `log.flush.start.offset.checkpoint.interval.ms`.
    pub log_flush_start_offset_checkpoint_interval_ms: u64,
    /// `replica.high.watermark.checkpoint.interval.ms`.
    pub replica_high_watermark_checkpoint_interval_ms: u64,
    /// `num.recovery.threads.per.data.dir`.
    pub num_recovery_threads_per_data_dir: usize,
    /// `broker.heartbeat.interval.ms`.
    pub broker_heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`.
    pub broker_session_timeout_ms: u64,
    /// `metadata.max.idle.interval.ms`.
    pub metadata_max_idle_interval_ms: u64,
    /// `metadata.log.max.record.bytes.between.snapshots`.
    pub metadata_snapshot_bytes_between: u64,
    /// `metadata.log.max.snapshot.interval.ms`.
    pub metadata_snapshot_interval_ms: u64,
    /// `metadata.log.segment.bytes`.
    pub metadata_log_segment_bytes: u64,
    /// `metadata.log.segment.ms`.
    pub metadata_log_segment_ms: u64,
    /// `metadata.max.retention.bytes`.
    pub metadata_max_retention_bytes: i64,
    /// `metadata.max.retention.ms`.
    pub metadata_max_retention_ms: i64,
    /// All values with their origins.
    pub settings: Arc<Settings>,
}

impl Default for BrokerConfig {
    /// A single node on every address, port 9092, with its data in `./kelda-data`.
    fn default() -> Self {
        Self::of(Settings::default()).expect("the defaults are valid")
    }
}

impl BrokerConfig {
    /// Reads a `server.properties`, the environment and overrides, weakest first.
    ///
    /// # Errors
    /// The file cannot be read, or values are wrong: then all of them are named.
    pub fn load(file: Option<&Path>, overrides: &[String]) -> Result<Self, ConfigError> {
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self::of(Settings::load(file, environment, overrides)?)
    }

    /// Types what the settings say.
    ///
    /// # Errors
    /// Values that contradict each other, or that this release cannot honour.
    pub fn of(settings: Settings) -> Result<Self, ConfigError> {
        let mut reader = Reader { settings: &settings, problems: Vec::new() };
        let network = reader.network();
        let node_id = reader.node_id();
        let quorum = reader.quorum(node_id);
        let cluster_id = reader.cluster_id();
        reader.roles();
        if !reader.problems.is_empty() {
            return Err(ConfigError::Invalid(reader.problems));
        }
        let read = Typed(&settings);
        let log_dirs =
            if settings.explicit_value("log.dirs").is_some() { "log.dirs" } else { "log.dir" };
        let optional_path =
            |name| settings.get(name).filter(|text| !text.is_empty()).map(PathBuf::from);
        let optional_count =
            |name| settings.optional_int(name).and_then(|n| usize::try_from(n).ok());
        let topic_defaults = TopicConfig::of_settings(&settings);
        Ok(Self {
            node_id,
            cluster_id,
            log_dirs: settings.list(log_dirs).map(PathBuf::from).collect(),
            metadata_log_dir: optional_path("metadata.log.dir"),
            listeners: network.listeners,
            advertised_listeners: network.advertised,
            has_advertised_listeners: network.is_advertised,
            rack: Some(settings.text("broker.rack"))
                .filter(|rack| !rack.is_empty())
                .map(str::to_owned),
            controller_listener_names: network.controller_names,
            quorum,
            num_cores: optional_count("kelda.cores"),
            pool_threads: optional_count("kelda.pool.threads"),
            engine: match settings.text("kelda.engine") {
                "uring" => EngineSetting::Uring,
                "plain" => EngineSetting::Plain,
                _ => EngineSetting::Auto,
            },
            durability: topic_defaults.log.durability,
            topic_defaults,
            auto_create_topics_enable: settings.flag("auto.create.topics.enable"),
            delete_topic_enable: settings.flag("delete.topic.enable"),
            num_partitions: read.int("num.partitions"),
            default_replication_factor: read.short("default.replication.factor"),
            message_max_bytes: read.size("message.max.bytes"),
            socket_request_max_bytes: read.size("socket.request.max.bytes"),
            socket_send_buffer_bytes: optional_count("socket.send.buffer.bytes"),
            socket_receive_buffer_bytes: optional_count("socket.receive.buffer.bytes"),
            socket_listen_backlog_size: read.int("socket.listen.backlog.size"),
            max_connections: read.limit("max.connections"),
            max_connections_per_ip: read.limit("max.connections.per.ip"),
            max_connections_per_ip_overrides: settings
                .list("max.connections.per.ip.overrides")
                .filter_map(|item| item.rsplit_once(':'))
                .filter_map(|(host, limit)| {
                    Some((host.trim().to_owned(), limit.trim().parse().ok()?))
                })
                .collect(),
            connections_max_idle: u64::try_from(settings.int("connections.max.idle.ms"))
                .map_or(Duration::MAX, Duration::from_millis),
            queued_max_bytes: optional_count("queued.max.request.bytes").unwrap_or(256 << 20),
            fetch_max_bytes: u32::try_from(settings.int("fetch.max.bytes")).unwrap_or(u32::MAX),
            max_request_partition_size_limit: read.size("max.request.partition.size.limit"),
            max_incremental_fetch_session_cache_slots: read
                .size("max.incremental.fetch.session.cache.slots"),
            offsets_topic_num_partitions: read.int("offsets.topic.num.partitions"),
            // Kafka's default of 3 would leave a single node without groups.
            offsets_topic_replication_factor: read.short("offsets.topic.replication.factor").min(1),
            offsets_topic_segment_bytes: read.int("offsets.topic.segment.bytes"),
            offsets_topic_compression: u8::try_from(
                settings.int("offsets.topic.compression.codec"),
            )
            .ok()
            .and_then(Codec::from_id)
            .unwrap_or(Codec::None)
            .into(),
            offsets_load_buffer_size: read.size("offsets.load.buffer.size"),
            offsets_commit_timeout: read.millis("offsets.commit.timeout.ms"),
            group: read.group(),
            log_retention_check_interval_ms: read.unsigned("log.retention.check.interval.ms"),
            log_flush_offset_checkpoint_interval_ms: read
                .unsigned("log.flush.offset.checkpoint.interval.ms"),
            log_flush_start_offset_checkpoint_interval_ms: read
                .unsigned("log.flush.start.offset.checkpoint.interval.ms"),
            replica_high_watermark_checkpoint_interval_ms: read
                .unsigned("replica.high.watermark.checkpoint.interval.ms"),
            num_recovery_threads_per_data_dir: read.size("num.recovery.threads.per.data.dir"),
            broker_heartbeat_interval: read.millis("broker.heartbeat.interval.ms"),
            broker_session_timeout_ms: read.unsigned("broker.session.timeout.ms"),
            metadata_max_idle_interval_ms: read.unsigned("metadata.max.idle.interval.ms"),
            metadata_snapshot_bytes_between: read
                .unsigned("metadata.log.max.record.bytes.between.snapshots"),
            metadata_snapshot_interval_ms: read.unsigned("metadata.log.max.snapshot.interval.ms"),
            metadata_log_segment_bytes: read.unsigned("metadata.log.segment.bytes"),
            metadata_log_segment_ms: read.unsigned("metadata.log.segment.ms"),
            metadata_max_retention_bytes: settings.int("metadata.max.retention.bytes"),
            metadata_max_retention_ms: settings.int("metadata.max.retention.ms"),
            settings: Arc::new(settings),
        })
    }
}

/// Numbers whose bounds the table keeps; where Kafka keeps none, a negative one counts as 0.
struct Typed<'a>(&'a Settings);

impl Typed<'_> {
    fn int(&self, name: &str) -> i32 {
        i32::try_from(self.0.int(name)).unwrap_or(i32::MAX)
    }

    fn short(&self, name: &str) -> i16 {
        i16::try_from(self.0.int(name)).unwrap_or(i16::MAX)
    }

    fn unsigned(&self, name: &str) -> u64 {
        u64::try_from(self.0.int(name)).unwrap_or(0)
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.0.int(name)).unwrap_or(0)
    }

    /// Kafka's default for these, 2^31 - 1, means no limit.
    fn limit(&self, name: &str) -> usize {
        match self.size(name) {
            limit if limit >= 2_147_483_647 => usize::MAX,
            limit => limit,
        }
    }

    fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.unsigned(name))
    }

    fn group(&self) -> GroupConfig {
        GroupConfig {
            session_timeout_min: self.millis("group.min.session.timeout.ms"),
            session_timeout_max: self.millis("group.max.session.timeout.ms"),
            initial_rebalance_delay: self.millis("group.initial.rebalance.delay.ms"),
            size_max: self.size("group.max.size"),
            offset_metadata_max: self.size("offset.metadata.max.bytes"),
            offsets_retention: Duration::from_secs(
                self.unsigned("offsets.retention.minutes").saturating_mul(60),
            ),
            offsets_retention_check_interval: self.millis("offsets.retention.check.interval.ms"),
            groups_max: self.size("kelda.group.groups.max"),
            members_max: self.size("kelda.group.members.max"),
            ..GroupConfig::default()
        }
    }
}

/// Reads what is more than one value, and notes what is wrong.
struct Reader<'a> {
    settings: &'a Settings,
    problems: Vec<Problem>,
}

#[derive(Default)]
struct Network {
    listeners: Vec<Listener>,
    advertised: Vec<Listener>,
    is_advertised: bool,
    controller_names: Vec<String>,
}

impl Reader<'_> {
    fn refuse(&mut self, name: &str, valid: impl Into<String>) {
        self.problems.push(self.settings.problem(name, valid));
    }

    fn node_id(&mut self) -> BrokerId {
        let old = self.settings.explicit_value("broker.id").map(|_| self.settings.int("broker.id"));
        let new = self.settings.explicit_value("node.id").map(|_| self.settings.int("node.id"));
        match (new, old) {
            (Some(new), Some(old)) if new != old => {
                self.refuse(
                    "broker.id",
                    format!("node.id is {new}: leave broker.id out, or give both one value"),
                );
            }
            (None, Some(old)) if old < 0 => {
                self.refuse("broker.id", "expected a number of at least 0")
            }
            _ => {}
        }
        let id = new.or(old).unwrap_or_else(|| self.settings.int("node.id"));
        BrokerId(i32::try_from(id).unwrap_or(0))
    }

    fn cluster_id(&mut self) -> Option<String> {
        let id = self.settings.get("kelda.cluster.id")?.trim().to_owned();
        if let Err(error) = from_base64(&id) {
            self.refuse("kelda.cluster.id", error.to_string());
        }
        Some(id)
    }

    fn roles(&mut self) {
        let roles: Vec<_> = self.settings.list("process.roles").collect();
        if !(roles.contains(&"broker") && roles.contains(&"controller")) {
            self.refuse(
                "process.roles",
                "this release runs single nodes: valid is broker,controller",
            );
        }
        for name in ["log.dirs", "log.dir"] {
            if self.settings.explicit_value(name).is_some()
                && self.settings.list(name).next().is_none()
            {
                self.refuse(name, "expected a directory, or several with commas between");
            }
        }
        let (min, max) = ("group.min.session.timeout.ms", "group.max.session.timeout.ms");
        if self.settings.int(min) > self.settings.int(max) {
            self.refuse(min, format!("expected at most {max}, {}", self.settings.int(max)));
        }
        if !matches!(self.settings.int("offsets.topic.compression.codec"), 0..=4) {
            self.refuse(
                "offsets.topic.compression.codec",
                "expected 0 none, 1 gzip, 2 snappy, 3 lz4 or 4 zstd",
            );
        }
    }

    fn quorum(&mut self, node_id: BrokerId) -> QuorumConfig {
        const NAME: &str = "controller.quorum.voters";
        let mut voters = Vec::new();
        let mut problems = Vec::new();
        for item in self.settings.list(NAME) {
            match voter(item) {
                Some(voter) => voters.push(voter),
                None => problems.push(format!("{item} is not ID@HOST:PORT")),
            }
        }
        for problem in problems {
            self.refuse(NAME, problem);
        }
        if voters.is_empty() {
            return QuorumConfig::Dynamic;
        }
        if voters.len() > 1 {
            self.refuse(NAME, "this release runs single nodes: one voter, this node");
        } else if voters[0].0 != node_id {
            self.refuse(NAME, format!("the voter must be this node, node.id {node_id}"));
        }
        QuorumConfig::Static(voters)
    }

    fn network(&mut self) -> Network {
        let controller_names: Vec<String> =
            self.settings.list("controller.listener.names").map(str::to_ascii_uppercase).collect();
        let mut map =
            match listener::parse_map(self.settings.text("listener.security.protocol.map")) {
                Ok(map) => map,
                Err(error) => {
                    self.refuse("listener.security.protocol.map", error);
                    return Network::default();
                }
            };
        if self.settings.explicit_value("listener.security.protocol.map").is_none() {
            for name in &controller_names {
                map.entry(name.clone()).or_insert(SecurityProtocol::Plaintext);
            }
        }
        let listeners = match self.listeners(&map) {
            Ok(listeners) => listeners,
            Err(error) => {
                self.refuse("listeners", error);
                return Network::default();
            }
        };
        for (at, one) in listeners.iter().enumerate() {
            let same = |other: &Listener| {
                other.port == one.port && (other.host == one.host || one.host.is_empty())
            };
            if one.port != 0 && listeners[at + 1..].iter().any(same) {
                self.refuse("listeners", format!("port {} stands there twice", one.port));
            }
            if one.security_protocol != SecurityProtocol::Plaintext {
                self.refuse(
                    "listeners",
                    format!(
                        "{} is {}: this release serves PLAINTEXT only",
                        one.name,
                        one.security_protocol.name()
                    ),
                );
            }
        }
        let is_controller = |listener: &Listener| controller_names.contains(&listener.name);
        if listeners.iter().all(is_controller) {
            self.refuse(
                "listeners",
                "all are named in controller.listener.names: clients need one more",
            );
        }
        let advertised = self.advertised(&listeners, &map);
        let is_advertised = advertised.is_some();
        let mut advertised = advertised.unwrap_or_else(|| listeners.clone());
        advertised.retain(|listener| !is_controller(listener));
        for listener in &mut advertised {
            if matches!(listener.host.as_str(), "" | "0.0.0.0" | "::") {
                listener.host = host_name();
            }
        }
        let inter_broker = self.settings.text("inter.broker.listener.name").to_ascii_uppercase();
        if !inter_broker.is_empty()
            && !advertised.iter().any(|listener| listener.name == inter_broker)
        {
            self.refuse(
                "inter.broker.listener.name",
                "no such name in advertised.listeners or listeners",
            );
        }
        Network { listeners, advertised, is_advertised, controller_names }
    }

    fn listeners(&self, map: &BTreeMap<String, SecurityProtocol>) -> Result<Vec<Listener>, String> {
        let advertised = self.settings.iter().find(|(name, _)| *name == "advertised.listeners");
        if self.settings.explicit_value("listeners").is_none()
            && let Some((_, setting)) = advertised
            && matches!(setting.origin, Origin::Environment(_))
        {
            // Kafka's image listens on the ports that its environment advertises, on every address, and compose files
            // count on it.
            let mut listeners = listener::parse_list(&setting.value, map)?;
            listeners.iter_mut().for_each(|listener| listener.host.clear());
            return Ok(listeners);
        }
        listener::parse_list(self.settings.text("listeners"), map)
    }

    fn advertised(
        &mut self,
        listeners: &[Listener],
        map: &BTreeMap<String, SecurityProtocol>,
    ) -> Option<Vec<Listener>> {
        const NAME: &str = "advertised.listeners";
        let text = self.settings.explicit_value(NAME).filter(|text| !text.trim().is_empty())?;
        match listener::parse_list(text, map) {
            Ok(advertised) => {
                for one in &advertised {
                    if !listeners.iter().any(|listener| listener.name == one.name) {
                        self.refuse(NAME, format!("listeners has no {}", one.name));
                    }
                    if matches!(one.host.as_str(), "0.0.0.0" | "::") {
                        self.refuse(
                            NAME,
                            format!("clients cannot connect to {}: name this machine", one.host),
                        );
                    }
                }
                Some(advertised)
            }
            Err(error) => {
                self.refuse(NAME, error);
                None
            }
        }
    }
}

fn voter(item: &str) -> Option<(BrokerId, String, u16)> {
    let (id, address) = item.split_once('@')?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((BrokerId(id.trim().parse().ok()?), host.to_owned(), port.trim().parse().ok()?))
}

/// This machine's name, for clients that cannot be told the address that they came by.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(values: &[&str]) -> Result<BrokerConfig, String> {
        let values: Vec<_> = values.iter().map(|text| (*text).to_owned()).collect();
        let settings = Settings::load(None, [], &values).map_err(|error| error.to_string())?;
        BrokerConfig::of(settings).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_is_a_node_that_serves() {
        let config = BrokerConfig::default();
        assert_eq!(config.node_id, BrokerId(1));
        assert_eq!(config.log_dirs, [PathBuf::from("kelda-data")]);
        assert_eq!(config.listeners.len(), 1);
        assert_eq!(config.listeners[0].port, 9092);
        assert!(!config.has_advertised_listeners);
        assert!(!config.advertised_listeners[0].host.is_empty());
        assert_eq!(config.quorum, QuorumConfig::Dynamic);
        assert_eq!(config.group, GroupConfig::default());
        assert_eq!(config.durability, Durability::Fsync);
        assert_eq!(config.max_connections, usize::MAX);
        assert_eq!(config.offsets_topic_replication_factor, 1);
        assert_eq!(config.connections_max_idle, Duration::from_secs(600));
    }

    #[test]
    fn a_single_nodes_file_of_kafka_is_read() {
        let config = load(&[
            "process.roles=broker,controller",
            "broker.id=3",
            "controller.quorum.voters=3@localhost:9093",
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "advertised.listeners=PLAINTEXT://example.org:19092,CONTROLLER://example.org:9093",
            "controller.listener.names=CONTROLLER",
            "inter.broker.listener.name=PLAINTEXT",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs=/a, /b",
            "broker.rack=r1",
            "queued.max.request.bytes=5",
        ])
        .expect("fine");
        assert_eq!(config.node_id, BrokerId(3));
        assert_eq!(
            config.quorum,
            QuorumConfig::Static(vec![(BrokerId(3), "localhost".into(), 9093)])
        );
        assert_eq!(config.log_dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(config.advertised_listeners.len(), 1);
        assert_eq!(config.advertised_listeners[0].port, 19092);
        assert_eq!(config.rack.as_deref(), Some("r1"));
        assert_eq!(config.queued_max_bytes, 5);
    }

    #[test]
    fn what_the_environment_advertises_is_listened_on() {
        let variable = |value: &str| [("KAFKA_ADVERTISED_LISTENERS".to_owned(), value.to_owned())];
        let settings =
            Settings::load(None, variable("PLAINTEXT://broker:19092"), &[]).expect("fine");
        let config = BrokerConfig::of(settings).expect("fine");
        assert_eq!((config.listeners[0].host.as_str(), config.listeners[0].port), ("", 19092));
        assert_eq!(config.advertised_listeners[0].host, "broker");
        let listens = ["listeners=PLAINTEXT://:9092".to_owned()];
        let settings =
            Settings::load(None, variable("PLAINTEXT://broker:19092"), &listens).expect("fine");
        assert_eq!(BrokerConfig::of(settings).expect("fine").listeners[0].port, 9092);
    }

    #[test]
    fn contradictions_are_named() {
        for (values, part) in [
            (&["node.id=1", "broker.id=2"][..], "broker.id=2: node.id is 1"),
            (&["process.roles=broker"], "broker,controller"),
            (&["controller.quorum.voters=2@h:1"], "must be this node"),
            (&["controller.quorum.voters=1@h:1,2@h:2"], "one voter"),
            (&["controller.quorum.voters=h:1"], "ID@HOST:PORT"),
            (&["listeners=SSL://:9092"], "PLAINTEXT only"),
            (&["listeners=A://:9092"], "A:PLAINTEXT"),
            (&["listeners=CONTROLLER://:9093"], "clients need one more"),
            (&["listeners=PLAINTEXT://:9092,CONTROLLER://:9092"], "twice"),
            (
                &[
                    "advertised.listeners=OTHER://h:1",
                    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
                ],
                "has no OTHER",
            ),
            (&["advertised.listeners=PLAINTEXT://0.0.0.0:1"], "name this machine"),
            (&["inter.broker.listener.name=X"], "no such name"),
            (&["kelda.cluster.id=x"], "22 characters"),
            (&["log.dirs="], "expected a directory"),
            (
                &["group.min.session.timeout.ms=2000000"],
                "at most group.max.session.timeout.ms, 1800000",
            ),
            (&["kelda.durability=none"], "fsync, page-cache"),
        ] {
            let error = load(values).expect_err(part);
            assert!(error.contains(part), "{values:?}: {error}");
        }
    }
}
