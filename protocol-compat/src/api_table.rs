//! The APIs that are served, in which versions: one table for the router and for ApiVersions. What is not here is neither
//! advertised nor answered.

/// One API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApiRow {
    /// Its key.
    pub key: i16,
    /// Its name.
    pub name: &'static str,
    /// The oldest version served.
    pub min: i16,
    /// The newest version served.
    pub max: i16,
    /// The oldest version advertised: older than `min` only where an old librdkafka looks for it.
    pub advertised_min: i16,
    /// The first version with compact fields, tagged fields and the newer headers.
    pub flexible_since: i16,
    /// The newest version of requests that the kafka-protocol crate reads; what later ones add is read by [`crate::codec`].
    pub request_max: i16,
    /// The newest version of answers that can be written as their own; later ones up to `max` are the same.
    pub response_max: i16,
}

impl ApiRow {
    /// Whether a version is served.
    #[must_use]
    pub fn supports(&self, version: i16) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// Whether a version has compact and tagged fields.
    #[must_use]
    pub fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_since
    }
}

/// Key of ApiVersions, whose answers always have the oldest header: a client reads them before it knows any version.
pub const API_VERSIONS: i16 = 18;

const fn row(key: i16, name: &'static str, min: i16, max: i16, flexible_since: i16) -> ApiRow {
    ApiRow {
        key,
        name,
        min,
        max,
        advertised_min: min,
        flexible_since,
        request_max: max,
        response_max: max,
    }
}

/// All APIs, by key.
pub const TABLE: &[ApiRow] = &[
    // librdkafka up to 2.x takes compression from the presence of Produce v0.
    ApiRow { advertised_min: 0, ..row(0, "Produce", 3, 13, 9) },
    row(1, "Fetch", 4, 18, 12),
    // Version 11 adds a special timestamp and no field.
    ApiRow { request_max: 10, response_max: 10, ..row(2, "ListOffsets", 1, 11, 6) },
    row(3, "Metadata", 0, 13, 9),
    // The crate has answers of version 10, but not its requests: see `codec::newer`.
    ApiRow { request_max: 9, ..row(8, "OffsetCommit", 2, 10, 8) },
    ApiRow { request_max: 9, ..row(9, "OffsetFetch", 1, 10, 6) },
    row(10, "FindCoordinator", 0, 6, 3),
    row(11, "JoinGroup", 0, 9, 6),
    row(12, "Heartbeat", 0, 4, 4),
    row(13, "LeaveGroup", 0, 5, 4),
    row(14, "SyncGroup", 0, 5, 4),
    row(15, "DescribeGroups", 0, 6, 5),
    row(16, "ListGroups", 0, 5, 3),
    // Version 5 adds fields to requests that are of no use here, and none to answers.
    ApiRow { request_max: 4, response_max: 4, ..row(API_VERSIONS, "ApiVersions", 0, 5, 3) },
    row(19, "CreateTopics", 2, 7, 5),
    row(20, "DeleteTopics", 1, 6, 4),
    row(21, "DeleteRecords", 0, 2, 2),
    row(22, "InitProducerId", 0, 5, 2),
    row(23, "OffsetForLeaderEpoch", 2, 4, 4),
    row(32, "DescribeConfigs", 1, 4, 4),
    row(33, "AlterConfigs", 0, 2, 2),
    // The answers of the newest version have a field more: see `codec::newer`.
    ApiRow { request_max: 4, ..row(35, "DescribeLogDirs", 1, 5, 2) },
    row(37, "CreatePartitions", 0, 3, 2),
    ApiRow { request_max: 2, ..row(42, "DeleteGroups", 0, 3, 2) },
    row(44, "IncrementalAlterConfigs", 0, 1, 1),
    row(60, "DescribeCluster", 0, 2, 0),
    row(75, "DescribeTopicPartitions", 0, 0, 0),
];

/// The API with this key, if it is served.
#[must_use]
pub fn lookup(key: i16) -> Option<&'static ApiRow> {
    TABLE.iter().find(|row| row.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_rise_and_ranges_are_sound() {
        assert!(TABLE.windows(2).all(|pair| pair[0].key < pair[1].key));
        for row in TABLE {
            assert!(row.min <= row.max && row.advertised_min <= row.min, "{}", row.name);
            assert!(row.request_max <= row.max && row.response_max <= row.max, "{}", row.name);
        }
    }
}
