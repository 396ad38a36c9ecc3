//! Endpoints of the native interface.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::rc::Rc;
use std::time::Duration;

use base::{Error, ErrorClass};
use dynamic::PortSecret;
use endpoints::{
    ConnectRequest, EndpointDelivery, EndpointEvent, EndpointEventKind, EndpointOptions,
    EndpointSend, EventBody, LentData,
};
use memory::Buffer;
use mpi::ThreadLevel;
use mpi::error_handler::ErrorHandler;

use crate::arguments::{Out, OutText};
use crate::c::Passed;
use crate::call::Call;
use crate::calls::{environment, sessions};
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::MPI_SUCCESS;
use crate::phase;
use crate::report;

/// `combray_event`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventRecord {
    kind: c_int,
    status: c_int,
    connection: usize,
    context: usize,
    data: usize,
    bytes: usize,
    lent: usize,
}

impl Passed for EventRecord {
    fn word(self) -> usize {
        0
    }
}

/// `COMBRAY_EVENT_NONE`.
const NONE: c_int = 0;

/// `COMBRAY_NOTIFY`, `COMBRAY_UNORDERED` and `COMBRAY_UNRELIABLE`.
const NOTIFY: c_int = 1;
const UNORDERED: c_int = 2;
const UNRELIABLE: c_int = 4;

/// The time that a connection may take if the program gives none.
const CONNECT_TIME: Duration = Duration::from_secs(60);

pub fn open(call: &Call, options: Option<&[u8]>, endpoint: Out<usize>) -> CallOutcome<()> {
    let (parsed, level) = parse_options(options.unwrap_or_default())?;
    let process = &call.library.process;
    let (session, visit) = sessions::open(call, level, Rc::new(ErrorHandler::Return))?;
    let opened = call.library.endpoints.open(process, parsed);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // The first error says more.
            let _ = session.close(process);
            return Err(error.into());
        }
    };
    call.library.endpoint_sessions.borrow_mut().insert(opened, session);
    endpoint.set(opened as usize);
    drop(visit);
    environment::note_change(call);
    Ok(())
}

fn parse_options(options: &[u8]) -> CallOutcome<(EndpointOptions, ThreadLevel)> {
    let (mut parsed, mut level) = (EndpointOptions::default(), ThreadLevel::Single);
    let (mut key, mut is_encrypted) = (None, false);
    let text = String::from_utf8_lossy(options);
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let bytes = option.strip_prefix("memory=").map(str::parse::<u64>);
        match (option, bytes, option.strip_prefix("key=")) {
            ("threads", ..) => level = ThreadLevel::Multiple,
            ("encrypt", ..) => is_encrypted = true,
            (_, Some(Ok(bytes)), _) if bytes >= MEMORY_MIN => parsed.memory = bytes,
            (.., Some(file)) => key = Some(read_key(file)?),
            _ => {
                let detail = format!(
                    "has \"{option}\", but the options are \"threads\", \"encrypt\", \"key=FILE\" \
                     and \"memory=BYTES\" with at least {MEMORY_MIN} bytes, separated by commas"
                );
                return Err(Failure::argument(1, ErrorClass::Arg, detail));
            }
        }
    }
    if key.is_some() || is_encrypted {
        parsed.secret = Some(PortSecret::new(key, is_encrypted));
    }
    Ok((parsed, level))
}

/// Reads a key file, which only its owner may read.
fn read_key(file: &str) -> CallOutcome<Vec<u8>> {
    let wrong =
        |class, why: String| Failure::argument(1, class, format!("has the key file {file}, {why}"));
    let refused =
        |cause: io::Error| wrong(ErrorClass::Arg, format!("which cannot be read: {cause}"));
    // To open a pipe would wait for a writer.
    if !fs::metadata(file).map_err(refused)?.is_file() {
        return Err(wrong(ErrorClass::Arg, "which is no regular file".to_owned()));
    }
    let mut opened = File::open(file).map_err(refused)?;
    let facts = opened.metadata().map_err(refused)?;
    if facts.permissions().mode() & 0o077 != 0 {
        let why = "which other users may access: use chmod 600";
        return Err(wrong(ErrorClass::Access, why.to_owned()));
    }
    let mut key = Vec::new();
    opened.by_ref().take(KEY_BYTES.1 + 1).read_to_end(&mut key).map_err(refused)?;
    if !(KEY_BYTES.0..=KEY_BYTES.1).contains(&(key.len() as u64)) {
        let (least, most) = KEY_BYTES;
        let why = format!(
            "which must have {least} to {most} bytes: make it with head -c 32 /dev/urandom"
        );
        return Err(wrong(ErrorClass::Arg, why));
    }
    Ok(key)
}

/// How many bytes a key file has, at least and at most.
const KEY_BYTES: (u64, u64) = (16, 4096);

/// The smallest memory of an endpoint, in bytes.
const MEMORY_MIN: u64 = 64 << 10;

pub fn uri(call: &Call, endpoint: usize, buffer: OutText) -> CallOutcome<()> {
    let uri = call.library.endpoints.uri(key(endpoint)).map_err(of_first)?;
    if uri.len() >= buffer.size() {
        let detail = format!("is {}, but the URI needs {} bytes", buffer.size(), uri.len() + 1);
        return Err(Failure::argument(3, ErrorClass::Count, detail));
    }
    buffer.write(uri.as_bytes());
    Ok(())
}

pub fn descriptor(call: &Call, endpoint: usize, descriptor: Out<c_int>) -> CallOutcome<()> {
    let endpoints = &call.library.endpoints;
    let number = endpoints.descriptor(&call.library.process, key(endpoint)).map_err(of_first)?;
    descriptor.set(number);
    Ok(())
}

pub fn refused(call: &Call, endpoint: usize, count: Out<usize>) -> CallOutcome<()> {
    let refused = call.library.endpoints.refused(key(endpoint)).map_err(of_first)?;
    count.set(refused as usize);
    Ok(())
}

pub fn poll(
    call: &Call,
    endpoint: usize,
    event: Out<EventRecord>,
    timeout: c_int,
) -> CallOutcome<()> {
    let (endpoints, process) = (&call.library.endpoints, &call.library.process);
    let found = match timeout {
        0 => endpoints.poll(process, key(endpoint)),
        _ => {
            let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
            endpoints.wait(process, key(endpoint), limit)
        }
    };
    let found = found.map_err(of_first)?;
    event.set(match found {
        Some(found) => record_of(call, found),
        None => {
            let held = endpoints.exhausted_connection(key(endpoint)).unwrap_or(0);
            EventRecord { connection: held as usize, ..NOTHING }
        }
    });
    Ok(())
}

/// The record if there is no event.
const NOTHING: EventRecord = EventRecord {
    kind: NONE,
    status: MPI_SUCCESS,
    connection: 0,
    context: 0,
    data: 0,
    bytes: 0,
    lent: 0,
};

fn record_of(call: &Call, event: EndpointEvent) -> EventRecord {
    let EndpointEvent { kind, connection, context, body } = event;
    let kind = match kind {
        EndpointEventKind::ConnectRequest => 1,
        EndpointEventKind::Connected => 2,
        EndpointEventKind::Rejected => 3,
        EndpointEventKind::Received => 4,
        EndpointEventKind::Sent => 5,
        EndpointEventKind::Writable => 6,
        EndpointEventKind::Closed => 7,
        EndpointEventKind::Lost => 8,
        EndpointEventKind::Completed => 9,
        EndpointEventKind::Silent => 10,
        EndpointEventKind::Woken => 11,
    };
    let record = EventRecord { kind, connection: connection as usize, context, ..NOTHING };
    match body {
        EventBody::Nothing => record,
        // The endpoint keeps the memory until it is returned.
        EventBody::Lent(LentData { address, bytes, key }) => {
            EventRecord { data: address, bytes, lent: key as usize, ..record }
        }
        EventBody::Error(error) => {
            EventRecord { status: report::code_of(call, error.into()), ..record }
        }
    }
}

pub fn give_back(call: &Call, endpoint: usize, event: Out<EventRecord>) -> CallOutcome<()> {
    let record = event.value();
    // Events without data need not be returned.
    if record.lent != 0 {
        let lent = key(record.lent);
        let returned = call.library.endpoints.give_back(&call.library.process, key(endpoint), lent);
        returned.map_err(|error| Failure::of_argument(2, error))?;
    }
    event.set(EventRecord { data: 0, bytes: 0, lent: 0, ..record });
    Ok(())
}

pub fn close(call: &Call, endpoint: Out<usize>) -> CallOutcome<()> {
    let closed = key(endpoint.value());
    let process = &call.library.process;
    let visit = phase::enter_library(call);
    let session = call.library.endpoint_sessions.borrow_mut().remove(&closed);
    let Some(session) = session else {
        let detail = "names no endpoint: it was closed before, or never opened";
        return Err(Failure::argument(1, ErrorClass::Arg, detail));
    };
    call.library.endpoints.close(process, closed).map_err(of_first)?;
    let ended = session.close(process);
    drop(visit);
    environment::note_change(call);
    endpoint.set(0);
    Ok(ended?)
}

pub fn connect(
    call: &Call,
    endpoint: usize,
    uri: &[u8],
    data: Buffer,
    context: usize,
    timeout: c_int,
    connection: Out<usize>,
) -> CallOutcome<()> {
    let limit = u64::try_from(timeout).map_or(CONNECT_TIME, Duration::from_millis);
    let (uri, data) = (String::from_utf8_lossy(uri), bytes_of(&data));
    let request = ConnectRequest { uri: &uri, data: &data, context, timeout: limit };
    let connected = call.library.endpoints.connect(&call.library.process, key(endpoint), &request);
    let connected = connected.map_err(|error| match error.class {
        ErrorClass::Port => Failure::of_argument(2, error),
        ErrorClass::Count => Failure::of_argument(4, error),
        _ => of_first(error),
    })?;
    connection.set(connected as usize);
    Ok(())
}

pub fn accept(call: &Call, connection: usize, context: usize) -> CallOutcome<()> {
    let accepted = call.library.endpoints.accept(&call.library.process, key(connection), context);
    accepted.map_err(of_first)
}

pub fn reject(call: &Call, connection: usize, data: Buffer) -> CallOutcome<()> {
    let (process, data) = (&call.library.process, bytes_of(&data));
    let rejected = call.library.endpoints.reject(process, key(connection), &data);
    rejected.map_err(|error| match error.class {
        ErrorClass::Count => Failure::of_argument(3, error),
        _ => of_first(error),
    })
}

pub fn disconnect(call: &Call, connection: usize) -> CallOutcome<()> {
    call.library.endpoints.disconnect(&call.library.process, key(connection)).map_err(of_first)
}

pub fn keepalive(call: &Call, connection: usize, milliseconds: c_int) -> CallOutcome<()> {
    let limit = u64::try_from(milliseconds).map_err(|_| {
        let detail = format!("is {milliseconds}, but must not be negative");
        Failure::argument(2, ErrorClass::Arg, detail)
    })?;
    let limit = (limit > 0).then(|| Duration::from_millis(limit));
    call.library
        .endpoints
        .set_keepalive(&call.library.process, key(connection), limit)
        .map_err(of_first)
}

pub fn wake(call: &Call, endpoint: usize) -> CallOutcome<()> {
    call.library.endpoints.wake(&call.library.process, key(endpoint)).map_err(of_first)
}

pub fn send(
    call: &Call,
    connection: usize,
    data: Buffer,
    context: usize,
    flags: c_int,
) -> CallOutcome<()> {
    let (notifies, delivery) = delivery_of(flags)?;
    let send = EndpointSend { data, completion: notifies.then_some(context), delivery };
    let sent = call.library.endpoints.send(&call.library.process, key(connection), send);
    let sent = sent.map_err(|error| match error.class {
        ErrorClass::Count => Failure::of_argument(3, error),
        _ => of_first(error),
    })?;
    if sent {
        return Ok(());
    }
    let detail = "the other program holds all messages that it may hold: send again after the \
                  event COMBRAY_WRITABLE";
    Err(Failure::new(ErrorClass::Pending, detail))
}

/// Returns what the flags of `combray_send` stand for: whether an event follows, and how the
/// message is delivered.
fn delivery_of(flags: c_int) -> CallOutcome<(bool, EndpointDelivery)> {
    let delivery = match flags & !NOTIFY {
        0 => EndpointDelivery::Ordered,
        UNORDERED => EndpointDelivery::Unordered,
        UNRELIABLE if flags & NOTIFY == 0 => EndpointDelivery::Unreliable,
        _ => {
            let detail = format!(
                "is {flags}, but must be 0, COMBRAY_UNRELIABLE, or the sum of some of \
                 COMBRAY_NOTIFY and COMBRAY_UNORDERED"
            );
            return Err(Failure::argument(5, ErrorClass::Arg, detail));
        }
    };
    Ok((flags & NOTIFY != 0, delivery))
}

pub fn dropped(call: &Call, connection: usize, count: Out<usize>) -> CallOutcome<()> {
    count.set(call.library.endpoints.dropped(key(connection)).map_err(of_first)? as usize);
    Ok(())
}

/// Returns whether the flags, the argument at `position`, contain `COMBRAY_NOTIFY`.
pub(super) fn notifies(position: usize, flags: c_int) -> CallOutcome<bool> {
    if flags & !NOTIFY != 0 {
        let detail = format!("is {flags}, but must be 0 or COMBRAY_NOTIFY");
        return Err(Failure::argument(position, ErrorClass::Arg, detail));
    }
    Ok(flags & NOTIFY != 0)
}

fn bytes_of(data: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; data.len()];
    data.read(0, &mut bytes);
    bytes
}

/// Returns the key in a handle; 0, which names nothing, for a value that cannot be a handle.
pub(super) fn key(handle: usize) -> u32 {
    u32::try_from(handle).unwrap_or(0)
}

pub(super) fn of_first(error: Error) -> Failure {
    Failure::of_argument(1, error)
}
