//! The message that the sender of partitions sends to the receiver once.

use base::{Error, ErrorClass, Result};
use memory::Buffer;
use wire::Codec;

use super::division::PartitionLayout;

/// How the sender divides its data, and the tags of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionIntroduction {
    /// The tag of the message of all partitions, which may not occur.
    pub(super) first_tag: i32,
    pub(super) division: PartitionLayout,
}

wire::codec!(PartitionLayout { count, bytes });
wire::codec!(PartitionIntroduction { first_tag, division });

impl PartitionIntroduction {
    /// Returns the tag of the message of a partition.
    #[inline]
    pub(super) fn tag(&self, partition: u32) -> i32 {
        self.first_tag + 1 + partition as i32
    }

    /// The length: first tag, number of partitions, bytes of each.
    pub(super) const BYTES: usize = 4 + 4 + 8;

    pub(super) fn write(&self, buffer: &Buffer) {
        buffer.write(0, &self.to_bytes());
    }

    /// Decodes an introduction of `received` bytes.
    ///
    /// # Errors
    /// `Intern` if no sender could have written this.
    pub(super) fn read(buffer: &Buffer, received: u64) -> Result<Self> {
        let mut bytes = [0; Self::BYTES];
        buffer.read(0, &mut bytes);
        let is_possible = |one: &Self| {
            let first = u32::try_from(one.first_tag).ok();
            let last = first.and_then(|tag| tag.checked_add(one.division.count));
            last.is_some_and(|tag| tag <= i32::MAX.cast_unsigned())
                && one.division.total().is_some()
        };
        let introduction = Self::from_bytes(&bytes).filter(is_possible);
        introduction.filter(|_| received == Self::BYTES as u64).ok_or_else(|| {
            let what = "the sender's description of the partitions is invalid";
            Error::new(ErrorClass::Intern, what)
        })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn introductions_are_understood_and_nonsense_is_not() {
        let buffer = Buffer::zeroed(16);
        let division = PartitionLayout { count: 7, bytes: 1 << 40 };
        let introduction_buffer = PartitionIntroduction { first_tag: 9, division };
        introduction_buffer.write(&buffer);
        assert_eq!(PartitionIntroduction::read(&buffer, 16).unwrap(), introduction_buffer);
        assert!(PartitionIntroduction::read(&buffer, 12).is_err());
        for (first_tag, count, bytes) in
            [(-1, 1, 1), (i32::MAX, 2, 1), (0, u32::MAX, 1), (0, 4, u64::MAX / 2)]
        {
            PartitionIntroduction { first_tag, division: PartitionLayout { count, bytes } }
                .write(&buffer);
            assert!(PartitionIntroduction::read(&buffer, 16).is_err());
        }
    }
}
