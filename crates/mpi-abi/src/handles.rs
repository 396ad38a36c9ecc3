//! Tables that map handles to objects, with generations.
//!
//! A handle of this library consists of generation, kind and index, in the layout of the dialect.
//! Freeing an object changes the generation of its slot. So a handle that outlives its object is
//! detected, even if the slot is used again. A value without this layout is a predefined handle or
//! invalid. Requests have more kinds of handles: [`crate::requests`].

use std::cell::{RefCell, RefMut};
use std::convert::Infallible;
use std::ffi::c_int;
use std::marker::PhantomData;

use crate::c::{Handle, HandleKind};
use crate::dialect::{fortran_integer, layout, of_fortran_integer};
use crate::generated::constants::HANDLE_NAMES;

/// For handles of 64 bits, values below this one are predefined.
pub const PREDEFINED_END: usize = 0x1000;

/// The mark of the integer form, which contains the mark, the low bits of the generation, and the
/// index.
pub const INTEGER_MARK: c_int = 1 << 30;
pub const INTEGER_INDEX_BITS: u32 = 24;
pub const INTEGER_GENERATION_MASK: u32 = 0x3f;

/// Objects of one kind, by handle. Adding, finding and removing take constant time, and allocate no
/// memory unless the table grows.
#[derive(Debug)]
pub struct Table<H, T> {
    state: RefCell<TableState<T>>,
    kind: PhantomData<H>,
}

#[derive(Debug)]
struct TableState<T> {
    places: Vec<TableEntry<T>>,
    /// The slot that was freed last; each free slot contains the next one.
    free: Option<u32>,
}

#[derive(Debug)]
struct TableEntry<T> {
    generation: u32,
    content: EntryContent<T>,
}

#[derive(Debug)]
enum EntryContent<T> {
    Free {
        next: Option<u32>,
    },
    /// A call uses the object at the moment, and will put it back.
    Away,
    Object(T),
}

impl<H, T> Default for Table<H, T> {
    fn default() -> Self {
        let state = TableState { places: Vec::new(), free: None };
        Self { state: RefCell::new(state), kind: PhantomData }
    }
}

impl<H: Handle, T> Table<H, T> {
    /// Adds an object, and returns its handle.
    #[inline(always)]
    pub fn insert(&self, object: T) -> H {
        let (index, generation) =
            self.state.borrow_mut().fill(H::KIND, EntryContent::Object(object));
        handle(index, generation)
    }

    /// Returns what `inspect` returns for the object; `None` if the handle names none.
    #[inline]
    pub fn with<R>(&self, handle: H, inspect: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut state = self.state.borrow_mut();
        match state.place(handle)?.content {
            EntryContent::Object(ref mut object) => Some(inspect(object)),
            _ => None,
        }
    }

    /// Gives access to several objects, one after the other. Until the result is dropped, no object
    /// can be added or taken out.
    #[inline]
    pub fn scan(&self) -> TableScan<'_, H, T> {
        TableScan { state: self.state.borrow_mut(), kind: PhantomData }
    }

    /// Returns the first value that `inspect` returns for the object. If the second value is true,
    /// the object is dropped in place, and its slot becomes free. `None` if the handle names none.
    #[inline]
    pub fn settle<R>(&self, handle: H, inspect: impl FnOnce(&mut T) -> (R, bool)) -> Option<R> {
        let mut state = self.state.borrow_mut();
        let next = state.free;
        let place = state.place(handle)?;
        let EntryContent::Object(ref mut object) = place.content else { return None };
        let (found, spent) = inspect(object);
        if spent {
            place.content = EntryContent::Free { next };
            place.generation = place.generation.wrapping_add(1).max(1);
            state.free = Some(index(handle) as u32);
        }
        Some(found)
    }

    /// Takes an object out temporarily; [`Table::put_back`] or [`Table::forget`] must follow.
    #[inline]
    pub fn borrow_out(&self, handle: H) -> Option<T> {
        match self.try_in_place(handle, |_| None::<Infallible>)? {
            InPlace::Done(never) => match never {},
            InPlace::Taken(object) => Some(object),
        }
    }

    /// Applies `act` to the object in place. If `act` returns `None`, the object is taken out as by
    /// [`Table::borrow_out`].
    #[inline]
    pub fn try_in_place<R>(
        &self,
        handle: H,
        act: impl FnOnce(&mut T) -> Option<R>,
    ) -> Option<InPlace<R, T>> {
        let mut state = self.state.borrow_mut();
        let place = state.place(handle)?;
        let EntryContent::Object(ref mut object) = place.content else { return None };
        if let Some(done) = act(object) {
            return Some(InPlace::Done(done));
        }
        match std::mem::replace(&mut place.content, EntryContent::Away) {
            EntryContent::Object(object) => Some(InPlace::Taken(object)),
            _ => None,
        }
    }

    /// Puts back an object that was taken out.
    #[inline]
    pub fn put_back(&self, handle: H, object: T) {
        let mut state = self.state.borrow_mut();
        if let Some(place) = state.place(handle) {
            place.content = EntryContent::Object(object);
        }
    }

    /// Frees the slot of an object, whether the object is in it or was taken out.
    #[inline]
    pub fn forget(&self, handle: H) -> Option<T> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let place = state.places.get_mut(index(handle))?;
        if !is_of(place.generation, handle) {
            return None;
        }
        let next = state.free;
        let content = std::mem::replace(&mut place.content, EntryContent::Free { next });
        place.generation = place.generation.wrapping_add(1).max(1);
        state.free = Some(index(handle) as u32);
        match content {
            EntryContent::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Drops an object in place, and frees its slot.
    #[inline]
    pub fn remove(&self, handle: H) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(place) = state.places.get_mut(index(handle)) else { return };
        if is_of(place.generation, handle) {
            place.content = EntryContent::Free { next: state.free };
            place.generation = place.generation.wrapping_add(1).max(1);
            state.free = Some(index(handle) as u32);
        }
    }

    /// Calls `show` for every object in the table.
    pub fn each(&self, mut show: impl FnMut(H, &mut T)) {
        let mut state = self.state.borrow_mut();
        for (index, place) in state.places.iter_mut().enumerate() {
            if let EntryContent::Object(object) = &mut place.content {
                show(handle(index, place.generation), object);
            }
        }
    }

    /// Whether the handle names an object that was taken out temporarily.
    pub fn is_away(&self, handle: H) -> bool {
        let mut state = self.state.borrow_mut();
        state.place(handle).is_some_and(|place| matches!(place.content, EntryContent::Away))
    }

    /// Returns the handle as an integer that Fortran can hold.
    pub fn to_int(&self, handle: H) -> c_int {
        let raw = handle.raw();
        if H::LAYOUT.is_integer || raw < PREDEFINED_END {
            return fortran_integer(raw);
        }
        let generation = (generation(handle) & INTEGER_GENERATION_MASK) as c_int;
        INTEGER_MARK | generation << INTEGER_INDEX_BITS | index(handle) as c_int
    }

    /// Returns the handle that [`Table::to_int`] converted to `integer`. An integer without a
    /// meaning becomes a handle that every call refuses.
    pub fn of_int(&self, integer: c_int) -> H {
        let invalid = H::from_raw(of_fortran_integer(integer, H::KIND));
        if H::LAYOUT.is_integer || integer & INTEGER_MARK == 0 || integer < 0 {
            return invalid;
        }
        let wanted = (integer & (INTEGER_MARK - 1)) as u32;
        let index = (wanted & ((1 << INTEGER_INDEX_BITS) - 1)) as usize;
        let state = self.state.borrow();
        match state.places.get(index) {
            Some(place)
                if place.generation & INTEGER_GENERATION_MASK == wanted >> INTEGER_INDEX_BITS =>
            {
                self::handle(index, place.generation)
            }
            _ => invalid,
        }
    }
}

/// Access to many objects of a table. It must be dropped before any other use of the table.
pub struct TableScan<'a, H, T> {
    state: RefMut<'a, TableState<T>>,
    kind: PhantomData<H>,
}

impl<H: Handle, T> TableScan<'_, H, T> {
    /// Returns the object; `None` if the handle names none.
    #[inline]
    pub fn object(&mut self, handle: H) -> Option<&mut T> {
        match self.state.place(handle)?.content {
            EntryContent::Object(ref mut object) => Some(object),
            _ => None,
        }
    }
}

/// The result of [`Table::try_in_place`].
pub enum InPlace<R, T> {
    /// The object stayed in the table.
    Done(R),
    Taken(T),
}

impl<H: Handle, T> Table<H, T> {
    /// Returns the handle of the first object that satisfies the condition, in time proportional to
    /// the table.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<H> {
        let state = self.state.borrow();
        let mut places = state.places.iter().enumerate();
        places.find_map(|(index, place)| match &place.content {
            EntryContent::Object(object) if is_it(object) => Some(handle(index, place.generation)),
            _ => None,
        })
    }
}

impl<H: Handle, T: Clone> Table<H, T> {
    /// Returns the object; `None` if the handle names none.
    #[inline]
    pub fn get(&self, handle: H) -> Option<T> {
        self.with(handle, |object| object.clone())
    }
}

impl<T> TableState<T> {
    /// Fills a free slot, and returns its index and generation.
    #[inline(always)]
    fn fill(&mut self, kind: HandleKind, content: EntryContent<T>) -> (usize, u32) {
        let index = match self.free {
            Some(index) => index as usize,
            None => self.grow(kind),
        };
        let place = &mut self.places[index];
        if let EntryContent::Free { next } = place.content {
            self.free = next;
        }
        place.content = content;
        (index, place.generation)
    }

    /// Adds a slot, which is free and will be used next.
    #[cold]
    fn grow(&mut self, kind: HandleKind) -> usize {
        let index = self.places.len();
        let max = layout(kind).index_max;
        assert!(index <= max, "at most {max} {}s can exist at a time", kind.noun());
        self.places.push(TableEntry { generation: 1, content: EntryContent::Free { next: None } });
        index
    }

    #[inline]
    fn place<H: Handle>(&mut self, handle: H) -> Option<&mut TableEntry<T>> {
        let is_of_kind = H::LAYOUT.is_of_kind(handle.raw(), H::KIND as usize);
        let place = self.places.get_mut(index(handle))?;
        (is_of(place.generation, handle) && is_of_kind).then_some(place)
    }
}

/// Describes a handle of this kind in a message: as a name, or as a number.
pub fn describe(raw: usize, kind: HandleKind) -> String {
    // In some dialects handles of different kinds have equal values.
    let is_it = |own: bool| {
        let mut names = HANDLE_NAMES.iter();
        names.find(|(of, value, _)| *value == raw && (!own || *of == kind)).map(|(.., name)| *name)
    };
    let name = is_it(true).or_else(|| is_it(false).filter(|_| raw != 0));
    let noun = kind.noun();
    match name {
        Some(name) => format!("is {name}"),
        None if raw == 0 => format!("is 0, which is not a valid {noun}; was the variable set?"),
        None => {
            let ours = raw > PREDEFINED_END && layout(kind).is_of_kind(raw, kind as usize);
            let why = if ours { "which was freed" } else { "which was never valid" };
            format!("is {raw:#x}, {why} ({noun})")
        }
    }
}

/// Describes a predefined datatype in a message.
pub fn describe_type(datatype: &datatype::Datatype) -> String {
    match datatype.construction() {
        datatype::Construction::Named(named) => format!("is {}", named.name()),
        _ => "is a predefined datatype of Fortran".to_owned(),
    }
}

#[inline]
fn handle<H: Handle>(index: usize, generation: u32) -> H {
    let layout = H::LAYOUT;
    let generation = ((generation & layout.generation_mask) as usize) << layout.generation_shift;
    H::from_raw(generation | layout.tag(H::KIND as usize) << layout.tag_shift | index)
}

#[inline]
fn index<H: Handle>(handle: H) -> usize {
    handle.raw() & ((1 << H::LAYOUT.index_bits) - 1)
}

#[inline]
fn generation<H: Handle>(handle: H) -> u32 {
    (handle.raw() >> H::LAYOUT.generation_shift) as u32 & H::LAYOUT.generation_mask
}

/// Whether a handle has the generation of a slot.
#[inline(always)]
fn is_of<H: Handle>(generation_of_place: u32, handle: H) -> bool {
    generation_of_place & H::LAYOUT.generation_mask == generation(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c::{Comm, Group};
    use crate::generated::constants::MPI_COMM_WORLD;

    #[test]
    fn a_freed_handle_is_found_out_after_its_place_was_taken_again() {
        let table: Table<Comm, u32> = Table::default();
        let first = table.insert(1);
        assert_eq!(table.get(first), Some(1));
        assert_eq!(table.forget(first), Some(1));
        assert_eq!((table.get(first), table.forget(first)), (None, None));
        let second = table.insert(2);
        assert_ne!(first, second);
        assert_eq!((table.get(first), table.get(second)), (None, Some(2)));
    }

    #[test]
    fn a_handle_of_another_kind_is_found_out() {
        let (comms, groups): (Table<Comm, u32>, Table<Group, u32>) = Default::default();
        let comm = comms.insert(1);
        groups.insert(2);
        assert_eq!(groups.get(Group::from_raw(comm.raw())), None);
        assert_eq!(comms.get(Comm(0)), None);
        assert_eq!(comms.get(MPI_COMM_WORLD), None);
    }

    #[test]
    fn what_is_away_cannot_be_found_till_it_is_back() {
        let table: Table<Comm, u32> = Table::default();
        let handle = table.insert(1);
        assert_eq!(table.borrow_out(handle), Some(1));
        assert_eq!((table.get(handle), table.borrow_out(handle)), (None, None));
        table.put_back(handle, 3);
        assert_eq!(table.borrow_out(handle), Some(3));
        assert_eq!(table.forget(handle), None);
        assert_eq!(table.borrow_out(handle), None);
    }

    #[test]
    fn integers_stand_for_handles_until_these_are_freed() {
        let table: Table<Comm, u32> = Table::default();
        let handles: Vec<Comm> = (0..100).map(|object| table.insert(object)).collect();
        for handle in &handles {
            let integer = table.to_int(*handle);
            assert!(HANDLE_NAMES.iter().all(|(_, raw, _)| *raw as c_int != integer));
            assert_eq!(table.of_int(integer), *handle);
        }
        let integer = table.to_int(handles[7]);
        table.forget(handles[7]);
        table.insert(0);
        assert_eq!(table.get(table.of_int(integer)), None);
        assert_eq!(table.get(table.of_int(-1)), None);
        for &(_, raw, name) in HANDLE_NAMES {
            let handle = Comm::from_raw(raw);
            assert_eq!(table.to_int(handle), raw as c_int, "{name}");
            assert_eq!(table.of_int(raw as c_int), handle, "{name}");
        }
    }
}
