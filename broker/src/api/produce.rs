//! Produce (0), v3 to v13. KIP-98 (idempotence), KIP-467 (record errors), KIP-516 (topic ids), KIP-951 (leaders in answers).
//!
//! Two stages. [`handle`] appends to the partitions of this core and sends the others to their owners, in request order; the
//! answer leaves when every partition has told its outcome ([`AppendTarget::finish`]), or at `timeout.ms`.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol_compat::ErrorCode;
use protocol_compat::batch::produce::{ProduceRules, check};
use protocol_compat::batch::{BatchError, RecordError};
use protocol_compat::hot::produce::{
    ProducePartitionResponse, ProduceRequestView, ProduceResponse, encode_response,
};
use protocol_compat::hot::{TopicRef, TopicSpan};
use protocol_compat::ids::{PartitionIndex, TopicId};
use storage::log::{AppendError, Appended};

use super::RequestHeader;
use crate::core::Core;
use crate::core::placement::CoreId;
use crate::metadata;
use crate::net::connection::{CloseReason, Connection};
use crate::net::replies::PlaceId;
use crate::partitions::{self, Partition, Place, Topic};
use crate::replica::Acks;

/// Why a partition's records were not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProduceError {
    code: ErrorCode,
    message: Option<Cow<'static, str>>,
    record_errors: Vec<RecordError>,
}

impl From<ErrorCode> for ProduceError {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None, record_errors: Vec::new() }
    }
}

impl From<BatchError> for ProduceError {
    fn from(error: BatchError) -> Self {
        Self {
            code: error.code,
            message: Some(Cow::Owned(error.message)),
            record_errors: error.record_errors,
        }
    }
}

impl ProduceError {
    /// The answer to a refused append.
    #[must_use]
    pub fn from_append(error: &AppendError) -> Self {
        Self {
            code: error.code(),
            message: Some(Cow::Owned(error.to_string())),
            record_errors: Vec::new(),
        }
    }

    fn text(code: ErrorCode, message: &'static str) -> Self {
        Self { code, message: Some(Cow::Borrowed(message)), record_errors: Vec::new() }
    }
}

/// Whom the outcome of an append is told.
#[derive(Debug)]
pub enum AppendTarget {
    /// A request on this core.
    Local {
        /// The request.
        pending: Rc<PendingProduce>,
        /// Which of its partitions.
        at: u32,
    },
    /// A request on another core.
    Remote {
        /// That core.
        core: CoreId,
        /// Its number for the request.
        request: u64,
        /// Which of its partitions.
        at: u32,
    },
}

impl AppendTarget {
    /// Tells the outcome.
    pub fn finish(self, core: &Rc<Core>, result: Result<Appended, ProduceError>) {
        match self {
            Self::Local { pending, at } => pending.set(core, at, result),
            Self::Remote { core: to, request, at } => {
                core.remote.push_outcome(to, Outcome { request, at, result });
                core.turn.wake();
            }
        }
    }
}

/// A Produce request whose partitions have not all told their outcome.
#[derive(Debug)]
pub struct PendingProduce {
    connection: Rc<Connection>,
    place: PlaceId,
    version: i16,
    correlation_id: i32,
    acks: Acks,
    /// When the rest is answered with REQUEST_TIMED_OUT.
    pub deadline: Instant,
    remaining: Cell<u32>,
    size_bytes: usize,
    response: RefCell<ProduceResponse>,
}

impl PendingProduce {
    fn set(self: &Rc<Self>, core: &Rc<Core>, at: u32, result: Result<Appended, ProduceError>) {
        let remaining = self.remaining.get();
        if remaining == 0 {
            // Timed out before.
            return;
        }
        if let Some(partition) = self.response.borrow_mut().partitions.get_mut(at as usize) {
            fill(partition, result);
        }
        self.remaining.set(remaining - 1);
        if remaining == 1 {
            self.answer(core);
        }
    }

    /// Answers with what is known; the rest keeps REQUEST_TIMED_OUT, with which it began.
    pub fn time_out(self: &Rc<Self>, core: &Rc<Core>) {
        if self.remaining.replace(0) > 0 {
            self.answer(core);
        }
    }

    fn answer(self: &Rc<Self>, core: &Rc<Core>) {
        core.in_flight.remove(self.size_bytes);
        let mut response = self.response.borrow_mut();
        if self.acks == Acks::None {
            let failed = response.partitions.iter().find(|p| p.error_code != ErrorCode::None);
            if let Some(partition) = failed {
                // There is no answer that could tell: the producer sees the connection end and asks for metadata.
                tracing::info!(
                    peer = %self.connection.peer.address, code = partition.error_code.name(),
                    "a request with acks=0 failed: closing the connection"
                );
                self.connection.close();
            }
            return;
        }
        metadata::name_leaders(core, &self.connection.peer, self.version, &mut response);
        self.connection.complete(core, self.place, |out| {
            let result =
                encode_response(self.version, self.correlation_id, &response, out.buffer());
            if let Err(error) = result {
                tracing::error!(%error, "a Produce answer cannot be encoded");
                self.connection.close();
            }
        });
    }
}

fn fill(partition: &mut ProducePartitionResponse, result: Result<Appended, ProduceError>) {
    match result {
        Ok(appended) => {
            partition.error_code = ErrorCode::None;
            partition.base_offset = appended.base_offset.0;
            partition.log_append_time_ms = appended.log_append_time.map_or(-1, |time| time.0);
            partition.log_start_offset = appended.log_start_offset.0;
        }
        Err(error) => {
            partition.error_code = error.code;
            partition.error_message = error.message;
            partition.record_errors = error.record_errors;
        }
    }
}

fn unanswered(index: PartitionIndex) -> ProducePartitionResponse {
    ProducePartitionResponse {
        index,
        error_code: ErrorCode::RequestTimedOut,
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        record_errors: Vec::new(),
        error_message: None,
        current_leader: None,
    }
}

/// Records for a partition of another core.
#[derive(Debug)]
struct RemotePart {
    topic: TopicId,
    index: PartitionIndex,
    at: u32,
    records: Bytes,
}

/// What an owner tells about a part of another core's request.
#[derive(Debug)]
pub struct Outcome {
    request: u64,
    at: u32,
    result: Result<Appended, ProduceError>,
}

/// Requests of this core that wait for other cores, and what this core has to tell others.
#[derive(Debug, Default)]
pub struct RemoteProduces {
    next: Cell<u64>,
    waiting: RefCell<HashMap<u64, (Rc<PendingProduce>, u32)>>,
    outcomes: RefCell<Vec<(CoreId, Vec<Outcome>)>>,
}

impl RemoteProduces {
    fn register(&self, pending: Rc<PendingProduce>, parts: u32) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        self.waiting.borrow_mut().insert(number, (pending, parts));
        number
    }

    fn push_outcome(&self, to: CoreId, outcome: Outcome) {
        let mut outcomes = self.outcomes.borrow_mut();
        match outcomes.iter_mut().find(|(core, _)| *core == to) {
            Some((_, list)) => list.push(outcome),
            None => outcomes.push((to, vec![outcome])),
        }
    }

    /// Sends what this turn has to tell, one message for each core.
    pub fn flush(&self, core: &Rc<Core>) {
        let mut outcomes = self.outcomes.borrow_mut();
        for (to, list) in outcomes.iter_mut() {
            if !list.is_empty() {
                let list = std::mem::take(list);
                core.shared.mailbox(*to).answer(move |core| receive_outcomes(core, list));
            }
        }
    }
}

fn receive_outcomes(core: &Rc<Core>, outcomes: Vec<Outcome>) {
    for Outcome { request, at, result } in outcomes {
        let pending = {
            let mut waiting = core.remote.waiting.borrow_mut();
            let Some((pending, parts)) = waiting.get_mut(&request) else { continue };
            let pending = Rc::clone(pending);
            *parts -= 1;
            if *parts == 0 {
                waiting.remove(&request);
            }
            pending
        };
        pending.set(core, at, result);
    }
}

/// Takes a request.
///
/// # Errors
/// A body that is no Produce request ends the connection, as in Kafka.
pub fn handle(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    header: &RequestHeader,
    body: Bytes,
) -> Result<(), CloseReason> {
    let version = header.api_version;
    let size_bytes = body.len();
    let request = ProduceRequestView::parse(version, body)
        .map_err(|error| CloseReason::BadRequest(format!("Produce v{version}: {error}")))?;
    let acks = match request.acks {
        0 => Some(Acks::None),
        1 => Some(Acks::Leader),
        -1 => Some(Acks::All),
        _ => None,
    };
    let pending = Rc::new(PendingProduce {
        connection: Rc::clone(connection),
        place: connection.next_place(),
        version,
        correlation_id: header.correlation_id,
        acks: acks.unwrap_or(Acks::Leader),
        deadline: core.now()
            + Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0)),
        // One more, taken back at the end, so that the answer cannot leave before all parts are sent.
        remaining: Cell::new(u32::try_from(request.partitions.len()).unwrap_or(u32::MAX - 1) + 1),
        size_bytes,
        response: RefCell::new(ProduceResponse {
            partitions: request.partitions.iter().map(|part| unanswered(part.index)).collect(),
            topics: Vec::new(),
            throttle_time_ms: 0,
            node_endpoints: Vec::new(),
        }),
    });
    core.in_flight.add(size_bytes);
    if acks != Some(Acks::None) {
        connection.reserve_produce(Rc::clone(&pending));
    }
    let mut remote: Vec<(CoreId, Vec<RemotePart>)> = Vec::new();
    let mut parts = request.partitions.into_iter();
    for span in &request.topics {
        let topic = resolve(core, span, header.client_id.as_deref());
        let rules = topic.as_ref().ok().map(|topic| rules(core, topic, version));
        for (at, part) in span.partitions.clone().zip(parts.by_ref()) {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            let (topic, acks) = match (&topic, acks) {
                (Err(error), _) => {
                    pending.set(core, at, Err(error.clone()));
                    continue;
                }
                (Ok(_), None) => {
                    pending.set(core, at, Err(ErrorCode::InvalidRequiredAcks.into()));
                    continue;
                }
                (Ok(topic), Some(acks)) => (topic, acks),
            };
            let records = part.records.unwrap_or_default();
            let target = AppendTarget::Local { pending: Rc::clone(&pending), at };
            match (topic.place(part.index), &rules) {
                (Place::Online(partition), Some(rules)) => {
                    append_part(core, &partition, records, rules, acks, target);
                }
                (Place::Remote(owner), _) => {
                    let part = RemotePart { topic: topic.id, index: part.index, at, records };
                    match remote.iter_mut().find(|(core, _)| *core == owner) {
                        Some((_, list)) => list.push(part),
                        None => remote.push((owner, vec![part])),
                    }
                }
                (place, _) => target.finish(core, Err(place_error(&place).into())),
            }
        }
    }
    pending.response.borrow_mut().topics = request.topics;
    for (owner, list) in remote {
        send_remote(core, owner, list, &pending, acks.unwrap_or(Acks::Leader));
    }
    pending.release_handler(core);
    Ok(())
}

impl PendingProduce {
    /// All parts are on their way: from now on the last outcome answers.
    fn release_handler(self: &Rc<Self>, core: &Rc<Core>) {
        let remaining = self.remaining.get();
        if remaining == 0 {
            return;
        }
        self.remaining.set(remaining - 1);
        if remaining == 1 {
            self.answer(core);
        }
    }
}

fn send_remote(
    core: &Rc<Core>,
    owner: CoreId,
    list: Vec<RemotePart>,
    pending: &Rc<PendingProduce>,
    acks: Acks,
) {
    let places: Vec<u32> = list.iter().map(|part| part.at).collect();
    let request =
        core.remote.register(Rc::clone(pending), u32::try_from(places.len()).unwrap_or(0));
    let (from, version) = (core.id, pending.version);
    let sent = core.shared.mailbox(owner).request(move |core| {
        for RemotePart { topic, index, at, records } in list {
            let target = AppendTarget::Remote { core: from, request, at };
            let Some(topic) = core.partitions.topic_by_id(topic) else {
                target.finish(core, Err(ErrorCode::UnknownTopicOrPartition.into()));
                continue;
            };
            match topic.place(index) {
                Place::Online(partition) => {
                    let rules = rules(core, &topic, version);
                    append_part(core, &partition, records, &rules, acks, target);
                }
                place => target.finish(core, Err(place_error(&place).into())),
            }
        }
    });
    if sent.is_err() {
        core.remote.waiting.borrow_mut().remove(&request);
        for at in places {
            let busy = ProduceError::text(
                ErrorCode::RequestTimedOut,
                "the core that owns the partition is overloaded",
            );
            pending.set(core, at, Err(busy));
        }
    }
}

fn resolve(
    core: &Core,
    span: &TopicSpan,
    client_id: Option<&str>,
) -> Result<Rc<Topic>, ProduceError> {
    let topic = match &span.topic {
        TopicRef::Name(name) => core.partitions.topic_by_name(name),
        TopicRef::Id(id) => match core.partitions.topic_by_id(*id) {
            Some(topic) => Some(topic),
            None => return Err(ErrorCode::UnknownTopicId.into()),
        },
    };
    let topic = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if metadata::is_internal(&topic.name) && client_id != Some("__admin_client") {
        return Err(ProduceError {
            code: ErrorCode::InvalidTopicException,
            message: Some(Cow::Owned(format!("Cannot append to internal topic {}", topic.name))),
            record_errors: Vec::new(),
        });
    }
    Ok(topic)
}

fn rules(core: &Core, topic: &Topic, version: i16) -> ProduceRules {
    let config = topic.config();
    ProduceRules {
        api_version: version,
        max_message_bytes: config.max_message_bytes,
        timestamp_type: config.log.timestamp_type,
        timestamp_before_max_ms: config.timestamp_before_max_ms,
        timestamp_after_max_ms: config.timestamp_after_max_ms,
        compacted: config.log.cleanup_policy.compact,
        target_compression: config.compression,
        max_decompressed_bytes: core.config().socket_request_max_bytes.saturating_mul(4),
        now: core.wall_clock(),
    }
}

fn append_part(
    core: &Rc<Core>,
    partition: &Rc<Partition>,
    records: Bytes,
    rules: &ProduceRules,
    acks: Acks,
    target: AppendTarget,
) {
    if acks == Acks::All {
        let needed = partition.topic.config().min_insync_replicas;
        if partition.isr_count.get() < needed {
            target.finish(core, Err(ErrorCode::NotEnoughReplicas.into()));
            return;
        }
    }
    match check(records, rules) {
        Ok(batch) if batch.header.attributes.is_transactional() => {
            let refused = ProduceError::text(
                ErrorCode::InvalidTxnState,
                "transactions are not served by this release",
            );
            target.finish(core, Err(refused));
        }
        Ok(batch) => partitions::append(core, partition, batch, acks, target),
        Err(error) => target.finish(core, Err(error.into())),
    }
}

/// The code for a partition that is not led on this core.
#[must_use]
pub fn place_error(place: &Place) -> ErrorCode {
    match place {
        Place::Absent => ErrorCode::UnknownTopicOrPartition,
        Place::Offline => ErrorCode::KafkaStorageError,
        Place::NotLeader | Place::Opening | Place::Remote(_) | Place::Online(_) => {
            ErrorCode::NotLeaderOrFollower
        }
    }
}
