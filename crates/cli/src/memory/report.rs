//! `combray sample --memory` and `combray bench memory`.

use std::fmt::Write;
use std::path::Path;

use memory_costs::{CostTable, Distance, MemoryOperation, NodeCosts, NodeDistance, SharingCosts};
use runtime::LocalWay;
use runtime::migration::Nodes;
use runtime::samples::{self, MemorySample, Samples};
use sys::cores;

use crate::raster;

use super::pair::with_pair;
use super::validation::{self, Before, Case};
use super::ways::{self, WayCase};
use super::{crowd, pair::ThreadPair, picture, sampling, size};

/// What happens to the measured costs.
#[derive(Debug)]
pub struct SampleOutput<'a> {
    /// Whether they are stored for the jobs on this machine.
    pub is_stored: bool,
    /// Whether they are printed as JSON instead of text.
    pub as_json: bool,
    /// The file of a picture of them.
    pub picture: Option<&'a Path>,
}

/// Measures the costs of accesses to this machine's memory and shows them. Draws and stores them if
/// requested.
///
/// # Errors
/// Two cores are not available or too busy, or the figures cannot be stored.
pub fn sample(output: &SampleOutput<'_>) -> Result<i32, String> {
    let mut table = on_two_cores(sampling::table)?;
    table.sharing = crowd::sharing()?;
    table.nodes =
        Nodes::here().map_or_else(NodeCosts::default, |nodes| samples::node_costs(&nodes));
    let host = samples::host();
    if let Some(path) = output.picture {
        let title = format!("{host}, {}", MemorySample::of_now(CostTable::default()).processor);
        raster::write(path, picture::svg(&title, &table))?;
    }
    match output.as_json {
        true => println!("{}", serde_json::to_string_pretty(&table).map_err(|e| e.to_string())?),
        false => print!("{}", shown(&host, &table)),
    }
    if !output.is_stored {
        return Ok(0);
    }
    let folder = samples::folder()
        .ok_or("neither XDG_CACHE_HOME nor HOME is set: there is no folder for the results")?;
    let mut known = Samples::read(&folder, &host).ok().flatten().unwrap_or(Samples::none(&host));
    let mut memory = MemorySample::of_now(table);
    if let Some(before) = known.memory.take().filter(|before| before.is_of(&memory)) {
        memory.add_distances_of(before);
    }
    known.memory = Some(memory);
    let path = known.write(&folder)?;
    if !output.as_json {
        println!("Stored for {host} in {}", path.display());
    }
    Ok(0)
}

/// Measures kernels, and compares them with the predictions of the stored table, or of one that is
/// measured now.
///
/// # Errors
/// The errors of [`sample`].
pub fn validate() -> Result<i32, String> {
    let host = samples::host();
    let kept = samples::folder().and_then(|folder| Samples::read(&folder, &host).ok().flatten());
    let table = match kept.and_then(|kept| kept.memory) {
        Some(memory) => memory.table,
        None => {
            eprintln!(
                "combray: no measurements of this machine's memory are stored: measuring first ..."
            );
            on_two_cores(sampling::table)?
        }
    };
    let cases = on_two_cores(|pair| validation::cases(pair, &table))?;
    print!("{}", compared(&cases));
    print!("\n{}", compared_ways(&ways::cases(two_cores()?, &table)?));
    Ok(0)
}

fn two_cores() -> Result<[usize; 2], String> {
    match *cores::allowed() {
        [own, other, ..] => Ok([own, other]),
        _ => Err("two cores are needed, and this process may use one only".to_owned()),
    }
}

fn on_two_cores<T: Send>(
    measure: impl FnOnce(&ThreadPair<'_>) -> Result<T, String> + Send,
) -> Result<T, String> {
    with_pair(two_cores()?, measure)
}

/// The table for display: bandwidths in GB/s, by condition and size.
fn shown(host: &str, table: &CostTable) -> String {
    let mut text = String::new();
    for Distance { crossing_ns, curves, copies } in &table.distances {
        _ = writeln!(
            text,
            "\n{host}: a line crosses in {crossing_ns:.0} ns; GB/s by size of block"
        );
        let sizes = curves.values().next().map_or(&[][..], |curve| curve.points());
        _ = write!(text, "{:34}", "");
        for (bytes, _) in sizes.iter().step_by(2) {
            _ = write!(text, "{:>8}", size(*bytes));
        }
        text.push('\n');
        let accesses = curves.iter().map(|(condition, curve)| (condition.to_string(), curve));
        let copies = copies.iter().map(|(copy, curve)| (copy.to_string(), curve));
        for (name, curve) in accesses.chain(copies) {
            _ = write!(text, "{name:34}");
            for (bytes, ns) in curve.points().iter().step_by(2) {
                _ = write!(text, "{:>8.1}", *bytes as f64 / ns);
            }
            text.push('\n');
        }
    }
    let system = &table.system;
    _ = writeln!(
        text,
        "\nsystem: a page's first use {:.0} ns; copying by the system {:.0} ns, and {:.0} ns a \
         page",
        system.page_fault_ns, system.copy_call_ns, system.copy_page_ns
    );
    text + &shown_sharing(&table.sharing) + &shown_nodes(&table.nodes)
}

/// How threads share bandwidth, for display; empty if one core was free only.
fn shown_sharing(sharing: &SharingCosts) -> String {
    let Some(first) = sharing.crowds().first() else { return String::new() };
    let mut text =
        "\nthreads at the same time; GB/s of all together by size of each block\n".to_owned();
    let sizes: Vec<u64> = first.load.points().iter().map(|point| point.0).collect();
    _ = write!(text, "{:34}", "");
    sizes.iter().for_each(|bytes| _ = write!(text, "{:>8}", size(*bytes)));
    text.push('\n');
    for (operation, name) in [(MemoryOperation::Load, "load"), (MemoryOperation::Store, "store")] {
        for crowd in sharing.crowds() {
            let threads = crowd.threads;
            _ = write!(text, "{:34}", format!("{name}, {threads} at once"));
            for bytes in &sizes {
                let rates = sharing.bandwidths(operation, *bytes);
                let rate = rates.iter().find(|one| one.0 == threads);
                let rate = rate.map_or_else(|| "-".to_owned(), |one| format!("{:.1}", one.1));
                _ = write!(text, "{rate:>8}");
            }
            text.push('\n');
        }
        let saturated = sizes.iter().filter_map(|bytes| {
            let threads = sharing.saturating_threads(operation, *bytes)?;
            Some(format!("{} by {threads}", size(*bytes)))
        });
        let saturated: Vec<String> = saturated.collect();
        if !saturated.is_empty() {
            _ = writeln!(text, "{:34}{}", format!("{name}, saturated"), saturated.join(", "));
        }
    }
    text
}

/// The measurements between NUMA nodes for display; empty if there is only one node.
fn shown_nodes(nodes: &NodeCosts) -> String {
    let mut text = String::new();
    for NodeDistance { distance, curves } in &nodes.distances {
        _ = writeln!(text, "\nNUMA nodes at distance {distance}; GB/s by size of block");
        for (condition, curve) in curves {
            _ = write!(text, "{:34}", condition.to_string());
            for (bytes, ns) in curve.points() {
                _ = write!(text, "{:>8} {:.1}", size(*bytes), *bytes as f64 / ns);
            }
            text.push('\n');
        }
    }
    if !nodes.distances.is_empty() {
        let moved = nodes.moving.points().iter();
        let speeds = moved.map(|(bytes, ns)| format!("{} {:.2}", size(*bytes), *bytes as f64 / ns));
        _ = writeln!(
            text,
            "moving pages: {} GB/s; moving a thread {:.0} us",
            speeds.collect::<Vec<_>>().join(", "),
            nodes.thread_ns / 1000.0
        );
    }
    text
}

/// A table of predictions and measurements.
fn compared(cases: &[Case]) -> String {
    let mut text = format!(
        "{:16}{:>8}{:>10}{:>14}{:>14}{:>8}\n",
        "", "data of", "bytes", "predicted", "measured", "off by"
    );
    for case in cases {
        let before = if case.before == Before::Own { "own" } else { "other" };
        _ = writeln!(
            text,
            "{:16}{before:>8}{:>10}{:>11.2} us{:>11.2} us{:>6.0} %",
            case.name,
            size(case.bytes),
            case.predicted_ns / 1000.0,
            case.measured_ns / 1000.0,
            case.error() * 100.0
        );
    }
    let errors = |wanted: &dyn Fn(&&Case) -> bool| {
        let errors: Vec<f64> = cases.iter().filter(wanted).map(Case::error).collect();
        (errors.len(), 100.0 * sampling::median(errors))
    };
    let (all, of_memory) = (errors(&|_| true), errors(&|case| case.depends_on_memory()));
    _ = writeln!(
        text,
        "median error {:.0} % of {}, {:.0} % of the {} where accesses take longer than computing",
        all.1, all.0, of_memory.1, of_memory.0
    );
    text
}

/// A table of messages by each way, with predictions and measurements.
fn compared_ways(cases: &[WayCase]) -> String {
    let mut text = String::from("messages between two processes, one way\n");
    for case in cases {
        let way = if case.way == LocalWay::InPacket { "packet" } else { case.way.name() };
        _ = writeln!(
            text,
            "{way:16}{:>10}{:>11.2} us{:>11.2} us{:>6.0} %",
            size(case.bytes),
            case.predicted_ns / 1000.0,
            case.measured_ns / 1000.0,
            case.error() * 100.0
        );
    }
    let error = sampling::median(cases.iter().map(WayCase::error).collect());
    let (apart, right) = ways::ranked(cases);
    _ = writeln!(
        text,
        "median error {:.0} % of {}; of {apart} pairs of ways for one length that differ by more \
         than 10 %, {right} are in the right order",
        100.0 * error,
        cases.len()
    );
    text
}
