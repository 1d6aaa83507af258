//! Configs of client metrics subscriptions (KIP-714).

use super::{ConfigDef, Kind, Valid, def};

/// The table, in order of names; what is not shown to clients is marked internal.
pub const CLIENT_METRICS: &[ConfigDef] = &[
    def("interval.ms", Kind::Int, Some("300000"), Valid::Any, &[]),
    def("match", Kind::List, Some(""), Valid::Any, &[]),
    def("metrics", Kind::List, Some(""), Valid::Any, &[]),
];
