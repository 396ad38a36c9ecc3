//! `combray bench`.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use base::variables;

use crate::{prefix, run};

/// Options of the launcher that take one value each and may precede the benchmark's own words.
const OF_THE_LAUNCHER: [&str; 7] =
    ["-n", "-np", "-N", "--hosts", "--hostfile", "--launch-agent", "-x"];

/// Runs the installed benchmark program on two processes, or on as many as `-n` requests, on this
/// machine or on the named hosts.
pub fn run(words: &[OsString]) -> Result<i32, String> {
    match words {
        [word] if word == "memory" => return crate::memory::validate(),
        [word, rest @ ..] if word == "nearness" => return crate::nearness::run(rest),
        [word] if word == "migration" => return crate::memory::compare_migrations(),
        _ => {}
    }
    let program = prefix::find()?.join("lib/combray/combray-bench");
    if !program.exists() {
        return Err(format!(
            "the benchmark program is not installed ({}): run make install",
            program.display()
        ));
    }
    if words.is_empty() {
        let words = ["-n".into(), "1".into(), "--".into(), program.into(), "--help".into()];
        return run::run(&words);
    }
    // A process of a job is one of the measuring processes, and starts no others.
    if env::var(variables::SIZE).is_ok_and(|size| size != "1") {
        let cause = Command::new(&program).args(words).exec();
        return Err(format!("{} cannot be run: {cause}", program.display()));
    }
    run::run(&launched(program.into_os_string(), words))
}

/// Converts the words of `combray bench` to those of `combray run`.
fn launched(program: OsString, words: &[OsString]) -> Vec<OsString> {
    let is_launchers = |pair: &&[OsString]| OF_THE_LAUNCHER.iter().any(|name| pair[0] == *name);
    let own = 2 * words.chunks(2).take_while(is_launchers).count();
    let (launchers, arguments) = words.split_at(own.min(words.len()));
    // A later `-n` replaces this one.
    let mut all: Vec<OsString> = vec!["-n".into(), "2".into()];
    all.extend_from_slice(launchers);
    all.extend(["--".into(), program]);
    all.extend_from_slice(arguments);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched_by(words: &str) -> String {
        let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        launched("program".into(), &words).join(" ".as_ref()).into_string().unwrap()
    }

    #[test]
    fn the_launchers_options_stand_before_the_benchmarks() {
        assert_eq!(launched_by(""), "-n 2 -- program");
        assert_eq!(launched_by("pingpong --sizes 8"), "-n 2 -- program pingpong --sizes 8");
        assert_eq!(
            launched_by("-n 4 --hosts a,b barrier -n 3"),
            "-n 2 -n 4 --hosts a,b -- program barrier -n 3"
        );
        assert_eq!(launched_by("--pin -n 3"), "-n 2 -- program --pin -n 3");
    }
}
