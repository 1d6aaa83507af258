//! Fetch (1), v4 to v18. KIP-74 (limits), KIP-227 (sessions), KIP-320 (epochs), KIP-516 (topic ids), KIP-951.
//!
//! Reads at once; where that gives fewer than `min_bytes` and no error, watches the partitions and reads those that have
//! news until there are enough bytes or `max_wait_ms` is over.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use protocol_compat::ErrorCode;
use protocol_compat::hot::TopicSpan;
use protocol_compat::hot::fetch_request::FetchRequest;
use protocol_compat::hot::fetch_response::{Chunk, FetchPartitionResponse, FetchResponse, encode};
use tokio::time::Instant;

use super::RequestHeader;
use crate::core::Core;
use crate::fetch::assemble::trim;
use crate::fetch::read::{PollFor, Read, ReadRules, read, unwatch};
use crate::fetch::session::{Context, Planned};
use crate::metadata;
use crate::net::connection::{CloseReason, Connection};
use crate::replica::waiters::{Poll, PollRef};

/// Answers a request.
///
/// # Errors
/// A body that is no Fetch request ends the connection.
pub async fn handle(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    header: &RequestHeader,
    body: Bytes,
) -> Result<(), CloseReason> {
    let version = header.api_version;
    let request = FetchRequest::parse(version, body)
        .map_err(|error| CloseReason::BadRequest(format!("Fetch v{version}: {error}")))?;
    let place = connection.reserve();
    let opened = core.sessions.borrow_mut().open(version, &request, core.now());
    let (response, reads) = match opened {
        Ok((context, planned)) => {
            answer(core, connection, version, &request, context, &planned).await
        }
        Err(code) => (empty(code), Vec::new()),
    };
    let chunks = encode(version, header.correlation_id, &response)
        .map_err(|error| CloseReason::BadRequest(format!("Fetch v{version} answer: {error}")))?;
    connection.complete(core, place, |out| {
        for chunk in chunks {
            match chunk {
                Chunk::Bytes(bytes) => out.push_bytes(bytes),
                Chunk::Records(at) => {
                    if let Some(slice) = reads.get(at).and_then(|read| read.slice.as_ref()) {
                        out.push_file(slice.file.clone(), slice.pos, slice.len);
                    }
                }
            }
        }
    });
    Ok(())
}

fn empty(error_code: ErrorCode) -> FetchResponse {
    FetchResponse {
        throttle_time_ms: 0,
        error_code,
        session_id: 0,
        topics: Vec::new(),
        partitions: Vec::new(),
        node_endpoints: Vec::new(),
    }
}

async fn answer(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    version: i16,
    request: &FetchRequest,
    context: Context,
    planned: &[Planned],
) -> (FetchResponse, Vec<Read>) {
    let max_bytes =
        u32::try_from(request.max_bytes).unwrap_or(0).min(core.config().fetch_max_bytes);
    let rules = ReadRules {
        read_committed: request.isolation_level == 1,
        max_bytes,
        from_follower: request.replica_id.is_some_and(|id| id.0 >= 0),
    };
    let mut reads = vec![Read::failed(ErrorCode::UnknownServerError); planned.len()];
    let all = 0..u32::try_from(planned.len()).unwrap_or(u32::MAX);
    read(core, planned, all.clone(), rules, None, &mut reads).await;
    let min_bytes = u64::try_from(request.min_bytes).unwrap_or(0);
    let wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
    if wait > 0 && !planned.is_empty() && !is_enough(&reads, min_bytes) {
        let deadline = Instant::now() + Duration::from_millis(wait);
        let poll = Rc::new(Poll::default());
        let number = core.polls.register(&poll);
        let poll_for = PollFor { local: PollRef::Local(Rc::clone(&poll)), number };
        // Watching begins with a read in the same step, so that nothing is missed in between.
        read(core, planned, all.clone(), rules, Some(&poll_for), &mut reads).await;
        while !is_enough(&reads, min_bytes) {
            let Ok(changed) = tokio::time::timeout_at(deadline, poll.changed()).await else {
                break;
            };
            match changed {
                Some(numbers) => {
                    let numbers = numbers.into_iter();
                    read(core, planned, numbers, rules, Some(&poll_for), &mut reads).await;
                }
                None => {
                    read(core, planned, all.clone(), rules, Some(&poll_for), &mut reads).await;
                }
            }
        }
        unwatch(core, planned, &poll_for);
    }
    let limits = planned
        .iter()
        .map(|planned| u32::try_from(planned.partition.partition_max_bytes).unwrap_or(0));
    trim(&mut reads, limits, max_bytes);
    let mut partitions: Vec<_> = planned
        .iter()
        .zip(&mut reads)
        .map(|(planned, read)| partition_answer(planned, read))
        .collect();
    let mut planned_out: Vec<&Planned> = planned.iter().collect();
    let session_id = match context {
        Context::Sessionless => 0,
        Context::Full => {
            core.sessions.borrow_mut().begin(version, planned, &partitions, core.now())
        }
        Context::Incremental { id } => {
            let selected = core.sessions.borrow_mut().select(id, &partitions);
            keep(&mut partitions, &selected);
            keep(&mut reads, &selected);
            keep(&mut planned_out, &selected);
            id
        }
    };
    let mut response = FetchResponse {
        throttle_time_ms: 0,
        error_code: ErrorCode::None,
        session_id,
        topics: spans(&planned_out),
        partitions,
        node_endpoints: Vec::new(),
    };
    metadata::name_fetch_leaders(core, &connection.peer, version, &planned_out, &mut response);
    (response, reads)
}

fn is_enough(reads: &[Read], min_bytes: u64) -> bool {
    let mut bytes = 0;
    for read in reads {
        if read.error != ErrorCode::None || read.diverging_epoch.is_some() {
            return true;
        }
        bytes += u64::from(read.size_bytes());
    }
    bytes >= min_bytes
}

fn partition_answer(planned: &Planned, read: &mut Read) -> FetchPartitionResponse {
    FetchPartitionResponse {
        partition: planned.partition.partition,
        error_code: read.error,
        high_watermark: read.high_watermark,
        last_stable_offset: read.last_stable_offset,
        log_start_offset: read.log_start_offset,
        diverging_epoch: read.diverging_epoch,
        current_leader: None,
        snapshot_id: None,
        aborted_transactions: read.aborted.take(),
        preferred_read_replica: -1,
        records_size_bytes: Some(read.size_bytes()),
    }
}

fn keep<T>(list: &mut Vec<T>, selected: &[bool]) {
    let mut selected = selected.iter();
    list.retain(|_| selected.next().copied().unwrap_or(true));
}

/// Neighbours of one topic share an entry.
fn spans(planned: &[&Planned]) -> Vec<TopicSpan> {
    let mut spans: Vec<TopicSpan> = Vec::new();
    for (at, planned) in planned.iter().enumerate() {
        match spans.last_mut() {
            Some(last) if last.topic == planned.topic => last.partitions.end = at + 1,
            _ => spans.push(TopicSpan { topic: planned.topic.clone(), partitions: at..at + 1 }),
        }
    }
    spans
}
