//! What a process passes to another about an allocation, so that the other one can access it.

use std::os::fd::{AsRawFd, OwnedFd};

use memory::ExportRecord;
use sys::process;

/// An allocation of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// The number by which the driver distinguishes it from all others of the process, also from
    /// earlier ones at its address.
    pub(crate) id: u64,
    /// The address of its first byte in the process that owns it.
    pub(crate) base: usize,
    pub(crate) bytes: usize,
}

/// By what another process reaches an allocation.
#[derive(Debug)]
pub(crate) enum Handle {
    /// Bytes for the driver.
    Bytes([u8; HANDLE_BYTES]),
    /// A descriptor of mapped memory.
    Descriptor(OwnedFd),
    /// A descriptor of a pool, and the driver's bytes for the allocation in it.
    Pool(OwnedFd, [u8; HANDLE_BYTES]),
}

/// The length of a handle of the driver.
pub(crate) const HANDLE_BYTES: usize = 64;

/// What a record says of an allocation of another process, apart from the offset in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exported {
    pub(crate) allocation: Allocation,
    kind: u64,
    /// The number of the descriptor in its process.
    descriptor: u64,
    bytes: [u8; HANDLE_BYTES],
}

const KIND_BYTES: u64 = 1;
const KIND_DESCRIPTOR: u64 = 2;
const KIND_POOL: u64 = 3;

/// How many words precede the bytes of the handle.
const WORDS: usize = 6;

const _: () = assert!(WORDS * 8 + HANDLE_BYTES <= size_of::<ExportRecord>());

impl Exported {
    /// Describes an allocation of this process.
    pub(crate) fn of(allocation: Allocation, handle: &Handle) -> Self {
        let (kind, descriptor, bytes) = match handle {
            Handle::Bytes(bytes) => (KIND_BYTES, None, *bytes),
            Handle::Descriptor(own) => (KIND_DESCRIPTOR, Some(own), [0; HANDLE_BYTES]),
            Handle::Pool(own, bytes) => (KIND_POOL, Some(own), *bytes),
        };
        let descriptor = descriptor.map_or(0, |own| own.as_raw_fd() as u64);
        Self { allocation, kind, descriptor, bytes }
    }

    /// Returns the record of the bytes from an address in the allocation on.
    pub(crate) fn record(&self, address: usize) -> ExportRecord {
        let Allocation { id, base, bytes } = self.allocation;
        let offset = address - base;
        let words = [self.kind, id, base as u64, bytes as u64, self.descriptor, offset as u64];
        let mut record = [0; size_of::<ExportRecord>()];
        for (place, word) in record.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        record[WORDS * 8..][..HANDLE_BYTES].copy_from_slice(&self.bytes);
        record
    }

    /// Reads a record, which another process has written; returns the offset in the allocation,
    /// too. None if `length` bytes from the offset on exceed the allocation.
    pub(crate) fn parse(record: &ExportRecord, length: usize) -> Option<(Self, usize)> {
        let word = |index: usize| {
            record[index * 8..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let [kind, id, base, bytes, descriptor, offset] = [0, 1, 2, 3, 4, 5].map(word);
        let handle = record[WORDS * 8..].first_chunk()?;
        let end = offset.checked_add(length as u64)?;
        if !(KIND_BYTES..=KIND_POOL).contains(&kind) || end > bytes {
            return None;
        }
        base.checked_add(bytes).filter(|end| isize::try_from(*end).is_ok())?;
        let allocation = Allocation { id, base: base as usize, bytes: bytes as usize };
        Some((Self { allocation, kind, descriptor, bytes: *handle }, offset as usize))
    }

    /// Returns the handle for this process, of an allocation of the process `owner`.
    pub(crate) fn handle(&self, owner: i32) -> Result<Handle, String> {
        let descriptor = || {
            let number = i32::try_from(self.descriptor).unwrap_or(-1);
            process::descriptor_of(owner, number)
                .map_err(|cause| format!("pidfd_getfd of a handle failed: {cause}"))
        };
        Ok(match self.kind {
            KIND_DESCRIPTOR => Handle::Descriptor(descriptor()?),
            KIND_POOL => Handle::Pool(descriptor()?, self.bytes),
            _ => Handle::Bytes(self.bytes),
        })
    }

    /// Whether both lie at a common address of their process.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let end = |one: &Allocation| one.base + one.bytes;
        let (one, two) = (&self.allocation, &other.allocation);
        one.base < end(two) && two.base < end(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported() -> Exported {
        let allocation = Allocation { id: 7, base: 1 << 30, bytes: 4096 };
        Exported::of(allocation, &Handle::Bytes([9; HANDLE_BYTES]))
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = exported().record((1 << 30) + 96);
        assert_eq!(Exported::parse(&record, 4000), Some((exported(), 96)));
        assert_eq!(Exported::parse(&record, 4001), None, "it exceeds the allocation");
    }

    #[test]
    fn nonsense_of_other_processes_is_refused() {
        for (word, value) in [(0, 0), (0, 4), (5, u64::MAX), (3, u64::MAX), (2, u64::MAX - 5000)] {
            let mut record = exported().record(1 << 30);
            record[word * 8..][..8].copy_from_slice(&u64::to_le_bytes(value));
            assert_eq!(Exported::parse(&record, 8), None, "word {word}");
        }
    }

    #[test]
    fn allocations_at_one_address_overlap() {
        let mut other = exported();
        other.allocation.base += 4095;
        assert!(exported().overlaps(&other) && other.overlaps(&exported()));
        other.allocation.base += 1;
        assert!(!exported().overlaps(&other) && !other.overlaps(&exported()));
    }
}
