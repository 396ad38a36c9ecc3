//! Info objects (chapter 10 of the standard).

use std::rc::Rc;

use mpi::info::{Environment, Info};

use crate::entry::Call;

/// The contents of `MPI_INFO_ENV`.
pub fn environment(_call: &Call) -> Rc<Info> {
    Info::of_environment(&Environment::default())
}
