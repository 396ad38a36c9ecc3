//! The configuration: environment variables with the prefix `COMBRAY_`, all in one table.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use base::variables;
use driver::{Copying, GivenCopying, MiddleWay};
use drivers::LocalWay;
use engine::strategy::{self, Strategy};
use sys::environment;
use topology::Parts;

use crate::gathering::Aim;
use crate::instruments::Audience;

/// One variable: its name, its possible values with the default first, and its description.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The name, with the prefix.
    pub name: &'static str,
    /// The possible values; the first is the default.
    pub values: &'static [&'static str],
    /// The description for users.
    pub help: &'static str,
    /// The group of users that it serves.
    pub audience: Audience,
    /// Whether its value can be changed in a running process; the others are read when the process
    /// starts.
    pub changeable: bool,
}

/// The variables that a user may set.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: variables::INITIAL_ERRHANDLER,
        values: &["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"],
        help: "what an error does until the program sets an error handler (combray run \
               -initial-errhandler sets this variable)",
        audience: Audience::User,
        changeable: false,
    },
    Variable {
        name: variables::SINGLE_COPY,
        values: &["auto", "never"],
        help: "whether large messages inside a machine are copied once, by reading the sender's \
               memory, where the system allows it",
        audience: Audience::User,
        changeable: false,
    },
    Variable {
        name: variables::COPYING,
        values: &[
            "auto",
            "fragments",
            "receiver",
            "once",
            "piped",
            "past-caches",
            "packets",
            "jointly",
        ],
        help: "how the data of messages is copied inside a machine, for measurements: of 12 to 64 \
               KiB by both (fragments) or by the receiver, of more once by the receiver, by both \
               through shared memory (piped, past-caches), in packets, or jointly, a half by each; \
               whatever is the fastest (auto)",
        audience: Audience::Tuner,
        changeable: false,
    },
    Variable {
        name: variables::STRATEGY,
        values: strategy::NAMES,
        help: "how messages that wait for the way to a process are put into packets: each into one \
               (direct), small ones together (aggregate), large ones over all interfaces (split), \
               urgent ones first (priority), or whichever is predicted to be done first (auto)",
        audience: Audience::Tuner,
        changeable: true,
    },
    Variable {
        name: variables::SHARED_WINDOWS,
        values: &["auto", "never"],
        help: "whether the memory that comes with a window of one-sided communication, and words \
               beside other windows, are shared by the processes of a machine; the value of rank 0 \
               of the window counts",
        audience: Audience::User,
        changeable: true,
    },
    Variable {
        name: variables::BOARDS,
        values: &["auto", "never"],
        help: "whether the processes of a communicator that are all on one machine share memory for \
               collective operations without messages; the value of its rank 0 counts",
        audience: Audience::Tuner,
        changeable: true,
    },
    Variable {
        name: variables::HELPER,
        values: &["auto", "never"],
        help: "whether a thread of the library makes progress while the program computes; it sleeps \
               until something arrives",
        audience: Audience::User,
        changeable: false,
    },
    Variable {
        name: variables::PREFER,
        values: &Aim::NAMES,
        help: "what counts first: that each message is there soon (latency), that much gets through \
               (bandwidth), or that the processor is left to the program (compute: waits sleep \
               sooner); the info key combray_prefer of a communicator says it for its messages",
        audience: Audience::User,
        changeable: false,
    },
    Variable {
        name: variables::KEEP_GOING,
        values: &["0", "1"],
        help: "whether the job goes on (1) when one of its processes fails: what involves that \
               process then fails with MPIX_ERR_PROC_FAILED, and nothing else; the launcher must \
               let the others go on, too (combray run --keep-going sets this variable)",
        audience: Audience::User,
        changeable: false,
    },
    Variable {
        name: variables::CHECK,
        values: &["0", "1"],
        help: "whether calls are looked at (1) for mistakes of the program, which are told on \
               standard error (combray run --check sets this variable)",
        audience: Audience::User,
        changeable: false,
    },
];

/// The positions in [`VARIABLES`].
const INITIAL_ERRHANDLER: usize = 0;
const SINGLE_COPY: usize = 1;
const COPYING: usize = 2;
const STRATEGY: usize = 3;
const SHARED_WINDOWS: usize = 4;
const BOARDS: usize = 5;
const HELPER: usize = 6;
const PREFER: usize = 7;
const KEEP_GOING: usize = 8;
const CHECK: usize = 9;

/// What an error does until the program sets an error handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialErrorHandler {
    /// Ends the job.
    Fatal,
    /// Ends the processes of the object on which the error occurred.
    Abort,
    /// Is returned to the caller.
    Return,
}

/// The variables whose value is any text, each with its description.
pub const TEXTS: &[(&str, &str)] = &[
    (
        variables::NET,
        "the network interfaces to use, by name (eth0), network (10.1.0.0/16) or driver (tcp, \
         ether, ofi), or by driver and one of the others (ether:eth1), with commas between; after ^ \
         those not to use; nothing: all that lead to other machines, by TCP",
    ),
    (
        variables::NODE,
        "a name for this machine: processes that have another one talk over the network, also on \
         the same machine",
    ),
    (
        variables::HOST_TIMEOUT,
        "after how many seconds without a sign of life another machine is taken for dead (10); a \
         process that is stopped, or does not look, is no silent machine",
    ),
    (
        variables::COLLECTIVES,
        "algorithms of collective operations, like allreduce:ring,bcast:binomial, where the \
         fastest by prediction is not wanted; combray info --collectives lists them; the value of \
         process 0 counts",
    ),
    (
        variables::RECORD,
        "a file for the matrix of communication, the bytes and messages between all processes; \
         process 0 writes it when the job ends (combray run --record sets this variable)",
    ),
    (
        variables::PROFILE,
        "where the time of the job went, told by process 0 when it ends: page, or a file that ends \
         in .json or .html for all of it (combray run --profile sets this variable)",
    ),
    (
        variables::THREADS_TIMELINE,
        "a file for what each processor ran when, of the threads of combray_threads.h, which \
         Perfetto shows; each process writes its own, with its number before the ending, when the \
         workers end",
    ),
];

/// Returns the value of `COMBRAY_NET`, which selects networks; empty if it is not set.
pub fn networks() -> String {
    environment::text(variables::NET).unwrap_or_default()
}

/// Returns how long another machine may be silent before it is considered failed.
///
/// # Errors
/// `COMBRAY_HOST_TIMEOUT` is not a number of seconds in the allowed range.
pub fn host_timeout() -> Result<Duration, String> {
    let value = environment::text(variables::HOST_TIMEOUT).unwrap_or_default();
    if value.is_empty() {
        return Ok(variables::HOST_TIMEOUT_DEFAULT);
    }
    variables::host_timeout(&value).ok_or_else(|| {
        let (least, most) = variables::HOST_TIMEOUT_RANGE_S.into_inner();
        format!(
            "{}: \"{value}\" is not a number of seconds from {least} to {most}",
            variables::HOST_TIMEOUT
        )
    })
}

/// Returns the name that `COMBRAY_NODE` gives to this machine, if any.
pub fn node() -> Option<String> {
    environment::text(variables::NODE).filter(|node| !node.is_empty())
}

/// Returns the file for the communication matrix that `COMBRAY_RECORD` names, if any.
pub fn record() -> Option<PathBuf> {
    environment::value(variables::RECORD).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// Returns where `COMBRAY_PROFILE` sends the profile of the job, if it is set.
pub fn profile() -> Option<ProfileTarget> {
    let wanted = environment::value(variables::PROFILE).filter(|wanted| !wanted.is_empty())?;
    Some(match wanted == "page" {
        true => ProfileTarget::Page,
        false => ProfileTarget::File(wanted.into()),
    })
}

/// The destination of the profile of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileTarget {
    /// One page on standard error.
    Page,
    /// The page on standard error, and the whole profile in this file.
    File(PathBuf),
}

/// Returns the description of the file descriptors that the launcher has opened for this process.
pub(crate) fn descriptors() -> String {
    environment::text(variables::DESCRIPTORS).unwrap_or_default()
}

/// Returns the number of cores that all processes of this machine may use together, if the launcher
/// bound them and sent it.
pub(crate) fn cores_together() -> Option<usize> {
    environment::text(variables::CORES)?.parse().ok()
}

/// Returns the parts of this machine in which its processes run, in the order of their ranks, if
/// the launcher bound them and sent it.
pub(crate) fn parts_here() -> Option<Vec<Parts>> {
    topology::parts_from_text(&environment::text(variables::PARTS)?).ok()
}

/// Returns the local rank: the index of this process among the processes of the job on this
/// machine, if the launcher sent it.
pub(crate) fn local_rank() -> Option<usize> {
    environment::text(variables::LOCAL_RANK)?.parse().ok()
}

/// Returns the number of processes of the job on this machine, if the launcher sent it.
pub(crate) fn processes_here() -> Option<u32> {
    environment::text(variables::LOCAL_SIZE)?.parse().ok()
}

/// Returns the names of the switches above this machine, outermost first; empty if the batch system
/// does not provide them.
pub(crate) fn switches() -> Vec<String> {
    let known = topology::switches_by_slurm();
    // The names are published with separators around them, which they must not contain.
    let is_plain = |name: &String| {
        name.len() <= SWITCH_NAME_MAX
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if known.iter().all(is_plain) { known } else { Vec::new() }
}

/// Switches with longer names are not published; in bytes.
const SWITCH_NAME_MAX: usize = 64;

/// The values of all variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// For each variable the index of its value in [`Variable::values`].
    chosen: [usize; VARIABLES.len()],
}

impl Configuration {
    /// Reads the environment. Returns the configuration, and a sentence for each variable that was
    /// not understood.
    pub fn read() -> (Self, Vec<String>) {
        let (configuration, mut complaints) = Self::from_variables(environment::all());
        complaints.extend(environment::disregarded().map(disregarded));
        (configuration, complaints)
    }

    /// Returns the index of a variable's value in its [`Variable::values`]. `variable` is its index
    /// in [`VARIABLES`].
    pub fn chosen(&self, variable: usize) -> usize {
        self.chosen[variable]
    }

    /// Sets a variable to a value, both given by their indices.
    pub fn choose(&mut self, variable: usize, value: usize) {
        self.chosen[variable] = value;
    }

    /// Returns the value of `COMBRAY_INITIAL_ERRHANDLER`.
    pub fn initial_error_handler(&self) -> InitialErrorHandler {
        match self.chosen[INITIAL_ERRHANDLER] {
            0 => InitialErrorHandler::Fatal,
            1 => InitialErrorHandler::Abort,
            _ => InitialErrorHandler::Return,
        }
    }

    /// Whether `COMBRAY_SINGLE_COPY` is not `never`.
    pub fn single_copy(&self) -> bool {
        self.chosen[SINGLE_COPY] == 0
    }

    /// Returns the value of `COMBRAY_COPYING`.
    pub fn copying(&self) -> GivenCopying {
        let name = VARIABLES[COPYING].values[self.chosen[COPYING]];
        let middle = MiddleWay::ALL.into_iter().find(|way| LocalWay::Middle(*way).name() == name);
        let long = Copying::ALL.into_iter().find(|way| LocalWay::Long(*way).name() == name);
        GivenCopying { middle, long }
    }

    /// Returns the value of `COMBRAY_STRATEGY`, one of [`strategy::NAMES`].
    pub fn strategy(&self) -> &'static str {
        strategy::NAMES[self.chosen[STRATEGY]]
    }

    /// Creates the strategy that `COMBRAY_STRATEGY` names.
    pub(crate) fn create_strategy(&self) -> Box<dyn Strategy> {
        let strategy = strategy::by_name(self.strategy());
        Box::new(strategy.expect("the table of variables has their names"))
    }

    /// Whether `COMBRAY_SHARED_WINDOWS` is not `never`.
    pub fn shared_windows(&self) -> bool {
        self.chosen[SHARED_WINDOWS] == 0
    }

    /// Whether `COMBRAY_BOARDS` is not `never`.
    pub fn boards(&self) -> bool {
        self.chosen[BOARDS] == 0
    }

    /// Whether `COMBRAY_HELPER` is not `never`.
    pub fn helper(&self) -> bool {
        self.chosen[HELPER] == 0
    }

    /// Whether `COMBRAY_CHECK` is 1.
    pub fn checks(&self) -> bool {
        self.chosen[CHECK] == 1
    }

    /// Whether `COMBRAY_KEEP_GOING` is 1.
    pub fn keeps_going(&self) -> bool {
        self.chosen[KEEP_GOING] == 1
    }

    /// Returns the value of `COMBRAY_PREFER`.
    pub fn aim(&self) -> Aim {
        Aim::named(Aim::NAMES[self.chosen[PREFER]].as_bytes()).unwrap_or_default()
    }

    pub(crate) fn from_variables(
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> (Self, Vec<String>) {
        let mut configuration = Self::default();
        let mut complaints = Vec::new();
        for (name, value) in variables {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            let Some(index) = VARIABLES.iter().position(|variable| variable.name == name) else {
                if name.starts_with(variables::PREFIX) && !variables::ALL.contains(&&*name) {
                    complaints.push(unknown(&name));
                }
                continue;
            };
            let values = VARIABLES[index].values;
            match values.iter().position(|known| *known == value) {
                Some(position) => configuration.choose(index, position),
                None => {
                    let values = values.join(" or ");
                    complaints.push(format!(
                        "{name} is \"{value}\", but must be {values}; it is ignored"
                    ));
                }
            }
        }
        (configuration, complaints)
    }
}

fn disregarded(name: &str) -> String {
    format!(
        "{name} is ignored: a program with more rights than its user (set-user-ID, set-group-ID or \
         file capabilities) uses no variables that name files or libraries"
    )
}

fn unknown(name: &str) -> String {
    let known = variables::ALL.iter().copied();
    let nearest = known.min_by_key(|known| distance(known, name)).unwrap_or_default();
    format!("{name} is not a variable of Combray; did you mean {nearest}?")
}

/// Returns how many letters must be inserted, removed or changed to turn `a` into `b` (Levenshtein
/// distance).
pub fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Configuration, Vec<String>) {
        let owned = pairs.iter().map(|(name, value)| (name.into(), value.into()));
        Configuration::from_variables(owned)
    }

    #[test]
    fn defaults_and_values() {
        let (configuration, complaints) = read(&[("PATH", "x"), ("COMBRAY_RANK", "3")]);
        assert!(configuration.single_copy() && configuration.strategy() == "auto");
        assert!(complaints.is_empty());
        assert_eq!(configuration.initial_error_handler(), InitialErrorHandler::Fatal);
        let (configuration, _) = read(&[("COMBRAY_INITIAL_ERRHANDLER", "mpi_errors_return")]);
        assert_eq!(configuration.initial_error_handler(), InitialErrorHandler::Return);
        let (configuration, _) =
            read(&[("COMBRAY_SINGLE_COPY", "never"), ("COMBRAY_STRATEGY", "direct")]);
        assert!(!configuration.single_copy() && configuration.strategy() == "direct");
    }

    #[test]
    fn every_way_of_copying_can_be_given() {
        let given = |name| read(&[("COMBRAY_COPYING", name)]).0.copying();
        assert_eq!(given("auto"), GivenCopying::default());
        for way in [64 << 10, 1 << 20].into_iter().flat_map(LocalWay::all_of) {
            let (middle, long) = match way {
                LocalWay::InPacket => unreachable!("they are longer"),
                LocalWay::Middle(way) => (Some(way), None),
                LocalWay::Long(way) => (None, Some(way)),
            };
            assert_eq!(given(way.name()), GivenCopying { middle, long });
        }
    }

    #[test]
    fn positions_are_those_of_the_table() {
        assert_eq!(VARIABLES[INITIAL_ERRHANDLER].name, "COMBRAY_INITIAL_ERRHANDLER");
        assert_eq!(VARIABLES[SINGLE_COPY].name, "COMBRAY_SINGLE_COPY");
        assert_eq!(VARIABLES[COPYING].name, "COMBRAY_COPYING");
        assert_eq!(VARIABLES[STRATEGY].name, "COMBRAY_STRATEGY");
        assert_eq!(VARIABLES[PREFER].name, "COMBRAY_PREFER");
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let (_, complaints) = read(&[("COMBRAY_STRATEGI", "direct")]);
        assert!(complaints[0].contains("did you mean COMBRAY_STRATEGY?"), "{complaints:?}");
    }

    #[test]
    fn a_wrong_value_is_reported() {
        let (configuration, complaints) = read(&[("COMBRAY_STRATEGY", "magic")]);
        assert_eq!(configuration.strategy(), "auto");
        assert!(complaints[0].contains("auto or direct or aggregate"), "{complaints:?}");
    }
}
