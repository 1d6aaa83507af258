//! Reading partitions, on this core and on others.

use std::rc::Rc;

use protocol_compat::ErrorCode;
use protocol_compat::hot::TopicRef;
use protocol_compat::hot::fetch_request::FetchPartition;
use protocol_compat::hot::fetch_response::{AbortedTransaction, EpochAndOffset};
use protocol_compat::ids::{LeaderEpoch, Offset, PartitionIndex, TopicId};
use storage::disk::File;
use storage::log::{Cold, LogSlice, ReadError};

use super::session::Planned;
use crate::api::produce::place_error;
use crate::core::Core;
use crate::core::placement::CoreId;
use crate::partitions::{Partition, Place};
use crate::replica::waiters::PollRef;

/// A slice shorter than this is sent without asking whether it is in memory: a tail consumer's always is.
const PROBE_MIN: u32 = 32 << 10;

/// How a request reads, the same for all of its partitions.
#[derive(Clone, Copy, Debug)]
pub struct ReadRules {
    /// Only up to the last stable offset.
    pub read_committed: bool,
    /// Most bytes of the whole answer.
    pub max_bytes: u32,
    /// The fetching broker, which must be a replica; none is on a single node.
    pub from_follower: bool,
}

/// What reading one partition gave.
#[derive(Clone, Debug)]
pub struct Read {
    /// The outcome.
    pub error: ErrorCode,
    /// High watermark, -1 on errors.
    pub high_watermark: i64,
    /// Last stable offset for read_committed, else -1.
    pub last_stable_offset: i64,
    /// Log start, -1 on errors.
    pub log_start_offset: i64,
    /// Where the reader's log parts from ours.
    pub diverging_epoch: Option<EpochAndOffset>,
    /// For read_committed.
    pub aborted: Option<Vec<AbortedTransaction>>,
    /// The records; their first batch is whole even where that is more than was asked.
    pub slice: Option<LogSlice>,
}

impl Read {
    /// An answer with nothing but a code.
    #[must_use]
    pub fn failed(error: ErrorCode) -> Self {
        Self {
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            aborted: None,
            slice: None,
        }
    }

    /// Bytes of records.
    #[must_use]
    pub fn size_bytes(&self) -> u32 {
        self.slice.as_ref().map_or(0, |slice| slice.len)
    }
}

/// A part of a request that one core owns.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: u32,
    topic: TopicId,
    index: PartitionIndex,
    asked: FetchPartition,
}

/// Reads the planned partitions with these numbers into `reads`; with `poll`, watches them for news as well.
pub async fn read(
    core: &Rc<Core>,
    planned: &[Planned],
    numbers: impl Iterator<Item = u32>,
    rules: ReadRules,
    poll: Option<&PollFor>,
    reads: &mut [Read],
) {
    let mut remote: Vec<(CoreId, Vec<Part>)> = Vec::new();
    for at in numbers {
        let index = at as usize;
        let (Some(planned), true) = (planned.get(index), index < reads.len()) else { continue };
        let topic = match &planned.topic {
            TopicRef::Name(name) => {
                core.partitions.topic_by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition)
            }
            TopicRef::Id(id) => core.partitions.topic_by_id(*id).ok_or(ErrorCode::UnknownTopicId),
        };
        let topic = match topic {
            Ok(topic) => topic,
            Err(code) => {
                reads[index] = Read::failed(code);
                continue;
            }
        };
        let asked = planned.partition;
        match topic.place(asked.partition) {
            Place::Online(partition) => {
                let watch = poll.map(|poll| (&poll.local, at));
                reads[index] = read_partition(core, &partition, &asked, rules, watch).await;
            }
            Place::Remote(owner) => {
                let part = Part { at, topic: topic.id, index: asked.partition, asked };
                match remote.iter_mut().find(|(core, _)| *core == owner) {
                    Some((_, list)) => list.push(part),
                    None => remote.push((owner, vec![part])),
                }
            }
            place => reads[index] = Read::failed(place_error(&place)),
        }
    }
    for (owner, parts) in remote {
        let numbers: Vec<u32> = parts.iter().map(|part| part.at).collect();
        let watch = poll.map(|poll| RemoteWatch { core: core.id, number: poll.number });
        let read = core
            .on_core_async(owner, move |core| async move {
                let mut reads = Vec::with_capacity(parts.len());
                for part in parts {
                    reads.push(read_owned(&core, part, rules, watch).await);
                }
                reads
            })
            .await;
        match read {
            Ok(list) => {
                for (at, read) in numbers.into_iter().zip(list) {
                    reads[at as usize] = read;
                }
            }
            Err(_) => {
                for at in numbers {
                    reads[at as usize] = Read::failed(ErrorCode::NotLeaderOrFollower);
                }
            }
        }
    }
}

/// A poll as partitions of this core and of others know it.
#[derive(Clone, Debug)]
pub struct PollFor {
    /// On this core.
    pub local: PollRef,
    /// Its number, for other cores.
    pub number: u64,
}

#[derive(Clone, Copy, Debug)]
struct RemoteWatch {
    core: CoreId,
    number: u64,
}

async fn read_owned(
    core: &Rc<Core>,
    part: Part,
    rules: ReadRules,
    watch: Option<RemoteWatch>,
) -> Read {
    let Some(topic) = core.partitions.topic_by_id(part.topic) else {
        return Read::failed(ErrorCode::UnknownTopicOrPartition);
    };
    match topic.place(part.index) {
        Place::Online(partition) => {
            let poll = watch.map(|watch| PollRef::Remote {
                mailbox: core.shared.mailbox(watch.core).clone(),
                core: watch.core,
                number: watch.number,
            });
            let watch = poll.as_ref().map(|poll| (poll, part.at));
            read_partition(core, &partition, &part.asked, rules, watch).await
        }
        place => Read::failed(place_error(&place)),
    }
}

/// Stops watching: the poll is over.
pub fn unwatch(core: &Rc<Core>, planned: &[Planned], poll: &PollFor) {
    let mut others: Vec<(CoreId, Vec<(TopicId, PartitionIndex)>)> = Vec::new();
    for planned in planned {
        let topic = match &planned.topic {
            TopicRef::Name(name) => core.partitions.topic_by_name(name),
            TopicRef::Id(id) => core.partitions.topic_by_id(*id),
        };
        let Some(topic) = topic else { continue };
        let index = planned.partition.partition;
        match topic.place(index) {
            Place::Online(partition) => {
                partition.replica.borrow_mut().watchers().remove(&poll.local);
            }
            Place::Remote(owner) => match others.iter_mut().find(|(core, _)| *core == owner) {
                Some((_, list)) => list.push((topic.id, index)),
                None => others.push((owner, vec![(topic.id, index)])),
            },
            Place::Absent | Place::NotLeader | Place::Opening | Place::Offline => {}
        }
    }
    for (owner, list) in others {
        let (from, number) = (core.id, poll.number);
        core.shared.mailbox(owner).answer(move |core| {
            let mailbox = core.shared.mailbox(from).clone();
            let poll = PollRef::Remote { mailbox, core: from, number };
            for (topic, index) in list {
                let Some(topic) = core.partitions.topic_by_id(topic) else { continue };
                if let Place::Online(partition) = topic.place(index) {
                    partition.replica.borrow_mut().watchers().remove(&poll);
                }
            }
        });
    }
    core.polls.unregister(poll.number);
}

/// Checks the epoch that a client believes in (KIP-320).
///
/// # Errors
/// FENCED_LEADER_EPOCH for an older one, UNKNOWN_LEADER_EPOCH for one that we have not heard of.
pub fn check_epoch(partition: &Partition, believed: Option<LeaderEpoch>) -> Result<(), ErrorCode> {
    let ours = partition.replica.borrow().leader_epoch();
    match believed {
        Some(epoch) if epoch < ours => Err(ErrorCode::FencedLeaderEpoch),
        Some(epoch) if epoch > ours => Err(ErrorCode::UnknownLeaderEpoch),
        Some(_) | None => Ok(()),
    }
}

async fn read_partition(
    core: &Rc<Core>,
    partition: &Rc<Partition>,
    asked: &FetchPartition,
    rules: ReadRules,
    watch: Option<(&PollRef, u32)>,
) -> Read {
    if rules.from_follower {
        return Read::failed(ErrorCode::NotLeaderOrFollower);
    }
    if let Err(code) = check_epoch(partition, asked.current_leader_epoch) {
        return Read::failed(code);
    }
    loop {
        match read_once(partition, asked, rules, watch) {
            Ok(read) => match read.slice.as_ref().and_then(cold_part) {
                None => return read,
                Some(cold) => {
                    if let Err(code) = warm(core, cold).await {
                        return Read::failed(code);
                    }
                    return read;
                }
            },
            Err(ReadError::Cold(cold)) => {
                if let Err(code) = warm(core, cold).await {
                    return Read::failed(code);
                }
            }
            Err(error) => {
                if let ReadError::Directory(error) = &error {
                    core.shared.directory_failed(partition.directory, error);
                } else if let ReadError::Corrupt(what) = &error {
                    tracing::error!(partition = %partition.name(), what, "a fetch found corrupt data");
                }
                let mut read = Read::failed(error.code());
                if error.code() == ErrorCode::OffsetOutOfRange {
                    // As Kafka answers, so that a consumer can reset without asking first.
                    let replica = partition.replica.borrow();
                    read.log_start_offset = -1;
                    drop(replica);
                }
                return read;
            }
        }
    }
}

/// What of a slice is not in the page cache. Sending it would block the core.
fn cold_part(slice: &LogSlice) -> Option<Cold> {
    if slice.len < PROBE_MIN {
        return None;
    }
    let is_cached = File::is_cached(&*slice.file, slice.pos, slice.len);
    (!is_cached).then(|| Cold::Range { file: slice.file.clone(), pos: slice.pos, len: slice.len })
}

async fn warm(core: &Core, cold: Cold) -> Result<(), ErrorCode> {
    match core.shared.pool.call(move || cold.warm()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::error!(%error, "a cold read failed");
            Err(ErrorCode::KafkaStorageError)
        }
        Err(_) => Err(ErrorCode::NotLeaderOrFollower),
    }
}

fn read_once(
    partition: &Partition,
    asked: &FetchPartition,
    rules: ReadRules,
    watch: Option<(&PollRef, u32)>,
) -> Result<Read, ReadError> {
    let mut replica = partition.replica.borrow_mut();
    if replica.is_offline() {
        return Ok(Read::failed(ErrorCode::KafkaStorageError));
    }
    if let Some((poll, at)) = watch {
        replica.watchers().add(poll, at);
    }
    let log = replica.log_mut();
    let mut read = Read {
        error: ErrorCode::None,
        high_watermark: log.high_watermark().0,
        last_stable_offset: -1,
        log_start_offset: log.log_start_offset().0,
        diverging_epoch: None,
        aborted: None,
        slice: None,
    };
    if let Some(last_epoch) = asked.last_fetched_epoch {
        let end = log.offset_for_leader_epoch(last_epoch);
        let Some(end) = end else {
            return Ok(Read::failed(ErrorCode::OffsetOutOfRange));
        };
        if end.leader_epoch < last_epoch || end.end_offset < asked.fetch_offset {
            read.diverging_epoch =
                Some(EpochAndOffset { epoch: end.leader_epoch, end_offset: end.end_offset });
            return Ok(read);
        }
    }
    let end = if rules.read_committed { log.last_stable_offset() } else { log.high_watermark() };
    let max = u32::try_from(asked.partition_max_bytes).unwrap_or(0).min(rules.max_bytes);
    let slice = log.read(asked.fetch_offset, max, end, true)?;
    if rules.read_committed {
        read.last_stable_offset = log.last_stable_offset().0;
        let aborted =
            if slice.len > 0 { aborted(log, asked.fetch_offset, end)? } else { Vec::new() };
        read.aborted = Some(aborted);
    }
    read.slice = (slice.len > 0).then_some(slice);
    Ok(read)
}

fn aborted(
    log: &mut storage::log::Log,
    from: Offset,
    end: Offset,
) -> Result<Vec<AbortedTransaction>, ReadError> {
    let list = log.aborted_transactions(from, end)?;
    Ok(list
        .into_iter()
        .map(|aborted| AbortedTransaction {
            producer_id: aborted.producer_id.0,
            first_offset: aborted.first_offset.0,
        })
        .collect())
}
