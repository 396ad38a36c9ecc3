//! Numbered places with generations; the last freed place is reused first.

use memory::VectorWords;

/// The number that stands for "none" in links.
pub(crate) const NONE: u32 = u32::MAX;

/// Values in numbered places. A key consists of the place's number and its generation, which
/// changes when the place is freed, so that an old key never matches a new value.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<SlabEntry<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct SlabEntry<T> {
    generation: u32,
    value: Option<T>,
}

/// Number and generation, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlabKey {
    pub index: u32,
    pub generation: u32,
}

impl SlabKey {
    pub(crate) fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_u64(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

impl<T> Slab<T> {
    /// The offset of the vector of places.
    pub(crate) const PLACES: usize = std::mem::offset_of!(Self, places);

    /// The offset of a value in its occupied place.
    pub(crate) const VALUE: usize = {
        // If the sizes are equal, no separate word says whether the value is present.
        assert!(size_of::<Option<T>>() == size_of::<T>(), "a value lies where its option does");
        std::mem::offset_of!(SlabEntry<T>, value)
    };

    /// The distance between consecutive places, in bytes.
    pub(crate) const PLACE_BYTES: usize = size_of::<SlabEntry<T>>();

    /// Returns the layout of the vector of places.
    pub(crate) fn words() -> VectorWords {
        VectorWords::of::<SlabEntry<T>>()
    }

    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> SlabKey {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.value = Some(value);
            return SlabKey { index, generation: place.generation };
        }
        let index = u32::try_from(self.places.len()).expect("fewer than 2^32 places");
        assert!(index != NONE, "all numbers of a slab are taken");
        self.places.push(SlabEntry { generation: 1, value: Some(value) });
        SlabKey { index, generation: 1 }
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> T {
        let place = &mut self.places[index as usize];
        let value = place.value.take().expect("the place is taken");
        place.generation = place.generation.wrapping_add(1).max(1);
        self.free.push(index);
        value
    }

    #[inline]
    pub(crate) fn get(&self, key: SlabKey) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        if place.generation == key.generation { place.value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation { place.value.as_mut() } else { None }
    }

    /// Iterates over all values, for changes.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.value.as_mut())
    }

    /// Returns the value at a place, with its generation.
    #[inline]
    pub(crate) fn peek(&self, index: u32) -> Option<(u32, &T)> {
        let place = self.places.get(index as usize)?;
        Some((place.generation, place.value.as_ref()?))
    }

    /// Returns the value at a place mutably, with its generation.
    #[inline]
    pub(crate) fn peek_mut(&mut self, index: u32) -> Option<(u32, &mut T)> {
        let place = self.places.get_mut(index as usize)?;
        Some((place.generation, place.value.as_mut()?))
    }

    /// Returns the generation of a place, occupied or not; `None` if it was never used.
    pub(crate) fn generation(&self, index: u32) -> Option<u32> {
        self.places.get(index as usize).map(|place| place.generation)
    }

    /// Returns the key of an occupied place.
    #[inline]
    pub(crate) fn key(&self, index: u32) -> SlabKey {
        SlabKey { index, generation: self.places[index as usize].generation }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = self.places.iter().enumerate();
        numbered.filter_map(|(index, place)| Some((index as u32, place.value.as_ref()?)))
    }

    /// Returns how many places are occupied.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: u32) -> &T {
        self.places[index as usize].value.as_ref().expect("the place is taken")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut T {
        self.places[index as usize].value.as_mut().expect("the place is taken")
    }
}
