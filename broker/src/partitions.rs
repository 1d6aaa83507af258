//! The partitions of one core: where each topic's partitions are, and the shell around the logs that live here.
//!
//! The shell carries out what a [`Log`](storage::log::Log) asks for: writes and syncs through the core's disk engine, jobs on
//! the pool. Rules are in [`crate::replica`].

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::ErrorCode;
use protocol_compat::batch::produce::CheckedBatch;
use protocol_compat::batch::{BatchError, BatchHeader, recompress};
use protocol_compat::ids::{DirectoryId, PartitionIndex, TopicId};
use storage::disk::{Completion, Done, Op, Ticket};
use storage::log::{Appended, LogIo, LogJobDone};

use crate::api::produce::{AppendTarget, ProduceError};
use crate::config::topic::TopicConfig;
use crate::core::Core;
use crate::core::placement::CoreId;
use crate::replica::{Acks, Released, Replica};

/// Where a partition is, seen from one core.
#[derive(Clone, Debug)]
pub enum Place {
    /// There is no such partition.
    Absent,
    /// Another broker leads it, or nobody does.
    NotLeader,
    /// Another core of this broker owns it.
    Remote(CoreId),
    /// Its log is being opened.
    Opening,
    /// It is led here.
    Online(Rc<Partition>),
    /// Its log directory failed.
    Offline,
}

/// A topic, seen from one core.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: Arc<str>,
    /// Its id.
    pub id: TopicId,
    config: RefCell<Rc<TopicConfig>>,
    places: RefCell<Vec<Place>>,
}

impl Topic {
    /// A topic whose partitions are not placed yet.
    #[must_use]
    pub fn new(name: Arc<str>, id: TopicId, config: Rc<TopicConfig>) -> Self {
        Self { name, id, config: RefCell::new(config), places: RefCell::default() }
    }

    /// Its settings now.
    #[must_use]
    pub fn config(&self) -> Rc<TopicConfig> {
        Rc::clone(&self.config.borrow())
    }

    /// Takes new settings.
    pub fn set_config(&self, config: Rc<TopicConfig>) {
        *self.config.borrow_mut() = config;
    }

    /// Where a partition is.
    #[must_use]
    pub fn place(&self, index: PartitionIndex) -> Place {
        usize::try_from(index.0)
            .ok()
            .and_then(|at| self.places.borrow().get(at).cloned())
            .unwrap_or(Place::Absent)
    }

    /// Places a partition. Indexes come from the metadata image, where they are dense.
    pub fn set_place(&self, index: PartitionIndex, place: Place) {
        let Ok(at) = usize::try_from(index.0) else { return };
        let mut places = self.places.borrow_mut();
        if places.len() <= at {
            places.resize(at + 1, Place::Absent);
        }
        places[at] = place;
    }

    /// Partitions led on this core.
    #[must_use]
    pub fn online(&self) -> Vec<Rc<Partition>> {
        let places = self.places.borrow();
        places
            .iter()
            .filter_map(|place| match place {
                Place::Online(partition) => Some(Rc::clone(partition)),
                Place::Absent
                | Place::NotLeader
                | Place::Remote(_)
                | Place::Opening
                | Place::Offline => None,
            })
            .collect()
    }
}

/// An append that waits for its batch to be recompressed, or for those before it.
#[derive(Debug)]
struct QueuedAppend {
    batch: CheckedBatch,
    acks: Acks,
    target: AppendTarget,
}

/// A partition led on this core.
#[derive(Debug)]
pub struct Partition {
    /// Its topic.
    pub topic: Rc<Topic>,
    /// Its index.
    pub index: PartitionIndex,
    /// The log directory that it is in.
    pub directory: DirectoryId,
    /// In-sync replicas, as the metadata image has them.
    pub isr_count: Cell<usize>,
    /// The machine.
    pub replica: RefCell<Replica<(AppendTarget, Appended)>>,
    slot: u32,
    queue: RefCell<VecDeque<QueuedAppend>>,
    recompressing: Cell<bool>,
    dirty: Cell<bool>,
    /// Told when the log has nothing more to do, for [`Partitions::close`].
    idle: tokio::sync::Notify,
}

impl Partition {
    /// As Kafka prints it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.topic.name, self.index)
    }
}

/// All topics, and the partitions that live here.
#[derive(Debug, Default)]
pub struct Partitions {
    by_name: RefCell<HashMap<Arc<str>, Rc<Topic>>>,
    by_id: RefCell<HashMap<TopicId, Rc<Topic>>>,
    /// By the numbers in the tickets of the disk engine. A slot is given back when its log is closed.
    slots: RefCell<Vec<Option<Rc<Partition>>>>,
    dirty: RefCell<Vec<Rc<Partition>>>,
}

impl Partitions {
    /// The topic of this name.
    #[must_use]
    pub fn topic_by_name(&self, name: &str) -> Option<Rc<Topic>> {
        self.by_name.borrow().get(name).map(Rc::clone)
    }

    /// The topic with this id.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<Rc<Topic>> {
        self.by_id.borrow().get(&id).map(Rc::clone)
    }

    /// Adds a topic.
    pub fn add_topic(&self, topic: Rc<Topic>) {
        self.by_name.borrow_mut().insert(Arc::clone(&topic.name), Rc::clone(&topic));
        self.by_id.borrow_mut().insert(topic.id, topic);
    }

    /// Takes a topic away; its partitions are still to be closed.
    pub fn remove_topic(&self, id: TopicId) -> Option<Rc<Topic>> {
        let topic = self.by_id.borrow_mut().remove(&id)?;
        let mut by_name = self.by_name.borrow_mut();
        if by_name.get(&topic.name).is_some_and(|named| named.id == id) {
            by_name.remove(&topic.name);
        }
        drop(by_name);
        Some(topic)
    }

    /// All partitions that live here.
    #[must_use]
    pub fn all(&self) -> Vec<Rc<Partition>> {
        self.slots.borrow().iter().flatten().map(Rc::clone).collect()
    }

    /// Puts an open log in its place.
    pub fn put_online(
        &self,
        topic: &Rc<Topic>,
        index: PartitionIndex,
        directory: DirectoryId,
        isr_count: usize,
        replica: Replica<(AppendTarget, Appended)>,
    ) -> Rc<Partition> {
        let mut slots = self.slots.borrow_mut();
        let at = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        let partition = Rc::new(Partition {
            topic: Rc::clone(topic),
            index,
            directory,
            isr_count: Cell::new(isr_count),
            replica: RefCell::new(replica),
            slot: u32::try_from(at).expect("fewer partitions than u32 counts"),
            queue: RefCell::default(),
            recompressing: Cell::new(false),
            dirty: Cell::new(false),
            idle: tokio::sync::Notify::new(),
        });
        if at == slots.len() {
            slots.push(None);
        }
        slots[at] = Some(Rc::clone(&partition));
        drop(slots);
        topic.set_place(index, Place::Online(Rc::clone(&partition)));
        partition
    }

    /// Notes that a partition's log may have work for the shell.
    pub fn mark_dirty(&self, core: &Core, partition: &Rc<Partition>) {
        if !partition.dirty.replace(true) {
            self.dirty.borrow_mut().push(Rc::clone(partition));
            core.turn.wake();
        }
    }

    /// Starts the work of all dirty partitions; false when there was none.
    pub fn start_all(&self, core: &Rc<Core>) -> bool {
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        let any = !dirty.is_empty();
        for partition in dirty {
            partition.dirty.set(false);
            start_io(core, &partition);
        }
        any
    }

    /// Takes the end of a disk operation.
    pub fn io_done(&self, core: &Rc<Core>, completion: Completion) {
        let slot = usize::try_from(completion.ticket.0 >> 1).unwrap_or(usize::MAX);
        let Some(partition) = self.slots.borrow().get(slot).cloned().flatten() else {
            tracing::error!(ticket = completion.ticket.0, "a disk operation of no partition ended");
            return;
        };
        let is_sync = completion.ticket.0 & 1 == 1;
        let result = completion.result.map(|done| {
            debug_assert_eq!(matches!(done, Done::Synced), is_sync, "completions match tickets");
        });
        let outcome = {
            let mut replica = partition.replica.borrow_mut();
            if is_sync {
                replica.log_mut().sync_done(result)
            } else {
                replica.log_mut().write_done(result)
            }
        };
        self.after(core, &partition, outcome);
    }

    fn job_done(&self, core: &Rc<Core>, slot: u32, done: LogJobDone) {
        let Some(partition) = self.slots.borrow().get(slot as usize).cloned().flatten() else {
            return;
        };
        let outcome = partition.replica.borrow_mut().log_mut().job_done(done);
        self.after(core, &partition, outcome);
    }

    fn after(
        &self,
        core: &Rc<Core>,
        partition: &Rc<Partition>,
        outcome: Result<(), storage::log::DirectoryFailed>,
    ) {
        match outcome {
            Ok(()) => {
                progress(core, partition);
                self.mark_dirty(core, partition);
            }
            Err(error) => core.shared.directory_failed(partition.directory, &error),
        }
        partition.idle.notify_waiters();
    }

    /// Takes every partition in a failed directory offline.
    pub fn directory_failed(&self, core: &Rc<Core>, directory: DirectoryId) {
        for partition in self.all() {
            if partition.directory != directory {
                continue;
            }
            let mut released = Vec::new();
            partition.replica.borrow_mut().fail(ErrorCode::KafkaStorageError, &mut released);
            partition.topic.set_place(partition.index, Place::Offline);
            deliver(core, released);
            let waiting = std::mem::take(&mut *partition.queue.borrow_mut());
            for append in waiting {
                append.target.finish(core, Err(ErrorCode::KafkaStorageError.into()));
            }
            core.coordinators.partition_lost(core, &partition);
        }
    }

    /// Stops serving a partition, lets its log finish its work, and gives the log.
    /// `None` when its directory failed: there is nothing to finish.
    pub async fn close(
        &self,
        core: &Rc<Core>,
        partition: Rc<Partition>,
        place_after: Place,
    ) -> Option<storage::log::Log> {
        partition.topic.set_place(partition.index, place_after);
        core.coordinators.partition_lost(core, &partition);
        loop {
            let notified = partition.idle.notified();
            {
                let replica = partition.replica.borrow();
                if replica.is_offline() {
                    return None;
                }
                if replica.log().is_idle() && partition.queue.borrow().is_empty() {
                    break;
                }
            }
            self.mark_dirty(core, &partition);
            notified.await;
        }
        self.slots.borrow_mut()[partition.slot as usize] = None;
        let mut released = Vec::new();
        partition.replica.borrow_mut().fail(ErrorCode::NotLeaderOrFollower, &mut released);
        deliver(core, released);
        // Polls and slices may hold the partition a little longer; it is offline to them.
        while Rc::strong_count(&partition) > 1 {
            tokio::task::yield_now().await;
        }
        Rc::into_inner(partition).map(|partition| partition.replica.into_inner().into_log())
    }
}

/// Carries out what the log asks for.
fn start_io(core: &Rc<Core>, partition: &Rc<Partition>) {
    let mut replica = partition.replica.borrow_mut();
    if replica.is_offline() {
        return;
    }
    let ticket = u64::from(partition.slot) << 1;
    while let Some(io) = replica.log_mut().next_io() {
        match io {
            LogIo::Write { file, pos, chunks } => {
                core.submit(Ticket(ticket), Op::Write { file, pos, chunks });
            }
            LogIo::Sync { file } => core.submit(Ticket(ticket | 1), Op::SyncData { file }),
            LogIo::Job(job) => {
                let mailbox = core.shared.mailbox(core.id).clone();
                let slot = partition.slot;
                core.shared.pool.spawn(move || {
                    let done = job.run();
                    mailbox.answer(move |core| core.partitions.job_done(core, slot, done));
                });
            }
        }
    }
}

/// Appends a batch and sees to it that `target` hears of the outcome once `acks` allows.
///
/// Appends of one partition stay in order also where one must be recompressed first.
pub fn append(
    core: &Rc<Core>,
    partition: &Rc<Partition>,
    batch: CheckedBatch,
    acks: Acks,
    target: AppendTarget,
) {
    if batch.recompress.is_none() && partition.queue.borrow().is_empty() {
        append_now(core, partition, batch, acks, target);
    } else {
        partition.queue.borrow_mut().push_back(QueuedAppend { batch, acks, target });
        run_queue(core, partition);
    }
}

fn append_now(
    core: &Rc<Core>,
    partition: &Rc<Partition>,
    batch: CheckedBatch,
    acks: Acks,
    target: AppendTarget,
) {
    let mut replica = partition.replica.borrow_mut();
    match replica.append(batch, acks, core.wall_clock()) {
        Ok((appended, None)) => {
            drop(replica);
            target.finish(core, Ok(appended));
        }
        Ok((appended, Some(wait))) => replica.wait(wait, (target, appended)),
        Err(error) => {
            drop(replica);
            if matches!(error, storage::log::AppendError::Directory(_)) {
                tracing::debug!(partition = %partition.name(), %error, "append refused");
            }
            target.finish(core, Err(ProduceError::from_append(&error)));
            return;
        }
    }
    core.partitions.mark_dirty(core, partition);
}

/// A batch that this broker has made itself.
///
/// # Errors
/// The bytes do not begin with the header of a batch: a defect of ours.
pub fn trusted_batch(bytes: Bytes) -> Result<CheckedBatch, BatchError> {
    let header = BatchHeader::parse(&bytes)?;
    Ok(CheckedBatch { bytes, header, recompress: None })
}

/// Appends from the front of the queue; a batch that needs another codec goes to the pool first.
fn run_queue(core: &Rc<Core>, partition: &Rc<Partition>) {
    if partition.recompressing.get() {
        return;
    }
    loop {
        let mut queue = partition.queue.borrow_mut();
        let Some(front) = queue.front() else { break };
        if let Some(codec) = front.batch.recompress {
            let bytes = front.batch.bytes.clone();
            let limit = core.config().socket_request_max_bytes.saturating_mul(4);
            partition.recompressing.set(true);
            drop(queue);
            let (core, partition) = (Rc::clone(core), Rc::clone(partition));
            tokio::task::spawn_local(async move {
                let done = core.shared.pool.call(move || recompress(&bytes, codec, limit)).await;
                partition.recompressing.set(false);
                let result = match done {
                    Ok(Ok(bytes)) => trusted_batch(bytes).map_err(ProduceError::from),
                    Ok(Err(error)) => Err(error.into()),
                    Err(_) => Err(ErrorCode::NotLeaderOrFollower.into()),
                };
                match result {
                    Ok(batch) => {
                        if let Some(front) = partition.queue.borrow_mut().front_mut() {
                            front.batch = batch;
                        }
                    }
                    Err(error) => {
                        let refused = partition.queue.borrow_mut().pop_front();
                        if let Some(append) = refused {
                            append.target.finish(&core, Err(error));
                        }
                    }
                }
                run_queue(&core, &partition);
            });
            return;
        }
        let Some(QueuedAppend { batch, acks, target }) = queue.pop_front() else { break };
        drop(queue);
        append_now(core, partition, batch, acks, target);
    }
    partition.idle.notify_waiters();
}

/// Moves positions on and tells everyone who waited for them.
pub fn progress(core: &Rc<Core>, partition: &Rc<Partition>) {
    let mut released = core.take_released();
    let moved = partition.replica.borrow_mut().progress(&mut released);
    deliver_from(core, &mut released);
    core.give_released(released);
    if moved {
        core.coordinators.high_watermark_moved(core, partition);
    }
}

/// Tells the outcomes.
pub fn deliver(core: &Rc<Core>, mut released: Vec<Released<(AppendTarget, Appended)>>) {
    deliver_from(core, &mut released);
}

fn deliver_from(core: &Rc<Core>, released: &mut Vec<Released<(AppendTarget, Appended)>>) {
    for Released { waiter: (target, appended), result } in released.drain(..) {
        target.finish(core, result.map(|()| appended).map_err(ProduceError::from));
    }
}
