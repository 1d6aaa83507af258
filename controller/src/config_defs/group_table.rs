//! Configs of groups: Apache Kafka 4.4.0's `GroupConfig`.

use super::{ConfigDef, Kind, Valid, def};

/// The table, in order of names; what is not shown to clients is marked internal.
pub const GROUP: &[ConfigDef] = &[
    def("consumer.assignment.interval.ms", Kind::Int, Some("1000"), Valid::AtLeast(0), &[]),
    def("consumer.assignor.offload.enable", Kind::Boolean, Some("true"), Valid::Any, &[])
        .internal(),
    def("consumer.heartbeat.interval.ms", Kind::Int, Some("5000"), Valid::AtLeast(1), &[]),
    def("consumer.session.timeout.ms", Kind::Int, Some("45000"), Valid::AtLeast(1), &[]),
    def("errors.deadletterqueue.copy.record.enable", Kind::Boolean, Some("false"), Valid::Any, &[]),
    def("errors.deadletterqueue.topic.name", Kind::String, Some(""), Valid::Any, &[]),
    def("share.assignment.interval.ms", Kind::Int, Some("1000"), Valid::AtLeast(0), &[]),
    def("share.assignor.offload.enable", Kind::Boolean, Some("true"), Valid::Any, &[]).internal(),
    def("share.auto.offset.reset", Kind::String, Some("latest"), Valid::OffsetReset, &[]),
    def("share.delivery.count.limit", Kind::Int, Some("5"), Valid::AtLeast(2), &[]),
    def("share.heartbeat.interval.ms", Kind::Int, Some("5000"), Valid::AtLeast(1), &[]),
    def(
        "share.isolation.level",
        Kind::String,
        Some("read_uncommitted"),
        Valid::OneOf(&["read_committed", "read_uncommitted"]),
        &[],
    ),
    def("share.partition.max.record.locks", Kind::Int, Some("2000"), Valid::AtLeast(100), &[]),
    def("share.record.lock.duration.ms", Kind::Int, Some("30000"), Valid::AtLeast(1000), &[]),
    def("share.renew.acknowledge.enable", Kind::Boolean, Some("true"), Valid::Any, &[]),
    def("share.session.timeout.ms", Kind::Int, Some("45000"), Valid::AtLeast(1), &[]),
    def("streams.acceptable.recovery.lag", Kind::Long, Some("10000"), Valid::AtLeast(0), &[])
        .internal(),
    def("streams.assignment.interval.ms", Kind::Int, Some("1000"), Valid::AtLeast(0), &[]),
    def("streams.assignor.name", Kind::String, None, Valid::Any, &[]),
    def("streams.assignor.offload.enable", Kind::Boolean, Some("true"), Valid::Any, &[]).internal(),
    def("streams.heartbeat.interval.ms", Kind::Int, Some("5000"), Valid::AtLeast(1), &[]),
    def("streams.initial.rebalance.delay.ms", Kind::Int, Some("3000"), Valid::AtLeast(0), &[]),
    def("streams.num.standby.replicas", Kind::Int, Some("0"), Valid::AtLeast(0), &[]),
    def("streams.num.warmup.replicas", Kind::Int, Some("2"), Valid::AtLeast(0), &[]).internal(),
    def("streams.rack.aware.assignment.tags", Kind::List, Some(""), Valid::Any, &[]),
    def("streams.session.timeout.ms", Kind::Int, Some("45000"), Valid::AtLeast(1), &[]),
    def("streams.task.offset.interval.ms", Kind::Int, Some("60000"), Valid::AtLeast(1), &[])
        .internal(),
];
