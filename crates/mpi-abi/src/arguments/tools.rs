//! Arguments of the tools interface, which has its own conventions (section 15.3.3 of the
//! standard): whoever does not want a result passes a null pointer.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use super::{ArrayLength, Callback, Out, OutText};
use crate::c::Passed;
use crate::calls::tools::Tools;
use crate::generated::constants::MPI_T_ERR_INVALID;

/// A place for a string, and for its length: the room on the way in, the length with the zero byte
/// on the way out.
///
/// Unless null, both may be written during `'a`, the first for as many bytes as the second says:
/// whoever makes one vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct ToolText<'a> {
    place: *mut c_char,
    length: Option<Out<'a, c_int>>,
}

/// A place for a result that may not be wanted.
#[derive(Clone, Copy, Debug)]
pub struct MaybeOut<'a, T>(Option<Out<'a, T>>);

/// Places for results, of which another argument says how many.
///
/// Unless null, `T`s may be written during `'a`, as many as `room` says at the time of writing:
/// whoever makes one vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct MaybeArray<'a, T> {
    first: *mut T,
    room: ArrayRoom<'a>,
    lent: PhantomData<&'a mut [T]>,
}

/// How much room there is for a list of results.
#[derive(Clone, Copy, Debug)]
pub enum ArrayRoom<'a> {
    /// As much as an argument says.
    Given(c_int),
    /// As much as stands where the number of results will be left, if that is wanted.
    At(MaybeOut<'a, c_int>),
}

impl Tools {
    /// A place for a string: it, and its length.
    ///
    /// # Safety
    /// As [`ToolText`] says.
    pub unsafe fn text(
        &self,
        place: *mut c_char,
        length: *mut c_int,
    ) -> Result<ToolText<'_>, c_int> {
        // SAFETY: passed on.
        let MaybeOut(length) = unsafe { self.maybe_out(length) }?;
        Ok(ToolText { place, length })
    }

    /// A result that may not be wanted.
    ///
    /// # Safety
    /// Unless null, as [`Out`] says.
    pub unsafe fn maybe_out<T: Passed>(&self, place: *mut T) -> Result<MaybeOut<'_, T>, c_int> {
        // SAFETY: not null, so as the caller says.
        Ok(MaybeOut((!place.is_null()).then(|| unsafe { Out::new(place) })))
    }

    /// The value of a variable, which C declares as a pointer to anything.
    ///
    /// # Safety
    /// Unless null, as [`Out`] says.
    pub unsafe fn contents<T: Passed>(
        &self,
        place: *const c_void,
    ) -> Result<MaybeOut<'_, T>, c_int> {
        // SAFETY: passed on.
        unsafe { self.maybe_out(place.cast_mut().cast()) }
    }

    /// Places for results.
    ///
    /// # Safety
    /// As [`MaybeArray`] says.
    pub unsafe fn maybe_array<'a, T>(
        &'a self,
        first: *mut T,
        room: impl Into<ArrayRoom<'a>>,
    ) -> Result<MaybeArray<'a, T>, c_int> {
        Ok(MaybeArray { first, room: room.into(), lent: PhantomData })
    }

    /// The places for the elements of an event, which C declares as a pointer to anything.
    ///
    /// # Safety
    /// As [`MaybeArray`] says.
    pub unsafe fn elements(
        &self,
        first: *mut c_void,
        count: c_int,
    ) -> Result<MaybeArray<'_, i64>, c_int> {
        // SAFETY: passed on.
        unsafe { self.maybe_array(first.cast(), count) }
    }

    /// A function of the program.
    ///
    /// # Safety
    /// As [`Callback`] says.
    pub unsafe fn callback<F: Copy>(&self, function: *const c_void) -> Result<Callback<F>, c_int> {
        // SAFETY: passed on.
        Ok(unsafe { Callback::new(function) })
    }

    /// A result that must have a place.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID` for a null pointer.
    ///
    /// # Safety
    /// Unless null, as [`Out`] says.
    pub unsafe fn out<T: Passed>(&self, place: *mut T) -> Result<Out<'_, T>, c_int> {
        // SAFETY: passed on.
        unsafe { self.maybe_out(place) }?.0.ok_or(MPI_T_ERR_INVALID)
    }

    /// A name to look for.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID` for a null pointer.
    ///
    /// # Safety
    /// Unless null, it points to a string that ends with a zero byte and stays as it is during the
    /// call.
    pub unsafe fn name(&self, name: *const c_char) -> Result<&[u8], c_int> {
        if name.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        // SAFETY: not null, so as the caller says.
        Ok(unsafe { CStr::from_ptr(name) }.to_bytes())
    }
}

impl From<c_int> for ArrayRoom<'_> {
    fn from(room: c_int) -> Self {
        ArrayRoom::Given(room)
    }
}

impl<'a> From<&MaybeOut<'a, c_int>> for ArrayRoom<'a> {
    fn from(room: &MaybeOut<'a, c_int>) -> Self {
        ArrayRoom::At(*room)
    }
}

impl ToolText<'_> {
    /// Writes as much of the text as there is room for.
    pub fn set(&self, text: &str) {
        let Some(length) = self.length else { return };
        if !self.place.is_null() {
            // SAFETY: not null, and so many bytes may be written, as the type says.
            unsafe { OutText::new(self.place, length.value().room()) }.write(text.as_bytes());
        }
        length.set(text.len() as c_int + 1);
    }
}

impl<T: Passed> MaybeOut<'_, T> {
    /// What is there.
    pub fn value(&self) -> Option<T> {
        self.0.map(|place| place.value())
    }

    /// Writes a value, if it is wanted.
    pub fn set(&self, value: T) {
        if let Some(place) = self.0 {
            place.set(value);
        }
    }

    /// Whether there is no place.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

impl<T> MaybeArray<'_, T> {
    /// How many results have room.
    fn room(&self) -> usize {
        match self.room {
            ArrayRoom::Given(room) => room.room(),
            ArrayRoom::At(place) => place.value().map_or(0, ArrayLength::room),
        }
    }

    /// Writes the first values, as many as there is room for.
    pub fn write(&self, values: impl Iterator<Item = T>) {
        if self.first.is_null() {
            return;
        }
        for (index, value) in values.take(self.room()).enumerate() {
            // SAFETY: more than `index` values may be written, as the type says.
            unsafe { self.first.add(index).write(value) };
        }
    }

    /// Whether there is no place.
    pub fn is_null(&self) -> bool {
        self.first.is_null()
    }
}
