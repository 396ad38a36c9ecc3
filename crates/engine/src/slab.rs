//! Numbered places with generations, reused in the order of last use.

use memory::VectorWords;

/// The number that stands for "none" in links.
pub(crate) const NONE: u32 = u32::MAX;

/// Values in numbered places. A key is the place's number and its generation, which changes when
/// the place is given back, so that an old key is never taken for a new one.
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
    /// Where the vector of places is.
    pub(crate) const PLACES: usize = std::mem::offset_of!(Self, places);

    /// Where a value is that is there, in its place.
    pub(crate) const VALUE: usize = {
        // Then there is no word beside the value that says whether it is there.
        assert!(size_of::<Option<T>>() == size_of::<T>(), "a value lies where its option does");
        std::mem::offset_of!(SlabEntry<T>, value)
    };

    /// From a place to the next one.
    pub(crate) const PLACE_BYTES: usize = size_of::<SlabEntry<T>>();

    /// The words of the vector of places.
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

    /// The value at a place, with its generation.
    #[inline]
    pub(crate) fn peek(&self, index: u32) -> Option<(u32, &T)> {
        let place = self.places.get(index as usize)?;
        Some((place.generation, place.value.as_ref()?))
    }

    /// As [`peek`](Self::peek), to change the value.
    #[inline]
    pub(crate) fn peek_mut(&mut self, index: u32) -> Option<(u32, &mut T)> {
        let place = self.places.get_mut(index as usize)?;
        Some((place.generation, place.value.as_mut()?))
    }

    /// The generation of a place, taken or not; `None` if it was never used.
    pub(crate) fn generation(&self, index: u32) -> Option<u32> {
        self.places.get(index as usize).map(|place| place.generation)
    }

    /// The key of a taken place.
    #[inline]
    pub(crate) fn key(&self, index: u32) -> SlabKey {
        SlabKey { index, generation: self.places[index as usize].generation }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = self.places.iter().enumerate();
        numbered.filter_map(|(index, place)| Some((index as u32, place.value.as_ref()?)))
    }

    /// How many places are taken.
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
