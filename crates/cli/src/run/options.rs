//! The options of `combray run`, ours and the common spellings of Open MPI and MPICH, in one table.

use base::variables;
use launcher::binding::PolicyOption;

/// An option.
pub struct RunOption {
    /// Its spellings.
    pub names: &'static [&'static str],
    /// The number of words that follow it.
    pub takes: ValueCount,
    /// The effect of the option.
    pub meaning: Meaning,
    /// The text in `--help`; empty for options that are accepted only for compatibility.
    pub help: &'static str,
}

/// How many words an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueCount {
    Nothing,
    One,
    Two,
    /// One word, if the next word is the name of a file with one of these extensions.
    FileEndingIn(&'static [&'static str]),
}

/// The effect of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Processes,
    /// The number of processes per machine, unless the total number is given.
    ProcessesPerMachine,
    TagOutput,
    Timeout,
    Stall,
    Variable,
    GlobalVariable,
    VariableList,
    Folder,
    Hosts,
    /// The value is a file that names hosts.
    HostFile,
    /// The command that reaches other hosts.
    LaunchAgent,
    /// There may be more processes than slots.
    Oversubscribe,
    /// There may never be more processes than hardware threads.
    NoOversubscribe,
    /// The job continues when a process has failed.
    KeepGoing,
    /// Programs get Combray's library even if they contain a library of their own.
    ForceLibrary,
    OpenMp,
    /// Where processes run on their machine: mapping, binding or ranking.
    Binding(PolicyOption),
    /// Where processes run, with the words that the spelling implies.
    BindingAs(PolicyOption, &'static str),
    /// The needs of groups of processes, or a file that contains them.
    Needs,
    /// Each process reports where it is bound.
    ReportBindings,
    /// Nothing is started; the plan is shown.
    DryRun,
    /// Hosts and slots are displayed in one line.
    ShowAllocation,
    /// So are hosts and slots, and the variables that are set for pools of threads.
    Verbose,
    /// The machine for which a dry run is made.
    Machine,
    /// Ranks are assigned to the hosts in turn.
    InTurn,
    /// All environment variables are passed to other hosts.
    AllVariables,
    /// The value is a file that gives each rank its place.
    Rankfile,
    /// The file for the communication matrix.
    Record,
    /// Calls are checked for mistakes of the program.
    Check,
    /// A report on where the time of the job went.
    Profile,
    Trace,
    /// How much of the end of a trace is written.
    TraceLast,
    /// A folder for a recording of the order of results, or with one, and its variable.
    Order(&'static str),
    /// The initial error handler.
    InitialErrhandler,
    Help,
    Version,
    /// Accepted without effect: the requested behaviour is always on.
    Accepted,
    /// The rank is printed before each line, without the stream.
    TagRank,
    /// The time is printed before each line.
    TimeOutput,
    /// Standard error goes to standard output.
    MergeOutput,
    /// The output goes to files for each rank below a folder.
    OutputFolder,
    /// The output goes to a file for each rank, named by a pattern.
    FilePattern(OutputKind),
    /// Several output settings in one word.
    Output,
    /// Information to display, in one word.
    Display,
    /// This many cores for each process.
    CoresEach,
    /// This many processes on each package.
    EachPackage,
    /// One process on each host.
    OnePerMachine,
    /// The kind of command that reaches other hosts.
    Launcher,
    /// The network interface to use.
    Interface,
    /// Whether the job continues when a process has failed.
    FaultTolerance,
    /// Which process reads standard input.
    StandardInput,
    /// A parameter of Open MPI. Few of them have an equivalent.
    Parameter,
}

/// One of the two output streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    Output,
    Errors,
}

const fn option(
    names: &'static [&'static str],
    takes: ValueCount,
    meaning: Meaning,
    help: &'static str,
) -> RunOption {
    RunOption { names, takes, meaning, help }
}

/// All options.
pub const OPTIONS: &[RunOption] = &[
    option(
        &["-n", "-np", "--np", "-c", "--n"],
        ValueCount::One,
        Meaning::Processes,
        "N    how many processes (default: the usable cores, or all slots)",
    ),
    option(
        &["-N", "-ppn", "-npernode", "--npernode", "-perhost", "-grr"],
        ValueCount::One,
        Meaning::ProcessesPerMachine,
        "N    how many processes on each host",
    ),
    option(
        &["--tag-output", "-tag-output"],
        ValueCount::Nothing,
        Meaning::TagOutput,
        "     begin each line of output with rank and stream, as [3]<stderr>: ; -l: with [3]",
    ),
    option(
        &["--timeout", "-timeout"],
        ValueCount::One,
        Meaning::Timeout,
        "SECONDS    end the job after that time",
    ),
    option(
        &["--stall"],
        ValueCount::One,
        Meaning::Stall,
        "SECONDS    end the job when no rank has made progress for that time, and report why",
    ),
    option(
        &["-x"],
        ValueCount::One,
        Meaning::Variable,
        "NAME[=VALUE]    set a variable for this program's processes",
    ),
    option(&["-env", "--env"], ValueCount::Two, Meaning::Variable, ""),
    option(
        &["-wdir", "--wdir", "-wd", "--wd"],
        ValueCount::One,
        Meaning::Folder,
        "FOLDER    start in this folder",
    ),
    option(
        &["-genv", "--genv"],
        ValueCount::Two,
        Meaning::GlobalVariable,
        "NAME VALUE    set a variable for all programs",
    ),
    option(&["-envlist", "-genvlist"], ValueCount::One, Meaning::VariableList, ""),
    option(
        &["--hosts", "-H", "--host", "-host", "-hosts"],
        ValueCount::One,
        Meaning::Hosts,
        "NAMES    hosts to run on, as a:2,b:2 with the number of slots",
    ),
    option(
        &[
            "--hostfile",
            "-f",
            "-hostfile",
            "--machinefile",
            "-machinefile",
            "-machine",
            "--default-hostfile",
            "-default-hostfile",
        ],
        ValueCount::One,
        Meaning::HostFile,
        "FILE    a file that names hosts, one a line: a:2, or a slots=2",
    ),
    option(
        &[
            "--launch-agent",
            "-launch-agent",
            "-launcher-exec",
            "-bootstrap-exec",
            "--bootstrap-exec",
        ],
        ValueCount::One,
        Meaning::LaunchAgent,
        "COMMAND    reaches other hosts, in place of ssh",
    ),
    option(
        &["--rankfile", "-rankfile", "-rf"],
        ValueCount::One,
        Meaning::Rankfile,
        "FILE    a file that gives each rank its host and hardware threads (see combray place)",
    ),
    option(
        &["--record"],
        ValueCount::One,
        Meaning::Record,
        "FILE    write the bytes and messages between all ranks to a file (see combray place)",
    ),
    option(
        &["--check"],
        ValueCount::Nothing,
        Meaning::Check,
        "     look for mistakes of the program while it runs, and report them",
    ),
    option(
        &["--profile"],
        ValueCount::FileEndingIn(&[".json", ".html"]),
        Meaning::Profile,
        "[FILE]    report at the end where the time went, and what would help; the whole profile \
         in FILE.json or FILE.html",
    ),
    option(
        &["--trace"],
        ValueCount::One,
        Meaning::Trace,
        "FILE    write which call, wait and message happened when, on all ranks, to a file for \
         Perfetto",
    ),
    option(
        &["--trace-last"],
        ValueCount::One,
        Meaning::TraceLast,
        "SECONDS    write only the last seconds of the trace",
    ),
    option(
        &["--record-order"],
        ValueCount::One,
        Meaning::Order(variables::RECORD_ORDER),
        "FOLDER    record what the result depends on: which messages receives from any source \
         get, which requests are complete first",
    ),
    option(
        &["--replay-order"],
        ValueCount::One,
        Meaning::Order(variables::REPLAY_ORDER),
        "FOLDER    repeat the run that --record-order has recorded there",
    ),
    option(
        &["--oversubscribe", "-oversubscribe"],
        ValueCount::Nothing,
        Meaning::Oversubscribe,
        "     start more processes than there are slots",
    ),
    option(
        &["--nooversubscribe", "-nooversubscribe"],
        ValueCount::Nothing,
        Meaning::NoOversubscribe,
        "     refuse more processes on a machine than it has hardware threads",
    ),
    option(
        &[
            "--keep-going",
            "--enable-recovery",
            "-enable-recovery",
            "--continuous",
            "-continuous",
            "-disable-auto-cleanup",
        ],
        ValueCount::Nothing,
        Meaning::KeepGoing,
        "     let the other processes go on when a process has failed",
    ),
    option(
        &["--force-library"],
        ValueCount::Nothing,
        Meaning::ForceLibrary,
        "     let a program load Combray's library also if its RPATH has another MPI's",
    ),
    option(
        &["--openmp"],
        ValueCount::Nothing,
        Meaning::OpenMp,
        "     let programs with OpenMP that GCC has compiled use Combray's library for it",
    ),
    option(
        &["--map-by", "-map-by"],
        ValueCount::One,
        Meaning::Binding(PolicyOption::MapBy),
        "ORDER    slot, node, package, numa, l3cache, core, ...; node,package,core; ppr:2:numa",
    ),
    option(
        &["--bind-to", "-bind-to"],
        ValueCount::One,
        Meaning::Binding(PolicyOption::BindTo),
        "LEVEL    none, core, l3cache, numa, package, ... (default: each to its share)",
    ),
    option(
        &["--rank-by", "-rank-by"],
        ValueCount::One,
        Meaning::Binding(PolicyOption::RankBy),
        "ORDER    slot: ranks follow places from left to right; numa, package, ...: in turn",
    ),
    option(
        &["--needs"],
        ValueCount::One,
        Meaning::Needs,
        "WORDS    place groups by needs, as \"0-3: memory; 4: network\"; or a file with that",
    ),
    option(
        &[
            "--report-bindings",
            "-report-bindings",
            "--display-map",
            "-display-map",
            "--display-devel-map",
            "-display-devel-map",
            "--display-map-devel",
            "--display-diffable-map",
            "-print-rank-map",
        ],
        ValueCount::Nothing,
        Meaning::ReportBindings,
        "     report where each process is bound",
    ),
    option(
        &["--dry-run"],
        ValueCount::Nothing,
        Meaning::DryRun,
        "     start nothing, and print what would run where",
    ),
    option(
        &["--display-allocation", "-display-allocation", "--display-devel-allocation"],
        ValueCount::Nothing,
        Meaning::ShowAllocation,
        "     report in one line which hosts and slots are used, and how they are reached",
    ),
    option(
        &["--topology"],
        ValueCount::One,
        Meaning::Machine,
        "MACHINE    with --dry-run: another machine, as a file or line of hwloc",
    ),
    option(
        &["--bind-to-none", "-bind-to-none"],
        ValueCount::Nothing,
        Meaning::BindingAs(PolicyOption::BindTo, "none"),
        "",
    ),
    option(
        &["--bind-to-core", "-bind-to-core"],
        ValueCount::Nothing,
        Meaning::BindingAs(PolicyOption::BindTo, "core"),
        "",
    ),
    option(
        &["--bind-to-socket", "-bind-to-socket"],
        ValueCount::Nothing,
        Meaning::BindingAs(PolicyOption::BindTo, "package"),
        "",
    ),
    option(
        &["--bycore", "-bycore"],
        ValueCount::Nothing,
        Meaning::BindingAs(PolicyOption::MapBy, "core"),
        "",
    ),
    option(&["--bynode", "-bynode", "-rr"], ValueCount::Nothing, Meaning::InTurn, ""),
    option(&["-genvall", "-envall"], ValueCount::Nothing, Meaning::AllVariables, ""),
    option(
        &["-initial-errhandler", "--initial-errhandler"],
        ValueCount::One,
        Meaning::InitialErrhandler,
        "NAME    what errors do at first: mpi_errors_are_fatal, _abort or _return",
    ),
    option(&["--help", "-h", "-help"], ValueCount::Nothing, Meaning::Help, "     this text"),
    option(
        &["--version", "-V", "-version"],
        ValueCount::Nothing,
        Meaning::Version,
        "     the version",
    ),
    option(
        &[
            "--allow-run-as-root",
            "-allow-run-as-root",
            "--use-hwthread-cpus",
            "-use-hwthread-cpus",
            "--use-hwthreads-as-cpus",
            "-ordered-output",
            "--byslot",
            "-byslot",
            "-q",
            "--quiet",
            "-quiet",
        ],
        ValueCount::Nothing,
        Meaning::Accepted,
        "",
    ),
    option(
        &["--output-filename", "-output-filename"],
        ValueCount::One,
        Meaning::OutputFolder,
        "FOLDER    write what each rank prints to FOLDER/1/rank.N/stdout and stderr, too",
    ),
    option(
        &["-outfile-pattern", "--outfile-pattern"],
        ValueCount::One,
        Meaning::FilePattern(OutputKind::Output),
        "NAME    write standard output to files only: %r is the rank, %h the host",
    ),
    option(
        &["-errfile-pattern", "--errfile-pattern"],
        ValueCount::One,
        Meaning::FilePattern(OutputKind::Errors),
        "NAME    write standard error to files only, like --output-file",
    ),
    option(
        &["--timestamp-output", "-timestamp-output"],
        ValueCount::Nothing,
        Meaning::TimeOutput,
        "     begin each line of output with the time (UTC)",
    ),
    option(
        &["--merge-stderr-to-stdout", "-merge-stderr-to-stdout"],
        ValueCount::Nothing,
        Meaning::MergeOutput,
        "     pass standard error on with standard output",
    ),
    option(
        &["--output", "-output"],
        ValueCount::One,
        Meaning::Output,
        "WORDS    tag, timestamp, merge, dir=FOLDER, file=NAME; with commas between them",
    ),
    option(
        &["--display", "-display"],
        ValueCount::One,
        Meaning::Display,
        "WORDS    map, bind: as --report-bindings; allocation: as --display-allocation",
    ),
    option(&["-l", "-prepend-rank", "--prepend-rank"], ValueCount::Nothing, Meaning::TagRank, ""),
    option(&["-v", "--verbose", "-verbose"], ValueCount::Nothing, Meaning::Verbose, ""),
    option(
        &["--cpus-per-proc", "-cpus-per-proc", "--cpus-per-rank", "-cpus-per-rank"],
        ValueCount::One,
        Meaning::CoresEach,
        "",
    ),
    option(&["--npersocket", "-npersocket"], ValueCount::One, Meaning::EachPackage, ""),
    option(&["--pernode", "-pernode"], ValueCount::Nothing, Meaning::OnePerMachine, ""),
    option(
        &["--bysocket", "-bysocket"],
        ValueCount::Nothing,
        Meaning::BindingAs(PolicyOption::MapBy, "package"),
        "",
    ),
    option(
        &["-launcher", "--launcher", "-bootstrap", "--bootstrap"],
        ValueCount::One,
        Meaning::Launcher,
        "",
    ),
    option(&["-iface", "--iface"], ValueCount::One, Meaning::Interface, ""),
    option(&["--with-ft", "-with-ft"], ValueCount::One, Meaning::FaultTolerance, ""),
    option(&["-s", "--stdin", "-stdin"], ValueCount::One, Meaning::StandardInput, ""),
    option(&["-rmk", "--rmk"], ValueCount::One, Meaning::Accepted, ""),
    option(&["--prefix", "-prefix"], ValueCount::One, Meaning::Accepted, ""),
    option(
        &["--report-state-on-timeout", "-disable-hostname-propagation"],
        ValueCount::Nothing,
        Meaning::Accepted,
        "",
    ),
    option(
        &[
            "--mca",
            "-mca",
            "--gmca",
            "-gmca",
            "--omca",
            "--prtemca",
            "-prtemca",
            "--gprtemca",
            "--pmixmca",
            "--gpmixmca",
        ],
        ValueCount::Two,
        Meaning::Parameter,
        "",
    ),
];

/// The option with this spelling.
pub fn find(name: &str) -> Option<&'static RunOption> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_has_two_meanings() {
        let names: Vec<_> = OPTIONS.iter().flat_map(|option| option.names).collect();
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(names.len(), distinct.len());
    }

    #[test]
    fn the_page_lists_every_spelling() {
        let page = include_str!("../../../../docs/user/launching.md");
        for name in OPTIONS.iter().flat_map(|option| option.names) {
            assert!(page.contains(&format!("`{name}`")), "docs/user/launching.md lacks {name}");
        }
    }
}
