//! Messages over each rail, by the nodes of a process and of its memory.

use std::collections::BTreeMap;
use std::env;
use std::process::{Command, Stdio};

use base::variables;
use runtime::{configuration, machine};
use serde::{Deserialize, Serialize};

use super::NearnessOptions;
use super::analysis::NodeMatrix;
use crate::prefix;

/// The measurements of a rail.
#[derive(Clone, Debug, Serialize)]
pub struct RailNearness {
    /// The name, as `tcp:eth0`, or `shm`.
    pub name: String,
    /// The NUMA node of its interface, if it is known.
    pub node: Option<u32>,
    /// Whether the messages stayed in this machine, although the rail leads to others.
    pub is_inside: bool,
    /// By subject.
    pub measured: Vec<NodeMatrix>,
    /// The bandwidth of one pair of processes, and that of [`PAIRS`] at once together, in GB/s.
    pub bandwidth_of_pairs: Option<[f64; 2]>,
    /// Why nothing was measured.
    pub obstacle: Option<String>,
}

/// A line of the benchmark program.
#[derive(Deserialize)]
struct Line {
    process: u32,
    memory: u32,
    latency_us: f64,
    received_gb_per_s: f64,
    sent_gb_per_s: f64,
}

/// The line of the benchmark program about several pairs of processes.
#[derive(Deserialize)]
struct Saturation {
    #[serde(rename = "bandwidth_MB_per_s")]
    mb_per_s: f64,
}

/// How many pairs of processes use a rail at the same time, to find out whether they share a link.
pub const PAIRS: usize = 2;

/// What each line with measurements has.
const RECORD: &str = "\"record\":\"nearness\"";

const SUBJECTS: [(&str, &str); 3] =
    [("latency of a message", "us"), ("received", "GB/s"), ("sent", "GB/s")];

/// The name of the rail between processes of one machine.
const NEAR: &str = "shm";

/// Measures shared memory, and the rails that the options name, or with hosts all rails of this
/// machine to others.
pub fn measure(
    options: &NearnessOptions,
    nodes: &[u32],
    distance: impl Fn(u32, u32) -> u64,
) -> Result<Vec<RailNearness>, String> {
    let program = prefix::find()?.join("lib/combray/combray-bench");
    if !program.exists() {
        let program = program.display();
        return Err(format!(
            "the benchmark program is not installed ({program}): run make install"
        ));
    }
    let names: Vec<String> = match (options.rails.is_empty(), &options.hosts) {
        (false, _) => options.rails.clone(),
        (true, None) => vec![NEAR.to_owned()],
        (true, Some(_)) => {
            let rails = runtime::possible_rails(&configuration::networks());
            let rails = rails.map_err(|error| error.message)?;
            [NEAR.to_owned()].into_iter().chain(rails).collect()
        }
    };
    let mut found = Vec::new();
    for name in names {
        eprintln!("combray: measuring {name} ...");
        let interface = name.rsplit_once(':').map_or("", |(_, interface)| interface);
        let node = machine::tree_with_devices()
            .and_then(|tree| tree.locality(machine::interface(tree, interface)?)?.node);
        // Times of messages depend on the place of the interface, or else on that of rank 1.
        let place = node.unwrap_or(nodes[0]);
        let costs = |ns: fn(super::MadeUpCost) -> u64| -> String {
            let last = nodes.iter().max().copied().unwrap_or(0);
            let of = |node: u32| match nodes.contains(&node) {
                true => ns(options.made_up.at(distance(node, place))).to_string(),
                false => "0".to_owned(),
            };
            (0..=last).map(of).collect::<Vec<_>>().join(",")
        };
        let made_up =
            [costs(|cost| cost.single_ns * ACCESSES_OF_MESSAGE), costs(|cost| cost.kib_ns)];
        let mut rail = RailNearness {
            is_inside: name != NEAR && options.hosts.is_none(),
            name,
            node,
            measured: Vec::new(),
            bandwidth_of_pairs: None,
            obstacle: None,
        };
        let [latency, kib] = &made_up;
        let costs = ["--made-up-latency", latency, "--made-up-kib", kib];
        let words: Vec<&str> =
            ["nearness", "--batches", BATCHES].into_iter().chain(costs).collect();
        match output_of(options, &rail, &program, 1, &words) {
            Ok(output) if !output.contains(RECORD) => {
                let obstacle = "the system lets this process place no memory (mbind)";
                rail.obstacle = Some(obstacle.to_owned());
            }
            Ok(output) => {
                rail.measured = matrices(&output);
                let of = |pairs| {
                    let words = ["saturation", "--batches", BATCHES];
                    bandwidth(&output_of(options, &rail, &program, pairs, &words).ok()?)
                };
                rail.bandwidth_of_pairs = of(1).zip(of(PAIRS)).map(|(one, all)| [one, all]);
            }
            Err(obstacle) => rail.obstacle = Some(obstacle),
        }
        found.push(rail);
    }
    Ok(found)
}

/// Runs the benchmark program on so many pairs of processes that may run anywhere.
fn output_of(
    options: &NearnessOptions,
    rail: &RailNearness,
    program: &std::path::Path,
    pairs: usize,
    benchmark: &[&str],
) -> Result<String, String> {
    let own = env::current_exe().map_err(|cause| format!("this program is not found: {cause}"))?;
    let mut command = Command::new(own);
    command.args(["run", "--bind-to", "none"]);
    let is_near = rail.name == NEAR;
    if !is_near {
        command.arg("-x").arg(format!("{}={}", variables::NET, rail.name));
    }
    match &options.hosts {
        Some(hosts) if !is_near => {
            command.arg("--hosts").arg(hosts).args(["-N", &pairs.to_string()]);
            if let Some(agent) = &options.launch_agent {
                command.arg("--launch-agent").arg(agent);
            }
        }
        _ => {}
    }
    let words = |command: &mut Command| {
        command.arg(program).args(benchmark).args(["--json", "--sizes", BYTES]);
    };
    if rail.is_inside {
        for name in ["near", "other"] {
            if name == "other" {
                command.arg(":");
            }
            let node = format!("{}={name}", variables::NODE);
            command.args(["-n", &pairs.to_string(), "-env", &node]);
            words(&mut command);
        }
    } else {
        command.args(["-n", &(2 * pairs).to_string()]);
        words(&mut command);
    }
    let output = command.stdin(Stdio::null()).output().map_err(|cause| cause.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
            Err(format!("the job failed ({}): {first}", output.status))
        }
    }
}

/// How often each message is timed.
const BATCHES: &str = "15";

/// The length of the messages whose bandwidth is measured.
const BYTES: &str = "512K";

/// The made-up latency of a message, in made-up accesses.
const ACCESSES_OF_MESSAGE: u64 = 250;

/// The bandwidth that the benchmark program has found with all its pairs, in GB/s.
fn bandwidth(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("\"benchmark\":\"saturation\""))?;
    serde_json::from_str::<Saturation>(line).ok().map(|found| found.mb_per_s / 1e3)
}

/// The results of the benchmark program.
fn matrices(output: &str) -> Vec<NodeMatrix> {
    let lines = output.lines().filter(|line| line.contains(RECORD));
    let lines: Vec<Line> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let distinct = |of: fn(&Line) -> u32| -> Vec<u32> {
        let all: BTreeMap<u32, ()> = lines.iter().map(|line| (of(line), ())).collect();
        all.into_keys().collect()
    };
    let (processes, memories) = (distinct(|line| line.process), distinct(|line| line.memory));
    let mut all = SUBJECTS.map(|title| {
        NodeMatrix::new(title, title.1 == "us", (processes.as_slice(), memories.as_slice()))
    });
    for line in &lines {
        let row = processes.iter().position(|node| *node == line.process);
        let column = memories.iter().position(|node| *node == line.memory);
        let (Some(row), Some(column)) = (row, column) else { continue };
        let values = [line.latency_us, line.received_gb_per_s, line.sent_gb_per_s];
        for (matrix, value) in all.iter_mut().zip(values) {
            matrix.values[row][column] = Some(value);
        }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_program_become_matrices() {
        let line = |process: u32, memory: u32, gb: f64| {
            format!(
                "{{\"record\":\"nearness\",\"process\":{process},\"memory\":{memory},\
                 \"latency_us\":1.5,\"received_gb_per_s\":{gb},\"sent_gb_per_s\":4}}\n"
            )
        };
        let output =
            ["{\"record\":\"header\"}\n".into(), line(0, 0, 8.0), line(0, 2, 4.0), line(2, 0, 4.0)];
        let [latency, received, sent] = matrices(&output.concat()).try_into().unwrap();
        assert!(latency.is_time && latency.spread().unwrap().is_uniform());
        assert_eq!(received.values, [[Some(8.0), Some(4.0)], [Some(4.0), None]]);
        assert_eq!((received.processes, received.memories), (vec![0, 2], vec![0, 2]));
        assert_eq!(sent.values[0][1], Some(4.0));
    }

    #[test]
    fn the_bandwidth_of_pairs_is_read() {
        let line = "{\"record\":\"result\",\"benchmark\":\"saturation\",\"processes\":4,\
                    \"bandwidth_MB_per_s\":312.5}";
        let header = "{\"record\":\"header\"}";
        assert_eq!(bandwidth(&format!("{header}\n{line}\n")), Some(0.3125));
        assert_eq!(bandwidth(header), None);
    }
}
