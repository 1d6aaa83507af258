//! The whole controller on a log in memory.

use std::path::Path;
use std::sync::Mutex;

use kafka_protocol::messages::broker_registration_request::Feature;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{self, TopicName};
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;
use protocol_compat::ids::{PartitionIndex, Uuid};
use storage::disk::plain::PlainFs;

use super::*;
use crate::bootstrap::{BootstrapConfig, METADATA_DIR, prepare};
use crate::raft::log_port::LogPort;
use crate::raft::memory_log::MemoryLog;

/// A formatted directory, its log, and what was published.
struct Bed {
    dir: tempfile::TempDir,
    log: MemoryLog,
    published: Arc<Mutex<Vec<(i64, MetadataDelta)>>>,
    runtime: tokio::runtime::Runtime,
    quorum: QuorumConfig,
}

impl Bed {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a directory"),
            log: MemoryLog::default(),
            published: Arc::default(),
            runtime: tokio::runtime::Builder::new_current_thread().build().expect("a runtime"),
            quorum: QuorumConfig::Dynamic,
        }
    }

    fn config(&self) -> ControllerConfig {
        let endpoint = Endpoint {
            name: "CONTROLLER".into(),
            host: "127.0.0.1".into(),
            port: 9093,
            security_protocol: 0,
        };
        let identity = prepare(
            &BootstrapConfig {
                node_id: BrokerId(1),
                cluster_id: Some("5L6g3nShT-eMCtK--X86sw".into()),
                log_dirs: vec![self.dir.path().to_owned()],
                metadata_log_dir: None,
                quorum: self.quorum.clone(),
                controller_endpoints: vec![endpoint.clone()],
            },
            &PlainFs::new(),
        )
        .expect("a formatted directory");
        let mut config = ControllerConfig::new(
            BrokerId(1),
            identity.cluster_id,
            identity.metadata.0,
            identity.metadata.1,
        );
        config.quorum = self.quorum.clone();
        config.controller_endpoints = vec![endpoint];
        // Nothing happens by itself, so that offsets are known.
        config.max_idle_interval_ms = 0;
        config
    }

    fn start_with(&self, config: ControllerConfig) -> Result<ControllerHandle, ControllerError> {
        let published = Arc::clone(&self.published);
        let log = self.log.clone();
        Controller::start_on(
            config,
            Arc::new(PlainFs::new()),
            move |image, delta| {
                let entry = (image.offset().0, delta.as_ref().clone());
                published.lock().expect("not poisoned").push(entry);
            },
            Box::new(move |_, _, _| Ok(Box::new(log) as Box<dyn LogPort>)),
        )
    }

    fn start(&self) -> ControllerHandle {
        self.start_with(self.config()).expect("a controller")
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn last_published(&self) -> (i64, MetadataDelta) {
        self.published.lock().expect("not poisoned").last().cloned().expect("something")
    }

    /// Registers and unfences the broker of this node; its epoch.
    fn join(&self, handle: &ControllerHandle, previous_epoch: i64) -> i64 {
        let response = self.run(handle.register_broker(registration(previous_epoch)));
        assert_eq!(response.error_code, 0);
        let heartbeat = BrokerHeartbeatRequest::default()
            .with_broker_id(messages::BrokerId(1))
            .with_broker_epoch(response.broker_epoch)
            .with_current_metadata_offset(handle.image().offset().0);
        let beat = self.run(handle.broker_heartbeat(heartbeat));
        assert_eq!((beat.error_code, beat.is_caught_up, beat.is_fenced), (0, true, false));
        response.broker_epoch
    }
}

fn registration(previous_epoch: i64) -> BrokerRegistrationRequest {
    let feature = |name: &'static str, min, max| {
        Feature::default()
            .with_name(StrBytes::from_static_str(name))
            .with_min_supported_version(min)
            .with_max_supported_version(max)
    };
    BrokerRegistrationRequest::default()
        .with_broker_id(messages::BrokerId(1))
        .with_cluster_id(StrBytes::from_static_str("5L6g3nShT-eMCtK--X86sw"))
        .with_incarnation_id(Uuid::new_v4())
        .with_features(vec![
            feature("metadata.version", 7, 33),
            feature("kraft.version", 0, 1),
            feature("transaction.version", 0, 2),
            feature("group.version", 0, 1),
            feature("eligible.leader.replicas.version", 0, 1),
            feature("share.version", 0, 2),
            feature("streams.version", 0, 1),
        ])
        .with_rack(None)
        .with_log_dirs(vec![Uuid::from_u128(4_711)])
        .with_previous_broker_epoch(previous_epoch)
}

fn topic(name: &str, partitions: i32, configs: &[(&str, &str)]) -> CreatableTopic {
    let configs = configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string((*name).to_owned()))
            .with_value(Some(StrBytes::from_string((*value).to_owned())))
    });
    CreatableTopic::default()
        .with_name(TopicName(StrBytes::from_string(name.to_owned())))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
        .with_configs(configs.collect())
}

fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(1_000)
}

#[test]
fn new_cluster_has_the_features_of_kafka_and_a_first_whole_image() {
    let bed = Bed::new();
    let handle = bed.start();
    let image = handle.image();
    let features: Vec<_> = image.features().iter().map(|(n, l)| (n.to_owned(), l)).collect();
    let expected = [
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("kraft.version", 1),
        ("metadata.version", 33),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ];
    assert_eq!(features, expected.map(|(n, l)| (n.to_owned(), l)));
    // LeaderChange, KRaftVersion, Voters; Begin, six features, min.insync.replicas, End; RegisterController.
    assert_eq!(image.offset().0, 12);
    let (offset, delta) = bed.last_published();
    assert!(delta.from_start);
    assert_eq!(offset, 12);
    assert_eq!(bed.log.flushes(), 1, "one flush makes a new cluster");
    let state = std::fs::read_to_string(bed.dir.path().join(METADATA_DIR).join("quorum-state"));
    assert_eq!(
        state.expect("written"),
        r#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#
    );
}

#[test]
fn static_quorum_has_no_voters_in_its_log() {
    let mut bed = Bed::new();
    bed.quorum = QuorumConfig::Static(vec![(BrokerId(1), "127.0.0.1".into(), 9093)]);
    let handle = bed.start();
    assert_eq!(handle.image().features().level("kraft.version"), 0);
    assert_eq!(handle.image().offset().0, 10);
    let state = std::fs::read_to_string(bed.dir.path().join(METADATA_DIR).join("quorum-state"));
    assert_eq!(
        state.expect("written"),
        r#"{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#
    );
}

#[test]
fn topics_survive_a_restart() {
    let bed = Bed::new();
    let handle = bed.start();
    let epoch = bed.join(&handle, -1);
    let request = create(vec![topic("a", 3, &[("retention.ms", "77")]), topic("b", -1, &[])]);
    let response = bed.run(handle.create_topics(request));
    assert!(response.topics.iter().all(|topic| topic.error_code == 0), "{response:?}");
    let image = handle.image();
    let (_, delta) = bed.last_published();
    assert_eq!(delta.created_topics.len(), 2);
    let a = image.topics().by_name("a").expect("made");
    assert_eq!(a.id().0, response.topics[0].topic_id);
    let partition = a.partition(PartitionIndex(2)).expect("three");
    assert_eq!(partition.leader, Some(BrokerId(1)));
    assert_eq!(partition.directories[0].0, Uuid::from_u128(4_711));

    // The clean stop of the broker, then of the controller.
    let stop = BrokerHeartbeatRequest::default()
        .with_broker_id(messages::BrokerId(1))
        .with_broker_epoch(epoch)
        .with_want_shut_down(true);
    let beat = bed.run(handle.broker_heartbeat(stop.clone()));
    assert!(!beat.should_shut_down, "it leads partitions");
    let beat = bed.run(handle.broker_heartbeat(stop));
    assert!(beat.should_shut_down);
    let before = handle.image();
    let partition = before.topics().by_name("a").and_then(|a| a.partition(PartitionIndex(2)));
    assert_eq!(partition.map(|p| (p.leader, p.elr.len())), Some((None, 1)));
    bed.run(handle.shutdown());
    let refused = bed.run(handle.create_topics(create(vec![topic("c", 1, &[])])));
    assert_eq!(refused.topics[0].error_code, ErrorCode::NotController.code());

    let handle = bed.start();
    let image = handle.image();
    assert_eq!(image.topics(), before.topics());
    assert_eq!(image.configs(), before.configs());
    assert_eq!(image.provenance().epoch.0, 2);
    bed.join(&handle, epoch);
    let image = handle.image();
    let partition = image.topics().by_name("a").and_then(|a| a.partition(PartitionIndex(2)));
    let partition = partition.expect("still there");
    assert_eq!((partition.leader, partition.leader_epoch.0), (Some(BrokerId(1)), 2));
    assert!(partition.elr.is_empty());
}

#[test]
fn restart_without_a_clean_stop_lets_the_broker_in_at_once() {
    let bed = Bed::new();
    let handle = bed.start();
    bed.join(&handle, -1);
    bed.run(handle.create_topics(create(vec![topic("a", 1, &[])])));
    bed.run(handle.shutdown());
    let handle = bed.start();
    bed.join(&handle, -1);
    let image = handle.image();
    let partition = image.topics().by_name("a").and_then(|a| a.partition(PartitionIndex(0)));
    assert_eq!(partition.expect("there").leader, Some(BrokerId(1)));
    // And a second process of the same id is kept out while the first is alive.
    let second = bed.run(handle.register_broker(registration(-1)));
    assert_eq!(second.error_code, ErrorCode::DuplicateBrokerRegistration.code());
}

#[test]
fn what_was_not_flushed_was_not_answered() {
    let bed = Bed::new();
    let handle = bed.start();
    bed.join(&handle, -1);
    let published = bed.published.lock().expect("not poisoned").len();
    bed.log.fail_flushes(true);
    let response = bed.run(handle.create_topics(create(vec![topic("a", 1, &[])])));
    assert_eq!(response.topics[0].error_code, ErrorCode::NotController.code());
    assert_eq!(bed.published.lock().expect("not poisoned").len(), published);
    bed.run(handle.stopped());
    drop(handle);
    bed.log.fail_flushes(false);
    bed.log.crash();
    let handle = bed.start();
    assert!(handle.image().topics().is_empty());
}

#[test]
fn requests_are_decided_one_by_one() {
    let bed = Bed::new();
    let handle = bed.start();
    bed.join(&handle, -1);
    let request = create(vec![
        topic("a.b", 1, &[]),
        topic("a_c", 1, &[("nope", "1")]),
        topic("", 1, &[]),
        topic("dup", 1, &[]),
        topic("dup", 1, &[]),
        topic("__cluster_metadata", 1, &[]),
        topic("zero", 0, &[]),
    ]);
    let response = bed.run(handle.create_topics(request));
    let rows: Vec<_> = response
        .topics
        .iter()
        .map(|row| (row.name.as_str(), row.error_code, row.error_message.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(
        rows,
        [
            ("a.b", 0, ""),
            ("a_c", 40, "Unknown topic config name: nope"),
            ("", 17, "Topic name is invalid: the empty string is not allowed"),
            ("zero", 37, "Number of partitions was set to an invalid non-positive value."),
            ("dup", 42, "Duplicate topic name."),
            (
                "__cluster_metadata",
                42,
                "Creation of internal topic __cluster_metadata is prohibited."
            ),
        ]
    );
    assert_eq!(response.topics[0].configs.as_ref().map(Vec::len), Some(37));
    let response =
        bed.run(handle.create_topics(create(vec![topic("a_b", 1, &[]), topic("a.b", 1, &[])])));
    let rows: Vec<_> =
        response.topics.iter().map(|row| row.error_message.as_deref().unwrap_or("")).collect();
    assert_eq!(
        rows,
        ["Topic 'a_b' collides with existing topic: a.b", "Topic 'a.b' already exists."]
    );

    let offset = handle.image().offset();
    let validate = create(vec![topic("v", 2, &[])]).with_validate_only(true);
    let response = bed.run(handle.create_topics(validate));
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (0, 2));
    assert_eq!(handle.image().offset(), offset, "nothing was written");
}

#[test]
fn deletion_is_by_name_or_id() {
    let bed = Bed::new();
    let handle = bed.start();
    bed.join(&handle, -1);
    let made = bed.run(handle.create_topics(create(vec![
        topic("a", 1, &[("retention.ms", "5")]),
        topic("b", 1, &[]),
        topic("c", 1, &[]),
    ])));
    let by_name = |name: &str| {
        DeleteTopicState::default()
            .with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))))
    };
    let by_id = |id| DeleteTopicState::default().with_name(None).with_topic_id(id);
    let request = DeleteTopicsRequest::default().with_topics(vec![
        by_name("a"),
        by_id(made.topics[1].topic_id),
        by_name("c"),
        by_name("c"),
        by_name("nope"),
        by_id(Uuid::from_u128(9_999)),
        by_id(Uuid::nil()),
    ]);
    let response = bed.run(handle.delete_topics(request));
    let rows: Vec<_> = response
        .responses
        .iter()
        .map(|row| (row.name.as_ref().map_or("-", |n| n.as_str()), row.error_code))
        .collect();
    assert_eq!(rows, [("a", 0), ("b", 0), ("c", 42), ("nope", 3), ("-", 100), ("-", 42)]);
    let image = handle.image();
    assert_eq!(image.topics().len(), 1);
    assert_eq!(image.configs().of_topic("a"), None);
    let (_, delta) = bed.last_published();
    assert_eq!(delta.deleted_topics.len(), 2);
}

#[test]
fn producer_ids_are_never_given_twice() {
    let bed = Bed::new();
    let handle = bed.start();
    let epoch = bed.join(&handle, -1);
    let request = AllocateProducerIdsRequest::default()
        .with_broker_id(messages::BrokerId(1))
        .with_broker_epoch(epoch);
    let first = bed.run(handle.allocate_producer_ids(request.clone()));
    assert_eq!((first.error_code, first.producer_id_start.0, first.producer_id_len), (0, 0, 1_000));
    bed.run(handle.shutdown());
    let handle = bed.start();
    let stale = bed.run(handle.allocate_producer_ids(request.clone().with_broker_epoch(epoch + 1)));
    assert_eq!(stale.error_code, ErrorCode::StaleBrokerEpoch.code());
    let second = bed.run(handle.allocate_producer_ids(request));
    assert_eq!(second.producer_id_start.0, 1_000);
}

#[test]
fn snapshot_replaces_the_log_before_it() {
    let bed = Bed::new();
    let mut config = bed.config();
    config.snapshot_bytes_between = 1;
    config.retention_bytes = 0;
    let handle = bed.start_with(config).expect("a controller");
    bed.join(&handle, -1);
    for name in ["a", "b", "c"] {
        bed.run(handle.create_topics(create(vec![topic(name, 1, &[])])));
    }
    let dir = bed.dir.path().join(METADATA_DIR);
    // The snapshot's own thread writes it, by the clock of the quorum's thread.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !first_snapshot_is_gone(&dir) {
        assert!(std::time::Instant::now() < deadline, "no snapshot was written");
        std::thread::yield_now();
    }
    let before = handle.image();
    bed.run(handle.shutdown());
    assert!(bed.log.start().0 > 0, "the log was trimmed");
    let handle = bed.start();
    assert_eq!(handle.image().topics(), before.topics());
    assert_eq!(handle.image().features(), before.features());
}

fn first_snapshot_is_gone(dir: &Path) -> bool {
    !dir.join("00000000000000000000-0000000000.checkpoint").exists()
}

#[test]
fn foreign_directories_are_refused() {
    let bed = Bed::new();
    let config = bed.config();
    let prepare_as = |node: i32, cluster: &str| {
        prepare(
            &BootstrapConfig {
                node_id: BrokerId(node),
                cluster_id: Some(cluster.to_owned()),
                log_dirs: vec![bed.dir.path().to_owned()],
                metadata_log_dir: None,
                quorum: QuorumConfig::Dynamic,
                controller_endpoints: Vec::new(),
            },
            &PlainFs::new(),
        )
        .map_err(|error| error.to_string())
    };
    let refused = prepare_as(2, "5L6g3nShT-eMCtK--X86sw").expect_err("another node");
    assert!(refused.contains("belongs to node 1"), "{refused}");
    let refused = prepare_as(1, "other").expect_err("another cluster");
    assert!(refused.contains("belongs to cluster 5L6g3nShT-eMCtK--X86sw"), "{refused}");
    assert!(!prepare_as(1, "5L6g3nShT-eMCtK--X86sw").expect("its own").formatted);

    // A voter set of others.
    let mut other = config.clone();
    other.node_id = BrokerId(7);
    let refused = bed.start_with(other).expect_err("not a voter").to_string();
    assert!(refused.contains("quorums of one voter"), "{refused}");
    let mut other = config;
    other.directory_id = DirectoryId(Uuid::from_u128(5_000));
    let refused = bed.start_with(other).expect_err("another directory").to_string();
    assert!(refused.contains("directory.id"), "{refused}");

    std::fs::remove_file(bed.dir.path().join("meta.properties")).expect("there");
    std::fs::write(bed.dir.path().join("stranger"), "x").expect("written");
    let refused = prepare_as(1, "a").expect_err("not empty");
    assert!(refused.contains("stranger"), "{refused}");
}
