//! Trims what was read to what was asked for: every partition was read with its own limit, the answer has one of its own.

use super::read::Read;

/// Cuts the slices so that all of them together have at most `max_bytes`, in the order of the request. Only the first
/// batch of the answer may be larger than its partition's limit and than `max_bytes`, so that a consumer always gets on
/// (KIP-74). A slice that would not hold a whole batch is left out.
pub fn trim(reads: &mut [Read], limits: impl Iterator<Item = u32>, max_bytes: u32) {
    let mut left = max_bytes;
    let mut first = true;
    for (read, limit) in reads.iter_mut().zip(limits) {
        let Some(slice) = &mut read.slice else { continue };
        let mut allowed = slice.len.min(limit).min(left);
        if allowed < slice.first_batch_size {
            allowed = if first { slice.first_batch_size.min(slice.len) } else { 0 };
        }
        if allowed == 0 {
            read.slice = None;
            continue;
        }
        slice.len = allowed;
        first = false;
        left = left.saturating_sub(allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol_compat::ErrorCode;
    use std::sync::Arc;
    use storage::disk::{FileRef, FileSystem, OpenMode, plain::PlainFs};
    use storage::log::LogSlice;

    fn reads(file: &FileRef, slices: &[(u32, u32)]) -> Vec<Read> {
        let reads = slices.iter().map(|&(len, first_batch_size)| Read {
            slice: Some(LogSlice { file: Arc::clone(file), pos: 0, len, first_batch_size }),
            ..Read::failed(ErrorCode::None)
        });
        reads.collect()
    }

    fn sizes(slices: &[(u32, u32)], limit: u32, max_bytes: u32) -> Vec<u32> {
        let dir = tempfile::tempdir().expect("directory");
        let file = PlainFs.open(&dir.path().join("file"), OpenMode::Create).expect("file");
        let mut reads = reads(&file, slices);
        trim(&mut reads, std::iter::repeat(limit), max_bytes);
        reads.iter().map(Read::size_bytes).collect()
    }

    #[test]
    fn the_first_batch_of_an_answer_may_exceed_every_limit() {
        assert_eq!(sizes(&[(5000, 5000), (300, 100)], 1000, 2000), [5000, 0]);
    }

    #[test]
    fn later_partitions_get_what_is_left_and_no_partial_first_batch() {
        assert_eq!(sizes(&[(900, 100), (900, 300), (900, 50)], 1000, 1000), [900, 0, 100]);
    }

    #[test]
    fn a_later_partition_with_an_oversized_batch_is_left_out() {
        assert_eq!(sizes(&[(100, 100), (5000, 5000)], 1000, 10_000), [100, 0]);
    }
}
