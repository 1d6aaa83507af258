//! A small seeded generator (SplitMix64): the same seed gives the same disk on every machine.

use std::ops::RangeInclusive;

#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    pub(super) fn within(&mut self, range: &RangeInclusive<u32>) -> u32 {
        let span = u64::from(range.end().saturating_sub(*range.start())) + 1;
        range.start() + u32::try_from(self.below(span)).expect("below a u32 range")
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}
