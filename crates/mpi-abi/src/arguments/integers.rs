//! Integers of two widths: a function and its twin with large counts share an implementation.

use std::ffi::c_int;

use base::ErrorClass;

use super::null;
use crate::failure::{Failure, Outcome};
use crate::generated::constants::MPI_UNDEFINED;

/// Where an integer, or several, are read.
#[derive(Clone, Copy, Debug)]
pub enum IntegerSource {
    /// As `int`.
    Int(*const c_int),
    /// As `MPI_Count` or `MPI_Aint`.
    Large(*const i64),
}

/// Where an integer, or several, are written.
#[derive(Clone, Copy, Debug)]
pub enum IntegerPlace {
    /// As `int`.
    Int(*mut c_int),
    /// As `MPI_Count` or `MPI_Aint`.
    Large(*mut i64),
}

/// A list of integers of the program, whose length another argument tells.
#[derive(Clone, Copy, Debug)]
pub struct Integers {
    position: usize,
    source: IntegerSource,
}

/// A list of integers for the program.
#[derive(Clone, Copy, Debug)]
pub struct OutIntegers {
    position: usize,
    place: IntegerPlace,
}

/// One integer for the program; it may be read as well.
#[derive(Clone, Copy, Debug)]
pub struct OutInteger {
    place: IntegerPlace,
}

/// A list of handles of the program.
#[derive(Clone, Copy, Debug)]
pub struct HandleList<H> {
    /// The position among the arguments.
    pub position: usize,
    first: *const H,
}

/// A list of triplets (first, last, stride).
#[derive(Clone, Copy, Debug)]
pub struct Triplets {
    position: usize,
    first: *const [c_int; 3],
}

impl IntegerPlace {
    /// Whether there is no place.
    #[inline]
    pub fn is_null(&self) -> bool {
        match self {
            IntegerPlace::Int(place) => place.is_null(),
            IntegerPlace::Large(place) => place.is_null(),
        }
    }
}

impl Integers {
    /// From the argument at `position`.
    pub fn new(position: usize, source: IntegerSource) -> Self {
        Self { position, source }
    }

    /// The position among the arguments.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The pointer as a number, for arguments where some numbers have a meaning of their own.
    pub fn address(&self) -> usize {
        match self.source {
            IntegerSource::Int(first) => first as usize,
            IntegerSource::Large(first) => first as usize,
        }
    }

    /// The first `count` integers.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, the program's pointer leads to so many integers.
    pub unsafe fn read(&self, count: usize) -> Outcome<Vec<i64>> {
        // SAFETY: the caller vouches for the length.
        Ok(unsafe { self.one_by_one(count) }?.collect())
    }

    /// The first `count` integers, one after the other.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// As for [`Integers::read`], as long as the iterator is used.
    pub unsafe fn one_by_one<'a>(
        &self,
        count: usize,
    ) -> Outcome<impl Iterator<Item = i64> + use<'a>> {
        // SAFETY: the caller vouches for the length.
        let (ints, large): (&'a [c_int], &'a [i64]) = unsafe {
            match self.source {
                IntegerSource::Int(first) => (list(self.position, first, count)?, &[]),
                IntegerSource::Large(first) => (&[], list(self.position, first, count)?),
            }
        };
        Ok(ints.iter().map(|value| i64::from(*value)).chain(large.iter().copied()))
    }

    /// The first `count` integers as `int`: for arguments that have no larger form.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// As for [`Integers::read`].
    pub unsafe fn read_ints(&self, count: usize) -> Outcome<Vec<c_int>> {
        // SAFETY: the caller vouches for the length.
        let values = unsafe { self.read(count) }?;
        Ok(values.into_iter().map(|value| value as c_int).collect())
    }

    /// The first `count` integers, which count something.
    ///
    /// # Errors
    /// `Arg` for a null pointer, `Count` for a negative one.
    ///
    /// # Safety
    /// As for [`Integers::read`].
    pub unsafe fn read_counts(&self, count: usize) -> Outcome<Vec<usize>> {
        // SAFETY: the caller vouches for the length.
        let values = unsafe { self.one_by_one(count) }?;
        values.enumerate().map(|(index, value)| self.checked_count(index, value)).collect()
    }

    /// One of the integers, which counts something.
    ///
    /// # Errors
    /// `Count` if it is negative.
    #[inline]
    pub fn checked_count(&self, index: usize, value: i64) -> Outcome<usize> {
        usize::try_from(value).map_err(|_| {
            let detail = format!("has {value} at index {index}, but must not be negative");
            Failure::argument(self.position, ErrorClass::Count, detail)
        })
    }
}

impl OutIntegers {
    /// From the argument at `position`.
    pub fn new(position: usize, place: IntegerPlace) -> Self {
        Self { position, place }
    }

    /// The pointer as a number, for arguments where some numbers have a meaning of their own.
    pub fn address(&self) -> usize {
        match self.place {
            IntegerPlace::Int(first) => first as usize,
            IntegerPlace::Large(first) => first as usize,
        }
    }

    /// The first `count` integers as `int`, where the program has put some before.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, the program's pointer leads to so many integers.
    pub unsafe fn read_ints(&self, count: usize) -> Outcome<Vec<c_int>> {
        let source = match self.place {
            IntegerPlace::Int(first) => IntegerSource::Int(first),
            IntegerPlace::Large(first) => IntegerSource::Large(first),
        };
        // SAFETY: the caller vouches for the length.
        unsafe { Integers::new(self.position, source).read_ints(count) }
    }

    /// Writes all values.
    ///
    /// # Errors
    /// `Arg` for a null pointer, `ValueTooLarge` for a value that does not fit.
    ///
    /// # Safety
    /// Unless null, the program's pointer leads to so many integers.
    pub unsafe fn write(&self, values: impl ExactSizeIterator<Item = i64>) -> Outcome<()> {
        if self.place.is_null() && values.len() > 0 {
            return Err(null(self.position));
        }
        for (index, value) in values.enumerate() {
            // SAFETY: the caller vouches for the length.
            let place = unsafe {
                match self.place {
                    IntegerPlace::Int(first) => IntegerPlace::Int(first.add(index)),
                    IntegerPlace::Large(first) => IntegerPlace::Large(first.add(index)),
                }
            };
            OutInteger { place }.set(value)?;
        }
        Ok(())
    }
}

impl OutInteger {
    /// A place.
    ///
    /// # Safety
    /// It may be read and written during the call.
    #[inline]
    pub unsafe fn new(place: IntegerPlace) -> Self {
        Self { place }
    }

    /// What is there.
    pub fn value(&self) -> i64 {
        // SAFETY: whoever made this vouched for the place.
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
    pub fn set(&self, value: i64) -> Outcome<()> {
        if self.try_set(value) {
            return Ok(());
        }
        let detail = format!("the value {value} does not fit in an int; use the call with _c");
        Err(Failure::new(ErrorClass::ValueTooLarge, detail))
    }

    /// Writes a value, or `MPI_UNDEFINED` if there is none or it does not fit.
    pub fn set_or_undefined(&self, value: Option<i64>) {
        if !value.is_some_and(|value| self.try_set(value)) {
            let set = self.try_set(MPI_UNDEFINED.into());
            debug_assert!(set, "MPI_UNDEFINED is an int");
        }
    }

    fn try_set(&self, value: i64) -> bool {
        // SAFETY: whoever made this vouched for the place.
        unsafe {
            match self.place {
                IntegerPlace::Int(place) => match c_int::try_from(value) {
                    Ok(value) => place.write(value),
                    Err(_) => return false,
                },
                IntegerPlace::Large(place) => place.write(value),
            }
        }
        true
    }
}

impl<H: Copy> HandleList<H> {
    /// From the argument at `position`.
    pub fn new(position: usize, first: *const H) -> Self {
        Self { position, first }
    }

    /// The first `count` handles.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, the program's pointer leads to so many handles.
    pub unsafe fn read(&self, count: usize) -> Outcome<Vec<H>> {
        // SAFETY: the caller vouches for the length.
        unsafe { read(self.position, self.first, count) }
    }
}

impl Triplets {
    /// From the argument at `position`.
    pub fn new(position: usize, first: *const [c_int; 3]) -> Self {
        Self { position, first }
    }

    /// The first `count` triplets.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, the program's pointer leads to so many triplets.
    pub unsafe fn read(&self, count: usize) -> Outcome<Vec<[c_int; 3]>> {
        // SAFETY: the caller vouches for the length.
        unsafe { read(self.position, self.first, count) }
    }
}

unsafe fn read<T: Copy>(position: usize, first: *const T, count: usize) -> Outcome<Vec<T>> {
    // SAFETY: passed on to the caller.
    Ok(unsafe { list(position, first, count) }?.to_vec())
}

unsafe fn list<'a, T>(position: usize, first: *const T, count: usize) -> Outcome<&'a [T]> {
    match (count, first.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(null(position)),
        // SAFETY: the caller vouches for the length.
        (_, false) => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}
