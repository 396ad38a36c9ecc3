//! `combray sample`: measures the rails between two processes, and stores the figures.
//!
//! The command starts itself as a job of two processes in three ways: to learn the hosts and
//! interfaces (`--describe`), to run the benchmark program on each rail, and to store the figures
//! on each host (`--keep`).

mod costs;
mod figures;
mod table;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::hint::black_box;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use base::variables;
use clap::Args;
use collectives::Costs;
use driver_tcp::{NetworkSelection, usable};
use engine::model::RailFigures;
use runtime::samples::{self, Samples};
use serde::{Deserialize, Serialize};
use sys::cores;

use crate::memory::SampleOutput;
use crate::prefix;
use figures::Results;

/// The options of `combray sample`.
#[derive(Args)]
pub struct SampleOptions {
    /// The two hosts, as in combray run; without them the processes run on this machine
    #[arg(long, value_name = "LIST")]
    hosts: Option<OsString>,
    /// A file that names the two hosts, as in combray run
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<OsString>,
    /// How other hosts are reached, as in combray run
    #[arg(long, value_name = "COMMAND")]
    launch_agent: Option<OsString>,
    /// Measures what accesses to this machine's memory cost, by the state of their cache lines
    #[arg(long, conflicts_with_all = ["hosts", "hostfile", "launch_agent"])]
    memory: bool,
    /// Prints the measurements of memory as JSON
    #[arg(long, requires = "memory")]
    json: bool,
    /// Draws the measurements of memory, bandwidth by size and state: .svg, or .png
    #[arg(long, requires = "memory", value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Only shows the figures, and does not store them
    #[arg(long)]
    no_keep: bool,
    /// Describes the host on which this process runs
    #[arg(long, hide = true)]
    describe: bool,
    /// Stores figures that another process has measured
    #[arg(long, hide = true, value_name = "FIGURES")]
    keep: Option<String>,
}

/// The description of a host by one of its processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    host: String,
    /// An identifier of the shared memory: processes with equal identifiers can use shared memory.
    place: Option<String>,
    /// The interfaces: name, address, and prefix length of the network.
    interfaces: Vec<(String, IpAddr, u8)>,
    copied_bytes_per_us: u64,
}

/// A rail between the two hosts: its name on each of them, and the value of `COMBRAY_NET` that
/// selects only this rail.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SampledRail {
    names: [String; 2],
    net: Option<String>,
}

/// The measurements of each host.
type Findings = BTreeMap<String, HostMeasurement>;

/// The measurements of one host.
#[derive(Default, Serialize, Deserialize)]
struct HostMeasurement {
    /// The figures of each rail, by its name.
    rails: BTreeMap<String, RailFigures>,
    /// The costs inside the host, and between it and the other host.
    near: Option<Costs>,
    far: Option<Costs>,
}

/// The name of the rail between processes of one machine.
const NEAR: &str = "shm";

/// The prefix of a description in the output of the job.
const MARK: &str = "combray-sample ";

/// Runs what the user, or the process on another host, requests.
pub fn run(options: &SampleOptions) -> Result<i32, String> {
    if options.describe {
        let description = serde_json::to_string(&describe()).map_err(|cause| cause.to_string())?;
        println!("{MARK}{description}");
        return Ok(0);
    }
    if let Some(findings) = &options.keep {
        return keep(findings).map(|()| 0);
    }
    if options.memory {
        return crate::memory::sample(&SampleOutput {
            is_stored: !options.no_keep,
            as_json: options.json,
            picture: options.picture.as_deref(),
        });
    }
    measure_all(options)
}

fn measure_all(options: &SampleOptions) -> Result<i32, String> {
    let hosts = both_hosts(options)?;
    let rails = rails_between(&hosts)?;
    let mut findings = Findings::new();
    for rail in &rails {
        eprintln!("combray: measuring {} ...", rail.names[0]);
        let results = Results::of(&measure(options, rail, &figures::BENCHMARKS)?);
        for (host, name) in hosts.iter().zip(&rail.names) {
            let figures = figures::from_results(&results, host.copied_bytes_per_us)
                .map_err(|what| format!("{name} cannot be measured: {what}"))?;
            let finding = findings.entry(host.host.clone()).or_default();
            finding.rails.insert(name.clone(), figures);
        }
    }
    for (host, finding) in &mut findings {
        match finding.rails.get(NEAR) {
            Some(figures) if *host == samples::host() => {
                eprintln!("combray: measuring steps of collective operations ...");
                let costs = near_costs(options, figures);
                finding.near = costs
                    .inspect_err(|what| eprintln!("combray: they cannot be measured: {what}"))
                    .ok();
            }
            Some(_) => {}
            None => finding.far = costs::far(&finding.rails),
        }
        print!("{}", table::table(host, &finding.rails));
        finding.near.iter().for_each(|near| print!("{}", costs::table(near)));
    }
    if options.no_keep {
        return Ok(0);
    }
    let findings = serde_json::to_string(&findings).map_err(|cause| cause.to_string())?;
    let own = own_program()?;
    let words = [own, "sample".into(), "--keep".into(), findings.into()];
    print!("{}", output_of(options, &[], &words)?);
    Ok(0)
}

/// The costs of the steps of collective operations on this machine.
fn near_costs(options: &SampleOptions, figures: &RailFigures) -> Result<Costs, String> {
    let rail = SampledRail { names: [NEAR.into(), NEAR.into()], net: None };
    let results = measure(options, &rail, &[costs::NEAR_BENCHMARK])?;
    // Child processes inherit the thread's binding.
    let on_one_core = thread::scope(|scope| {
        let bound = scope.spawn(|| {
            let core = cores::allowed().first().copied().unwrap_or(0);
            cores::bind(core).map_err(|cause| format!("core {core} cannot be used: {cause}"))?;
            measure(options, &rail, &[costs::TURN_BENCHMARK])
        });
        bound.join().unwrap_or_else(|_| Err("a measurement was interrupted".into()))
    })?;
    costs::near(figures, &Results::of(&results), &Results::of(&on_one_core))
}

/// Starts a process on each host that describes its host.
fn both_hosts(options: &SampleOptions) -> Result<[Description; 2], String> {
    let words = [own_program()?, "sample".into(), "--describe".into()];
    let output = output_of(options, &[], &words)?;
    let reported = output.lines().filter_map(|line| line.strip_prefix(MARK));
    let reported: Vec<_> = reported.filter_map(|line| serde_json::from_str(line).ok()).collect();
    reported
        .try_into()
        .map_err(|_| format!("the two processes do not report where they run:\n{output}"))
}

/// The rails between two hosts: shared memory inside one host, otherwise interfaces in common
/// networks.
fn rails_between(hosts: &[Description; 2]) -> Result<Vec<SampledRail>, String> {
    let [one, other] = hosts;
    if one.host == other.host && one.place == other.place {
        return Ok(vec![SampledRail { names: [NEAR.into(), NEAR.into()], net: None }]);
    }
    let mut rails = Vec::new();
    for (name, address, bits) in &one.interfaces {
        let net = format!("{address}/{bits}");
        let inside = NetworkSelection::parse(&net)?;
        let peer = other
            .interfaces
            .iter()
            .find(|interface| inside.accepts("tcp", &interface.0, Some(interface.1)));
        if let Some(peer) = peer {
            let names = [format!("tcp:{name}"), format!("tcp:{}", peer.0)];
            rails.push(SampledRail { names, net: Some(net) });
        }
    }
    if rails.is_empty() {
        return Err(format!(
            "no interfaces of {} and {} are in the same network; COMBRAY_NET names those to use",
            one.host, other.host
        ));
    }
    Ok(rails)
}

/// Runs the benchmarks over one rail. Returns the lines of their results.
fn measure(
    options: &SampleOptions,
    rail: &SampledRail,
    benchmarks: &[[&str; 3]],
) -> Result<String, String> {
    let program = prefix::find()?.join("lib/combray/combray-bench");
    if !program.exists() {
        let program = program.display();
        return Err(format!(
            "the benchmark program is not installed ({program}): run make install"
        ));
    }
    // Messages must not share packets, and so their costs.
    let mut variables = vec![format!("{}=direct", variables::STRATEGY)];
    variables.extend(rail.net.as_ref().map(|net| format!("{}={net}", variables::NET)));
    let mut results = String::new();
    for [benchmark, sizes, window] in benchmarks {
        let mut words = vec![program.clone().into_os_string()];
        let rest = ["--json", "--batches", "40", "--limit", "2000", "--sizes", sizes, "--window"];
        words.extend(rest.iter().chain([window, benchmark]).map(OsString::from));
        results += &output_of(options, &variables, &words)?;
    }
    Ok(results)
}

/// Runs two processes of a program, and returns their output.
fn output_of(
    options: &SampleOptions,
    variables: &[String],
    words: &[OsString],
) -> Result<String, String> {
    let mut command = Command::new(own_program()?);
    command.args(["run", "-n", "2"]);
    let given = [
        ("--hosts", &options.hosts),
        ("--hostfile", &options.hostfile),
        ("--launch-agent", &options.launch_agent),
    ];
    for (name, value) in given {
        if let Some(value) = value {
            command.arg(name).arg(value);
        }
    }
    variables.iter().for_each(|variable| _ = command.arg("-x").arg(variable));
    command.arg("--").args(words).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output =
        command.output().map_err(|cause| format!("combray run does not start: {cause}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(format!("the job of two processes failed ({})\n{printed}", output.status)),
    }
}

fn own_program() -> Result<OsString, String> {
    let own = env::current_exe().map(PathBuf::into_os_string);
    own.map_err(|cause| format!("the path of this program is not known: {cause}"))
}

fn describe() -> Description {
    let wanted = env::var(variables::NET).unwrap_or_default();
    let selection = NetworkSelection::parse(&wanted).unwrap_or_default();
    let interfaces = usable(&selection).into_iter();
    Description {
        host: samples::host(),
        place: env::var(variables::NODE).ok(),
        interfaces: interfaces.map(|one| (one.name, one.address, one.prefix)).collect(),
        copied_bytes_per_us: copied_bytes_per_us(),
    }
}

/// How fast this machine copies data outside of its inner caches, in bytes per microsecond.
fn copied_bytes_per_us() -> u64 {
    const BLOCK: usize = 64 << 10;
    const BLOCKS: usize = 256;
    let from = vec![1_u8; BLOCK * BLOCKS];
    let mut into = vec![0_u8; BLOCK];
    let once = |into: &mut Vec<u8>| {
        let begin = Instant::now();
        from.chunks_exact(BLOCK).for_each(|block| black_box(&mut *into).copy_from_slice(block));
        begin.elapsed().as_nanos().max(1)
    };
    let least = (0..7).map(|_| once(&mut into)).min().unwrap_or(1);
    (((BLOCK * BLOCKS) as u128 * 1000 / least) as u64).max(1)
}

/// Stores the figures of this host, beside what is known of its other rails.
fn keep(findings: &str) -> Result<(), String> {
    let findings: Findings = serde_json::from_str(findings).map_err(|cause| cause.to_string())?;
    let host = samples::host();
    let Some(finding) = findings.get(&host) else { return Ok(()) };
    let folder = samples::folder()
        .ok_or("neither XDG_CACHE_HOME nor HOME is set: there is no folder for the results")?;
    let known = Samples::read(&folder, &host).ok().flatten();
    let mut samples = known.unwrap_or_else(|| Samples::none(&host));
    samples.rails.extend(finding.rails.clone());
    let known = samples.costs.unwrap_or_default();
    let near = finding.near.map_or(known, |near| near.with_far_of(known));
    let measured = finding.near.or(finding.far).is_some();
    let costs = finding.far.map_or(near, |far| near.with_far_of(far));
    samples.costs = measured.then_some(costs).or(samples.costs);
    let path = samples.write(&folder)?;
    // If both processes run on this machine, both write equal figures, and one of them prints the
    // message.
    if env::var(variables::LOCAL_RANK).is_ok_and(|rank| rank == "0") {
        println!("Stored for {host} in {}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, interfaces: &[(&str, &str)]) -> Description {
        let interface = |(name, address): &(&str, &str)| {
            ((*name).to_owned(), address.parse().expect("an address"), 24)
        };
        Description {
            host: name.into(),
            place: None,
            interfaces: interfaces.iter().map(interface).collect(),
            copied_bytes_per_us: 8000,
        }
    }

    #[test]
    fn rails_join_interfaces_of_one_network() {
        let one = host("one", &[("eth0", "10.0.0.1"), ("eth1", "10.0.1.1"), ("eth2", "10.0.2.1")]);
        let other = host("two", &[("enp1", "10.0.1.2"), ("enp0", "10.0.0.2")]);
        let rails = rails_between(&[one.clone(), other]).unwrap();
        let names: Vec<_> = rails.iter().map(|rail| rail.names.join(" ")).collect();
        assert_eq!(names, ["tcp:eth0 tcp:enp0", "tcp:eth1 tcp:enp1"]);
        assert_eq!(rails[1].net.as_deref(), Some("10.0.1.1/24"));
        assert_eq!(rails_between(&[one.clone(), one.clone()]).unwrap()[0].names[0], "shm");
        let far = host("far", &[("eth0", "192.168.7.1")]);
        assert!(rails_between(&[one, far]).unwrap_err().contains(variables::NET));
    }
}
