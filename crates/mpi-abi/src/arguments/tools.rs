//! Arguments of the tools interface, which has its own conventions (section 15.3.3 of the
//! standard): whoever does not want a result passes a null pointer.

use std::ffi::{CStr, c_char, c_int};

use super::{Out, OutText};
use crate::generated::constants::MPI_T_ERR_INVALID;

/// A place for a string, and for its length: the room on the way in, the length with the zero byte
/// on the way out.
#[derive(Clone, Copy, Debug)]
pub struct ToolText {
    place: *mut c_char,
    length: *mut c_int,
}

/// A place for a result that may not be wanted.
#[derive(Clone, Copy, Debug)]
pub struct MaybeOut<T>(Option<Out<T>>);

/// Places for results, whose number another argument tells.
#[derive(Clone, Copy, Debug)]
pub struct MaybeArray<T>(*mut T);

impl ToolText {
    /// The two arguments.
    ///
    /// # Safety
    /// Unless null, they may be written during the call, the first for as many bytes as the second
    /// says.
    pub unsafe fn new(place: *mut c_char, length: *mut c_int) -> Self {
        Self { place, length }
    }

    /// Writes as much of the text as there is room for.
    pub fn set(&self, text: &str) {
        if self.length.is_null() {
            return;
        }
        // SAFETY: whoever made this vouched for the places.
        unsafe {
            let room = usize::try_from(*self.length).unwrap_or(0);
            if !self.place.is_null() {
                OutText::new(self.place).write(text.as_bytes(), room);
            }
            *self.length = text.len() as c_int + 1;
        }
    }
}

impl<T: Copy> MaybeOut<T> {
    /// The argument.
    ///
    /// # Safety
    /// Unless null, it may be read and written during the call.
    pub unsafe fn new(place: *mut T) -> Self {
        // SAFETY: the caller vouches for it.
        Self((!place.is_null()).then(|| unsafe { Out::new(place) }))
    }

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
}

impl<T> MaybeArray<T> {
    /// The argument.
    ///
    /// # Safety
    /// Unless null, it may be written during the call, for as many values as another argument says.
    pub unsafe fn new(first: *mut T) -> Self {
        Self(first)
    }

    /// Writes the first values, at most `room`, which the program told.
    pub fn write(&self, room: c_int, values: impl Iterator<Item = T>) {
        if self.0.is_null() {
            return;
        }
        for (index, value) in values.take(usize::try_from(room).unwrap_or(0)).enumerate() {
            // SAFETY: whoever made this vouched for the room.
            unsafe { self.0.add(index).write(value) };
        }
    }

    /// Whether there is no place.
    pub fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// A result that must have a place.
///
/// # Errors
/// `MPI_T_ERR_INVALID` for a null pointer.
///
/// # Safety
/// Unless null, it may be read and written during the call.
pub unsafe fn tool_out<T: Copy>(place: *mut T) -> Result<Out<T>, c_int> {
    // SAFETY: the caller vouches for it.
    if place.is_null() { Err(MPI_T_ERR_INVALID) } else { Ok(unsafe { Out::new(place) }) }
}

/// A name to look for.
///
/// # Errors
/// `MPI_T_ERR_INVALID` for a null pointer.
///
/// # Safety
/// Unless null, it points to a string that ends with a zero byte and stays as it is during the call.
pub unsafe fn tool_name<'a>(name: *const c_char) -> Result<&'a [u8], c_int> {
    if name.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { CStr::from_ptr(name) }.to_bytes())
}
