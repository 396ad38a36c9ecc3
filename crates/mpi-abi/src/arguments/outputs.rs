//! Where calls leave their results.

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::{ArrayLength, null};
use crate::c::{Passed, Status};
use crate::entry::Call;
use crate::failure::CallOutcome;
use crate::generated::constants::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, MPI_SUCCESS,
};

/// A place for one value; it may be read as well.
///
/// It may be read and written during `'a`: whoever makes one vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct Out<'a, T> {
    place: *mut T,
    lent: PhantomData<&'a mut T>,
}

/// A place for a string.
///
/// `size` bytes may be written there during `'a`: whoever makes one vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct OutText<'a> {
    place: *mut c_char,
    size: usize,
    lent: PhantomData<&'a mut [u8]>,
}

/// A place for a string beside that for its length: the room on the way in, the length with the
/// zero byte on the way out.
#[derive(Clone, Copy, Debug)]
pub struct OutSizedText<'a> {
    /// The position of the text among the arguments.
    position: usize,
    length: Out<'a, c_int>,
    /// May be null without room; else as for [`OutText`], with so many bytes as the length says.
    place: *mut c_char,
}

/// Places for statuses, or none (`MPI_STATUSES_IGNORE`).
///
/// Unless null, `room` statuses lie there, which may be read and written during `'a`: whoever makes
/// one vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct OutStatuses<'a> {
    first: *mut Status,
    room: usize,
    lent: PhantomData<&'a mut [Status]>,
}

/// A place for a status, or none (`MPI_STATUS_IGNORE`).
///
/// Unless null, a status lies there, which may be read and written during `'a`: whoever makes one
/// vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct OutStatus<'a> {
    place: *mut Status,
    lent: PhantomData<&'a mut Status>,
}

/// Places for values.
///
/// Unless null, `room` values may be written there during `'a`: whoever makes one vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct OutList<'a, T> {
    position: usize,
    first: *mut T,
    room: usize,
    lent: PhantomData<&'a mut [T]>,
}

impl Call {
    /// Where the call leaves a value.
    ///
    /// # Safety
    /// Unless null, as [`Out`] says.
    #[inline]
    pub unsafe fn out<T: Passed>(&self, position: usize, place: *mut T) -> CallOutcome<Out<'_, T>> {
        // SAFETY: not null, so as the caller says.
        if place.is_null() { Err(null(position)) } else { Ok(unsafe { Out::new(place) }) }
    }

    /// Where the call leaves a value, if that is wanted.
    ///
    /// # Safety
    /// Unless null, as [`Out`] says.
    pub unsafe fn optional_out<T: Passed>(
        &self,
        _position: usize,
        place: *mut T,
    ) -> CallOutcome<Option<Out<'_, T>>> {
        // SAFETY: not null, so as the caller says.
        Ok((!place.is_null()).then(|| unsafe { Out::new(place) }))
    }

    /// Where the call leaves a pointer, which C declares as a pointer to anything.
    ///
    /// # Safety
    /// Unless null, as [`Out`] says.
    pub unsafe fn out_pointer(
        &self,
        position: usize,
        place: *mut c_void,
    ) -> CallOutcome<Out<'_, usize>> {
        // SAFETY: passed on.
        unsafe { self.out(position, place.cast()) }
    }

    /// Where the call leaves a string.
    ///
    /// # Safety
    /// Unless null, as [`OutText`] says.
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

    /// Where the call leaves the length of a string and, if there is room, the string.
    ///
    /// # Safety
    /// Unless null, as [`OutSizedText`] says.
    pub unsafe fn out_sized_text(
        &self,
        position: usize,
        length: *mut c_int,
        place: *mut c_char,
    ) -> CallOutcome<OutSizedText<'_>> {
        // SAFETY: passed on.
        let length = unsafe { self.out(position, length) }?;
        Ok(OutSizedText { position: position + 1, length, place })
    }

    /// Where the call leaves a status.
    ///
    /// # Safety
    /// As [`OutStatus`] says.
    #[inline]
    pub unsafe fn out_status(
        &self,
        _position: usize,
        place: *mut Status,
    ) -> CallOutcome<OutStatus<'_>> {
        let place = if place as usize == MPI_STATUS_IGNORE { ptr::null_mut() } else { place };
        Ok(OutStatus { place, lent: PhantomData })
    }

    /// Where the call leaves statuses.
    ///
    /// # Safety
    /// As [`OutStatuses`] says.
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

    /// Where the call leaves values.
    ///
    /// # Safety
    /// As [`OutList`] says.
    pub unsafe fn out_list<T>(
        &self,
        position: usize,
        first: *mut T,
        room: impl ArrayLength,
    ) -> CallOutcome<OutList<'_, T>> {
        Ok(OutList { position, first, room: room.room(), lent: PhantomData })
    }

    /// Where the call leaves bytes.
    ///
    /// # Safety
    /// As [`OutList`] says.
    pub unsafe fn out_bytes(
        &self,
        position: usize,
        first: *mut c_void,
        room: impl ArrayLength,
    ) -> CallOutcome<OutList<'_, u8>> {
        // SAFETY: passed on.
        unsafe { self.out_list(position, first.cast(), room) }
    }
}

/// How many bytes a string may have that another argument gives so many letters, and the zero byte.
pub fn with_zero(letters: c_int) -> usize {
    letters.room() + 1
}

impl<T: Passed> Out<'_, T> {
    /// A place.
    ///
    /// # Safety
    /// As the type says; it is not null.
    #[inline]
    pub(super) unsafe fn new(place: *mut T) -> Self {
        Self { place, lent: PhantomData }
    }

    /// What is there.
    #[inline]
    pub fn value(&self) -> T {
        // SAFETY: it may be read, as the type says.
        unsafe { self.place.read() }.received()
    }

    /// Writes a value.
    #[inline]
    pub fn set(&self, value: T) {
        // SAFETY: it may be written, as the type says.
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
    /// A place of so many bytes.
    ///
    /// # Safety
    /// As the type says; it is not null.
    pub(super) unsafe fn new(place: *mut c_char, size: usize) -> Self {
        Self { place, size, lent: PhantomData }
    }

    /// Writes as much of a text as fits with the zero byte that ends it; returns how many bytes
    /// before that were written.
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
    /// The room that the program says there is.
    pub fn room(&self) -> c_int {
        self.length.value()
    }

    /// Writes the length, and as much of the text as there is room for.
    ///
    /// # Errors
    /// `Arg` for a null pointer where there is room.
    pub fn write(&self, text: &[u8]) -> CallOutcome<()> {
        let size = self.room().room();
        if size > 0 {
            if self.place.is_null() {
                return Err(null(self.position));
            }
            // SAFETY: there are so many bytes, as the type says.
            unsafe { OutText::new(self.place, size) }.write(text);
        }
        self.length.set(text.len() as c_int + 1);
        Ok(())
    }
}

impl OutStatus<'_> {
    /// Writes a status, unless it is ignored; the error field stays as it was.
    #[inline]
    pub fn set(&self, status: Status) {
        if let Some(place) = NonNull::new(self.place) {
            // SAFETY: not null, so it may be read and written.
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
            // SAFETY: not null, so it may be written.
            unsafe { place.write(empty) };
        }
    }

    /// Whether nobody looks at the status.
    #[inline]
    pub fn is_ignored(&self) -> bool {
        self.place.is_null()
    }
}

impl<'a> OutStatuses<'a> {
    /// Whether nobody looks at the statuses.
    #[inline]
    pub fn are_ignored(&self) -> bool {
        self.first.is_null()
    }

    /// The place for the status of one request; one that is ignored where there is none.
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
            // SAFETY: not null, so it may be written.
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
    /// If there is no room for so many, which callers have found out before.
    pub fn write(&self, values: impl ExactSizeIterator<Item = T>) -> CallOutcome<()> {
        assert!(values.len() <= self.room, "{} values for a room of {}", values.len(), self.room);
        if self.first.is_null() && values.len() > 0 {
            return Err(null(self.position));
        }
        for (index, value) in values.take(self.room).enumerate() {
            // SAFETY: there is room for more than `index` values, as the type says.
            unsafe { self.first.add(index).write(value.handed()) };
        }
        Ok(())
    }
}
