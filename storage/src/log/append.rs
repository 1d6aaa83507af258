//! The append side of [`Log`]: offsets, producers, staging. No IO.

use protocol_compat::batch::produce::CheckedBatch;
use protocol_compat::batch::{
    BATCH_OVERHEAD_BYTES, BatchHeader, PREFIX_BYTES, TimestampType, rewrite_log_append_time,
};
use protocol_compat::ids::{LeaderEpoch, Offset, Timestamp};

use super::log::{Log, PendingSave};
use super::producers::Verdict;
use super::read::Boundary;
use super::{AppendError, Appended, LeaderAppend, StageOutcome};
use crate::format::marker::{self, EndTxnMarker};
use crate::format::producer_snapshot;

/// Batch boundaries above the high watermark that are remembered; below them a position is looked up in the index.
const BOUNDARIES_MAX: usize = 8192;

impl Log {
    /// Appends as the leader: checks the producer, gives offsets, keeps the bytes for the next write.
    ///
    /// Nothing is readable or kept before [`Log::written`] or [`Log::flushed`] pass the last offset.
    ///
    /// # Errors
    /// Nothing is appended then.
    pub fn stage(
        &mut self,
        batch: CheckedBatch,
        append: LeaderAppend,
    ) -> Result<StageOutcome, AppendError> {
        let base_offset = self.staged;
        let mut header = batch.header;
        self.check(&batch, base_offset)?;
        let mut marker = None;
        if header.producer_id.0 >= 0 {
            if header.attributes.is_control() {
                marker = parse_marker(&batch)?;
                if let Some(marker) = &marker {
                    self.producers.check_marker(&header, marker, base_offset)?;
                }
            } else if let Verdict::Duplicate(past) =
                self.producers.check_data(&header, base_offset)?
            {
                return Ok(StageOutcome::Duplicate(Appended {
                    base_offset: past.base_offset(),
                    last_offset: past.last_offset,
                    log_append_time: (past.timestamp.0 >= 0).then_some(past.timestamp),
                    log_start_offset: self.log_start,
                }));
            }
        }
        header.base_offset = base_offset;
        header.partition_leader_epoch = append.leader_epoch;
        let mut log_append_time = None;
        let mut head = [0; BATCH_OVERHEAD_BYTES];
        let mut head_bytes = PREFIX_BYTES;
        if self.config.timestamp_type == TimestampType::LogAppendTime
            && !header.attributes.is_control()
        {
            log_append_time = Some(append.now);
            head = rewrite_log_append_time(&batch.header, &batch.bytes, append.now);
            head_bytes = BATCH_OVERHEAD_BYTES;
            header.max_timestamp = append.now;
            header.attributes = header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        }
        head[..PREFIX_BYTES].copy_from_slice(&header.prefix(base_offset, append.leader_epoch));
        self.add(&header, &head[..head_bytes], &batch, marker.as_ref(), append.now);
        Ok(StageOutcome::Appended(Appended {
            base_offset,
            last_offset: header.last_offset(),
            log_append_time,
            log_start_offset: self.log_start,
        }))
    }

    /// Appends as a follower: the batch keeps its offsets and leader epoch.
    ///
    /// # Errors
    /// Nothing is appended then.
    pub fn stage_replicated(
        &mut self,
        batch: CheckedBatch,
        now: Timestamp,
    ) -> Result<Appended, AppendError> {
        let header = batch.header;
        self.check(&batch, header.base_offset)?;
        if header.base_offset < self.staged {
            return Err(AppendError::OffsetsNotContinuous {
                found: header.base_offset,
                log_end: self.staged,
            });
        }
        let mut marker = None;
        if header.producer_id.0 >= 0 && header.attributes.is_control() {
            marker = parse_marker(&batch)?;
        }
        let head = header.prefix(header.base_offset, header.partition_leader_epoch);
        self.add(&header, &head, &batch, marker.as_ref(), now);
        Ok(Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time: None,
            log_start_offset: self.log_start,
        })
    }

    fn check(&self, batch: &CheckedBatch, base_offset: Offset) -> Result<(), AppendError> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let size_bytes = batch.bytes.len();
        if size_bytes < BATCH_OVERHEAD_BYTES || size_bytes != batch.header.batch_size() {
            return Err(AppendError::Malformed(format!(
                "{size_bytes} bytes are not the batch of {} that their header describes",
                batch.header.batch_size()
            )));
        }
        let delta = batch.header.last_offset_delta;
        if delta < 0 || base_offset.checked_add(i64::from(delta) + 1).is_none() {
            return Err(AppendError::Malformed(format!("last offset delta {delta}")));
        }
        let segment_bytes = self.config.segment_bytes;
        if size_bytes > segment_bytes as usize {
            return Err(AppendError::TooLarge { size_bytes, segment_bytes });
        }
        Ok(())
    }

    /// Puts a batch with its final header into the segment, the state and the staging.
    fn add(
        &mut self,
        header: &BatchHeader,
        head: &[u8],
        batch: &CheckedBatch,
        marker: Option<&EndTxnMarker>,
        now: Timestamp,
    ) {
        let active = self.segments.last().expect("a log has a segment");
        if active.must_roll(&self.config, now, header, header.last_offset()) {
            self.roll(header.base_offset, now);
        }
        self.note_epoch(header.partition_leader_epoch, header.base_offset);
        let active = self.segments.last_mut().expect("a log has a segment");
        let (base, position) = (active.base, active.size);
        active.add(header, self.config.index_interval_bytes);
        if header.producer_id.0 >= 0 {
            if let Some(marker) = marker {
                let aborted = self.producers.append_marker(header, marker);
                if let (Some(aborted), Some(index)) = (aborted, active.memory_mut()) {
                    index.aborted.push(aborted);
                }
            } else if !header.attributes.is_control() {
                self.producers.append_data(header);
            }
        }
        let end = header.next_offset();
        self.staging.push(base, position, head, batch.bytes.slice(head.len()..), end);
        self.staged = end;
        self.staged_total += batch.bytes.len() as u64;
        if self.boundaries.len() == BOUNDARIES_MAX {
            self.boundaries.pop_front();
        }
        self.boundaries.push_back(Boundary { offset: header.base_offset, segment: base, position });
        self.unflushed_since.get_or_insert(now);
        if let Some(limit) = self.config.flush_messages {
            self.unflushed_records += i64::from(header.last_offset_delta).unsigned_abs() + 1;
            if self.unflushed_records >= limit {
                self.request_sync();
            }
        }
    }

    fn note_epoch(&mut self, epoch: LeaderEpoch, start_offset: Offset) {
        if self.epochs.latest().is_none_or(|latest| latest < epoch) {
            self.epochs_dirty |= self.epochs.assign(epoch, start_offset);
        }
    }

    /// Completes the active segment and begins the next at `base`. Its files are made by a job once the data of this one is
    /// written; appends go on meanwhile.
    pub(super) fn roll(&mut self, base: Offset, now: Timestamp) {
        let active = self.segments.last_mut().expect("a log has a segment");
        active.add_last_time();
        active.end = base;
        let entries = active.memory().map(|index| index.counts()).unwrap_or_default();
        let segment = active.base;
        self.saves.push_back(PendingSave {
            segment,
            entries,
            upto: base,
            mark: self.staged_total,
            snapshot: producer_snapshot::encode(&self.producers.snapshot()),
            seals: true,
        });
        self.want_sync(base);
        self.segments.push(self.new_segment(base, now));
    }
}

/// The transaction marker in a control batch of a producer; `None` for control records of another kind.
fn parse_marker(batch: &CheckedBatch) -> Result<Option<EndTxnMarker>, AppendError> {
    marker::parse(&batch.header, &batch.bytes)
        .map_err(|error| AppendError::Malformed(error.to_string()))
}
