//! The single voter: opens log and snapshots, begins an epoch, appends, takes snapshots.
//!
//! ```text
//!   open: quorum-state, newest snapshot, log behind it ──► image at the log end
//!         epoch + 1 ──► quorum-state (synced) ──► LeaderChange batch
//!   run:  append ... append ──► flush ──► committed: a quorum of one is itself
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol_compat::ids::{BrokerId, DirectoryId, LeaderEpoch, Offset};
use storage::disk::{FileSystem, OpenMode};
use storage::format::{names, partition_metadata};

use super::batch::{self, Content};
use super::log_port::{LogPort, OpenLog};
use super::quorum_store::{QuorumState, QuorumStore, create_dir, replace_file};
use super::snapshot::{self, SnapshotContent, SnapshotId};
use crate::bootstrap::{BOOTSTRAP_CHECKPOINT, METADATA_DIR, METADATA_TOPIC_ID};
use crate::controller::{ControllerConfig, QuorumConfig};
use crate::decide::activation;
use crate::error::ControllerError;
use crate::image::replay::Replay;
use crate::image::{MetadataImage, snapshot_io};
use crate::records::MetadataRecord;
use crate::records::control::{ControlRecord, Voter};

/// Most bytes of one batch: Kafka's own bound on metadata batches.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// A leader of a quorum of one.
#[derive(Debug)]
pub(crate) struct Node {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    log: Box<dyn LogPort>,
    id: BrokerId,
    epoch: LeaderEpoch,
    kraft_version: i16,
    voters: Option<Vec<Voter>>,
    snapshots: Vec<SnapshotId>,
    /// Bytes appended since the newest snapshot.
    bytes_since_snapshot: u64,
}

/// What [`Node::open`] found.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) node: Node,
    /// The image at the end of the log.
    pub(crate) replay: Replay,
    /// Records that the first controller of the cluster writes; empty when they are in the log.
    pub(crate) bootstrap: Vec<MetadataRecord>,
}

impl Node {
    /// Reads everything and begins an epoch. The epoch's first batch is appended, not yet flushed.
    pub(crate) fn open(
        config: &ControllerConfig,
        fs: Arc<dyn FileSystem>,
        open_log: Box<OpenLog>,
        now_ms: i64,
    ) -> Result<Opened, ControllerError> {
        let dir = config.metadata_log_dir.join(METADATA_DIR);
        create_dir(fs.as_ref(), &dir)?;
        write_partition_metadata(fs.as_ref(), &dir)?;
        let store = QuorumStore::new(&dir);
        let state = store.load(fs.as_ref())?;
        let snapshots = snapshot::list(fs.as_ref(), &dir)?;
        let mut log = open_log(Arc::clone(&fs), dir.clone(), config)?;

        let mut loader = Loader::default();
        let newest = snapshots.last().copied();
        let mut from = log.start();
        if let Some(id) = newest {
            let content = snapshot::read(fs.as_ref(), &dir, id)?;
            if id.end_offset > log.end() {
                log.reset(id.end_offset)?;
            }
            from = id.end_offset;
            loader.snapshot(id, content)?;
        } else if from.0 > 0 {
            return Err(ControllerError::Corrupt(format!(
                "the log begins at offset {from} and no snapshot holds what was before"
            )));
        }
        let log_had_records = log.end().0 > 0;
        let bytes_since_snapshot = loader.log(log.as_mut(), from)?;
        let bootstrap = loader.take_bootstrap(config, fs.as_ref())?;

        let voters_in_log = loader.voters.clone();
        check_voters(config, state.as_ref(), &loader)?;
        let known = [
            state.map_or(0, |state| state.epoch.0),
            log.latest_epoch().map_or(0, |epoch| epoch.0),
            newest.map_or(0, |id| id.epoch.0),
        ];
        let epoch = known.into_iter().max().unwrap_or(0).checked_add(1).ok_or_else(|| {
            ControllerError::Corrupt("the quorum's epoch is at its end".to_owned())
        })?;
        let mut node = Self {
            fs,
            dir,
            log,
            id: config.node_id,
            epoch: LeaderEpoch(epoch),
            kraft_version: loader.kraft_version,
            voters: voters_in_log,
            snapshots,
            bytes_since_snapshot,
        };
        node.begin_epoch(&store, &mut loader.replay, !log_had_records, now_ms)?;
        Ok(Opened { node, replay: loader.replay, bootstrap })
    }

    fn begin_epoch(
        &mut self,
        store: &QuorumStore,
        replay: &mut Replay,
        first: bool,
        now_ms: i64,
    ) -> Result<(), ControllerError> {
        // The vote of the only voter is its own; leader and epoch are promised before anything is written in them.
        let state = QuorumState {
            epoch: self.epoch,
            leader: Some(self.id),
            voted: None,
            voters: (self.kraft_version == 0).then(|| vec![self.id]),
        };
        store.store(self.fs.as_ref(), &state)?;
        // The log replaces its epoch checkpoint, in the same directory, and syncs both names before it writes the batch.
        self.log.start_epoch(self.epoch);
        let mut records =
            vec![ControlRecord::LeaderChange { leader: self.id, voters: vec![self.id] }];
        if first && self.kraft_version > 0 {
            records.push(ControlRecord::KRaftVersion(self.kraft_version));
            records.extend(self.voters.clone().map(ControlRecord::Voters));
        }
        let base = self.log.end();
        let bytes = batch::control(base, self.epoch, now_ms, &records);
        self.bytes_since_snapshot += bytes.len() as u64;
        self.log.append(bytes, self.epoch, now_ms)?;
        replay.set_kraft_version(self.kraft_version);
        replay.advance(Offset(self.log.end().0 - 1), self.epoch, now_ms);
        Ok(())
    }

    /// Offset that the next record gets.
    pub(crate) fn end(&self) -> Offset {
        self.log.end()
    }

    /// Appends records as one batch (more only when they exceed Kafka's bound) and replays them.
    pub(crate) fn append(
        &mut self,
        replay: &mut Replay,
        records: &[MetadataRecord],
        now_ms: i64,
    ) -> Result<(), ControllerError> {
        if records.is_empty() {
            return Ok(());
        }
        // Records before the first feature level are written as the bootstrap's level demands.
        let level = records
            .iter()
            .find_map(|record| match record {
                MetadataRecord::FeatureLevel(record)
                    if record.name == crate::image::features::METADATA_VERSION =>
                {
                    Some(record.feature_level)
                }
                _ => None,
            })
            .unwrap_or_else(|| replay.image().features().metadata_version());
        let base = self.log.end();
        let bytes = batch::data(base, self.epoch, now_ms, level, records);
        if bytes.len() > BATCH_BYTES_MAX && records.len() > 1 {
            let (front, back) = records.split_at(records.len() / 2);
            self.append(replay, front, now_ms)?;
            return self.append(replay, back, now_ms);
        }
        for (offset, record) in (base.0..).zip(records) {
            replay.apply(Offset(offset), record)?;
        }
        self.bytes_since_snapshot += bytes.len() as u64;
        self.log.append(bytes, self.epoch, now_ms)?;
        replay.advance(Offset(self.log.end().0 - 1), self.epoch, now_ms);
        Ok(())
    }

    /// Makes all that was appended durable, and with it committed.
    pub(crate) fn flush(&mut self) -> Result<(), ControllerError> {
        self.log.flush()
    }

    /// Hands what was appended to the operating system: enough for what nobody waits for.
    pub(crate) fn write(&mut self) -> Result<(), ControllerError> {
        self.log.write()
    }

    /// Timed work.
    pub(crate) fn tick(&mut self, now_ms: i64) -> Result<(), ControllerError> {
        self.log.tick(now_ms)
    }

    /// Bytes appended since the newest snapshot.
    pub(crate) fn bytes_since_snapshot(&self) -> u64 {
        self.bytes_since_snapshot
    }

    /// A snapshot of an image, to be written on another thread. Counts anew from here.
    pub(crate) fn snapshot_job(&mut self, image: &Arc<MetadataImage>) -> SnapshotJob {
        self.bytes_since_snapshot = 0;
        SnapshotJob {
            fs: Arc::clone(&self.fs),
            dir: self.dir.clone(),
            image: Arc::clone(image),
            kraft_version: self.kraft_version,
            voters: self.voters.clone(),
        }
    }

    /// A snapshot was written: older ones and the log before them go as `metadata.max.retention.*` says.
    pub(crate) fn snapshot_written(
        &mut self,
        id: SnapshotId,
        config: &ControllerConfig,
        now_ms: i64,
    ) -> Result<(), ControllerError> {
        if self.snapshots.last() < Some(&id) {
            self.snapshots.push(id);
        }
        while let [oldest, next, ..] = self.snapshots[..] {
            if !self.must_go(oldest, config, now_ms)? {
                break;
            }
            self.log.trim(next.end_offset, now_ms)?;
            snapshot::remove(self.fs.as_ref(), &self.dir.join(oldest.file_name()))?;
            self.snapshots.remove(0);
        }
        Ok(())
    }

    fn must_go(
        &self,
        oldest: SnapshotId,
        config: &ControllerConfig,
        now_ms: i64,
    ) -> Result<bool, ControllerError> {
        let failed = |source| ControllerError::Io {
            attempt: format!("look at the snapshots in {}", self.dir.display()),
            source,
        };
        let entries = self.fs.list(&self.dir).map_err(failed)?;
        let snapshots = entries.iter().filter(|e| SnapshotId::from_file_name(&e.name).is_some());
        let size = self.log.size_bytes() + snapshots.map(|entry| entry.size).sum::<u64>();
        if u64::try_from(config.retention_bytes).is_ok_and(|bytes| size > bytes) {
            return Ok(true);
        }
        if config.retention_ms < 0 {
            return Ok(false);
        }
        let path = self.dir.join(oldest.file_name());
        let file = self.fs.open(&path, OpenMode::Read).map_err(failed)?;
        let mut head = [0; protocol_compat::batch::BATCH_OVERHEAD_BYTES];
        file.read_at(&mut head, 0).map_err(failed)?;
        let age = protocol_compat::batch::BatchHeader::parse(&head)
            .map_or(0, |header| now_ms.saturating_sub(header.max_timestamp.0));
        Ok(age > config.retention_ms)
    }

    /// The clean stop.
    pub(crate) fn close(self) -> Result<(), ControllerError> {
        self.log.close()
    }
}

/// Writes one snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotJob {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    image: Arc<MetadataImage>,
    kraft_version: i16,
    voters: Option<Vec<Voter>>,
}

impl SnapshotJob {
    /// Blocks until the snapshot is durable.
    pub(crate) fn run(self) -> Result<SnapshotId, ControllerError> {
        let provenance = self.image.provenance();
        let id =
            SnapshotId { end_offset: Offset(provenance.offset.0 + 1), epoch: provenance.epoch };
        let content = SnapshotContent {
            last_timestamp_ms: provenance.timestamp_ms,
            kraft_version: self.kraft_version,
            voters: self.voters,
            records: snapshot_io::to_records(&self.image),
        };
        let level = self.image.features().metadata_version();
        snapshot::write(self.fs.as_ref(), &self.dir, id, &content, level)?;
        Ok(id)
    }
}

fn write_partition_metadata(fs: &dyn FileSystem, dir: &Path) -> Result<(), ControllerError> {
    let path = dir.join(names::PARTITION_METADATA);
    let failed =
        |source| ControllerError::Io { attempt: format!("write {}", path.display()), source };
    if fs.exists(&path).map_err(failed)? {
        return Ok(());
    }
    // Kafka does not start on a torn one.
    replace_file(fs, &path, partition_metadata::encode(METADATA_TOPIC_ID).into())
}

/// Builds the image from a snapshot and the log.
#[derive(Debug, Default)]
struct Loader {
    replay: Replay,
    kraft_version: i16,
    voters: Option<Vec<Voter>>,
    /// Voters that the newest LeaderChange names.
    leader_change_voters: Option<Vec<BrokerId>>,
    /// What the format put into the first snapshot: it becomes the first records of the log.
    bootstrap: Option<Vec<MetadataRecord>>,
}

impl Loader {
    fn snapshot(
        &mut self,
        id: SnapshotId,
        content: SnapshotContent,
    ) -> Result<(), ControllerError> {
        self.kraft_version = content.kraft_version;
        self.voters = content.voters;
        if id.end_offset.0 == 0 {
            self.bootstrap = Some(content.records);
            return Ok(());
        }
        for (at, record) in (0..).zip(&content.records) {
            self.replay.apply(Offset(at), record)?;
        }
        self.replay.advance(Offset(id.end_offset.0 - 1), id.epoch, content.last_timestamp_ms);
        Ok(())
    }

    /// Replays the log; how many bytes of it.
    fn log(&mut self, log: &mut dyn LogPort, mut from: Offset) -> Result<u64, ControllerError> {
        let mut bytes_read = 0;
        while from < log.end() {
            let bytes = log.read(from)?;
            if bytes.is_empty() {
                return Err(ControllerError::Corrupt(format!(
                    "nothing can be read at offset {from}, and the log ends at {}",
                    log.end()
                )));
            }
            bytes_read += bytes.len() as u64;
            for batch in batch::decode_all(&bytes)? {
                if batch.last_offset < from {
                    continue;
                }
                if batch.base_offset > from {
                    return Err(ControllerError::Corrupt(format!(
                        "the records from offset {from} to {} are missing",
                        batch.base_offset
                    )));
                }
                match batch.content {
                    Content::Data(records) => {
                        for (offset, record) in records.iter().filter(|(offset, _)| *offset >= from)
                        {
                            self.replay.apply(*offset, record)?;
                        }
                    }
                    Content::Control(records) => self.control(records),
                }
                from = Offset(batch.last_offset.0 + 1);
                self.replay.advance(batch.last_offset, batch.epoch, batch.timestamp_ms);
            }
        }
        Ok(bytes_read)
    }

    fn control(&mut self, records: Vec<ControlRecord>) {
        for record in records {
            match record {
                ControlRecord::LeaderChange { voters, .. } => {
                    self.leader_change_voters = Some(voters);
                }
                ControlRecord::KRaftVersion(level) => self.kraft_version = level,
                ControlRecord::Voters(voters) => self.voters = Some(voters),
                ControlRecord::SnapshotHeader { .. } | ControlRecord::SnapshotFooter => {}
            }
        }
    }

    /// The records of the format, unless the log has got past them.
    fn take_bootstrap(
        &mut self,
        config: &ControllerConfig,
        fs: &dyn FileSystem,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        if self.replay.image().features().metadata_version() > 0 {
            activation::check_features(self.replay.image().features().levels.iter())?;
            return Ok(Vec::new());
        }
        if let Some(records) = self.bootstrap.take() {
            return Ok(records);
        }
        let path = config.metadata_log_dir.join(BOOTSTRAP_CHECKPOINT);
        match snapshot::read_bootstrap(fs, &path)? {
            Some(content) => Ok(content.records),
            None => Err(ControllerError::Refused(format!(
                "{} has neither metadata nor the snapshot of a format",
                config.metadata_log_dir.join(METADATA_DIR).display()
            ))),
        }
    }
}

/// Refuses every voter set but the one of this node in this directory.
fn check_voters(
    config: &ControllerConfig,
    state: Option<&QuorumState>,
    loader: &Loader,
) -> Result<(), ControllerError> {
    let me = config.node_id;
    let several = |voters: &[BrokerId]| {
        let list: Vec<_> = voters.iter().map(ToString::to_string).collect();
        Err(ControllerError::Refused(format!(
            "the metadata quorum has the voters {}, and this is node {me}: this release runs quorums of one voter",
            list.join(", ")
        )))
    };
    if loader.kraft_version > 0 {
        let voters = loader.voters.as_deref().unwrap_or_default();
        let [voter] = voters else {
            return several(&voters.iter().map(|voter| voter.id).collect::<Vec<_>>());
        };
        if voter.id != me {
            return several(&[voter.id]);
        }
        if voter.directory != directory_of(config) {
            return Err(ControllerError::Refused(format!(
                "the voter set names directory {} of node {me}, and {} has directory.id {}",
                voter.directory,
                config.metadata_log_dir.display(),
                config.directory_id
            )));
        }
        return Ok(());
    }
    if let QuorumConfig::Static(voters) = &config.quorum {
        let ids: Vec<_> = voters.iter().map(|(id, ..)| *id).collect();
        if ids != [me] {
            return several(&ids);
        }
    }
    let recorded =
        state.and_then(|state| state.voters.as_ref()).or(loader.leader_change_voters.as_ref());
    match recorded {
        Some(voters) if voters[..] != [me] => several(voters),
        _ => Ok(()),
    }
}

fn directory_of(config: &ControllerConfig) -> DirectoryId {
    config.directory_id
}
