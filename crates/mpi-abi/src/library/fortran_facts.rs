//! Facts about the Fortran compiler.

use std::cell::RefCell;
use std::rc::Rc;

use mpi::info::Info;

/// What the Fortran bindings reported about their compiler.
#[derive(Debug, Default)]
pub struct FortranFacts {
    pub info: RefCell<Option<Rc<Info>>>,
    pub booleans: RefCell<Option<Booleans>>,
}

/// The byte representations of Fortran's logical values.
#[derive(Debug)]
pub struct Booleans {
    pub logical_true: Box<[u8]>,
    pub logical_false: Box<[u8]>,
}
