//! `combray bench`.

use std::ffi::OsString;

use launch::{Application, Plan};

use crate::prefix;

/// Runs the installed benchmark program on two processes, or on as many as `-n` says.
pub fn run(words: &[OsString]) -> Result<i32, String> {
    let program = prefix::find()?.join("lib/combray/combray-bench");
    if !program.exists() {
        return Err(format!(
            "the benchmark program is not installed ({}): run make install",
            program.display()
        ));
    }
    let (processes, arguments) = match words {
        [flag, count, rest @ ..] if flag == "-n" || flag == "-np" => {
            let count = count.to_str().and_then(|text| text.parse().ok()).filter(|c| *c > 0);
            (count.ok_or("-n wants the number of processes, at least 1")?, rest)
        }
        _ => (2, words),
    };
    let application = Application {
        program: program.into_os_string(),
        arguments: arguments.to_vec(),
        processes,
        ..Application::default()
    };
    let plan = Plan { applications: vec![application], ..Plan::default() };
    launch::run(&plan).map_err(|error| error.to_string())
}
