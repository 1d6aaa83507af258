//! The small door to the metadata log's storage. Calls block: only the quorum's thread makes them.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::ids::{LeaderEpoch, Offset};
use storage::disk::FileSystem;

use crate::error::ControllerError;

/// The metadata log as the node uses it.
pub(crate) trait LogPort: Send + Debug {
    /// First offset.
    fn start(&self) -> Offset;

    /// Offset that the next batch gets.
    fn end(&self) -> Offset;

    /// Epoch of the last batch.
    fn latest_epoch(&self) -> Option<LeaderEpoch>;

    /// Bytes of all segments.
    fn size_bytes(&self) -> u64;

    /// Whole batches from the one that holds `from` on; empty at the end.
    fn read(&mut self, from: Offset) -> Result<Bytes, ControllerError>;

    /// Notes that an epoch begins at the end of the log.
    fn start_epoch(&mut self, epoch: LeaderEpoch);

    /// Appends a batch whose base offset is [`LogPort::end`]; it is durable after [`LogPort::flush`].
    fn append(
        &mut self,
        batch: Bytes,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<(), ControllerError>;

    /// Hands everything that was appended to the operating system.
    fn write(&mut self) -> Result<(), ControllerError>;

    /// Makes everything that was appended durable.
    fn flush(&mut self) -> Result<(), ControllerError>;

    /// Everything before `start` is in a snapshot: whole segments below it may go.
    fn trim(&mut self, start: Offset, now_ms: i64) -> Result<(), ControllerError>;

    /// Drops everything and starts anew at `start`: a snapshot is ahead of the log.
    fn reset(&mut self, start: Offset) -> Result<(), ControllerError>;

    /// Timed work of the log; called about once a second.
    fn tick(&mut self, now_ms: i64) -> Result<(), ControllerError>;

    /// The clean stop.
    fn close(self: Box<Self>) -> Result<(), ControllerError>;
}

/// Makes the log of a directory.
pub(crate) type OpenLog = dyn FnOnce(
        Arc<dyn FileSystem>,
        PathBuf,
        &crate::controller::ControllerConfig,
    ) -> Result<Box<dyn LogPort>, ControllerError>
    + Send;
