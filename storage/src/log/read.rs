//! The read side of [`Log`]: from offsets to bytes of files, never blocking.
//!
//! A reader that follows the log asks for the offset at which its last slice ended: its position is remembered. Any other
//! offset is looked up in the index, in memory for the active segment and in the file for others, and then by walking the
//! headers of at most a few kilobytes of batches. Every read looks at one header, which also tells whether the bytes are in
//! the page cache.

use std::io;

use protocol_compat::batch::{BATCH_OVERHEAD_BYTES, BatchHeader};
use protocol_compat::ids::Offset;

use super::io::{ColdFile, ColdPart};
use super::jobs::failed;
use super::log::Log;
use super::segment::{Index, Segment};
use super::{AbortedTransaction, Cold, LogSlice, ReadError};
use crate::disk::FileRef;
use crate::format::names::{INDEX_SUFFIX, LOG_SUFFIX};
use crate::format::offset_index::{self, OffsetIndexEntry};

/// Ends of slices that are remembered: so many readers may follow one log.
const HINTS: usize = 8;
/// Bytes read at a time while walking headers.
const WALK_BYTES: usize = 4096;
/// What is brought into memory at a time for a cold reader.
const COLD_BYTES: u32 = 1 << 20;

/// Where a batch begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boundary {
    pub(super) offset: Offset,
    /// Base of its segment.
    pub(super) segment: Offset,
    pub(super) position: u32,
}

/// The ends of the last slices given.
#[derive(Debug, Default)]
pub(super) struct Hints {
    list: [Option<Boundary>; HINTS],
    next: usize,
}

impl Hints {
    fn get(&self, offset: Offset) -> Option<Boundary> {
        self.list.iter().flatten().find(|hint| hint.offset == offset).copied()
    }

    /// Puts `new` in the place of the hint that was used, if any.
    fn put(&mut self, used: Offset, new: Boundary) {
        let place = self
            .list
            .iter()
            .position(|hint| hint.is_some_and(|h| h.offset == used || h.offset == new.offset));
        let place = place.unwrap_or_else(|| {
            self.next = (self.next + 1) % HINTS;
            self.next
        });
        self.list[place] = Some(new);
    }
}

/// A batch found.
struct Found {
    position: u64,
    header: BatchHeader,
}

impl Log {
    /// The bytes from the batch that holds `from` up to `end` (an exclusive offset: high watermark, last
    /// stable offset or log end), at most `max_bytes`; with `min_one_batch` the first batch is whole even
    /// when it is larger. Empty when `from` is at or past `end`. Never blocks.
    ///
    /// # Errors
    /// Out of range, cold, corrupt, or a failing disk.
    pub fn read(
        &mut self,
        from: Offset,
        max_bytes: u32,
        end: Offset,
        min_one_batch: bool,
    ) -> Result<LogSlice, ReadError> {
        if from < self.log_start || from > self.written {
            return Err(ReadError::OutOfRange {
                offset: from,
                log_start: self.log_start,
                log_end: self.written,
            });
        }
        let end = end.min(self.written);
        if from >= end {
            return Ok(self.empty_slice());
        }
        let Some((at, file, found)) = self.locate(from)? else {
            return Ok(self.empty_slice());
        };
        let segment = &self.segments[at];
        let end_position = if end == self.written || segment.end <= end {
            u64::from(segment.written)
        } else {
            match self.position_of_end(at, &file, end)? {
                Some(position) => position,
                None => u64::from(segment.written),
            }
        };
        let segment = &self.segments[at];
        let available = u32::try_from(end_position.saturating_sub(found.position)).unwrap_or(0);
        let first_batch_size = u32::try_from(found.header.batch_size()).unwrap_or(u32::MAX);
        if available < first_batch_size {
            // The batch goes past `end`: it is not to be seen yet.
            return Ok(self.empty_slice());
        }
        let mut next = Some(end).filter(|_| available <= max_bytes);
        let mut len = available.min(max_bytes);
        if len < first_batch_size {
            if min_one_batch {
                len = first_batch_size;
                next = Some(found.header.next_offset());
            }
        } else if next.is_none()
            && let Some(index) = segment.memory()
            && let Some(point) = index.before_position(found.position + u64::from(len))
            && u64::from(point.position) > found.position
        {
            // Cut where a batch begins: no part of one is sent that would have to be sent again.
            len = u32::try_from(u64::from(point.position) - found.position).unwrap_or(len);
            next =
                point.base_relative().map(|relative| Offset(segment.base.0 + i64::from(relative)));
        }
        if let Some(next) = next
            && (segment.end > next || at + 1 == self.segments.len())
        {
            let position = u32::try_from(found.position).unwrap_or(0) + len;
            self.hints.put(from, Boundary { offset: next, segment: segment.base, position });
        }
        Ok(LogSlice { file, pos: found.position, len, first_batch_size })
    }

    fn empty_slice(&self) -> LogSlice {
        LogSlice { file: self.writing.1.clone(), pos: 0, len: 0, first_batch_size: 0 }
    }

    /// The batch that holds or follows `offset`, with its segment.
    fn locate(&self, offset: Offset) -> Result<Option<(usize, FileRef, Found)>, ReadError> {
        if let Some(hint) = self.hints.get(offset)
            && let Some(at) = self.segment_index(hint.segment)
            && hint.position < self.segments[at].written
        {
            let file = log_file(&self.segments[at])?;
            let found = header_at(&self.segments[at], &file, u64::from(hint.position))?;
            if found.header.base_offset <= offset && offset <= found.header.last_offset() {
                return Ok(Some((at, file, found)));
            }
        }
        let first = self.segments.partition_point(|segment| segment.base <= offset);
        for at in first.saturating_sub(1)..self.segments.len() {
            let segment = &self.segments[at];
            if segment.written == 0 {
                continue;
            }
            let file = log_file(segment)?;
            let start = floor_position(segment, offset)?;
            if let Some(found) = walk(segment, &file, start, offset)? {
                return Ok(Some((at, file, found)));
            }
            // Compaction may have taken the last records of a segment: the next one goes on.
        }
        Ok(None)
    }

    /// Where the batch that holds `end` begins in segment `at`.
    fn position_of_end(
        &self,
        at: usize,
        file: &FileRef,
        end: Offset,
    ) -> Result<Option<u64>, ReadError> {
        let segment = &self.segments[at];
        let after = self.boundaries.partition_point(|boundary| boundary.offset <= end);
        if let Some(boundary) = after.checked_sub(1).and_then(|at| self.boundaries.get(at))
            && boundary.segment == segment.base
            && (boundary.offset == end || after < self.boundaries.len())
        {
            return Ok(Some(u64::from(boundary.position)));
        }
        if let Some(hint) = self.hints.get(end)
            && hint.segment == segment.base
        {
            return Ok(Some(u64::from(hint.position)));
        }
        let start = floor_position(segment, end)?;
        Ok(walk(segment, file, start, end)?.map(|found| found.position))
    }

    /// Aborted transactions that have records between `from` and `end`, for Fetch with READ_COMMITTED. Never blocks.
    ///
    /// # Errors
    /// Cold, or a failing disk.
    pub fn aborted_transactions(
        &mut self,
        from: Offset,
        end: Offset,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let mut list = Vec::new();
        let first = self.segments.partition_point(|segment| segment.base <= from);
        for segment in &self.segments[first.saturating_sub(1)..] {
            let on_disk;
            let aborted = match &segment.index {
                Index::Memory(index) => index.aborted.as_slice(),
                Index::Files { aborted: 0, .. } => &[],
                Index::Files { .. } => {
                    on_disk =
                        segment.files.aborted().ok_or_else(|| cold(segment, ColdPart::Aborted))?;
                    &on_disk
                }
            };
            for entry in aborted {
                if entry.last_offset >= from && entry.first_offset < end {
                    list.push(AbortedTransaction {
                        producer_id: entry.producer_id,
                        first_offset: entry.first_offset,
                    });
                }
                if entry.last_stable_offset >= end {
                    return Ok(list);
                }
            }
        }
        Ok(list)
    }
}

fn cold(segment: &Segment, what: ColdPart) -> ReadError {
    ReadError::Cold(Cold::Open(ColdFile { files: segment.files.clone(), what }))
}

fn log_file(segment: &Segment) -> Result<FileRef, ReadError> {
    segment.files.log().ok_or_else(|| cold(segment, ColdPart::Log))
}

/// Where to begin walking for `offset`: the position of the last index entry at or before it.
fn floor_position(segment: &Segment, offset: Offset) -> Result<u64, ReadError> {
    let relative = segment.relative(offset);
    match &segment.index {
        Index::Memory(index) => {
            Ok(index.floor(relative).map_or(0, |point| u64::from(point.position)))
        }
        Index::Files { points: 0, .. } => Ok(0),
        Index::Files { points, .. } => {
            let file = segment.files.index().ok_or_else(|| cold(segment, ColdPart::Index))?;
            search_index(segment, &file, *points, relative)
        }
    }
}

/// Entries of an index file that are read at a time.
const INDEX_CHUNK: u32 = 64;

/// Binary search in an index file: by single entries first, then within one chunk.
fn search_index(
    segment: &Segment,
    file: &FileRef,
    points: u32,
    relative: u32,
) -> Result<u64, ReadError> {
    let mut buffer = [0; INDEX_CHUNK as usize * offset_index::ENTRY_BYTES];
    // All before `low` are at or before the offset; all from `high` on are after it.
    let (mut low, mut high) = (0, points);
    let mut position = 0;
    while low < high {
        let small = high - low <= INDEX_CHUNK;
        let (first, count) = if small { (low, high - low) } else { (low + (high - low) / 2, 1) };
        let bytes = &mut buffer[..count as usize * offset_index::ENTRY_BYTES];
        let at = u64::from(first) * offset_index::ENTRY_BYTES as u64;
        read_nowait(segment, file, INDEX_SUFFIX, bytes, at)?;
        for number in 0..count as usize {
            let Some(entry) = OffsetIndexEntry::parse(bytes, number * offset_index::ENTRY_BYTES)
            else {
                break;
            };
            if entry.relative_offset > relative {
                high = first + u32::try_from(number).unwrap_or(0);
                break;
            }
            low = first + u32::try_from(number).unwrap_or(0) + 1;
            position = u64::from(entry.position);
        }
    }
    Ok(position.min(u64::from(segment.written)))
}

/// Walks headers from `position` to the batch that holds or follows `offset`.
fn walk(
    segment: &Segment,
    file: &FileRef,
    mut position: u64,
    offset: Offset,
) -> Result<Option<Found>, ReadError> {
    let end = u64::from(segment.written);
    let mut buffer = [0; WALK_BYTES];
    let (mut start, mut len) = (0u64, 0usize);
    while position + BATCH_OVERHEAD_BYTES as u64 <= end {
        let inside =
            position >= start && position + BATCH_OVERHEAD_BYTES as u64 <= start + len as u64;
        if !inside {
            len = usize::try_from(end - position).unwrap_or(WALK_BYTES).min(WALK_BYTES);
            read_nowait(segment, file, LOG_SUFFIX, &mut buffer[..len], position)?;
            start = position;
        }
        let at = usize::try_from(position - start).unwrap_or(len);
        let header = parse_header(segment, &buffer[at..len], position)?;
        if header.last_offset() >= offset {
            return Ok(Some(Found { position, header }));
        }
        position += header.batch_size() as u64;
    }
    Ok(None)
}

fn header_at(segment: &Segment, file: &FileRef, position: u64) -> Result<Found, ReadError> {
    let mut bytes = [0; BATCH_OVERHEAD_BYTES];
    read_nowait(segment, file, LOG_SUFFIX, &mut bytes, position)?;
    Ok(Found { position, header: parse_header(segment, &bytes, position)? })
}

fn parse_header(segment: &Segment, bytes: &[u8], position: u64) -> Result<BatchHeader, ReadError> {
    let corrupt = |what: String| {
        let path = segment.files.path(LOG_SUFFIX);
        ReadError::Corrupt(format!("{} at {position}: {what}", path.display()))
    };
    let header = BatchHeader::parse(bytes).map_err(|error| corrupt(error.to_string()))?;
    let in_segment = header.base_offset >= segment.base
        && header.last_offset_delta >= 0
        && position + header.batch_size() as u64 <= u64::from(segment.size);
    if !in_segment {
        return Err(corrupt(format!("batch of offset {} does not fit", header.base_offset)));
    }
    Ok(header)
}

/// Fills `bytes` from the page cache.
fn read_nowait(
    segment: &Segment,
    file: &FileRef,
    suffix: &str,
    bytes: &mut [u8],
    position: u64,
) -> Result<(), ReadError> {
    match file.read_at_nowait(bytes, position) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(count) => Err(ReadError::Corrupt(format!(
            "{} ends at {}",
            segment.files.path(suffix).display(),
            position + count as u64
        ))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(ReadError::Cold(Cold::Range { file: file.clone(), pos: position, len: COLD_BYTES }))
        }
        Err(cause) => {
            Err(ReadError::Directory(failed("reading of", &segment.files.path(suffix), cause)))
        }
    }
}
