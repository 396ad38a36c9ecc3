//! `combray trace`: what the trace of a job shows.

use std::path::{Path, PathBuf};
use std::{fs, io};

use otf2::{ARCHIVE_NAME, Otf2Library};
use traces::alignment::AlignedTrace;
use traces::export::{self, ExportedFile, Otf2Archive};
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
    /// The file for --to; for tit and otf2 the folder
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
    /// An archive for Score-P's tools, Scalasca and Vampir: a folder
    Otf2,
}

impl Format {
    /// The ending of files with this format.
    fn ending(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Html => "html",
            Format::Goal => "goal",
            Format::Tit => "tit",
            Format::Otf2 => "otf2",
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
        let written = match exported(format, &traces) {
            Exported::Files(files) => write(&target, &files).map_err(|cause| cause.to_string()),
            Exported::Otf2(archive) => write_otf2(&target, &archive),
        };
        written.map_err(|cause| {
            format!("the trace cannot be written to {}: {cause}", target.display())
        })?;
        let latency = match format {
            Format::Goal | Format::Tit => export::latency_ns(&traces),
            Format::Json | Format::Html | Format::Otf2 => None,
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

/// A trace in another format.
enum Exported {
    /// The files; a single one has no name.
    Files(Vec<ExportedFile>),
    Otf2(Otf2Archive),
}

fn exported(format: Format, traces: &[AlignedTrace]) -> Exported {
    let alone = |text| Exported::Files(vec![ExportedFile { name: String::new(), text }]);
    match format {
        Format::Json => alone(export::json(traces)),
        Format::Html => alone(export::html(&Findings::of(traces))),
        Format::Goal => alone(export::goal(traces)),
        Format::Tit => Exported::Files(export::tit(traces)),
        Format::Otf2 => Exported::Otf2(export::otf2(traces)),
    }
}

/// Writes an archive into a folder, in place of an archive that is there.
fn write_otf2(target: &Path, archive: &Otf2Archive) -> Result<(), String> {
    let library = Otf2Library::load().map_err(|error| error.to_string())?;
    remove_otf2(target)
        .map_err(|cause| format!("the archive that is there cannot be removed: {cause}"))?;
    let events = target.join(ARCHIVE_NAME);
    if events.exists() {
        let path = events.display();
        return Err(format!(
            "{path} exists, and belongs to no archive; remove it, or use --output"
        ));
    }
    fs::create_dir_all(target).map_err(|cause| cause.to_string())?;
    library.write(target, archive).map_err(|error| error.to_string())
}

/// Removes an archive, also one of which a part was written, if there is one. The file by which an
/// archive is recognized goes last, so that a removal that was interrupted can be repeated.
fn remove_otf2(target: &Path) -> io::Result<()> {
    let events = target.join(ARCHIVE_NAME);
    let anchor = events.with_extension("otf2");
    if !anchor.exists() {
        return Ok(());
    }
    let absent_or = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    absent_or(fs::remove_dir_all(&events))?;
    absent_or(fs::remove_file(events.with_extension("def")))?;
    fs::remove_file(anchor)
}

fn write(target: &Path, files: &[ExportedFile]) -> io::Result<()> {
    if let [ExportedFile { name, text }] = files
        && name.is_empty()
    {
        return fs::write(target, text);
    }
    fs::create_dir_all(target)?;
    files.iter().try_for_each(|file| fs::write(target.join(&file.name), &file.text))
}
