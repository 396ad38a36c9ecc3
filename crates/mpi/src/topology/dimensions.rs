//! Balanced grids: the number of processes along each dimension (`MPI_Dims_create`, section
//! 8.5.2).

use std::collections::HashMap;

use base::{Error, ErrorClass, Result};

/// Chooses the dimensions that are zero, so that the grid has exactly `processes` positions.
/// Dimensions that are not zero stay as they are. The chosen ones are as equal as possible and do
/// not increase: the largest one is as small as possible, then the next one, and so on.
///
/// # Errors
/// `Arg` if `processes` is less than 1; `Dims` if a dimension is negative, or the product of the
/// given ones does not divide the number of processes.
pub fn balance(processes: i32, dimensions: &mut [i32]) -> Result<()> {
    if processes < 1 {
        let what = format!("the number of processes is {processes}, but must be positive");
        return Err(Error::new(ErrorClass::Arg, what));
    }
    if let Some((index, size)) = (0..).zip(&*dimensions).find(|(_, size)| **size < 0) {
        let what =
            format!("dimension {index} is {size}, but must be positive, or zero to be chosen");
        return Err(Error::new(ErrorClass::Dims, what));
    }
    let free = dimensions.iter().filter(|size| **size == 0).count();
    let given = dimensions.iter().filter(|size| **size != 0);
    let product = given.fold(1u64, |product, size| product.saturating_mul(*size as u64));
    if !(processes as u64).is_multiple_of(product) {
        let what = format!(
            "the given dimensions have {product} positions, which does not divide the number of \
             processes, {processes}"
        );
        return Err(Error::new(ErrorClass::Dims, what));
    }
    let rest = (processes as u64 / product) as u32;
    let mut chosen = balanced_factors(rest, free).into_iter();
    for size in dimensions.iter_mut().filter(|size| **size == 0) {
        *size = chosen.next().map_or(1, |factor| factor as i32);
    }
    Ok(())
}

/// Returns at most `count` factors of `number` in nonincreasing order, without factors of 1. Of
/// all such lists, returns the first in lexicographic order.
fn balanced_factors(number: u32, count: usize) -> Vec<u32> {
    let primes = prime_factors(number);
    if count == 0 || primes.is_empty() {
        return Vec::new();
    }
    // Not more factors than primes can differ from 1.
    let count = count.min(primes.len());
    let mut search = DivisorSearch { divisors: divisors(&primes), known: HashMap::new() };
    let mut rest = number;
    let mut factors = Vec::with_capacity(count);
    for left in (1..=count).rev() {
        let factor = search.largest_factor(rest, left);
        factors.push(factor);
        rest /= factor;
    }
    factors.retain(|factor| *factor > 1);
    factors
}

/// The search for factors among the divisors of one number.
struct DivisorSearch {
    /// All divisors, increasing.
    divisors: Vec<u32>,
    known: HashMap<(u32, usize), u32>,
}

impl DivisorSearch {
    /// Returns the smallest possible value of the largest of `count` factors of `number`, which
    /// is one of the divisors.
    ///
    /// The factors after the largest one are chosen by this rule, too, so it is enough to check
    /// that the largest of them does not exceed it. The recursion depth is `count`, which is at
    /// most 31.
    fn largest_factor(&mut self, number: u32, count: usize) -> u32 {
        if count <= 1 || number == 1 {
            return number;
        }
        if let Some(known) = self.known.get(&(number, count)) {
            return *known;
        }
        let mut index =
            self.divisors.partition_point(|divisor| below_root(*divisor, number, count));
        let factor = loop {
            let divisor = self.divisors[index];
            if number.is_multiple_of(divisor)
                && self.largest_factor(number / divisor, count - 1) <= divisor
            {
                break divisor;
            }
            // The number itself, followed by ones, ends the search.
            index += 1;
        };
        self.known.insert((number, count), factor);
        factor
    }
}

/// Whether the factor to the power of `count` is less than the number.
fn below_root(factor: u32, number: u32, count: usize) -> bool {
    let mut power = 1u64;
    for _ in 0..count {
        power = power.saturating_mul(factor.into());
    }
    power < number.into()
}

/// Returns the prime factors with repetitions, increasing.
fn prime_factors(mut number: u32) -> Vec<u32> {
    let mut primes = Vec::new();
    let mut candidate = 2;
    while u64::from(candidate) * u64::from(candidate) <= u64::from(number) {
        while number.is_multiple_of(candidate) {
            primes.push(candidate);
            number /= candidate;
        }
        candidate += 1;
    }
    if number > 1 {
        primes.push(number);
    }
    primes
}

/// Returns all products of subsets of the primes, increasing; a number below 2^31 has at most
/// 1536.
fn divisors(primes: &[u32]) -> Vec<u32> {
    let mut divisors = vec![1];
    for prime in primes {
        for index in 0..divisors.len() {
            divisors.push(divisors[index] * prime);
        }
        divisors.sort_unstable();
        divisors.dedup();
    }
    divisors
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn balanced(processes: i32, dimensions: &[i32]) -> Vec<i32> {
        let mut dimensions = dimensions.to_vec();
        balance(processes, &mut dimensions).unwrap();
        dimensions
    }

    #[test]
    fn grids_are_as_square_as_they_can_be() {
        assert_eq!(balanced(6, &[0, 0]), [3, 2]);
        assert_eq!(balanced(7, &[0, 0]), [7, 1]);
        assert_eq!(balanced(6, &[0, 3, 0]), [2, 3, 1]);
        assert_eq!(balanced(24, &[0, 0, 0]), [4, 3, 2]);
        assert_eq!(balanced(36, &[0, 0, 0]), [4, 3, 3]);
        assert_eq!(balanced(1, &[0, 0]), [1, 1]);
        assert_eq!(balanced(12, &[4, 3]), [4, 3]);
        // No dimension is zero, and the product divides the number of processes: nothing changes.
        assert_eq!(balanced(12, &[4]), [4]);
        assert!(balanced(12, &[]).is_empty());
    }

    #[test]
    fn large_numbers_and_many_dimensions_take_no_time() {
        assert_eq!(balanced(1_000_000, &[0, 0, 0]), [100, 100, 100]);
        assert_eq!(balanced(1_000_000, &[0; 2]), [1000, 1000]);
        assert_eq!(balanced(999_983, &[0, 0]), [999_983, 1]);
        assert_eq!(balanced(i32::MAX, &[0; 3]), [i32::MAX, 1, 1]);
        assert_eq!(balanced(1 << 30, &[0; 40]).iter().filter(|size| **size == 2).count(), 30);
        // The number below 2^31 with the most divisors.
        for count in 1..=20 {
            let sizes = balanced(2_095_133_040, &vec![0; count]);
            assert_eq!(sizes.iter().map(|size| i64::from(*size)).product::<i64>(), 2_095_133_040);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let class = |processes, dimensions: &[i32]| {
            balance(processes, &mut dimensions.to_vec()).unwrap_err().class
        };
        assert_eq!(class(0, &[0]), ErrorClass::Arg);
        assert_eq!(class(6, &[0, -1]), ErrorClass::Dims);
        assert_eq!(class(7, &[0, 3]), ErrorClass::Dims);
        assert_eq!(class(4, &[i32::MAX, i32::MAX, i32::MAX]), ErrorClass::Dims);
    }

    /// Returns all lists of `count` factors that do not increase.
    fn all_factorizations(number: i32, count: usize, most: i32) -> Vec<Vec<i32>> {
        if count == 0 {
            return if number == 1 { vec![Vec::new()] } else { Vec::new() };
        }
        let factors = (1..=number.min(most)).filter(|factor| number % factor == 0);
        let with = |factor: i32| {
            let rests = all_factorizations(number / factor, count - 1, factor);
            rests.into_iter().map(move |rest| [vec![factor], rest].concat())
        };
        factors.flat_map(with).collect()
    }

    proptest! {
        #[test]
        fn no_other_grid_is_more_balanced(number in 1..2000i32, count in 1..5usize) {
            let best = all_factorizations(number, count, number).into_iter().min();
            prop_assert_eq!(Some(balanced(number, &vec![0; count])), best);
        }
    }
}
