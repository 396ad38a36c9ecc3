//! From where in the program a call comes, for profiles: found in some nanoseconds, as it is asked
//! for each call.
//!
//! The stack is walked only when a call comes from a place for the first time, and names are looked
//! up at the end. The walk tells also how far above our frames the address lies to which the
//! function of MPI returns. The distance is the same for each call of that function, as its frames
//! are; so the next call reads one word of the stack, and has its place if the address is known.
//! The last places stand beside the function itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use mpi::CallPlace;
use progress::System;
use progress::waiting::WaitingSystem;
use runtime::machine::ticks;
use sys::callers::{self, Caller};

use crate::call_stack;
use crate::entry::EntryPoint;
use crate::library::LibraryState;

/// The places from which calls have come.
#[derive(Debug, Default)]
pub struct CallSites {
    /// By the function and the address to which it returns.
    known: RefCell<AddressMap<(*const EntryPoint, usize), CallPlace>>,
    /// By the function: how many bytes above our frames that address lies. There are several where
    /// it is called through others, such as the Fortran interfaces.
    distances: RefCell<AddressMap<*const EntryPoint, Vec<usize>>>,
}

/// The places from which a function was called last. Whoever reads and writes them holds the lock
/// of the process, or is the only thread inside: words are atomic as they are part of what is
/// shared.
#[derive(Debug)]
pub struct RecentPlaces {
    /// How far above our frames the address lies to which the last call returns; 0: not known.
    distance: AtomicUsize,
    places: [RecentPlace; RECENT_PLACES],
}

/// An address to which calls return, and the number of its place.
#[derive(Debug)]
struct RecentPlace {
    address: AtomicUsize,
    place: AtomicU32,
}

/// A power of two.
const RECENT_PLACES: usize = 4;

impl RecentPlaces {
    /// Of a function that was not called yet.
    pub const fn none() -> Self {
        const fn none() -> RecentPlace {
            RecentPlace { address: AtomicUsize::new(0), place: AtomicU32::new(0) }
        }
        Self { distance: AtomicUsize::new(0), places: [none(), none(), none(), none()] }
    }

    #[inline]
    fn slot(&self, address: usize) -> &RecentPlace {
        &self.places[(address ^ address >> 4) % RECENT_PLACES]
    }

    fn note(&self, distance: usize, address: usize, place: CallPlace) {
        let slot = self.slot(address);
        slot.place.store(place.number(), Ordering::Relaxed);
        slot.address.store(address, Ordering::Relaxed);
        self.distance.store(distance, Ordering::Relaxed);
    }
}

type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

/// Hashes addresses, which nobody chooses to do harm, in a nanosecond.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        // An odd number whose bits look random; what it brings into the upper bits goes also into
        // the lower ones, which have the place in a table.
        let mixed = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// So many distances are kept for a function; what is farther away is found by walking.
const DISTANCES_MAX: usize = 4;

/// Distances of one function differ by so many bytes at most.
const EXCESS_MAX: usize = 512;

/// Of so many places each is told by itself; the calls from all others are told together.
const CALL_PLACES_MAX: usize = 4096;

/// The place from which this thread has called a function, and since when, in [`ticks`], it had to
/// be looked for, if that may have taken long.
#[inline(never)]
pub fn of(entry: &'static EntryPoint, library: &LibraryState) -> (CallPlace, Option<u64>) {
    let CallSites { known, distances } = &library.call_sites;
    let key = std::ptr::from_ref(entry);
    // Stacks of threads that share kernel threads end where nothing may be read.
    let may_read = !System.shares_kernel_thread();
    let marker = black_box(0_usize);
    // SAFETY: the frames between this one and the program are those of the same function as when
    // the distance was found, or it is at most EXCESS_MAX above them; there the program has its
    // frames, and above its first one the system what it gave the thread.
    let word = |distance| unsafe { callers::word_above(&marker, distance) };
    let recent = entry.recent.distance.load(Ordering::Relaxed);
    if may_read && recent != 0 {
        let address = word(recent);
        let slot = entry.recent.slot(address);
        if slot.address.load(Ordering::Relaxed) == address {
            return (CallPlace::numbered(slot.place.load(Ordering::Relaxed)), None);
        }
    }
    if may_read && let Some(distances) = distances.borrow().get(&key) {
        let known = known.borrow();
        for distance in distances {
            let address = word(*distance);
            if let Some(place) = known.get(&(key, address)) {
                entry.recent.note(*distance, address, *place);
                return (*place, None);
            }
        }
    }
    let looks_since = ticks();
    let (caller, symbol) = caller().unzip();
    let caller = caller.unwrap_or_default();
    // SAFETY: the caller is on the stack, if there is one; without one the distance is none.
    if may_read && let Some(distance) = unsafe { callers::distance_to(&marker, caller) } {
        let mut distances = distances.borrow_mut();
        let of_function = distances.entry(key).or_default();
        let is_near = of_function.iter().all(|other| other.abs_diff(distance) <= EXCESS_MAX);
        if is_near && of_function.len() < DISTANCES_MAX && !of_function.contains(&distance) {
            of_function.push(distance);
        }
    }
    let is_full = known.borrow().len() >= CALL_PLACES_MAX;
    let address = if is_full { 0 } else { caller.address };
    if let Some(place) = known.borrow().get(&(key, address)) {
        return (*place, Some(looks_since));
    }
    let callers = call_stack::callers_later(1);
    let caller = move || match address {
        0 => None,
        _ => callers().pop().or_else(|| symbol.clone()),
    };
    let place = library.process.add_call_place(entry.name, Box::new(caller));
    known.borrow_mut().insert((key, address), place);
    (place, Some(looks_since))
}

/// The function of the program that called MPI: the first one outside of this library that is no
/// function of MPI itself, as those of the Fortran interfaces and of tools are; and its place as a
/// file with an offset.
fn caller() -> Option<(Caller, String)> {
    let own = callers::object_of(of as *const () as usize)?.base;
    callers::callers().into_iter().find_map(|caller| {
        let object = callers::object_of(caller.address)?;
        let symbol = object.symbol.unwrap_or_default();
        let is_of_mpi = symbol.strip_prefix('P').unwrap_or(&symbol).to_ascii_lowercase();
        if object.base == own || is_of_mpi.starts_with("mpi_") || object.name.contains("libcombray")
        {
            return None;
        }
        Some((caller, format!("{}+{:#x}", object.name, caller.address - object.base)))
    })
}
