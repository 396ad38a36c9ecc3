//! What is known of Fortran.

use std::cell::RefCell;
use std::rc::Rc;

use mpi::info::Info;

/// What Fortran bindings told the library about their compiler.
#[derive(Debug, Default)]
pub struct FortranFacts {
    pub info: RefCell<Option<Rc<Info>>>,
    pub booleans: RefCell<Option<Booleans>>,
}

/// The bytes of Fortran's truth values.
#[derive(Debug)]
pub struct Booleans {
    pub logical_true: Box<[u8]>,
    pub logical_false: Box<[u8]>,
}
