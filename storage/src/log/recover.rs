//! The parts of opening a log that read its records: verification after a crash, and the replay of producers.

use std::io;

use protocol_compat::batch::BatchHeader;
use protocol_compat::ids::{Offset, Timestamp};

use super::LogError;
use super::epochs::Epochs;
use super::jobs;
use super::load::Loader;
use super::producers::Producers;
use super::scan::{Scanner, Step, find_batch};
use super::segment::{Index, MemoryIndex, Segment};
use crate::format::names::{self, INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX};
use crate::format::{marker, offset_index, producer_snapshot, txn_index};
use crate::small_files;

/// Data before a snapshot that is looked through for older batches of its producers.
const WARM_BYTES: u64 = 4 << 20;
/// Index entries before the recovery point that are compared with the data.
const ENTRIES_VERIFIED: usize = 64;
/// Largest transaction marker that is read; real ones have 78 bytes.
const MARKER_BYTES_MAX: usize = 4096;

impl Loader<'_> {
    /// Verifies the segments from number `from` on, and cuts the log where it ends. Gives the offset from which on data was
    /// verified.
    pub(super) fn recover(
        &mut self,
        segments: &mut Vec<Segment>,
        from: usize,
    ) -> Result<Offset, LogError> {
        self.report.scanned = true;
        let point = self.args.recovery_point;
        let mut trusted = point.max(segments[from].base);
        let last = segments.len() - 1;
        for at in from..segments.len() {
            let next_base = segments.get(at + 1).map(|next| next.base);
            let segment = &mut segments[at];
            let base = segment.base;
            let position = if at == from { self.trust_until(segment, point)? } else { 0 };
            if at == from && position == 0 {
                trusted = base;
            }
            self.txn_trusted.push((base, if at == from { trusted } else { base }));
            let bad = self.scan(segment, position)?;
            if at != last || bad.is_some() {
                segment.add_last_time();
                self.report.rebuilt_indexes += 1;
            }
            // A segment that ends before the next begins has lost its tail to a power cut, unless records were compacted
            // away there.
            let hole = next_base.is_some_and(|next| segment.end < next)
                && !self.config.cleanup_policy.compact;
            if bad.is_none() && !hole {
                if let Some(next) = next_base {
                    segment.end = segment.end.max(next);
                }
                continue;
            }
            let reason = bad.unwrap_or_else(|| {
                format!("it ends at offset {}, before the next segment begins", segment.end)
            });
            self.cut(segments, at, &reason)?;
            break;
        }
        Ok(trusted)
    }

    /// Cuts the data of segment `at` to what was verified, and drops the segments behind it.
    fn cut(
        &mut self,
        segments: &mut Vec<Segment>,
        at: usize,
        reason: &str,
    ) -> Result<(), LogError> {
        let behind: Vec<Offset> = segments[at + 1..].iter().rev().map(|s| s.base).collect();
        let behind_bytes: u64 = segments[at + 1..].iter().map(|s| u64::from(s.size)).sum();
        jobs::mark_deleted(&*self.fs, &self.dir, &behind)?;
        segments.truncate(at + 1);
        let segment = &mut segments[at];
        let path = segment.files.path(LOG_SUFFIX);
        let cut_bytes = u64::from(segment.written - segment.size) + behind_bytes;
        tracing::warn!(
            path = %path.display(),
            position = segment.size,
            end_offset = segment.end.0,
            cut_bytes,
            segments_dropped = behind.len(),
            reason,
            "cut the end of a log that was not stopped cleanly"
        );
        let cut = || {
            let file = segment.files.open_log()?;
            file.set_len(u64::from(segment.size))?;
            file.sync_data()
        };
        cut().map_err(|cause| self.failed("cutting of", &path, cause))?;
        segment.written = segment.size;
        self.report.cut_bytes += cut_bytes;
        Ok(())
    }

    /// Takes over the indexes of a segment up to `point`, and gives the position of the batch there: 0 when the segment
    /// does not bear the indexes out, and must be verified as a whole.
    fn trust_until(&mut self, segment: &mut Segment, point: Offset) -> Result<u64, LogError> {
        let base = segment.base;
        let before = |relative: u32| base.0 + i64::from(relative) < point.0;
        let mut index = self.read_index(segment)?;
        index.points.retain(|entry| before(entry.last_relative));
        index.times.retain(|entry| before(entry.relative_offset));
        index.aborted.retain(|entry| entry.last_offset < point);
        self.verify_ends(segment, &mut index)?;
        index.saved = index.counts();
        let start = index.points.last().map_or(0, |entry| entry.position);
        segment.max_timestamp = index
            .times
            .last()
            .map(|entry| (entry.timestamp, Offset(base.0 + i64::from(entry.relative_offset))));
        segment.index = Index::Memory(index);
        let path = segment.files.path(LOG_SUFFIX);
        let mut walk = || -> io::Result<Option<u64>> {
            let file = segment.files.open_log()?;
            let mut scanner =
                Scanner::headers(&*file, u64::from(start), u64::from(segment.written));
            let mut end = base;
            loop {
                let position = scanner.position();
                match scanner.step()? {
                    Step::Batch(header) if header.base_offset < end => return Ok(None),
                    Step::Batch(header) if header.last_offset() < point => {
                        end = header.next_offset();
                        note_timestamp(segment, &header);
                    }
                    Step::Batch(_) => {
                        segment.end = end;
                        return Ok(Some(position));
                    }
                    Step::End if end >= point => {
                        segment.end = end;
                        return Ok(Some(position));
                    }
                    Step::End | Step::Bad(_) | Step::OldMagic(_) => return Ok(None),
                }
            }
        };
        let found = walk().map_err(|cause| self.failed("reading of", &path, cause))?;
        let Some(position) = found.filter(|position| *position > 0) else { return Ok(0) };
        segment.size = u32::try_from(position).unwrap_or(u32::MAX);
        segment.since_index = position - u64::from(start);
        segment.first_timestamp = self.first_timestamp(segment)?;
        Ok(position)
    }

    /// Drops index entries that the data does not bear out. Entries before the recovery point are durable, but behind them
    /// may stand others of which a power cut left a part, and that part may look like an entry before the recovery point.
    /// Of such there are few, as they must rise: only the last ones are checked.
    fn verify_ends(&self, segment: &Segment, index: &mut MemoryIndex) -> Result<(), LogError> {
        let base = segment.base;
        let end = u64::from(segment.written);
        let offset_of = |relative: u32| Offset(base.0 + i64::from(relative));
        let path = segment.files.path(LOG_SUFFIX);
        let mut verify = || -> io::Result<()> {
            let file = segment.files.open_log()?;
            for at in index.points.len().saturating_sub(ENTRIES_VERIFIED)..index.points.len() {
                let point = index.points[at];
                let step = Scanner::headers(&*file, u64::from(point.position), end).step()?;
                let right = matches!(step, Step::Batch(header)
                    if header.last_offset() == offset_of(point.last_relative));
                if !right {
                    index.points.truncate(at);
                    break;
                }
            }
            let batch_ending_at = |index: &MemoryIndex, offset: Offset| {
                let start = index
                    .floor(segment.relative(offset))
                    .map_or(0, |point| u64::from(point.position));
                let found = find_batch(&*file, start, end, offset)?;
                io::Result::Ok(found.filter(|(_, header)| header.last_offset() == offset))
            };
            for at in index.times.len().saturating_sub(ENTRIES_VERIFIED)..index.times.len() {
                let entry = index.times[at];
                let found = batch_ending_at(index, offset_of(entry.relative_offset))?;
                if !found.is_some_and(|(_, header)| header.max_timestamp == entry.timestamp) {
                    index.times.truncate(at);
                    break;
                }
            }
            for at in index.aborted.len().saturating_sub(ENTRIES_VERIFIED)..index.aborted.len() {
                let entry = index.aborted[at];
                let found = batch_ending_at(index, entry.last_offset)?;
                let right = found.is_some_and(|(_, header)| {
                    header.attributes.is_control() && header.producer_id == entry.producer_id
                });
                if !right {
                    index.aborted.truncate(at);
                    break;
                }
            }
            Ok(())
        };
        verify().map_err(|cause| self.failed("reading of", &path, cause))
    }

    fn first_timestamp(&self, segment: &Segment) -> Result<Option<Timestamp>, LogError> {
        let path = segment.files.path(LOG_SUFFIX);
        let first = || {
            let file = segment.files.open_log()?;
            Scanner::headers(&*file, 0, u64::from(segment.written)).step()
        };
        match first().map_err(|cause| self.failed("reading of", &path, cause))? {
            Step::Batch(header) => Ok(Some(header.max_timestamp)),
            Step::End | Step::Bad(_) | Step::OldMagic(_) => Ok(None),
        }
    }

    /// Verifies the batches of a segment from `position` on and indexes them; why it stopped before the end. At position
    /// 0 the indexes begin anew. Afterwards the segment's size and end are those of what was verified.
    pub(super) fn scan(
        &mut self,
        segment: &mut Segment,
        position: u64,
    ) -> Result<Option<String>, LogError> {
        if position == 0 {
            segment.index = Index::Memory(MemoryIndex::default());
            segment.size = 0;
            segment.end = segment.base;
            segment.since_index = 0;
            segment.max_timestamp = None;
            segment.first_timestamp = None;
        }
        let path = segment.files.path(LOG_SUFFIX);
        let total = u64::from(segment.written);
        let interval = self.config.index_interval_bytes;
        let mut old_magic = None;
        let mut scan = || -> io::Result<Option<String>> {
            let file = segment.files.open_log()?;
            let mut scanner = Scanner::whole(&*file, position, total);
            loop {
                match scanner.step()? {
                    Step::Batch(header) => {
                        if header.base_offset < segment.end
                            || header.last_offset().0 - segment.base.0 > i64::from(i32::MAX)
                        {
                            return Ok(Some(format!(
                                "offset {} after {}",
                                header.base_offset, segment.end
                            )));
                        }
                        segment.add(&header, interval);
                    }
                    Step::End => return Ok(None),
                    Step::Bad(reason) => return Ok(Some(reason)),
                    Step::OldMagic(magic) => {
                        old_magic = Some((scanner.position(), magic));
                        return Ok(None);
                    }
                }
            }
        };
        let bad = scan().map_err(|cause| self.failed("reading of", &path, cause))?;
        if let Some((position, magic)) = old_magic {
            return Err(LogError::OldMagic { path, position, magic });
        }
        self.report.scanned_bytes += u64::from(segment.size) - position;
        Ok(bad)
    }

    /// Verifies a whole sealed segment and makes its indexes anew.
    pub(super) fn rebuild(&mut self, segment: &mut Segment) -> Result<(), LogError> {
        let end = segment.end;
        let bad = self.scan(segment, 0)?;
        if let Some(bad) = bad {
            // Below the recovery point nothing is cut: the data was durable, so this is damage, for readers to see.
            tracing::error!(
                path = %segment.files.path(LOG_SUFFIX).display(),
                position = segment.size,
                bad,
                "damaged data"
            );
            segment.size = segment.written;
        }
        segment.end = end;
        segment.add_last_time();
        let path = segment.files.path(TXN_INDEX_SUFFIX);
        let bytes = small_files::read_if_present(&*self.fs, &path)
            .map_err(|cause| self.failed("reading of", &path, cause))?;
        match txn_index::parse(&bytes.unwrap_or_default()) {
            Ok(aborted) => {
                if let Some(index) = segment.memory_mut() {
                    index.saved.aborted = aborted.len();
                    index.aborted = aborted;
                }
            }
            Err(_) => self.txn_trusted.push((segment.base, segment.base)),
        }
        self.report.rebuilt_indexes += 1;
        Ok(())
    }

    /// The producers at the log end: the newest snapshot and what came after it. Also completes the transaction indexes
    /// and epochs by what is read on the way.
    pub(super) fn producers(
        &mut self,
        segments: &mut [Segment],
        epochs: &mut Epochs,
        epochs_dirty: &mut bool,
        end: Offset,
    ) -> Result<Producers, LogError> {
        let late: Vec<Offset> =
            self.snapshots().iter().copied().filter(|offset| *offset > end).collect();
        for offset in late {
            self.forget_snapshot(offset)?;
        }
        // What a transaction index lacks is found by replaying its segment from a snapshot before it.
        let limit = self.txn_trusted.iter().map(|(_, trusted)| *trusted).fold(end, Offset::min);
        let mut producers = Producers::default();
        let mut from = segments[0].base;
        for offset in self.snapshots().range(..=limit).rev().copied().collect::<Vec<_>>() {
            let path = self.dir.join(names::file_name(offset, SNAPSHOT_SUFFIX));
            let bytes = small_files::read(&*self.fs, &path)
                .map_err(|cause| self.failed("reading of", &path, cause))?;
            match producer_snapshot::parse(&bytes) {
                Ok(entries) => {
                    producers = Producers::from_snapshot(
                        &entries,
                        self.args.now,
                        self.config.producer_id_expiration_ms,
                    );
                    from = offset;
                    break;
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "unreadable producer snapshot: an older one is taken");
                    self.forget_snapshot(offset)?;
                }
            }
        }
        if !producers.is_empty() {
            self.warm(segments, &mut producers, from)?;
        }
        for segment in segments.iter_mut().filter(|segment| segment.end > from) {
            self.replay(segment, &mut producers, epochs, epochs_dirty, from)?;
        }
        producers.expire(self.args.now, self.config.producer_id_expiration_ms);
        Ok(producers)
    }

    fn replay(
        &self,
        segment: &mut Segment,
        producers: &mut Producers,
        epochs: &mut Epochs,
        epochs_dirty: &mut bool,
        from: Offset,
    ) -> Result<(), LogError> {
        let start = if from <= segment.base {
            0
        } else {
            self.position_of(segment, from)?.unwrap_or_else(|| u64::from(segment.size))
        };
        let trusted = self
            .txn_trusted
            .iter()
            .find(|(base, _)| *base == segment.base)
            .map_or(Offset(i64::MAX), |(_, trusted)| *trusted);
        let path = segment.files.path(LOG_SUFFIX);
        let mut replay = || -> io::Result<()> {
            let file = segment.files.open_log()?;
            let mut scanner = Scanner::headers(&*file, start, u64::from(segment.size));
            while let Step::Batch(header) = scanner.step()? {
                *epochs_dirty |= epochs.assign(header.partition_leader_epoch, header.base_offset);
                if header.producer().is_none() {
                    continue;
                }
                if !header.attributes.is_control() {
                    producers.append_data(&header);
                    continue;
                }
                let bytes = scanner.last_batch(MARKER_BYTES_MAX)?;
                let marker = marker::parse(&header, &bytes).map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                })?;
                let Some(marker) = marker else { continue };
                let aborted = producers.append_marker(&header, &marker);
                if let Some(aborted) = aborted
                    && aborted.last_offset >= trusted
                    && let Some(index) = segment.memory_mut()
                {
                    index.aborted.push(aborted);
                }
            }
            Ok(())
        };
        replay().map_err(|cause| self.failed("reading of", &path, cause))
    }

    /// Looks through the data just before a snapshot for older batches of its producers.
    fn warm(
        &self,
        segments: &[Segment],
        producers: &mut Producers,
        snapshot: Offset,
    ) -> Result<(), LogError> {
        let Some(segment) = segments.iter().rev().find(|segment| segment.base < snapshot) else {
            return Ok(());
        };
        let path = segment.files.path(LOG_SUFFIX);
        let mut headers: Vec<BatchHeader> = Vec::new();
        let mut walk = || -> io::Result<()> {
            let points = match segment.memory() {
                Some(index) => index.points.iter().map(|p| (p.last_relative, p.position)).collect(),
                None => {
                    let path = segment.files.path(INDEX_SUFFIX);
                    let bytes = small_files::read_if_present(&*self.fs, &path)?;
                    offset_index::parse_rising(&bytes.unwrap_or_default())
                        .into_iter()
                        .map(|entry| (entry.relative_offset, entry.position))
                        .collect::<Vec<_>>()
                }
            };
            let relative = segment.relative(snapshot);
            let after = points.partition_point(|(last, _)| *last < relative);
            let end = after.checked_sub(1).map_or(0, |at| points[at].1);
            let first = u64::from(end).saturating_sub(WARM_BYTES);
            let start = points[..after]
                .iter()
                .map(|(_, position)| u64::from(*position))
                .find(|position| *position >= first);
            let start = if first == 0 { 0 } else { start.unwrap_or(0) };
            let file = segment.files.open_log()?;
            let mut scanner = Scanner::headers(&*file, start, u64::from(segment.size));
            while let Step::Batch(header) = scanner.step()? {
                if header.base_offset >= snapshot {
                    break;
                }
                if header.producer().is_some() && !header.attributes.is_control() {
                    headers.push(header);
                }
            }
            Ok(())
        };
        walk().map_err(|cause| self.failed("reading of", &path, cause))?;
        for header in headers.iter().rev() {
            producers.remember_older(header);
        }
        Ok(())
    }
}

fn note_timestamp(segment: &mut Segment, header: &BatchHeader) {
    if header.max_timestamp > segment.max_timestamp.map_or(Timestamp(-1), |(max, _)| max) {
        segment.max_timestamp = Some((header.max_timestamp, header.last_offset()));
    }
}
