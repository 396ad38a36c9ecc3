//! What a process passes to its drivers, and the doorbells that drivers provide.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use base::GateId;
use memory_costs::CostTable;

use crate::rendezvous::{Copying, MiddleWay};

/// Where a driver gets data about the other processes of its job.
pub trait Directory: Send {
    /// Returns the [card](crate::Driver::card) of the driver of that name in the process behind
    /// `gate`.
    ///
    /// # Errors
    /// The card cannot be had.
    fn card(&mut self, gate: GateId) -> Result<String, DriverError>;

    /// Returns the secret that only processes of this job have. A directory keeps it, so this may
    /// be called at any time.
    ///
    /// # Errors
    /// The secret cannot be had.
    fn secret(&mut self) -> Result<Secret, DriverError>;

    /// Returns how this process and the process behind `gate` identify each other, if that process
    /// belongs to a connected job.
    fn between_jobs(&mut self, _gate: GateId) -> Option<JobPair> {
        None
    }

    /// Returns the secrets that this process has in common with processes of connected jobs.
    fn other_secrets(&mut self) -> Vec<PairSecret> {
        Vec::new()
    }
}

/// How two processes of different jobs identify each other, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobPair {
    /// The gate by which the peer names this process.
    pub own_gate: GateId,
    /// The rank of the peer in its job.
    pub peer_rank: u32,
    /// The secret of the two jobs.
    pub secret: PairSecret,
    /// Whether this process precedes the peer in the order of the processes of all jobs.
    pub comes_first: bool,
}

/// A secret of two jobs, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSecret {
    /// The secret.
    pub secret: Secret,
    /// Whether what leaves the machine is encrypted between the processes that have it.
    pub is_encrypted: bool,
}

/// A secret that only the processes of a job have.
pub type Secret = [u8; 32];

/// A directory that has cards only.
impl<F> Directory for F
where
    F: FnMut(GateId) -> Result<String, DriverError> + Send,
{
    fn card(&mut self, gate: GateId) -> Result<String, DriverError> {
        self(gate)
    }

    fn secret(&mut self) -> Result<Secret, DriverError> {
        Err(DriverError { message: "the job has no secret".into() })
    }
}

/// Reads the card of a peer from a directory.
///
/// # Errors
/// The card cannot be had, or is malformed.
pub fn read_card<C: FromStr<Err = String>>(
    directory: &mut dyn Directory,
    gate: GateId,
) -> Result<C, DriverError> {
    directory.card(gate)?.parse().map_err(|message| DriverError { message })
}

/// The settings of all drivers. Each driver reads the ones that concern it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The networks to use between machines, as the user configured them: names of interfaces, and
    /// networks, separated by commas. Empty: each driver chooses.
    pub networks: String,
    /// Whether to read and write the memory of other processes (single copy) where that works.
    pub single_copy: bool,
    /// A name for this machine that replaces its own. Processes with another name are treated as
    /// processes of other machines.
    pub node: Option<String>,
    /// The version of the format of packets, which must be equal in both processes.
    pub records: u32,
    /// What a launcher has opened for this process that the process may not open itself. For each
    /// driver: its name, `=` and a text that the driver defines, separated by blanks.
    pub descriptors: String,
    /// The number of processes of the job; 0: unknown.
    pub processes: usize,
    /// A machine from which nothing arrives for this long counts as failed.
    pub silence: Duration,
    /// Returns the NUMA node near the interface with this name, if this process may run there.
    /// `None` if the places of interfaces do not matter.
    pub node_of_interface: Option<fn(&str) -> Option<u32>>,
    /// The measured costs of accesses to this machine's memory, if there are any. They predict
    /// which way of copying is faster until both have been timed.
    pub memory: Option<Arc<CostTable>>,
    /// How the data of messages is copied inside the machine, if the driver does not choose.
    pub copying: GivenCopying,
}

/// The way of copying inside the machine that is used instead of the fastest one, for measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenCopying {
    /// For messages of middle length.
    pub middle: Option<MiddleWay>,
    /// For longer messages.
    pub long: Option<Copying>,
}

/// What another process has opened for a process: a text that describes it, and the descriptors,
/// which the process must inherit under these numbers.
pub type PassedDescriptors = (String, Vec<OwnedFd>);

impl Settings {
    /// Returns the text that belongs to a driver, if there is one.
    pub fn descriptors_of(&self, driver: &str) -> Option<&str> {
        let mut all = self.descriptors.split_whitespace();
        all.find_map(|one| one.strip_prefix(driver)?.strip_prefix('='))
    }
}

/// A word on which a thread sleeps. The thread calls [`arm`](Self::arm), checks once more whether
/// there is work, and calls [`wait`](Self::wait) only if there is none. Work that is posted after
/// `arm` rings the doorbell.
pub trait Doorbell: Send + Sync {
    /// Announces that this thread is going to sleep; returns the ticket that `wait` needs.
    fn arm(&self) -> u32;

    /// Sleeps until the doorbell has rung since `arm` returned `ticket`, or `timeout` has passed.
    fn wait(&self, ticket: u32, timeout: Duration);

    /// Whether [`wait_beside`](Self::wait_beside) also sleeps on the second word.
    fn can_wait_beside(&self) -> bool {
        false
    }

    /// Sleeps as [`wait`](Self::wait) does, and only as long as the word `beside` holds the
    /// expected value. A doorbell that cannot sleep on a second word does not notice that the word
    /// changes.
    fn wait_beside(&self, ticket: u32, _beside: (&AtomicU32, u32), timeout: Duration) {
        self.wait(ticket, timeout);
    }

    /// Wakes all threads that sleep on the doorbell.
    fn ring(&self);

    /// Lets the doorbell ring when one of these descriptors becomes readable, too. Returns false,
    /// without effect, if this one cannot.
    fn extend(&self, _beside: Vec<OwnedFd>) -> io::Result<bool> {
        Ok(false)
    }

    /// Lets this epoll descriptor be readable while the doorbell has rung that was armed by
    /// [`arm_for_program`](Self::arm_for_program), as long as the descriptor is open elsewhere.
    fn watch(&self, _epoll: &Arc<OwnedFd>) -> io::Result<()> {
        Ok(())
    }

    /// Arms the doorbell for a program that goes on to wait for descriptors, and lets the watching
    /// descriptors not be readable. The program must check once more whether there is work, as
    /// after [`arm`](Self::arm).
    fn arm_for_program(&self) {}

    /// Whether [`arm_for_program`](Self::arm_for_program) was called, and there was no work since.
    fn is_armed_for_program(&self) -> bool {
        false
    }
}

/// Why a driver cannot carry out a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// What failed and what the user can do about it, as a sentence.
    pub message: String,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DriverError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_cannot_be_read_is_reported() {
        let mut directory = |gate: GateId| match gate.0 {
            0 => Ok("7".to_owned()),
            _ => Ok("seven".to_owned()),
        };
        #[derive(Debug, PartialEq)]
        struct Seven(u8);
        impl FromStr for Seven {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                text.parse().map(Self).map_err(|_| format!("{text} is no card"))
            }
        }
        assert_eq!(read_card(&mut directory, GateId(0)), Ok(Seven(7)));
        let wrong: Result<Seven, _> = read_card(&mut directory, GateId(1));
        assert_eq!(wrong.unwrap_err().message, "seven is no card");
    }
}
