#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod gates;
mod handshake;
mod joining;
mod link;
mod meeting;
mod names;
mod pair;
mod port;
mod port_name;
mod spawn;
mod wanted;

use std::rc::Rc;
use std::time::Duration;

use base::{Error, ErrorClass, Result};
use hangs::PortWait;
use mpi::Process;
use mpi::communicator::Communicator;

use meeting::{Meeting, wait};

pub use handshake::PortSide;
pub use joining::join;
pub use link::RootLink;
pub use names::{PublishedNames, PublishedService, PublisherState};
pub use pair::{MetPeer, PairMeeting, release_peer};
pub use port::{Port, PortSearch, PortTarget, Ports};
pub use port_name::PortSecret;
pub use spawn::{ChildJobs, SpawnCommand, Spawned, connect_to_parent, is_spawned, spawn};
pub use wanted::wanted_size;

/// The time that the other job has for each step, at least; longer if the timeout of hosts is
/// longer. Its processes may compute before they call.
const STEP_TIME_MIN: Duration = Duration::from_secs(60);

fn step_limit() -> Result<Duration> {
    let silence = runtime::configuration::host_timeout();
    let silence = silence.map_err(|wrong| Error::new(ErrorClass::Other, wrong))?;
    Ok(silence.max(STEP_TIME_MIN))
}

/// Waits until another job connects to a port, and returns the intercommunicator with the
/// processes of the other side (`MPI_Comm_accept`). Collective; the name of the port counts on
/// `root` only, which must have opened the port.
///
/// # Errors
/// On all members: `Port` if the root has no such port, or the connection fails before all
/// members know the other side; `Comm` if both sides have a process in common; those of collective
/// operations.
pub fn accept(
    process: &Process,
    communicator: &Rc<Communicator>,
    root: u32,
    (ports, name): (&Ports, &str),
) -> Result<Rc<Communicator>> {
    let meeting = Meeting { process, communicator, root, side: PortSide::Accepts };
    meeting.carry_out(
        |give_up| {
            let (port, limit) = (ports.get(name)?, step_limit()?);
            wait((process, PortWait::Connection), give_up, || port.poll_accept(limit))
        },
        &mut || None,
    )
}

/// Connects to a port of another job, and returns the intercommunicator with the processes of the
/// other side (`MPI_Comm_connect`). Collective; the name of the port counts on `root` only.
///
/// # Errors
/// Those of [`accept`], and `Port` if no process accepts on the port.
pub fn connect(
    process: &Process,
    communicator: &Rc<Communicator>,
    root: u32,
    name: &str,
) -> Result<Rc<Communicator>> {
    let meeting = Meeting { process, communicator, root, side: PortSide::Connects };
    meeting.carry_out(
        |give_up| {
            let mut search = PortSearch::new(name, step_limit()?)?;
            wait((process, PortWait::Acceptance), give_up, || search.poll())
        },
        &mut || None,
    )
}
