//! Memory in which calls store their results.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::{ArrayLength, null};
use crate::c::{Passed, Status};
use crate::call::Call;
use crate::failure::CallOutcome;
use crate::generated::constants::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, MPI_SUCCESS,
};

/// Memory for one value, which may also be read.
///
/// It may be read and written during `'a`. The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct Out<'a, T> {
    place: *mut T,
    lent: PhantomData<&'a mut T>,
}

/// Memory for a string.
///
/// `size` bytes may be written there during `'a`. The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct OutText<'a> {
    place: *mut c_char,
    size: usize,
    lent: PhantomData<&'a mut [u8]>,
}

/// Memory for a string and for its length. The length contains the room before the call, and the
/// length with the zero byte after it.
#[derive(Clone, Copy, Debug)]
pub struct OutSizedText<'a> {
    /// The position of the text among the arguments.
    position: usize,
    length: Out<'a, c_int>,
    /// May be null if the length is 0; otherwise as for [`OutText`], with as many bytes as the
    /// length.
    place: *mut c_char,
}

/// Memory for statuses, or none (`MPI_STATUSES_IGNORE`).
///
/// Unless null, `room` statuses lie there, which may be read and written during `'a`. The creator
/// of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct OutStatuses<'a> {
    first: *mut Status,
    room: usize,
    lent: PhantomData<&'a mut [Status]>,
}

/// Memory for a status, or none (`MPI_STATUS_IGNORE`).
///
/// Unless null, a status lies there, which may be read and written during `'a`. The creator of a
/// value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct OutStatus<'a> {
    place: *mut Status,
    lent: PhantomData<&'a mut Status>,
}

/// Memory for several values.
///
/// Unless null, `room` values may be written there during `'a`. The creator of a value guarantees
/// this.
#[derive(Clone, Copy, Debug)]
pub struct OutList<'a, T> {
    position: usize,
    first: *mut T,
    room: usize,
    lent: PhantomData<&'a mut [T]>,
}

impl Call {
    /// Returns the memory for a result.
    ///
    /// # Safety
    /// Unless null, as for [`Out`].
    #[inline]
    pub unsafe fn out<T: Passed>(&self, position: usize, place: *mut T) -> CallOutcome<Out<'_, T>> {
        // SAFETY: `place` is not null, so the caller fulfils the safety requirements.
        if place.is_null() { Err(null(position)) } else { Ok(unsafe { Out::new(place) }) }
    }

    /// Returns the memory for a result; `None` for a null pointer, if the program does not need the
    /// result.
    ///
    /// # Safety
    /// Unless null, as for [`Out`].
    pub unsafe fn optional_out<T: Passed>(
        &self,
        _position: usize,
        place: *mut T,
    ) -> CallOutcome<Option<Out<'_, T>>> {
        // SAFETY: `place` is not null, so the caller fulfils the safety requirements.
        Ok((!place.is_null()).then(|| unsafe { Out::new(place) }))
    }

    /// Returns the memory for a pointer, whose address C declares as `void *`.
    ///
    /// # Safety
    /// Unless null, as for [`Out`].
    pub unsafe fn out_pointer(
        &self,
        position: usize,
        place: *mut c_void,
    ) -> CallOutcome<Out<'_, usize>> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.out(position, place.cast()) }
    }

    /// Returns the memory for a string.
    ///
    /// # Safety
    /// Unless null, as for [`OutText`].
    pub unsafe fn out_text(
        &self,
        position: usize,
        place: *mut c_char,
        size: usize,
    ) -> CallOutcome<OutText<'_>> {
        if place.is_null() {
            Err(null(position))
        } else {
            Ok(OutText { place, size, lent: PhantomData })
        }
    }

    /// Returns the memory for the length of a string and, if there is room, for the string.
    ///
    /// # Safety
    /// Unless null, as for [`OutSizedText`].
    pub unsafe fn out_sized_text(
        &self,
        position: usize,
        length: *mut c_int,
        place: *mut c_char,
    ) -> CallOutcome<OutSizedText<'_>> {
        // SAFETY: the caller fulfils the safety requirements.
        let length = unsafe { self.out(position, length) }?;
        Ok(OutSizedText { position: position + 1, length, place })
    }

    /// Returns the memory for a status.
    ///
    /// # Safety
    /// As for [`OutStatus`].
    #[inline]
    pub unsafe fn out_status(
        &self,
        _position: usize,
        place: *mut Status,
    ) -> CallOutcome<OutStatus<'_>> {
        let place = if place as usize == MPI_STATUS_IGNORE { ptr::null_mut() } else { place };
        Ok(OutStatus { place, lent: PhantomData })
    }

    /// Returns the memory for statuses.
    ///
    /// # Safety
    /// As for [`OutStatuses`].
    #[inline]
    pub unsafe fn out_statuses(
        &self,
        _position: usize,
        first: *mut Status,
        room: usize,
    ) -> CallOutcome<OutStatuses<'_>> {
        let first = if first as usize == MPI_STATUSES_IGNORE { ptr::null_mut() } else { first };
        Ok(OutStatuses { first, room, lent: PhantomData })
    }

    /// Returns the memory for a status that is stored when the operation is complete, which may be
    /// after the call.
    ///
    /// # Safety
    /// As for [`OutStatus`], until the operation is complete.
    pub unsafe fn kept_status(
        &self,
        position: usize,
        place: *mut Status,
    ) -> CallOutcome<OutStatus<'static>> {
        // SAFETY: the caller fulfils the safety requirements.
        let OutStatus { place, .. } = unsafe { self.out_status(position, place) }?;
        Ok(OutStatus { place, lent: PhantomData })
    }

    /// Returns the memory for statuses that are stored after the call, when all operations are
    /// complete.
    ///
    /// # Safety
    /// As for [`OutStatuses`], until the operations are complete.
    pub unsafe fn kept_statuses(
        &self,
        position: usize,
        first: *mut Status,
        room: usize,
    ) -> CallOutcome<OutStatuses<'static>> {
        // SAFETY: the caller fulfils the safety requirements.
        let OutStatuses { first, room, .. } = unsafe { self.out_statuses(position, first, room) }?;
        Ok(OutStatuses { first, room, lent: PhantomData })
    }

    /// Returns the memory for several values.
    ///
    /// # Safety
    /// As for [`OutList`].
    pub unsafe fn out_list<T>(
        &self,
        position: usize,
        first: *mut T,
        room: impl ArrayLength,
    ) -> CallOutcome<OutList<'_, T>> {
        Ok(OutList { position, first, room: room.room(), lent: PhantomData })
    }

    /// Returns the memory for bytes.
    ///
    /// # Safety
    /// As for [`OutList`].
    pub unsafe fn out_bytes(
        &self,
        position: usize,
        first: *mut c_void,
        room: impl ArrayLength,
    ) -> CallOutcome<OutList<'_, u8>> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.out_list(position, first.cast(), room) }
    }
}

/// Returns the size in bytes of a string with this number of characters, including the zero byte.
pub fn with_zero(letters: c_int) -> usize {
    letters.room() + 1
}

impl<T: Passed> Out<'_, T> {
    /// Creates the memory for a value.
    ///
    /// # Safety
    /// As for the type; `place` is not null.
    #[inline]
    pub(super) unsafe fn new(place: *mut T) -> Self {
        Self { place, lent: PhantomData }
    }

    /// Returns the current value.
    #[inline]
    pub fn value(&self) -> T {
        // SAFETY: the type guarantees that the value may be read.
        unsafe { self.place.read() }.received()
    }

    /// Writes a value.
    #[inline]
    pub fn set(&self, value: T) {
        // SAFETY: the type guarantees that the value may be written.
        unsafe { self.place.write(value.handed()) }
    }
}

impl Out<'_, c_int> {
    /// Writes 1 for true and 0 for false.
    #[inline]
    pub fn set_flag(&self, value: bool) {
        self.set(value.into());
    }
}

impl OutText<'_> {
    /// Creates the memory for a string of `size` bytes.
    ///
    /// # Safety
    /// As for the type; `place` is not null.
    pub(super) unsafe fn new(place: *mut c_char, size: usize) -> Self {
        Self { place, size, lent: PhantomData }
    }

    /// Returns the number of bytes for the string and its zero byte.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Writes as much of a text as fits, followed by a zero byte. Returns how many bytes were
    /// written before the zero byte.
    pub fn write(&self, text: &[u8]) -> usize {
        let Some(room) = self.size.checked_sub(1) else { return 0 };
        let length = text.len().min(room);
        // SAFETY: `length` bytes and the zero byte fit in `size`, which may be written.
        unsafe {
            self.place.copy_from_nonoverlapping(text.as_ptr().cast(), length);
            self.place.add(length).write(0);
        }
        length
    }
}

impl OutSizedText<'_> {
    /// Returns the room that the program has specified.
    pub fn room(&self) -> c_int {
        self.length.value()
    }

    /// Writes the length, and as much of the text as fits.
    ///
    /// # Errors
    /// `Arg` for a null pointer if the room is not 0.
    pub fn write(&self, text: &[u8]) -> CallOutcome<()> {
        let size = self.room().room();
        if size > 0 {
            if self.place.is_null() {
                return Err(null(self.position));
            }
            // SAFETY: the type guarantees `size` bytes.
            unsafe { OutText::new(self.place, size) }.write(text);
        }
        self.length.set(text.len() as c_int + 1);
        Ok(())
    }
}

impl OutStatus<'_> {
    /// No memory: the status is not needed.
    pub const IGNORED: OutStatus<'static> = OutStatus { place: ptr::null_mut(), lent: PhantomData };

    /// Writes a status, unless it is ignored; the error field does not change.
    #[inline]
    pub fn set(&self, status: Status) {
        if let Some(place) = NonNull::new(self.place) {
            // SAFETY: the pointer is not null, so it may be read and written.
            unsafe {
                let error = (*place.as_ptr()).error;
                place.write(Status { error, ..status });
            }
        }
    }

    /// Writes the empty status (section 3.7.3), unless it is ignored.
    pub fn set_empty(&self) {
        if let Some(place) = NonNull::new(self.place) {
            let empty = Status::new(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0);
            // SAFETY: the pointer is not null, so it may be written.
            unsafe { place.write(empty) };
        }
    }

    /// Whether the program ignores the status.
    #[inline]
    pub fn is_ignored(&self) -> bool {
        self.place.is_null()
    }
}

impl<'a> OutStatuses<'a> {
    /// Whether the program ignores the statuses.
    #[inline]
    pub fn are_ignored(&self) -> bool {
        self.first.is_null()
    }

    /// Returns the memory for the status of one request, which is ignored if there is none.
    #[inline]
    pub fn at(&self, index: usize) -> OutStatus<'a> {
        let place = match self.first.is_null() || index >= self.room {
            true => std::ptr::null_mut(),
            // SAFETY: more than `index` statuses lie there.
            false => unsafe { self.first.add(index) },
        };
        OutStatus { place, lent: PhantomData }
    }

    /// Writes the error field of one status.
    #[inline]
    pub fn set_error(&self, index: usize, error: c_int) {
        if let Some(place) = NonNull::new(self.at(index).place) {
            // SAFETY: the pointer is not null, so it may be written.
            unsafe { (*place.as_ptr()).error = error };
        }
    }
}

impl<T: Passed> OutList<'_, T> {
    /// Writes all values.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Panics
    /// If there are more values than room, which callers must check before.
    pub fn write(&self, values: impl ExactSizeIterator<Item = T>) -> CallOutcome<()> {
        assert!(values.len() <= self.room, "{} values for a room of {}", values.len(), self.room);
        if self.first.is_null() && values.len() > 0 {
            return Err(null(self.position));
        }
        for (index, value) in values.take(self.room).enumerate() {
            // SAFETY: the type guarantees room for more than `index` values.
            unsafe { self.first.add(index).write(value.handed()) };
        }
        Ok(())
    }
}
