//! [`Table`]: what is in flight, by keys that are never mistaken for older ones.

/// Names an entry: its index, and how often that index was used before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// As the ring's `user_data`.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// From `user_data`.
    pub(super) fn from_bits(bits: u64) -> Self {
        let index = u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits");
        let generation = u32::try_from(bits >> 32).expect("32 bits");
        Self { index, generation }
    }
}

/// A slab. An entry stays at its place until it is removed; a key of a removed entry finds nothing.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

impl<T> Table<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// # Panics
    /// At 2^32 entries at once.
    pub(super) fn insert(&mut self, entry: T) -> Key {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.entry = Some(entry);
            return Key { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).expect("fewer than 2^32 operations");
        self.slots.push(Slot { generation: 0, entry: Some(entry) });
        Key { index, generation: 0 }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation { slot.entry.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{Key, Table};

    #[test]
    fn a_key_of_a_removed_entry_finds_nothing() {
        let mut table = Table::new();
        let old = table.insert('a');
        assert_eq!(table.remove(old), Some('a'));
        let new = table.insert('b');
        assert_eq!(old.index, new.index);
        assert_eq!(table.get_mut(old), None);
        assert_eq!(table.remove(old), None);
        assert_eq!(table.get_mut(new), Some(&mut 'b'));
        assert_eq!(Key::from_bits(new.to_bits()), new);
    }

    proptest! {
        #[test]
        fn behaves_as_a_map(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..200)) {
            let mut table = Table::new();
            let mut model = BTreeMap::new();
            let mut keys = Vec::new();
            for (value, (insert, pick)) in steps.into_iter().enumerate() {
                if insert || keys.is_empty() {
                    let key = table.insert(value);
                    prop_assert!(model.insert(key.to_bits(), value).is_none());
                    keys.push(key);
                } else {
                    let key = keys[pick.index(keys.len())];
                    prop_assert_eq!(table.get_mut(key).copied(), model.get(&key.to_bits()).copied());
                    prop_assert_eq!(table.remove(key), model.remove(&key.to_bits()));
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
