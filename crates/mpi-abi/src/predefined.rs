//! The predefined objects, by handle.

use std::cell::Cell;
use std::rc::Rc;

use datatype::reduction::Operator;
use mpi::error_handler::ErrorHandler;
use mpi::group::Group;
use mpi::operation::Operation;

use crate::c::{self, Handle};
use crate::dialect::{OPERATIONS, TYPES, operation_index, type_index};
use crate::generated::constants::{
    HANDLE_NAMES, MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_KEYVAL_INVALID,
    MPI_LASTUSEDCODE, MPI_TAG_UB, MPI_WIN_BASE, MPI_WIN_MODEL,
};

/// The first number for keyvals of the program. The keyvals of the standard are below, or far
/// above.
pub const FIRST_KEYVAL: i32 = 1024;

const _: () = {
    let standard = [MPI_TAG_UB, MPI_LASTUSEDCODE, MPI_WIN_BASE, MPI_WIN_MODEL, MPI_KEYVAL_INVALID];
    let mut index = 0;
    while index < standard.len() {
        assert!(standard[index] < FIRST_KEYVAL || standard[index] > 1 << 28);
        index += 1;
    }
};

/// The predefined objects, found by the values of their handles.
pub struct PredefinedObjects {
    types: [Option<datatype::Predefined>; TYPES],
    /// The bytes of one element, for datatypes whose elements follow each other without gaps; 0 for
    /// others, and for all if [no buffer is plain](Self::stop_plain_buffers).
    sizes: [Cell<u8>; TYPES],
    operations: [Option<Operation>; OPERATIONS],
    error_handlers: [(c::Errhandler, Rc<ErrorHandler>); 3],
    /// The empty group.
    pub empty_group: Rc<Group>,
}

impl PredefinedObjects {
    /// Creates all predefined objects.
    pub fn new() -> Self {
        let mut types = [None; TYPES];
        let sizes = [const { Cell::new(0) }; TYPES];
        for &named in datatype::Predefined::ALL {
            // Some dialects lack some of the datatypes.
            let Some(handle) = find_handle(named.name()) else { continue };
            let index = type_index(handle);
            types[index] = Some(named);
            if named.size() == named.extent() {
                sizes[index].set(named.size() as u8);
            }
        }
        let mut operations = [const { None }; OPERATIONS];
        for &operator in Operator::ALL {
            let index = operation_index(handle_of(operator.name()));
            operations[index] = Some(Operation::Predefined(operator));
        }
        let error_handlers = [
            (MPI_ERRORS_ARE_FATAL, Rc::new(ErrorHandler::Fatal)),
            (MPI_ERRORS_ABORT, Rc::new(ErrorHandler::Abort)),
            (MPI_ERRORS_RETURN, Rc::new(ErrorHandler::Return)),
        ];
        Self { types, sizes, operations, error_handlers, empty_group: Group::empty() }
    }

    /// From now on no elements are contiguous at first sight, so that each buffer goes through the
    /// functions for any datatype, which look at its address.
    pub fn stop_plain_buffers(&self) {
        self.sizes.iter().for_each(|size| size.set(0));
    }

    /// Returns the bytes of one element, if elements of this predefined datatype follow each other
    /// without gaps, and buffers may be plain; 0 for all other handles.
    #[inline(always)]
    pub fn contiguous_size(&self, handle: c::Datatype) -> usize {
        let index = type_index(handle);
        if index < TYPES { self.sizes[index].get().into() } else { 0 }
    }

    /// Returns the predefined datatype with this handle.
    #[inline]
    pub fn named(&self, handle: c::Datatype) -> Option<datatype::Predefined> {
        *self.types.get(type_index(handle))?
    }

    /// Returns the predefined operation with this handle.
    #[inline]
    pub fn operation(&self, handle: c::Op) -> Option<&Operation> {
        self.operations.get(operation_index(handle))?.as_ref()
    }

    /// Returns the predefined error handler with this handle.
    pub fn error_handler(&self, handle: c::Errhandler) -> Option<&Rc<ErrorHandler>> {
        self.error_handlers.iter().find(|(own, _)| *own == handle).map(|(_, handler)| handler)
    }
}

/// Returns the handle of the predefined error handler that `handler` is, if it is predefined.
pub fn handle_of_error_handler(handler: &ErrorHandler) -> Option<c::Errhandler> {
    match handler {
        ErrorHandler::Fatal => Some(MPI_ERRORS_ARE_FATAL),
        ErrorHandler::Abort => Some(MPI_ERRORS_ABORT),
        ErrorHandler::Return => Some(MPI_ERRORS_RETURN),
        ErrorHandler::User { .. } => None,
    }
}

/// Returns the handle of a predefined datatype that the program can have from this library.
pub fn handle_of_type(named: datatype::Predefined) -> c::Datatype {
    handle_of(named.name())
}

fn handle_of<H: Handle>(name: &str) -> H {
    find_handle(name).expect("the tables have all names of what the program can have")
}

fn find_handle<H: Handle>(name: &str) -> Option<H> {
    let found = HANDLE_NAMES.iter().find(|(_, _, other)| *other == name);
    found.map(|(_, value, _)| H::from_raw(*value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c::{Datatype, HandleKind, Op};
    use crate::dialect::{HandleWord, reported_size};
    use crate::generated::constants::{MPI_DATATYPE_NULL, MPI_OP_NULL};

    #[test]
    fn every_predefined_handle_has_its_object() {
        let predefined = PredefinedObjects::new();
        for &(kind, value, name) in HANDLE_NAMES {
            let is_null = name.ends_with("_NULL");
            if kind == HandleKind::Datatype && !is_null {
                let handle = Datatype::from_raw(value);
                let named = predefined.named(handle).expect(name);
                assert_eq!(named.name(), name);
                assert_eq!(handle_of_type(named), handle);
                if let Some(reported) = reported_size(handle) {
                    assert_eq!(named.size(), reported, "{name}");
                }
            }
            if kind == HandleKind::Op && !is_null {
                let operation = predefined.operation(Op::from_raw(value)).expect(name);
                assert_eq!(format!("{operation:?}"), name);
            }
        }
        for &named in datatype::Predefined::ALL {
            let handle = find_handle(named.name());
            assert_eq!(handle.and_then(|handle| predefined.named(handle)), handle.and(Some(named)));
            assert!(handle.is_some() || named.name().starts_with("MPIX_"), "{named:?}");
        }
        assert!(predefined.named(MPI_DATATYPE_NULL).is_none());
        assert!(predefined.operation(MPI_OP_NULL).is_none());
        assert!(predefined.named(Datatype(0)).is_none() && predefined.operation(Op(0)).is_none());
        assert_eq!(predefined.contiguous_size(Datatype(0)), 0);
        assert_eq!(predefined.contiguous_size(Datatype(HandleWord::MAX)), 0);
    }
}
