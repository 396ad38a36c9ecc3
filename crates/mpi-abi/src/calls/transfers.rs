//! Reading and writing files (section 14.4 of the standard).

use files::{Direction, FilePlace};

use crate::arguments::{ElementsArgument, KnownFile, Out, OutStatus};
use crate::c::Request;
use crate::call::Call;
use crate::failure::CallOutcome;
use crate::handler_owner::HandlerOwner;
use crate::requests::{Pending, PendingRequest};

use super::statuses::report_status;

fn hand_out(call: &Call, file: &KnownFile, work: mpi::Request, request: Out<Request>) {
    let (handler_owner, work) = (HandlerOwner::File(file.handle), Pending::One(work));
    request.set(call.library.requests.insert(PendingRequest { handler_owner, work }));
}

/// Defines the functions that return a status: at an offset, or at a file pointer.
macro_rules! waiting {
    ($($method:ident, $direction:ident: $at:ident; $($name:ident at $place:ident),*;)*) => {$(
        pub fn $at(
            call: &Call,
            fh: KnownFile,
            offset: i64,
            data: ElementsArgument,
            status: OutStatus,
        ) -> CallOutcome<()> {
            let (place, data) = (FilePlace::At(offset), data.file_data(call)?);
            let process = &call.library.process;
            report_status(fh.$method(process, Direction::$direction, place, data)?, status)
        }

        waiting! { only $method, $direction: $($name at $place),*; }
    )*};
    (only $method:ident, $direction:ident: $($name:ident at $place:ident),*;) => {$(
        pub fn $name(
            call: &Call,
            fh: KnownFile,
            data: ElementsArgument,
            status: OutStatus,
        ) -> CallOutcome<()> {
            let (place, data) = (FilePlace::$place, data.file_data(call)?);
            let process = &call.library.process;
            report_status(fh.$method(process, Direction::$direction, place, data)?, status)
        }
    )*};
}

waiting! {
    transfer, Read: file_read_at; file_read at Pointer, file_read_shared at SharedPointer;
    transfer, Write: file_write_at; file_write at Pointer, file_write_shared at SharedPointer;
    transfer_all, Read: file_read_at_all; file_read_all at Pointer, file_read_ordered at Ordered;
    transfer_all, Write: file_write_at_all; file_write_all at Pointer, file_write_ordered at Ordered;
}

/// Defines the functions that return a request.
macro_rules! requesting {
    ($($method:ident, $direction:ident: $at:ident; $($name:ident at $place:ident),*;)*) => {$(
        pub fn $at(
            call: &Call,
            fh: KnownFile,
            offset: i64,
            data: ElementsArgument,
            request: Out<Request>,
        ) -> CallOutcome<()> {
            let (place, data) = (FilePlace::At(offset), data.file_data(call)?);
            let process = &call.library.process;
            let work = fh.$method(process, Direction::$direction, place, data)?;
            hand_out(call, &fh, work, request);
            Ok(())
        }

        requesting! { only $method, $direction: $($name at $place),*; }
    )*};
    (only $method:ident, $direction:ident: $($name:ident at $place:ident),*;) => {$(
        pub fn $name(
            call: &Call,
            fh: KnownFile,
            data: ElementsArgument,
            request: Out<Request>,
        ) -> CallOutcome<()> {
            let (place, data) = (FilePlace::$place, data.file_data(call)?);
            let process = &call.library.process;
            let work = fh.$method(process, Direction::$direction, place, data)?;
            hand_out(call, &fh, work, request);
            Ok(())
        }
    )*};
}

requesting! {
    begin, Read: file_iread_at; file_iread at Pointer, file_iread_shared at SharedPointer;
    begin, Write: file_iwrite_at; file_iwrite at Pointer, file_iwrite_shared at SharedPointer;
    begin_all, Read: file_iread_at_all; file_iread_all at Pointer;
    begin_all, Write: file_iwrite_at_all; file_iwrite_all at Pointer;
}

/// Defines the split functions: one begins an operation, another ends it.
macro_rules! split {
    ($($direction:ident: $begin_at:ident, $end_at:ident;
       $($begin:ident, $end:ident at $place:ident),*;)*) => {$(
        pub fn $begin_at(
            call: &Call,
            fh: KnownFile,
            offset: i64,
            data: ElementsArgument,
        ) -> CallOutcome<()> {
            let (place, data) = (FilePlace::At(offset), data.file_data(call)?);
            Ok(fh.begin_split(&call.library.process, Direction::$direction, place, data)?)
        }

        pub fn $end_at(
            call: &Call,
            fh: KnownFile,
            address: usize,
            status: OutStatus,
        ) -> CallOutcome<()> {
            let (process, place) = (&call.library.process, FilePlace::At(0));
            report_status(fh.end_split(process, Direction::$direction, place, address)?, status)
        }

        split! { only $direction: $($begin, $end at $place),*; }
    )*};
    (only $direction:ident: $($begin:ident, $end:ident at $place:ident),*;) => {$(
        pub fn $begin(call: &Call, fh: KnownFile, data: ElementsArgument) -> CallOutcome<()> {
            let (place, data) = (FilePlace::$place, data.file_data(call)?);
            Ok(fh.begin_split(&call.library.process, Direction::$direction, place, data)?)
        }

        pub fn $end(
            call: &Call,
            fh: KnownFile,
            address: usize,
            status: OutStatus,
        ) -> CallOutcome<()> {
            let (process, place) = (&call.library.process, FilePlace::$place);
            report_status(fh.end_split(process, Direction::$direction, place, address)?, status)
        }
    )*};
}

split! {
    Read: file_read_at_all_begin, file_read_at_all_end;
        file_read_all_begin, file_read_all_end at Pointer,
        file_read_ordered_begin, file_read_ordered_end at Ordered;
    Write: file_write_at_all_begin, file_write_at_all_end;
        file_write_all_begin, file_write_all_end at Pointer,
        file_write_ordered_begin, file_write_ordered_end at Ordered;
}
