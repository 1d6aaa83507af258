//! Searches by timestamp, which read segments: a [`LookupJob`] is made on the core and run on a pool thread.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::batch::{self, BatchHeader, TimestampType};
use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};

use super::jobs::failed;
use super::log::Log;
use super::scan::{Scanner, Step};
use super::segment::{Segment, SegmentFiles};
use super::{Lookup, ReadError, TimestampOffset};
use crate::format::names::{INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX};
use crate::format::{offset_index, time_index};
use crate::small_files;

/// Most bytes that a batch may decompress to when it is searched.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// A segment as it was when the job was made.
#[derive(Debug)]
struct View {
    files: Arc<SegmentFiles>,
    base: Offset,
    written: u32,
    max_timestamp: Option<(Timestamp, Offset)>,
    /// Where to begin, when the indexes are in memory.
    start: Option<u32>,
}

/// A [`Lookup`] over a view of the log that stays right while the log goes on.
#[derive(Debug)]
pub struct LookupJob {
    lookup: Lookup,
    log_start: Offset,
    end: Offset,
    /// Segments that may hold the record, in the order of the search.
    views: Vec<View>,
}

impl Log {
    /// A search for a record by timestamp below `end`; earliest and latest need none, they are positions.
    #[must_use]
    pub fn lookup(&self, lookup: Lookup, end: Offset) -> LookupJob {
        let end = end.min(self.written);
        let holds = |segment: &&Segment| {
            segment.base < end && segment.end > self.log_start && segment.written > 0
        };
        let mut views: Vec<View> = self
            .segments
            .iter()
            .filter(holds)
            .filter(|segment| match (lookup, segment.max_timestamp) {
                (Lookup::AtLeast(target), Some((max, _))) => max >= target,
                (Lookup::MaxTimestamp, Some(_)) => true,
                (_, None) => false,
            })
            .map(|segment| View::of(segment, lookup))
            .collect();
        if lookup == Lookup::MaxTimestamp {
            // The largest first, of equal ones the oldest: mostly the first segment answers.
            views.sort_by_key(|view| {
                (std::cmp::Reverse(view.max_timestamp.map(|(max, _)| max)), view.base)
            });
        }
        LookupJob { lookup, log_start: self.log_start, end, views }
    }
}

impl View {
    fn of(segment: &Segment, lookup: Lookup) -> Self {
        let start = segment.memory().map(|index| {
            let relative = match lookup {
                Lookup::AtLeast(target) => {
                    let after = index.times.partition_point(|entry| entry.timestamp < target);
                    after.checked_sub(1).map_or(0, |at| index.times[at].relative_offset)
                }
                Lookup::MaxTimestamp => {
                    segment.max_timestamp.map_or(0, |(_, offset)| segment.relative(offset))
                }
            };
            index.floor(relative).map_or(0, |point| point.position)
        });
        Self {
            files: segment.files.clone(),
            base: segment.base,
            written: segment.written,
            max_timestamp: segment.max_timestamp,
            start,
        }
    }

    /// Where to begin, from the index files: a wrong answer of theirs costs time, not truth, as 0 is right always.
    fn start_from_files(&self, lookup: Lookup) -> io::Result<u32> {
        let read = |suffix| {
            small_files::read_if_present(&*self.files.fs, &self.files.path(suffix))
                .map(Option::unwrap_or_default)
        };
        let relative = match lookup {
            Lookup::AtLeast(target) => {
                let times = time_index::parse_rising(&read(TIME_INDEX_SUFFIX)?);
                let after = times.partition_point(|entry| entry.timestamp < target);
                after.checked_sub(1).map_or(0, |at| times[at].relative_offset)
            }
            Lookup::MaxTimestamp => self
                .max_timestamp
                .map_or(0, |(_, offset)| u32::try_from(offset.0 - self.base.0).unwrap_or(0)),
        };
        let points = offset_index::parse_rising(&read(INDEX_SUFFIX)?);
        let after = points.partition_point(|entry| entry.relative_offset <= relative);
        Ok(after.checked_sub(1).map_or(0, |at| points[at].position))
    }
}

impl LookupJob {
    /// Searches. Blocks: for a pool thread.
    ///
    /// # Errors
    /// Corrupt data, or what the disk reports.
    pub fn run(self) -> Result<Option<TimestampOffset>, ReadError> {
        let mut best: Option<TimestampOffset> = None;
        for view in &self.views {
            if let (Some(best), Some((max, _))) = (&best, view.max_timestamp)
                && max <= best.timestamp
            {
                break;
            }
            match self.lookup {
                Lookup::AtLeast(target) => {
                    let found = self.first(view, target)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Lookup::MaxTimestamp => {
                    let found = self.largest(view)?;
                    if let Some(found) = found
                        && best.is_none_or(|best| found.timestamp > best.timestamp)
                    {
                        best = Some(found);
                    }
                }
            }
        }
        Ok(best)
    }

    /// The first record of a segment that is not older than `target`.
    fn first(&self, view: &View, target: Timestamp) -> Result<Option<TimestampOffset>, ReadError> {
        let start = match view.start {
            Some(start) => start,
            None => view.start_from_files(self.lookup).map_err(|cause| of_disk(view, cause))?,
        };
        self.walk(view, start, |header, bytes| {
            if header.max_timestamp < target {
                return Ok(None);
            }
            self.find_record(header, &bytes()?, |timestamp| timestamp >= target)
        })
    }

    /// The first record with the largest timestamp of a segment.
    fn largest(&self, view: &View) -> Result<Option<TimestampOffset>, ReadError> {
        // All of the segment is visible: its largest timestamp is known, and where about.
        let whole = view.max_timestamp.filter(|(_, offset)| *offset < self.end);
        if let Some((max, offset)) = whole {
            let start = match view.start {
                Some(start) => start,
                None => view.start_from_files(self.lookup).map_err(|cause| of_disk(view, cause))?,
            };
            let found = self.walk(view, start, |header, bytes| {
                if header.max_timestamp != max || header.last_offset() < offset {
                    return Ok(None);
                }
                self.find_record(header, &bytes()?, |timestamp| timestamp == max)
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        // It lies beyond what may be seen: the largest of the visible batches is looked for.
        let mut max = Timestamp(-1);
        self.walk(view, 0, |header, _| {
            max = max.max(header.max_timestamp);
            Ok(None)
        })?;
        if max.0 < 0 {
            return Ok(None);
        }
        self.walk(view, 0, |header, bytes| {
            if header.max_timestamp != max {
                return Ok(None);
            }
            self.find_record(header, &bytes()?, |timestamp| timestamp == max)
        })
    }

    /// Asks `visit` about the visible batches from `start` on, until it gives an answer.
    fn walk(
        &self,
        view: &View,
        start: u32,
        mut visit: impl FnMut(
            &BatchHeader,
            &mut dyn FnMut() -> io::Result<Bytes>,
        ) -> io::Result<Option<TimestampOffset>>,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let mut walk = || -> io::Result<Option<TimestampOffset>> {
            let file = view.files.open_log()?;
            let mut scanner = Scanner::headers(&*file, u64::from(start), u64::from(view.written));
            loop {
                match scanner.step()? {
                    Step::Batch(header) if header.base_offset >= self.end => return Ok(None),
                    Step::Batch(header) if header.last_offset() < self.log_start => {}
                    Step::Batch(header) => {
                        let mut bytes = || scanner.last_batch(usize::MAX).map(Bytes::from);
                        let found = visit(&header, &mut bytes)?;
                        if found.is_some() {
                            return Ok(found);
                        }
                    }
                    Step::End => return Ok(None),
                    Step::Bad(reason) => {
                        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                    }
                    Step::OldMagic(magic) => {
                        let reason = format!("a batch of magic {magic}");
                        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                    }
                }
            }
        };
        walk().map_err(|cause| of_disk(view, cause))
    }

    /// The first visible record of a batch whose timestamp is right.
    fn find_record(
        &self,
        header: &BatchHeader,
        bytes: &Bytes,
        is_right: impl Fn(Timestamp) -> bool,
    ) -> io::Result<Option<TimestampOffset>> {
        let invalid = |error: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        };
        let epoch = header.partition_leader_epoch;
        let leader_epoch = (epoch.0 >= 0).then_some(LeaderEpoch(epoch.0));
        let records =
            batch::records(bytes, DECOMPRESSED_BYTES_MAX).map_err(|error| invalid(&error))?;
        for record in records {
            let record = record.map_err(|error| invalid(&error))?;
            let timestamp = match header.attributes.timestamp_type() {
                TimestampType::CreateTime => record.timestamp,
                TimestampType::LogAppendTime => header.max_timestamp,
            };
            let visible = record.offset >= self.log_start && record.offset < self.end;
            if visible && is_right(timestamp) {
                let offset = record.offset;
                return Ok(Some(TimestampOffset { timestamp, offset, leader_epoch }));
            }
        }
        Ok(None)
    }
}

fn of_disk(view: &View, cause: io::Error) -> ReadError {
    let path = view.files.path(LOG_SUFFIX);
    if cause.kind() == io::ErrorKind::InvalidData {
        return ReadError::Corrupt(format!("{}: {cause}", path.display()));
    }
    ReadError::Directory(failed("search of", &path, cause))
}
