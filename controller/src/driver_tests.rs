//! Power losses at every point of a controller's life, on the simulated disk.
//!
//! What was answered is there after any of them; a start never fails; epochs and producer ids never come twice.

use std::collections::BTreeMap;
use std::path::Path;

use kafka_protocol::messages::broker_registration_request::Feature;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::{
    self, AllocateProducerIdsRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest,
    CreateTopicsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ids::BrokerId;
use storage::disk::sim::{PowerLoss, SimDisk};

use super::*;
use crate::bootstrap::{BootstrapConfig, METADATA_DIR, prepare};
use crate::controller::QuorumConfig;
use crate::decide::activation::SUPPORTED;
use crate::decide::{producer_ids, topics};

const DIR: &str = "/srv/kelda";

/// What clients were told.
#[derive(Debug, Default)]
struct Told {
    /// Topic names with their number of partitions.
    topics: BTreeMap<String, usize>,
    next_producer_id: i64,
    epoch: i32,
}

fn open(disk: &SimDisk) -> Result<Core, ControllerError> {
    let bootstrap = BootstrapConfig {
        node_id: BrokerId(1),
        cluster_id: Some("cluster".to_owned()),
        log_dirs: vec![DIR.into()],
        metadata_log_dir: None,
        quorum: QuorumConfig::Dynamic,
        controller_endpoints: Vec::new(),
    };
    let identity = prepare(&bootstrap, disk)?;
    let mut config = ControllerConfig::new(
        BrokerId(1),
        identity.cluster_id,
        identity.metadata.0,
        identity.metadata.1,
    );
    config.retention_bytes = 0;
    Core::open(config, Arc::new(disk.clone()), Box::new(crate::raft::default_log))
}

/// Opens, checks what it was told before, joins, makes topics and ids, takes a snapshot; stops at the first failure.
fn live(disk: &SimDisk, told: &mut Told, round: usize) -> Result<(), ControllerError> {
    let mut core = open(disk)?;
    let image = core.replay.image().clone();
    for (name, count) in &told.topics {
        let topic = image.topics().by_name(name).unwrap_or_else(|| panic!("topic {name} is lost"));
        assert_eq!(topic.partition_count(), *count);
    }
    let epoch = image.provenance().epoch.0;
    assert!(epoch > told.epoch, "epoch {epoch} after {}", told.epoch);
    told.epoch = epoch;

    let features = SUPPORTED.iter().map(|&(name, min, max)| {
        Feature::default()
            .with_name(StrBytes::from_static_str(name))
            .with_min_supported_version(min)
            .with_max_supported_version(max)
    });
    let registration = BrokerRegistrationRequest::default()
        .with_broker_id(messages::BrokerId(1))
        .with_cluster_id(StrBytes::from_static_str("cluster"))
        .with_incarnation_id(Uuid::new_v4())
        .with_features(features.collect())
        .with_log_dirs(vec![Uuid::from_u128(700)]);
    let registered = core.decide(|c, s, now| brokers::register(c, s, now, &registration))?;
    assert_eq!(registered.error_code, 0);
    let beat = BrokerHeartbeatRequest::default()
        .with_broker_id(messages::BrokerId(1))
        .with_broker_epoch(registered.broker_epoch)
        .with_current_metadata_offset(registered.broker_epoch);
    core.decide(|c, s, now| brokers::heartbeat(c, s, now, &beat))?;
    for step in 0..4 {
        let name = format!("t{round}-{step}");
        let topic = CreatableTopic::default()
            .with_name(TopicName(StrBytes::from_string(name.clone())))
            .with_num_partitions(step + 1)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![topic]);
        let made = core.decide(|c, _, _| topics::create(c, &request))?;
        assert_eq!(made.topics[0].error_code, 0);
        let request = AllocateProducerIdsRequest::default()
            .with_broker_id(messages::BrokerId(1))
            .with_broker_epoch(registered.broker_epoch);
        let ids = core.decide(|c, _, _| producer_ids::allocate(c, &request))?;
        let first = ids.producer_id_start.0;
        assert!(first >= told.next_producer_id, "ids from {first} were handed out before");
        core.node.flush()?;
        // The turn is durable: its answers leave.
        told.topics.insert(name, usize::try_from(step + 1).expect("small"));
        told.next_producer_id = first + i64::from(ids.producer_id_len);
        core.node.append(
            &mut core.replay,
            &[MetadataRecord::NoOp(NoOpRecord::default())],
            clock::now_ms(),
        )?;
        core.node.write()?;
        if step == 2 {
            core.node.flush()?;
            let image = Arc::new(core.replay.image().clone());
            let id = core.node.snapshot_job(&image).run()?;
            core.node.snapshot_written(id, &core.config, clock::now_ms())?;
        }
    }
    core.node.close()
}

/// One life after the other on one disk, each ended by a power loss but the last.
fn lives(seed: u64, style: PowerLoss, points: &[u64]) {
    let mut disk = SimDisk::new(seed);
    let mut told = Told::default();
    for (round, point) in points.iter().enumerate() {
        disk.power_off_at(*point);
        let ended = live(&disk, &mut told, round);
        if let Err(error) = ended {
            assert!(disk.is_off(), "seed {seed}, {style:?}, points {points:?}: {error}");
        }
        disk = disk.power_loss(style);
    }
    if let Err(error) = live(&disk, &mut told, points.len()) {
        panic!("seed {seed}, {style:?}, points {points:?}: {error}");
    }
    let inner = Path::new(DIR).join(METADATA_DIR);
    let leftover =
        disk.list(&inner).expect("there").into_iter().find(|e| e.name.ends_with(".part"));
    assert_eq!(leftover, None);
}

#[test]
fn no_power_loss_loses_what_was_answered() {
    let whole = SimDisk::new(1);
    live(&whole, &mut Told::default(), 0).expect("a healthy disk");
    let changes = whole.changes();
    assert!(changes > 20);
    for point in 0..changes {
        for style in [
            PowerLoss::DropUnsynced,
            PowerLoss::KeepUnsynced,
            PowerLoss::TearLastWrite,
            PowerLoss::Random,
        ] {
            // The second life is cut too, so that recovery itself is interrupted.
            for second in [0, point / 2, point] {
                lives(point + 1, style, &[point, second]);
            }
        }
    }
}
