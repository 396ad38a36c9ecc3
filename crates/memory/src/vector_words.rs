//! The places of the address and the length in a `Vec`, which the language does not define.

/// The offsets of two words of a `Vec<T>`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorWords {
    /// The address of the first element.
    pub address: usize,
    /// The number of elements.
    pub length: usize,
}

impl VectorWords {
    /// Determines the offsets for vectors of this type by inspecting one.
    pub fn of<T>() -> Self {
        const WORDS: usize = 3;
        const { assert!(size_of::<Vec<T>>() == WORDS * size_of::<usize>(), "address and counts") };
        const { assert!(size_of::<T>() > 0, "elements lie somewhere") };
        let vector: Vec<T> = Vec::with_capacity(1);
        // SAFETY: a vector consists of its address, its capacity and its length: three initialized
        // words.
        let words: [usize; WORDS] = unsafe { std::mem::transmute_copy(&vector) };
        // The three words differ: the address is no small number, and the capacity is not 0.
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
        // SAFETY: a vector consists of its address, its capacity and its length: three initialized
        // words.
        let words: [usize; 3] = unsafe { std::mem::transmute_copy(&vector) };
        assert_eq!(words[found.address / size_of::<usize>()], vector.as_ptr().addr());
        assert_eq!(words[found.length / size_of::<usize>()], 7);
    }
}
