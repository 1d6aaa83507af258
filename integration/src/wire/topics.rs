//! Topics for tests.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{CreateTopicsRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::Client;
use crate::harness::wait_for;

/// `PREFIX-PID-NUMBER`: a name that no other test of this program uses.
#[must_use]
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes a topic and waits until its partitions have a leader; gives its name, which begins with `prefix`.
///
/// # Panics
/// When it cannot be made.
pub fn create_topic(client: &mut Client, prefix: &str, partitions: i32) -> String {
    create_topic_with(client, prefix, partitions, &[])
}

/// As [`create_topic`], with topic configs.
///
/// # Panics
/// When it cannot be made.
pub fn create_topic_with(
    client: &mut Client,
    prefix: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> String {
    let name = unique(prefix);
    // Tests write records of 1970: they are to stay.
    let kept = ("retention.ms", "-1");
    let configs = configs
        .iter()
        .chain(std::iter::once(&kept))
        .map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string((*name).to_owned()))
                .with_value(Some(StrBytes::from_string((*value).to_owned())))
        })
        .collect();
    let topic = CreatableTopic::default()
        .with_name(TopicName(StrBytes::from_string(name.clone())))
        .with_num_partitions(partitions)
        .with_replication_factor(1)
        .with_configs(configs);
    let answer = client
        .call(5, &CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000));
    assert_eq!(answer.topics[0].error_code, 0, "{answer:?}");
    // Metadata may name a leader a moment before that leader serves.
    let led = wait_for(Duration::from_secs(30), || {
        (0..partitions)
            .all(|partition| client.list_offset(7, &name, partition, -1).error_code == 0)
            .then_some(())
    });
    led.expect("the partitions of a new topic have leaders");
    name
}
