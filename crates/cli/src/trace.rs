//! `combray trace`: what the trace of a job shows.

use std::fs;
use std::path::{Path, PathBuf};

use traces::alignment::AlignedTrace;
use traces::export::{self, ExportedFile};
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
    /// Writes the trace in another format beside it, or to --output, instead of printing findings
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "picture"])]
    to: Option<Format>,
    /// The file for --to; for tit the folder
    #[arg(long, value_name = "FILE", requires = "to")]
    output: Option<PathBuf>,
}

/// The formats of other programs.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// All events, as JSON
    Json,
    /// The findings and the timeline, as a page that needs nothing else
    Html,
    /// A schedule for LogGOPSim
    Goal,
    /// A time-independent trace for SimGrid: a folder
    Tit,
}

impl Format {
    /// The ending of files with this format.
    fn ending(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Html => "html",
            Format::Goal => "goal",
            Format::Tit => "tit",
        }
    }
}

/// Prints the findings, or writes the trace in another format.
///
/// # Errors
/// A message for the user: the file cannot be read, or is no trace.
pub fn run(options: &TraceOptions) -> Result<(), String> {
    let name = options.file.display();
    let file = std::fs::read(&options.file)
        .map_err(|cause| format!("the trace {name} cannot be read: {cause}"))?;
    let traces = perfetto::read(&file).map_err(|reason| format!("{name}: {reason}"))?;
    if let Some(format) = options.to {
        let beside = || options.file.with_extension(format.ending());
        let target = options.output.clone().unwrap_or_else(beside);
        write(&target, &exported(format, &traces)).map_err(|cause| {
            format!("the trace cannot be written to {}: {cause}", target.display())
        })?;
        let latency = match format {
            Format::Goal | Format::Tit => export::latency_ns(&traces),
            Format::Json | Format::Html => None,
        };
        let latency = latency.map_or(String::new(), |ns| {
            format!("Awaited messages took {:.1} us (median).\n", ns as f64 / 1e3)
        });
        return print(&format!("The trace is in {}.\n{latency}", target.display()));
    }
    let findings = Findings::of(&traces);
    if let Some(file) = &options.picture {
        raster::write(file, findings.picture.clone())?;
    }
    print(&if options.json { findings.to_json() } else { findings.page() })
}

/// Returns the files of an export; a single one has no name.
fn exported(format: Format, traces: &[AlignedTrace]) -> Vec<ExportedFile> {
    let alone = |text| vec![ExportedFile { name: String::new(), text }];
    match format {
        Format::Json => alone(export::json(traces)),
        Format::Html => alone(export::html(&Findings::of(traces))),
        Format::Goal => alone(export::goal(traces)),
        Format::Tit => export::tit(traces),
    }
}

fn write(target: &Path, files: &[ExportedFile]) -> std::io::Result<()> {
    if let [ExportedFile { name, text }] = files
        && name.is_empty()
    {
        return fs::write(target, text);
    }
    fs::create_dir_all(target)?;
    files.iter().try_for_each(|file| fs::write(target.join(&file.name), &file.text))
}
