//! The shell of the group coordinators of one core: feeds the runtime, appends its records to the local log, and gives
//! answers back. The rules are in [`crate::coordinator`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::ErrorCode;
use protocol_compat::batch::BatchHeader;
use protocol_compat::hashing::coordinator_partition;
use protocol_compat::ids::{Offset, PartitionIndex};
use storage::log::ReadError;
use tokio::sync::oneshot;

use crate::config::BrokerConfig;
use crate::coordinator::group::{GroupRequest, GroupRequestBody, GroupResponse, RequestContext};
use crate::coordinator::shard::Shard;
use crate::coordinator::{Action, Event, GroupShard, Now, Runtime, RuntimeConfig, Token};
use crate::core::Core;
use crate::metadata::OFFSETS_TOPIC;
use crate::partitions::{Partition, Place, trusted_batch};
use crate::replica::Acks;

/// Bytes of a log that are loaded in one step.
const LOAD_STEP: u32 = 1 << 20;

/// The group coordinators of one core.
#[derive(Debug)]
pub struct Coordinators {
    runtime: RefCell<Runtime<GroupShard>>,
    tokens: Cell<u64>,
    waiting: RefCell<HashMap<Token, oneshot::Sender<GroupResponse>>>,
    /// The runtime has heard something since the last end of a turn.
    touched: Cell<bool>,
}

type Actions = Vec<Action<GroupResponse>>;

fn now(core: &Core) -> Now {
    Now { clock: core.now(), wall: core.wall_clock() }
}

impl Coordinators {
    /// Coordinators without shards.
    #[must_use]
    pub fn new(config: &BrokerConfig) -> Self {
        let group = config.group.clone();
        let limits =
            RuntimeConfig { batch_bytes_max: config.message_max_bytes, ..RuntimeConfig::default() };
        let runtime = Runtime::new(limits, move |partition, entropy| {
            GroupShard::new(group.clone(), partition, entropy)
        });
        Self {
            runtime: RefCell::new(runtime),
            tokens: Cell::new(0),
            waiting: RefCell::default(),
            touched: Cell::new(false),
        }
    }

    fn feed(&self, core: &Rc<Core>, partition: PartitionIndex, event: Event<GroupRequest>) {
        let mut actions = Vec::new();
        self.runtime.borrow_mut().handle(now(core), partition, event, &mut actions);
        self.carry_out(core, actions);
        self.touched.set(true);
        core.turn.wake();
    }

    fn carry_out(&self, core: &Rc<Core>, mut actions: Actions) {
        while !actions.is_empty() {
            let mut more = Vec::new();
            for action in actions {
                match action {
                    Action::Reply { token, response } => {
                        if let Some(waiting) = self.waiting.borrow_mut().remove(&token) {
                            let _ = waiting.send(response);
                        }
                    }
                    Action::Append { partition, append, leader_epoch, batch } => {
                        let event = match append_records(core, partition, leader_epoch, batch) {
                            Ok(last_offset) => Event::Appended { append, last_offset },
                            Err(code) => Event::AppendFailed { append, code },
                        };
                        self.runtime.borrow_mut().handle(now(core), partition, event, &mut more);
                    }
                }
            }
            actions = more;
        }
    }

    /// Appends what this turn's requests have decided; false when there was nothing to do.
    pub fn end_turn(&self, core: &Rc<Core>) -> bool {
        if !self.touched.replace(false) {
            return false;
        }
        let mut actions = Vec::new();
        self.runtime.borrow_mut().end_turn(now(core), &mut actions);
        let any = !actions.is_empty();
        self.carry_out(core, actions);
        any
    }

    /// Runs what is due.
    pub fn tick(&self, core: &Rc<Core>) {
        let due = self.runtime.borrow().next_deadline().is_some_and(|at| at <= core.now());
        if due {
            let mut actions = Vec::new();
            self.runtime.borrow_mut().tick(now(core), &mut actions);
            self.carry_out(core, actions);
            self.touched.set(true);
            core.turn.wake();
        }
    }

    /// The high watermark of a partition moved.
    pub fn high_watermark_moved(&self, core: &Rc<Core>, partition: &Partition) {
        if *partition.topic.name == *OFFSETS_TOPIC {
            let offset = partition.replica.borrow().log().high_watermark();
            self.feed(core, partition.index, Event::HighWatermark(offset));
        }
    }

    /// A partition is led here no longer.
    pub fn partition_lost(&self, core: &Rc<Core>, partition: &Partition) {
        if *partition.topic.name == *OFFSETS_TOPIC {
            self.feed(core, partition.index, Event::Unload);
        }
    }

    /// A topic is gone: its committed offsets go as well, in every shard of this core.
    pub fn topic_deleted(&self, core: &Rc<Core>, name: &Arc<str>) {
        let Some(topic) = core.partitions.topic_by_name(OFFSETS_TOPIC) else { return };
        for partition in topic.online() {
            let body = GroupRequestBody::TopicDeleted { name: Arc::clone(name) };
            let nobody =
                RequestContext { api_version: 0, client_id: "".into(), client_host: "".into() };
            let request = GroupRequest { context: nobody, body };
            let core = Rc::clone(core);
            let index = partition.index;
            tokio::task::spawn_local(async move {
                Self::request(core, index, request).await;
            });
        }
    }

    /// A partition is led here now: loads its groups.
    pub fn partition_online(&self, core: &Rc<Core>, partition: &Rc<Partition>) {
        if *partition.topic.name != *OFFSETS_TOPIC {
            return;
        }
        let leader_epoch = partition.replica.borrow().leader_epoch();
        let entropy = uuid::Uuid::new_v4().as_u128();
        self.feed(core, partition.index, Event::Load { leader_epoch, entropy });
        let (core, partition) = (Rc::clone(core), Rc::clone(partition));
        tokio::task::spawn_local(async move {
            let coordinators = &core.coordinators;
            match load(&core, &partition).await {
                Ok((log_end_offset, high_watermark)) => {
                    let event = Event::LoadDone { log_end_offset, high_watermark };
                    coordinators.feed(&core, partition.index, event);
                }
                Err(error) => {
                    tracing::error!(partition = %partition.name(), %error, "the groups of a partition cannot be loaded");
                    coordinators.feed(&core, partition.index, Event::LoadFailed);
                }
            }
        });
    }

    async fn request(
        core: Rc<Core>,
        partition: PartitionIndex,
        request: GroupRequest,
    ) -> GroupResponse {
        let this = &core.coordinators;
        let token = Token(this.tokens.get());
        this.tokens.set(token.0 + 1);
        let (sender, receiver) = oneshot::channel();
        this.waiting.borrow_mut().insert(token, sender);
        let refused = request.clone();
        this.feed(&core, partition, Event::Request { token, request });
        match receiver.await {
            Ok(response) => response,
            Err(_) => GroupShard::refuse(refused, ErrorCode::NotCoordinator),
        }
    }
}

/// Asks the shard of `__consumer_offsets` that a group belongs to.
pub async fn ask(core: &Rc<Core>, group: &str, request: GroupRequest) -> GroupResponse {
    match shard_of(core, group) {
        Some(partition) => ask_shard(core, partition, request).await,
        None => GroupShard::refuse(request, ErrorCode::CoordinatorNotAvailable),
    }
}

/// The partition of `__consumer_offsets` that a group belongs to; `None` while there is no such topic.
#[must_use]
pub fn shard_of(core: &Core, group: &str) -> Option<PartitionIndex> {
    let image = core.image();
    let topic = image.topics().by_name(OFFSETS_TOPIC)?;
    let count = i32::try_from(topic.partition_count()).ok()?;
    coordinator_partition(group, count).map(PartitionIndex)
}

/// The shards that this broker leads: where ListGroups must be asked.
#[must_use]
pub fn shards(core: &Core) -> Vec<PartitionIndex> {
    let image = core.image();
    let Some(topic) = image.topics().by_name(OFFSETS_TOPIC) else { return Vec::new() };
    topic
        .partitions()
        .filter(|(_, partition)| partition.leader == Some(core.shared.node_id()))
        .map(|(index, _)| index)
        .collect()
}

/// Asks one shard.
pub async fn ask_shard(
    core: &Rc<Core>,
    partition: PartitionIndex,
    request: GroupRequest,
) -> GroupResponse {
    let Some(topic) = core.partitions.topic_by_name(OFFSETS_TOPIC) else {
        return GroupShard::refuse(request, ErrorCode::CoordinatorNotAvailable);
    };
    let owner = match topic.place(partition) {
        Place::Remote(owner) => owner,
        Place::Online(_) => core.id,
        Place::Opening => {
            return GroupShard::refuse(request, ErrorCode::CoordinatorLoadInProgress);
        }
        Place::Absent | Place::NotLeader | Place::Offline => {
            return GroupShard::refuse(request, ErrorCode::NotCoordinator);
        }
    };
    let refused = request.clone();
    core.on_core_async(owner, move |core| Coordinators::request(core, partition, request))
        .await
        .unwrap_or_else(|_| GroupShard::refuse(refused, ErrorCode::NotCoordinator))
}

fn append_records(
    core: &Rc<Core>,
    index: PartitionIndex,
    leader_epoch: protocol_compat::ids::LeaderEpoch,
    batch: Bytes,
) -> Result<Offset, ErrorCode> {
    let topic =
        core.partitions.topic_by_name(OFFSETS_TOPIC).ok_or(ErrorCode::NotLeaderOrFollower)?;
    let Place::Online(partition) = topic.place(index) else {
        return Err(ErrorCode::NotLeaderOrFollower);
    };
    let mut replica = partition.replica.borrow_mut();
    if replica.leader_epoch() != leader_epoch {
        return Err(ErrorCode::NotLeaderOrFollower);
    }
    let batch = trusted_batch(batch).map_err(|error| error.code())?;
    // The runtime waits for the high watermark by itself.
    let (appended, _) =
        replica.append(batch, Acks::None, core.wall_clock()).map_err(|error| error.code())?;
    drop(replica);
    core.partitions.mark_dirty(core, &partition);
    Ok(appended.last_offset)
}

async fn load(core: &Rc<Core>, partition: &Rc<Partition>) -> Result<(Offset, Offset), String> {
    let mut next = partition.replica.borrow().log().log_start_offset();
    loop {
        let (end, high_watermark) = {
            let replica = partition.replica.borrow();
            (replica.log().written(), replica.log().high_watermark())
        };
        if next >= end {
            return Ok((end, high_watermark));
        }
        let read = partition.replica.borrow_mut().log_mut().read(next, LOAD_STEP, end, true);
        let slice = match read {
            Ok(slice) => slice,
            Err(ReadError::Cold(cold)) => {
                let warmed = core.shared.pool.call(move || cold.warm()).await;
                match warmed {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => return Err(error.to_string()),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Err(error) => return Err(error.to_string()),
        };
        let read = core
            .shared
            .pool
            .call(move || {
                let mut bytes = vec![0; slice.len as usize];
                let read = slice.file.read_at(&mut bytes, slice.pos)?;
                bytes.truncate(read);
                std::io::Result::Ok(Bytes::from(bytes))
            })
            .await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(error) => return Err(error.to_string()),
        };
        let whole = whole_batches(&bytes, &mut next)?;
        let batches = bytes.slice(..whole);
        core.coordinators.feed(core, partition.index, Event::LoadBatches { batches });
    }
}

/// Bytes of the whole batches at the front; moves `next` behind them.
fn whole_batches(bytes: &[u8], next: &mut Offset) -> Result<usize, String> {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= 61) {
        let header = BatchHeader::parse(rest).map_err(|error| error.to_string())?;
        if header.batch_size() > rest.len() {
            break;
        }
        at += header.batch_size();
        *next = header.next_offset();
    }
    if at == 0 {
        return Err(format!("no whole batch at offset {next}"));
    }
    Ok(at)
}
