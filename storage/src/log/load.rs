//! Opens a log's directory: finds its segments, checks what a crash may have left, and gives the state to go on with.
//!
//! After a clean stop nothing is read but the tail of the active segment's index. After any other, everything from the
//! recovery point on is verified batch by batch, cut where it ends, and indexed anew. Before the recovery point data and
//! indexes are durable and trusted; an index file that is missing or of a wrong size is rebuilt.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol_compat::ids::{Offset, Timestamp};

use super::epochs::Epochs;
use super::jobs::{self, failed};
use super::producers::Producers;
use super::scan::{Scanner, Step};
use super::segment::{Index, IndexPoint, MemoryIndex, SavedEntries, Segment, SegmentFiles};
use super::{DirectoryFailed, LogConfig, LogError, OpenArgs, RecoveryReport};
use crate::disk::{DirEntry, FileSystem, OpenMode};
use crate::format::names::{
    self, CLEANED_SUFFIX, DELETED_SUFFIX, EPOCH_CHECKPOINT, INDEX_SUFFIX, LOG_SUFFIX,
    SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, TMP_SUFFIX, TXN_INDEX_SUFFIX,
};
use crate::format::{epoch_checkpoint, offset_index, time_index, txn_index};
use crate::small_files;

/// A log as it was found.
#[derive(Debug)]
pub(super) struct Loaded {
    /// In order; the last is the active one, and all are written and created.
    pub(super) segments: Vec<Segment>,
    pub(super) producers: Producers,
    pub(super) epochs: Epochs,
    /// Whether the epochs differ from their file.
    pub(super) epochs_dirty: bool,
    /// Offsets of the producer snapshots.
    pub(super) snapshots: BTreeSet<Offset>,
    pub(super) log_start: Offset,
    pub(super) recovery_point: Offset,
    /// Bytes from the recovery point on.
    pub(super) unscanned_bytes: u64,
    pub(super) report: RecoveryReport,
}

/// What stands in the directory.
#[derive(Debug, Default)]
struct Listing {
    logs: Vec<(Offset, u64)>,
    indexes: Vec<(Offset, u64)>,
    time_indexes: Vec<(Offset, u64)>,
    txn_indexes: Vec<(Offset, u64)>,
    snapshots: BTreeSet<Offset>,
}

/// Work in progress.
pub(super) struct Loader<'a> {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) dir: Arc<Path>,
    pub(super) config: &'a LogConfig,
    pub(super) args: OpenArgs,
    pub(super) report: RecoveryReport,
    /// Up to where the transaction index of each segment is right, for those where that is not all.
    pub(super) txn_trusted: Vec<(Offset, Offset)>,
    listing: Listing,
}

/// Opens the log in `dir`, making it when there is none.
pub(super) fn load(
    fs: Arc<dyn FileSystem>,
    dir: Arc<Path>,
    config: &LogConfig,
    args: OpenArgs,
) -> Result<Loaded, LogError> {
    let loader = Loader {
        fs,
        dir,
        config,
        args,
        report: RecoveryReport::default(),
        txn_trusted: Vec::new(),
        listing: Listing::default(),
    };
    loader.run()
}

impl Loader<'_> {
    fn run(mut self) -> Result<Loaded, LogError> {
        self.make_dir()?;
        self.list()?;
        let mut segments = self.segments()?;
        if segments.is_empty() {
            segments.push(self.first_segment(self.args.log_start)?);
        }
        let mut trusted_end = self.trusted_end(&mut segments)?;
        let mut end = segments.last().map_or(Offset(0), |last| last.end);
        let mut log_start = self.args.log_start.max(segments[0].base);
        if log_start > end {
            // DeleteRecords was noted for data that a crash then took.
            tracing::warn!(dir = %self.dir.display(), %log_start, %end, "log start is past the log end: starting anew there");
            let bases: Vec<Offset> = segments.iter().map(|segment| segment.base).collect();
            jobs::mark_deleted(&*self.fs, &self.dir, &bases)?;
            segments = vec![self.first_segment(log_start)?];
            self.listing.snapshots.clear();
            (trusted_end, end) = (log_start, log_start);
        }
        log_start = log_start.max(segments[0].base);
        let (mut epochs, mut epochs_dirty) = self.epochs()?;
        epochs_dirty |= epochs.truncate_end(end);
        epochs_dirty |= epochs.truncate_start(log_start);
        let producers = self.producers(&mut segments, &mut epochs, &mut epochs_dirty, end)?;
        let recovery_point = trusted_end.min(end);
        let unscanned_bytes = self.bytes_from(&segments, recovery_point)?;
        self.finish_indexes(&mut segments)?;
        if !self.args.clean_shutdown {
            // A process that was killed may have made files whose names are not durable yet: what is appended to them from
            // now on must not be lost with the name. And what was removed above (a snapshot of records that a crash took)
            // must not come back once other records have those offsets.
            self.fs
                .sync_dir(&self.dir)
                .map_err(|cause| self.failed("sync of", &self.dir, cause))?;
            if let Some(active) = segments.last_mut() {
                active.overallocated = true;
            }
        }
        self.report.segments = u32::try_from(segments.len()).unwrap_or(u32::MAX);
        Ok(Loaded {
            segments,
            producers,
            epochs,
            epochs_dirty,
            snapshots: self.listing.snapshots,
            log_start,
            recovery_point,
            unscanned_bytes,
            report: self.report,
        })
    }

    pub(super) fn failed(&self, what: &str, path: &Path, cause: io::Error) -> LogError {
        LogError::Directory(failed(what, path, cause))
    }

    fn make_dir(&self) -> Result<(), LogError> {
        small_files::create_dir(&*self.fs, &self.dir)
            .map_err(|cause| self.failed("creation of", &self.dir, cause))
    }

    /// Sorts the directory's files, and removes what a crash left half made.
    fn list(&mut self) -> Result<(), LogError> {
        let entries =
            self.fs.list(&self.dir).map_err(|cause| self.failed("listing of", &self.dir, cause))?;
        let swapped = self.finish_swaps(&entries)?;
        let entries = if swapped {
            self.fs.list(&self.dir).map_err(|cause| self.failed("listing of", &self.dir, cause))?
        } else {
            entries
        };
        let listing = &mut self.listing;
        let mut leftovers = Vec::new();
        for DirEntry { name, is_dir, size } in entries {
            if is_dir {
                continue;
            }
            if [DELETED_SUFFIX, CLEANED_SUFFIX, TMP_SUFFIX].iter().any(|s| name.ends_with(s)) {
                leftovers.push(name);
            } else if let Some(base) = names::parse_file_name(&name, LOG_SUFFIX) {
                listing.logs.push((base, size));
            } else if let Some(base) = names::parse_file_name(&name, INDEX_SUFFIX) {
                listing.indexes.push((base, size));
            } else if let Some(base) = names::parse_file_name(&name, TIME_INDEX_SUFFIX) {
                listing.time_indexes.push((base, size));
            } else if let Some(base) = names::parse_file_name(&name, TXN_INDEX_SUFFIX) {
                listing.txn_indexes.push((base, size));
            } else if let Some(offset) = names::parse_file_name(&name, SNAPSHOT_SUFFIX) {
                listing.snapshots.insert(offset);
            }
        }
        for (list, suffix) in [
            (&listing.indexes, INDEX_SUFFIX),
            (&listing.time_indexes, TIME_INDEX_SUFFIX),
            (&listing.txn_indexes, TXN_INDEX_SUFFIX),
        ] {
            for (base, _) in list {
                if size_of(&listing.logs, *base).is_none() {
                    leftovers.push(names::file_name(*base, suffix));
                }
            }
        }
        for name in leftovers {
            let path = self.dir.join(name);
            small_files::remove_if_present(&*self.fs, &path)
                .map_err(|cause| self.failed("removal of", &path, cause))?;
        }
        Ok(())
    }

    /// Completes what Kafka's cleaner had finished but not put in place: a `.swap` segment replaces those whose offsets it
    /// covers. Whether there was any.
    fn finish_swaps(&self, entries: &[DirEntry]) -> Result<bool, LogError> {
        let swaps: Vec<&str> = entries
            .iter()
            .filter_map(|entry| entry.name.strip_suffix(names::SWAP_SUFFIX))
            .collect();
        if swaps.is_empty() {
            return Ok(false);
        }
        let all = || {
            for name in &swaps {
                let Some(base) = names::parse_file_name(name, LOG_SUFFIX) else { continue };
                let path = self.dir.join(format!("{name}{}", names::SWAP_SUFFIX));
                let file = self.fs.open(&path, OpenMode::Read)?;
                let mut scanner = Scanner::headers(&*file, 0, file.size()?);
                let mut end = base;
                while let Step::Batch(header) = scanner.step()? {
                    end = header.next_offset();
                }
                for entry in entries {
                    for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX] {
                        let covered = names::parse_file_name(&entry.name, suffix)
                            .is_some_and(|other| other >= base && other < end);
                        if covered {
                            self.fs.remove_file(&self.dir.join(&entry.name))?;
                        }
                    }
                }
            }
            for name in &swaps {
                let from = self.dir.join(format!("{name}{}", names::SWAP_SUFFIX));
                self.fs.rename(&from, &self.dir.join(name))?;
            }
            self.fs.sync_dir(&self.dir)
        };
        all().map_err(|cause| self.failed("completion of swaps in", &self.dir, cause))?;
        Ok(true)
    }

    /// The segments by their files, none yet looked into.
    fn segments(&self) -> Result<Vec<Segment>, LogError> {
        let logs = &self.listing.logs;
        let mut segments = Vec::with_capacity(logs.len());
        for (at, (base, size)) in logs.iter().enumerate() {
            let files = SegmentFiles::new(self.fs.clone(), self.dir.clone(), *base);
            let mut segment = Segment::new(files, self.args.now);
            segment.created = true;
            segment.size = u32::try_from(*size).map_err(|_| {
                let path = segment.files.path(LOG_SUFFIX);
                let cause = io::Error::new(io::ErrorKind::InvalidData, format!("{size} bytes"));
                self.failed("opening of", &path, cause)
            })?;
            segment.written = segment.size;
            segment.end = logs.get(at + 1).map_or(*base, |(next, _)| *next);
            segments.push(segment);
        }
        Ok(segments)
    }

    fn first_segment(&self, base: Offset) -> Result<Segment, LogError> {
        let files = SegmentFiles::new(self.fs.clone(), self.dir.clone(), base);
        jobs::roll(&files, 0)?;
        let mut segment = Segment::new(files, self.args.now);
        segment.created = true;
        Ok(segment)
    }

    /// Looks into the segments, and verifies those from the recovery point on; the offset up to which nothing had to be
    /// verified.
    fn trusted_end(&mut self, segments: &mut Vec<Segment>) -> Result<Offset, LogError> {
        let last = segments.len() - 1;
        let mut from = last;
        if !self.args.clean_shutdown {
            let point = self.args.recovery_point;
            from = segments.partition_point(|segment| segment.base <= point).saturating_sub(1);
        }
        for segment in &mut segments[..from] {
            self.open_sealed(segment)?;
        }
        if self.args.clean_shutdown {
            if self.open_active(&mut segments[last])? {
                return Ok(segments[last].end);
            }
            tracing::warn!(dir = %self.dir.display(), "the active segment is damaged although the stop was clean");
            self.args.recovery_point = segments[last].base;
        }
        self.recover(segments, from)
    }

    /// A segment that is complete and durable: only its index files are looked at.
    fn open_sealed(&mut self, segment: &mut Segment) -> Result<(), LogError> {
        let base = segment.base;
        let index = size_of(&self.listing.indexes, base);
        let time_index = size_of(&self.listing.time_indexes, base);
        let whole = |size: Option<u64>, entry: usize| {
            size.is_some_and(|size| size.is_multiple_of(entry as u64))
        };
        let time_entry = match time_index {
            Some(size) if whole(time_index, time_index::ENTRY_BYTES) => {
                self.last_time_entry(segment, size)?
            }
            _ => None,
        };
        // An index that was never trimmed is one of a crashed Kafka: its tail is zeros, and so is its last entry.
        let untrimmed = time_entry.is_some_and(|entry| entry.timestamp.0 <= 0)
            || index.is_some_and(|size| size / 8 > u64::from(segment.size) / 61);
        if !whole(index, offset_index::ENTRY_BYTES)
            || !whole(time_index, time_index::ENTRY_BYTES)
            || untrimmed
        {
            tracing::info!(segment = %segment.files.path(LOG_SUFFIX).display(), "rebuilding the indexes");
            return self.rebuild(segment);
        }
        self.check_first_magic(segment)?;
        segment.max_timestamp = time_entry
            .map(|entry| (entry.timestamp, Offset(base.0 + i64::from(entry.relative_offset))));
        segment.index = Index::Files {
            points: u32::try_from(index.unwrap_or(0) / offset_index::ENTRY_BYTES as u64)
                .unwrap_or(0),
            aborted: self.aborted_entries(base),
        };
        Ok(())
    }

    fn aborted_entries(&self, base: Offset) -> u32 {
        let size = size_of(&self.listing.txn_indexes, base).unwrap_or(0);
        u32::try_from(size / txn_index::ENTRY_BYTES as u64).unwrap_or(u32::MAX)
    }

    fn last_time_entry(
        &self,
        segment: &Segment,
        size: u64,
    ) -> Result<Option<time_index::TimeIndexEntry>, LogError> {
        let Some(at) = size.checked_sub(time_index::ENTRY_BYTES as u64) else { return Ok(None) };
        let path = segment.files.path(TIME_INDEX_SUFFIX);
        let mut bytes = [0; time_index::ENTRY_BYTES];
        let mut read = || self.fs.open(&path, OpenMode::Read)?.read_at(&mut bytes, at);
        read().map_err(|cause| self.failed("reading of", &path, cause))?;
        Ok(time_index::TimeIndexEntry::parse(&bytes, 0))
    }

    /// Opens the active segment of a cleanly stopped log; `false` when it is not as a clean stop leaves it.
    fn open_active(&mut self, segment: &mut Segment) -> Result<bool, LogError> {
        self.check_first_magic(segment)?;
        let index = self.read_index(segment)?;
        let complete = size_of(&self.listing.indexes, segment.base)
            == Some((index.points.len() * offset_index::ENTRY_BYTES) as u64)
            && size_of(&self.listing.time_indexes, segment.base)
                == Some((index.times.len() * time_index::ENTRY_BYTES) as u64);
        segment.index = Index::Memory(index);
        if complete { self.walk_tail(segment) } else { Ok(false) }
    }

    /// Finds the end of a segment from its last index entry on, reading headers only.
    fn walk_tail(&self, segment: &mut Segment) -> Result<bool, LogError> {
        let path = segment.files.path(LOG_SUFFIX);
        let mut walk = || -> io::Result<bool> {
            let file = segment.files.open_log()?;
            let last = segment.memory().and_then(|index| index.points.last()).copied();
            let start = last.map_or(0, |point| u64::from(point.position));
            let mut end = segment.base;
            let mut first_timestamp = None;
            let mut scanner = Scanner::headers(&*file, start, u64::from(segment.size));
            loop {
                match scanner.step()? {
                    Step::Batch(header) if header.base_offset >= end => {
                        end = header.next_offset();
                        first_timestamp.get_or_insert(header.max_timestamp);
                        if header.max_timestamp
                            > segment.max_timestamp.map_or(Timestamp(-1), |(max, _)| max)
                        {
                            segment.max_timestamp =
                                Some((header.max_timestamp, header.last_offset()));
                        }
                    }
                    Step::End => break,
                    Step::Batch(_) | Step::Bad(_) | Step::OldMagic(_) => return Ok(false),
                }
            }
            if start > 0 {
                let mut scanner = Scanner::headers(&*file, 0, u64::from(segment.size));
                if let Step::Batch(header) = scanner.step()? {
                    first_timestamp = Some(header.max_timestamp);
                }
            }
            segment.first_timestamp = first_timestamp;
            segment.end = end;
            Ok(true)
        };
        walk().map_err(|cause| self.failed("reading of", &path, cause))
    }

    /// The index files of a segment as far as they rise and lie within the data. Also sets its largest timestamp.
    pub(super) fn read_index(&mut self, segment: &mut Segment) -> Result<MemoryIndex, LogError> {
        let read = |suffix| {
            let path = segment.files.path(suffix);
            small_files::read_if_present(&*self.fs, &path)
                .map(Option::unwrap_or_default)
                .map_err(|cause| self.failed("reading of", &path, cause))
        };
        let mut points = offset_index::parse_rising(&read(INDEX_SUFFIX)?);
        points.retain(|point| point.position < segment.size);
        let times = time_index::parse_rising(&read(TIME_INDEX_SUFFIX)?);
        let aborted = txn_index::parse(&read(TXN_INDEX_SUFFIX)?).unwrap_or_else(|error| {
            let path = segment.files.path(TXN_INDEX_SUFFIX);
            tracing::warn!(path = %path.display(), %error, "rebuilding the transaction index");
            self.txn_trusted.push((segment.base, segment.base));
            Vec::new()
        });
        segment.max_timestamp = times.last().map(|entry| {
            (entry.timestamp, Offset(segment.base.0 + i64::from(entry.relative_offset)))
        });
        let saved =
            SavedEntries { points: points.len(), times: times.len(), aborted: aborted.len() };
        let points = points.into_iter().map(IndexPoint::from_file).collect();
        Ok(MemoryIndex { points, times, aborted, saved })
    }

    /// Refuses a segment that begins in a format which is not served.
    fn check_first_magic(&self, segment: &Segment) -> Result<(), LogError> {
        if segment.size == 0 {
            return Ok(());
        }
        let path = segment.files.path(LOG_SUFFIX);
        let step = || -> io::Result<Step> {
            let file = self.fs.open(&path, OpenMode::Read)?;
            Scanner::headers(&*file, 0, u64::from(segment.size)).step()
        };
        match step().map_err(|cause| self.failed("reading of", &path, cause))? {
            Step::OldMagic(magic) => Err(LogError::OldMagic { path, position: 0, magic }),
            Step::Batch(_) | Step::Bad(_) | Step::End => Ok(()),
        }
    }

    fn epochs(&self) -> Result<(Epochs, bool), LogError> {
        let path = self.dir.join(EPOCH_CHECKPOINT);
        let bytes = small_files::read_if_present(&*self.fs, &path)
            .map_err(|cause| self.failed("reading of", &path, cause))?;
        let Some(bytes) = bytes else { return Ok((Epochs::default(), true)) };
        match epoch_checkpoint::parse(&bytes) {
            Ok(entries) => Ok((Epochs::new(entries), false)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "leader epochs are unreadable: taken from the batches");
                Ok((Epochs::default(), true))
            }
        }
    }

    pub(super) fn snapshots(&self) -> &BTreeSet<Offset> {
        &self.listing.snapshots
    }

    pub(super) fn forget_snapshot(&mut self, offset: Offset) -> Result<(), LogError> {
        self.listing.snapshots.remove(&offset);
        let path = self.dir.join(names::file_name(offset, SNAPSHOT_SUFFIX));
        small_files::remove_if_present(&*self.fs, &path)
            .map_err(|cause| self.failed("removal of", &path, cause))
    }

    fn bytes_from(&self, segments: &[Segment], offset: Offset) -> Result<u64, LogError> {
        let mut bytes = 0;
        for segment in segments.iter().filter(|segment| segment.end > offset) {
            let size = u64::from(segment.size);
            bytes += if segment.base >= offset {
                size
            } else {
                size - self.position_of(segment, offset)?.unwrap_or(size).min(size)
            };
        }
        Ok(bytes)
    }

    /// Where the batch that holds or follows `offset` begins.
    pub(super) fn position_of(
        &self,
        segment: &Segment,
        offset: Offset,
    ) -> Result<Option<u64>, LogError> {
        let path = segment.files.path(LOG_SUFFIX);
        let relative = segment.relative(offset);
        let start = segment
            .memory()
            .and_then(|index| index.floor(relative.saturating_sub(1)))
            .map_or(0, |point| u64::from(point.position));
        let find = || {
            let file = segment.files.open_log()?;
            super::scan::find_batch(&*file, start, u64::from(segment.size), offset)
        };
        let found = find().map_err(|cause| self.failed("reading of", &path, cause))?;
        Ok(found.map(|(position, _)| position))
    }

    /// Puts the rebuilt indexes of sealed segments into their files, and cuts the active segment's to what is trusted.
    fn finish_indexes(&mut self, segments: &mut [Segment]) -> Result<(), LogError> {
        let last = segments.len() - 1;
        for (at, segment) in segments.iter_mut().enumerate() {
            let Some(index) = segment.memory() else { continue };
            let (saved, counts) = (index.saved, index.counts());
            self.cut_index_files(segment, saved)?;
            if at != last {
                let index = segment.memory().map(|index| index.bytes(saved, counts));
                if let Some(index) = index {
                    jobs::save_index(&segment.files, index)?;
                }
                segment.index = Index::Files {
                    points: u32::try_from(counts.points).unwrap_or(u32::MAX),
                    aborted: u32::try_from(counts.aborted).unwrap_or(u32::MAX),
                };
                segment.files.close_if_idle();
            }
        }
        Ok(())
    }

    fn cut_index_files(&self, segment: &Segment, saved: SavedEntries) -> Result<(), LogError> {
        let base = segment.base;
        for (suffix, list, entries, entry_bytes) in [
            (INDEX_SUFFIX, &self.listing.indexes, saved.points, offset_index::ENTRY_BYTES),
            (TIME_INDEX_SUFFIX, &self.listing.time_indexes, saved.times, time_index::ENTRY_BYTES),
            (TXN_INDEX_SUFFIX, &self.listing.txn_indexes, saved.aborted, txn_index::ENTRY_BYTES),
        ] {
            let want = (entries * entry_bytes) as u64;
            let have = size_of(list, base);
            if have == Some(want) || (have.is_none() && suffix == TXN_INDEX_SUFFIX) {
                continue;
            }
            let path = segment.files.path(suffix);
            let cut = || {
                if want == 0 && suffix == TXN_INDEX_SUFFIX {
                    return small_files::remove_if_present(&*self.fs, &path);
                }
                self.fs.open(&path, OpenMode::Create)?.set_len(want)
            };
            cut().map_err(|cause| self.failed("cutting of", &path, cause))?;
        }
        Ok(())
    }
}

/// The size in a list of one kind of files.
fn size_of(list: &[(Offset, u64)], base: Offset) -> Option<u64> {
    list.binary_search_by_key(&base, |(base, _)| *base).ok().map(|at| list[at].1)
}

/// What a truncation does to the files; the log is then read anew.
#[derive(Debug)]
pub(super) enum Cut {
    /// Everything at and above the offset goes.
    To(Offset),
    /// Everything goes; the log starts anew at the offset.
    StartAt(Offset),
}

/// Cuts a log and reads it anew.
pub(super) fn truncate(
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    config: &LogConfig,
    mut args: OpenArgs,
    cut: Cut,
) -> Result<Loaded, DirectoryFailed> {
    let dir: Arc<Path> = dir.into();
    let mut loader = Loader {
        fs: fs.clone(),
        dir: dir.clone(),
        config,
        args,
        report: RecoveryReport::default(),
        txn_trusted: Vec::new(),
        listing: Listing::default(),
    };
    let result = (|| {
        loader.list()?;
        let segments = loader.segments()?;
        let offset = match cut {
            Cut::To(offset) => offset,
            Cut::StartAt(offset) => offset,
        };
        let all = matches!(cut, Cut::StartAt(_)) || segments.iter().all(|s| s.base >= offset);
        let gone: Vec<Offset> = segments
            .iter()
            .filter(|segment| all || segment.base >= offset)
            .map(|segment| segment.base)
            // Newest first: what is left is one run of offsets.
            .rev()
            .collect();
        jobs::mark_deleted(&*fs, &dir, &gone)?;
        if !all {
            let segment = &segments[segments.len() - gone.len() - 1];
            if let Some(position) = loader.position_of(segment, offset)? {
                let path = segment.files.path(LOG_SUFFIX);
                let cut = || {
                    let file = segment.files.open_log()?;
                    file.set_len(position)?;
                    file.sync_data()
                };
                cut().map_err(|cause| failed("cutting of", &path, cause))?;
            }
        }
        let late: Vec<Offset> = loader
            .snapshots()
            .iter()
            .copied()
            .filter(|snapshot| all || *snapshot > offset)
            .collect();
        for snapshot in late {
            loader.forget_snapshot(snapshot)?;
        }
        if matches!(cut, Cut::StartAt(_)) {
            let path = dir.join(EPOCH_CHECKPOINT);
            small_files::remove_if_present(&*fs, &path)
                .map_err(|cause| failed("removal of", &path, cause))?;
        }
        jobs::remove_deleted(&*fs, &dir, &gone)?;
        args.recovery_point = args.recovery_point.min(offset);
        args.clean_shutdown = false;
        if all {
            args.log_start = offset;
        }
        load(fs.clone(), dir.clone(), config, args)
    })();
    result.map_err(|error| match error {
        LogError::Directory(error) => error,
        LogError::OldMagic { ref path, .. } => failed(
            "reading of",
            path,
            io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
        ),
    })
}
