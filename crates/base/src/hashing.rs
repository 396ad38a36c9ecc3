//! Tables whose keys are a few numbers that do not come from an attacker.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table with a [`QuickHasher`].
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<QuickHasher>>;

/// Hashes numbers in about a nanosecond each.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_i32(&mut self, number: i32) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The factor is an odd number with random-looking bits. The upper half of the product
        // brings the upper bits of the number into the lower ones, which select the bucket.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, Hash};

    use super::*;

    /// Asserts that both the bits that select the bucket and those that distinguish its entries
    /// differ as those of random numbers would.
    fn are_spread(keys: impl Iterator<Item = impl Hash>) {
        let hashes: Vec<u64> =
            keys.map(|key| BuildHasherDefault::<QuickHasher>::default().hash_one(key)).collect();
        for shift in [0, 52] {
            let mut counts = vec![0_u32; 1 << 12];
            hashes.iter().for_each(|hash| counts[(hash >> shift) as usize & 0xfff] += 1);
            let mean = hashes.len() as u32 / 4096;
            let most = counts.into_iter().max().unwrap_or(0);
            assert!(most <= 8 * mean, "{most} instead of {mean} from bit {shift} on");
        }
    }

    #[test]
    fn regular_keys_are_spread() {
        const COUNT: u64 = 8 << 12;
        for step in [1, 2, 16, 4096, 1 << 20, 1 << 40] {
            are_spread((0..COUNT).map(|number| number * step));
            are_spread(
                (0..COUNT).map(|number| (true, 7_u64, number as u32 % 64, number / 64 * step)),
            );
        }
        are_spread((0..COUNT).map(|number| (0x7f00_0000_1000 + number as usize * 64, 5_i32)));
        are_spread((0..COUNT as i32).map(|number| -number));
    }
}
