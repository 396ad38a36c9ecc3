//! What calls read of the program's memory, and the functions of the program that they call.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::slice;

use base::ErrorClass;

use super::{ArrayLength, Integer, null};
use crate::c::{Handle, Status};
use crate::entry::Call;
use crate::failure::{CallOutcome, Failure};

/// A function of the program of type `F`, or one of the numbers that stand for predefined ones:
/// whoever makes one vouches for that.
#[derive(Clone, Copy, Debug)]
pub struct Callback<F> {
    address: *const c_void,
    function: PhantomData<F>,
}

/// A list of handles of the program's.
#[derive(Clone, Copy)]
pub struct HandleList<'a, H>(&'a [Cell<H>]);

impl<'a, H: Handle> HandleList<'a, H> {
    /// How many there are.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn at(self, index: usize) -> H {
        self.0[index].get().received()
    }

    /// Puts another one in its place, which the standard says that the call does.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn set(self, index: usize, handle: H) {
        self.0[index].set(handle.handed());
    }

    /// All of them.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = H> + use<'a, H> {
        self.0.iter().map(|handle| handle.get().received())
    }

    /// Those from one on.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn from(self, index: usize) -> Self {
        Self(&self.0[index..])
    }
}

impl<F: Copy> Callback<F> {
    /// As whoever calls this says.
    ///
    /// # Safety
    /// Unless null or one of the numbers that the standard names, `address` is that of a function
    /// of this type.
    pub unsafe fn new(address: *const c_void) -> Self {
        const { assert!(size_of::<F>() == size_of::<*const c_void>(), "F is a pointer to a function") };
        Self { address, function: PhantomData }
    }

    /// The pointer as a number.
    pub fn number(&self) -> usize {
        self.address as usize
    }

    /// The function; none for a null pointer.
    pub fn function(&self) -> Option<F> {
        // SAFETY: `F` is a pointer to a function, of the same size and not null; what lies at an
        // address that stands for a predefined function, whoever calls it must know.
        (!self.address.is_null()).then(|| unsafe { std::mem::transmute_copy(&self.address) })
    }
}

impl Call {
    /// A function of the program.
    ///
    /// # Safety
    /// As [`Callback`] says.
    pub unsafe fn callback<F: Copy>(
        &self,
        _position: usize,
        function: *const c_void,
    ) -> CallOutcome<Callback<F>> {
        // SAFETY: passed on.
        Ok(unsafe { Callback::new(function) })
    }

    /// An address that the call does not follow.
    pub fn address(&self, _position: usize, address: *const c_void) -> CallOutcome<usize> {
        Ok(address as usize)
    }

    /// A string of the program.
    ///
    /// # Safety
    /// Unless null, `text` points to a string that ends with a zero byte and stays as it is during
    /// the call.
    pub unsafe fn text(&self, position: usize, text: *const c_char) -> CallOutcome<&[u8]> {
        if text.is_null() {
            return Err(null(position));
        }
        // SAFETY: not null, so as the caller says.
        Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
    }

    /// The words of a command line: how many, and they.
    ///
    /// # Safety
    /// Unless null, `first` leads to so many pointers, each null or to a string as for
    /// [`Call::text`].
    pub unsafe fn words(
        &self,
        _position: usize,
        count: c_int,
        first: *mut *mut c_char,
    ) -> CallOutcome<Vec<String>> {
        let count = if first.is_null() { 0 } else { count.room() };
        let word = |index| {
            // SAFETY: not null, so there are so many pointers.
            let word: *const c_char = unsafe { *first.add(index) };
            // SAFETY: not null, so it points to a string.
            let text = (!word.is_null()).then(|| unsafe { CStr::from_ptr(word) });
            text.map(|text| text.to_string_lossy().into_owned())
        };
        Ok((0..count).map_while(word).collect())
    }

    /// A status to read.
    ///
    /// # Safety
    /// Unless null, `status` points to a status that stays as it is during the call.
    pub unsafe fn status(&self, position: usize, status: *const Status) -> CallOutcome<&Status> {
        // SAFETY: null or as the caller says.
        unsafe { status.as_ref() }.ok_or_else(|| null(position))
    }

    /// A list of triplets.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, `first` leads to so many, which stay as they are during the call.
    pub unsafe fn list<T: Copy>(
        &self,
        position: usize,
        first: *const T,
        count: impl ArrayLength,
    ) -> CallOutcome<&[T]> {
        match (count.room(), first.is_null()) {
            (0, _) => Ok(&[]),
            (_, true) => Err(null(position)),
            // SAFETY: not null, so as the caller says.
            (count, false) => Ok(unsafe { slice::from_raw_parts(first, count) }),
        }
    }

    /// A list of handles.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, `first` leads to so many, which the program leaves alone during the call, and
    /// which the call may change if it calls [`HandleList::set`].
    #[inline]
    pub unsafe fn handles<H: Handle>(
        &self,
        position: usize,
        first: *const H,
        count: usize,
    ) -> CallOutcome<HandleList<'_, H>> {
        match (count, first.is_null()) {
            (0, _) => Ok(HandleList(&[])),
            (_, true) => Err(null(position)),
            // SAFETY: not null, so as the caller says; a cell lies as what is in it.
            (_, false) => Ok(HandleList(unsafe { slice::from_raw_parts(first.cast(), count) })),
        }
    }

    /// A value of so many bytes.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// As for [`Call::list`].
    pub unsafe fn bytes(
        &self,
        position: usize,
        first: *const c_void,
        count: impl ArrayLength,
    ) -> CallOutcome<&[u8]> {
        // SAFETY: passed on.
        unsafe { self.list(position, first.cast(), count) }
    }

    /// Packed data to read: address and size.
    ///
    /// # Errors
    /// `Arg` for a null pointer or a negative size.
    ///
    /// # Safety
    /// As for [`Call::list`].
    pub unsafe fn packed(
        &self,
        position: usize,
        address: *const c_void,
        size: impl Integer,
    ) -> CallOutcome<&[u8]> {
        // SAFETY: passed on.
        unsafe { self.list(position, address.cast(), checked_size(position + 1, size)?) }
    }

    /// Room for packed data: address and size.
    ///
    /// # Errors
    /// `Arg` for a null pointer or a negative size.
    ///
    /// # Safety
    /// As for [`Call::list`], and the call may change them.
    #[expect(clippy::mut_from_ref, reason = "the memory is the program's")]
    pub unsafe fn packed_mut(
        &self,
        position: usize,
        address: *mut c_void,
        size: impl Integer,
    ) -> CallOutcome<&mut [u8]> {
        match (checked_size(position + 1, size)?, address.is_null()) {
            (0, _) => Ok(&mut []),
            (_, true) => Err(null(position)),
            // SAFETY: not null, so as the caller says.
            (size, false) => Ok(unsafe { slice::from_raw_parts_mut(address.cast(), size) }),
        }
    }
}

fn checked_size(position: usize, size: impl Integer) -> CallOutcome<usize> {
    usize::try_from(size.wide()).map_err(|_| {
        let detail = format!("is {}, but must not be negative", size.wide());
        Failure::argument(position, ErrorClass::Arg, detail)
    })
}
