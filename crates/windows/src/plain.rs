//! The fast path: contiguous elements of one predefined datatype, in memory that all processes have
//! mapped. Other accesses, and erroneous ones, are left to [`Window::access`].

use datatype::Predefined;
use datatype::reduction::Operator;
use memory::{AddressRange, Buffer};

use super::exposed::ExposedParts;
use super::locks;
use super::{CompletedBy, Window};

/// Elements of a predefined datatype at a target.
#[derive(Clone, Copy, Debug)]
pub struct PlainPlace {
    /// The rank of the target.
    pub target: u32,
    /// The displacement in units of the target's part.
    pub displacement: i64,
    /// The number of bytes.
    pub length: usize,
}

/// A run of bytes in a part that this process has mapped.
#[derive(Clone, Copy)]
struct PlainRun<'a> {
    part: &'a Buffer,
    memory: &'a AddressRange,
    offset: usize,
}

impl Window {
    /// Puts plain data. Returns false if nothing was done.
    #[inline(always)]
    pub fn put_plain(&self, place: PlainPlace, origin: &Buffer, completed_by: CompletedBy) -> bool {
        let Some(given) = origin.range().filter(|given| given.len() == place.length) else {
            return false;
        };
        let Some(run) = self.plain_run(place, completed_by) else { return false };
        let offset = run.offset as isize;
        match place.length {
            8 => run.memory.set_bytes::<8>(offset, given.bytes(0)),
            4 => run.memory.set_bytes::<4>(offset, given.bytes(0)),
            length => origin.copy_range(0, run.part, run.offset, length),
        }
        true
    }

    /// Gets plain data. Returns false if nothing was done.
    #[inline(always)]
    pub fn get_plain(&self, place: PlainPlace, result: &Buffer, completed_by: CompletedBy) -> bool {
        let Some(room) = result.range().filter(|room| room.len() == place.length) else {
            return false;
        };
        let Some(run) = self.plain_run(place, completed_by) else { return false };
        let offset = run.offset as isize;
        match place.length {
            8 => room.set_bytes::<8>(0, run.memory.bytes(offset)),
            4 => room.set_bytes::<4>(0, run.memory.bytes(offset)),
            length => run.part.copy_range(run.offset, result, 0, length),
        }
        true
    }

    /// Adds to one element of 4 or 8 bytes, or replaces it; stores the previous value in `result`,
    /// if given. Returns false if nothing was done.
    #[inline(always)]
    pub fn accumulate_plain(
        &self,
        place: PlainPlace,
        (operator, element): (Operator, Predefined),
        origin: &Buffer,
        result: Option<&Buffer>,
        completed_by: CompletedBy,
    ) -> bool {
        let adds = operator == Operator::Sum && element.integer_size() == place.length;
        if !adds && operator != Operator::Replace {
            return false;
        }
        macro_rules! change {
            ($word:ty) => {
                self.change_plain(place, completed_by, (origin, result), |given, there| {
                    let (given, there) =
                        (<$word>::from_ne_bytes(given), <$word>::from_ne_bytes(there));
                    let changed = if adds { there.wrapping_add(given) } else { given };
                    changed.to_ne_bytes()
                })
            };
        }
        match place.length {
            8 => change!(u64),
            4 => change!(u32),
            _ => false,
        }
    }

    /// Compares and swaps one integer of 4 or 8 bytes. Returns false if nothing was done.
    #[inline(always)]
    pub fn swap_plain(
        &self,
        place: PlainPlace,
        element: Predefined,
        (new, expected): (&Buffer, &Buffer),
        result: &Buffer,
    ) -> bool {
        if element.integer_size() != place.length {
            return false;
        }
        let Some(expected) = expected.range().filter(|expected| expected.len() == place.length)
        else {
            return false;
        };
        macro_rules! change {
            ($bytes:expr) => {{
                let expected = expected.bytes::<$bytes>(0);
                let completed_by = CompletedBy::Synchronization;
                let buffers = (new, Some(result));
                let change = |new, there| if there == expected { new } else { there };
                self.change_plain::<$bytes>(place, completed_by, buffers, change)
            }};
        }
        match place.length {
            8 => change!(8),
            4 => change!(4),
            _ => false,
        }
    }

    /// Replaces a word by the result of `change`, which receives the origin's word and the target's
    /// word, while no other process accumulates to the part. Stores the previous word in the result
    /// buffer. Returns false if nothing was done.
    #[inline(always)]
    fn change_plain<const N: usize>(
        &self,
        place: PlainPlace,
        completed_by: CompletedBy,
        (origin, result): (&Buffer, Option<&Buffer>),
        change: impl FnOnce([u8; N], [u8; N]) -> [u8; N],
    ) -> bool {
        let ExposedParts::Shared { memory: words, own_process, .. } = &self.memory else {
            return false;
        };
        let Some(given) = origin.range().filter(|given| given.len() == N) else { return false };
        let room = match result {
            None => None,
            Some(result) => match result.range().filter(|room| room.len() == N) {
                None => return false,
                room => room,
            },
        };
        let given = given.bytes(0);
        let Some(PlainRun { memory, offset, .. }) = self.plain_run(place, completed_by) else {
            return false;
        };
        let offset = offset as isize;
        let before = locks::accumulating(words, place.target).hold(*own_process, || {
            let before = memory.bytes(offset);
            memory.set_bytes(offset, change(given, before));
            before
        });
        if let Some(room) = room {
            room.set_bytes(0, before);
        }
        true
    }

    /// Returns the place in memory that is mapped here; `None` if it is not mapped, or the call is
    /// erroneous.
    #[inline(always)]
    fn plain_run(&self, place: PlainPlace, completed_by: CompletedBy) -> Option<PlainRun<'_>> {
        let ExposedParts::Shared { parts, .. } = &self.memory else { return None };
        let index = place.target as usize;
        let (share, part) = (self.shares.get(index)?, parts.get(index)?);
        let memory = part.range()?;
        let offset = usize::try_from(place.displacement).ok()?.checked_mul(share.unit)?;
        if offset.checked_add(place.length)? > share.size {
            return None;
        }
        self.epochs.borrow_mut().admit(place.target, completed_by).ok()?;
        Some(PlainRun { part, memory, offset })
    }
}
