//! What a program may ask of its rails.

use std::ffi::{c_char, c_int};

use base::{ErrorClass, RailId};

use crate::arguments::Out;
use crate::entry::{Call, Entry, enter_native};
use crate::failure::{Failure, Outcome};

/// What stands for what is not known.
const UNKNOWN: c_int = -1;

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_rails(count: *mut c_int) -> c_int {
    static ENTRY: Entry = Entry { name: "combray_rails", parameters: &["count"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        let count = unsafe { call.out(1, count) }?;
        count.set(call.library.process.rail_names().len() as c_int);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_rail_name(rail: c_int, buffer: *mut c_char, size: usize) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_rail_name", parameters: &["rail", "buffer", "size"] };
    enter_native(&ENTRY, |call| {
        let name = call.library.process.rail_names().swap_remove(known(call, rail)?);
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe { call.out_text(2, buffer)?.write(name.as_bytes(), size) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_rail_place(
    rail: c_int,
    node: *mut c_int,
    distance: *mut c_int,
) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_rail_place", parameters: &["rail", "node", "distance"] };
    enter_native(&ENTRY, |call| {
        let rail = known(call, rail)?;
        let place = call.library.process.rail_place(RailId(rail as u8));
        let told = |number: Option<u32>| {
            number.and_then(|number| c_int::try_from(number).ok()).unwrap_or(UNKNOWN)
        };
        let near = told(place.as_ref().and_then(|place| place.locality.node));
        let far = told(place.map(|place| place.distance));
        for (out, value) in [(node, near), (distance, far)] {
            if !out.is_null() {
                // SAFETY: not null, and the program vouches for its pointers, as the header says.
                unsafe { Out::new(out) }.set(value);
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_nearest_rail(rail: *mut c_int) -> c_int {
    static ENTRY: Entry = Entry { name: "combray_nearest_rail", parameters: &["rail"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        let rail = unsafe { call.out(1, rail) }?;
        let nearest = call.library.process.nearest_rail();
        rail.set(nearest.map_or(UNKNOWN, |nearest| c_int::from(nearest.0)));
        Ok(())
    })
}

/// The rail with the number that is the first argument.
fn known(call: &Call, rail: c_int) -> Outcome<usize> {
    let count = call.library.process.rail_names().len();
    usize::try_from(rail).ok().filter(|rail| *rail < count).ok_or_else(|| {
        let detail = format!("is {rail}, but this process has {count} rails, numbered from 0");
        Failure::argument(1, ErrorClass::Arg, detail)
    })
}
