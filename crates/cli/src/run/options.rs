//! The options of `combray run`, ours and the common spellings of Open MPI and MPICH, in one table.

use launcher::binding::PolicyOption;

/// An option.
pub struct RunOption {
    /// Its spellings.
    pub names: &'static [&'static str],
    /// The words that follow it.
    pub takes: ValueCount,
    /// What it does.
    pub meaning: Meaning,
    /// What `--help` says; empty for those that are accepted for others' sake only.
    pub help: &'static str,
}

/// How many words an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueCount {
    Nothing,
    One,
    Two,
}

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Processes,
    /// As many, unless the number of all is given.
    ProcessesPerMachine,
    TagOutput,
    Timeout,
    Variable,
    GlobalVariable,
    VariableList,
    Folder,
    Hosts,
    /// A file that names hosts.
    HostFile,
    /// How other hosts are reached.
    LaunchAgent,
    /// More processes than slots.
    Oversubscribe,
    /// Never more processes than hardware threads.
    NoOversubscribe,
    /// The job goes on when a process has failed.
    KeepGoing,
    /// Where processes run on their machine.
    Seating(PolicyOption),
    /// The same with words that the spelling says itself.
    SeatingAs(PolicyOption, &'static str),
    /// What groups of processes need, or a file that tells.
    Needs,
    /// Each process tells where it is bound.
    ReportBindings,
    /// Nothing is started.
    DryRun,
    /// Hosts and slots are told in one line.
    ShowAllocation,
    /// The machine of a dry run.
    Machine,
    /// Each host in turn.
    InTurn,
    /// All variables go to other hosts.
    AllVariables,
    /// A file that gives each rank its place.
    Rankfile,
    /// Where the matrix of communication is written.
    Record,
    /// What errors do until the program sets an error handler.
    InitialErrhandler,
    Help,
    Version,
    /// What it asks for is so anyway.
    Accepted,
    /// It has no effect yet, which is said once.
    Ignored,
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
        &["-N", "-ppn", "-npernode", "--npernode", "-perhost"],
        ValueCount::One,
        Meaning::ProcessesPerMachine,
        "N    how many processes on each host",
    ),
    option(
        &["--tag-output", "-l", "-prepend-rank", "--prepend-rank", "-tag-output"],
        ValueCount::Nothing,
        Meaning::TagOutput,
        "     begin each line of output with the rank, as [3]",
    ),
    option(
        &["--timeout", "-timeout"],
        ValueCount::One,
        Meaning::Timeout,
        "SECONDS    end the job after that time",
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
        &["--hostfile", "-f", "-hostfile", "--machinefile", "-machinefile"],
        ValueCount::One,
        Meaning::HostFile,
        "FILE    a file that names hosts, one a line: a:2, or a slots=2",
    ),
    option(
        &["--launch-agent", "-launch-agent", "-launcher-exec"],
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
        "     let the others go on when a process has failed",
    ),
    option(
        &["--map-by", "-map-by"],
        ValueCount::One,
        Meaning::Seating(PolicyOption::MapBy),
        "ORDER    slot, node, package, numa, l3cache, core, ...; node,package,core; ppr:2:numa",
    ),
    option(
        &["--bind-to", "-bind-to"],
        ValueCount::One,
        Meaning::Seating(PolicyOption::BindTo),
        "LEVEL    none, core, l3cache, numa, package, ... (default: each to its share)",
    ),
    option(
        &["--rank-by", "-rank-by"],
        ValueCount::One,
        Meaning::Seating(PolicyOption::RankBy),
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
            "-print-rank-map",
        ],
        ValueCount::Nothing,
        Meaning::ReportBindings,
        "     tell where each process is bound",
    ),
    option(
        &["--dry-run"],
        ValueCount::Nothing,
        Meaning::DryRun,
        "     start nothing, and print what would run where",
    ),
    option(
        &["--display-allocation", "-display-allocation"],
        ValueCount::Nothing,
        Meaning::ShowAllocation,
        "     tell in one line which hosts and slots are used, and how they are reached",
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
        Meaning::SeatingAs(PolicyOption::BindTo, "none"),
        "",
    ),
    option(
        &["--bind-to-core", "-bind-to-core"],
        ValueCount::Nothing,
        Meaning::SeatingAs(PolicyOption::BindTo, "core"),
        "",
    ),
    option(
        &["--bind-to-socket", "-bind-to-socket"],
        ValueCount::Nothing,
        Meaning::SeatingAs(PolicyOption::BindTo, "package"),
        "",
    ),
    option(
        &["--bycore", "-bycore"],
        ValueCount::Nothing,
        Meaning::SeatingAs(PolicyOption::MapBy, "core"),
        "",
    ),
    option(&["--bynode", "-bynode"], ValueCount::Nothing, Meaning::InTurn, ""),
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
        &[
            "-v",
            "--verbose",
            "-verbose",
            "--get-stack-traces",
            "--report-state-on-timeout",
            "-genvnone",
            "-envnone",
            "-print-all-exitcodes",
            "-disable-hostname-propagation",
        ],
        ValueCount::Nothing,
        Meaning::Ignored,
        "",
    ),
    option(
        &[
            "--cpu-set",
            "-cpu-set",
            "--cpu-list",
            "-cpu-list",
            "--cpus-per-proc",
            "-cpus-per-proc",
            "--cpus-per-rank",
            "-cpus-per-rank",
            "-membind",
            "-launcher",
            "--launcher",
            "-bootstrap",
            "-rmk",
            "-iface",
            "-topolib",
            "-usize",
            "-localhost",
            "-s",
            "--stdin",
            "-stdin",
            "--prefix",
            "--personality",
            "--tmpdir",
            "--output",
            "--display",
        ],
        ValueCount::One,
        Meaning::Ignored,
        "",
    ),
    option(
        &["--mca", "-mca", "--gmca", "-gmca", "--omca", "--prtemca", "-prtemca", "--pmixmca"],
        ValueCount::Two,
        Meaning::Ignored,
        "",
    ),
];

/// The option with a spelling.
pub fn find(name: &str) -> Option<&'static RunOption> {
    OPTIONS.iter().find(|option| option.names.contains(&name))
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Starts the processes of a program, on this machine or on several.\n\n\
         combray run [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS] ...]\n\n",
    );
    for option in OPTIONS.iter().filter(|option| !option.help.is_empty()) {
        let names = option.names[..option.names.len().min(2)].join(", ");
        let (values, effect) = option.help.split_once("    ").unwrap_or(("", option.help));
        text += &format!("  {:<32} {}\n", format!("{names} {values}"), effect.trim());
    }
    text + "\nA process that fails ends the job; the exit code is its own, or 128 and the number of the\n\
            signal that killed it. Other spellings of Open MPI's and MPICH's launchers are accepted;\n\
            docs/launching.md lists them.\n"
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
        let page = include_str!("../../../../docs/launching.md");
        for name in OPTIONS.iter().flat_map(|option| option.names) {
            assert!(page.contains(&format!("`{name}`")), "docs/launching.md lacks {name}");
        }
    }
}
