//! How the two sides divide their data, and how the divisions overlap.

use std::ops::Range;

/// Data in parts of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionLayout {
    /// The number of parts.
    pub(super) count: u32,
    /// The number of bytes of each part.
    pub(super) bytes: u64,
}

/// The maximum number of bytes that are sent as one message, if all partitions are ready when the
/// sender decides.
pub(super) const TOGETHER_BYTES_MAX: u64 = 8 << 10;

/// After a round in which the sender sent by partition, the number of rounds that do so from the
/// start.
pub(super) const ROUNDS_APART: u32 = 63;

impl PartitionLayout {
    /// Whether the sender of these parts may send all of them as one message.
    pub(super) fn may_be_gathered(&self) -> bool {
        self.total().is_some_and(|total| (1..=TOGETHER_BYTES_MAX).contains(&total))
    }

    /// The total number of bytes; `None` if that is more than memory can have.
    pub(super) fn total(&self) -> Option<u64> {
        self.bytes.checked_mul(self.count.into()).filter(|total| *total <= isize::MAX as u64)
    }

    /// Returns the parts of `other` that overlap part `number` of this layout.
    ///
    /// If both have an equal number of bytes, which may be 0, part `number` lies between equal
    /// fractions of both. If the numbers differ, which is the program's error, returns all parts.
    pub(super) fn overlapped(&self, number: u32, other: &PartitionLayout) -> Range<u32> {
        if self.count == 0 || self.total() != other.total() {
            return 0..other.count;
        }
        let (own, others) = (u64::from(self.count), u64::from(other.count));
        let begin = u64::from(number) * others / own;
        let end = (u64::from(number) + 1) * others;
        begin as u32..end.div_ceil(own) as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_without_bytes_have_an_order_too() {
        let (two, four) =
            (PartitionLayout { count: 2, bytes: 0 }, PartitionLayout { count: 4, bytes: 0 });
        assert_eq!(two.overlapped(1, &four), 2..4);
        assert_eq!(four.overlapped(1, &two), 0..1);
        assert_eq!(four.overlapped(3, &four), 3..4);
    }

    #[test]
    fn all_is_awaited_where_the_amounts_differ() {
        let (short, long) =
            (PartitionLayout { count: 2, bytes: 4 }, PartitionLayout { count: 4, bytes: 4 });
        assert_eq!(long.overlapped(0, &short), 0..2);
        assert_eq!(short.overlapped(0, &long), 0..4);
    }

    proptest! {
        #[test]
        fn parts_overlap_where_their_bytes_do(counts in (1..20u32, 1..20u32), unit in 1..9u64) {
            let all = u64::from(counts.0) * u64::from(counts.1) * unit;
            let own = PartitionLayout { count: counts.0, bytes: all / u64::from(counts.0) };
            let other = PartitionLayout { count: counts.1, bytes: all / u64::from(counts.1) };
            for number in 0..own.count {
                let begin = u64::from(number) * own.bytes;
                let end = begin + own.bytes;
                let expected: Vec<u32> = (0..other.count)
                    .filter(|part| {
                        let first = u64::from(*part) * other.bytes;
                        first < end && begin < first + other.bytes
                    })
                    .collect();
                prop_assert_eq!(own.overlapped(number, &other).collect::<Vec<_>>(), expected);
            }
        }
    }
}
