//! Fetch sessions (KIP-227): the broker remembers what a client fetches, and answers only what changed.
//!
//! A session belongs to the core of its connection. A client that reconnects to another core is answered
//! FETCH_SESSION_ID_NOT_FOUND and makes a new one, as after a restart.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use kafka_protocol::protocol::StrBytes;
use protocol_compat::ErrorCode;
use protocol_compat::hot::TopicRef;
use protocol_compat::hot::fetch_request::{FetchPartition, FetchRequest};
use protocol_compat::hot::fetch_response::FetchPartitionResponse;
use protocol_compat::ids::{PartitionIndex, TopicId};

use crate::core::placement::CoreId;

/// The epoch of a full request that may begin a session.
const INITIAL_EPOCH: i32 = 0;
/// The epoch of a full request outside sessions, which ends the session it names.
const FINAL_EPOCH: i32 = -1;
/// The first version that names topics by id.
const TOPIC_IDS_VERSION: i16 = 13;
/// `min.incremental.fetch.session.eviction.ms` of Kafka: a session that was used since is not evicted.
const EVICTION: Duration = Duration::from_secs(120);

/// How a topic is named; owned, so that a session holds no frame.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum TopicKey {
    Name(StrBytes),
    Id(TopicId),
}

impl TopicKey {
    fn owned(topic: &TopicRef) -> Self {
        match topic {
            TopicRef::Name(name) => Self::Name(StrBytes::from_string(name.to_string())),
            TopicRef::Id(id) => Self::Id(*id),
        }
    }

    fn to_ref(&self) -> TopicRef {
        match self {
            Self::Name(name) => TopicRef::Name(name.clone()),
            Self::Id(id) => TopicRef::Id(*id),
        }
    }
}

/// One partition to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planned {
    /// Its topic.
    pub topic: TopicRef,
    /// What is asked of it.
    pub partition: FetchPartition,
}

#[derive(Debug)]
struct Cached {
    partition: FetchPartition,
    /// As in the last answer that contained the partition; -1 makes the next answer contain it.
    high_watermark: i64,
    log_start_offset: i64,
}

#[derive(Debug)]
struct Session {
    epoch: i32,
    uses_topic_ids: bool,
    partitions: IndexMap<(TopicKey, PartitionIndex), Cached>,
    last_used: Instant,
}

impl Session {
    fn update(&mut self, request: &FetchRequest) {
        for forgotten in &request.forgotten {
            let topic = TopicKey::owned(&forgotten.topic);
            for &partition in &forgotten.partitions {
                self.partitions.shift_remove(&(topic.clone(), partition));
            }
        }
        for span in &request.topics {
            let topic = TopicKey::owned(&span.topic);
            for partition in request.partitions.get(span.partitions.clone()).unwrap_or_default() {
                self.partitions
                    .entry((topic.clone(), partition.partition))
                    .and_modify(|cached| cached.partition = *partition)
                    .or_insert(Cached {
                        partition: *partition,
                        high_watermark: -1,
                        log_start_offset: -1,
                    });
            }
        }
    }

    fn plan(&self) -> Vec<Planned> {
        let planned = self.partitions.iter().map(|((topic, _), cached)| Planned {
            topic: topic.to_ref(),
            partition: cached.partition,
        });
        planned.collect()
    }
}

/// The part that sessions play in one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// None: everything is answered.
    Sessionless,
    /// Everything is answered, and a session begins if there is room.
    Full,
    /// Only what changed is answered.
    Incremental {
        /// The session.
        id: i32,
    },
}

/// The sessions of one core.
#[derive(Debug)]
pub struct Sessions {
    sessions: HashMap<i32, Session>,
    slots: usize,
    core: CoreId,
    random: u64,
}

impl Sessions {
    /// No sessions; at most `slots` (`max.incremental.fetch.session.cache.slots`).
    #[must_use]
    pub fn new(core: CoreId, slots: usize) -> Self {
        // Ids need no secrecy, only to differ between starts and cores.
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), core);
        Self { sessions: HashMap::new(), slots, core, random }
    }

    /// What a request reads, and how its answer is made.
    ///
    /// # Errors
    /// The code of an answer without topics: unknown session, wrong epoch, names mixed with ids.
    pub fn open(
        &mut self,
        version: i16,
        request: &FetchRequest,
        now: Instant,
    ) -> Result<(Context, Vec<Planned>), ErrorCode> {
        if request.session_epoch == INITIAL_EPOCH || request.session_epoch == FINAL_EPOCH {
            self.sessions.remove(&request.session_id);
            let context = if request.session_epoch == FINAL_EPOCH {
                Context::Sessionless
            } else {
                Context::Full
            };
            return Ok((context, plan(request)));
        }
        let id = request.session_id;
        let session = self.sessions.get_mut(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.uses_topic_ids != (version >= TOPIC_IDS_VERSION) {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.update(request);
        if session.partitions.is_empty() {
            self.sessions.remove(&id);
            return Ok((Context::Sessionless, Vec::new()));
        }
        session.epoch = if session.epoch == i32::MAX { 1 } else { session.epoch + 1 };
        session.last_used = now;
        Ok((Context::Incremental { id }, session.plan()))
    }

    /// Begins a session after a full request; 0 when there is no room.
    pub fn begin(
        &mut self,
        version: i16,
        planned: &[Planned],
        answered: &[FetchPartitionResponse],
        now: Instant,
    ) -> i32 {
        if planned.is_empty() || !self.make_room(now) {
            return 0;
        }
        let mut session = Session {
            epoch: 1,
            uses_topic_ids: version >= TOPIC_IDS_VERSION,
            partitions: IndexMap::with_capacity(planned.len()),
            last_used: now,
        };
        for (planned, answer) in planned.iter().zip(answered) {
            let mut cached =
                Cached { partition: planned.partition, high_watermark: -1, log_start_offset: -1 };
            must_answer(&mut cached, answer);
            let key = (TopicKey::owned(&planned.topic), planned.partition.partition);
            session.partitions.insert(key, cached);
        }
        let id = self.new_id();
        self.sessions.insert(id, session);
        id
    }

    /// Which of the answers an incremental answer contains, and remembers what it tells.
    pub fn select(&mut self, id: i32, answers: &[FetchPartitionResponse]) -> Vec<bool> {
        let Some(session) = self.sessions.get_mut(&id) else { return vec![true; answers.len()] };
        let selected: Vec<bool> = session
            .partitions
            .values_mut()
            .zip(answers)
            .map(|(cached, answer)| must_answer(cached, answer))
            .collect();
        // Partitions that gave records go to the end, so that each has its turn at the front.
        let served: Vec<_> = session
            .partitions
            .keys()
            .zip(answers)
            .filter(|(_, answer)| answer.records_size_bytes.unwrap_or(0) > 0)
            .map(|(key, _)| key.clone())
            .collect();
        if served.len() < session.partitions.len() {
            for key in served {
                if let Some(cached) = session.partitions.shift_remove(&key) {
                    session.partitions.insert(key, cached);
                }
            }
        }
        selected
    }

    /// Sessions that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    fn make_room(&mut self, now: Instant) -> bool {
        if self.sessions.len() < self.slots {
            return true;
        }
        let oldest = self.sessions.iter().min_by_key(|(_, session)| session.last_used);
        match oldest {
            Some((&id, session)) if now.duration_since(session.last_used) > EVICTION => {
                self.sessions.remove(&id);
                true
            }
            _ => false,
        }
    }

    fn new_id(&mut self) -> i32 {
        loop {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407 + u64::from(self.core.0));
            let id = i32::try_from(self.random >> 33).unwrap_or(1);
            if id != 0 && !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }
}

fn plan(request: &FetchRequest) -> Vec<Planned> {
    let mut planned = Vec::with_capacity(request.partitions.len());
    for span in &request.topics {
        for partition in request.partitions.get(span.partitions.clone()).unwrap_or_default() {
            planned.push(Planned { topic: span.topic.clone(), partition: *partition });
        }
    }
    planned
}

/// Whether an incremental answer contains this partition: it has records, news or an error.
fn must_answer(cached: &mut Cached, answer: &FetchPartitionResponse) -> bool {
    let mut must = answer.records_size_bytes.unwrap_or(0) > 0;
    if cached.high_watermark != answer.high_watermark {
        cached.high_watermark = answer.high_watermark;
        must = true;
    }
    if cached.log_start_offset != answer.log_start_offset {
        cached.log_start_offset = answer.log_start_offset;
        must = true;
    }
    if answer.preferred_read_replica >= 0 {
        must = true;
    }
    if answer.error_code != ErrorCode::None || answer.diverging_epoch.is_some() {
        // When the error is over, the partition is told again.
        cached.high_watermark = -1;
        must = true;
    }
    must
}

#[cfg(test)]
mod tests;
