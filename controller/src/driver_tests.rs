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
    open_with(disk, |_| {})
}

fn open_with(
    disk: &SimDisk,
    change: impl FnOnce(&mut ControllerConfig),
) -> Result<Core, ControllerError> {
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
    change(&mut config);
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

fn names(disk: &SimDisk, suffix: &str) -> Vec<String> {
    let entries = disk.list(&Path::new(DIR).join(METADATA_DIR)).expect("there").into_iter();
    entries.map(|entry| entry.name).filter(|name| name.ends_with(suffix)).collect()
}

fn remove(disk: &SimDisk, names: Vec<String>) {
    for name in names {
        disk.remove_file(&Path::new(DIR).join(METADATA_DIR).join(name)).expect("removed");
    }
}

#[test]
fn log_that_is_behind_its_snapshot_starts_anew_there() {
    let disk = SimDisk::new(5);
    let mut told = Told::default();
    live(&disk, &mut told, 0).expect("a healthy disk");
    assert_eq!(names(&disk, ".checkpoint").len(), 1);
    for suffix in [".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"] {
        remove(&disk, names(&disk, suffix));
    }
    // Made after the snapshot, so gone with the log.
    told.topics.remove("t0-3");
    told.next_producer_id -= 1_000;
    told.epoch = 0;
    live(&disk, &mut told, 1).expect("the snapshot is enough");
    live(&disk, &mut told, 2).expect("and again");
}

#[test]
fn segments_before_the_oldest_snapshot_go() {
    let disk = SimDisk::new(7);
    let rolling = |config: &mut ControllerConfig| config.log_segment_ms = 1;
    let mut core = open_with(&disk, rolling).expect("a healthy disk");
    for now_ms in 0..8 {
        let record = MetadataRecord::NoOp(NoOpRecord::default());
        let later = clock::now_ms() + 1_000 * now_ms;
        core.node.append(&mut core.replay, &[record], later).expect("appended");
        core.node.flush().expect("flushed");
    }
    assert!(names(&disk, ".log").len() > 4, "{:?}", names(&disk, ".log"));
    let image = Arc::new(core.replay.image().clone());
    let id = core.node.snapshot_job(&image).run().expect("written");
    core.node.snapshot_written(id, &core.config, clock::now_ms()).expect("cleaned");
    assert_eq!(names(&disk, ".checkpoint"), [id.file_name()]);
    assert_eq!(names(&disk, ".log").len(), 1, "{:?}", names(&disk, ".log"));
    core.node.close().expect("closed");
    let core = open_with(&disk, rolling).expect("opens again");
    assert_eq!(core.replay.image().features(), image.features());
    core.node.close().expect("closed");
    // Without the snapshot, what was before the log is gone.
    remove(&disk, names(&disk, ".checkpoint"));
    let refused = open_with(&disk, rolling).err().expect("something is missing").to_string();
    assert!(refused.contains("no snapshot holds what was before"), "{refused}");
}

#[test]
fn torn_end_of_the_log_is_cut_and_the_rest_served() {
    let disk = SimDisk::new(8);
    let mut told = Told::default();
    live(&disk, &mut told, 0).expect("a healthy disk");
    let path = Path::new(DIR).join(METADATA_DIR).join(&names(&disk, ".log")[0]);
    let file = disk.open(&path, storage::disk::OpenMode::ReadWrite).expect("there");
    let size = file.size().expect("known");
    file.write_all_at(&[bytes::Bytes::from_static(&[0xab; 300])], size).expect("written");
    live(&disk, &mut told, 1).expect("the tail is cut");
}

#[test]
fn unknown_record_stops_the_start_with_its_offset() {
    let disk = SimDisk::new(9);
    let core = open(&disk).expect("a healthy disk");
    let (end, epoch) = (core.node.end(), core.replay.image().provenance().epoch);
    drop(core);
    let path = Path::new(DIR).join(METADATA_DIR).join(&names(&disk, ".log")[0]);
    let file = disk.open(&path, storage::disk::OpenMode::ReadWrite).expect("there");
    // A NoOpRecord (type 20), made a record of type 90.
    let record = [MetadataRecord::NoOp(NoOpRecord::default())];
    let mut batch = crate::raft::batch::data(end, epoch, 0, 33, &record).to_vec();
    let at = batch.windows(3).rposition(|window| window == [1, 20, 0]).expect("the record");
    batch[at + 1] = 90;
    let crc = protocol_compat::batch::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    let size = file.size().expect("known");
    file.write_all_at(&[batch.into()], size).expect("written");
    let refused = open(&disk).err().expect("an unknown record");
    assert!(
        matches!(&refused, ControllerError::UnknownRecord { offset, reason }
            if *offset == end.0 && reason.contains("90")),
        "{refused}"
    );
}
