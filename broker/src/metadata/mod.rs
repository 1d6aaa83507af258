//! What the cluster's metadata means for this broker: applying it to the cores, registering, naming addresses.

pub mod addresses;
pub mod apply;
pub mod register;

use std::rc::Rc;
use std::sync::Arc;

use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;
use protocol_compat::hot::fetch_response::FetchResponse;
use protocol_compat::hot::produce::ProduceResponse;
use protocol_compat::hot::{CurrentLeader, NodeEndpoint, TopicRef};
use protocol_compat::ids::BrokerId;

use crate::core::Core;
use crate::fetch::session::Planned;
use crate::net::connection::Peer;
use controller::image::{PartitionImage, TopicImage};

/// The topic of the group coordinators.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Topics that belong to the brokers.
const INTERNAL: [&str; 3] = [OFFSETS_TOPIC, "__transaction_state", "__share_group_state"];

/// Whether a topic belongs to the brokers and not to clients.
#[must_use]
pub fn is_internal(topic: &str) -> bool {
    INTERNAL.contains(&topic)
}

/// Text for the wire.
#[must_use]
pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_image(core: &Core, topic: &TopicRef) -> Option<Arc<TopicImage>> {
    let image = core.image();
    match topic {
        TopicRef::Name(name) => image.topics().by_name(name).map(Arc::clone),
        TopicRef::Id(id) => image.topics().by_id(*id).map(Arc::clone),
    }
}

fn current_leader(partition: &PartitionImage) -> CurrentLeader {
    CurrentLeader {
        leader_id: partition.leader.unwrap_or(BrokerId(-1)),
        leader_epoch: partition.leader_epoch,
    }
}

fn add_endpoint(core: &Core, peer: &Peer, leader: CurrentLeader, to: &mut Vec<NodeEndpoint>) {
    if to.iter().any(|endpoint| endpoint.node_id == leader.leader_id) {
        return;
    }
    let image = core.image();
    let Some(broker) = image.broker(leader.leader_id) else { return };
    if let Some(address) = addresses::of_broker(core, broker, peer) {
        to.push(NodeEndpoint {
            node_id: leader.leader_id,
            host: text(&address.host),
            port: i32::from(address.port),
            rack: broker.rack.as_deref().map(text),
        });
    }
}

/// Adds the current leaders of partitions that are led elsewhere to a Produce answer (KIP-951).
pub fn name_leaders(core: &Rc<Core>, peer: &Peer, version: i16, response: &mut ProduceResponse) {
    if version < 10 {
        return;
    }
    let moved = |code| code == ErrorCode::NotLeaderOrFollower;
    if !response.partitions.iter().any(|partition| moved(partition.error_code)) {
        return;
    }
    for span in &response.topics {
        let Some(topic) = topic_image(core, &span.topic) else { continue };
        let answers = response.partitions.get_mut(span.partitions.clone()).unwrap_or_default();
        for answer in answers.iter_mut().filter(|answer| moved(answer.error_code)) {
            let Some(partition) = topic.partition(answer.index) else { continue };
            let leader = current_leader(partition);
            answer.current_leader = Some(leader);
            add_endpoint(core, peer, leader, &mut response.node_endpoints);
        }
    }
}

/// The same for a Fetch answer.
pub fn name_fetch_leaders(
    core: &Rc<Core>,
    peer: &Peer,
    version: i16,
    planned: &[&Planned],
    response: &mut FetchResponse,
) {
    if version < 16 {
        return;
    }
    for (planned, answer) in planned.iter().zip(&mut response.partitions) {
        let moved = matches!(
            answer.error_code,
            ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch
        );
        if !moved {
            continue;
        }
        let Some(topic) = topic_image(core, &planned.topic) else { continue };
        let Some(partition) = topic.partition(answer.partition) else { continue };
        let leader = current_leader(partition);
        answer.current_leader = Some(leader);
        add_endpoint(core, peer, leader, &mut response.node_endpoints);
    }
}
