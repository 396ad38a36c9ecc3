//! Functions of other libraries that the standard ABI does not have: functions that the standard
//! has removed, functions for Fortran statuses, and extensions of those libraries that can be
//! implemented.

use std::ffi::c_int;

use crate::arguments::{KnownDatatype, Out};
use crate::c::Status;
use crate::call::Call;
use crate::failure::CallOutcome;

impl Call {
    /// Returns a status to read that is passed as Fortran integers, which have the layout of a
    /// status in C.
    ///
    /// # Safety
    /// As for [`Call::status`].
    pub unsafe fn fortran_status(
        &self,
        position: usize,
        status: *const c_int,
    ) -> CallOutcome<&Status> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.status(position, status.cast()) }
    }

    /// Returns the memory for a status that is passed as Fortran integers.
    ///
    /// # Safety
    /// As for [`Call::out`].
    pub unsafe fn out_fortran_status(
        &self,
        position: usize,
        status: *mut c_int,
    ) -> CallOutcome<Out<'_, Status>> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.out(position, status.cast()) }
    }
}

pub fn status_copy(_call: &Call, from: &Status, to: Out<Status>) -> CallOutcome<()> {
    to.set(*from);
    Ok(())
}

pub fn type_extent(_call: &Call, datatype: KnownDatatype, extent: Out<isize>) -> CallOutcome<()> {
    extent.set(datatype.extent());
    Ok(())
}

pub fn type_lb(_call: &Call, datatype: KnownDatatype, bound: Out<isize>) -> CallOutcome<()> {
    bound.set(datatype.lower_bound());
    Ok(())
}

pub fn type_ub(_call: &Call, datatype: KnownDatatype, bound: Out<isize>) -> CallOutcome<()> {
    bound.set(datatype.lower_bound() + datatype.extent());
    Ok(())
}
