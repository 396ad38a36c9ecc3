#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[macro_use]
mod output;

mod bench;
mod compare;
mod doctor;
#[cfg(test)]
mod documents;
mod examples;
mod fortran;
mod history;
mod info;
mod manual;
mod memory;
mod names;
mod nearness;
mod openmp;
mod place;
mod prefix;
mod ps;
mod raster;
mod resize;
mod run;
mod sample;
mod topo;
mod trace;
mod wrapper;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use launch::spawning::SUBCOMMAND as SPAWNED;
use wrapper::Language;

/// Combray: message passing for clusters of hierarchical machines.
#[derive(Parser)]
#[command(name = "combray", version = base::VERSION, about)]
struct Command {
    #[command(subcommand)]
    action: CombrayCommand,
}

#[derive(Subcommand)]
enum CombrayCommand {
    /// Starts the processes of a program: combray run -n 4 ./program (see combray run --help)
    #[command(disable_help_flag = true)]
    Run {
        /// Options of the launcher, the program, and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Shows version, folders, variables, and what is not implemented yet
    Info {
        /// Lists the functions that are not implemented yet
        #[arg(long)]
        unsupported: bool,
        /// Prints JSON: one line
        #[arg(long, conflicts_with_all = ["unsupported", "variables", "collectives", "copying"])]
        json: bool,
        /// Lists what tools see of a running process: variables and events
        #[arg(long, conflicts_with = "unsupported")]
        variables: bool,
        /// Shows which algorithms collective operations use, from which size on, and how long they
        /// are predicted to take
        #[arg(long, conflicts_with_all = ["unsupported", "variables"])]
        collectives: bool,
        /// Shows how messages between processes of this machine are copied at first, by length, and
        /// how long each method is predicted to take
        #[arg(long, conflicts_with_all = ["unsupported", "variables", "collectives"])]
        copying: bool,
        /// Shows which MPI library a program was built for, and which one it would load
        #[arg(value_name = "PROGRAM", conflicts_with_all = ["unsupported", "variables", "collectives", "copying"])]
        program: Option<std::path::PathBuf>,
        #[command(flatten)]
        communicator: info::choices::ShownCommunicator,
    },
    /// Checks whether this machine, its allocation and its network are fit for jobs, and shows what
    /// to do where they are not
    Doctor(doctor::DoctorOptions),
    /// Runs a program with Combray and with another MPI library in alternation, and shows times and
    /// calls of both: combray compare ./program
    Compare(compare::CompareOptions),
    /// Makes the Fortran interfaces for a compiler: combray fortran --compiler gfortran
    Fortran(fortran::FortranOptions),
    /// Runs a program with OpenMP, but without MPI, on Combray's library for it: combray openmp
    /// ./program
    #[command(disable_help_flag = true)]
    Openmp {
        /// The program, and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<OsString>,
    },
    /// Serves a launcher on another machine, which starts it there
    #[command(hide = true)]
    Agent {
        /// The timeout in seconds: if nothing is received for this long, the launcher counts as
        /// lost.
        #[arg(default_value_t = base::variables::HOST_TIMEOUT_DEFAULT.as_secs_f64())]
        timeout: f64,
    },
    /// Shows what the ranks of a job do, and why it hangs: combray ps, while it runs
    Ps(ps::PsOptions),
    /// Lists the services that jobs of this user have published with MPI_Publish_name, and removes
    /// them
    Names(names::NamesOptions),
    /// Asks a running elastic program to have more or fewer processes: combray resize +2
    Resize(resize::ResizeOptions),
    /// Measures the rails between two processes, here or on two hosts, and keeps the figures for
    /// later jobs
    Sample(sample::SampleOptions),
    /// Computes which rank should run where, from the matrix of a recorded run
    Place(place::PlaceOptions),
    /// Shows this machine or a described one: packages, memory, caches, cores, devices, distances,
    /// and where the processes of a job are bound
    Topo(topo::TopoOptions),
    /// Shows what a trace reveals, the most expensive waits first: combray run --trace run.pftrace
    /// ./program, then combray trace run.pftrace
    Trace(trace::TraceOptions),
    /// Shows how long programs and their parts took in earlier runs with combray run --profile
    History(history::HistoryOptions),
    /// Runs a benchmark: combray bench pingpong
    #[command(disable_help_flag = true)]
    Bench {
        /// Options of combray run, then the benchmark's name and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "BENCHMARK")]
        words: Vec<OsString>,
    },
    /// Writes man pages and completions into their folders below this folder
    #[command(hide = true)]
    Manual {
        /// The folder `share` of an installation
        folder: std::path::PathBuf,
    },
}

/// The command line parser, with the examples of each subcommand.
fn command_line() -> clap::Command {
    let names: Vec<String> =
        Command::command().get_subcommands().map(|one| one.get_name().to_owned()).collect();
    names.into_iter().fold(Command::command(), |command, name| {
        let text = examples::text(&name);
        command.mut_subcommand(name, |one| one.after_help(text))
    })
}

/// Parses the command line. On an error, prints a message and ends the process.
fn parse() -> Command {
    let matches = command_line().try_get_matches();
    matches.and_then(|all| Command::from_arg_matches(&all)).unwrap_or_else(|error| refuse(&error))
}

/// Ends the process with the message about wrong words of the command line, or with the requested
/// help. The message begins as all others.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    eprint!("{}", error.render().to_string().replacen("error: ", "combray: ", 1));
    std::process::exit(2)
}

/// The command as which this program runs under this name, if it is one of the other names. The
/// folder is ignored, as is the suffix `.combray`, which Debian appends because several MPIs may be
/// installed.
fn other_name(word: &OsString) -> Option<&'static str> {
    let name = Path::new(word).file_name()?.to_str()?;
    let name = name.strip_suffix(".combray").unwrap_or(name);
    OTHER_NAMES.into_iter().find(|other| *other == name)
}

/// The names besides `combray` under which this program is installed.
const OTHER_NAMES: [&str; 9] =
    ["mpirun", "mpiexec", "mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif77", "mpif90"];

/// Why this program refuses to run with more rights than its user: it starts programs and loads
/// libraries that the user names.
const REFUSED: &str = "this program has more rights than the user that starts it (set-user-ID, \
                       set-group-ID or file capabilities), which is not allowed, because it starts \
                       programs and loads libraries that the user names. An administrator can \
                       remove these rights: chmod ug-s FILE; setcap -r FILE";

fn main() -> ExitCode {
    if sys::environment::is_privileged() {
        eprintln!("combray: {REFUSED}");
        return ExitCode::from(2);
    }
    let mut words = env::args_os().peekable();
    let called = words.next().as_ref().and_then(other_name);
    let called = called
        .or_else(|| words.next_if(|word| other_name(word).is_some()).as_ref().and_then(other_name));
    // Only processes that spawn others call it, and wait for it: making the parser of the command
    // line takes longer than all else that this process does.
    let is_spawned = called.is_none() && words.next_if(|word| word == SPAWNED).is_some();
    let outcome = match called {
        None if is_spawned => run::run_spawned(&words.collect::<Vec<_>>()),
        Some(name @ ("mpirun" | "mpiexec")) => run::run_as(name, &words.collect::<Vec<_>>()),
        Some(name) if let Some(language) = Language::of_wrapper(name) => {
            wrapper::run(language, &words.collect::<Vec<_>>())
        }
        _ => match parse().action {
            CombrayCommand::Run { words } => run::run(&words),
            CombrayCommand::Info { json: true, .. } => info::run(info::Topic::Json),
            CombrayCommand::Info { unsupported: true, .. } => info::run(info::Topic::Unsupported),
            CombrayCommand::Info { variables: true, .. } => info::run(info::Topic::Variables),
            CombrayCommand::Info { collectives: true, communicator, .. } => {
                info::run(info::Topic::Collectives(&communicator))
            }
            CombrayCommand::Info { copying: true, .. } => info::run(info::Topic::Copying),
            CombrayCommand::Info { program: Some(program), .. } => {
                info::run(info::Topic::Program(&program))
            }
            CombrayCommand::Info { .. } => info::run(info::Topic::Summary),
            CombrayCommand::Doctor(options) => doctor::run(&options),
            CombrayCommand::Compare(options) => compare::run(&options),
            CombrayCommand::Fortran(options) => fortran::run(&options),
            CombrayCommand::Agent { timeout } => std::time::Duration::try_from_secs_f64(timeout)
                .map_err(|error| error.to_string())
                .and_then(|timeout| {
                    memory::calibrate_once();
                    launcher::serve_as_agent(timeout, runtime::open_ahead)
                        .map_err(|error| error.to_string())
                }),
            CombrayCommand::Openmp { words } => openmp::run(&words).map(|never| match never {}),
            CombrayCommand::Ps(options) => ps::run(&options),
            CombrayCommand::Names(options) => names::run(&options),
            CombrayCommand::Resize(options) => resize::run(&options),
            CombrayCommand::Sample(options) => sample::run(&options),
            CombrayCommand::Place(options) => place::run(&options),
            CombrayCommand::Topo(options) => topo::run(&options),
            CombrayCommand::Trace(options) => trace::run(&options).map(|()| 0),
            CombrayCommand::History(options) => history::run(&options).map(|()| 0),
            CombrayCommand::Bench { words } => bench::run(&words),
            CombrayCommand::Manual { folder } => manual::write(command_line(), &folder).map(|()| 0),
        },
    };
    match outcome {
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1)),
        Err(message) => {
            eprintln!("combray: {}", foreign::message(&message));
            ExitCode::from(2)
        }
    }
}
