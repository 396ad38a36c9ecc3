//! Objects with keys that fit into a tag of the engine.

/// Objects by key. A key is never 0, fits into 30 bits, and differs from the keys of the last 1022
/// objects in its place.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<SlotPlace<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SlotPlace<T> {
    generation: u32,
    object: Option<T>,
}

/// The length of keys in bits.
pub(crate) const KEY_BITS: u32 = 30;

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MAX: u32 = (1 << (KEY_BITS - INDEX_BITS)) - 1;

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Whether there are as many objects as keys.
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.places.len() > INDEX_MASK as usize
    }

    /// Adds an object, and returns its key; `None` if there are 2^20 objects.
    pub fn insert(&mut self, object: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.is_full() => return None,
            None => {
                self.places.push(SlotPlace { generation: 1, object: None });
                self.places.len() as u32 - 1
            }
        };
        let place = &mut self.places[index as usize];
        place.object = Some(object);
        Some(place.generation << INDEX_BITS | index)
    }

    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let place = self.places.get_mut((key & INDEX_MASK) as usize)?;
        place.object.as_mut().filter(|_| place.generation == key >> INDEX_BITS)
    }

    pub fn get(&self, key: u32) -> Option<&T> {
        let place = self.places.get((key & INDEX_MASK) as usize)?;
        place.object.as_ref().filter(|_| place.generation == key >> INDEX_BITS)
    }

    pub fn remove(&mut self, key: u32) -> Option<T> {
        self.get(key)?;
        let index = key & INDEX_MASK;
        let place = &mut self.places[index as usize];
        place.generation = place.generation % GENERATION_MAX + 1;
        self.free.push(index);
        place.object.take()
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| place.object.as_ref())
    }

    pub fn keys_where(&self, accepts: impl Fn(&T) -> bool) -> Vec<u32> {
        let places = (0_u32..).zip(&self.places);
        let is_it = |place: &SlotPlace<T>| place.object.as_ref().is_some_and(&accepts);
        let found = places.filter(|(_, place)| is_it(place));
        found.map(|(index, place)| place.generation << INDEX_BITS | index).collect()
    }

    /// Removes all objects.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(self).places.into_iter().filter_map(|place| place.object)
    }

    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_outlives_no_object() {
        let mut slots = Slots::default();
        let first = slots.insert("first").unwrap();
        assert_eq!(slots.remove(first), Some("first"));
        let second = slots.insert("second").unwrap();
        assert_ne!(first, second);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.get_mut(second), Some(&mut "second"));
        assert_eq!(slots.keys_where(|_| true), [second]);
    }

    #[test]
    fn keys_leave_a_bit_of_a_tag() {
        let mut slots = Slots::default();
        for _ in 0..3 * GENERATION_MAX {
            let key = slots.insert(()).unwrap();
            assert!(key > 0 && key >> KEY_BITS == 0);
            slots.remove(key);
            assert!(slots.is_empty());
        }
    }
}
