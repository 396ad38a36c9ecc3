//! Arguments and results whose values are constants of the dialect.

use std::ffi::c_int;

use base::ErrorClass;
use mpi::ThreadLevel;
use mpi::communicator::CommunicatorComparison;
use mpi::group::GroupComparison;
use mpi::topology::CommunicatorTopology;

use super::Out;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{
    MPI_CART, MPI_CONGRUENT, MPI_DIST_GRAPH, MPI_GRAPH, MPI_IDENT, MPI_SIMILAR, MPI_THREAD_SINGLE,
    MPI_UNDEFINED, MPI_UNEQUAL,
};
use crate::thread_levels::LEVELS;

/// Memory for a result that is a constant of the dialect.
#[derive(Clone, Copy, Debug)]
pub struct OutConstant<'a>(Out<'a, c_int>);

/// A value that the dialect has a constant for.
pub trait DialectConstant {
    /// Returns the constant.
    fn constant(self) -> c_int;
}

impl OutConstant<'_> {
    /// Stores the constant for a value.
    pub fn set(self, value: impl DialectConstant) {
        self.0.set(value.constant());
    }
}

impl DialectConstant for GroupComparison {
    fn constant(self) -> c_int {
        match self {
            GroupComparison::Identical => MPI_IDENT,
            GroupComparison::Similar => MPI_SIMILAR,
            GroupComparison::Unequal => MPI_UNEQUAL,
        }
    }
}

impl DialectConstant for CommunicatorComparison {
    fn constant(self) -> c_int {
        match self {
            CommunicatorComparison::Identical => MPI_IDENT,
            CommunicatorComparison::Congruent => MPI_CONGRUENT,
            CommunicatorComparison::Similar => MPI_SIMILAR,
            CommunicatorComparison::Unequal => MPI_UNEQUAL,
        }
    }
}

impl DialectConstant for ThreadLevel {
    fn constant(self) -> c_int {
        let found = LEVELS.iter().find(|(_, level)| *level == self);
        found.map_or(MPI_THREAD_SINGLE, |(number, _)| *number)
    }
}

/// A rank, or none: `MPI_UNDEFINED`.
impl DialectConstant for Option<u32> {
    fn constant(self) -> c_int {
        self.map_or(MPI_UNDEFINED, |rank| rank as c_int)
    }
}

/// The kind of a topology, or none: `MPI_UNDEFINED`.
impl DialectConstant for Option<&CommunicatorTopology> {
    fn constant(self) -> c_int {
        match self {
            None => MPI_UNDEFINED,
            Some(CommunicatorTopology::Cartesian(_)) => MPI_CART,
            Some(CommunicatorTopology::Graph(_)) => MPI_GRAPH,
            Some(CommunicatorTopology::Distributed(_)) => MPI_DIST_GRAPH,
        }
    }
}

impl Call {
    /// Returns the memory for a constant of the dialect, or for a rank that may be undefined.
    ///
    /// # Safety
    /// Unless null, as for [`Out`].
    pub unsafe fn out_constant(
        &self,
        position: usize,
        place: *mut c_int,
    ) -> CallOutcome<OutConstant<'_>> {
        // SAFETY: the caller fulfils the safety requirements.
        unsafe { self.out(position, place) }.map(OutConstant)
    }

    /// Returns the lowest level of thread support that is at least the required one.
    pub fn thread_level(&self, position: usize, required: c_int) -> CallOutcome<ThreadLevel> {
        let found = LEVELS.iter().find(|(number, _)| *number >= required);
        found.map(|(_, level)| *level).ok_or_else(|| {
            let detail = format!("is {required}, which is not a level of thread support");
            Failure::argument(position, ErrorClass::Arg, detail)
        })
    }

    /// Returns the color of a process in `MPI_Comm_split`; `None` for `MPI_UNDEFINED`.
    pub fn color(&self, position: usize, color: c_int) -> CallOutcome<Option<c_int>> {
        match color {
            MPI_UNDEFINED => Ok(None),
            0.. => Ok(Some(color)),
            _ => {
                let detail = format!("is {color}, but must not be negative, except MPI_UNDEFINED");
                Err(Failure::argument(position, ErrorClass::Arg, detail))
            }
        }
    }
}
