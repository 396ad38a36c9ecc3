//! Where calls leave their results.

use std::ffi::{c_char, c_int};
use std::ptr::NonNull;

use super::null;
use crate::c::Status;
use crate::failure::Outcome;
use crate::generated::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS};

/// A place for one value; it may be read as well.
#[derive(Clone, Copy, Debug)]
pub struct Out<T> {
    place: *mut T,
}

/// A place for a string.
#[derive(Clone, Copy, Debug)]
pub struct OutText {
    place: *mut c_char,
}

/// A place for a status, or `MPI_STATUS_IGNORE`.
#[derive(Clone, Copy, Debug)]
pub struct OutStatus(pub *mut Status);

/// Places for statuses, or `MPI_STATUSES_IGNORE`.
#[derive(Clone, Copy, Debug)]
pub struct OutStatuses(pub *mut Status);

/// Places for handles, which may be read as well.
#[derive(Clone, Copy, Debug)]
pub struct OutHandles<H> {
    /// The position among the arguments.
    pub position: usize,
    first: *mut H,
}

impl<T: Copy> Out<T> {
    /// A place.
    ///
    /// # Safety
    /// It may be read and written during the call.
    #[inline]
    pub unsafe fn new(place: *mut T) -> Self {
        Self { place }
    }

    /// What is there.
    #[inline]
    pub fn value(&self) -> T {
        // SAFETY: whoever made this vouched for the place.
        unsafe { self.place.read() }
    }

    /// Writes a value.
    #[inline]
    pub fn set(&self, value: T) {
        // SAFETY: whoever made this vouched for the place.
        unsafe { self.place.write(value) }
    }
}

impl Out<c_int> {
    /// Writes 1 for true and 0 for false.
    #[inline]
    pub fn set_flag(&self, value: bool) {
        self.set(value.into());
    }
}

impl OutText {
    /// A place.
    ///
    /// # Safety
    /// It has room for as many bytes as the standard asks for.
    pub unsafe fn new(place: *mut c_char) -> Self {
        Self { place }
    }

    /// Writes as much of a text as fits in `size` bytes with the zero byte that ends it; returns
    /// how many bytes before that were written.
    ///
    /// # Safety
    /// The place has room for `size` bytes.
    pub unsafe fn write(&self, text: &[u8], size: usize) -> usize {
        let Some(room) = size.checked_sub(1) else { return 0 };
        let length = text.len().min(room);
        // SAFETY: the caller vouches for the room.
        unsafe {
            self.place.copy_from_nonoverlapping(text.as_ptr().cast(), length);
            self.place.add(length).write(0);
        }
        length
    }
}

impl OutStatus {
    /// Writes a status, unless it is ignored; the error field stays as it was.
    #[inline]
    pub fn set(&self, status: Status) {
        if let Some(place) = NonNull::new(self.0) {
            // SAFETY: the program vouches for the status that it passes.
            unsafe {
                let error = (*place.as_ptr()).error;
                place.write(Status { error, ..status });
            }
        }
    }

    /// Writes the empty status (section 3.7.3), unless it is ignored.
    pub fn set_empty(&self) {
        if let Some(place) = NonNull::new(self.0) {
            let empty = Status::new(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_SUCCESS, 0, false);
            // SAFETY: the program vouches for the status that it passes.
            unsafe { place.write(empty) };
        }
    }

    /// Whether nobody looks at the status.
    #[inline]
    pub fn is_ignored(&self) -> bool {
        self.0.is_null()
    }
}

impl OutStatuses {
    /// Whether nobody looks at the statuses.
    #[inline]
    pub fn are_ignored(&self) -> bool {
        self.0.is_null()
    }

    /// The place for the status of one request.
    ///
    /// # Safety
    /// Unless ignored, there are more than `index` places.
    #[inline]
    pub unsafe fn at(&self, index: usize) -> OutStatus {
        if self.0.is_null() {
            return OutStatus(self.0);
        }
        // SAFETY: the caller vouches for the length.
        OutStatus(unsafe { self.0.add(index) })
    }

    /// Writes the error field of one status.
    ///
    /// # Safety
    /// As for [`OutStatuses::at`].
    #[inline]
    pub unsafe fn set_error(&self, index: usize, error: c_int) {
        if !self.0.is_null() {
            // SAFETY: the caller vouches for the length.
            unsafe { (*self.0.add(index)).error = error };
        }
    }
}

impl<H: Copy> OutHandles<H> {
    /// From the argument at `position`.
    #[inline]
    pub fn new(position: usize, first: *mut H) -> Self {
        Self { position, first }
    }

    /// The places as a slice, which the program leaves alone during the call.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, the program's pointer leads to so many handles.
    #[inline]
    pub unsafe fn slice<'a>(&self, count: usize) -> Outcome<&'a mut [H]> {
        match (count, self.first.is_null()) {
            (0, _) => Ok(&mut []),
            (_, true) => Err(null(self.position)),
            // SAFETY: the caller vouches for the length.
            (_, false) => Ok(unsafe { std::slice::from_raw_parts_mut(self.first, count) }),
        }
    }
}
