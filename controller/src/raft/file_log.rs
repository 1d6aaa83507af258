//! [`LogPort`] over one segment file, without indexes: Apache Kafka rebuilds them when it opens the directory.
//!
//! Stands in until the partition log of `storage` can be opened.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use protocol_compat::batch::{BatchHeader, BatchIter};
use protocol_compat::ids::{LeaderEpoch, Offset};
use storage::disk::{FileRef, FileSystem, OpenMode};

use super::log_port::LogPort;
use crate::controller::ControllerConfig;
use crate::error::ControllerError;

#[derive(Debug)]
struct FileLog {
    file: FileRef,
    start: Offset,
    end: Offset,
    epoch: Option<LeaderEpoch>,
    content: Vec<u8>,
    staged: Vec<Bytes>,
}

fn io(attempt: &'static str) -> impl Fn(std::io::Error) -> ControllerError {
    move |source| ControllerError::Io { attempt: attempt.to_owned(), source }
}

/// Opens the newest segment of a directory.
pub(crate) fn open(
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    _config: &ControllerConfig,
) -> Result<Box<dyn LogPort>, ControllerError> {
    let entries = fs.list(&dir).map_err(io("list the metadata log"))?;
    let base = entries
        .iter()
        .filter_map(|entry| entry.name.strip_suffix(".log")?.parse::<i64>().ok())
        .next_back()
        .unwrap_or(0);
    let path = dir.join(format!("{base:020}.log"));
    let file = fs.open(&path, OpenMode::Create).map_err(io("open the metadata log"))?;
    let size = file.size().map_err(io("open the metadata log"))?;
    let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
    file.read_at(&mut content, 0).map_err(io("read the metadata log"))?;
    let mut iter = BatchIter::new(&content);
    let (mut end, mut epoch, mut valid) = (Offset(base), None, 0);
    while let Some(Ok(batch)) = iter.next() {
        if !batch.header.crc_matches(batch.bytes) {
            break;
        }
        end = batch.header.next_offset();
        epoch = Some(batch.header.partition_leader_epoch);
        valid = batch.position + batch.bytes.len();
    }
    content.truncate(valid);
    file.set_len(valid as u64).map_err(io("cut the metadata log"))?;
    fs.sync_dir(&dir).map_err(io("open the metadata log"))?;
    Ok(Box::new(FileLog { file, start: Offset(base), end, epoch, content, staged: Vec::new() }))
}

impl LogPort for FileLog {
    fn start(&self) -> Offset {
        self.start
    }

    fn end(&self) -> Offset {
        self.end
    }

    fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epoch
    }

    fn size_bytes(&self) -> u64 {
        self.content.len() as u64
    }

    fn read(&mut self, from: Offset) -> Result<Bytes, ControllerError> {
        let batches = BatchIter::new(&self.content).filter_map(Result::ok);
        let position = batches
            .filter(|batch| batch.header.last_offset() >= from)
            .map(|batch| batch.position)
            .next()
            .unwrap_or(self.content.len());
        Ok(Bytes::copy_from_slice(&self.content[position..]))
    }

    fn start_epoch(&mut self, epoch: LeaderEpoch) {
        self.epoch = Some(epoch);
    }

    fn append(
        &mut self,
        batch: Bytes,
        _epoch: LeaderEpoch,
        _now_ms: i64,
    ) -> Result<(), ControllerError> {
        let header = BatchHeader::parse(&batch)
            .map_err(|error| ControllerError::Corrupt(error.to_string()))?;
        self.end = header.next_offset();
        self.staged.push(batch);
        Ok(())
    }

    fn write(&mut self) -> Result<(), ControllerError> {
        let at = self.content.len() as u64;
        self.file.write_all_at(&self.staged, at).map_err(io("write the metadata log"))?;
        for batch in self.staged.drain(..) {
            self.content.extend_from_slice(&batch);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ControllerError> {
        self.write()?;
        self.file.sync_data().map_err(io("sync the metadata log"))
    }

    fn trim(&mut self, _start: Offset, _now_ms: i64) -> Result<(), ControllerError> {
        Ok(())
    }

    fn reset(&mut self, start: Offset) -> Result<(), ControllerError> {
        Err(ControllerError::Refused(format!("a snapshot at {start} is ahead of the metadata log")))
    }

    fn tick(&mut self, _now_ms: i64) -> Result<(), ControllerError> {
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<(), ControllerError> {
        self.flush()
    }
}
