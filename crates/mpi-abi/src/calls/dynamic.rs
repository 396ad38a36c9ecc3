//! Connections between jobs (section 11.9 of the standard).

use std::rc::Rc;

use base::{Error, ErrorClass};
use mpi::info::Info;

use crate::arguments::{KnownCommunicator, Out, OutText};
use crate::c::Comm;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};

use super::communicators::hand_out;

/// Nothing outside of a call of the program ends it.
fn never() -> Option<Error> {
    None
}

fn port_text(position: usize, name: &[u8]) -> CallOutcome<&str> {
    str::from_utf8(name).map_err(|_| {
        let detail = "is not a name that MPI_Open_port has returned: it is not text";
        Failure::argument(position, ErrorClass::Port, detail)
    })
}

pub fn open_port(call: &Call, _info: Option<Rc<Info>>, port_name: OutText) -> CallOutcome<()> {
    let name = call.library.ports.open()?;
    port_name.write(name.as_bytes());
    Ok(())
}

pub fn close_port(call: &Call, port_name: &[u8]) -> CallOutcome<()> {
    let name = port_text(1, port_name)?;
    Ok(call.library.ports.close(name)?)
}

pub fn comm_accept(
    call: &Call,
    port_name: &[u8],
    _info: Option<Rc<Info>>,
    root: u32,
    comm: KnownCommunicator,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let (process, ports) = (&call.library.process, &call.library.ports);
    // A name that is not text is no name of a port; the call that finds that is collective.
    let name = String::from_utf8_lossy(port_name);
    let made = dynamic::accept(process, &comm, root, (ports, &name), &mut never)?;
    hand_out(call, Some(made), newcomm)
}

pub fn comm_connect(
    call: &Call,
    port_name: &[u8],
    _info: Option<Rc<Info>>,
    root: u32,
    comm: KnownCommunicator,
    newcomm: Out<Comm>,
) -> CallOutcome<()> {
    let name = String::from_utf8_lossy(port_name);
    let made = dynamic::connect(&call.library.process, &comm, root, &name, &mut never)?;
    hand_out(call, Some(made), newcomm)
}
