//! Where a vector has its address and its length: the language does not promise it.

/// The offsets of two words of a `Vec<T>`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorWords {
    /// The address of the first element.
    pub address: usize,
    /// How many elements there are.
    pub length: usize,
}

impl VectorWords {
    /// Those of vectors of this type, found by looking at one.
    pub fn of<T>() -> Self {
        const WORDS: usize = 3;
        const { assert!(size_of::<Vec<T>>() == WORDS * size_of::<usize>(), "address and counts") };
        const { assert!(size_of::<T>() > 0, "elements lie somewhere") };
        let vector: Vec<T> = Vec::with_capacity(1);
        // SAFETY: a vector is its address, its capacity and its length, three words that are set.
        let words: [usize; WORDS] = unsafe { std::mem::transmute_copy(&vector) };
        // An address is none of the small numbers, and the capacity is not 0.
        let at = |wanted: usize| words.iter().position(|&word| word == wanted).unwrap_or(0);
        let offset = |wanted| at(wanted) * size_of::<usize>();
        Self { address: offset(vector.as_ptr().addr()), length: offset(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_read_by_its_words() {
        let mut vector = vec![0u64; 7];
        vector.reserve(20);
        let found = VectorWords::of::<u64>();
        // SAFETY: as above.
        let words: [usize; 3] = unsafe { std::mem::transmute_copy(&vector) };
        assert_eq!(words[found.address / size_of::<usize>()], vector.as_ptr().addr());
        assert_eq!(words[found.length / size_of::<usize>()], 7);
    }
}
