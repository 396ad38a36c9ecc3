//! `combray bench nearness`: what the distance between processes, memory and interfaces costs on
//! this machine, and what the library decides because of it.

mod analysis;
mod decisions;
mod measuring;
mod picture;
mod rails;
mod report;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use base::variables;
use clap::Parser;
use driver_tcp::NetworkSelection;
use runtime::migration::Nodes;
use runtime::{configuration, samples};
use serde::Serialize;

use crate::raster;
use analysis::NodeMatrix;
use decisions::NodeDecision;

/// The options of `combray bench nearness`.
#[derive(Parser)]
#[command(name = "combray bench nearness", about, disable_version_flag = true)]
/// Measures memory and messages by the NUMA nodes of processes, memory and interfaces
struct NearnessOptions {
    /// Two hosts: measures messages between them over each interface, beside those on this machine
    #[arg(long, value_name = "A,B")]
    hosts: Option<OsString>,
    /// How other hosts are reached, as in combray run
    #[arg(long, value_name = "COMMAND", requires = "hosts")]
    launch_agent: Option<OsString>,
    /// Only these rails, as COMBRAY_NET names them; on this machine the process at the other end
    /// pretends to be on another machine
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    rails: Vec<String>,
    /// Draws near and far for memory and each rail: .svg, or .png
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Prints everything as JSON
    #[arg(long)]
    json: bool,
    /// For tests: how long accesses and messages take at least, by the distance of the firmware, as
    /// in 10:90:100,20:150:160: nanoseconds of a single access, and of a KiB; a message has the
    /// latency of 250 accesses
    #[arg(long, value_name = "COSTS", default_value = "")]
    made_up: MadeUpCosts,
}

/// The least times of accesses and messages by distance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MadeUpCosts(BTreeMap<u64, MadeUpCost>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MadeUpCost {
    single_ns: u64,
    kib_ns: u64,
}

/// Everything that was found.
#[derive(Serialize)]
struct Nearness {
    host: String,
    /// The NUMA nodes on which this process may have memory.
    nodes: Vec<u32>,
    /// The distances between nodes as firmware reports them, by process, then by memory.
    distances: Vec<Vec<u64>>,
    /// By subject: `latency ns`, `read GB/s` and so on.
    memory: Vec<NodeMatrix>,
    rails: Vec<rails::RailNearness>,
    decisions: Vec<NodeDecision>,
}

impl std::str::FromStr for MadeUpCosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |entry: &str| format!("\"{entry}\" is not DISTANCE:NS:NS, as in 10:90:100");
        let entry = |entry: &str| {
            let numbers: Option<Vec<u64>> =
                entry.split(':').map(|word| word.parse().ok()).collect();
            match numbers.as_deref() {
                Some(&[distance, single_ns, kib_ns]) => {
                    Ok((distance, MadeUpCost { single_ns, kib_ns }))
                }
                _ => Err(wrong(entry)),
            }
        };
        text.split(',')
            .filter(|entry| !entry.is_empty())
            .map(entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl MadeUpCosts {
    /// The costs at a distance; no time if none were made up.
    fn at(&self, distance: u64) -> MadeUpCost {
        self.0.get(&distance).copied().unwrap_or_default()
    }
}

/// Measures and prints what the words request.
pub fn run(words: &[OsString]) -> Result<i32, String> {
    let name = OsString::from("combray bench nearness");
    let options = match NearnessOptions::try_parse_from([name].iter().chain(words)) {
        Ok(options) => options,
        Err(error) => {
            _ = error.print();
            return Ok(error.exit_code());
        }
    };
    let selection = NetworkSelection::parse(&configuration::networks());
    let selection = selection.map_err(|wrong| format!("{}: {wrong}", variables::NET))?;
    let nodes = Nodes::here();
    let all: Vec<u32> = nodes.as_ref().map_or_else(|| vec![0], |nodes| nodes.all().collect());
    let usable: Vec<u32> = nodes.as_ref().map_or_else(|| vec![0], |nodes| nodes.usable().collect());
    let distance = |from, to| nodes.as_ref().map_or(10, |nodes| nodes.distance(from, to));
    eprintln!("combray: measuring memory ...");
    let memory = measuring::memory(nodes.as_ref(), (&usable, &all), &options.made_up)?;
    let rails = rails::measure(&options, &all, distance)?;
    let found = Nearness {
        host: samples::host(),
        distances: usable
            .iter()
            .map(|&from| all.iter().map(|&to| distance(from, to)).collect())
            .collect(),
        decisions: decisions::of(nodes.as_ref(), &usable, &selection),
        nodes: all,
        memory,
        rails,
    };
    match options.json {
        true => {
            println!("{}", serde_json::to_string_pretty(&found).map_err(|cause| cause.to_string())?)
        }
        false => print!("{}", report::text(&found)),
    }
    if let Some(path) = &options.picture {
        raster::write(path, picture::svg(&found))?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_made_up_by_distance() {
        let costs: MadeUpCosts = "10:90:100,20:150:160".parse().unwrap();
        assert_eq!(costs.at(20), MadeUpCost { single_ns: 150, kib_ns: 160 });
        assert_eq!(costs.at(30), MadeUpCost::default());
        assert_eq!("".parse(), Ok(MadeUpCosts::default()));
        for wrong in ["10", "10:1", "10:1:x", "10:1:2:3"] {
            let error = wrong.parse::<MadeUpCosts>().unwrap_err();
            assert!(error.contains("DISTANCE:NS:NS"), "{error}");
        }
    }
}
