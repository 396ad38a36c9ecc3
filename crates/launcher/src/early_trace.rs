//! The trace of a job that ended early, or still runs, made of what its ranks have recorded.

use std::fs;
use std::path::{Path, PathBuf};

use traces::alignment::{aligned_early, keep_last};
use traces::{RecordedTrace, perfetto};
use wire::Codec;

/// The trace that the user wants of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTarget {
    /// The file.
    pub file: PathBuf,
    /// The memory for the events of each rank, in bytes.
    pub bytes: usize,
    /// How much of the end of the trace is written, in nanoseconds; none: all that the memory
    /// holds.
    pub last: Option<u64>,
}

/// Writes the trace of a job whose ranks have recorded `recorded`. Returns a line for the user.
pub(crate) fn write(target: &TraceTarget, recorded: &[Vec<u8>]) -> String {
    let file = target.file.display();
    match write_to(&target.file, recorded, target.last) {
        Ok(()) => format!("the trace of the job until its end is in {file}"),
        Err(reason) => reason,
    }
}

/// Writes to `file` what ranks have recorded, or the last `last` nanoseconds of it.
///
/// # Errors
/// A message for users: nothing was recorded, or the file cannot be written.
pub(crate) fn write_to(file: &Path, recorded: &[Vec<u8>], last: Option<u64>) -> Result<(), String> {
    let recorded = recorded.iter().filter_map(|bytes| RecordedTrace::from_bytes(bytes));
    let recorded: Vec<_> = recorded.filter(|one| !one.is_written).collect();
    if recorded.is_empty() {
        return Err("the ranks of the job record no trace".to_owned());
    }
    let mut traces = aligned_early(recorded);
    last.into_iter().for_each(|ns| keep_last(&mut traces, ns));
    fs::write(file, perfetto::trace_of(&traces)).map_err(|cause| {
        format!("the trace of the job cannot be written to {}: {cause}", file.display())
    })
}
