//! Runs something on each of a request's partitions, on the core that owns it.

use std::pin::Pin;
use std::rc::Rc;

use protocol_compat::ErrorCode;
use protocol_compat::ids::PartitionIndex;

use super::produce::place_error;
use crate::core::Core;
use crate::partitions::{Partition, Place};

/// What runs on the owner.
pub type OnPartition<A, R> =
    fn(Rc<Core>, Rc<Partition>, A) -> Pin<Box<dyn Future<Output = Result<R, ErrorCode>>>>;

/// Runs `run` on one partition, wherever it lives.
///
/// # Errors
/// What `run` gives, or why the partition is not led here.
pub async fn on_partition<A: Send + 'static, R: Send + 'static>(
    core: &Rc<Core>,
    topic: &str,
    index: PartitionIndex,
    argument: A,
    run: OnPartition<A, R>,
) -> Result<R, ErrorCode> {
    let topic = core.partitions.topic_by_name(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    match topic.place(index) {
        Place::Online(partition) => run(Rc::clone(core), partition, argument).await,
        Place::Remote(owner) => {
            let id = topic.id;
            let result = core
                .on_core_async(owner, move |core| async move {
                    let topic = core
                        .partitions
                        .topic_by_id(id)
                        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
                    match topic.place(index) {
                        Place::Online(partition) => run(core, partition, argument).await,
                        place => Err(place_error(&place)),
                    }
                })
                .await;
            result.unwrap_or(Err(ErrorCode::NotLeaderOrFollower))
        }
        place => Err(place_error(&place)),
    }
}
