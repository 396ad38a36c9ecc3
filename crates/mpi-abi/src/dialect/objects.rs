//! The objects whose addresses are predefined handles, and the conversion between addresses and
//! numbers.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::c::HandleKind;
use crate::generated::constants::MPI_COMM_WORLD;
use crate::generated::objects::OBJECTS;
use crate::handles::PREDEFINED_END;

/// An object that a program uses by its address only. It is shorter than the object in Open MPI:
/// programs may contain copies of these objects, and the loader warns of objects that are longer in
/// the library than in the program.
#[repr(align(16))]
pub struct HandleObject {
    _content: [usize; 2],
}

impl HandleObject {
    /// A new object.
    pub const NEW: Self = Self { _content: [0; 2] };
}

/// The end of the numbers of predefined handles.
const NUMBERS: usize = 0x300;

/// The objects by number, with one slot more than there are numbers, for invalid handles.
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

/// Returns the handle for the program of a handle inside the library.
///
/// A handle that the library has created has a kind, in its lower half. Exchanging the halves moves
/// the kind to the highest bits, which are 0 in all addresses.
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

/// Returns the address of the object of a predefined handle; 0 if the number is not a handle.
#[inline(always)]
fn address_of(number: usize) -> usize {
    ADDRESSES[number].map_or(0, |object| &raw const *object as usize)
}

/// Returns the handle inside the library for a handle of the program.
#[inline(always)]
pub fn received(handle: usize, kind: HandleKind) -> usize {
    // Most requests were created by the library, and most other handles are predefined.
    if kind == HandleKind::Request && is_made_here(handle) {
        return handle.rotate_left(32);
    }
    // Most communicator arguments are MPI_COMM_WORLD.
    if kind == HandleKind::Comm && handle == address_of(MPI_COMM_WORLD.0) {
        return MPI_COMM_WORLD.0;
    }
    let place = first_place(handle);
    if PLACES.addresses[place].load(Ordering::Acquire) == handle {
        return PLACES.numbers[place].load(Ordering::Relaxed) as usize;
    }
    if is_made_here(handle) { handle.rotate_left(32) } else { find(handle) }
}

/// Returns the Fortran integer of a predefined handle.
pub fn fortran_integer(number: usize) -> c_int {
    INTEGERS.get(number).copied().flatten().unwrap_or(number as c_int)
}

/// Returns the predefined handle of a Fortran integer; another integer is returned without change.
pub fn of_fortran_integer(integer: c_int, kind: HandleKind) -> usize {
    let known =
        usize::try_from(integer).ok().and_then(|place| NUMBERS_OF[kind as usize].get(place));
    match known {
        Some(&number) if number != NO_NUMBER => number.into(),
        _ => integer as u32 as usize,
    }
}

/// The Fortran integers by number.
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

/// The numbers by kind and Fortran integer. Slots with `NO_NUMBER` have no handle.
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

/// Whether a handle of the program was created by the library: only such handles have a kind.
#[inline(always)]
fn is_made_here(handle: usize) -> bool {
    handle >> KIND_SHIFT != 0
}

/// The first bit of the kind in a handle of the program.
const KIND_SHIFT: u32 = 60;

/// The numbers by address, in a hash table. An entry is at the slot of its hash value or at one of
/// the next slots.
static PLACES: Places = Places {
    addresses: [const { AtomicUsize::new(0) }; PLACES_LENGTH],
    numbers: [const { AtomicU32::new(0) }; PLACES_LENGTH],
};
const PLACES_BITS: u32 = 9;
const PLACES_LENGTH: usize = 1 << PLACES_BITS;

struct Places {
    /// The addresses; 0 for an empty slot.
    addresses: [AtomicUsize; PLACES_LENGTH],
    numbers: [AtomicU32; PLACES_LENGTH],
}

/// Returns the slot of the hash value of an address. The hash function multiplies by the golden
/// ratio, because the addresses have regular distances.
#[inline(always)]
fn first_place(address: usize) -> usize {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - PLACES_BITS)
}

/// Returns the handle inside the library for a handle of the program that is not at its first slot.
/// A value that is not the address of an object is returned without change.
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
            // A small value becomes 0, which is no handle in the library.
            0 => return if handle < PREDEFINED_END { 0 } else { handle },
            address if address == handle => {
                return PLACES.numbers[place].load(Ordering::Relaxed) as usize;
            }
            _ => place = (place + 1) % PLACES_LENGTH,
        }
    }
}
