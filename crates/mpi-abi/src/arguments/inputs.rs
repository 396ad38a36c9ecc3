//! Arguments that calls read from the program's memory, and functions of the program that they
//! call.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::slice;
use std::sync::Arc;

use base::ErrorClass;
use devices::Devices;
use memory::{Buffer, DistantMemory};
use mpi::Communicator;

use super::{ArrayLength, Integer, null};
use crate::c::{Handle, Status};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

/// A function of the program of type `F`, or one of the constants that stand for predefined
/// functions. The creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct Callback<F> {
    address: *const c_void,
    function: PhantomData<F>,
}

/// A list of handles of the program.
#[derive(Clone, Copy)]
pub struct HandleList<'a, H>(&'a [Cell<H>]);

impl<'a, H: Handle> HandleList<'a, H> {
    /// Returns the number of handles.
    #[inline]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Returns the handle at `index`.
    ///
    /// # Panics
    /// If there are fewer handles.
    #[inline]
    pub fn at(self, index: usize) -> H {
        self.0[index].get().received()
    }

    /// Replaces the handle at `index`, which the standard requires of some calls.
    ///
    /// # Panics
    /// If there are fewer handles.
    #[inline]
    pub fn set(self, index: usize, handle: H) {
        self.0[index].set(handle.handed());
    }

    /// Returns all handles.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = H> + use<'a, H> {
        self.0.iter().map(|handle| handle.get().received())
    }

    /// Returns the handles from `index` on.
    ///
    /// # Panics
    /// If there are fewer handles.
    #[inline]
    pub fn from(self, index: usize) -> Self {
        Self(&self.0[index..])
    }
}

impl<F: Copy> Callback<F> {
    /// Creates a callback.
    ///
    /// # Safety
    /// Unless null or one of the constants that the standard defines, `address` is that of a
    /// function of type `F`.
    pub unsafe fn new(address: *const c_void) -> Self {
        const { assert!(size_of::<F>() == size_of::<*const c_void>(), "F is a pointer to a function") };
        Self { address, function: PhantomData }
    }

    /// Returns the pointer as a number.
    pub fn number(&self) -> usize {
        self.address as usize
    }

    /// Returns the function; `None` for a null pointer.
    pub fn function(&self) -> Option<F> {
        // SAFETY: `F` is a pointer to a function, of the size of the address, which is not null. A
        // caller of the function must check for addresses that stand for predefined functions.
        (!self.address.is_null()).then(|| unsafe { std::mem::transmute_copy(&self.address) })
    }
}

impl Call {
    /// Returns a function of the program.
    ///
    /// # Safety
    /// As for [`Callback`].
    pub unsafe fn callback<F: Copy>(
        &self,
        _position: usize,
        function: *const c_void,
    ) -> CallOutcome<Callback<F>> {
        // SAFETY: the caller fulfils the safety requirements.
        Ok(unsafe { Callback::new(function) })
    }

    /// Returns an address that the call does not dereference.
    pub fn address(&self, _position: usize, address: *const c_void) -> CallOutcome<usize> {
        Ok(address as usize)
    }

    /// Returns a string of the program.
    ///
    /// # Safety
    /// Unless null, `text` points to a string that ends with a zero byte and does not change during
    /// the call.
    pub unsafe fn text(&self, position: usize, text: *const c_char) -> CallOutcome<&[u8]> {
        if text.is_null() {
            return Err(null(position));
        }
        // SAFETY: `text` is not null, so the caller fulfils the safety requirements.
        Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
    }

    /// Returns a string of the program; `None` for a null pointer.
    ///
    /// # Safety
    /// As for [`Call::text`].
    pub unsafe fn optional_text(
        &self,
        position: usize,
        text: *const c_char,
    ) -> CallOutcome<Option<&[u8]>> {
        if text.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.text(position, text) }.map(Some)
    }

    /// Returns a string that counts on the root only; on other processes the empty string.
    ///
    /// # Safety
    /// As for [`Call::text`], on the root.
    pub unsafe fn text_of_root(
        &self,
        position: usize,
        text: *const c_char,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<&[u8]> {
        // A name that is missing is wrong on all members, as the call finds.
        if communicator.rank() != root || text.is_null() {
            return Ok(&[]);
        }
        // SAFETY: this process is the root, so the caller fulfils the safety requirements.
        unsafe { self.text(position, text) }
    }

    /// Returns the words of a command line, given by their number and an array.
    ///
    /// # Safety
    /// Unless null, `first` points to `count` pointers, each null or as for [`Call::text`].
    pub unsafe fn words(
        &self,
        _position: usize,
        count: c_int,
        first: *mut *mut c_char,
    ) -> CallOutcome<Vec<String>> {
        let count = if first.is_null() { 0 } else { count.room() };
        let word = |index| {
            // SAFETY: `first` is not null, so there are `count` pointers.
            let word: *const c_char = unsafe { *first.add(index) };
            // SAFETY: `word` is not null, so it points to a string.
            let text = (!word.is_null()).then(|| unsafe { CStr::from_ptr(word) });
            text.map(|text| text.to_string_lossy().into_owned())
        };
        Ok((0..count).map_while(word).collect())
    }

    /// Returns a status to read.
    ///
    /// # Safety
    /// Unless null, `status` points to a status that does not change during the call.
    pub unsafe fn status(&self, position: usize, status: *const Status) -> CallOutcome<&Status> {
        // SAFETY: null, or the caller fulfils the safety requirements.
        unsafe { status.as_ref() }.ok_or_else(|| null(position))
    }

    /// Returns a list of values, such as the triplets of groups.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, `first` points to `count` values, which do not change during the call.
    pub unsafe fn list<T: Copy>(
        &self,
        position: usize,
        first: *const T,
        count: impl ArrayLength,
    ) -> CallOutcome<&[T]> {
        match (count.room(), first.is_null()) {
            (0, _) => Ok(&[]),
            (_, true) => Err(null(position)),
            // SAFETY: `first` is not null, so the caller fulfils the safety requirements.
            (count, false) => Ok(unsafe { slice::from_raw_parts(first, count) }),
        }
    }

    /// Returns a list of handles.
    ///
    /// # Errors
    /// `Arg` for a null pointer.
    ///
    /// # Safety
    /// Unless null, `first` points to `count` handles. The program does not access them during the
    /// call, and the call may change them by [`HandleList::set`].
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
            // SAFETY: `first` is not null, so the caller fulfils the safety requirements; a cell
            // has the layout of its content.
            (_, false) => Ok(HandleList(unsafe { slice::from_raw_parts(first.cast(), count) })),
        }
    }

    /// Returns a value of `count` bytes.
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
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.list(position, first.cast(), count) }
    }

    /// Returns packed data to read, given by address and size.
    ///
    /// # Errors
    /// `Arg` for a null pointer or a negative size.
    ///
    /// # Safety
    /// As for [`Call::list`].
    #[inline(always)]
    pub unsafe fn packed(
        &self,
        position: usize,
        address: *const c_void,
        size: impl Integer,
    ) -> CallOutcome<Packed<&[u8]>> {
        let size = checked_size(position + 1, size)?;
        if let Some(distant) = self.distant_at(address) {
            // SAFETY: the caller fulfils the safety requirements.
            let buffer = unsafe { Buffer::contiguous(address.cast_mut().cast(), size) };
            return Ok(Packed::Distant(buffer.in_distant(distant)));
        }
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.list(position, address.cast(), size) }.map(Packed::Bytes)
    }

    /// Returns memory for packed data, given by address and size.
    ///
    /// # Errors
    /// `Arg` for a null pointer or a negative size.
    ///
    /// # Safety
    /// As for [`Call::list`], and the call may change the bytes.
    #[expect(clippy::mut_from_ref, reason = "the memory is the program's")]
    #[inline(always)]
    pub unsafe fn packed_mut(
        &self,
        position: usize,
        address: *mut c_void,
        size: impl Integer,
    ) -> CallOutcome<Packed<&mut [u8]>> {
        let size = checked_size(position + 1, size)?;
        if let Some(distant) = self.distant_at(address) {
            // SAFETY: the caller fulfils the safety requirements.
            let buffer = unsafe { Buffer::contiguous(address.cast(), size) };
            return Ok(Packed::Distant(buffer.in_distant(distant)));
        }
        match (size, address.is_null()) {
            (0, _) => Ok(Packed::Bytes(&mut [])),
            (_, true) => Err(null(position)),
            (size, false) => {
                // SAFETY: `address` is not null, so the caller fulfils the safety requirements.
                Ok(Packed::Bytes(unsafe { slice::from_raw_parts_mut(address.cast(), size) }))
            }
        }
    }

    #[inline(always)]
    fn distant_at(&self, address: *const c_void) -> Option<Arc<dyn DistantMemory>> {
        distant_memory_at(self.library.devices.get()?, address)
    }
}

/// Apart from the calls, which most programs make without devices.
#[cold]
#[inline(never)]
fn distant_memory_at(devices: &Devices, address: *const c_void) -> Option<Arc<dyn DistantMemory>> {
    devices.owner(address.addr())
}

/// Memory of the program for packed data.
#[derive(Debug)]
pub enum Packed<B> {
    /// Memory that the processor addresses.
    Bytes(B),
    /// Memory of a graphics processor.
    Distant(Buffer),
}

impl Packed<&[u8]> {
    /// Calls `read` with all bytes, of which it uses at most `length` from `start` on; returns its
    /// result.
    #[inline(always)]
    pub fn read<R>(&self, start: usize, length: usize, read: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Packed::Bytes(bytes) => read(bytes),
            Packed::Distant(buffer) => read(&copied(buffer, start, length)),
        }
    }
}

impl Packed<&mut [u8]> {
    /// Calls `write` with all bytes, of which it changes those from `start` up to the end that it
    /// returns; returns its result.
    #[inline(always)]
    pub fn write<E>(
        self,
        start: usize,
        write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        match self {
            Packed::Bytes(bytes) => write(bytes),
            Packed::Distant(buffer) => write_staged(&buffer, start, write),
        }
    }
}

#[cold]
#[inline(never)]
fn write_staged<E>(
    buffer: &Buffer,
    start: usize,
    write: impl FnOnce(&mut [u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut bytes = vec![0; buffer.len()];
    let end = write(&mut bytes)?;
    if start < end {
        buffer.write(start, &bytes[start..end]);
    }
    Ok(end)
}

/// Returns as many bytes as a buffer has: those of the buffer up to `length` from `start` on, and
/// otherwise zeros.
#[cold]
#[inline(never)]
fn copied(buffer: &Buffer, start: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    let end = start.saturating_add(length).min(bytes.len());
    if start < end {
        buffer.read(start, &mut bytes[start..end]);
    }
    bytes
}

#[inline(always)]
fn checked_size(position: usize, size: impl Integer) -> CallOutcome<usize> {
    usize::try_from(size.wide()).map_err(|_| {
        let detail = format!("is {}, but must not be negative", size.wide());
        Failure::argument(position, ErrorClass::Arg, detail)
    })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use memory::{Blocks, SharedBytes, SharedBytesMut};
    use parking_lot::Mutex;

    use super::*;

    const ADDRESS: usize = 4096;

    /// Memory at addresses that do not exist, whose bytes are here.
    #[derive(Debug)]
    struct Elsewhere(Mutex<[u8; 8]>);

    impl DistantMemory for Elsewhere {
        fn read(&self, parts: &[Blocks], out: SharedBytesMut<'_>) {
            let bytes = self.0.lock();
            for part in parts {
                let from = &bytes[part.address - ADDRESS..][..part.block];
                out.part(part.offset, part.block).copy_from(from);
            }
        }

        fn write(&self, parts: &[Blocks], data: SharedBytes<'_>) {
            let mut bytes = self.0.lock();
            for part in parts {
                let into = &mut bytes[part.address - ADDRESS..][..part.block];
                data.part(part.offset, part.block).copy_to(into);
            }
        }
    }

    #[test]
    fn packed_data_in_distant_memory_is_copied_as_far_as_it_is_used() {
        memory::expect_distant();
        let memory = Arc::new(Elsewhere(Mutex::new(*b"abcdefgh")));
        // SAFETY: nothing accesses these addresses.
        let buffer = unsafe { Buffer::contiguous(ptr::without_provenance_mut(ADDRESS), 8) };
        let buffer = buffer.in_distant(memory.clone());
        let written = Packed::<&mut [u8]>::Distant(buffer.clone()).write(2, |bytes| {
            bytes[2..5].copy_from_slice(b"XYZ");
            Ok::<_, ()>(5)
        });
        assert_eq!((written, *memory.0.lock()), (Ok(5), *b"abXYZfgh"));
        let refused = Packed::<&mut [u8]>::Distant(buffer.clone()).write(0, |bytes| {
            bytes.fill(0);
            Err(())
        });
        assert_eq!((refused, *memory.0.lock()), (Err(()), *b"abXYZfgh"));
        let packed = Packed::<&[u8]>::Distant(buffer);
        assert_eq!(packed.read(4, 3, <[u8]>::to_vec), b"\0\0\0\0Zfg\0");
        for start in [7, 8, usize::MAX] {
            assert_eq!(packed.read(start, 9, <[u8]>::len), 8);
        }
    }
}
