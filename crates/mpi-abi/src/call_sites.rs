//! From where in the program a call comes, for profiles: found in some nanoseconds, as it is asked
//! for each call.
//!
//! The stack is walked only when a call comes from a place for the first time, and names are looked
//! up at the end. The walk tells also how far above our frames the address lies to which the
//! function of MPI returns. The distance is the same for each call of that function, as its frames
//! are; so the next call reads one word of the stack, and has its place if the address is known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;

use mpi::CallPlace;
use runtime::door::System;
use runtime::waiting::WaitingSystem;
use sys::callers::{self, Caller};

use crate::call_stack;
use crate::entry::EntryPoint;
use crate::library::LibraryState;

/// The places from which calls have come.
#[derive(Debug, Default)]
pub struct CallSites {
    /// By the function and the address to which it returns.
    known: RefCell<HashMap<(*const EntryPoint, usize), CallPlace>>,
    /// By the function: how many bytes above our frames that address lies. There are several where
    /// it is called through others, such as the Fortran interfaces.
    distances: RefCell<HashMap<*const EntryPoint, Vec<usize>>>,
}

/// So many distances are kept for a function; what is farther away is found by walking.
const DISTANCES_MAX: usize = 4;

/// Distances of one function differ by so many bytes at most.
const EXCESS_MAX: usize = 512;

/// Of so many places each is told by itself; the calls from all others are told together.
const CALL_PLACES_MAX: usize = 4096;

/// The place from which this thread has called a function, and whether it was looked for now, which
/// may have taken long.
#[inline(never)]
pub fn of(entry: &'static EntryPoint, library: &LibraryState) -> (CallPlace, bool) {
    let CallSites { known, distances } = &library.call_sites;
    let key = std::ptr::from_ref(entry);
    // Stacks of threads that share kernel threads end where nothing may be read.
    let may_read = !System.shares_kernel_thread();
    let marker = black_box(0_usize);
    if may_read && let Some(distances) = distances.borrow().get(&key) {
        let known = known.borrow();
        for distance in distances {
            // SAFETY: the frames between this one and the program are those of the same function as
            // when the distance was found, or it is at most EXCESS_MAX above them; there the
            // program has its frames, and above its first one the system what it gave the thread.
            let address = unsafe { callers::word_above(&marker, *distance) };
            if let Some(place) = known.get(&(key, address)) {
                return (*place, false);
            }
        }
    }
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
        return (*place, false);
    }
    let callers = call_stack::callers_later(1);
    let caller = move || match address {
        0 => None,
        _ => callers().pop().or_else(|| symbol.clone()),
    };
    let place = library.process.add_call_place(entry.name, Box::new(caller));
    known.borrow_mut().insert((key, address), place);
    (place, true)
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
