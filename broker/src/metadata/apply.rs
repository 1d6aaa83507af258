//! Brings a core to the newest metadata: opens, closes and configures the partitions that it owns.
//!
//! Every core gets every change, in order, and applies it by itself. What it has applied, logs opened, it tells in
//! [`Shared::applied`](crate::core::shared::Shared): requests that change topics wait for it.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use controller::image::configs::ConfigResourceKind;
use controller::image::topics::DIRECTORY_UNASSIGNED;
use controller::image::{PartitionImage, TopicImage};
use controller::{MetadataDelta, MetadataImage};
use protocol_compat::ids::{PartitionIndex, TopicId};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::config::topic::TopicConfig;
use crate::core::Core;
use crate::core::mailbox::Mailbox;
use crate::core::placement::CoreId;
use crate::directories::OpenLog;
use crate::partitions::{Partition, Place, Topic};
use crate::replica::Replica;

/// Changes that a core has not applied yet.
#[derive(Debug, Default)]
pub struct Updates {
    queue: RefCell<VecDeque<(Arc<MetadataImage>, Arc<MetadataDelta>)>>,
    notify: Notify,
}

/// What the controller calls with each change: hands it to all cores.
pub fn publisher(
    mailboxes: Vec<Mailbox>,
) -> impl FnMut(Arc<MetadataImage>, Arc<MetadataDelta>) + Send + 'static {
    move |image, delta| {
        for mailbox in &mailboxes {
            let (image, delta) = (Arc::clone(&image), Arc::clone(&delta));
            mailbox.answer(move |core| {
                core.updates.queue.borrow_mut().push_back((image, delta));
                core.updates.notify.notify_one();
            });
        }
    }
}

/// Applies changes until the core ends.
pub async fn run(core: Rc<Core>) {
    loop {
        let next = core.updates.queue.borrow_mut().pop_front();
        match next {
            Some((image, delta)) => {
                let offset = image.offset().0;
                apply(&core, image, &delta).await;
                core.shared.applied[core.id.index()].send_replace(offset);
            }
            None => core.updates.notify.notified().await,
        }
    }
}

async fn apply(core: &Rc<Core>, image: Arc<MetadataImage>, delta: &MetadataDelta) {
    core.set_image(Arc::clone(&image));
    for (id, topic) in &delta.deleted_topics {
        delete_topic(core, *id, topic).await;
    }
    for resource in &delta.changed_configs {
        match resource.kind {
            ConfigResourceKind::Topic => {
                if let Some(topic) = core.partitions.topic_by_name(&resource.name) {
                    configure(core, &image, &topic);
                }
            }
            // Defaults of topics may have changed.
            ConfigResourceKind::Broker => {
                for topic in image.topics().iter() {
                    if let Some(topic) = core.partitions.topic_by_id(topic.id()) {
                        configure(core, &image, &topic);
                    }
                }
            }
            ConfigResourceKind::ClientMetrics | ConfigResourceKind::Group => {}
        }
    }
    let changed: BTreeSet<TopicId> = if delta.from_start {
        image.topics().iter().map(|topic| topic.id()).collect()
    } else {
        let changed = delta.created_topics.iter().chain(delta.changed_partitions.keys());
        changed.copied().collect()
    };
    let mut opening = JoinSet::new();
    for id in changed {
        let Some(topic_image) = image.topics().by_id(id) else { continue };
        let topic = match core.partitions.topic_by_id(id) {
            Some(topic) => topic,
            None => {
                let config = effective(core, &image, topic_image.name());
                let topic = Rc::new(Topic::new(Arc::clone(topic_image.name()), id, config));
                core.partitions.add_topic(Rc::clone(&topic));
                topic
            }
        };
        for (index, partition) in topic_image.partitions() {
            place(core, &topic, index, partition, &mut opening);
        }
    }
    while let Some(ended) = opening.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "opening a partition failed");
        }
    }
    if delta.from_start && core.id == CoreId(0) {
        let directories = Arc::clone(&core.shared.directories);
        let node = core.shared.node_id();
        core.shared.pool.spawn(move || {
            directories.tidy(|found| {
                let topic = image.topics().by_name(&found.partition.topic);
                topic.is_some_and(|topic| {
                    found.topic_id.is_none_or(|id| id == topic.id())
                        && topic
                            .partition(found.partition.partition)
                            .is_some_and(|partition| partition.replicas.contains(&node))
                })
            });
        });
    }
}

fn effective(core: &Core, image: &MetadataImage, topic: &str) -> Rc<TopicConfig> {
    Rc::new(TopicConfig::effective(core.config(), image.configs(), topic))
}

fn configure(core: &Rc<Core>, image: &MetadataImage, topic: &Rc<Topic>) {
    let config = effective(core, image, &topic.name);
    topic.set_config(Rc::clone(&config));
    for partition in topic.online() {
        let mut released = Vec::new();
        partition.replica.borrow_mut().set_config(config.log.clone(), &mut released);
        crate::partitions::deliver(core, released);
        core.partitions.mark_dirty(core, &partition);
    }
}

fn place(
    core: &Rc<Core>,
    topic: &Rc<Topic>,
    index: PartitionIndex,
    partition: &PartitionImage,
    opening: &mut JoinSet<()>,
) {
    if partition.leader != Some(core.shared.node_id()) {
        match topic.place(index) {
            // Kept open: a single node gets its partitions back when it is unfenced. Requests that fall in between are
            // still answered, as by a leader that has not heard yet.
            Place::Online(_) | Place::Opening => {}
            Place::Absent | Place::NotLeader | Place::Remote(_) | Place::Offline => {
                topic.set_place(index, Place::NotLeader);
            }
        }
        return;
    }
    let owner = core.shared.placement.owner(topic.id, index);
    if owner != core.id {
        topic.set_place(index, Place::Remote(owner));
        return;
    }
    match topic.place(index) {
        Place::Online(online) => update(core, &online, partition),
        // Its directory failed: only a restart can bring it back.
        Place::Opening | Place::Offline => {}
        Place::Absent | Place::NotLeader | Place::Remote(_) => {
            topic.set_place(index, Place::Opening);
            let (core, topic, partition) = (Rc::clone(core), Rc::clone(topic), partition.clone());
            opening.spawn_local(async move { open(&core, &topic, index, &partition).await });
        }
    }
}

fn update(core: &Rc<Core>, online: &Rc<Partition>, image: &PartitionImage) {
    online.isr_count.set(image.isr.len());
    let mut replica = online.replica.borrow_mut();
    if image.leader_epoch > replica.leader_epoch() {
        replica.set_leader_epoch(image.leader_epoch);
        drop(replica);
        core.partitions.mark_dirty(core, online);
        core.coordinators.partition_online(core, online);
    }
}

async fn open(core: &Rc<Core>, topic: &Rc<Topic>, index: PartitionIndex, image: &PartitionImage) {
    let assigned = image.directory(core.shared.node_id()).filter(|id| *id != DIRECTORY_UNASSIGNED);
    let request = OpenLog {
        topic: Arc::clone(&topic.name),
        topic_id: topic.id,
        index,
        assigned,
        config: topic.config().log.clone(),
        now: core.wall_clock(),
    };
    let directories = Arc::clone(&core.shared.directories);
    let opened = core.shared.pool.call(move || directories.open_partition(&request)).await;
    match opened {
        Ok(Ok((directory, log))) => {
            let replica = Replica::lead(log, image.leader_epoch);
            let partition =
                core.partitions.put_online(topic, index, directory, image.isr.len(), replica);
            core.partitions.mark_dirty(core, &partition);
            core.coordinators.partition_online(core, &partition);
            if assigned != Some(directory) {
                super::register::assign(core, topic.id, index, directory);
            }
        }
        Ok(Err(error)) => {
            topic.set_place(index, Place::Offline);
            tracing::error!(topic = %topic.name, partition = %index, %error, "a partition cannot be opened");
            if let Some((directory, failure)) = error.failed_directory() {
                core.shared.directory_failed(directory, failure);
            }
        }
        Err(stopped) => {
            topic.set_place(index, Place::NotLeader);
            tracing::debug!(topic = %topic.name, partition = %index, %stopped, "not opened");
        }
    }
}

async fn delete_topic(core: &Rc<Core>, id: TopicId, image: &TopicImage) {
    core.coordinators.topic_deleted(core, image.name());
    let Some(topic) = core.partitions.remove_topic(id) else { return };
    for partition in topic.online() {
        let (directory, index) = (partition.directory, partition.index);
        let log = core.partitions.close(core, partition, Place::Absent).await;
        let directories = Arc::clone(&core.shared.directories);
        let name = Arc::clone(image.name());
        let deleted = core
            .shared
            .pool
            .call(move || {
                drop(log);
                directories.delete(directory, &name, index)
            })
            .await;
        if let Ok(Err(error)) = deleted {
            tracing::error!(topic = %image.name(), partition = %index, %error, "a deleted partition cannot be removed");
        }
    }
    // What is not led here has nothing open; its files, if any, are strays that the next start finds.
    for index in 0..image.partition_count() {
        if let Ok(index) = i32::try_from(index) {
            topic.set_place(PartitionIndex(index), Place::Absent);
        }
    }
}
