//! The names of all environment variables that Combray sets or reads, in one table.

use std::ops::RangeInclusive;
use std::time::Duration;

macro_rules! variables {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: &str = $text;)*

        /// All variables.
        pub const ALL: &[&str] = &[$($name),*];

        /// All variables, each with a sentence about it.
        pub const DESCRIBED: &[(&str, &str)] = &[$(($name, concat!($($doc),*))),*];
    };
}

/// The prefix of all names.
pub const PREFIX: &str = "COMBRAY_";

variables! {
    /// Whether collective operations inside a machine use boards in shared memory.
    BOARDS = "COMBRAY_BOARDS";
    /// The folder of an emulated host, for the tests.
    BOX = "COMBRAY_BOX";
    /// The C compiler behind the wrapper.
    CC = "COMBRAY_CC";
    /// Whether calls are looked at for mistakes of the program.
    CHECK = "COMBRAY_CHECK";
    /// The algorithms of collective operations that a person wants.
    COLLECTIVES = "COMBRAY_COLLECTIVES";
    /// How the data of messages is copied inside a machine.
    COPYING = "COMBRAY_COPYING";
    /// How many cores the processes of a machine may use together; set by the launcher.
    CORES = "COMBRAY_CORES";
    /// The C++ compiler behind the wrapper.
    CXX = "COMBRAY_CXX";
    /// What drivers need a privilege for, and the launcher has opened; set by it.
    DESCRIPTORS = "COMBRAY_DESCRIPTORS";
    /// The Fortran compiler behind the wrappers.
    FC = "COMBRAY_FC";
    /// Whether a thread makes progress while the program computes.
    HELPER = "COMBRAY_HELPER";
    /// After how many seconds without anything received a host is lost.
    HOST_TIMEOUT = "COMBRAY_HOST_TIMEOUT";
    /// What an error does until the program sets an error handler.
    INITIAL_ERRHANDLER = "COMBRAY_INITIAL_ERRHANDLER";
    /// The name of the job; set by the launcher.
    JOB = "COMBRAY_JOB";
    /// Whether programs get Combray's library also where they bring their own.
    FORCE_LIBRARY = "COMBRAY_FORCE_LIBRARY";
    /// Whether the job goes on when a process has failed; set by the launcher.
    KEEP_GOING = "COMBRAY_KEEP_GOING";
    /// The command by which other hosts are reached.
    LAUNCH_AGENT = "COMBRAY_LAUNCH_AGENT";
    /// The rank among the processes of a machine; set by the launcher.
    LOCAL_RANK = "COMBRAY_LOCAL_RANK";
    /// How many processes the machine has; set by the launcher.
    LOCAL_SIZE = "COMBRAY_LOCAL_SIZE";
    /// The network interfaces to use.
    NET = "COMBRAY_NET";
    /// A name for this machine.
    NODE = "COMBRAY_NODE";
    /// In which parts of a machine its processes run; set by the launcher.
    PARTS = "COMBRAY_PARTS";
    /// The library for PMIx.
    PMIX_LIBRARY = "COMBRAY_PMIX_LIBRARY";
    /// What counts first: latency, bandwidth or the processor.
    PREFER = "COMBRAY_PREFER";
    /// What is told of the time of a job when it ends: `page`, or a file for all of it.
    PROFILE = "COMBRAY_PROFILE";
    /// Where the launcher asks the processes of a machine what they do; set by it.
    QUESTIONS = "COMBRAY_QUESTIONS";
    /// The rank in the job; set by the launcher.
    RANK = "COMBRAY_RANK";
    /// The file for the matrix of communication.
    RECORD = "COMBRAY_RECORD";
    /// Whether windows share memory inside a machine.
    SHARED_WINDOWS = "COMBRAY_SHARED_WINDOWS";
    /// Whether large messages inside a machine are copied once.
    SINGLE_COPY = "COMBRAY_SINGLE_COPY";
    /// How many processes the job has; set by the launcher.
    SIZE = "COMBRAY_SIZE";
    /// What rails carry next.
    STRATEGY = "COMBRAY_STRATEGY";
    /// The file for the calls that combray compare counts; set by it.
    TALLY = "COMBRAY_TALLY";
    /// The file for what each processor ran when, of the threads of the library.
    THREADS_TIMELINE = "COMBRAY_THREADS_TIMELINE";
    /// Where the launcher has left the description of the machine.
    TOPOLOGY = "COMBRAY_TOPOLOGY";
}

/// The variables that also apply in a program with more rights than the user who starts it. Their
/// values are numbers, names of interfaces and machines, or words of fixed lists, and name neither
/// code nor a file.
pub const HARMLESS: &[&str] = &[
    BOARDS,
    CHECK,
    COLLECTIVES,
    COPYING,
    CORES,
    HELPER,
    HOST_TIMEOUT,
    INITIAL_ERRHANDLER,
    JOB,
    KEEP_GOING,
    LOCAL_RANK,
    LOCAL_SIZE,
    NET,
    NODE,
    PARTS,
    PREFER,
    QUESTIONS,
    RANK,
    SHARED_WINDOWS,
    SINGLE_COPY,
    SIZE,
    STRATEGY,
];

/// The time after which a machine from which nothing was received counts as failed, unless
/// [`HOST_TIMEOUT`] is set.
pub const HOST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Returns the time that a value of [`HOST_TIMEOUT`] specifies; `None` if it is invalid.
pub fn host_timeout(value: &str) -> Option<Duration> {
    let seconds: u64 = value.trim().parse().ok()?;
    (HOST_TIMEOUT_RANGE_S.contains(&seconds)).then(|| Duration::from_secs(seconds))
}

/// The valid values of [`HOST_TIMEOUT`] in seconds. Machines probe each other at most once a
/// second, and several times before one counts as failed.
pub const HOST_TIMEOUT_RANGE_S: RangeInclusive<u64> = 2..=86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_alike() {
        assert!(ALL.iter().all(|name| name.starts_with(PREFIX)));
    }

    #[test]
    fn a_host_timeout_is_a_number_of_seconds() {
        assert_eq!(host_timeout("10"), Some(HOST_TIMEOUT_DEFAULT));
        assert_eq!(host_timeout(" 2 "), Some(Duration::from_secs(2)));
        for wrong in ["", "0", "1", "-5", "1.5", "10 s", "86401"] {
            assert_eq!(host_timeout(wrong), None, "{wrong}");
        }
    }
}
