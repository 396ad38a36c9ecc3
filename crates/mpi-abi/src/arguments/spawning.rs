//! Arguments of the calls that spawn processes. They count on the root only, and their mistakes are
//! found inside the call, which reports them on all processes.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;

use base::ErrorClass;
use mpi::communicator::Communicator;

use super::ArrayLength;
use crate::c::{Info, Passed};
use crate::call::Call;
use crate::failure::CallOutcome;
use crate::generated::classes::code_of_class;
use crate::generated::constants::{MPI_INFO_NULL, MPI_SUCCESS};

/// Memory for the error codes of spawned processes, or none (`MPI_ERRCODES_IGNORE`).
///
/// Unless null, as many codes as processes are to be spawned may be written there during `'a`. The
/// creator of a value guarantees this.
#[derive(Clone, Copy, Debug)]
pub struct OutErrorCodes<'a> {
    first: *mut c_int,
    lent: PhantomData<&'a mut [c_int]>,
}

impl OutErrorCodes<'_> {
    /// Writes a code for each process: that of the error class of the call, or success. For each
    /// command, `processes` has how many may be started at most, and how many are; the others get
    /// the code of `MPI_ERR_SPAWN`.
    pub fn write(&self, processes: &[(u32, u32)], error: Option<ErrorClass>) {
        if self.first.is_null() {
            return;
        }
        let codes = processes.iter().flat_map(|&(most, started)| {
            (0..most).map(move |index| {
                let missing = (index >= started).then_some(ErrorClass::Spawn);
                error.or(missing).map_or(MPI_SUCCESS, code_of_class)
            })
        });
        for (index, code) in codes.enumerate() {
            // SAFETY: the type guarantees room for a code of each process.
            unsafe { self.first.add(index).write(code) };
        }
    }
}

/// Returns a string of the program; the empty one for a null pointer.
///
/// # Safety
/// Unless null, `text` points to a string that ends with a zero byte.
unsafe fn string(text: *const c_char) -> Vec<u8> {
    // SAFETY: `text` is not null, so the caller fulfils the safety requirements.
    if text.is_null() { Vec::new() } else { unsafe { CStr::from_ptr(text) }.to_bytes().to_vec() }
}

/// Returns the words of a command line; none for a null pointer (`MPI_ARGV_NULL`).
///
/// # Safety
/// Unless null, `first` points to pointers to strings, of which the last is null.
unsafe fn command_line(first: *const *mut c_char) -> Vec<Vec<u8>> {
    if first.is_null() {
        return Vec::new();
    }
    // SAFETY: the null pointer at the end is reached before memory after it is read.
    let word = |index| unsafe { *first.add(index) };
    let words = (0..).map(word).take_while(|word| !word.is_null());
    // SAFETY: all pointers before the null pointer point to strings.
    words.map(|word| unsafe { string(word) }).collect()
}

impl Call {
    /// Returns the name of a program.
    ///
    /// # Safety
    /// As for [`Call::text`], on the root.
    pub unsafe fn command_of_root(
        &self,
        _position: usize,
        text: *const c_char,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<Vec<u8>> {
        let is_root = communicator.rank() == root;
        // SAFETY: this process is the root, so the caller fulfils the safety requirements.
        Ok(if is_root { unsafe { string(text) } } else { Vec::new() })
    }

    /// Returns the arguments of a program.
    ///
    /// # Safety
    /// On the root, unless null, `first` points to pointers to strings, of which the last is null.
    pub unsafe fn command_line_of_root(
        &self,
        _position: usize,
        first: *mut *mut c_char,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<Vec<Vec<u8>>> {
        let is_root = communicator.rank() == root;
        // SAFETY: this process is the root, so the caller fulfils the safety requirements.
        Ok(if is_root { unsafe { command_line(first) } } else { Vec::new() })
    }

    /// Returns the names of several programs.
    ///
    /// # Safety
    /// On the root, unless null, `first` points to `count` pointers, each null or as for
    /// [`Call::text`].
    pub unsafe fn commands_of_root(
        &self,
        _position: usize,
        first: *mut *mut c_char,
        count: c_int,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<Vec<Vec<u8>>> {
        let room = room_on_root(first.is_null(), count, root, communicator);
        // SAFETY: this process is the root, so there are `count` pointers to strings.
        Ok((0..room).map(|index| unsafe { string(*first.add(index)) }).collect())
    }

    /// Returns the arguments of several programs; none for a null pointer (`MPI_ARGVS_NULL`).
    ///
    /// # Safety
    /// On the root, unless null, `first` points to `count` pointers, each as for
    /// [`Call::command_line_of_root`].
    pub unsafe fn command_lines_of_root(
        &self,
        _position: usize,
        first: *mut *mut *mut c_char,
        count: c_int,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<Vec<Vec<Vec<u8>>>> {
        let room = room_on_root(first.is_null(), count, root, communicator);
        // SAFETY: this process is the root, so there are `count` command lines.
        Ok((0..room).map(|index| unsafe { command_line(*first.add(index)) }).collect())
    }

    /// Returns the greatest numbers of processes of several programs.
    ///
    /// # Safety
    /// On the root, unless null, `first` points to `count` numbers.
    pub unsafe fn process_counts_of_root(
        &self,
        _position: usize,
        first: *const c_int,
        count: c_int,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<Vec<c_int>> {
        let room = room_on_root(first.is_null(), count, root, communicator);
        // SAFETY: this process is the root, so there are `count` numbers.
        Ok((0..room).map(|index| unsafe { *first.add(index) }).collect())
    }

    /// Returns the handle of the hints for a program.
    ///
    /// # Errors
    /// None.
    pub fn info_of_root(
        &self,
        _position: usize,
        handle: Info,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<Info> {
        Ok(if communicator.rank() == root { handle } else { MPI_INFO_NULL })
    }

    /// Returns the handles of the hints for several programs.
    ///
    /// # Safety
    /// On the root, unless null, `first` points to `count` handles.
    pub unsafe fn infos_of_root(
        &self,
        _position: usize,
        first: *const Info,
        count: c_int,
        root: u32,
        communicator: &Communicator,
    ) -> CallOutcome<Vec<Info>> {
        let room = room_on_root(first.is_null(), count, root, communicator);
        // SAFETY: this process is the root, so there are `count` handles.
        Ok((0..room).map(|index| unsafe { *first.add(index) }.received()).collect())
    }

    /// Returns the memory for the error codes of spawned processes.
    ///
    /// # Safety
    /// Unless null, as for [`OutErrorCodes`].
    pub unsafe fn error_codes(
        &self,
        _position: usize,
        first: *mut c_int,
    ) -> CallOutcome<OutErrorCodes<'_>> {
        Ok(OutErrorCodes { first, lent: PhantomData })
    }
}

/// Returns how many elements of an array to read: none on other processes than the root.
fn room_on_root(is_null: bool, count: c_int, root: u32, communicator: &Communicator) -> usize {
    if is_null || communicator.rank() != root { 0 } else { count.room() }
}
