//! Random parts of messages, for tests.

use kafka_protocol::protocol::StrBytes;
use proptest::prelude::*;

use crate::hot::{CurrentLeader, NodeEndpoint, TopicRef};
use crate::ids::{BrokerId, LeaderEpoch, TopicId, Uuid};

pub(super) fn text() -> impl Strategy<Value = StrBytes> {
    "[a-zA-Z0-9äß._-]{0,30}".prop_map(StrBytes::from_string)
}

pub(super) fn message(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn topic_ref(by_id: bool) -> BoxedStrategy<TopicRef> {
    if by_id {
        any::<u128>().prop_map(|id| TopicRef::Id(TopicId(Uuid::from_u128(id)))).boxed()
    } else {
        text().prop_map(TopicRef::Name).boxed()
    }
}

/// Never the default, which the crate leaves out.
pub(super) fn leader() -> impl Strategy<Value = CurrentLeader> {
    (0..i32::MAX, any::<i32>()).prop_map(|(id, epoch)| CurrentLeader {
        leader_id: BrokerId(id),
        leader_epoch: LeaderEpoch(epoch),
    })
}

pub(super) fn endpoints() -> impl Strategy<Value = Vec<NodeEndpoint>> {
    let endpoint = (any::<i32>(), text(), any::<i32>(), proptest::option::of(text())).prop_map(
        |(id, host, port, rack)| NodeEndpoint { node_id: BrokerId(id), host, port, rack },
    );
    proptest::collection::vec(endpoint, 0..3)
}
