//! Registered memory of the native interface.

use std::ffi::{c_int, c_void};

use base::{Error, ErrorClass};
use endpoints::{MemoryAction, MemoryName, MemoryPermissions};
use memory::Buffer;

use super::endpoints::{key, notifies, of_first};
use crate::arguments::Out;
use crate::c::Passed;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

/// `combray_memory`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MemoryRecord {
    bytes: [u8; MemoryName::BYTES],
}

impl Passed for MemoryRecord {
    fn word(self) -> usize {
        0
    }
}

/// `COMBRAY_MAY_READ` and `COMBRAY_MAY_WRITE`.
const MAY_READ: c_int = 1;
const MAY_WRITE: c_int = 2;

pub fn register(
    call: &Call,
    endpoint: usize,
    part: Buffer,
    permissions: c_int,
    memory: Out<MemoryRecord>,
) -> CallOutcome<()> {
    if permissions & !(MAY_READ | MAY_WRITE) != 0 || permissions == 0 {
        let detail = format!(
            "is {permissions}, but must be COMBRAY_MAY_READ, COMBRAY_MAY_WRITE, or their sum"
        );
        return Err(Failure::argument(4, ErrorClass::Arg, detail));
    }
    let permissions = MemoryPermissions {
        read: permissions & MAY_READ != 0,
        write: permissions & MAY_WRITE != 0,
    };
    let (endpoints, process) = (&call.library.endpoints, &call.library.process);
    let registered = endpoints.register(process, key(endpoint), part, permissions);
    let name = registered.map_err(|error| match error.class {
        ErrorClass::Count => Failure::of_argument(3, error),
        _ => of_first(error),
    })?;
    memory.set(MemoryRecord { bytes: name.to_bytes() });
    Ok(())
}

pub fn deregister(call: &Call, endpoint: usize, memory: Out<MemoryRecord>) -> CallOutcome<()> {
    let name = name_of(memory)?;
    let (endpoints, process) = (&call.library.endpoints, &call.library.process);
    endpoints.deregister(process, key(endpoint), &name).map_err(|error| match error.class {
        ErrorClass::Base => Failure::of_argument(2, error),
        _ => of_first(error),
    })
}

pub fn read(
    call: &Call,
    connection: usize,
    memory: Out<MemoryRecord>,
    offset: usize,
    into: Buffer,
    context: usize,
    flags: c_int,
) -> CallOutcome<()> {
    let (name, notifies) = (name_of(memory)?, notifies(7, flags)?);
    let action = MemoryAction::Read { name, offset: offset as u64, into };
    begin(call, connection, action, (context, notifies))
}

#[expect(clippy::too_many_arguments, reason = "they are those of the function in C")]
pub fn write(
    call: &Call,
    connection: usize,
    memory: Out<MemoryRecord>,
    offset: usize,
    from: Buffer,
    message: *const c_void,
    text: Buffer,
    context: usize,
    flags: c_int,
) -> CallOutcome<()> {
    let (name, notifies) = (name_of(memory)?, notifies(9, flags)?);
    let message = (!message.is_null()).then_some(text);
    let action = MemoryAction::Write { name, offset: offset as u64, from, message };
    begin(call, connection, action, (context, notifies))
}

pub fn fence(call: &Call, connection: usize, context: usize, flags: c_int) -> CallOutcome<()> {
    let notifies = notifies(3, flags)?;
    begin(call, connection, MemoryAction::Fence, (context, notifies))
}

fn begin(
    call: &Call,
    connection: usize,
    action: MemoryAction,
    event: (usize, bool),
) -> CallOutcome<()> {
    let (endpoints, process) = (&call.library.endpoints, &call.library.process);
    let begun = endpoints.transfer(process, key(connection), action, event);
    let begun = begun.map_err(|error| match error.class {
        ErrorClass::Access => Failure::of_argument(2, error),
        ErrorClass::RmaRange => Failure::of_argument(2, error),
        ErrorClass::Count => Failure::of_argument(7, error),
        _ => of_first(error),
    })?;
    if begun {
        return Ok(());
    }
    let detail = "too many reads and writes of the connection are underway: try again after the \
                  event COMBRAY_WRITABLE";
    Err(Failure::new(ErrorClass::Pending, detail))
}

fn name_of(memory: Out<MemoryRecord>) -> CallOutcome<MemoryName> {
    MemoryName::from_bytes(&memory.value().bytes).ok_or_else(|| {
        let detail = "is no value that combray_memory_register has returned";
        Failure::of_argument(2, Error::new(ErrorClass::Base, detail))
    })
}
