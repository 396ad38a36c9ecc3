//! Spawning: a job that processes of this job start, and that is connected to them
//! (section 11.8 of the MPI standard).
//!
//! The root starts the launcher of the job (`child_job`), which gives the new processes the name of
//! a port. Each of them connects to the port when it initializes MPI, together with the others.
//!
//! Why: docs/internals/decisions/0093-a-spawned-job-has-a-launcher-of-its-own.md

mod child_job;
mod command;

use std::cell::RefCell;
use std::rc::Rc;

use base::variables::PARENT_PORT;
use base::{Error, ErrorClass, GateId, Result};
use hangs::PortWait;
use mpi::Process;
use mpi::communicator::Communicator;

use crate::handshake::PortSide;
use crate::meeting::{Meeting, wait};
use crate::port::Ports;
use crate::step_limit;

use child_job::{ChildJob, FailurePolicy};
pub use command::SpawnCommand;

/// The jobs that this process has started, as the root of a spawn, and that end when it dies.
#[derive(Debug, Default)]
pub struct ChildJobs(RefCell<Vec<ConnectedChild>>);

/// A job that this process has started, and its processes.
#[derive(Debug)]
struct ConnectedChild {
    job: ChildJob,
    processes: Vec<GateId>,
}

/// The result of a spawn.
#[derive(Debug)]
pub struct Spawned {
    /// The intercommunicator with the new processes.
    pub intercommunicator: Result<Rc<Communicator>>,
    /// How many processes of each command were to be started at most, and how many of them are: all
    /// of these run, or none. Empty if the arguments of the root are wrong.
    pub processes: Vec<(u32, u32)>,
}

impl ChildJobs {
    /// Lets those jobs live on independently of this process with which it is no longer connected:
    /// `is_connected` returns whether this process shares a communicator with some of the given
    /// processes.
    pub fn release(&self, is_connected: impl Fn(&[GateId]) -> bool) {
        if self.0.borrow().is_empty() {
            return;
        }
        let all = self.0.take();
        let (kept, released) =
            all.into_iter().partition(|child: &ConnectedChild| is_connected(&child.processes));
        self.0.replace(kept);
        released.into_iter().for_each(|child: ConnectedChild| child.job.release());
    }
}

/// Starts a job, and returns the intercommunicator with its processes (`MPI_Comm_spawn` and
/// `MPI_Comm_spawn_multiple`). Collective; `commands` returns the programs of the job, and is
/// called on `root` only. If the job does not start, no process of it is left.
///
/// # Errors
/// The intercommunicator is an error on all members: that of `commands`; `Spawn` if a program does
/// not exist, is not executable, or ends before it has initialized MPI, or if there is no launcher;
/// those of [`accept`](crate::accept).
pub fn spawn(
    process: &Process,
    communicator: &Rc<Communicator>,
    root: u32,
    (ports, children): (&Ports, &ChildJobs),
    commands: impl FnOnce() -> Result<Vec<SpawnCommand>>,
) -> Spawned {
    let meeting = Meeting { process, communicator, root, side: PortSide::Accepts };
    let mut wanted = Vec::new();
    let planned = meeting.share(|| {
        wanted = commands()?;
        if wanted.is_empty() {
            return Err(Error::new(ErrorClass::Arg, "there is no command to spawn"));
        }
        Ok(wanted.iter().map(SpawnCommand::counts).collect())
    });
    let processes = match planned {
        Ok(processes) => processes,
        Err(error) => return Spawned { intercommunicator: Err(error), processes: Vec::new() },
    };
    let child: RefCell<Option<ChildJob>> = RefCell::default();
    let failure = || child.borrow_mut().as_mut().and_then(ChildJob::failure);
    let connect = |give_up: &mut dyn FnMut() -> Option<Error>| {
        wanted.iter().try_for_each(SpawnCommand::check_architecture)?;
        let failures = match process.configuration().keeps_going() {
            true => FailurePolicy::GoOn,
            false => FailurePolicy::End,
        };
        // The port is for these processes only, and is closed when they have connected.
        let mut opened = None;
        let open_port = || {
            let name = ports.open()?;
            opened = Some(name.clone());
            Ok(name)
        };
        let started = ChildJob::start(&wanted, failures, open_port);
        let name = opened.unwrap_or_default();
        let link = started.and_then(|job| {
            child.replace(Some(job));
            let (port, limit) = (ports.get(&name)?, step_limit()?);
            let count = wanted.iter().map(|command| command.counts().1).sum();
            let program = wanted[0].program().to_string_lossy().into_owned();
            let awaited = PortWait::Start(count, program);
            wait((process, awaited), give_up, || port.poll_accept(limit))
        });
        if !name.is_empty() {
            ports.close(&name)?;
        }
        link
    };
    let made = meeting.carry_out(connect, &mut || failure());
    let intercommunicator = made.inspect(|made| {
        let processes = made.remote().map(|remote| remote.group.gates().collect());
        let processes = processes.unwrap_or_default();
        let started = child.take().map(|job| ConnectedChild { job, processes });
        children.0.borrow_mut().extend(started);
    });
    Spawned { intercommunicator, processes }
}

/// Whether processes of another job have spawned the job of this process.
pub fn is_spawned() -> bool {
    sys::environment::text(PARENT_PORT).is_some()
}

/// Connects to the processes that have spawned the job of this process, and returns the
/// intercommunicator with them (`MPI_Comm_get_parent`); `None` if the job was not spawned.
/// Collective in the job, whose processes may have different models of initialization: the world,
/// or sessions only.
///
/// # Errors
/// Those of [`connect`](crate::connect): the processes that have spawned the job have ended.
pub fn connect_to_parent(process: &Process) -> Result<Option<Rc<Communicator>>> {
    let Some(port) = sys::environment::text(PARENT_PORT) else { return Ok(None) };
    crate::connect(process, process.internal_world(), 0, &port).map(Some)
}
