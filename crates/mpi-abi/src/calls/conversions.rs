//! Handles as integers for Fortran, and back (section 19.3.4 of the standard).

use std::ffi::c_int;

use crate::c::{Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win};
use crate::library::LibraryState;

macro_rules! conversions {
    ($($to_int:ident, $from_int:ident: $handle:ident in $table:ident;)*) => {$(
        #[doc = concat!("The integer of an `MPI_", stringify!($handle), "`.")]
        pub fn $to_int(library: &LibraryState, handle: $handle) -> c_int {
            library.$table.to_int(handle)
        }

        #[doc = concat!("The `MPI_", stringify!($handle), "` of an integer.")]
        pub fn $from_int(library: &LibraryState, integer: c_int) -> $handle {
            library.$table.of_int(integer)
        }
    )*};
}

conversions! {
    comm_toint, comm_fromint: Comm in communicators;
    errhandler_toint, errhandler_fromint: Errhandler in error_handlers;
    file_toint, file_fromint: File in files;
    group_toint, group_fromint: Group in groups;
    info_toint, info_fromint: Info in infos;
    message_toint, message_fromint: Message in messages_taken;
    op_toint, op_fromint: Op in operations;
    type_toint, type_fromint: Datatype in datatypes;
    session_toint, session_fromint: Session in sessions;
    win_toint, win_fromint: Win in windows;
}

/// Returns the integer of an `MPI_Request`.
pub fn request_toint(library: &LibraryState, handle: Request) -> c_int {
    library.requests.to_int(handle)
}

/// Returns the `MPI_Request` of an integer.
pub fn request_fromint(library: &LibraryState, integer: c_int) -> Request {
    library.requests.of_int(&library.process, integer)
}
