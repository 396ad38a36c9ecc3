//! Connections between jobs (section 11.9 of the standard).

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use base::ErrorClass;
use dynamic::PublishedNames;
use mpi::info::Info;

use crate::arguments::{KnownCommunicator, Out, OutText};
use crate::c::{self, Comm};
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

use super::communicators::hand_out;

pub fn open_port(call: &Call, _info: Option<Rc<Info>>, port_name: OutText) -> CallOutcome<()> {
    let name = call.library.ports.open()?;
    port_name.write(name.as_bytes());
    Ok(())
}

pub fn close_port(call: &Call, port_name: &[u8]) -> CallOutcome<()> {
    Ok(call.library.ports.close(&String::from_utf8_lossy(port_name))?)
}

pub fn comm_accept(
    call: &Call,
    port_name: &[u8],
    _info: c::Info,
    root: u32,
    comm: KnownCommunicator,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let (process, ports) = (&call.library.process, &call.library.ports);
    call.library.close_unused_gates();
    // A name that is not text is no name of a port; the call that finds that is collective.
    let name = String::from_utf8_lossy(port_name);
    let made = dynamic::accept(process, &comm, root, (ports, &name))?;
    hand_out(call, Some(made), newcomm)
}

pub fn comm_connect(
    call: &Call,
    port_name: &[u8],
    _info: c::Info,
    root: u32,
    comm: KnownCommunicator,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    call.library.close_unused_gates();
    let name = String::from_utf8_lossy(port_name);
    let made = dynamic::connect(&call.library.process, &comm, root, &name)?;
    hand_out(call, Some(made), newcomm)
}

pub fn comm_join(call: &Call, fd: c_int, intercomm: Out<Comm>) -> CallOutcome<()> {
    if fd < 0 {
        let detail = format!("is {fd}, but must be the descriptor of a socket");
        return Err(Failure::argument(1, ErrorClass::Arg, detail));
    }
    call.library.close_unused_gates();
    // SAFETY: the program guarantees that the descriptor stays open during the call (MPI 5.0,
    // section 11.10.4); if it is not open, the system refuses each use of it.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    let made = dynamic::join(&call.library.process, socket)?;
    hand_out(call, Some(made), intercomm)
}

pub fn publish_name(
    _call: &Call,
    service_name: &[u8],
    _info: Option<Rc<Info>>,
    port_name: &[u8],
) -> CallOutcome<()> {
    Ok(PublishedNames::open()?.publish(service_name, port_name)?)
}

pub fn lookup_name(
    _call: &Call,
    service_name: &[u8],
    _info: Option<Rc<Info>>,
    port_name: OutText,
) -> CallOutcome<()> {
    port_name.write(&PublishedNames::open()?.look_up(service_name)?);
    Ok(())
}

pub fn unpublish_name(
    _call: &Call,
    service_name: &[u8],
    _info: Option<Rc<Info>>,
    port_name: &[u8],
) -> CallOutcome<()> {
    Ok(PublishedNames::open()?.unpublish(service_name, port_name)?)
}
