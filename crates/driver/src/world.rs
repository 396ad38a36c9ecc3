//! What drivers are given by the process that they belong to, and what they give it to sleep on.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use base::GateId;
use memory_costs::CostTable;

use crate::rendezvous::{Copying, MiddleWay};

/// Where a driver learns of the other processes of its job.
pub trait Directory: Send {
    /// What the same driver of a peer gave as its [card](crate::Driver::card).
    ///
    /// # Errors
    /// It cannot be had.
    fn card(&mut self, gate: GateId) -> Result<String, DriverError>;

    /// What only processes of this job know. A directory keeps it: it may be asked at any time.
    ///
    /// # Errors
    /// It cannot be had.
    fn secret(&mut self) -> Result<Secret, DriverError>;
}

/// What only the processes of a job know.
pub type Secret = [u8; 32];

/// A directory that knows cards only.
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

/// What can be chosen about drivers. Each reads what concerns it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which networks to use between machines, as a person says it: names and networks of
    /// interfaces, with commas between. Empty: what seems right.
    pub networks: String,
    /// Whether to read and write the memory of other processes where that works.
    pub single_copy: bool,
    /// A name for this machine beside its own: processes that name it otherwise are taken for
    /// those of other machines.
    pub node: Option<String>,
    /// The version of what packets hold, in which both sides must agree.
    pub records: u32,
    /// What a launcher has opened for this process that it may not open itself: for each driver its
    /// name, `=` and a text of its own, with blanks between.
    pub descriptors: String,
    /// How many processes the job has; 0: that is not known.
    pub processes: usize,
    /// A machine from which nothing was heard for so long is taken for dead.
    pub silence: Duration,
    /// What accesses to this machine's memory cost, if that was measured: what is faster is
    /// predicted from it until it has been timed.
    pub memory: Option<Arc<CostTable>>,
    /// How the data of messages is copied inside the machine, if that is not left to the driver.
    pub copying: GivenCopying,
}

/// The ways that messages inside a machine go instead of the faster ones, for measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenCopying {
    /// Those of middle length.
    pub middle: Option<MiddleWay>,
    /// Those of more.
    pub long: Option<Copying>,
}

/// What was opened for a process by another one: a text that tells it what it has, and the
/// descriptors, which it must have under the same numbers.
pub type PassedDescriptors = (String, Vec<OwnedFd>);

impl Settings {
    /// What was opened for a driver, if anything.
    pub fn descriptors_of(&self, driver: &str) -> Option<&str> {
        let mut all = self.descriptors.split_whitespace();
        all.find_map(|one| one.strip_prefix(driver)?.strip_prefix('='))
    }
}

/// A word to sleep on. Whoever wants to sleep calls [`arm`](Self::arm), looks once more whether
/// there is something to do, and only if not calls [`wait`](Self::wait). What is posted after `arm`
/// rings.
pub trait Doorbell: Send + Sync {
    /// Announces that somebody is going to sleep; returns what `wait` needs.
    fn arm(&self) -> u32;

    /// Sleeps until the bell has rung since `arm` returned `ticket`, or `timeout` has passed.
    fn wait(&self, ticket: u32, timeout: Duration);

    /// Wakes everybody who sleeps on it.
    fn ring(&self);
}

/// Why a driver cannot do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// What failed and what a person can do, as a sentence.
    pub message: String,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DriverError {}
