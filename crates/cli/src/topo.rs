//! `combray topo`: the machine as a text, a picture or JSON, with the processes of a job on it.

mod json;
mod layout;
mod picture;
mod processes;
mod tables;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use topology::{Hwloc, Scope, Topology};

use processes::Process;

/// What is shown, and how.
#[derive(Args)]
pub struct TopoOptions {
    /// Another machine: a file in hwloc's XML format, or a line such as "package:2 numa:2 core:4 pu:2"
    #[arg(long, value_name = "MACHINE", conflicts_with = "job")]
    input: Option<String>,
    /// Writes a file instead: a picture (.svg, .png), hwloc's format (.xml), .json or .txt
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Prints JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Shows where the processes of a running job are bound: the process number of its launcher, or of
    /// any process
    #[arg(long, value_name = "PROCESS", value_parser = clap::value_parser!(i32).range(1..))]
    job: Option<i32>,
}

/// Shows the machine; returns the exit code.
pub fn run(options: &TopoOptions) -> Result<i32, String> {
    let kind = options.output.as_deref().map(extension).transpose()?;
    let topology = match &options.input {
        Some(described) => Topology::described(described),
        None => Topology::this_machine(Scope::Devices),
    };
    let topology = topology.map_err(|error| error.to_string())?;
    let processes = options.job.map(processes::of_job).transpose()?.unwrap_or_default();
    let Some(path) = &options.output else {
        print!(
            "{}",
            if options.json {
                as_json(&topology, &processes)
            } else {
                as_text(&topology, &processes)
            }
        );
        return Ok(0);
    };
    let bytes = match kind {
        Some("svg") => picture::svg(&layout::arrange(&topology, &processes)).into_bytes(),
        Some("png") => picture::png(&layout::arrange(&topology, &processes))?,
        Some("json") => as_json(&topology, &processes).into_bytes(),
        Some("xml") => as_xml(options.input.as_deref())?.into_bytes(),
        _ => as_text(&topology, &processes).into_bytes(),
    };
    fs::write(path, bytes)
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(0)
}

/// What kind of file a name asks for.
fn extension(path: &Path) -> Result<&str, String> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.filter(|found| ["svg", "png", "json", "xml", "txt"].contains(found)).ok_or_else(
        || {
            format!(
                "--output wants a file ending in .svg, .png, .json, .xml or .txt, and got {}",
                path.display()
            )
        },
    )
}

fn as_text(topology: &Topology, processes: &[Process]) -> String {
    let tables = [
        tables::distances(topology),
        tables::devices(topology),
        tables::processes(topology, processes),
    ];
    let texts = std::iter::once(text::tree(topology)).chain(tables.into_iter().flatten());
    texts.collect::<Vec<_>>().join("\n")
}

fn as_json(topology: &Topology, processes: &[Process]) -> String {
    let value = json::value(topology, processes);
    // Maps have texts as keys, so that it does not fail.
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

/// The machine as hwloc writes it.
fn as_xml(described: Option<&str>) -> Result<String, String> {
    let text = match described {
        Some(described) if Path::new(described).is_file() => {
            return fs::read_to_string(described).map_err(|error| format!("{described}: {error}"));
        }
        Some(line) => Hwloc::load().and_then(|hwloc| hwloc.synthetic(line)),
        None => Hwloc::load().and_then(|hwloc| hwloc.this_machine(Scope::Devices)),
    };
    text.map_err(|error| error.to_string())
}
