//! Integers of two widths: a function and its variant with large counts share an implementation.

use std::borrow::Cow;
use std::ffi::c_int;
use std::marker::PhantomData;

use base::ErrorClass;

use super::null;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_UNDEFINED, MPI_WEIGHTS_EMPTY};

/// An integer of the C interface, of either width.
pub trait Integer: Copy {
    /// Returns the value as the wider type.
    fn wide(self) -> i64;
}

/// The length of an array, as an argument gives it; 0 for a negative number.
pub trait ArrayLength: Copy {
    /// Returns the length.
    fn room(self) -> usize;
}

/// The memory from which integers are read.
#[derive(Clone, Copy, Debug)]
pub enum IntegerSource {
    /// Integers of type `int`.
    Int(*const c_int),
    /// Integers of type `MPI_Count` or `MPI_Aint`.
    Large(*const i64),
}

/// The memory to which one or several integers are written.
#[derive(Clone, Copy, Debug)]
pub enum IntegerPlace {
    /// Integers of type `int`.
    Int(*mut c_int),
    /// Integers of type `MPI_Count` or `MPI_Aint`.
    Large(*mut i64),
}

/// A list of integers of the program.
///
/// Unless its address [is no memory](is_no_memory), `length` integers lie there, and do not change
/// during `'a`. The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct Integers<'a> {
    position: usize,
    source: IntegerSource,
    length: usize,
    lent: PhantomData<&'a [i64]>,
}

/// A list of integers of the program whose length only the call determines. It has the length that
/// the standard requires, unless its address is no memory.
#[derive(Clone, Copy, Debug)]
pub struct OpenIntegers<'a> {
    position: usize,
    source: IntegerSource,
    lent: PhantomData<&'a [i64]>,
}

/// Memory for integers that the call returns to the program.
///
/// Unless the address [is no memory](is_no_memory), `room` integers may be read and written there
/// during `'a`. The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct OutIntegers<'a> {
    position: usize,
    place: IntegerPlace,
    room: usize,
    lent: PhantomData<&'a mut [i64]>,
}

/// Memory for one integer that the call returns to the program.
///
/// It may be read and written during `'a`. The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct OutInteger<'a> {
    place: IntegerPlace,
    lent: PhantomData<&'a mut i64>,
}

macro_rules! integers {
    ($($type:ty, $width:ident;)*) => {$(
        impl Integer for $type {
            #[inline(always)]
            fn wide(self) -> i64 {
                self as i64
            }
        }

        impl ArrayLength for $type {
            fn room(self) -> usize {
                usize::try_from(self).unwrap_or(0)
            }
        }

        impl From<*const $type> for IntegerSource {
            #[inline(always)]
            fn from(first: *const $type) -> Self {
                IntegerSource::$width(first.cast())
            }
        }

        impl From<*mut $type> for IntegerPlace {
            #[inline(always)]
            fn from(first: *mut $type) -> Self {
                IntegerPlace::$width(first.cast())
            }
        }
    )*};
}

integers! {
    c_int, Int;
    i64, Large;
    isize, Large;
}

impl ArrayLength for usize {
    #[inline(always)]
    fn room(self) -> usize {
        self
    }
}

/// Whether an address does not stand for memory: null, or one of the constants of the standard
/// (`MPI_UNWEIGHTED`, `MPI_WEIGHTS_EMPTY`).
fn is_no_memory(address: usize) -> bool {
    address <= MPI_WEIGHTS_EMPTY
}

impl Call {
    /// Returns an integer that is wider in another variant of the function.
    #[inline(always)]
    pub fn integer(&self, _position: usize, value: impl Integer) -> CallOutcome<i64> {
        Ok(value.wide())
    }

    /// Returns a list of integers.
    ///
    /// # Safety
    /// As for [`Integers`].
    pub unsafe fn integers(
        &self,
        position: usize,
        source: impl Into<IntegerSource>,
        length: impl ArrayLength,
    ) -> CallOutcome<Integers<'_>> {
        Ok(Integers { position, source: source.into(), length: length.room(), lent: PhantomData })
    }

    /// Returns a list of integers whose length the call determines.
    ///
    /// # Safety
    /// As for [`OpenIntegers`].
    pub unsafe fn open_integers(
        &self,
        position: usize,
        source: impl Into<IntegerSource>,
    ) -> CallOutcome<OpenIntegers<'_>> {
        Ok(OpenIntegers { position, source: source.into(), lent: PhantomData })
    }

    /// Returns memory for integers.
    ///
    /// # Safety
    /// As for [`OutIntegers`].
    pub unsafe fn out_integers(
        &self,
        position: usize,
        place: impl Into<IntegerPlace>,
        room: impl ArrayLength,
    ) -> CallOutcome<OutIntegers<'_>> {
        Ok(OutIntegers { position, place: place.into(), room: room.room(), lent: PhantomData })
    }

    /// Returns memory for one integer.
    ///
    /// # Safety
    /// Unless null, as for [`OutInteger`].
    #[inline]
    pub unsafe fn out_integer(
        &self,
        position: usize,
        place: impl Into<IntegerPlace>,
    ) -> CallOutcome<OutInteger<'_>> {
        let place = place.into();
        if place.address() == 0 {
            Err(null(position))
        } else {
            Ok(OutInteger { place, lent: PhantomData })
        }
    }
}

impl IntegerSource {
    fn address(&self) -> usize {
        match *self {
            IntegerSource::Int(first) => first as usize,
            IntegerSource::Large(first) => first as usize,
        }
    }
}

impl IntegerPlace {
    #[inline]
    fn address(&self) -> usize {
        match *self {
            IntegerPlace::Int(first) => first as usize,
            IntegerPlace::Large(first) => first as usize,
        }
    }
}

impl<'a> Integers<'a> {
    /// Returns the position among the arguments.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of integers.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the pointer as a number, for arguments for which some numbers have a special
    /// meaning.
    pub fn address(&self) -> usize {
        self.source.address()
    }

    /// Returns the integers.
    ///
    /// # Errors
    /// `Arg` for an address that is no memory.
    pub fn read(&self) -> CallOutcome<Vec<i64>> {
        Ok(self.one_by_one()?.collect())
    }

    /// Returns an iterator over the integers.
    ///
    /// # Errors
    /// As for [`Integers::read`].
    pub fn one_by_one(&self) -> CallOutcome<IntegersOneByOne<'a>> {
        if self.length > 0 && is_no_memory(self.address()) {
            return Err(null(self.position));
        }
        Ok(match self.source {
            _ if self.length == 0 => IntegersOneByOne::Int([].iter()),
            IntegerSource::Int(first) => {
                // SAFETY: the address is memory, so `length` integers lie there.
                let ints: &'a [c_int] = unsafe { std::slice::from_raw_parts(first, self.length) };
                IntegersOneByOne::Int(ints.iter())
            }
            IntegerSource::Large(first) => {
                // SAFETY: the address is memory, so `length` integers lie there.
                let large: &'a [i64] = unsafe { std::slice::from_raw_parts(first, self.length) };
                IntegersOneByOne::Large(large.iter())
            }
        })
    }

    /// Returns the integers without copying if possible, for arguments that have no larger form.
    ///
    /// # Errors
    /// As for [`Integers::read`].
    pub fn ints(&self) -> CallOutcome<Cow<'a, [c_int]>> {
        match self.source {
            IntegerSource::Int(first) if self.length > 0 && !is_no_memory(first as usize) => {
                // SAFETY: the address is memory, so `length` integers lie there.
                Ok(Cow::Borrowed(unsafe { std::slice::from_raw_parts(first, self.length) }))
            }
            _ => self.read_ints().map(Cow::Owned),
        }
    }

    /// Returns the integers as `int`, for arguments that have no larger form.
    ///
    /// # Errors
    /// As for [`Integers::read`].
    pub fn read_ints(&self) -> CallOutcome<Vec<c_int>> {
        Ok(self.one_by_one()?.map(|value| value as c_int).collect())
    }

    /// Returns the integers as counts.
    ///
    /// # Errors
    /// As for [`Integers::read`]; `Count` for a negative integer.
    pub fn read_counts(&self) -> CallOutcome<Vec<usize>> {
        // `collect` into a `Result` does not know the number of results, and would allocate twice.
        let mut counts = Vec::with_capacity(self.length);
        for (index, value) in self.one_by_one()?.enumerate() {
            counts.push(self.checked_count(index, value)?);
        }
        Ok(counts)
    }

    /// Checks the integer at `index` as a count.
    ///
    /// # Errors
    /// `Count` if it is negative.
    #[inline]
    pub fn checked_count(&self, index: usize, value: i64) -> CallOutcome<usize> {
        usize::try_from(value).map_err(|_| {
            let detail = format!("has {value} at index {index}, but must not be negative");
            Failure::argument(self.position, ErrorClass::Count, detail)
        })
    }
}

/// An iterator over a list of integers of the program.
#[derive(Debug)]
pub enum IntegersOneByOne<'a> {
    /// Integers of type `int`.
    Int(std::slice::Iter<'a, c_int>),
    /// Integers of type `MPI_Count` or `MPI_Aint`.
    Large(std::slice::Iter<'a, i64>),
}

impl Iterator for IntegersOneByOne<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        match self {
            IntegersOneByOne::Int(rest) => rest.next().copied().map(i64::from),
            IntegersOneByOne::Large(rest) => rest.next().copied(),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            IntegersOneByOne::Int(rest) => rest.size_hint(),
            IntegersOneByOne::Large(rest) => rest.size_hint(),
        }
    }
}

impl ExactSizeIterator for IntegersOneByOne<'_> {}

impl<'a> OpenIntegers<'a> {
    /// Returns the pointer as a number, for arguments for which some numbers have a special
    /// meaning.
    pub fn address(&self) -> usize {
        self.source.address()
    }

    /// Returns the first `length` integers.
    ///
    /// # Safety
    /// The standard requires of this call that the list has at least `length` integers.
    pub unsafe fn first(&self, length: usize) -> Integers<'a> {
        let OpenIntegers { position, source, lent } = *self;
        Integers { position, source, length, lent }
    }
}

impl OutIntegers<'_> {
    /// Returns the pointer as a number, for arguments for which some numbers have a special
    /// meaning.
    pub fn address(&self) -> usize {
        self.place.address()
    }

    /// Returns the integers that the program has stored there, as `int`.
    ///
    /// # Errors
    /// `Arg` for an address that is no memory.
    pub fn read_ints(&self) -> CallOutcome<Vec<c_int>> {
        let source = match self.place {
            IntegerPlace::Int(first) => IntegerSource::Int(first),
            IntegerPlace::Large(first) => IntegerSource::Large(first),
        };
        let (position, length) = (self.position, self.room);
        Integers { position, source, length, lent: PhantomData }.read_ints()
    }

    /// Writes all values.
    ///
    /// # Errors
    /// `Arg` for an address that is no memory, `ValueTooLarge` for a value that does not fit.
    ///
    /// # Panics
    /// If there are more values than room, which callers must check before.
    pub fn write(&self, values: impl ExactSizeIterator<Item = i64>) -> CallOutcome<()> {
        assert!(values.len() <= self.room, "{} integers for a room of {}", values.len(), self.room);
        values.enumerate().try_for_each(|(index, value)| self.write_at(index, value))
    }

    /// Writes one value.
    ///
    /// # Errors
    /// As for [`OutIntegers::write`].
    ///
    /// # Panics
    /// If there is no room for it, which callers must check before.
    #[inline]
    pub fn write_at(&self, index: usize, value: i64) -> CallOutcome<()> {
        assert!(index < self.room, "integer {index} for a room of {}", self.room);
        if is_no_memory(self.address()) {
            return Err(null(self.position));
        }
        // SAFETY: the type guarantees room for more than `index` integers.
        let place = unsafe {
            match self.place {
                IntegerPlace::Int(first) => IntegerPlace::Int(first.add(index)),
                IntegerPlace::Large(first) => IntegerPlace::Large(first.add(index)),
            }
        };
        OutInteger { place, lent: PhantomData }.set(value)
    }
}

impl OutInteger<'_> {
    /// Returns the current value.
    pub fn value(&self) -> i64 {
        // SAFETY: the type guarantees that the integer may be read.
        unsafe {
            match self.place {
                IntegerPlace::Int(place) => place.read().into(),
                IntegerPlace::Large(place) => place.read(),
            }
        }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// `ValueTooLarge` if it does not fit.
    pub fn set(&self, value: i64) -> CallOutcome<()> {
        if self.try_set(value) {
            return Ok(());
        }
        let detail = format!("the value {value} does not fit in an int; use the call with _c");
        Err(Failure::new(ErrorClass::ValueTooLarge, detail))
    }

    /// Writes a value, or `MPI_UNDEFINED` if there is none or it does not fit.
    #[inline]
    pub fn set_or_undefined(&self, value: Option<i64>) {
        if !value.is_some_and(|value| self.try_set(value)) {
            let set = self.try_set(MPI_UNDEFINED.into());
            debug_assert!(set, "MPI_UNDEFINED is an int");
        }
    }

    #[inline]
    fn try_set(&self, value: i64) -> bool {
        match self.place {
            IntegerPlace::Int(place) => match c_int::try_from(value) {
                // SAFETY: the type guarantees that the integer may be written.
                Ok(value) => unsafe { place.write(value) },
                Err(_) => return false,
            },
            // SAFETY: the type guarantees that the integer may be written.
            IntegerPlace::Large(place) => unsafe { place.write(value) },
        }
        true
    }
}
