//! Arguments of the tools interface, which has its own conventions (section 15.3.3 of the
//! standard): a program that does not need a result passes a null pointer.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use super::{ArrayLength, Callback, Out, OutText};
use crate::c::Passed;
use crate::calls::tools::Tools;
use crate::generated::constants::MPI_T_ERR_INVALID;

/// Memory for a string and for its length. The length contains the room before the call, and the
/// length with the zero byte after it.
///
/// Unless null, both may be written during `'a`, the string for as many bytes as the length
/// contains. The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct ToolText<'a> {
    place: *mut c_char,
    length: Option<Out<'a, c_int>>,
}

/// Memory for a result that the program may not need.
#[derive(Clone, Copy, Debug)]
pub struct MaybeOut<'a, T>(Option<Out<'a, T>>);

/// Memory for several results, whose number another argument gives.
///
/// Unless null, `T`s may be written during `'a`, as many as `room` yields at the time of writing.
/// The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct MaybeArray<'a, T> {
    first: *mut T,
    room: ArrayRoom<'a>,
    lent: PhantomData<&'a mut [T]>,
}

/// The room for a list of results.
#[derive(Clone, Copy, Debug)]
pub enum ArrayRoom<'a> {
    /// The value of an argument.
    Given(c_int),
    /// The value in the memory where the number of results will be stored, if there is such memory.
    At(MaybeOut<'a, c_int>),
}

impl Tools {
    /// Returns the memory for a string and its length.
    ///
    /// # Safety
    /// As for [`ToolText`].
    pub unsafe fn text(
        &self,
        place: *mut c_char,
        length: *mut c_int,
    ) -> Result<ToolText<'_>, c_int> {
        // SAFETY: the caller fulfils the safety requirements.
        let MaybeOut(length) = unsafe { self.maybe_out(length) }?;
        Ok(ToolText { place, length })
    }

    /// Returns the memory for a result that the program may not need.
    ///
    /// # Safety
    /// Unless null, as for [`Out`].
    pub unsafe fn maybe_out<T: Passed>(&self, place: *mut T) -> Result<MaybeOut<'_, T>, c_int> {
        // SAFETY: `place` is not null, so the caller fulfils the safety requirements.
        Ok(MaybeOut((!place.is_null()).then(|| unsafe { Out::new(place) })))
    }

    /// Returns the memory for the value of a variable, whose address C declares as `void *`.
    ///
    /// # Safety
    /// Unless null, as for [`Out`].
    pub unsafe fn contents<T: Passed>(
        &self,
        place: *const c_void,
    ) -> Result<MaybeOut<'_, T>, c_int> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.maybe_out(place.cast_mut().cast()) }
    }

    /// Returns the memory for several results.
    ///
    /// # Safety
    /// As for [`MaybeArray`].
    pub unsafe fn maybe_array<'a, T>(
        &'a self,
        first: *mut T,
        room: impl Into<ArrayRoom<'a>>,
    ) -> Result<MaybeArray<'a, T>, c_int> {
        Ok(MaybeArray { first, room: room.into(), lent: PhantomData })
    }

    /// Returns the memory for the elements of an event, whose address C declares as `void *`.
    ///
    /// # Safety
    /// As for [`MaybeArray`].
    pub unsafe fn elements(
        &self,
        first: *mut c_void,
        count: c_int,
    ) -> Result<MaybeArray<'_, i64>, c_int> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.maybe_array(first.cast(), count) }
    }

    /// Returns a function of the program.
    ///
    /// # Safety
    /// As for [`Callback`].
    pub unsafe fn callback<F: Copy>(&self, function: *const c_void) -> Result<Callback<F>, c_int> {
        // SAFETY: the caller fulfils the safety requirements.
        Ok(unsafe { Callback::new(function) })
    }

    /// Returns the memory for a result that the program must take.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID` for a null pointer.
    ///
    /// # Safety
    /// Unless null, as for [`Out`].
    pub unsafe fn out<T: Passed>(&self, place: *mut T) -> Result<Out<'_, T>, c_int> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.maybe_out(place) }?.0.ok_or(MPI_T_ERR_INVALID)
    }

    /// Returns a name to look up.
    ///
    /// # Errors
    /// `MPI_T_ERR_INVALID` for a null pointer.
    ///
    /// # Safety
    /// Unless null, `name` points to a string that ends with a zero byte and does not change during
    /// the call.
    pub unsafe fn name(&self, name: *const c_char) -> Result<&[u8], c_int> {
        if name.is_null() {
            return Err(MPI_T_ERR_INVALID);
        }
        // SAFETY: `name` is not null, so the caller fulfils the safety requirements.
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
    /// Writes as much of the text as fits, and the length of all of it.
    pub fn set(&self, text: &str) {
        let Some(length) = self.length else { return };
        if !self.place.is_null() {
            // SAFETY: the pointer is not null, and the type guarantees as many bytes as the length
            // contains.
            unsafe { OutText::new(self.place, length.value().room()) }.write(text.as_bytes());
        }
        length.set(text.len() as c_int + 1);
    }
}

impl<T: Passed> MaybeOut<'_, T> {
    /// Returns the current value, if there is memory for it.
    pub fn value(&self) -> Option<T> {
        self.0.map(|place| place.value())
    }

    /// Writes a value, if there is memory for it.
    pub fn set(&self, value: T) {
        if let Some(place) = self.0 {
            place.set(value);
        }
    }

    /// Whether the program passed a null pointer.
    pub fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

impl<T> MaybeArray<'_, T> {
    /// Returns how many results fit.
    fn room(&self) -> usize {
        match self.room {
            ArrayRoom::Given(room) => room.room(),
            ArrayRoom::At(place) => place.value().map_or(0, ArrayLength::room),
        }
    }

    /// Writes the first values, as many as fit.
    pub fn write(&self, values: impl Iterator<Item = T>) {
        if self.first.is_null() {
            return;
        }
        for (index, value) in values.take(self.room()).enumerate() {
            // SAFETY: the type guarantees room for more than `index` values.
            unsafe { self.first.add(index).write(value) };
        }
    }

    /// Whether the program passed a null pointer.
    pub fn is_null(&self) -> bool {
        self.first.is_null()
    }
}
