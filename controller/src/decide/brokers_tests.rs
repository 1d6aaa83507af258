//! Brokers that come, go and come back.

use kafka_protocol::messages::broker_registration_request::Feature;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::{self, CreateTopicsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ids::PartitionIndex;

use super::super::testkit::{Bed, directory};
use super::super::topics;
use super::*;
use crate::decide::activation::SUPPORTED;
use crate::image::PartitionImage;

fn registration(id: i32, incarnation: u128) -> BrokerRegistrationRequest {
    let features = SUPPORTED.iter().map(|&(name, min, max)| {
        Feature::default()
            .with_name(StrBytes::from_static_str(name))
            .with_min_supported_version(min)
            .with_max_supported_version(max)
    });
    BrokerRegistrationRequest::default()
        .with_broker_id(messages::BrokerId(id))
        .with_cluster_id(StrBytes::from_static_str("cluster"))
        .with_incarnation_id(Uuid::from_u128(incarnation))
        .with_features(features.collect())
        .with_log_dirs(vec![directory(id).0])
        .with_previous_broker_epoch(-1)
}

impl Bed {
    fn register(&mut self, request: &BrokerRegistrationRequest) -> BrokerRegistrationResponse {
        self.decide(|c, s, now| register(c, s, now, request)).response
    }

    fn beat(
        &mut self,
        id: i32,
        change: impl FnOnce(BrokerHeartbeatRequest) -> BrokerHeartbeatRequest,
    ) -> BrokerHeartbeatResponse {
        let epoch = self.image().broker(BrokerId(id)).map_or(-1, |broker| broker.epoch.0);
        let request = BrokerHeartbeatRequest::default()
            .with_broker_id(messages::BrokerId(id))
            .with_broker_epoch(epoch)
            .with_current_metadata_offset(self.image().offset().0);
        let request = change(request);
        self.decide(|c, s, now| heartbeat(c, s, now, &request)).response
    }

    fn join(&mut self, id: i32, incarnation: u128) {
        assert_eq!(self.register(&registration(id, incarnation)).error_code, 0);
        assert!(!self.beat(id, |r| r).is_fenced);
    }

    fn topic(&mut self, name: &str, partitions: i32, factor: i16) {
        let request = CreateTopicsRequest::default().with_topics(vec![
            CreatableTopic::default()
                .with_name(TopicName(StrBytes::from_string(name.to_owned())))
                .with_num_partitions(partitions)
                .with_replication_factor(factor),
        ]);
        let response = self.decide(|c, _, _| topics::create(c, &request)).response;
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    }

    fn partition(&self, name: &str) -> PartitionImage {
        let topic = self.image().topics().by_name(name).expect("made");
        topic.partition(PartitionIndex(0)).expect("one").as_ref().clone()
    }
}

/// Answers as a live Kafka 4.4.0 gave them.
#[test]
fn registrations_are_refused_as_kafka_does() {
    let mut bed = Bed::new();
    let base = || registration(5, 1);
    let cases = [
        (
            base().with_cluster_id(StrBytes::from_static_str("other")),
            ErrorCode::InconsistentClusterId,
        ),
        (base().with_features(vec![]), ErrorCode::InvalidRegistration),
        (base().with_log_dirs(vec![]), ErrorCode::InvalidRegistration),
        (base().with_log_dirs(vec![Uuid::nil()]), ErrorCode::InvalidRegistration),
        (base().with_log_dirs(vec![directory(1).0; 2]), ErrorCode::InvalidRegistration),
    ];
    for (request, code) in cases {
        let response = bed.register(&request);
        assert_eq!((response.error_code, response.broker_epoch), (code.code(), -1));
    }
    let mut old = base();
    old.features.retain(|feature| feature.name.as_str() == "metadata.version");
    assert_eq!(bed.register(&old).error_code, ErrorCode::UnsupportedVersion.code());
    old.features[0].max_supported_version = 20;
    assert_eq!(bed.register(&old).error_code, ErrorCode::UnsupportedVersion.code());
}

#[test]
fn broker_is_unfenced_once_it_has_caught_up() {
    let mut bed = Bed::new();
    let epoch = bed.register(&registration(1, 1)).broker_epoch;
    assert_eq!(epoch, bed.image().offset().0);
    let behind = bed.beat(1, |r| r.with_current_metadata_offset(epoch - 1));
    assert_eq!((behind.is_caught_up, behind.is_fenced), (false, true));
    let fence = bed.beat(1, |r| r.with_want_fence(true));
    assert_eq!((fence.is_caught_up, fence.is_fenced), (true, true));
    let caught = bed.beat(1, |r| r);
    assert_eq!((caught.is_caught_up, caught.is_fenced), (true, false));
    let stale = bed.beat(1, |r| r.with_broker_epoch(epoch + 1));
    assert_eq!(stale.error_code, ErrorCode::StaleBrokerEpoch.code());
    let unknown = bed.beat(9, |r| r);
    assert_eq!(unknown.error_code, ErrorCode::StaleBrokerEpoch.code());
}

#[test]
fn same_incarnation_keeps_its_epoch_and_another_waits_for_the_session() {
    let mut bed = Bed::new();
    bed.join(1, 7);
    let epoch = bed.image().broker(BrokerId(1)).expect("there").epoch.0;
    let again = bed.register(&registration(1, 7));
    assert_eq!((again.error_code, again.broker_epoch), (0, epoch));
    let other = bed.register(&registration(1, 8));
    assert_eq!(other.error_code, ErrorCode::DuplicateBrokerRegistration.code());
    bed.now_ms = 500;
    let other = bed.register(&registration(1, 8));
    assert_eq!(other.error_code, 0);
    assert!(other.broker_epoch > epoch);
}

#[test]
fn leader_moves_when_its_broker_is_silent() {
    let mut bed = Bed::new();
    bed.join(1, 1);
    bed.join(2, 1);
    bed.topic("t", 1, 2);
    let before = bed.partition("t");
    let leader = before.leader.expect("a leader");
    let other = BrokerId(3 - leader.0);
    bed.now_ms = 90;
    bed.beat(other.0, |r| r);
    bed.now_ms = 150;
    let mut fenced = None;
    bed.decide(|c, s, now| {
        let (id, records) = fence_stale(c, s, now).expect("one is silent");
        fenced = Some(id);
        Decision { records, response: () }
    });
    assert_eq!(fenced, Some(leader));
    let after = bed.partition("t");
    assert_eq!((after.leader, &after.isr[..]), (Some(other), &[other][..]));
    assert_eq!(after.leader_epoch.0, before.leader_epoch.0 + 1);
    bed.decide(|c, s, now| {
        assert!(fence_stale(c, s, now).is_none(), "the other is alive");
        Decision::answer(())
    });
}

#[test]
fn controlled_shutdown_waits_until_the_others_know() {
    let mut bed = Bed::new();
    bed.join(1, 1);
    bed.join(2, 1);
    bed.topic("t", 4, 2);
    let old = bed.image().offset().0;
    bed.beat(2, |r| r);
    let first = bed.beat(1, |r| r.with_want_shut_down(true));
    assert!(!first.should_shut_down);
    let topic = bed.image().topics().by_name("t").expect("made").clone();
    assert!(topic.partitions().all(|(_, p)| p.leader == Some(BrokerId(2))));
    // Broker 2 has not replayed it yet.
    bed.beat(2, |r| r.with_current_metadata_offset(old));
    assert!(!bed.beat(1, |r| r.with_want_shut_down(true)).should_shut_down);
    bed.beat(2, |r| r.with_current_metadata_offset(i64::from(i32::MAX)));
    let last = bed.beat(1, |r| r.with_want_shut_down(true));
    assert!(last.should_shut_down && last.is_fenced);
    assert!(bed.image().broker(BrokerId(1)).expect("there").fenced);
}

#[test]
fn failed_directory_takes_its_replicas_away() {
    let mut bed = Bed::new();
    bed.join(1, 1);
    bed.join(2, 1);
    bed.topic("t", 1, 2);
    let leader = bed.partition("t").leader.expect("a leader");
    let other = BrokerId(3 - leader.0);
    bed.beat(leader.0, |r| r.with_offline_log_dirs(vec![directory(leader.0).0]));
    let after = bed.partition("t");
    assert_eq!((after.leader, &after.isr[..]), (Some(other), &[other][..]));
}
