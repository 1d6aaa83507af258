//! Settings of the group coordinator, by Kafka's names.

use std::time::Duration;

/// Settings of the group coordinator; read-only while the broker runs, as in Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`, 6 s: a shorter `session.timeout.ms` is refused with 26.
    pub session_timeout_min: Duration,
    /// `group.max.session.timeout.ms`, 30 min: a longer `session.timeout.ms` is refused with 26.
    pub session_timeout_max: Duration,
    /// `group.initial.rebalance.delay.ms`, 3 s: how long the first rebalance of an empty group waits for more members.
    pub initial_rebalance_delay: Duration,
    /// `group.max.size`, unlimited: members of a group above it are refused with 81.
    pub size_max: usize,
    /// Five minutes in Kafka, not a setting: how long a new member may wait in its first JoinGroup.
    pub new_member_join_timeout: Duration,
    /// `offset.metadata.max.bytes`, 4096: longer commit metadata is refused with 12. Counted as Kafka does, in UTF-16 units.
    pub offset_metadata_max: usize,
    /// `offsets.retention.minutes`, 7 days: how long offsets outlive their group's last use.
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`, 10 min.
    pub offsets_retention_check_interval: Duration,
    /// Groups that one shard holds at most (Kelda's own bound). A request that would make one more is refused with
    /// `POLICY_VIOLATION`; existing groups go on.
    pub groups_max: usize,
    /// Members, also pending ones, of all groups of one shard at most (Kelda's own bound), refused with
    /// `GROUP_MAX_SIZE_REACHED`.
    pub members_max: usize,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            session_timeout_min: Duration::from_millis(6_000),
            session_timeout_max: Duration::from_millis(1_800_000),
            initial_rebalance_delay: Duration::from_millis(3_000),
            size_max: 2_147_483_647,
            new_member_join_timeout: Duration::from_secs(5 * 60),
            offset_metadata_max: 4_096,
            offsets_retention: Duration::from_secs(10_080 * 60),
            offsets_retention_check_interval: Duration::from_millis(600_000),
            groups_max: 100_000,
            members_max: 200_000,
        }
    }
}
