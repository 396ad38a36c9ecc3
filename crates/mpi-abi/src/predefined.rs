//! The objects that are there from the beginning, by handle.

use std::rc::Rc;
use std::sync::Arc;

use datatype::reduction::Operator;
use mpi::error_handler::ErrorHandler;
use mpi::group::Group;
use mpi::operation::Operation;

use crate::c;
use crate::generated::constants::{
    HANDLE_NAMES, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_WIN_MODEL,
};

/// The first number for keyvals of the program; those of the standard are below.
pub const FIRST_KEYVAL: i32 = 1024;

const _: () = assert!(FIRST_KEYVAL > MPI_WIN_MODEL);

/// Predefined datatypes have handles from here on.
const TYPES_BEGIN: usize = 0x200;
const TYPES: usize = 0x100;
/// Predefined operations have handles from here on.
const OPERATIONS_BEGIN: usize = 0x20;
const OPERATIONS: usize = 0x20;

/// Predefined objects, found by the value of their handle.
pub struct Predefined {
    types: [Option<datatype::Predefined>; TYPES],
    /// Bytes of one element, for datatypes whose elements follow each other without gaps; else 0.
    sizes: [u8; TYPES],
    operations: [Option<Rc<Operation>>; OPERATIONS],
    error_handlers: [(c::Errhandler, Rc<ErrorHandler>); 3],
    /// The group without processes.
    pub empty_group: Rc<Group>,
}

impl Predefined {
    /// All of them.
    pub fn new() -> Self {
        let mut types = [None; TYPES];
        let mut sizes = [0; TYPES];
        for &named in datatype::Predefined::ALL {
            let index = handle_of(named.name()) - TYPES_BEGIN;
            types[index] = Some(named);
            if named.size() == named.extent() {
                sizes[index] = named.size() as u8;
            }
        }
        let mut operations = [const { None }; OPERATIONS];
        for &operator in Operator::ALL {
            let index = handle_of(operator.name()) - OPERATIONS_BEGIN;
            operations[index] = Some(Rc::new(Operation::Predefined(operator)));
        }
        let error_handlers = [
            (MPI_ERRORS_ARE_FATAL, Rc::new(ErrorHandler::Fatal)),
            (MPI_ERRORS_ABORT, Rc::new(ErrorHandler::Abort)),
            (MPI_ERRORS_RETURN, Rc::new(ErrorHandler::Return)),
        ];
        Self { types, sizes, operations, error_handlers, empty_group: Group::empty() }
    }

    /// The bytes of one element, if elements of this predefined datatype follow each other without
    /// gaps; 0 for all other handles.
    #[inline(always)]
    pub fn contiguous_size(&self, handle: c::Datatype) -> usize {
        let index = handle.0.wrapping_sub(TYPES_BEGIN);
        if index < TYPES { self.sizes[index].into() } else { 0 }
    }

    /// The predefined datatype with this handle.
    #[inline]
    pub fn named(&self, handle: c::Datatype) -> Option<datatype::Predefined> {
        *self.types.get(handle.0.wrapping_sub(TYPES_BEGIN))?
    }

    /// The predefined operation with this handle.
    #[inline]
    pub fn operation(&self, handle: c::Op) -> Option<&Rc<Operation>> {
        self.operations.get(handle.0.wrapping_sub(OPERATIONS_BEGIN))?.as_ref()
    }

    /// The handle of a predefined operation.
    pub fn error_handler(&self, handle: c::Errhandler) -> Option<&Rc<ErrorHandler>> {
        self.error_handlers.iter().find(|(own, _)| *own == handle).map(|(_, handler)| handler)
    }
}

/// The handle of the predefined error handler that does the same, if there is one.
pub fn handle_of_error_handler(handler: &ErrorHandler) -> Option<c::Errhandler> {
    match handler {
        ErrorHandler::Fatal => Some(MPI_ERRORS_ARE_FATAL),
        ErrorHandler::Abort => Some(MPI_ERRORS_ABORT),
        ErrorHandler::Return => Some(MPI_ERRORS_RETURN),
        ErrorHandler::User { .. } => None,
    }
}

/// The handle of a datatype of the standard.
pub fn handle_of_type(named: datatype::Predefined) -> c::Datatype {
    c::Datatype(handle_of(named.name()))
}

/// The datatype itself.
pub fn type_of(named: datatype::Predefined) -> Arc<datatype::Datatype> {
    Arc::clone(datatype::Datatype::named(named))
}

fn handle_of(name: &str) -> usize {
    let found = HANDLE_NAMES.iter().find(|(_, other)| *other == name);
    found.map(|(value, _)| *value).expect("the tables have all names")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c::{Datatype, Op};

    #[test]
    fn every_predefined_handle_has_its_object() {
        let predefined = Predefined::new();
        for &(value, name) in HANDLE_NAMES {
            if (TYPES_BEGIN + 1..TYPES_BEGIN + TYPES).contains(&value) {
                let named = predefined.named(Datatype(value)).expect(name);
                assert_eq!(named.name(), name);
                assert_eq!(handle_of_type(named), Datatype(value));
                // Handles of fixed-size datatypes tell the size (section 20.3).
                if value >= 0x240 {
                    assert_eq!(named.size(), 1 << (value >> 3 & 7), "{name}");
                }
            }
            if (OPERATIONS_BEGIN + 1..OPERATIONS_BEGIN + OPERATIONS).contains(&value) {
                let operation = predefined.operation(Op(value)).expect(name);
                assert_eq!(format!("{operation:?}"), name);
            }
        }
        for &named in datatype::Predefined::ALL {
            assert_eq!(predefined.named(handle_of_type(named)), Some(named));
        }
        assert!(predefined.named(Datatype(TYPES_BEGIN)).is_none());
        assert!(predefined.named(Datatype(0)).is_none() && predefined.operation(Op(0)).is_none());
        assert_eq!(predefined.contiguous_size(Datatype(0)), 0);
        assert_eq!(predefined.contiguous_size(Datatype(usize::MAX)), 0);
    }
}
