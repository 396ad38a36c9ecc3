//! Operations on memory that this process can access itself.

use datatype::reduction;
use memory::Buffer;

use super::action::{AccessKind, OldData, WindowAccess};

/// Contiguous data of at most this many bytes is processed in buffers on the stack.
pub(super) const SHORT_ACCESS_BYTES: usize = 64;

/// The size of the largest element of a predefined datatype, in bytes.
pub(super) const ELEMENT_BYTES_MAX: usize = 32;

/// Applies `access` to the target's part.
pub(super) fn apply(access: &WindowAccess, part: &Buffer) {
    match access.place.run() {
        Some(run) if run.length <= SHORT_ACCESS_BYTES => {
            apply_small(access, part, run.displacement as usize, run.length);
        }
        _ => apply_any(access, &access.place.buffer(part)),
    }
}

/// Applies `access` to a few bytes at `offset` in the part.
fn apply_small(access: &WindowAccess, part: &Buffer, offset: usize, length: usize) {
    let WindowAccess { action, origin, compare, result, .. } = access;
    let [mut given, mut compared, mut found] = [[0; SHORT_ACCESS_BYTES]; 3];
    let (found, compared) = (&mut found[..length], &mut compared[..compare.len()]);
    // An operation that does not change the elements needs no data of the origin, whose length may
    // be any.
    let given = &mut given[..if origin.len() == length { length } else { 0 }];
    origin.read(0, given);
    compare.read(0, compared);
    change(action, (given, compared), (part, offset), found);
    if !result.is_empty() {
        result.write(0, found);
    }
}

/// Applies `action` to `found.len()` bytes at an offset in a part; there are only a few. `given` is
/// the origin's data, `compared` the value to compare with. Afterwards `found` holds the previous
/// data, except for a put.
pub(super) fn change(
    action: &AccessKind,
    (given, compared): (&[u8], &[u8]),
    (part, offset): (&Buffer, usize),
    found: &mut [u8],
) {
    match action {
        AccessKind::Put => part.write(offset, given),
        AccessKind::Get => part.read(offset, found),
        AccessKind::Accumulate { operator, element, .. } => {
            part.read(offset, found);
            if let Some(element) = element {
                let mut changed = [0; SHORT_ACCESS_BYTES];
                let changed = &mut changed[..found.len()];
                changed.copy_from_slice(found);
                let supported = reduction::reduce(*operator, *element, given, changed);
                supported.expect("it was checked when the action was made");
                part.write(offset, changed);
            }
        }
        AccessKind::Swap => {
            part.read(offset, found);
            if found == compared {
                part.write(offset, given);
            }
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
            // The result may be the buffer that holds the operand.
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

/// Writes `value` to `place` if `place` holds `expected`.
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

/// Returns a copy of the bytes of a place in memory of this library.
pub(super) fn copy_of(place: &Buffer) -> Buffer {
    let copy = Buffer::zeroed(place.len());
    place.copy_to(&copy);
    copy
}
