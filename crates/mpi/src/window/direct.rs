//! Operations on memory that this process can reach itself.

use datatype::reduction;
use memory::Buffer;

use super::access::Action;
use super::message::room;

/// Reads or writes `place` as `action` says.
pub(super) fn apply(action: &Action, origin: &Buffer, result: &Buffer, place: &Buffer) {
    match action {
        Action::Put => {
            origin.copy_to(place);
        }
        Action::Get => {
            place.copy_to(result);
        }
        Action::Accumulate { operator, element, fetches } => {
            // The result may be the buffer that the operand is in.
            let before = fetches.then(|| {
                let before = room(place.len());
                place.copy_to(&before);
                before
            });
            if let Some(element) = element {
                reduction::combine(*operator, *element, origin, place);
            }
            if let Some(before) = before {
                before.copy_to(result);
            }
        }
        Action::Swap => {
            let before = room(place.len());
            place.copy_to(&before);
            swap(origin, place);
            before.copy_to(result);
        }
    }
}

/// Writes the first half of `values` to `place` if the second half is what is there.
pub(super) fn swap(values: &Buffer, place: &Buffer) {
    let length = place.len();
    let [mut new, mut expected, mut found] = [const { [0; ELEMENT_BYTES_MAX] }; 3];
    let length = length.min(ELEMENT_BYTES_MAX);
    values.read(0, &mut new[..length]);
    values.read(length, &mut expected[..length]);
    place.read(0, &mut found[..length]);
    if found[..length] == expected[..length] {
        place.write(0, &new[..length]);
    }
}

/// No predefined datatype has longer elements, in bytes.
const ELEMENT_BYTES_MAX: usize = 32;
