//! The launcher of a spawned job: its connections to the process that spawned the job, and to the
//! launcher above it.

use std::io;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use launch::SUPERVISOR;
use launch::spawning::{SPAWNED_LAUNCHER, SpawnReport};
use sys::cores;
use sys::process::{self, Interest};

use super::line_socket::LineSocket;
use super::{
    AddressedOrder, SlotExpectation, SpawnedMessage, SpawnedNotice, SpawnedOrder, SpawnedSummary,
};
use super::{ENDS_ALL, address, encoded};
use crate::local::host_name;
use crate::protocol::START_TIME_MAX;
use crate::{JobPlan, LaunchError, ParentLink, SlotTable, random_name};

/// The connection to the supervisor or agent of the job whose processes have spawned this one.
#[derive(Debug)]
pub(crate) struct LauncherAbove {
    socket: LineSocket,
    /// The name of this job among the launchers.
    pub job: String,
}

/// Where a spawned job comes from.
#[derive(Debug)]
pub struct SpawnedOrigin {
    pub(crate) parent: ParentLink,
    /// None: no launcher has started the process that spawned the job.
    pub(crate) above: Option<LauncherAbove>,
    /// Whether the launcher above was asked for the table of slots, and the answer was not awaited.
    is_asked: bool,
    /// The version of the table of slots that was received last.
    version: u64,
    /// Whether slots of that table are about to come back.
    pub expectation: SlotExpectation,
}

/// Whether a spawned job got its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It has them.
    Taken,
    /// The table has changed meanwhile: they must be chosen anew.
    Changed,
}

/// How many names of hosts a summary contains at most.
const HOSTS_MAX: usize = 16;

impl SpawnedOrigin {
    /// Begins the launcher of a spawned job in a new process, which is no child of the spawning
    /// one, whose program may wait for children of its own. In the calling process it returns
    /// `None`.
    ///
    /// # Errors
    /// The system's.
    pub fn detach() -> Result<Option<Self>, LaunchError> {
        let parent = ParentLink::open().map_err(|cause| {
            let what = "the process that spawns this job is not at the standard input";
            LaunchError::new(format!("{what}: {cause}"))
        })?;
        let supervisor = process::ancestor_named(SUPERVISOR);
        supervisor.into_iter().for_each(follow);
        // If there is no connection, the job ends with that of the spawning process.
        let mut above = supervisor.and_then(|one| LauncherAbove::connect(one as u32).ok());
        if let Some(above) = &mut above {
            // The answer arrives while this process forks.
            above.report(SpawnedNotice::Hosts);
        }
        if process::fork()? != 0 {
            return Ok(None);
        }
        // If the system does not allow it, only the name is missing.
        let _ = std::fs::write("/proc/self/comm", SPAWNED_LAUNCHER);
        let is_asked = above.is_some();
        Ok(Some(Self { parent, above, is_asked, version: 0, expectation: SlotExpectation::No }))
    }

    /// Waits for the name of the port to which the processes of the job connect.
    ///
    /// # Errors
    /// The process that spawns the job has ended, or gives no port.
    pub fn port(&mut self) -> Result<String, LaunchError> {
        self.parent.port().map_err(LaunchError::new)
    }

    /// Tells the process that spawned the job that it cannot be started.
    pub fn fail(&self, message: String) {
        self.parent.report(&SpawnReport::Failed(message));
    }

    /// Returns the current table of slots; `None` if there is no launcher to ask.
    ///
    /// # Errors
    /// The launcher above does not answer.
    pub fn slot_table(&mut self) -> Result<Option<SlotTable>, LaunchError> {
        let Some(above) = &mut self.above else { return Ok(None) };
        let answer = match std::mem::take(&mut self.is_asked) {
            true => above.answer()?,
            false => above.ask(SpawnedNotice::Hosts)?,
        };
        let SpawnedOrder::Hosts { version, table, expectation } = answer else { return Ok(None) };
        self.version = version;
        self.expectation = expectation;
        Ok(Some(SlotTable::parse(&table).unwrap_or_default()))
    }

    /// Takes the slots of the hosts on which the plan, with the current table of slots, places the
    /// processes.
    ///
    /// # Errors
    /// There are not enough slots, or the launcher above does not answer.
    pub fn take(&mut self, plan: &JobPlan) -> Result<Claim, LaunchError> {
        let version = self.version;
        let Some(above) = &mut self.above else { return Ok(Claim::Taken) };
        let placement = plan.placement()?;
        let taken = plan.slots_after(&placement).1;
        let mut slots: Vec<(String, u32)> = Vec::new();
        for name in taken.into_iter().flatten() {
            match slots.iter_mut().rfind(|one| one.0 == name) {
                Some(known) => known.1 += 1,
                None => slots.push((name, 1)),
            }
        }
        let named = |host: &Option<String>| host.clone().unwrap_or_else(host_name);
        let summary = SpawnedSummary {
            job: std::process::id(),
            host: host_name(),
            program: plan.command_line(),
            ranks: placement.ranks.len() as u32,
            hosts: placement.hosts.iter().take(HOSTS_MAX).map(named).collect(),
        };
        let answer = above.ask(SpawnedNotice::Take { version, slots, summary })?;
        Ok(if answer == SpawnedOrder::Taken { Claim::Taken } else { Claim::Changed })
    }
}

/// Lets this process run on all cores of the job to which the spawning process belongs, whose
/// supervisor is given. The spawning process, from which this one has inherited its cores, may be
/// bound to a few of them.
fn follow(supervisor: i32) {
    if let Ok(allowed) = cores::allowed_to(supervisor) {
        // If the system does not allow it, the processes share the cores of the spawning one.
        let _ = cores::Cores::of(&allowed).and_then(|cores| cores.bind());
    }
}

impl LauncherAbove {
    pub(super) fn connect(supervisor: u32) -> io::Result<Self> {
        let user = process::user();
        let stream = UnixStream::connect_addr(&address(user, supervisor)?)?;
        // Containers that share the network may have processes with one number.
        let is_it = sys::socket::peer_process(stream.as_fd())? == supervisor;
        if sys::socket::peer_user(stream.as_fd())? != user || !is_it {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.set_nonblocking(true)?;
        Ok(Self { socket: LineSocket::new(stream), job: random_name()? })
    }

    /// Sends a question and waits for the answer.
    fn ask(&mut self, question: SpawnedNotice) -> Result<SpawnedOrder, LaunchError> {
        self.report(question);
        self.answer()
    }

    /// Waits for the answer to a question.
    fn answer(&mut self) -> Result<SpawnedOrder, LaunchError> {
        let lost = |what: &str| {
            LaunchError::new(format!("the launcher of the job that spawns this one {what}"))
        };
        let deadline = Instant::now() + START_TIME_MAX;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Err(lost("does not answer"));
            }
            process::poll(&[self.watched()], Some(left))?;
            let (orders, is_open) = self.read();
            // An order to end may follow the answer.
            let ends = |one: &AddressedOrder| match one.order {
                SpawnedOrder::Signal(number) => ENDS_ALL.contains(&number),
                _ => false,
            };
            if orders.iter().any(ends) {
                return Err(lost("is being ended"));
            }
            for AddressedOrder { order, .. } in orders {
                match order {
                    // There are no processes yet.
                    SpawnedOrder::Signal(_) => {}
                    answer => return Ok(answer),
                }
            }
            if !is_open {
                return Err(lost("has ended"));
            }
        }
    }

    /// Reports about this job.
    pub(crate) fn report(&mut self, notice: SpawnedNotice) {
        let job = self.job.clone();
        self.send(&SpawnedMessage { job, parent: None, notice });
    }

    /// Sends a message, of this job or of one below it.
    pub(crate) fn send(&mut self, message: &SpawnedMessage) {
        // The end of the connection is noticed when it is read.
        let _ = self.socket.send(&encoded(message));
    }

    pub(crate) fn watched(&self) -> (RawFd, Interest) {
        self.socket.watched()
    }

    /// Returns what has arrived, and whether the connection is still open.
    pub(crate) fn read(&mut self) -> (Vec<AddressedOrder>, bool) {
        let mut lines = Vec::new();
        let is_open = self.socket.serve(&mut lines).is_ok();
        let orders = lines.iter().filter_map(|line| serde_json::from_slice(line).ok());
        (orders.collect(), is_open)
    }
}
