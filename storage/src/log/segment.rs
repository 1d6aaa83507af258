//! One segment: a run of batches in a `.log` file, its indexes, and what the log must know of it without reading.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol_compat::batch::BatchHeader;
use protocol_compat::ids::{Offset, Timestamp};

use super::LogConfig;
use crate::disk::{FileRef, FileSystem, OpenMode};
use crate::format::names::{self, INDEX_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX};
use crate::format::time_index::{self, TimeIndexEntry};
use crate::format::txn_index::{self, AbortedTxn};
use crate::format::{FormatError, offset_index};

/// The base offset of an [`IndexPoint`] that was read from a file, which does not hold it.
const UNKNOWN: u32 = u32::MAX;

/// An entry of the offset index, with the base offset of its batch where that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexPoint {
    pub(super) last_relative: u32,
    pub(super) position: u32,
    base_relative: u32,
}

impl IndexPoint {
    pub(super) fn from_file(entry: offset_index::OffsetIndexEntry) -> Self {
        Self {
            last_relative: entry.relative_offset,
            position: entry.position,
            base_relative: UNKNOWN,
        }
    }

    pub(super) fn base_relative(self) -> Option<u32> {
        (self.base_relative != UNKNOWN).then_some(self.base_relative)
    }
}

/// Indexes in memory, of a segment that is or was just active.
#[derive(Debug, Default)]
pub(super) struct MemoryIndex {
    pub(super) points: Vec<IndexPoint>,
    pub(super) times: Vec<TimeIndexEntry>,
    pub(super) aborted: Vec<AbortedTxn>,
    /// How many of each stand in the files.
    pub(super) saved: SavedEntries,
}

/// Numbers of index entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SavedEntries {
    pub(super) points: usize,
    pub(super) times: usize,
    pub(super) aborted: usize,
}

impl MemoryIndex {
    /// Adds a time entry if it rises; Kafka's `TimeIndex.maybeAppend`.
    pub(super) fn add_time(&mut self, timestamp: Timestamp, relative_offset: u32) {
        let last = self.times.last().map_or(Timestamp(-1), |entry| entry.timestamp);
        if timestamp > last {
            self.times.push(TimeIndexEntry { timestamp, relative_offset });
        }
    }

    pub(super) fn counts(&self) -> SavedEntries {
        SavedEntries {
            points: self.points.len(),
            times: self.times.len(),
            aborted: self.aborted.len(),
        }
    }

    /// The last point whose batch begins at or before a relative offset, as far as is known where it begins: points that
    /// came from a file know only where it ends.
    pub(super) fn floor(&self, relative: u32) -> Option<&IndexPoint> {
        let after = self.points.partition_point(|point| {
            point.base_relative().unwrap_or(point.last_relative) <= relative
        });
        after.checked_sub(1).map(|at| &self.points[at])
    }

    /// The last point that begins at or before `position`.
    pub(super) fn before_position(&self, position: u64) -> Option<&IndexPoint> {
        let after = self.points.partition_point(|point| u64::from(point.position) <= position);
        after.checked_sub(1).map(|at| &self.points[at])
    }

    /// Bytes of the entries from `from` up to `to`, for the three files.
    pub(super) fn bytes(&self, from: SavedEntries, to: SavedEntries) -> IndexBytes {
        IndexBytes {
            from,
            points: self.points[from.points..to.points]
                .iter()
                .flat_map(|point| {
                    offset_index::OffsetIndexEntry {
                        relative_offset: point.last_relative,
                        position: point.position,
                    }
                    .to_bytes()
                })
                .collect(),
            times: self.times[from.times..to.times]
                .iter()
                .flat_map(|entry| entry.to_bytes())
                .collect(),
            aborted: self.aborted[from.aborted..to.aborted]
                .iter()
                .flat_map(|entry| entry.to_bytes())
                .collect(),
        }
    }
}

/// Index entries on their way to the files.
#[derive(Debug)]
pub(super) struct IndexBytes {
    /// Entries that stand before these.
    pub(super) from: SavedEntries,
    pub(super) points: Vec<u8>,
    pub(super) times: Vec<u8>,
    pub(super) aborted: Vec<u8>,
}

/// Where the indexes of a segment are.
#[derive(Debug)]
pub(super) enum Index {
    /// In memory, perhaps also partly in the files.
    Memory(MemoryIndex),
    /// In the files only, complete and durable.
    Files {
        /// Entries of the offset index.
        points: u32,
        /// Entries of the transaction index.
        aborted: u32,
    },
}

/// A segment.
#[derive(Debug)]
pub(super) struct Segment {
    /// Offset in its name.
    pub(super) base: Offset,
    /// Offset after the last staged record.
    pub(super) end: Offset,
    /// Bytes, staged ones included.
    pub(super) size: u32,
    /// Bytes that readers can see.
    pub(super) written: u32,
    /// Whether its files exist: a roll makes them after the first batches were staged.
    pub(super) created: bool,
    pub(super) index: Index,
    /// Max timestamp of the first batch, from which `segment.ms` counts.
    pub(super) first_timestamp: Option<Timestamp>,
    /// Largest timestamp and the last offset of its batch.
    pub(super) max_timestamp: Option<(Timestamp, Offset)>,
    /// The wall clock when it was made or opened.
    pub(super) born: Timestamp,
    /// Taken off `segment.ms`.
    pub(super) jitter_ms: i64,
    /// Bytes since the last index entry.
    pub(super) since_index: u64,
    /// Up to where space was taken ahead.
    pub(super) reserved: u64,
    /// The file may hold more space than its size.
    pub(super) overallocated: bool,
    pub(super) files: Arc<SegmentFiles>,
}

impl Segment {
    /// An empty segment whose files do not exist yet.
    pub(super) fn new(files: Arc<SegmentFiles>, born: Timestamp) -> Self {
        Self {
            base: files.base,
            end: files.base,
            size: 0,
            written: 0,
            created: false,
            index: Index::Memory(MemoryIndex::default()),
            first_timestamp: None,
            max_timestamp: None,
            born,
            jitter_ms: 0,
            since_index: 0,
            reserved: 0,
            overallocated: false,
            files,
        }
    }

    /// The indexes of a segment that is appended to or was just rolled.
    pub(super) fn memory(&self) -> Option<&MemoryIndex> {
        match &self.index {
            Index::Memory(index) => Some(index),
            Index::Files { .. } => None,
        }
    }

    pub(super) fn memory_mut(&mut self) -> Option<&mut MemoryIndex> {
        match &mut self.index {
            Index::Memory(index) => Some(index),
            Index::Files { .. } => None,
        }
    }

    /// `offset` counted from the base, at least 0.
    pub(super) fn relative(&self, offset: Offset) -> u32 {
        u32::try_from((offset.0 - self.base.0).max(0)).unwrap_or(u32::MAX)
    }

    /// Whether a batch that will end at `last_offset` must go into a new segment; Kafka's `LogSegment.shouldRoll`.
    pub(super) fn must_roll(
        &self,
        config: &LogConfig,
        now: Timestamp,
        header: &BatchHeader,
        last_offset: Offset,
    ) -> bool {
        let fits =
            u64::from(self.size) + header.batch_size() as u64 <= u64::from(config.segment_bytes);
        if !fits {
            return true;
        }
        if self.size == 0 {
            return false;
        }
        let age = match self.first_timestamp {
            Some(first) if first.0 >= 0 => header.max_timestamp.0.saturating_sub(first.0),
            _ => now.0.saturating_sub(self.born.0),
        };
        if age > config.segment_ms.saturating_sub(self.jitter_ms) {
            return true;
        }
        if last_offset.0 - self.base.0 > i64::from(i32::MAX) {
            return true;
        }
        let room = config.segment_index_bytes as usize;
        self.memory().is_some_and(|index| {
            index.points.len() >= room / offset_index::ENTRY_BYTES
                || index.times.len() + 1 >= room / time_index::ENTRY_BYTES
        })
    }

    /// Notes a batch at the end; the header has its final offsets and timestamps. Kafka's `LogSegment.append`.
    pub(super) fn add(&mut self, header: &BatchHeader, index_interval_bytes: u32) {
        let last_offset = header.last_offset();
        if header.max_timestamp > self.max_timestamp.map_or(Timestamp(-1), |(max, _)| max) {
            self.max_timestamp = Some((header.max_timestamp, last_offset));
        }
        if self.since_index > u64::from(index_interval_bytes) {
            let point = IndexPoint {
                last_relative: self.relative(last_offset),
                position: self.size,
                base_relative: self.relative(header.base_offset),
            };
            self.add_last_time();
            if let Some(index) = self.memory_mut() {
                index.points.push(point);
            }
            self.since_index = 0;
        }
        let size = header.batch_size();
        self.size = self.size.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
        self.since_index += size as u64;
        self.end = header.next_offset();
        self.first_timestamp.get_or_insert(header.max_timestamp);
    }

    /// Adds the time entry for what came since the last, as is done with each index entry and at the end.
    pub(super) fn add_last_time(&mut self) {
        if let Some((timestamp, offset)) = self.max_timestamp {
            let relative = self.relative(offset);
            if let Some(index) = self.memory_mut() {
                index.add_time(timestamp, relative);
            }
        }
    }
}

/// The files of a segment, opened when they are needed.
///
/// A mutex, as a pool thread opens files for a log that stays with its core; it is held for no IO but opening.
#[derive(Debug)]
pub(super) struct SegmentFiles {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) dir: Arc<Path>,
    pub(super) base: Offset,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    log: Option<FileRef>,
    index: Option<FileRef>,
    aborted: Option<Arc<[AbortedTxn]>>,
    used: bool,
}

impl SegmentFiles {
    pub(super) fn new(fs: Arc<dyn FileSystem>, dir: Arc<Path>, base: Offset) -> Arc<Self> {
        Arc::new(Self { fs, dir, base, open: Mutex::default() })
    }

    pub(super) fn path(&self, suffix: &str) -> PathBuf {
        self.dir.join(names::file_name(self.base, suffix))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.used = true;
        open
    }

    /// The records, if open.
    pub(super) fn log(&self) -> Option<FileRef> {
        self.open().log.clone()
    }

    /// The offset index, if open.
    pub(super) fn index(&self) -> Option<FileRef> {
        self.open().index.clone()
    }

    /// The aborted transactions, if read.
    pub(super) fn aborted(&self) -> Option<Arc<[AbortedTxn]>> {
        self.open().aborted.clone()
    }

    pub(super) fn set_log(&self, file: FileRef) {
        self.open().log = Some(file);
    }

    /// Opens the records. Blocks.
    pub(super) fn open_log(&self) -> io::Result<FileRef> {
        let mut open = self.open();
        if let Some(file) = &open.log {
            return Ok(file.clone());
        }
        let file = self.fs.open(&self.path(LOG_SUFFIX), OpenMode::ReadWrite)?;
        open.log = Some(file.clone());
        Ok(file)
    }

    /// Opens the offset index. Blocks.
    pub(super) fn open_index(&self) -> io::Result<FileRef> {
        let mut open = self.open();
        if let Some(file) = &open.index {
            return Ok(file.clone());
        }
        let file = self.fs.open(&self.path(INDEX_SUFFIX), OpenMode::Read)?;
        open.index = Some(file.clone());
        Ok(file)
    }

    /// Reads the aborted transactions. Blocks.
    pub(super) fn read_aborted(&self) -> io::Result<Arc<[AbortedTxn]>> {
        let bytes = crate::small_files::read_if_present(&*self.fs, &self.path(TXN_INDEX_SUFFIX))?;
        let list = txn_index::parse(&bytes.unwrap_or_default()).map_err(|FormatError(text)| {
            let path = self.path(TXN_INDEX_SUFFIX);
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text}", path.display()))
        })?;
        let list: Arc<[AbortedTxn]> = list.into();
        self.open().aborted = Some(list.clone());
        Ok(list)
    }

    /// Closes the files if nothing asked for them since the last call.
    pub(super) fn close_if_idle(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.used {
            open.used = false;
        } else {
            *open = Open::default();
        }
    }
}
