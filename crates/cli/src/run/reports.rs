//! The files for reports of the processes: records, profiles and traces.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use base::variables;
use launcher::{JobPlan, TraceTarget};

use crate::prefix;

/// Returns the variables with the files for the reports of a spawned job. They name files of its
/// own, so that it does not overwrite those of the job that spawned it: `run.json` becomes
/// `run.job1234.json`, with the number of this process. A job that this one spawns adds its own
/// number. The order of results is not recorded in spawned jobs.
pub fn own_files(job: u32) -> Vec<(&'static str, OsString)> {
    let files = [variables::RECORD, variables::PROFILE, variables::TRACE];
    let own = |name| {
        let file = env::var_os(name).filter(|file| !file.is_empty() && file != "page")?;
        Some((name, own_file(Path::new(&file), job).into_os_string()))
    };
    // A recording has no place for jobs whose number depends on the run.
    let orders = [variables::RECORD_ORDER, variables::REPLAY_ORDER];
    let orders = orders.into_iter().filter(|name| env::var_os(name).is_some());
    let none = orders.map(|name| (name, OsString::new()));
    files.into_iter().filter_map(own).chain(none).collect()
}

/// Returns the file beside `file` for the job with this number.
pub fn own_file(file: &Path, job: u32) -> PathBuf {
    let ending = match file.extension() {
        Some(ending) => format!("job{job}.{}", ending.display()),
        None => format!("job{job}"),
    };
    file.with_extension(ending)
}

/// The variable by which programs that name ranges with NVTX find the library that takes them.
const RANGES_VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// Lets the ranges that programs name with NVTX become phases, if the job has a trace or a profile.
/// A library that the user has chosen stays.
pub fn take_ranges_for_phases(plan: &mut JobPlan) {
    let library = prefix::find().map(|prefix| prefix.join("lib/combray/libcombray-nvtx.so"));
    let Some(library) = library.ok().filter(|library| library.exists()) else { return };
    if env::var_os(RANGES_VARIABLE).is_some() {
        return;
    }
    for application in &mut plan.applications {
        let given = &mut application.variables;
        let is_set = |name: &str| {
            let value = given.get(OsStr::new(name)).cloned().or_else(|| env::var_os(name));
            value.is_some_and(|value| !value.is_empty())
        };
        if is_set(variables::TRACE) || is_set(variables::PROFILE) {
            let path = || library.clone().into_os_string();
            given.entry(RANGES_VARIABLE.into()).or_insert_with(path);
        }
    }
}

/// The trace that options or the environment request.
pub fn trace_target(plan: &JobPlan) -> Option<TraceTarget> {
    let value = |name: &str| {
        let variables = &plan.applications.first()?.variables;
        variables.get(OsStr::new(name)).cloned().or_else(|| env::var_os(name))
    };
    let text = |name: &str| value(name).and_then(|value| value.into_string().ok());
    let file = value(variables::TRACE).filter(|file| !file.is_empty())?;
    Some(TraceTarget {
        file: file.into(),
        bytes: variables::trace_bytes(text(variables::TRACE_MIB).as_deref()),
        last: text(variables::TRACE_LAST).as_deref().and_then(variables::trace_last),
    })
}

/// Checks the number of seconds at the end of the trace that are written.
///
/// # Errors
/// A message for the user.
pub fn trace_last<'a>(option: &str, seconds: &'a str) -> Result<&'a str, String> {
    let is_valid = variables::trace_last(seconds).is_some();
    is_valid
        .then_some(seconds)
        .ok_or_else(|| format!("{option} needs a number of seconds, but got \"{seconds}\""))
}
