//! Cluster metadata changes hands between Apache Kafka and Kelda's controller, both ways, with a dynamic and with a static
//! quorum: each sees what the other made, and Kafka's own tool reads what Kelda wrote.
//!
//! `cargo test -p integration --features kafka --test metadata_handover`

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use controller::bootstrap::{BootstrapConfig, METADATA_DIR, prepare};
use controller::image::Endpoint;
use controller::{Controller, ControllerConfig, QuorumConfig, SUPPORTED_FEATURES};
use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, BrokerHeartbeatRequest, BrokerId, BrokerRegistrationRequest,
    CreateTopicsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use storage::disk::plain::PlainFs;

const CLUSTER: &str = "5L6g3nShT-eMCtK--X86sw";

/// A node's directory, run by one and then by the other.
struct Node {
    home: tempfile::TempDir,
    port: u16,
    dynamic: bool,
}

impl Node {
    fn new(dynamic: bool) -> Result<Self> {
        let node = Self { home: tempfile::tempdir()?, port: free_ports()?, dynamic };
        let (port, controller) = (node.port, node.port + 1);
        let quorum = if dynamic {
            format!("controller.quorum.bootstrap.servers=127.0.0.1:{controller}")
        } else {
            format!("controller.quorum.voters=1@127.0.0.1:{controller}")
        };
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\n{quorum}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\noffsets.topic.replication.factor=1\n",
            node.data().display()
        );
        std::fs::write(node.home.path().join("server.properties"), properties)?;
        Ok(node)
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn kafka_formats(&self) -> Result<()> {
        let file = self.home.path().join("server.properties");
        let mut arguments = vec!["tool", "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"];
        let file = file.to_string_lossy();
        arguments.push(&file);
        if self.dynamic {
            arguments.push("--standalone");
        }
        kafka(&arguments).map(|_| ())
    }

    /// Kafka makes a topic where a name is given; what it lists then.
    fn kafka_runs(&self, make: Option<&str>) -> Result<Vec<String>> {
        let home = self.home.path().to_string_lossy().into_owned();
        kafka(&["start", &home])?;
        let server = format!("127.0.0.1:{}", self.port);
        let tool =
            ["tool", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", &server[..]];
        let listed = make
            .map_or(Ok(String::new()), |name| {
                let more = [
                    "--create",
                    "--topic",
                    name,
                    "--partitions",
                    "3",
                    "--config",
                    "retention.ms=77",
                ];
                kafka(&[&tool[..], &more[..]].concat())
            })
            .and_then(|_| kafka(&[&tool[..], &["--describe"]].concat()));
        kafka(&["stop", &home])?;
        let lines = listed?;
        let topics = lines.lines().filter(|line| line.starts_with("Topic: "));
        let mut topics: Vec<_> = topics.map(summary).collect();
        topics.sort();
        Ok(topics)
    }

    /// Kelda's controller makes a topic; what it holds then. A snapshot is taken in between.
    fn kelda_runs(&self, make: &str) -> Result<Vec<String>> {
        let endpoint = Endpoint {
            name: "CONTROLLER".into(),
            host: "127.0.0.1".into(),
            port: self.port + 1,
            security_protocol: 0,
        };
        let id = protocol_compat::ids::BrokerId(1);
        let quorum = if self.dynamic {
            QuorumConfig::Dynamic
        } else {
            QuorumConfig::Static(vec![(id, "127.0.0.1".into(), self.port + 1)])
        };
        let fs = Arc::new(PlainFs::new());
        let bootstrap = BootstrapConfig {
            node_id: id,
            cluster_id: None,
            log_dirs: vec![self.data()],
            metadata_log_dir: None,
            quorum: quorum.clone(),
            controller_endpoints: vec![endpoint.clone()],
        };
        let identity = prepare(&bootstrap, fs.as_ref())?;
        let (dir, directory_id) = identity.metadata;
        let mut config = ControllerConfig::new(id, identity.cluster_id.clone(), dir, directory_id);
        config.quorum = quorum;
        config.controller_endpoints = vec![endpoint];
        config.snapshot_bytes_between = 1;
        let handle = Controller::start(config, fs, |_, _| {})?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(async {
            let registration = self.registration(&identity.cluster_id, directory_id.0);
            let registered = handle.register_broker(registration).await;
            ensure!(registered.error_code == 0, "{registered:?}");
            let beat = BrokerHeartbeatRequest::default()
                .with_broker_id(BrokerId(1))
                .with_broker_epoch(registered.broker_epoch)
                .with_current_metadata_offset(registered.broker_epoch);
            let unfenced = handle.broker_heartbeat(beat.clone()).await;
            ensure!(!unfenced.is_fenced, "{unfenced:?}");
            let topic = CreatableTopic::default()
                .with_name(TopicName(text(make)))
                .with_num_partitions(2)
                .with_replication_factor(1)
                .with_configs(vec![
                    CreatableTopicConfig::default()
                        .with_name(text("cleanup.policy"))
                        .with_value(Some(text("compact"))),
                ]);
            let request = CreateTopicsRequest::default().with_topics(vec![topic]);
            let made = handle.create_topics(request).await;
            ensure!(made.topics[0].error_code == 0, "{made:?}");
            let request = AllocateProducerIdsRequest::default()
                .with_broker_id(BrokerId(1))
                .with_broker_epoch(registered.broker_epoch);
            ensure!(handle.allocate_producer_ids(request).await.error_code == 0);
            self.wait_for_a_snapshot()?;
            let stop = beat.with_want_shut_down(true);
            handle.broker_heartbeat(stop.clone()).await;
            ensure!(handle.broker_heartbeat(stop).await.should_shut_down);
            handle.shutdown().await;
            Ok(())
        })?;
        let image = handle.image();
        let topics = image.topics().iter().map(|topic| {
            let configs = image.configs().of_topic(topic.name());
            let configs = configs.map_or(String::new(), |configs| {
                let list: Vec<_> = configs.iter().map(|(k, v)| format!("{k}={v}")).collect();
                list.join(",")
            });
            format!("{} {} {configs}", topic.name(), topic.partition_count())
        });
        Ok(topics.collect())
    }

    /// Waits until a snapshot of the running controller is there, besides that of the format.
    fn wait_for_a_snapshot(&self) -> Result<()> {
        let before = self.snapshots()?;
        integration::harness::wait_for(Duration::from_secs(30), || {
            self.snapshots().is_ok_and(|now| now != before).then_some(())
        })
        .context("no snapshot was written")
    }

    fn snapshots(&self) -> Result<usize> {
        let names = std::fs::read_dir(self.data().join(METADATA_DIR))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().ends_with(".checkpoint")))
            .collect::<Result<Vec<_>>>()?;
        Ok(names.into_iter().filter(|is_snapshot| *is_snapshot).count())
    }

    fn registration(&self, cluster: &str, directory: uuid::Uuid) -> BrokerRegistrationRequest {
        let features = SUPPORTED_FEATURES.iter().map(|&(name, min, max)| {
            Feature::default()
                .with_name(text(name))
                .with_min_supported_version(min)
                .with_max_supported_version(max)
        });
        let listener = Listener::default()
            .with_name(text("PLAINTEXT"))
            .with_host(text("127.0.0.1"))
            .with_port(self.port);
        BrokerRegistrationRequest::default()
            .with_broker_id(BrokerId(1))
            .with_cluster_id(text(cluster))
            .with_incarnation_id(uuid::Uuid::new_v4())
            .with_listeners(vec![listener])
            .with_features(features.collect())
            .with_rack(None)
            .with_log_dirs(vec![directory])
            .with_previous_broker_epoch(-1)
    }

    /// Kafka's own tool reads every file of the metadata log.
    fn dump(&self) -> Result<()> {
        let dir = self.data().join(METADATA_DIR);
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            let wanted = ["log", "index", "timeindex", "checkpoint"];
            if !path.extension().is_some_and(|e| wanted.iter().any(|known| e == *known)) {
                continue;
            }
            let file = path.to_string_lossy();
            let dumped = kafka(&[
                "tool",
                "org.apache.kafka.tools.DumpLogSegments",
                "--cluster-metadata-decoder",
                "--files",
                &file,
            ])?;
            for complaint in ["isvalid: false", "Could not", "Mismatches", "corrupt", "Found "] {
                ensure!(!dumped.contains(complaint), "{file}: {dumped}");
            }
        }
        Ok(())
    }
}

/// Name, partitions and the topic's own configs of a line of `TopicCommand --describe`.
fn summary(line: &str) -> String {
    let field = |name: &str| {
        let rest = line.split(name).nth(1).unwrap_or_default();
        rest.split('\t').next().unwrap_or_default().trim().to_owned()
    };
    let configs = field("Configs: ");
    let mut own: Vec<_> = configs.split(',').filter(|c| !c.starts_with("min.insync")).collect();
    own.sort_unstable();
    format!("{} {} {}", field("Topic: "), field("PartitionCount: "), own.join(","))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn kafka(arguments: &[&str]) -> Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("kafka/kafka.sh");
    let output = Command::new(script).args(arguments).output().context("kafka.sh")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "kafka.sh {arguments:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

/// The first of two ports in a row that are free.
fn free_ports() -> Result<u16> {
    loop {
        let first = TcpListener::bind("127.0.0.1:0")?;
        let port = first.local_addr()?.port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return Ok(port);
        }
    }
}

const FROM_KAFKA: &str = "from-kafka 3 retention.ms=77";
const FROM_KELDA: &str = "from-kelda 2 cleanup.policy=compact";
const AND_BACK: &str = "and-back 2 cleanup.policy=compact";

fn changes_hands(dynamic: bool) -> Result<()> {
    let node = Node::new(dynamic)?;
    node.kafka_formats()?;
    assert_eq!(node.kafka_runs(Some("from-kafka"))?, [FROM_KAFKA]);
    assert_eq!(node.kelda_runs("from-kelda")?, [FROM_KAFKA, FROM_KELDA]);
    node.dump()?;
    assert_eq!(node.kafka_runs(None)?, [FROM_KAFKA, FROM_KELDA]);
    assert_eq!(node.kelda_runs("and-back")?, [AND_BACK, FROM_KAFKA, FROM_KELDA]);
    Ok(())
}

#[test]
fn kafkas_directory_with_a_dynamic_quorum_changes_hands() -> Result<()> {
    changes_hands(true)
}

#[test]
fn kafkas_directory_with_a_static_quorum_changes_hands() -> Result<()> {
    changes_hands(false)
}

#[test]
fn directory_that_kelda_formatted_changes_hands() -> Result<()> {
    let node = Node::new(true)?;
    assert_eq!(node.kelda_runs("from-kelda")?, [FROM_KELDA]);
    node.dump()?;
    assert_eq!(node.kafka_runs(Some("from-kafka"))?, [FROM_KAFKA, FROM_KELDA]);
    assert_eq!(node.kelda_runs("and-back")?, [AND_BACK, FROM_KAFKA, FROM_KELDA]);
    Ok(())
}
