//! Answers as a live Kafka 4.4.0 gave them.

use kafka_protocol::messages::alter_configs_request as alter;
use kafka_protocol::messages::incremental_alter_configs_request as inc;
use kafka_protocol::protocol::StrBytes;

use super::super::testkit::Bed;
use super::*;
use crate::records::metadata::TopicRecord;
use protocol_compat::ids::Uuid;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn bed() -> Bed {
    let mut bed = Bed::new();
    bed.commit(&[MetadataRecord::Topic(TopicRecord {
        name: "ok_1".to_owned(),
        topic_id: Uuid::from_u128(500),
    })]);
    bed
}

impl Bed {
    fn inc(&mut self, kind: i8, name: &str, changes: &[(&str, i8, Option<&str>)]) -> (i16, String) {
        let configs = changes.iter().map(|(name, operation, value)| {
            inc::AlterableConfig::default()
                .with_name(text(*name))
                .with_config_operation(*operation)
                .with_value(value.map(text))
        });
        let resource = inc::AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configs(configs.collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let row = self.decide(|c, _, _| incremental(c, &request)).response.responses.remove(0);
        (row.error_code, row.error_message.map_or(String::new(), |m| m.to_string()))
    }

    fn alt(&mut self, kind: i8, name: &str, configs: &[(&str, Option<&str>)]) -> (i16, String) {
        let configs = configs.iter().map(|(name, value)| {
            alter::AlterableConfig::default().with_name(text(*name)).with_value(value.map(text))
        });
        let resource = alter::AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configs(configs.collect());
        let request = AlterConfigsRequest::default().with_resources(vec![resource]);
        let row = self.decide(|c, _, _| replace(c, &request)).response.responses.remove(0);
        (row.error_code, row.error_message.map_or(String::new(), |m| m.to_string()))
    }

    fn topic_configs(&self) -> Vec<String> {
        let configs = self.image().configs().of_topic("ok_1");
        configs.map_or(Vec::new(), |c| c.iter().map(|(k, v)| format!("{k}={v}")).collect())
    }
}

fn ok() -> (i16, String) {
    (0, String::new())
}

#[test]
fn single_changes_are_answered_as_kafka_does() {
    let mut bed = bed();
    assert_eq!(bed.inc(2, "ok_1", &[("retention.ms", SET, Some("100"))]), ok());
    for (kind, name, changes, code, message) in [
        (
            2,
            "ok_1",
            vec![("retention.ms", SET, Some("x"))],
            40,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (2, "nope", vec![("retention.ms", SET, Some("1"))], 3, "The topic 'nope' does not exist."),
        (
            2,
            "ok_1",
            vec![("retention.ms", APPEND, Some("5"))],
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (2, "ok_1", vec![("unknown", SET, Some("5"))], 40, "Unknown topic config name: unknown"),
        (2, "ok_1", vec![("unknown", DELETE, None)], 0, ""),
        (
            2,
            "ok_1",
            vec![("retention.ms", SET, Some("1")), ("retention.ms", DELETE, None)],
            42,
            "Error due to duplicate config keys",
        ),
        (
            2,
            "ok_1",
            vec![("retention.ms", SET, None)],
            42,
            "Null value not supported for : retention.ms",
        ),
        (2, "ok_1", vec![("retention.ms", 7, Some("1"))], -1, ""),
        (
            2,
            "",
            vec![("retention.ms", SET, Some("1"))],
            42,
            "Default topic resources are not allowed.",
        ),
        (3, "x", vec![("a", SET, Some("1"))], 42, "Unknown resource type 3"),
        (16, "", vec![("interval.ms", SET, Some("100"))], 42, "Subscription name can't be empty"),
        (
            32,
            "",
            vec![("consumer.session.timeout.ms", SET, Some("46000"))],
            42,
            "Default group resources are not allowed.",
        ),
        (
            4,
            "",
            vec![("min.insync.replicas", DELETE, None)],
            40,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
        (
            4,
            "1",
            vec![("min.insync.replicas", SET, Some("1"))],
            40,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
    ] {
        assert_eq!(bed.inc(kind, name, &changes), (code, message.to_owned()), "{changes:?}");
    }
    assert_eq!(bed.topic_configs(), ["retention.ms=100"]);
    assert_eq!(bed.inc(32, "g", &[("consumer.session.timeout.ms", SET, Some("46000"))]), ok());
    assert_eq!(bed.inc(16, "sub", &[("metrics", SET, Some("a,b"))]), ok());
    assert_eq!(bed.inc(4, "1", &[("log.cleaner.threads", SET, Some("2"))]), ok());
}

#[test]
fn lists_grow_and_shrink_from_their_default() {
    let mut bed = bed();
    assert_eq!(bed.inc(2, "ok_1", &[("cleanup.policy", APPEND, Some("compact"))]), ok());
    assert_eq!(bed.topic_configs(), ["cleanup.policy=delete,compact"]);
    assert_eq!(bed.inc(2, "ok_1", &[("cleanup.policy", APPEND, Some("compact"))]), ok());
    assert_eq!(bed.inc(2, "ok_1", &[("cleanup.policy", SUBTRACT, Some("delete"))]), ok());
    assert_eq!(bed.topic_configs(), ["cleanup.policy=compact"]);
    assert_eq!(bed.inc(2, "ok_1", &[("cleanup.policy", DELETE, None)]), ok());
    assert!(bed.topic_configs().is_empty());
}

#[test]
fn replacement_removes_what_it_does_not_name() {
    let mut bed = bed();
    bed.inc(2, "ok_1", &[("retention.ms", SET, Some("1")), ("segment.ms", SET, Some("5"))]);
    assert_eq!(bed.alt(2, "ok_1", &[("segment.ms", Some("6"))]), ok());
    assert_eq!(bed.topic_configs(), ["segment.ms=6"]);
    assert_eq!(
        bed.alt(2, "ok_1", &[("nope", Some("55"))]),
        (40, "Unknown topic config name: nope".to_owned())
    );
    assert_eq!(
        bed.alt(2, "ok_1", &[("retention.ms", None)]),
        (42, "Null value not supported for : retention.ms".to_owned())
    );
    assert_eq!(bed.topic_configs(), ["segment.ms=6"]);
    assert_eq!(bed.alt(2, "ok_1", &[]), ok());
    assert!(bed.topic_configs().is_empty());
}

#[test]
fn change_of_the_minimum_isr_starts_eligibility_anew() {
    let bed = bed();
    let mut bed = bed;
    let resource = inc::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(StrBytes::from_static_str("ok_1"))
        .with_configs(vec![
            inc::AlterableConfig::default()
                .with_name(StrBytes::from_static_str("min.insync.replicas"))
                .with_value(Some(StrBytes::from_static_str("3"))),
        ]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource.clone()]);
    let records = bed.decide(|c, _, _| incremental(c, &request)).records;
    assert!(matches!(&records[..], [MetadataRecord::Config(_), MetadataRecord::ClearElr(clear)]
        if clear.topic_name == "ok_1"));
    // A resource that is named twice is refused twice; a validation writes nothing.
    let twice = IncrementalAlterConfigsRequest::default()
        .with_resources(vec![resource.clone(), resource.clone()]);
    let decision = bed.decide(|c, _, _| incremental(c, &twice));
    assert!(decision.records.is_empty());
    assert!(decision.response.responses.iter().all(|row| row.error_code == 42));
    let mut only = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    only.resources[0].configs[0].value = Some(StrBytes::from_static_str("4"));
    only.validate_only = true;
    assert!(bed.decide(|c, _, _| incremental(c, &only)).records.is_empty());
}
