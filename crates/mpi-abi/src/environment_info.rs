//! The info object `MPI_INFO_ENV` (section 11.5.4 of the standard).

use std::env;
use std::rc::Rc;

use mpi::Process;
use mpi::info::{Environment, Info};

use crate::output::host_name;
use crate::thread_levels::name_of_level;

/// Returns the contents of `MPI_INFO_ENV`.
pub fn of_this_process(process: &Process) -> Rc<Info> {
    let mut words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let command = words.next();
    of_command(process, command, words.collect())
}

/// Returns the contents of `MPI_INFO_ENV` for a program that was started with these words.
pub fn of_command(process: &Process, command: Option<String>, arguments: Vec<String>) -> Rc<Info> {
    let level = name_of_level(process.thread_level());
    Info::of_environment(&Environment {
        command,
        arguments: (!arguments.is_empty()).then(|| arguments.join(" ")),
        processes_max: process.size_of_job().map(|size| size.to_string()),
        host: Some(host_name()),
        architecture: Some(env::consts::ARCH.to_owned()),
        working_directory: env::current_dir().ok().map(|path| path.display().to_string()),
        // No launcher requests a level, so before initialization there is none.
        thread_level: process.is_initialized().then(|| level.to_owned()),
        ..Environment::default()
    })
}
