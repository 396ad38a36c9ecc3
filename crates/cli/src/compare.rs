//! `combray compare`: runs a program alternately with Combray and with another MPI library of the
//! program's binary interface.

mod other;
mod table;
mod tally;

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use base::variables;
use clap::Args;
use launcher::libraries::KnownLibrary;
use sys::cores;

use crate::{doctor, prefix};
use other::Installation;
use tally::MeasuredRun;

/// The options of `combray compare`.
#[derive(Args)]
pub struct CompareOptions {
    /// How many processes; without it, as many as there are usable cores
    #[arg(long, short = 'n', value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=4096))]
    processes: Option<u32>,
    /// How often the program runs with each library
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Where the other library is installed: the folder that contains bin/mpiexec and lib; without
    /// it, the first such folder that PATH leads to
    #[arg(long, value_name = "FOLDER")]
    with: Option<PathBuf>,
    /// Seconds after which a run is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// The program and its arguments. Calls are counted if the program has MPI's standard ABI, as
    /// mpicc makes it; a program that was compiled for another MPI is compared with that MPI
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// One of the two libraries, with the results of its runs.
struct Side {
    installation: Installation,
    runs: Vec<MeasuredRun>,
}

/// Runs the program with both libraries, and prints times and communication.
///
/// # Errors
/// The program is no MPI program, there is no other library that it can use, or a run failed.
pub fn run(options: &CompareOptions) -> Result<i32, String> {
    let prefix = prefix::find()?;
    let program = other::find_program(&options.program[0])?;
    let wanted = other::library_of(&program)?;
    // The counter intercepts the calls of the standard ABI.
    let counter =
        other::is_standard(wanted).then(|| prefix.join("lib/combray/libcombray-tally.so"));
    if let Some(counter) = counter.as_ref().filter(|counter| !counter.exists()) {
        return Err(format!("{} is not installed: run make install", counter.display()));
    }
    let peer = match &options.with {
        Some(folder) => Installation::at(folder, wanted)?,
        None => Installation::in_path(&prefix, wanted)?,
    };
    let processes = options.processes.unwrap_or(cores::usable() as u32);
    let folder = tempfile::Builder::new().prefix("combray-compare-").tempdir();
    let folder =
        folder.map_err(|cause| format!("no folder can be created for the results: {cause}"))?;
    let trial = ComparedProgram {
        options,
        folder: folder.path(),
        program: &program,
        processes,
        wanted,
        counter: counter.as_deref(),
    };
    let mut sides = [Installation::own(&prefix, wanted)?, peer]
        .map(|installation| Side { installation, runs: Vec::new() });
    for side in &sides {
        other::check_loads(&program, &side.installation, wanted)?;
    }
    // Before the runs, which fill the cores themselves.
    let oversubscription = doctor::oversubscription();
    for turn in 0..options.runs {
        // Each library begins every second time, because the first run may be at a disadvantage.
        let order = if turn % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            let side = &mut sides[index];
            print_progress(&format!("combray: run {} of {}", turn + 1, options.runs));
            let tally = trial.run(&side.installation, None)?;
            side.runs.push(tally);
        }
    }
    let matrix = folder.path().join("matrix");
    let recorded = trial.run(&sides[0].installation, Some(&matrix));
    let sent = fs::read_to_string(&matrix).ok();
    recorded?;
    print_progress("");
    let title = options.program.join(" ".as_ref()).to_string_lossy().into_owned();
    println!("{title}: {processes} processes, {} runs with each in alternation\n", options.runs);
    let [own, others] = &sides;
    let table = match counter {
        Some(_) => table::table(&own.runs, &others.runs, processes),
        None => table::table_of_jobs(&own.runs, &others.runs),
    };
    print!("{table}");
    if let Some(load) = oversubscription {
        println!(
            "\nThis machine was busy when the runs began: {load}. Compare again when it is not."
        );
    }
    if let Some((messages, bytes)) = sent.as_deref().map(tally::sent) {
        println!(
            "\nBetween processes: {messages} messages with {bytes} bytes, those of collective operations \
             and the library's own among them (recorded with Combray)"
        );
    }
    Ok(0)
}

/// Shows the progress in a line of the terminal that the next message replaces.
fn print_progress(what: &str) {
    if io::stderr().is_terminal() {
        eprint!("\r{what:<30}{}", if what.is_empty() { "\r" } else { "" });
    }
}

/// The program to compare, and the settings of its runs.
struct ComparedProgram<'a> {
    options: &'a CompareOptions,
    program: &'a Path,
    processes: u32,
    wanted: &'a KnownLibrary,
    /// A private folder for the counts.
    folder: &'a Path,
    /// The library that counts the calls; none if they cannot be counted.
    counter: Option<&'a Path>,
}

impl ComparedProgram<'_> {
    /// Runs one job.
    fn run(&self, side: &Installation, record: Option<&Path>) -> Result<MeasuredRun, String> {
        let file = self.folder.join("tally");
        let mut command = Command::new(&side.launcher);
        if side.is_own {
            command.args(["run", "--oversubscribe"]);
            record.into_iter().for_each(|matrix| _ = command.arg("--record").arg(matrix));
        }
        command.args(["-n", &self.processes.to_string(), "env"]);
        command.arg(assigned("LD_LIBRARY_PATH", &side.library_path()));
        if let Some(counter) = self.counter {
            command.arg(assigned("LD_PRELOAD", counter.as_os_str()));
        }
        command.arg(self.program).args(&self.options.program[1..]);
        command
            .env(variables::TALLY, &file)
            .env("MPIEXEC_TIMEOUT", self.options.timeout.to_string());
        let begin = Instant::now();
        let output = command.stdin(Stdio::null()).output();
        let whole = begin.elapsed();
        let output = output
            .map_err(|cause| format!("{} cannot be run: {cause}", side.launcher.display()))?;
        let text = fs::read_to_string(&file).unwrap_or_default();
        _ = fs::remove_file(&file);
        let whole = whole.as_secs_f64();
        let tally = match self.counter {
            Some(_) => MeasuredRun::read(&text, whole),
            None => Some(MeasuredRun::of_job(side.name(self.wanted), whole)),
        };
        match tally {
            Some(tally) if output.status.success() => Ok(tally),
            _ => {
                let output_text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Err(format!(
                    "the program fails with {} ({}), or does not call MPI_Finalize from \
                     C\n{printed}\n{output_text}",
                    side.launcher.display(),
                    output.status
                ))
            }
        }
    }
}

/// `NAME=value`.
fn assigned(name: &str, value: &std::ffi::OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}
