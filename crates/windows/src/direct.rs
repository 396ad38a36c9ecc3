//! Operations on memory that this process can reach itself.

use crate::OldData;
use datatype::reduction;
use memory::Buffer;

use super::access::{AccessKind, WindowAccess};
use super::message::room;

/// Places with at most so many bytes in one run are worked on by way of the stack.
const SMALL_BYTES: usize = 64;

/// No predefined datatype has longer elements, in bytes.
pub(super) const ELEMENT_BYTES_MAX: usize = 32;

/// Reads or writes the target's part as `access` says.
pub(super) fn apply(access: &WindowAccess, part: &Buffer) {
    match access.place.run() {
        Some(run) if run.length <= SMALL_BYTES => {
            apply_small(access, part, run.displacement as usize, run.length);
        }
        _ => apply_any(access, &access.place.buffer(part)),
    }
}

/// The same for a few bytes at `offset` in the part.
fn apply_small(access: &WindowAccess, part: &Buffer, offset: usize, length: usize) {
    let WindowAccess { action, origin, compare, result, .. } = access;
    let (mut given, mut found) = ([0; SMALL_BYTES], [0; SMALL_BYTES]);
    let (given, found) = (&mut given[..length], &mut found[..length]);
    match action {
        AccessKind::Put => {
            origin.read(0, given);
            part.write(offset, given);
        }
        AccessKind::Get => {
            part.read(offset, found);
            result.write(0, found);
        }
        AccessKind::Accumulate { operator, element, old } => {
            part.read(offset, found);
            if let Some(element) = element {
                let mut changed = [0; SMALL_BYTES];
                let changed = &mut changed[..length];
                changed.copy_from_slice(found);
                origin.read(0, given);
                let supported = reduction::reduce(*operator, *element, given, changed);
                supported.expect("it was checked when the action was made");
                part.write(offset, changed);
            }
            if *old == OldData::Fetched {
                result.write(0, found);
            }
        }
        AccessKind::Swap => {
            part.read(offset, found);
            compare.read(0, given);
            if found == given {
                origin.read(0, given);
                part.write(offset, given);
            }
            result.write(0, found);
        }
    }
}

fn apply_any(access: &WindowAccess, place: &Buffer) {
    let WindowAccess { action, origin, compare, result, .. } = access;
    match action {
        AccessKind::Put => {
            origin.copy_to(place);
        }
        AccessKind::Get => {
            place.copy_to(result);
        }
        AccessKind::Accumulate { operator, element, old } => {
            // The result may be the buffer that the operand is in.
            let before = (*old == OldData::Fetched).then(|| copy_of(place));
            if let Some(element) = element {
                reduction::combine(*operator, *element, origin, place);
            }
            if let Some(before) = before {
                before.copy_to(result);
            }
        }
        AccessKind::Swap => {
            let before = copy_of(place);
            swap(origin, compare, place);
            before.copy_to(result);
        }
    }
}

/// Writes `value` to `place` if what is there is `expected`.
pub(super) fn swap(value: &Buffer, expected: &Buffer, place: &Buffer) {
    let length = place.len().min(ELEMENT_BYTES_MAX);
    let [mut new, mut compared, mut found] = [const { [0; ELEMENT_BYTES_MAX] }; 3];
    value.read(0, &mut new[..length]);
    expected.read(0, &mut compared[..length]);
    place.read(0, &mut found[..length]);
    if found[..length] == compared[..length] {
        place.write(0, &new[..length]);
    }
}

/// The bytes of a place in memory of our own.
pub(super) fn copy_of(place: &Buffer) -> Buffer {
    let copy = room(place.len());
    place.copy_to(&copy);
    copy
}
