//! Finds the call sites in the program, for profiles. A lookup takes a few nanoseconds, because it
//! is made for each call.
//!
//! The stack is walked only when a call comes from a call site for the first time, and names are
//! looked up at the end. The walk also yields a distance: how many bytes above the frames of this
//! library the return address of the MPI function lies. The frames of a function have constant
//! sizes, so each call of that function has this distance. The next call therefore reads one word
//! of the stack, and has its call site if that address is known. The most recent call sites are
//! stored with the function itself.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use base::hashing::QuickMap;
use mpi::{CallPlace, Process};
use progress::System;
use progress::waiting::WaitingSystem;
use runtime::machine::ticks;
use sys::callers::{self, Caller};

use crate::call_stack;

/// The known call sites.
#[derive(Debug, Default)]
pub struct CallSites {
    /// The call sites by function and return address.
    known: RefCell<QuickMap<(*const RecentPlaces, usize), CallPlace>>,
    /// For each function, the distances in bytes from the frames of this library to the return
    /// address. There are several if the function is also called through others, such as the
    /// Fortran interfaces.
    distances: RefCell<QuickMap<*const RecentPlaces, Vec<usize>>>,
}

/// The most recent call sites of a function. A thread that reads or writes them holds the lock of
/// the process, or is the only thread in the library. The words are atomic because the struct is
/// part of shared data.
#[derive(Debug)]
pub struct RecentPlaces {
    /// The distance in bytes from the frames of this library to the return address of the last
    /// call; 0 if it is not known.
    distance: AtomicUsize,
    places: [RecentPlace; RECENT_PLACES],
}

/// A return address and the number of its call site.
#[derive(Debug)]
struct RecentPlace {
    address: AtomicUsize,
    place: AtomicU32,
}

/// The number of recent call sites; a power of two.
const RECENT_PLACES: usize = 4;

impl RecentPlaces {
    /// Creates the empty set, for a function that was not called yet.
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

/// The largest number of distances that are stored for a function. Call sites at other distances
/// are found by walking the stack.
const DISTANCES_MAX: usize = 4;

/// The largest difference in bytes between two stored distances of a function.
const EXCESS_MAX: usize = 512;

/// The largest number of call sites that are counted separately. Calls from all others are counted
/// together.
const CALL_PLACES_MAX: usize = 4096;

/// Returns the call site from which this thread has called the function with this name and these
/// recent call sites. The second value is the time in [`ticks`] at which a slow search for the call
/// site began, if there was one.
#[inline(never)]
pub fn of(
    name: &'static str,
    recent_places: &'static RecentPlaces,
    sites: &CallSites,
    process: &Process,
) -> (CallPlace, Option<u64>) {
    let CallSites { known, distances } = sites;
    let key = std::ptr::from_ref(recent_places);
    // The stack of a thread that shares a kernel thread may end at memory that must not be read.
    let may_read = !System.shares_kernel_thread();
    let marker = black_box(0_usize);
    // SAFETY: the frames between this one and the program are those of the function for which the
    // distance was found, or the distance reaches at most EXCESS_MAX above them. There the program
    // has its frames, and above the program's first frame is the data that the system gave the
    // thread.
    let word = |distance| unsafe { callers::word_above(&marker, distance) };
    let recent = recent_places.distance.load(Ordering::Relaxed);
    if may_read && recent != 0 {
        let address = word(recent);
        let slot = recent_places.slot(address);
        if slot.address.load(Ordering::Relaxed) == address {
            return (CallPlace::numbered(slot.place.load(Ordering::Relaxed)), None);
        }
    }
    if may_read && let Some(distances) = distances.borrow().get(&key) {
        let known = known.borrow();
        for distance in distances {
            let address = word(*distance);
            if let Some(place) = known.get(&(key, address)) {
                recent_places.note(*distance, address, *place);
                return (*place, None);
            }
        }
    }
    let checks_since = ticks();
    let (caller, symbol) = caller().unzip();
    let caller = caller.unwrap_or_default();
    // SAFETY: the caller is on the stack, if there is one; without a caller there is no distance.
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
        return (*place, Some(checks_since));
    }
    let callers = call_stack::callers_later(1);
    let symbol = symbol.filter(|_| address != 0);
    let shown = symbol.clone().unwrap_or_default();
    let caller = move || match address {
        0 => None,
        _ => callers().pop().or_else(|| symbol.clone()),
    };
    let place = process.add_call_place(name, Box::new(caller), &shown);
    known.borrow_mut().insert((key, address), place);
    (place, Some(checks_since))
}

/// Returns the function of the program that called MPI, and its place as a file with an offset.
/// This is the first function outside of this library that is not an MPI function itself: the
/// Fortran interfaces and tools also define MPI functions.
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
