//! A metadata log in memory, for tests: what was not flushed is lost by [`MemoryLog::crash`].

#![cfg(test)]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use protocol_compat::batch::BatchHeader;
use protocol_compat::ids::{LeaderEpoch, Offset};

use super::log_port::LogPort;
use crate::error::ControllerError;

#[derive(Debug, Default)]
struct State {
    start: i64,
    end: i64,
    batches: Vec<(BatchHeader, Bytes)>,
    flushed: usize,
    fail: bool,
    flushes: usize,
}

/// A handle to the one log; clones share it, so that a test can open it again.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryLog {
    state: Arc<Mutex<State>>,
}

impl MemoryLog {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().expect("tests do not poison it"))
    }

    /// Drops what was not flushed.
    pub(crate) fn crash(&self) {
        self.with(|state| {
            let flushed = state.flushed;
            state.batches.truncate(flushed);
            state.end = state.batches.last().map_or(state.start, |(h, _)| h.next_offset().0);
        });
    }

    /// Whether flushes fail from now on.
    pub(crate) fn fail_flushes(&self, fail: bool) {
        self.with(|state| state.fail = fail);
    }

    /// Flushes that did work so far.
    pub(crate) fn flushes(&self) -> usize {
        self.with(|state| state.flushes)
    }
}

impl LogPort for MemoryLog {
    fn start(&self) -> Offset {
        self.with(|state| Offset(state.start))
    }

    fn end(&self) -> Offset {
        self.with(|state| Offset(state.end))
    }

    fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.with(|state| state.batches.last().map(|(header, _)| header.partition_leader_epoch))
    }

    fn size_bytes(&self) -> u64 {
        self.with(|state| state.batches.iter().map(|(_, bytes)| bytes.len() as u64).sum())
    }

    fn read(&mut self, from: Offset) -> Result<Bytes, ControllerError> {
        Ok(self.with(|state| {
            let rest = state.batches.iter().filter(|(header, _)| header.last_offset() >= from);
            rest.flat_map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>().into()
        }))
    }

    fn start_epoch(&mut self, _epoch: LeaderEpoch) {}

    fn append(
        &mut self,
        batch: Bytes,
        _epoch: LeaderEpoch,
        _now_ms: i64,
    ) -> Result<(), ControllerError> {
        self.with(|state| {
            let header = BatchHeader::parse(&batch).expect("a batch");
            assert_eq!(header.base_offset.0, state.end);
            state.end = header.next_offset().0;
            state.batches.push((header, batch));
        });
        Ok(())
    }

    fn write(&mut self) -> Result<(), ControllerError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ControllerError> {
        self.with(|state| {
            if state.fail {
                return Err(ControllerError::Io {
                    attempt: "flush".to_owned(),
                    source: std::io::Error::other("planted"),
                });
            }
            state.flushes += usize::from(state.flushed != state.batches.len());
            state.flushed = state.batches.len();
            Ok(())
        })
    }

    fn trim(&mut self, start: Offset, _now_ms: i64) -> Result<(), ControllerError> {
        self.with(|state| {
            let before = state.batches.len();
            state.batches.retain(|(header, _)| header.last_offset() >= start);
            state.flushed -= before - state.batches.len();
            state.start = start.0;
        });
        Ok(())
    }

    fn reset(&mut self, start: Offset) -> Result<(), ControllerError> {
        self.with(|state| {
            *state = State { start: start.0, end: start.0, ..State::default() };
        });
        Ok(())
    }

    fn tick(&mut self, _now_ms: i64) -> Result<(), ControllerError> {
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<(), ControllerError> {
        self.flush()
    }
}
