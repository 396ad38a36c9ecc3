//! The exported functions of `combray.h`, which tells what each is for and what its caller promises.

use std::ffi::{c_char, c_int, c_void};

use super::Segment;
use crate::arguments::{Out, OutStatus};
use crate::c::{Comm, PackedMessage, Request, Status};
use crate::entry::{Entry, enter_native, enter_native_any_time};

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_begin(
    communicator: Comm,
    destination: c_int,
    tag: c_int,
    message: *mut PackedMessage,
) -> c_int {
    static ENTRY: Entry = Entry {
        name: "combray_begin",
        parameters: &["communicator", "destination", "tag", "message"],
    };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let communicator = call.communicator(1, communicator)?;
            let message = call.out(4, message)?;
            super::begin(call, communicator, destination, tag, message)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_pack(
    message: PackedMessage,
    address: *const c_void,
    bytes: usize,
    mode: c_int,
) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_pack", parameters: &["message", "address", "bytes", "mode"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe { super::pack(call, message, address, bytes, mode) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_end(message: *mut PackedMessage, request: *mut Request) -> c_int {
    static ENTRY: Entry = Entry { name: "combray_end", parameters: &["message", "request"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let message = call.out(1, message)?;
            let request = (!request.is_null()).then(|| Out::new(request));
            super::end(call, message, request)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_begin_unpack(
    communicator: Comm,
    source: c_int,
    tag: c_int,
    message: *mut PackedMessage,
) -> c_int {
    static ENTRY: Entry = Entry {
        name: "combray_begin_unpack",
        parameters: &["communicator", "source", "tag", "message"],
    };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let communicator = call.communicator(1, communicator)?;
            let message = call.out(4, message)?;
            super::begin_unpack(call, communicator, source, tag, message)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_unpack(
    message: PackedMessage,
    address: *mut c_void,
    bytes: usize,
    mode: c_int,
) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_unpack", parameters: &["message", "address", "bytes", "mode"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe { super::unpack(call, message, address, bytes, mode) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_end_unpack(
    message: *mut PackedMessage,
    request: *mut Request,
    status: *mut Status,
) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_end_unpack", parameters: &["message", "request", "status"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let message = call.out(1, message)?;
            let request = (!request.is_null()).then(|| Out::new(request));
            super::end_unpack(call, message, request, OutStatus(status))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_await(message: PackedMessage, status: *mut Status) -> c_int {
    static ENTRY: Entry = Entry { name: "combray_await", parameters: &["message", "status"] };
    enter_native(&ENTRY, |call| super::await_message(call, message, OutStatus(status)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_arrived(
    message: PackedMessage,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_arrived", parameters: &["message", "flag", "status"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let flag = call.out(2, flag)?;
            super::arrived(call, message, flag, OutStatus(status))
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_withdraw(message: *mut PackedMessage) -> c_int {
    static ENTRY: Entry = Entry { name: "combray_withdraw", parameters: &["message"] };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe { super::withdraw(call, call.out(1, message)?) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_isend(
    communicator: Comm,
    destination: c_int,
    tag: c_int,
    segments: *const Segment,
    count: c_int,
    request: *mut Request,
) -> c_int {
    static ENTRY: Entry = Entry {
        name: "combray_isend",
        parameters: &["communicator", "destination", "tag", "segments", "count", "request"],
    };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let communicator = call.communicator(1, communicator)?;
            let data = super::gathered(call, segments, count)?;
            let request = call.out(6, request)?;
            super::isend(call, communicator, destination, tag, data, request)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_irecv(
    communicator: Comm,
    source: c_int,
    tag: c_int,
    segments: *const Segment,
    count: c_int,
    request: *mut Request,
) -> c_int {
    static ENTRY: Entry = Entry {
        name: "combray_irecv",
        parameters: &["communicator", "source", "tag", "segments", "count", "request"],
    };
    enter_native(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let communicator = call.communicator(1, communicator)?;
            let data = super::gathered(call, segments, count)?;
            let request = call.out(6, request)?;
            super::irecv(call, communicator, source, tag, data, request)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_error_string(code: c_int, buffer: *mut c_char, size: usize) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_error_string", parameters: &["code", "buffer", "size"] };
    enter_native_any_time(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe { super::error_string(call, code, buffer, size) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_place(
    address: *mut c_void,
    bytes: usize,
    place: *const c_char,
) -> c_int {
    static ENTRY: Entry =
        Entry { name: "combray_place", parameters: &["address", "bytes", "where"] };
    enter_native_any_time(&ENTRY, |_| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe { super::place(address, bytes, place) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn combray_node_of(address: *const c_void, node: *mut c_int) -> c_int {
    static ENTRY: Entry = Entry { name: "combray_node_of", parameters: &["address", "node"] };
    enter_native_any_time(&ENTRY, |call| {
        // SAFETY: the program vouches for its pointers, as the header says of each one.
        unsafe {
            let node = call.out(2, node)?;
            super::node_of(address, node)
        }
    })
}
