//! Options of Open MPI's and MPICH's launchers that have no meaning here, and their replacements.

use runtime::configuration::distance;

use super::called;
use super::options::{self, OPTIONS};

/// Spellings that are refused, with a replacement.
pub struct RefusedOption {
    /// Its spellings.
    pub names: &'static [&'static str],
    /// What to write instead, as a sentence without its end.
    pub instead: &'static str,
}

const fn refused(names: &'static [&'static str], instead: &'static str) -> RefusedOption {
    RefusedOption { names, instead }
}

const TRANSFER: &str = "programs and files must be on all hosts: put them into a folder that hosts \
                        share, or copy them before (sbcast, scp)";
const DEBUGGER: &str = "start a debugger for each process, as in combray run -n 2 xterm -e gdb \
                        ./program, or attach one with gdb -p to the process that --report-bindings \
                        or the message of --timeout names";
const VARIABLES: &str = "Combray is set by variables of the environment: combray info lists them, \
                         -x NAME=VALUE sets one";
const HERE: &str = "it concerns daemons that Combray does not have; leave it out";
const SPAWN: &str = "a spawned job has an exit code and words of its own; leave it out";
const ENVIRONMENT: &str = "processes get the launcher's environment: start the launcher with less, \
                           as in env -i PATH=$PATH combray run ./program";

/// All refused options.
pub const REFUSED: &[RefusedOption] = &[
    refused(
        &["--app", "-app", "-configfile", "--configfile", "-file", "--file"],
        "write the programs into the command line, with : between them",
    ),
    refused(
        &["--tune", "-tune", "--am", "-am", "-profile", "-tuning", "--runtime-options"],
        VARIABLES,
    ),
    refused(
        &["-trace", "-t", "-trace-imbalance", "-aps", "-mps"],
        "write --trace FILE, which records what happens when, or --profile, which reports where the \
         time goes",
    ),
    refused(&["-check-mpi", "-check_mpi"], "write --check"),
    refused(
        &["-gtool", "-gtoolfile"],
        "write the tool before the program, as in combray run -n 2 valgrind ./program",
    ),
    refused(&["-prot"], "write combray info, without a program, which lists the networks"),
    refused(&["-umask"], "write umask 022 on a line before"),
    refused(
        &["-localroot", "-localuser", "-silent-abort", "-cleanup", "-noconf", "-ilp64", "-hostos"],
        "leave it out",
    ),
    refused(
        &["-branch-count", "-pmi-aggregate", "-pmi-noaggregate", "-hybrid-hosts", "-nameserver"],
        HERE,
    ),
    refused(&["-use-app-topology"], "write --rankfile, which combray place makes"),
    refused(
        &["-bootstrap-exec-args"],
        "write them with the command, as in --launch-agent \"ssh -p 2222\"",
    ),
    refused(&["-enable-x", "-disable-x"], "the settings of ssh decide about X; leave it out"),
    refused(&["--set-env"], "write -x NAME=VALUE"),
    refused(&["--unset-env"], "write env -u NAME before the program"),
    refused(
        &["--prepend-env", "--prepend-envar", "--append-env", "--append-envar"],
        "write -x NAME=VALUE:$NAME",
    ),
    refused(&["--ppr"], "write --map-by ppr:2:node"),
    refused(&["--bind-to-board"], "write --bind-to package"),
    refused(&["--loadbalance", "--num-cores", "--num-sockets", "--num-boards"], "write --map-by"),
    refused(&["--max-vm-size"], "name all hosts with --hosts"),
    refused(&["--gpu-support"], "there is system memory only; leave it out"),
    refused(&["--disable-recovery"], "leave out this option and --keep-going"),
    refused(&["--path", "-path"], "write -x PATH=FOLDER:$PATH, or the program with its folder"),
    refused(
        &["--preload-binary", "--preload-files", "-preload-binary", "-preload-files"],
        TRANSFER,
    ),
    refused(&["--nolocal", "-nolocal"], "name the other hosts with --hosts"),
    refused(&["--add-host", "--add-hostfile", "-soft", "-arch"], "name all hosts with --hosts"),
    refused(&["-rankmap"], "write --rankfile"),
    refused(&["--display-topo", "-display-topo"], "write combray topo, without a program"),
    refused(
        &["--forward-signals", "-forward-signals"],
        "INT, TERM, HUP, QUIT, USR1, USR2, TSTP and CONT are passed on; leave it out",
    ),
    refused(
        &["--report-pid", "-report-pid"],
        "a shell knows the launcher's process as $!: combray run ... & echo $! > file",
    ),
    refused(&["--report-uri", "-report-uri", "--dvm", "--dvm-uri", "--system-server-first"], HERE),
    refused(
        &[
            "--tv",
            "-tv",
            "--debug",
            "-debug",
            "-d",
            "--debugger",
            "-debugger",
            "-gdb",
            "--gdb",
            "-gdba",
            "-gdbx",
            "-dbg",
            "--xterm",
            "-xterm",
            "--output-proctable",
        ],
        DEBUGGER,
    ),
    refused(&["--stop-on-exec", "--stop-in-init", "--stop-in-app"], DEBUGGER),
    refused(&["-ranks-per-proc", "-order-nodes", "-hosts-group"], "write --map-by or --rankfile"),
    refused(&["-info", "--info"], "write combray info, without a program"),
    refused(&["--get-stack-traces", "-get-stack-traces"], DEBUGGER),
    refused(
        &["-genvnone", "-envnone", "--genvnone", "-genvexcl", "-envexcl", "-genvuser", "-envuser"],
        ENVIRONMENT,
    ),
    refused(
        &["-print-all-exitcodes"],
        "let a shell print it: combray run sh -c './program; echo $PMI_RANK $?'",
    ),
    refused(
        &["--cpu-set", "-cpu-set", "--cpu-list", "-cpu-list", "-slot-list", "--slot-list"],
        "restrict the launcher, and with it the processes here: taskset -c 0-3 combray run ..., or \
         write --rankfile",
    ),
    refused(&["-membind", "--membind"], "write numactl --membind=NODE before the program"),
    refused(&["-topolib"], "machines are read by hwloc; leave it out"),
    refused(&["-usize", "--usize"], "MPI_UNIVERSE_SIZE is the number of slots; leave it out"),
    refused(&["--max-restarts"], "processes are not restarted; leave it out"),
    refused(&["-localhost"], "COMBRAY_NODE gives this machine a name"),
    refused(
        &[
            "--noprefix",
            "--no-app-prefix",
            "--app-prefix",
            "--pmix-prefix",
            "--app-pmix-prefix",
            "--enable-prte-prefix-by-default",
        ],
        "Combray must be at the same path on all hosts; the path of this launcher is used",
    ),
    refused(&["--personality", "-personality"], "leave it out: all spellings are understood"),
    refused(
        &["--tmpdir", "-tmpdir", "--set-cwd-to-session-dir"],
        "a job keeps no files; programs find TMPDIR as it is set",
    ),
    refused(
        &["-demux", "-pmi-port", "-pmi-args", "-skip-launch-node", "-gpus-per-proc"],
        "leave it out",
    ),
    refused(
        &[
            "--debug-daemons",
            "--debug-daemons-file",
            "--debug-devel",
            "--debug-verbose",
            "--leave-session-attached",
            "--daemonize",
            "--exec-agent",
            "--fwd-mpirun-port",
            "--hetero-nodes",
            "--no-ready-msg",
            "--novm",
            "--set-sid",
            "--show-progress",
            "--ompi-server",
            "--server-wait-time",
            "--wait-for-server",
            "--prte-server",
            "--system-server",
            "--system-server-only",
            "--pid",
            "--namespace",
            "--pset",
            "--singleton",
            "--keepalive",
            "--wait-to-connect",
            "--num-connect-retries",
            "--do-not-connect",
            "--enable-instant-on-support",
            "--use-regexp",
            "--report-events",
        ],
        HERE,
    ),
    refused(&["--do-not-launch"], "write --dry-run"),
    refused(&["--do-not-resolve"], "names are looked up by ssh; leave it out"),
    refused(&["--spawn-timeout"], "hosts have 60 s to start; --timeout limits the whole job"),
    refused(
        &["--memory-alloc-kinds", "-memory-alloc-kinds"],
        "there is system memory only; leave it out",
    ),
    refused(&["--report-child-jobs-separately", "--index-argv-by-rank"], SPAWN),
    refused(
        &["--parsable", "--parseable", "--xml", "-xml", "--xml-file"],
        "the output has one form only",
    ),
    refused(
        &["--stream-buffering"],
        "lines are passed on when they are whole; write stdbuf -oL before the program",
    ),
    refused(&["-prepend-pattern"], "write --tag-output or --timestamp-output"),
    refused(
        &["-ckpointlib", "-ckpoint-interval", "-ckpoint-prefix", "-ckpoint-num"],
        "programs save their state themselves; leave it out",
    ),
];

/// The replacement for a spelling that is refused.
pub fn instead_of(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|option| option.names.contains(&name)).map(|option| option.instead)
}

/// The message for an unknown option, with a replacement if one is known.
pub fn unknown(name: &str) -> String {
    if let Some(instead) = instead_of(name) {
        return format!("{} has no {name}: {}", called::name(), called::named(instead));
    }
    let joined = name.find(|letter: char| letter.is_ascii_digit()).map(|at| name.split_at(at));
    if let Some((option, number)) = joined.filter(|(option, _)| options::find(option).is_some()) {
        return format!("{} has no option {name}; write {option} {number}", called::name());
    }
    let names = OPTIONS.iter().flat_map(|option| option.names);
    let far = |known: &&&str| distance(known.trim_matches('-'), name.trim_matches('-'));
    let errors_max = TYPING_ERRORS_MAX.min(name.trim_matches('-').len() / 3);
    let nearest = names.min_by_key(far).filter(|known| far(known) <= errors_max);
    let hint = nearest.map_or_else(String::new, |known| format!("; did you mean {known}?"));
    let called = called::name();
    format!("{called} has no option {name}{hint} ({called} --help lists all)")
}

/// A word that differs by more letters, or by more than a third of them, counts as another word.
const TYPING_ERRORS_MAX: usize = 2;
