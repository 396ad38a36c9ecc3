//! The exported functions of `combray.h`, which documents the purpose of each and what its caller
//! must guarantee.

use std::ffi::{c_char, c_int, c_void};

use super::PackedSegment;
use super::endpoints::EventRecord;
use super::registered::MemoryRecord;
use crate::c::{Comm, Info, PackedMessage, Request, Status};
use crate::entry::native;

native! {
    open combray_begin(communicator: Comm, destination: c_int, tag: c_int,
        message: *mut PackedMessage);
    communicator = communicator(1, communicator);
    destination = destination(2, destination, &communicator); tag = send_tag(3, tag);
    message = out(4, message);
    => native::begin(communicator, destination, tag, message)
}

native! {
    open combray_pack(message: PackedMessage, address: *const c_void, bytes: usize, mode: c_int);
    address = segment(2, address, bytes); mode = mode(4, mode);
    => native::pack(message, address, mode)
}

native! {
    open combray_end(message: *mut PackedMessage, request: *mut Request);
    message = out(1, message); request = optional_out(2, request);
    => native::end(message, request)
}

native! {
    open combray_begin_unpack(communicator: Comm, source: c_int, tag: c_int,
        message: *mut PackedMessage);
    communicator = communicator(1, communicator);
    source = source(2, source, &communicator); tag = receive_tag(3, tag);
    message = out(4, message);
    => native::begin_unpack(communicator, source, tag, message)
}

native! {
    open combray_unpack(message: PackedMessage, address: *mut c_void, bytes: usize, mode: c_int);
    address = segment(2, address, bytes); mode = mode(4, mode);
    => native::unpack(message, address, mode)
}

native! {
    open combray_end_unpack(message: *mut PackedMessage, request: *mut Request,
        status: *mut Status);
    message = out(1, message); request = optional_out(2, request);
    status = out_status(3, status);
    => native::end_unpack(message, request, status)
}

native! {
    open combray_await(message: PackedMessage, status: *mut Status);
    status = out_status(2, status);
    => native::await_message(message, status)
}

native! {
    open combray_arrived(message: PackedMessage, flag: *mut c_int, status: *mut Status);
    flag = out(2, flag); status = out_status(3, status);
    => native::arrived(message, flag, status)
}

native! {
    open combray_withdraw(message: *mut PackedMessage);
    message = out(1, message);
    => native::withdraw(message)
}

native! {
    open combray_isend(communicator: Comm, destination: c_int, tag: c_int,
        segments: *const PackedSegment, count: c_int, request: *mut Request);
    communicator = communicator(1, communicator);
    segments = segments(4, segments, count);
    destination = destination(2, destination, &communicator); tag = send_tag(3, tag);
    request = out(6, request);
    => native::isend(communicator, destination, tag, segments, request)
}

native! {
    open combray_irecv(communicator: Comm, source: c_int, tag: c_int,
        segments: *const PackedSegment, count: c_int, request: *mut Request);
    communicator = communicator(1, communicator);
    segments = segments(4, segments, count);
    source = source(2, source, &communicator); tag = receive_tag(3, tag);
    request = out(6, request);
    => native::irecv(communicator, source, tag, segments, request)
}

native! {
    any combray_error_string(code: c_int, buffer: *mut c_char, size: usize);
    buffer = out_text(2, buffer, size);
    => native::error_string(code, buffer)
}

native! {
    any combray_place(address: *mut c_void, bytes: usize, r#where: *const c_char);
    address = address(1, address); r#where = text(3, r#where);
    => native::places::place(address, bytes, r#where)
}

native! {
    open combray_phase(name: *const c_char);
    name = text(1, name);
    => native::phase(name)
}

native! {
    open combray_wanted_size(communicator: Comm, processes: *mut c_int, hints: *mut Info);
    communicator = communicator(1, communicator);
    processes = out(2, processes); hints = out(3, hints);
    => native::sizes::wanted_size(communicator, processes, hints)
}

native! {
    open combray_publish_set(communicator: Comm, name: *const c_char);
    communicator = communicator(1, communicator); name = text(2, name);
    => native::sizes::publish_set(communicator, name)
}

native! {
    open combray_withdraw_set(name: *const c_char);
    name = text(1, name);
    => native::sizes::withdraw_set(name)
}

native! {
    any combray_place_reason(buffer: *mut c_char, size: usize);
    buffer = out_text(1, buffer, size);
    => native::places::reason(buffer)
}

native! {
    any combray_near_copy(address: *const c_void, bytes: usize, reads: f64,
        copy: *mut *const c_void);
    address = segment(1, address, bytes); copy = out(4, copy);
    => native::places::near_copy(address, reads, copy)
}

native! {
    any combray_free_copies(address: *const c_void);
    address = address(1, address);
    => native::places::free_copies(address)
}

native! {
    any combray_node_of(address: *const c_void, node: *mut c_int);
    address = address(1, address); node = out(2, node);
    => native::places::node_of(address, node)
}

native! {
    open combray_rails(count: *mut c_int);
    count = out(1, count);
    => native::rails::count(count)
}

native! {
    open combray_rail_name(rail: c_int, buffer: *mut c_char, size: usize);
    buffer = out_text(2, buffer, size);
    => native::rails::name(rail, buffer)
}

native! {
    open combray_rail_place(rail: c_int, node: *mut c_int, distance: *mut c_int);
    node = optional_out(2, node); distance = optional_out(3, distance);
    => native::rails::place(rail, node, distance)
}

native! {
    open combray_nearest_rail(rail: *mut c_int);
    rail = out(1, rail);
    => native::rails::nearest(rail)
}

native! {
    any combray_endpoint_open(options: *const c_char, endpoint: *mut usize);
    options = optional_text(1, options); endpoint = out(2, endpoint);
    => native::endpoints::open(options, endpoint)
}

native! {
    open combray_endpoint_uri(endpoint: usize, buffer: *mut c_char, size: usize);
    buffer = out_text(2, buffer, size);
    => native::endpoints::uri(endpoint, buffer)
}

native! {
    open combray_endpoint_descriptor(endpoint: usize, descriptor: *mut c_int);
    descriptor = out(2, descriptor);
    => native::endpoints::descriptor(endpoint, descriptor)
}

native! {
    open combray_endpoint_refused(endpoint: usize, count: *mut usize);
    count = out(2, count);
    => native::endpoints::refused(endpoint, count)
}

native! {
    open combray_endpoint_poll(endpoint: usize, event: *mut EventRecord, timeout: c_int);
    event = out(2, event);
    => native::endpoints::poll(endpoint, event, timeout)
}

native! {
    open combray_return(endpoint: usize, event: *mut EventRecord);
    event = out(2, event);
    => native::endpoints::give_back(endpoint, event)
}

native! {
    any combray_endpoint_close(endpoint: *mut usize);
    endpoint = out(1, endpoint);
    => native::endpoints::close(endpoint)
}

native! {
    open combray_connect(endpoint: usize, uri: *const c_char, data: *const c_void, bytes: usize,
        context: *const c_void, timeout: c_int, connection: *mut usize);
    uri = text(2, uri); data = segment(3, data, bytes); context = address(5, context);
    connection = out(7, connection);
    => native::endpoints::connect(endpoint, uri, data, context, timeout, connection)
}

native! {
    open combray_accept(connection: usize, context: *const c_void);
    context = address(2, context);
    => native::endpoints::accept(connection, context)
}

native! {
    open combray_reject(connection: usize, data: *const c_void, bytes: usize);
    data = segment(2, data, bytes);
    => native::endpoints::reject(connection, data)
}

native! {
    open combray_disconnect(connection: usize);
    => native::endpoints::disconnect(connection)
}

native! {
    open combray_keepalive(connection: usize, milliseconds: c_int);
    => native::endpoints::keepalive(connection, milliseconds)
}

native! {
    open combray_endpoint_wake(endpoint: usize);
    => native::endpoints::wake(endpoint)
}

native! {
    open combray_send(connection: usize, data: *const c_void, bytes: usize, context: *const c_void,
        flags: c_int);
    data = segment(2, data, bytes); context = address(4, context);
    => native::endpoints::send(connection, data, context, flags)
}

native! {
    open combray_dropped(connection: usize, count: *mut usize);
    count = out(2, count);
    => native::endpoints::dropped(connection, count)
}

native! {
    open combray_memory_register(endpoint: usize, address: *mut c_void, bytes: usize,
        permissions: c_int, memory: *mut MemoryRecord);
    part = segment(2, address, bytes); memory = out(5, memory);
    => native::registered::register(endpoint, part, permissions, memory)
}

native! {
    open combray_memory_deregister(endpoint: usize, memory: *const MemoryRecord);
    memory = out(2, memory.cast_mut());
    => native::registered::deregister(endpoint, memory)
}

native! {
    open combray_memory_read(connection: usize, memory: *const MemoryRecord, offset: usize,
        address: *mut c_void, bytes: usize, context: *const c_void, flags: c_int);
    memory = out(2, memory.cast_mut()); into = segment(4, address, bytes);
    context = address(6, context);
    => native::registered::read(connection, memory, offset, into, context, flags)
}

native! {
    open combray_memory_write(connection: usize, memory: *const MemoryRecord, offset: usize,
        address: *const c_void, bytes: usize, message: *const c_void, message_bytes: usize,
        context: *const c_void, flags: c_int);
    memory = out(2, memory.cast_mut()); from = segment(4, address, bytes);
    text = segment(6, message, message_bytes); context = address(8, context);
    => native::registered::write(connection, memory, offset, from, message, text, context, flags)
}

native! {
    open combray_memory_fence(connection: usize, context: *const c_void, flags: c_int);
    context = address(2, context);
    => native::registered::fence(connection, context, flags)
}
