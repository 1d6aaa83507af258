//! [`FileImage`]: what readers of a file see, and what the platter holds.

use std::collections::{BTreeMap, BTreeSet};

use super::PowerLoss;
use super::rng::Rng;

/// What a drive writes at once. Unsynced data is kept, lost or torn sector by sector.
pub(super) const SECTOR: usize = 512;

/// Contents of one file.
#[derive(Clone, Default, Debug)]
pub(super) struct FileImage {
    /// What reads give.
    pub(super) live: Vec<u8>,
    /// What is sure to survive.
    pub(super) durable: Vec<u8>,
    /// Sectors written (or cut off) since they were last made durable.
    dirty: BTreeSet<usize>,
    /// Content that a dirty sector had before it was written again: the kernel may have written it back.
    earlier: BTreeMap<usize, Vec<u8>>,
    /// First byte and length of the newest write.
    last_write: (usize, usize),
    /// Bytes that [`reserve`](crate::disk::File::reserve) set aside, from the start of the file.
    pub(super) reserved: u64,
    /// Names of this file in the live directories.
    pub(super) links: u32,
    /// Open handles.
    pub(super) handles: u32,
}

/// What a sync in progress will have made durable when it ends.
#[derive(Debug)]
pub(super) struct SyncPoint {
    len: usize,
    sectors: Vec<(usize, Vec<u8>)>,
}

impl FileImage {
    /// Space it takes.
    pub(super) fn space(&self) -> u64 {
        (self.live.len() as u64).max(self.reserved)
    }

    fn sector(data: &[u8], sector: usize) -> &[u8] {
        let start = (sector * SECTOR).min(data.len());
        let end = (start + SECTOR).min(data.len());
        &data[start..end]
    }

    fn touch(&mut self, start: usize, end: usize, rng: &mut Rng) {
        for sector in start / SECTOR..end.div_ceil(SECTOR) {
            if !self.dirty.insert(sector) && rng.coin() {
                let content = Self::sector(&self.live, sector).to_vec();
                self.earlier.insert(sector, content);
            }
        }
    }

    pub(super) fn write(&mut self, pos: usize, bytes: &[u8], rng: &mut Rng) {
        if bytes.is_empty() {
            return;
        }
        let end = pos + bytes.len();
        self.touch(pos, end, rng);
        if self.live.len() < end {
            self.live.resize(end, 0);
        }
        self.live[pos..end].copy_from_slice(bytes);
        self.last_write = (pos, bytes.len());
    }

    pub(super) fn set_len(&mut self, len: usize, rng: &mut Rng) {
        if len < self.live.len() {
            self.touch(len, self.live.len(), rng);
        }
        if len <= self.live.len() {
            self.reserved = self.reserved.min(len as u64);
        }
        self.live.resize(len, 0);
    }

    pub(super) fn begin_sync(&self) -> SyncPoint {
        let sectors = self
            .dirty
            .iter()
            .map(|&sector| (sector, Self::sector(&self.live, sector).to_vec()))
            .collect();
        SyncPoint { len: self.live.len(), sectors }
    }

    /// Makes durable what stood when the sync began. What was written since stays unsure.
    pub(super) fn end_sync(&mut self, point: SyncPoint) {
        self.durable.resize(point.len, 0);
        for (sector, content) in point.sectors {
            put(&mut self.durable, sector, &content);
            self.earlier.remove(&sector);
            if Self::sector(&self.live, sector) == content {
                self.dirty.remove(&sector);
            }
        }
    }

    /// A sync failed: as in Linux, the pages count as clean, readers still see them, some never arrived,
    /// and a later sync does not know of them.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        let point = self.begin_sync();
        if rng.coin() {
            self.durable.resize(point.len, 0);
        }
        for (sector, content) in point.sectors {
            if rng.coin() && sector * SECTOR < self.durable.len() {
                put(&mut self.durable, sector, &content);
            }
        }
        self.dirty.clear();
        self.earlier.clear();
    }

    /// The file as the next process finds it after a kill.
    pub(super) fn without_handles(&self) -> Self {
        Self { handles: 0, ..self.clone() }
    }

    /// The file, with one name, after a power loss.
    pub(super) fn survivor(&self, style: PowerLoss, rng: &mut Rng) -> Self {
        let live = self.surviving_bytes(style, rng);
        Self { durable: live.clone(), live, links: 1, ..Self::default() }
    }

    fn surviving_bytes(&self, style: PowerLoss, rng: &mut Rng) -> Vec<u8> {
        let (old, new) = (self.durable.len(), self.live.len());
        let cut = self.last_write.0 + below(rng, self.last_write.1);
        let len = match style {
            PowerLoss::DropUnsynced => old,
            PowerLoss::KeepUnsynced => new,
            PowerLoss::TearLastWrite
                if new == self.last_write.0 + self.last_write.1 && old < new =>
            {
                if rng.coin() {
                    new
                } else {
                    cut.max(old)
                }
            }
            PowerLoss::TearLastWrite => new,
            PowerLoss::Random => match rng.below(3) {
                0 => old,
                1 => new,
                _ => old.min(new) + below(rng, old.abs_diff(new) + 1),
            },
        };
        let mut out = self.durable.clone();
        out.resize(len, 0);
        for &sector in &self.dirty {
            let live = Self::sector(&self.live, sector);
            match style {
                PowerLoss::DropUnsynced => {}
                PowerLoss::KeepUnsynced => put(&mut out, sector, live),
                PowerLoss::TearLastWrite => {
                    let start = sector * SECTOR;
                    if start + SECTOR <= cut || start >= self.last_write.0 + self.last_write.1 {
                        put(&mut out, sector, live);
                    } else if start < cut {
                        put(&mut out, sector, &live[..live.len().min(cut - start)]);
                    }
                }
                PowerLoss::Random => match rng.below(8) {
                    0..=2 => {}
                    3..=5 => put(&mut out, sector, live),
                    6 => match self.earlier.get(&sector) {
                        Some(earlier) => put(&mut out, sector, earlier),
                        None => put(&mut out, sector, live),
                    },
                    _ => {
                        let torn = below(rng, live.len());
                        if rng.coin() {
                            put(&mut out, sector, &live[..torn]);
                        } else {
                            put_at(&mut out, sector * SECTOR + torn, &live[torn..]);
                        }
                    }
                },
            }
        }
        out
    }
}

fn below(rng: &mut Rng, end: usize) -> usize {
    usize::try_from(rng.below(end as u64)).expect("below a usize")
}

fn put(image: &mut [u8], sector: usize, content: &[u8]) {
    put_at(image, sector * SECTOR, content);
}

/// Copies what lies within the image.
fn put_at(image: &mut [u8], start: usize, content: &[u8]) {
    if start < image.len() {
        let count = content.len().min(image.len() - start);
        image[start..start + count].copy_from_slice(&content[..count]);
    }
}
