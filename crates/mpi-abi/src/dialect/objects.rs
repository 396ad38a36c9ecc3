//! The objects whose addresses are predefined handles: numbers of addresses, and back.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::c::HandleKind;
use crate::generated::constants::MPI_COMM_WORLD;
use crate::generated::objects::OBJECTS;
use crate::handles::PREDEFINED_END;

/// What a program knows by its address only. Shorter than Open MPI's: the loader warns of objects
/// that are longer in the library than in the program, which may have copies of them.
#[repr(align(16))]
pub struct HandleObject {
    _content: [usize; 2],
}

impl HandleObject {
    /// One.
    pub const NEW: Self = Self { _content: [0; 2] };
}

/// Predefined handles are below this.
const NUMBERS: usize = 0x300;

/// One place more than there are numbers, for what is no handle.
static ADDRESSES: [Option<&HandleObject>; NUMBERS + 1] = {
    let mut all = [None; NUMBERS + 1];
    let mut index = 0;
    while index < OBJECTS.len() {
        let (_, number, object, _) = OBJECTS[index];
        all[number] = Some(object);
        index += 1;
    }
    all
};
const _: () = assert!(NUMBERS < PREDEFINED_END);

/// The handle that the program gets of one of ours.
///
/// What we made has a kind, which stands in the lower half. With the halves exchanged it is in the
/// highest bits, which no address has.
#[inline(always)]
pub fn handed(handle: usize) -> usize {
    if handle > PREDEFINED_END {
        return handle.rotate_left(32);
    }
    match address_of(handle.min(NUMBERS)) {
        0 => handle,
        address => address,
    }
}

/// The address that is a predefined handle; 0 if the number is none.
#[inline(always)]
fn address_of(number: usize) -> usize {
    ADDRESSES[number].map_or(0, |object| &raw const *object as usize)
}

/// Our handle of one that the program gave.
#[inline(always)]
pub fn received(handle: usize, kind: HandleKind) -> usize {
    // Most requests are ours, most of the others are predefined.
    if kind == HandleKind::Request && is_made_here(handle) {
        return handle.rotate_left(32);
    }
    // Most communicators are this one.
    if kind == HandleKind::Comm && handle == address_of(MPI_COMM_WORLD.0) {
        return MPI_COMM_WORLD.0;
    }
    let place = first_place(handle);
    if PLACES.addresses[place].load(Ordering::Acquire) == handle {
        return PLACES.numbers[place].load(Ordering::Relaxed) as usize;
    }
    if is_made_here(handle) { handle.rotate_left(32) } else { find(handle) }
}

/// The integer in Fortran of a predefined handle.
pub fn fortran_integer(number: usize) -> c_int {
    INTEGERS.get(number).copied().flatten().unwrap_or(number as c_int)
}

/// The predefined handle with an integer in Fortran; what is none of them is left as it is.
pub fn of_fortran_integer(integer: c_int, kind: HandleKind) -> usize {
    let known =
        usize::try_from(integer).ok().and_then(|place| NUMBERS_OF[kind as usize].get(place));
    match known {
        Some(&number) if number != NO_NUMBER => number.into(),
        _ => integer as u32 as usize,
    }
}

/// By number.
static INTEGERS: [Option<c_int>; NUMBERS] = {
    let mut all = [None; NUMBERS];
    let mut index = 0;
    while index < OBJECTS.len() {
        let (_, number, _, integer) = OBJECTS[index];
        all[number] = integer;
        index += 1;
    }
    all
};

/// Numbers by kind and integer. Below the first number there is no handle.
static NUMBERS_OF: [[u16; INTEGERS_END]; KINDS] = {
    let mut all = [[NO_NUMBER; INTEGERS_END]; KINDS];
    let mut index = 0;
    while index < OBJECTS.len() {
        if let (kind, number, _, Some(integer)) = OBJECTS[index] {
            all[kind as usize][integer as usize] = number as u16;
        }
        index += 1;
    }
    all
};
const NO_NUMBER: u16 = 0;
const INTEGERS_END: usize = 80;
const KINDS: usize = HandleKind::File as usize + 1;

/// Whether a handle that the program has is one that we made: those have a kind.
#[inline(always)]
fn is_made_here(handle: usize) -> bool {
    handle >> KIND_SHIFT != 0
}

/// Where the kind begins in a handle that the program has.
const KIND_SHIFT: u32 = 60;

/// Numbers by address: a place is the one that the address leads to, or one of those behind it.
static PLACES: Places = Places {
    addresses: [const { AtomicUsize::new(0) }; PLACES_LENGTH],
    numbers: [const { AtomicU32::new(0) }; PLACES_LENGTH],
};
const PLACES_BITS: u32 = 9;
const PLACES_LENGTH: usize = 1 << PLACES_BITS;

struct Places {
    /// 0 where nothing is.
    addresses: [AtomicUsize; PLACES_LENGTH],
    numbers: [AtomicU32; PLACES_LENGTH],
}

/// Where an address comes to lie if nothing else does: by the golden ratio, as addresses are in
/// rows.
#[inline(always)]
fn first_place(address: usize) -> usize {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES_BITS)
}

/// Our handle of one that is not at its first place; what is no object's address is no handle, and
/// stays as it is.
#[cold]
#[inline(never)]
fn find(handle: usize) -> usize {
    static FILLED: Once = Once::new();
    FILLED.call_once(|| {
        for (number, object) in ADDRESSES.iter().enumerate() {
            let Some(object) = object else { continue };
            let address = &raw const **object as usize;
            let mut place = first_place(address);
            while PLACES.addresses[place].load(Ordering::Relaxed) != 0 {
                place = (place + 1) % PLACES_LENGTH;
            }
            PLACES.numbers[place].store(number as u32, Ordering::Relaxed);
            PLACES.addresses[place].store(address, Ordering::Release);
        }
    });
    let mut place = first_place(handle);
    loop {
        match PLACES.addresses[place].load(Ordering::Acquire) {
            // Below the first number there is no handle of ours.
            0 => return if handle < PREDEFINED_END { 0 } else { handle },
            address if address == handle => {
                return PLACES.numbers[place].load(Ordering::Relaxed) as usize;
            }
            _ => place = (place + 1) % PLACES_LENGTH,
        }
    }
}
