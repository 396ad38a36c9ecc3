//! Places for packed mappings: ranges of addresses of one size, next to each other.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mapped;
use crate::pages::page_bytes;

/// The addresses that one page of page tables covers. A pack lies in one such range.
const PACK_BYTES: usize = 2 << 20;

/// The packs of this process. None is ever freed: a process that had many peers may have them
/// again, and a pack without mappings takes no memory.
static PACKS: Mutex<Vec<Pack>> = Mutex::new(Vec::new());

/// A reserved range of addresses, divided into places of one size.
struct Pack {
    base: usize,
    place_bytes: usize,
    /// Whether each place is claimed.
    claimed: Box<[bool]>,
}

/// Claims a place for `length` bytes; none if so few of these would lie in a pack that it saves
/// nothing.
pub(super) fn claim(length: usize) -> io::Result<Option<NonNull<u8>>> {
    let bytes = length.next_multiple_of(page_bytes());
    if bytes == 0 || bytes > PACK_BYTES / 2 {
        return Ok(None);
    }
    let mut packs = packs();
    let of_size = packs.iter_mut().filter(|pack| pack.place_bytes == bytes);
    let place = of_size.filter_map(Pack::claim).next();
    if place.is_some() {
        return Ok(place);
    }
    let mut pack = Pack::reserve(bytes)?;
    let place = pack.claim();
    packs.push(pack);
    Ok(place)
}

/// Ends the mapping at a claimed place for `length` bytes, which nothing accesses any more, and
/// gives the place back.
pub(super) fn release(place: NonNull<u8>, length: usize) {
    let bytes = length.next_multiple_of(page_bytes());
    // SAFETY: the range is that of this place, and its user no longer accesses it.
    let again = unsafe { reserve(place.as_ptr(), bytes, libc::MAP_FIXED) };
    // A place that could not be reserved again, which may still be mapped, stays claimed.
    if again.is_ok() {
        packs().iter_mut().for_each(|pack| pack.release(place.addr().get()));
    }
}

impl Pack {
    /// Reserves addresses for places of `place_bytes` bytes.
    fn reserve(place_bytes: usize) -> io::Result<Self> {
        // Enough that a whole aligned range lies inside; the rest is given back.
        // SAFETY: requests fresh addresses; no existing mapping is affected.
        let all = unsafe { reserve(ptr::null_mut(), 2 * PACK_BYTES, 0) }?;
        let first = all.as_ptr().expose_provenance();
        let base = first.next_multiple_of(PACK_BYTES);
        let (before, after) = (base - first, PACK_BYTES - (base - first));
        for (offset, length) in [(0, before), (before + PACK_BYTES, after)] {
            if length > 0 {
                // SAFETY: the range lies inside what was just reserved, and nothing uses it.
                unsafe { libc::munmap(all.as_ptr().add(offset).cast(), length) };
            }
        }
        let claimed = vec![false; PACK_BYTES / place_bytes].into();
        Ok(Self { base, place_bytes, claimed })
    }

    fn claim(&mut self) -> Option<NonNull<u8>> {
        let number = self.claimed.iter().position(|is_claimed| !is_claimed)?;
        self.claimed[number] = true;
        let address = self.base + number * self.place_bytes;
        NonNull::new(ptr::with_exposed_provenance_mut(address))
    }

    /// Releases the place at this address, if it is in this pack.
    fn release(&mut self, base: usize) {
        let number = base.checked_sub(self.base).map(|offset| offset / self.place_bytes);
        if let Some(is_claimed) = number.and_then(|number| self.claimed.get_mut(number)) {
            *is_claimed = false;
        }
    }
}

fn packs() -> MutexGuard<'static, Vec<Pack>> {
    PACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reserves addresses that cannot be accessed, at `address` or, if that is null, anywhere.
///
/// # Safety
/// With `MAP_FIXED`, nothing accesses the range any more.
unsafe fn reserve(address: *mut u8, length: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: the caller vouches for the addresses.
    mapped(unsafe { libc::mmap(address.cast(), length, libc::PROT_NONE, flags, -1, 0) })
}

#[cfg(test)]
mod tests {
    use super::super::{Mapping, create_memory_file};
    use super::*;

    /// A size of mappings that no other test uses, on kernels with pages of 4 to 64 KiB.
    const BYTES: usize = 192 << 10;

    #[test]
    fn packed_mappings_share_the_range_of_a_page_of_page_tables() {
        let each = PACK_BYTES / BYTES;
        let files: Vec<_> =
            (0..3 * each).map(|_| create_memory_file(c"test", BYTES).unwrap()).collect();
        let mut all: Vec<_> =
            files.iter().map(|file| Mapping::packed(file, BYTES).unwrap()).collect();
        let pack_of = |mapping: &Mapping| mapping.base().as_ptr().addr() / PACK_BYTES;
        let mut packs: Vec<_> = all.iter().map(pack_of).collect();
        packs.dedup();
        assert_eq!(packs.len(), 3, "{packs:?}");
        for (number, mapping) in all.iter().enumerate() {
            // SAFETY: the address is inside a mapping that only this test uses.
            unsafe { mapping.base().as_ptr().add(BYTES - 1).write_volatile(number as u8) };
        }
        for (number, file) in files.iter().enumerate() {
            let again = Mapping::new(file, BYTES).unwrap();
            // SAFETY: as above.
            let byte = unsafe { again.base().as_ptr().add(BYTES - 1).read_volatile() };
            assert_eq!(byte, number as u8);
        }
        // A place is used again, by another file.
        let freed = all.remove(5).base();
        let file = create_memory_file(c"test", BYTES).unwrap();
        let next = Mapping::packed(&file, BYTES).unwrap();
        assert_eq!(next.base(), freed);
        // SAFETY: as above.
        assert_eq!(unsafe { next.base().as_ptr().add(BYTES - 1).read_volatile() }, 0);
    }

    #[test]
    fn a_mapping_that_gains_nothing_is_not_packed() {
        let length = PACK_BYTES / 2 + 1;
        assert!(claim(length).unwrap().is_none());
        let file = create_memory_file(c"test", length).unwrap();
        assert_eq!(Mapping::packed(&file, length).unwrap().len(), length);
    }
}
