//! `combray topo`: shows a machine as text, picture or JSON, with the processes of a job on it.

mod cluster;
mod json;
mod layout;
mod network;
mod picture;
mod processes;
mod tables;
mod text;
mod threads;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use topology::{Hwloc, Kind, Scope, Topology};

use crate::raster;
use processes::ShownProcess;

/// The options of `combray topo`.
#[derive(Args)]
pub struct TopoOptions {
    /// Another machine: a file in hwloc's XML format, or a line such as "package:2 numa:2 core:4
    /// pu:2"; or a file that describes a cluster
    #[arg(long, value_name = "MACHINE", conflicts_with = "job")]
    input: Option<String>,
    /// Writes a file instead: a picture (.svg, .png), hwloc's format (.xml), .json or .txt
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Prints JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Shows where the processes of a running job are bound: the process number of its launcher,
    /// or of any process
    #[arg(long, value_name = "PROCESS", value_parser = clap::value_parser!(i32).range(1..))]
    job: Option<i32>,
    /// Also shows where the threads of combray_threads.h run or wait in the processes of the job
    #[arg(long)]
    threads: bool,
    /// Shows the machines of these hosts as one tree: names with commas between, as in combray run
    #[arg(long, value_name = "LIST", conflicts_with_all = ["input", "hostfile"])]
    hosts: Option<String>,
    /// Shows the machines of the hosts that a file names
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    hostfile: Option<OsString>,
    /// The switches above the hosts: a file that describes a cluster, or Slurm's topology.conf
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    switches: Option<PathBuf>,
    /// The command that reaches other hosts instead of ssh
    #[arg(long, value_name = "COMMAND")]
    launch_agent: Option<OsString>,
    /// Reports the topology of this machine to --hosts of another process, with the processes of a
    /// job
    #[arg(long, value_name = "JOB", hide = true)]
    report: Option<OsString>,
}

/// Shows the machine; returns the exit code.
pub fn run(options: &TopoOptions) -> Result<i32, String> {
    if let Some(job) = &options.report {
        return cluster::report(job, options.threads);
    }
    if options.threads && options.job.is_none() {
        return Err(
            "--threads shows the threads of a job: name the job with --job PROCESS".to_owned()
        );
    }
    let kind = options.output.as_deref().map(extension).transpose()?;
    let (topology, processes) = what(options)?;
    if options.threads && processes.iter().all(|process| process.workers.is_empty()) {
        eprintln!(
            "combray: none of these processes reports threads of combray_threads.h: the processes \
             have none, or belong to another user"
        );
    }
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
        Some("svg") => as_svg(&topology, &processes).into_bytes(),
        Some("png") => raster::png(&as_svg(&topology, &processes))?,
        Some("json") => as_json(&topology, &processes).into_bytes(),
        Some("xml") if topology[topology.root()].kind == Kind::Cluster => {
            return Err(
                "hwloc's format has no clusters; --output can be .json, .svg, .png or .txt"
                    .to_owned(),
            );
        }
        Some("xml") => as_xml(options.input.as_deref())?.into_bytes(),
        _ => as_text(&topology, &processes).into_bytes(),
    };
    fs::write(path, bytes)
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(0)
}

/// The requested machine or machines, and the processes on them.
fn what(options: &TopoOptions) -> Result<(Topology, Vec<ShownProcess>), String> {
    if options.hosts.is_some() || options.hostfile.is_some() {
        return cluster::look(options);
    }
    if options.switches.is_some() {
        return Err(
            "--switches describes the switches above hosts: name the hosts with --hosts or \
             --hostfile"
                .to_owned(),
        );
    }
    let topology = match &options.input {
        Some(described) => Topology::described(described),
        None => Topology::this_machine(Scope::Devices),
    };
    let topology = topology.map_err(|error| error.to_string())?;
    let mut processes = options.job.map(processes::of_job).transpose()?.unwrap_or_default();
    if options.threads {
        processes.iter_mut().for_each(ShownProcess::ask);
    }
    Ok((topology, processes))
}

/// The format of a file, by its extension.
fn extension(path: &Path) -> Result<&str, String> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.filter(|found| ["svg", "png", "json", "xml", "txt"].contains(found)).ok_or_else(
        || {
            format!(
                "--output needs a file that ends in .svg, .png, .json, .xml or .txt, but got {}",
                path.display()
            )
        },
    )
}

/// A picture: of the network, if there is one, otherwise of the machines as nested boxes.
fn as_svg(topology: &Topology, processes: &[ShownProcess]) -> String {
    match topology.network() {
        Some(network) => network::svg(network),
        None => picture::svg(&layout::arrange(topology, processes)),
    }
}

fn as_text(topology: &Topology, processes: &[ShownProcess]) -> String {
    let tables = [
        network::text(topology),
        tables::distances(topology),
        tables::devices(topology),
        tables::processes(topology, processes),
        threads::text(processes),
    ];
    let texts = std::iter::once(text::tree(topology)).chain(tables.into_iter().flatten());
    texts.collect::<Vec<_>>().join("\n")
}

fn as_json(topology: &Topology, processes: &[ShownProcess]) -> String {
    let value = json::value(topology, processes);
    // This cannot fail, because the keys of all maps are strings.
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

/// The machine in hwloc's XML format.
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
