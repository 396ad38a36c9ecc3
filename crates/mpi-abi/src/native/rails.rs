//! Queries of a program about the rails of its process.

use std::ffi::c_int;

use base::{ErrorClass, RailId};

use crate::arguments::{Out, OutText};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

/// Stands for a number that is not known.
const UNKNOWN: c_int = -1;

/// Returns how many rails the process has.
pub fn count(call: &Call, count: Out<c_int>) -> CallOutcome<()> {
    count.set(call.library.process.runtime().rail_names().count() as c_int);
    Ok(())
}

/// Writes the name of a rail.
pub fn name(call: &Call, rail: c_int, buffer: OutText) -> CallOutcome<()> {
    let rail = known(call, rail)?;
    let name = call.library.process.runtime().rail_names().nth(rail).map(str::to_owned);
    buffer.write(name.unwrap_or_default().as_bytes());
    Ok(())
}

/// Returns the NUMA node of a rail, and its distance from the process.
pub fn place(
    call: &Call,
    rail: c_int,
    node: Option<Out<c_int>>,
    distance: Option<Out<c_int>>,
) -> CallOutcome<()> {
    let rail = known(call, rail)?;
    let runtime = call.library.process.runtime();
    let place = runtime.rail_place(RailId(rail as u8));
    let reported = |number: Option<u32>| {
        number.and_then(|number| c_int::try_from(number).ok()).unwrap_or(UNKNOWN)
    };
    if let Some(node) = node {
        node.set(reported(place.and_then(|place| place.locality.node)));
    }
    if let Some(distance) = distance {
        distance.set(reported(place.map(|place| place.distance)));
    }
    Ok(())
}

/// Returns the rail that is nearest to the process.
pub fn nearest(call: &Call, rail: Out<c_int>) -> CallOutcome<()> {
    let nearest = call.library.process.runtime().nearest_rail();
    rail.set(nearest.map_or(UNKNOWN, |nearest| c_int::from(nearest.0)));
    Ok(())
}

/// Returns the index of the rail whose number is the first argument.
fn known(call: &Call, rail: c_int) -> CallOutcome<usize> {
    let count = call.library.process.runtime().rail_names().count();
    usize::try_from(rail).ok().filter(|rail| *rail < count).ok_or_else(|| {
        let detail = format!("is {rail}, but this process has {count} rails, numbered from 0");
        Failure::argument(1, ErrorClass::Arg, detail)
    })
}
