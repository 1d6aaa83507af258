//! Registers this broker with the controller, keeps it alive by heartbeats, and leads its controlled shutdown.

use std::rc::Rc;
use std::time::Duration;

use kafka_protocol::messages::assign_replicas_to_dirs_request::{
    DirectoryData, PartitionData, TopicData,
};
use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::{
    AssignReplicasToDirsRequest, BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerId,
    BrokerRegistrationRequest,
};
use protocol_compat::ErrorCode;
use protocol_compat::ids::{DirectoryId, PartitionIndex, TopicId, Uuid};

use super::text;
use crate::core::Core;

/// Between two tries of something that the controller refused.
const RETRY: Duration = Duration::from_millis(20);
/// How long the controller may take to let the broker go.
const SHUTDOWN_TRIES: u32 = 250;

/// Registers, and waits until the broker is unfenced: clients may then be let in.
///
/// # Errors
/// The controller refuses this broker.
pub async fn register(core: &Rc<Core>) -> Result<(), String> {
    let request = registration(core);
    let response = core.shared.controller.register_broker(request).await;
    if response.error_code != 0 {
        let code = ErrorCode::from_code(response.error_code);
        return Err(format!(
            "the controller refuses the registration of this broker: {}",
            code.map_or("unknown error", ErrorCode::name)
        ));
    }
    core.shared.set_broker_epoch(response.broker_epoch);
    loop {
        let offset = core.shared.controller.image().offset().0;
        core.shared.wait_applied(offset).await;
        let answer = heartbeat(core, offset, false).await;
        if answer.error_code == 0 && !answer.is_fenced {
            let offset = core.shared.controller.image().offset().0;
            core.shared.wait_applied(offset).await;
            return Ok(());
        }
        if answer.error_code != 0 {
            tokio::time::sleep(RETRY).await;
        }
    }
}

fn registration(core: &Core) -> BrokerRegistrationRequest {
    let config = core.config();
    let listening = core.shared.listening.get().map(Vec::as_slice).unwrap_or_default();
    let listeners = config.advertised_listeners.iter().map(|listener| {
        // Port 0 stands for the port that the system gave.
        let got = listening.iter().find(|(name, _)| **name == *listener.name);
        let port = match (listener.port, got) {
            (0, Some((_, address))) => address.port(),
            (port, _) => port,
        };
        Listener::default()
            .with_name(text(&listener.name))
            .with_host(text(&listener.host))
            .with_port(port)
            .with_security_protocol(listener.security_protocol.id())
    });
    let features = controller::SUPPORTED_FEATURES.iter().map(|&(name, min, max)| {
        Feature::default()
            .with_name(text(name))
            .with_min_supported_version(min)
            .with_max_supported_version(max)
    });
    let mut log_dirs: Vec<Uuid> =
        core.shared.directories.all().map(|directory| directory.id().0).collect();
    log_dirs.sort_unstable();
    BrokerRegistrationRequest::default()
        .with_broker_id(BrokerId(core.shared.node_id().0))
        .with_cluster_id(text(&core.shared.cluster_id))
        .with_incarnation_id(Uuid::new_v4())
        .with_listeners(listeners.collect())
        .with_features(features.collect())
        .with_rack(config.rack.as_deref().map(text))
        .with_log_dirs(log_dirs)
        .with_previous_broker_epoch(core.shared.directories.previous_broker_epoch().unwrap_or(-1))
}

async fn heartbeat(core: &Core, offset: i64, want_shut_down: bool) -> BrokerHeartbeatResponse {
    let offline = core.shared.directories.all().filter(|directory| directory.is_offline());
    let request = BrokerHeartbeatRequest::default()
        .with_broker_id(BrokerId(core.shared.node_id().0))
        .with_broker_epoch(core.shared.broker_epoch())
        .with_current_metadata_offset(offset)
        .with_want_fence(false)
        .with_want_shut_down(want_shut_down)
        .with_offline_log_dirs(offline.map(|directory| directory.id().0).collect());
    core.shared.controller.broker_heartbeat(request).await
}

/// Sends heartbeats until the broker stops.
pub async fn keep_alive(core: Rc<Core>) {
    loop {
        tokio::time::sleep(core.config().broker_heartbeat_interval).await;
        if core.shared.is_stopping() {
            return;
        }
        let offset = core.shared.applied_everywhere();
        let answer = heartbeat(&core, offset, false).await;
        if answer.error_code != 0 {
            tracing::warn!(code = answer.error_code, "the controller refused a heartbeat");
        }
    }
}

/// Asks the controller to move leadership away and waits until it agrees.
pub async fn shut_down(core: &Rc<Core>) {
    for _ in 0..SHUTDOWN_TRIES {
        let offset = core.shared.applied_everywhere();
        let answer = heartbeat(core, offset, true).await;
        if answer.should_shut_down || answer.error_code != 0 {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
    tracing::warn!("the controller did not finish the controlled shutdown in time");
}

/// Tells the controller in which directory a partition was put.
pub fn assign(core: &Rc<Core>, topic: TopicId, index: PartitionIndex, directory: DirectoryId) {
    let core = Rc::clone(core);
    tokio::task::spawn_local(async move {
        let partition = PartitionData::default().with_partition_index(index.0);
        let topic = TopicData::default().with_topic_id(topic.0).with_partitions(vec![partition]);
        let directory = DirectoryData::default().with_id(directory.0).with_topics(vec![topic]);
        let request = AssignReplicasToDirsRequest::default()
            .with_broker_id(BrokerId(core.shared.node_id().0))
            .with_broker_epoch(core.shared.broker_epoch())
            .with_directories(vec![directory]);
        let answer = core.shared.controller.assign_replicas_to_dirs(request).await;
        if answer.error_code != 0 {
            tracing::warn!(
                code = answer.error_code,
                "the controller refused the assignment of a directory"
            );
        }
    });
}
