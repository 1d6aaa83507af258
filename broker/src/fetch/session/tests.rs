use super::*;
use protocol_compat::hot::TopicSpan;
use protocol_compat::ids::Offset;

fn partition(index: i32) -> FetchPartition {
    FetchPartition {
        partition: PartitionIndex(index),
        current_leader_epoch: None,
        fetch_offset: Offset(0),
        last_fetched_epoch: None,
        log_start_offset: -1,
        partition_max_bytes: 1 << 20,
        replica_directory_id: None,
        high_watermark: None,
    }
}

fn request(id: i32, epoch: i32, indexes: &[i32]) -> FetchRequest {
    let topic = TopicRef::Name(StrBytes::from_static_str("t"));
    FetchRequest {
        cluster_id: None,
        replica_id: None,
        replica_epoch: None,
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: i32::MAX,
        isolation_level: 0,
        session_id: id,
        session_epoch: epoch,
        topics: vec![TopicSpan { topic, partitions: 0..indexes.len() }],
        partitions: indexes.iter().map(|&index| partition(index)).collect(),
        forgotten: Vec::new(),
        rack_id: StrBytes::from_static_str(""),
    }
}

fn answer(index: i32, high_watermark: i64, bytes: u32) -> FetchPartitionResponse {
    FetchPartitionResponse {
        partition: PartitionIndex(index),
        error_code: ErrorCode::None,
        high_watermark,
        last_stable_offset: -1,
        log_start_offset: 0,
        diverging_epoch: None,
        current_leader: None,
        snapshot_id: None,
        aborted_transactions: None,
        preferred_read_replica: -1,
        records_size_bytes: Some(bytes),
    }
}

fn begun(sessions: &mut Sessions, now: Instant) -> i32 {
    let (context, planned) = sessions.open(12, &request(0, 0, &[0, 1]), now).expect("full");
    assert_eq!(context, Context::Full);
    sessions.begin(12, &planned, &[answer(0, 5, 10), answer(1, 5, 0)], now)
}

#[test]
fn an_incremental_answer_has_only_what_changed() {
    let now = crate::core::reactor::monotonic();
    let mut sessions = Sessions::new(CoreId(0), 10);
    let id = begun(&mut sessions, now);
    assert!(id > 0);
    let (context, planned) = sessions.open(12, &request(id, 1, &[]), now).expect("known");
    assert_eq!((context, planned.len()), (Context::Incremental { id }, 2));
    let selected = sessions.select(id, &[answer(0, 5, 0), answer(1, 6, 0)]);
    assert_eq!(selected, [false, true]);
    let selected = sessions.select(id, &[answer(0, 5, 0), answer(1, 6, 0)]);
    assert_eq!(selected, [false, false]);
}

#[test]
fn a_partition_with_an_error_is_told_again_when_the_error_is_over() {
    let now = crate::core::reactor::monotonic();
    let mut sessions = Sessions::new(CoreId(0), 10);
    let id = begun(&mut sessions, now);
    let mut failed = answer(0, -1, 0);
    failed.error_code = ErrorCode::NotLeaderOrFollower;
    assert_eq!(sessions.select(id, &[failed, answer(1, 5, 0)]), [true, false]);
    assert_eq!(sessions.select(id, &[answer(0, 5, 0), answer(1, 5, 0)]), [true, false]);
}

#[test]
fn partitions_that_gave_records_go_to_the_end() {
    let now = crate::core::reactor::monotonic();
    let mut sessions = Sessions::new(CoreId(0), 10);
    let id = begun(&mut sessions, now);
    sessions.open(12, &request(id, 1, &[]), now).expect("known");
    sessions.select(id, &[answer(0, 5, 100), answer(1, 5, 0)]);
    let (_, planned) = sessions.open(12, &request(id, 2, &[]), now).expect("known");
    let order: Vec<_> = planned.iter().map(|planned| planned.partition.partition.0).collect();
    assert_eq!(order, [1, 0]);
}

#[test]
fn wrong_ids_and_epochs_have_their_codes() {
    let now = crate::core::reactor::monotonic();
    let mut sessions = Sessions::new(CoreId(0), 10);
    let id = begun(&mut sessions, now);
    let unknown = sessions.open(12, &request(id ^ 1, 1, &[]), now);
    assert_eq!(unknown.expect_err("unknown"), ErrorCode::FetchSessionIdNotFound);
    let epoch = sessions.open(12, &request(id, 7, &[]), now);
    assert_eq!(epoch.expect_err("epoch"), ErrorCode::InvalidFetchSessionEpoch);
    let mixed = sessions.open(13, &request(id, 1, &[]), now);
    assert_eq!(mixed.expect_err("mixed"), ErrorCode::FetchSessionTopicIdError);
}

#[test]
fn a_final_epoch_ends_the_session() {
    let now = crate::core::reactor::monotonic();
    let mut sessions = Sessions::new(CoreId(0), 10);
    let id = begun(&mut sessions, now);
    let (context, _) = sessions.open(12, &request(id, -1, &[0]), now).expect("final");
    assert_eq!(context, Context::Sessionless);
    assert_eq!(sessions.len(), 0);
}

#[test]
fn a_session_whose_last_partition_is_forgotten_ends() {
    let now = crate::core::reactor::monotonic();
    let mut sessions = Sessions::new(CoreId(0), 10);
    let id = begun(&mut sessions, now);
    let mut last = request(id, 1, &[]);
    last.forgotten = vec![protocol_compat::hot::fetch_request::ForgottenTopic {
        topic: TopicRef::Name(StrBytes::from_static_str("t")),
        partitions: vec![PartitionIndex(0), PartitionIndex(1)],
    }];
    let (context, planned) = sessions.open(12, &last, now).expect("known");
    assert_eq!((context, planned.len(), sessions.len()), (Context::Sessionless, 0, 0));
}

#[test]
fn a_full_cache_gives_no_session_until_one_is_old() {
    let now = crate::core::reactor::monotonic();
    let mut sessions = Sessions::new(CoreId(0), 1);
    assert!(begun(&mut sessions, now) > 0);
    assert_eq!(begun(&mut sessions, now + Duration::from_secs(60)), 0);
    assert!(begun(&mut sessions, now + Duration::from_secs(121)) > 0);
}
