//! `combray trace`: what the trace of a job shows.

use std::path::PathBuf;

use traces::{Findings, perfetto};

use crate::output::print;
use crate::raster;

/// The options of `combray trace`.
#[derive(clap::Args)]
pub struct TraceOptions {
    /// The trace, which combray run --trace has written
    file: PathBuf,
    /// Prints all findings as JSON
    #[arg(long)]
    json: bool,
    /// Also draws what each rank did when, and the critical path: .svg, or .png
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Prints the findings.
///
/// # Errors
/// A message for the user: the file cannot be read, or is no trace.
pub fn run(options: &TraceOptions) -> Result<(), String> {
    let name = options.file.display();
    let file = std::fs::read(&options.file)
        .map_err(|cause| format!("the trace {name} cannot be read: {cause}"))?;
    let traces = perfetto::read(&file).map_err(|reason| format!("{name}: {reason}"))?;
    let findings = Findings::of(&traces);
    if let Some(file) = &options.picture {
        raster::write(file, findings.picture.clone())?;
    }
    print(&if options.json { findings.to_json() } else { findings.page() })
}
