//! Compares the plans for the described machines of tests/machines with the reviewed ones.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use launcher::binding::{self, Policy, PolicyOption};
use topology::{Kind, Topology};

#[path = "../../../tests/machines/reviewed.rs"]
mod reviewed;

/// The number of processes and the options. None: as many processes as there are cores.
const CASES: [(Option<usize>, &[&str]); 12] = [
    (Some(1), &[]),
    (Some(2), &[]),
    (Some(3), &[]),
    (Some(4), &[]),
    (None, &[]),
    (Some(4), &["map-by numa", "bind-to core"]),
    (Some(4), &["map-by package", "bind-to numa", "rank-by slot"]),
    (Some(6), &["map-by package,numa,core", "bind-to core"]),
    (Some(4), &["map-by ppr:1:numa"]),
    (Some(4), &["map-by l3cache:pe=2"]),
    (Some(4), &["map-by l2cache", "bind-to hwthread"]),
    (Some(5), &["map-by ppr:3:package", "bind-to core", "rank-by package"]),
];

/// How many processes of a plan are shown.
const SHOWN_MAX: usize = 8;

/// Returns the described machines and their paths.
fn machines() -> impl Iterator<Item = (PathBuf, Topology)> {
    reviewed::machines().into_iter().map(|path| {
        let topology = Topology::from_xml(&fs::read_to_string(&path).unwrap()).unwrap();
        (path, topology)
    })
}

fn ranks(processes: usize) -> Vec<u32> {
    (0..processes as u32).collect()
}

/// Returns the policy of these options.
fn policy(requests: &[&str]) -> Policy {
    let mut policy = Policy::default();
    for request in requests {
        let (option, words) = request.split_once(' ').unwrap();
        let option = match option {
            "map-by" => PolicyOption::MapBy,
            "bind-to" => PolicyOption::BindTo,
            "rank-by" => PolicyOption::RankBy,
            _ => panic!("{option}"),
        };
        policy.set(option, words).unwrap();
    }
    policy
}

/// Returns all plans for a machine as a text.
fn plans(topology: &Topology) -> String {
    let mut text = String::new();
    for (processes, requests) in CASES {
        let processes = processes.unwrap_or(topology.of_kind(Kind::Core).len());
        let options: Vec<String> = requests.iter().map(|request| format!(" --{request}")).collect();
        writeln!(text, "-n {processes}{}", options.concat()).unwrap();
        let policy = policy(requests);
        match binding::plan(topology, topology.root(), &ranks(processes), &policy) {
            Ok(cpusets) => {
                for (rank, cpuset) in cpusets.iter().enumerate().take(SHOWN_MAX) {
                    let cpuset = binding::describe(topology, topology.root(), cpuset);
                    writeln!(text, "  {rank}: {cpuset}").unwrap();
                }
                if cpusets.len() > SHOWN_MAX {
                    writeln!(text, "  and {} more", cpusets.len() - SHOWN_MAX).unwrap();
                }
            }
            Err(message) => writeln!(text, "  {message}").unwrap(),
        }
    }
    text
}

#[test]
fn plans_are_as_reviewed() {
    for (path, topology) in machines() {
        reviewed::compare(&path, "placements", &plans(&topology));
    }
}

#[test]
fn no_share_is_less_than_the_part_of_each() {
    for (path, topology) in machines() {
        let all = topology.threads().len();
        for map in ["slot", "package", "numa", "core", "numa,package"] {
            let policy = policy(&[&format!("map-by {map}")]);
            for processes in (1..=topology.of_kind(Kind::Core).len()).step_by(5) {
                let cpusets =
                    binding::plan(&topology, topology.root(), &ranks(processes), &policy).unwrap();
                for cpuset in cpusets.iter().flatten() {
                    assert!(
                        cpuset.len() * processes >= all && cpuset.is_subset(topology.threads()),
                        "{}: {processes} by {map}: {cpuset}",
                        path.display()
                    );
                }
            }
        }
    }
}
