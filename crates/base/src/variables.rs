//! All environment variables that Combray sets or reads: one row for each.

use std::ops::RangeInclusive;
use std::time::Duration;

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The name, with the prefix.
    pub name: &'static str,
    /// The possible values, the default first; empty if any text is a value.
    pub values: &'static [&'static str],
    /// The description, in sentences.
    pub help: &'static str,
    /// The group of users that it serves.
    pub audience: Audience,
    /// When it is read.
    pub read: ReadTime,
    /// The programs that use its value.
    pub trust: Trust,
}

/// The group of users that a variable or an event serves (section 15.3.1 of the standard).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// People who run programs.
    User,
    /// People who tune programs.
    Tuner,
    /// People who develop the library.
    Developer,
}

/// When the library reads the value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadTime {
    /// When the process starts.
    AtStart,
    /// Whenever the value is needed: it can be changed in a running process.
    AtUse,
}

/// The programs that use the value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// All programs: the value is a number, the name of an interface or machine, or a word of a
    /// fixed list.
    Always,
    /// Only programs without more rights than the user who starts them: the value names code or a
    /// file, or has not been reviewed.
    Unprivileged,
}

/// Declares the groups of variables. A row has the constant with the name of the variable (without
/// the prefix), the audience, when it is read, the programs that use it, and its values.
macro_rules! variables {
    ($($(#[doc = $about:literal])* $group:ident {
        $($(#[doc = $help:literal])* $name:ident, $audience:ident, $read:ident, $trust:ident,
            [$($value:literal),* $(,)?];)*
    })*) => {
        $($($(#[doc = $help])* pub const $name: &str = concat!("COMBRAY_", stringify!($name));)*)*

        $($(#[doc = $about])*
        pub const $group: &[Variable] = &[$(Variable {
            name: $name,
            values: &[$($value),*],
            help: concat!($($help),*).trim_ascii_start(),
            audience: Audience::$audience,
            read: ReadTime::$read,
            trust: Trust::$trust,
        }),*];)*

        const GROUPS: &[&[Variable]] = &[$($group),*];
    };
}

/// The prefix of all names.
pub const PREFIX: &str = "COMBRAY_";

variables! {
    /// The variables that a user may set to one word of a list: the control
    /// variables of the tools interface.
    CONTROL_VARIABLES {
        /// What an error does until the program sets an error handler (combray run
        /// -initial-errhandler sets this variable).
        INITIAL_ERRHANDLER, User, AtStart, Always, [
            "mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return",
        ];
        /// Whether large messages inside a machine are copied once, by reading the sender's
        /// memory, where the kernel allows it.
        SINGLE_COPY, User, AtStart, Always, ["auto", "never"];
        /// How the data of messages is copied inside a machine, for measurements. Messages of 12
        /// to 64 KiB: by both processes (fragments) or by the receiver. Messages of 12 to 512 KiB:
        /// by both through the memory of the last answer (cells). Longer messages: once by the
        /// receiver, by both through shared memory (piped, past-caches), in packets, or
        /// jointly, one half by each process. With auto: by the way that is predicted to be the
        /// fastest.
        COPYING, Tuner, AtStart, Always, [
            "auto", "fragments", "receiver", "cells", "once", "piped", "past-caches", "packets", "jointly",
        ];
        /// How messages that wait for a rail are put into packets: one message in each (direct),
        /// small messages together (aggregate), large messages over all rails (split), urgent
        /// messages first (priority), or by the strategy that is predicted to be the fastest
        /// (auto).
        STRATEGY, Tuner, AtUse, Always, ["auto", "direct", "aggregate", "split", "priority"];
        /// Whether the processes of a machine share the memory of windows that the library
        /// allocates, and control words of other windows. The value of rank 0 of the window
        /// counts.
        SHARED_WINDOWS, User, AtUse, Always, ["auto", "never"];
        /// Whether the processes of a communicator that are all on one machine share memory for
        /// collective operations without messages. The value of its rank 0 counts.
        BOARDS, Tuner, AtUse, Always, ["auto", "never"];
        /// Whether a thread of the library makes progress while the program computes. The thread
        /// sleeps until something arrives.
        HELPER, User, AtStart, Always, ["auto", "never"];
        /// What matters most: the latency of each message, the bandwidth, or processor time for
        /// the program (compute: waits sleep sooner). The info key combray_prefer of a
        /// communicator sets it for the messages of the communicator.
        PREFER, User, AtStart, Always, ["balance", "latency", "bandwidth", "compute"];
        /// Whether the job goes on (1) when one of its processes fails: only calls that involve
        /// this process then fail, with MPIX_ERR_PROC_FAILED. The launcher must also let the job
        /// go on (combray run --keep-going sets this variable).
        KEEP_GOING, User, AtStart, Always, ["0", "1"];
        /// Whether buffers may lie in memory of graphics processors: if the machine has one or the
        /// program has loaded the driver's library when MPI starts (auto), never, or always, also
        /// where that library is loaded later for a device that was not found.
        DEVICES, User, AtStart, Always, ["auto", "never", "always"];
        /// Whether calls are checked (1) for mistakes of the program, which are reported on
        /// standard error (combray run --check sets this variable).
        CHECK, User, AtStart, Always, ["0", "1"];
        /// Whether processes of a machine lend each other the cores that they do not need while
        /// they wait (combray run --openmp).
        LEND_CORES, User, AtStart, Always, ["auto", "never"];
        /// Whether the durations of jobs with combray run --profile are kept, so that later runs
        /// are compared with them. The value of process 0 counts.
        HISTORY, User, AtStart, Always, ["auto", "never"];
    }

    /// The variables that a user may set to any text.
    TEXT_VARIABLES {
        /// The network interfaces to use, separated by commas: by name (eth0), network
        /// (10.1.0.0/16), driver (tcp, ether, ofi), or driver and one of the others (ether:eth1).
        /// After ^: the interfaces not to use. Default: all that reach other machines, by TCP.
        NET, User, AtStart, Always, [];
        /// A name for this machine: processes with different names communicate over the network,
        /// also on one machine.
        NODE, User, AtStart, Always, [];
        /// After how many seconds without received data another machine counts as failed (10). A
        /// machine whose processes are stopped, or do not call MPI, still answers.
        HOST_TIMEOUT, User, AtStart, Always, [];
        /// For how many seconds after the start of a job the launcher tries again to reach a host
        /// that cannot be reached (0; 120 in the launcher of Kubernetes' MPI operator, whose hosts
        /// may have no address yet).
        HOST_WAIT, User, AtStart, Always, [];
        /// Algorithms of collective operations, such as allreduce:ring,bcast:binomial, instead of
        /// those that are predicted to be the fastest; combray info --collectives lists them. The
        /// value of process 0 counts.
        COLLECTIVES, User, AtStart, Always, [];
        /// A file for the communication matrix, the bytes and messages between all processes;
        /// process 0 writes it when the job ends (combray run --record sets this variable).
        RECORD, User, AtStart, Unprivileged, [];
        /// Where process 0 reports how the time of the job was spent: page, or a file that ends
        /// in .json or .html for the whole profile (combray run --profile sets this variable).
        PROFILE, User, AtStart, Unprivileged, [];
        /// The folder of the counters of energy that profiles use (/sys/class/powercap).
        ENERGY_COUNTERS, User, AtStart, Unprivileged, [];
        /// A file for the trace of the job, which Perfetto shows: the calls, waits and messages of
        /// all processes with their times. Process 0 writes it when the job ends (combray run
        /// --trace sets this variable). The launcher writes the trace of a job that ends early.
        TRACE, User, AtStart, Unprivileged, [];
        /// The memory for the trace of a process, in MiB (16). When it is full, the oldest events
        /// are dropped. The maximum is 60.
        TRACE_MIB, User, AtStart, Always, [];
        /// How many seconds at the end of the job its trace has; default: as many as the memory
        /// holds (combray run --trace-last sets this variable).
        TRACE_LAST, User, AtStart, Always, [];
        /// A folder for a recording of what the result of the program depends on: which messages
        /// receives from any source get, which requests calls find complete, in which order windows
        /// serve requests. Each process writes a file there (combray run --record-order sets this
        /// variable).
        RECORD_ORDER, User, AtStart, Unprivileged, [];
        /// The folder with the recording that the run follows (combray run --replay-order sets
        /// this variable).
        REPLAY_ORDER, User, AtStart, Unprivileged, [];
        /// A file for the timeline of the threads of combray_threads.h, by processor, which
        /// Perfetto shows. Each process writes its own file, with its number before the ending,
        /// when the workers end.
        THREADS_TIMELINE, User, AtStart, Unprivileged, [];
        /// The directory for names of services, which MPI_Publish_name writes and MPI_Lookup_name
        /// reads. Default: one of this machine and user. Jobs on several machines need a directory
        /// that all of them share.
        NAMES, User, AtUse, Unprivileged, [];
        /// The path of the PMIx library.
        PMIX_LIBRARY, User, AtStart, Unprivileged, [];
    }

    /// The variables that a user may set for Combray's commands.
    COMMAND_VARIABLES {
        /// The command that reaches other hosts, in place of ssh.
        LAUNCH_AGENT, User, AtStart, Unprivileged, [];
        /// How many agents of other hosts the launcher starts at most; each agent starts as many
        /// others. Default: as many as let all be ready earliest, all of fewer than 60 hosts.
        /// With 100000 the launcher starts all itself.
        LAUNCH_WIDTH, User, AtStart, Always, [];
        /// A file that describes the network between the hosts, which combray run reads: virtual
        /// topologies with reorder then use its distances.
        NETWORK, User, AtStart, Unprivileged, [];
        /// The C compiler behind the wrapper.
        CC, User, AtStart, Unprivileged, [];
        /// The C++ compiler behind the wrapper.
        CXX, User, AtStart, Unprivileged, [];
        /// The Fortran compiler behind the wrappers.
        FC, User, AtStart, Unprivileged, [];
    }

    /// The variables that Combray's launcher, commands and tests set.
    INTERNAL_VARIABLES {
        /// The folder of an emulated host, for the tests.
        BOX, Developer, AtStart, Unprivileged, [];
        /// How many cores all processes of the machine may use together; set by the launcher.
        CORES, Developer, AtStart, Always, [];
        /// The network between the machines of the job; set by the launcher.
        NETWORK_OF_JOB, Developer, AtStart, Always, [];
        /// The descriptors that need a privilege and that the launcher has opened for drivers;
        /// set by the launcher.
        DESCRIPTORS, Developer, AtStart, Unprivileged, [];
        /// Whether programs use Combray's library even if they bring their own; set by combray
        /// run --force-library.
        FORCE_LIBRARY, Developer, AtStart, Unprivileged, [];
        /// The name of the job; set by the launcher.
        JOB, Developer, AtStart, Always, [];
        /// The hosts of the job with their slots and how many of them are taken, on which spawned
        /// processes run; set by the launcher.
        JOB_HOSTS, Developer, AtStart, Unprivileged, [];
        /// How the lines of spawned processes begin, with the rank or with rank and stream (rank,
        /// stream); set by the launcher.
        JOB_TAGS, Developer, AtStart, Always, [];
        /// The number of the GPU near which the process is placed, in the order of their PCI
        /// locations; set by combray run --map-by gpu.
        LOCAL_GPU, Developer, AtStart, Always, [];
        /// The rank among the processes of the machine; set by the launcher.
        LOCAL_RANK, Developer, AtStart, Always, [];
        /// The descriptor of the shared memory in which processes record the cores that they lend
        /// each other; set by the launcher.
        LENDING, Developer, AtStart, Unprivileged, [];
        /// How many processes of the job the machine has; set by the launcher.
        LOCAL_SIZE, Developer, AtStart, Always, [];
        /// Whether programs with OpenMP use Combray's library for it; set by combray run --openmp.
        OPENMP, Developer, AtStart, Unprivileged, [];
        /// The port at which the processes wait that have spawned the job; set by the launcher of
        /// a spawned job.
        PARENT_PORT, Developer, AtStart, Unprivileged, [];
        /// In which parts of the machine its processes run; set by the launcher.
        PARTS, Developer, AtStart, Always, [];
        /// The socket on which the launcher queries the processes of the machine; set by the
        /// launcher.
        QUESTIONS, Developer, AtStart, Always, [];
        /// The rank in the job; set by the launcher.
        RANK, Developer, AtStart, Always, [];
        /// How many processes the job has; set by the launcher.
        SIZE, Developer, AtStart, Always, [];
        /// The file for the number of calls; set by combray compare.
        TALLY, Developer, AtStart, Unprivileged, [];
        /// The memory in which the process records its trace, which the launcher reads if the job
        /// ends early; set by the launcher.
        TRACE_MEMORY, Developer, AtStart, Always, [];
        /// The file with the description of the machine; set by the launcher.
        TOPOLOGY, Developer, AtStart, Unprivileged, [];
    }
}

/// Returns all variables.
pub fn all() -> impl Iterator<Item = &'static Variable> {
    GROUPS.iter().copied().flatten()
}

/// Returns the variable with this name.
pub fn named(name: &str) -> Option<&'static Variable> {
    all().find(|variable| variable.name == name)
}

/// Returns the index in [`CONTROL_VARIABLES`] of the variable with this name, for use in constants.
///
/// # Panics
/// No variable of [`CONTROL_VARIABLES`] has this name.
pub const fn control_index(name: &str) -> usize {
    let mut index = 0;
    while !is_equal(CONTROL_VARIABLES[index].name, name) {
        index += 1;
    }
    index
}

const fn is_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    index == a.len() && index == b.len()
}

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

/// Returns the time that a value of [`HOST_WAIT`] specifies; `None` if it is invalid.
pub fn host_wait(value: &str) -> Option<Duration> {
    let seconds: u64 = value.trim().parse().ok()?;
    (seconds <= HOST_WAIT_MAX_S).then(|| Duration::from_secs(seconds))
}

/// The largest value of [`HOST_WAIT`], in seconds: a day.
pub const HOST_WAIT_MAX_S: u64 = 86_400;

/// Returns the memory for the trace of a process, in bytes, if [`TRACE_MIB`] has this value.
pub fn trace_bytes(value: Option<&str>) -> usize {
    let mib = value.and_then(|mib| mib.trim().parse().ok());
    mib.unwrap_or(TRACE_MIB_DEFAULT).clamp(1, TRACE_MIB_MAX) << 20
}

/// The default of [`TRACE_MIB`]: more than a million events.
const TRACE_MIB_DEFAULT: usize = 16;

/// The largest value of [`TRACE_MIB`].
const TRACE_MIB_MAX: usize = 60;

/// Returns the nanoseconds that a value of [`TRACE_LAST`] specifies; `None` if it is invalid.
pub fn trace_last(value: &str) -> Option<u64> {
    let seconds: f64 = value.trim().parse().ok()?;
    let is_valid = seconds > 0.0 && seconds <= TRACE_LAST_MAX_S;
    is_valid.then_some((seconds * 1e9) as u64)
}

/// The largest value of [`TRACE_LAST`], in seconds: a year.
const TRACE_LAST_MAX_S: f64 = 365.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_with_the_prefix_and_sentences() {
        for variable in all() {
            assert!(variable.name.starts_with(PREFIX), "{variable:?}");
            assert!(variable.help.ends_with('.'), "{variable:?}");
        }
        assert!(CONTROL_VARIABLES.iter().all(|variable| variable.values.len() > 1));
        assert_eq!(CONTROL_VARIABLES[control_index(STRATEGY)].name, STRATEGY);
    }

    #[test]
    fn a_host_timeout_is_a_number_of_seconds() {
        assert_eq!(host_timeout("10"), Some(HOST_TIMEOUT_DEFAULT));
        assert_eq!(host_timeout(" 2 "), Some(Duration::from_secs(2)));
        for wrong in ["", "0", "1", "-5", "1.5", "10 s", "86401"] {
            assert_eq!(host_timeout(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_wait_for_hosts_is_a_number_of_seconds() {
        assert_eq!(
            (host_wait("0"), host_wait(" 90 ")),
            (Some(Duration::ZERO), Some(Duration::from_secs(90)))
        );
        for wrong in ["", "-5", "1.5", "10 s", "86401"] {
            assert_eq!(host_wait(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_part_of_a_trace_is_a_number_of_seconds() {
        assert_eq!(
            (trace_last("30"), trace_last(" 0.5")),
            (Some(30_000_000_000), Some(500_000_000))
        );
        for wrong in ["", "0", "-1", "30s", "inf", "nan", "1e9"] {
            assert_eq!(trace_last(wrong), None, "{wrong}");
        }
        assert_eq!(trace_bytes(None), 16 << 20);
        assert_eq!((trace_bytes(Some(" 2 ")), trace_bytes(Some("1000"))), (2 << 20, 60 << 20));
    }
}
