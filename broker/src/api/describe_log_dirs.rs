//! DescribeLogDirs (35), v1 to v5. KIP-113, KIP-827 (sizes of the disk).

use std::collections::BTreeMap;
use std::rc::Rc;

use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use protocol_compat::ids::DirectoryId;
use protocol_compat::{ErrorCode, codec};

use crate::core::Core;
use crate::metadata::text;

#[derive(Debug)]
struct Size {
    directory: DirectoryId,
    topic: String,
    partition: i32,
    bytes: u64,
}

/// Answers a request.
pub async fn handle(
    core: &Rc<Core>,
    request: DescribeLogDirsRequest,
) -> codec::DescribeLogDirsResponse {
    let wanted: Option<Vec<(String, Vec<i32>)>> = request.topics.map(|topics| {
        topics.into_iter().map(|topic| (topic.topic.to_string(), topic.partitions)).collect()
    });
    let mut sizes: BTreeMap<DirectoryId, BTreeMap<String, Vec<DescribeLogDirsPartition>>> =
        BTreeMap::new();
    for owner in core.shared.placement.cores() {
        let Ok(list) = core.on_core(owner, sizes_here).await else { continue };
        for size in list {
            let asked = wanted.as_ref().is_none_or(|topics| {
                topics.iter().any(|(name, partitions)| {
                    *name == size.topic && partitions.contains(&size.partition)
                })
            });
            if asked {
                sizes.entry(size.directory).or_default().entry(size.topic).or_default().push(
                    DescribeLogDirsPartition::default()
                        .with_partition_index(size.partition)
                        .with_partition_size(i64::try_from(size.bytes).unwrap_or(i64::MAX)),
                );
            }
        }
    }
    let mut results = Vec::new();
    for directory in core.shared.directories.all() {
        let path = text(&directory.path().display().to_string());
        if directory.is_offline() {
            results.push(
                DescribeLogDirsResult::default()
                    .with_error_code(ErrorCode::KafkaStorageError as i16)
                    .with_log_dir(path),
            );
            continue;
        }
        let topics = sizes.remove(&directory.id()).unwrap_or_default().into_iter().map(
            |(name, mut partitions)| {
                partitions.sort_by_key(|partition| partition.partition_index);
                DescribeLogDirsTopic::default()
                    .with_name(TopicName(text(&name)))
                    .with_partitions(partitions)
            },
        );
        let topics: Vec<_> = topics.collect();
        let path_of = directory.path().to_owned();
        let space = core.shared.pool.call(move || disk_space(&path_of)).await;
        let (total, usable) = space.ok().flatten().unwrap_or((-1, -1));
        results.push(
            DescribeLogDirsResult::default()
                .with_log_dir(path)
                .with_topics(topics)
                .with_total_bytes(total)
                .with_usable_bytes(usable),
        );
    }
    let response = DescribeLogDirsResponse::default().with_results(results);
    // No directory can be closed to new partitions (`cordoned.log.dirs`).
    codec::DescribeLogDirsResponse { response, cordoned: Vec::new() }
}

fn sizes_here(core: &Rc<Core>) -> Vec<Size> {
    core.partitions
        .all()
        .iter()
        .map(|partition| Size {
            directory: partition.directory,
            topic: partition.topic.name.to_string(),
            partition: partition.index.0,
            bytes: partition.replica.borrow().log().size_bytes(),
        })
        .collect()
}

fn disk_space(path: &std::path::Path) -> Option<(i64, i64)> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).ok();
    Some((bytes(stat.f_blocks)?, bytes(stat.f_bavail)?))
}
