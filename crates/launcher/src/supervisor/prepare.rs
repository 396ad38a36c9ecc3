//! Turns a plan into orders of what each machine must start.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use base::variables;
use sys::process::{self, DescriptorLimit};
use sys::terminal;
use topology::JobNetwork;

use super::input_source::InputSource;
use super::machine::Machine;
use super::relay::Relay;
use crate::agent_connection::{AgentConnection, agent_access};
use crate::job::{HostSetup, JobSetup, MessageOutlet, StartOfRanks, SystemProbes};
use crate::launch_tree::{self, AgentStartTimes};
use crate::local::host_name;
use crate::local_processes::{self, LocalProcesses};
use crate::output::{self, OutputFile};
use crate::placement::HostAssignment;
use crate::process_table::TableWriter;
use crate::protocol::{AgentStart, ProgramStart, Start};
use crate::{Application, HostAccess, JobPlan, LaunchError, SlotTable, open_nothing, random_name};

/// A job that is ready to start.
pub(super) struct PreparedJob {
    pub setup: JobSetup,
    /// In the order of the hosts.
    pub machines: Vec<Machine>,
    /// By rank: the files to which its output goes.
    pub files: Vec<[Option<OutputFile>; 2]>,
    /// The limit that the user set.
    pub descriptors: DescriptorLimit,
    /// Forwards the launcher's input, if rank 0 runs on another machine.
    pub relay: Option<Relay>,
}

/// Checks everything that this machine needs, and opens the connections to the other machines.
/// `name` is the name of the job among the launchers, if it was spawned.
///
/// # Errors
/// There are not enough slots, a program does not exist, or no connection can be attempted.
pub(super) fn prepare(
    plan: &JobPlan,
    (launcher, name): (u32, Option<&str>),
    mut input: InputSource,
    table: Option<&TableWriter>,
) -> Result<PreparedJob, LaunchError> {
    let (console, is_spawned) = (input.console(), input.is_of_spawned_job());
    let placement = plan.placement()?;
    let applications: Vec<u32> = (0..)
        .zip(&plan.applications)
        .flat_map(|(number, app)| std::iter::repeat_n(number, app.processes as usize))
        .collect();
    let is_first_here = placement.hosts.first().is_some_and(Option::is_none);
    let relay = if is_first_here { None } else { Some(Relay::open(input.take())?) };
    let (slots, rank_slots) = plan.slots_after(&placement);
    let starts = starts(plan, &placement, &applications, &slots)?;
    // Read before it is raised.
    let descriptors = DescriptorLimit::read()?;
    // Errors on this machine are found before anything is started on others.
    if let Some(here) = placement.hosts.iter().position(Option::is_none) {
        let mut programs = starts[here].programs.clone();
        programs.iter_mut().try_for_each(local_processes::prepare)?;
    }
    let files = if plan.output.files.iter().any(Option::is_some) { applications.len() } else { 0 };
    // Room for the ranks of this machine is made when they are started.
    local_processes::make_room((placement.hosts.len() + files) as u32)?;
    let timeout = plan.host_timeout.unwrap_or(variables::HOST_TIMEOUT_DEFAULT);
    let parents = parents(plan, &placement.hosts);
    let (mut hosts, mut machines) = (Vec::new(), Vec::new());
    for (host, (name, start)) in placement.hosts.iter().zip(starts).enumerate() {
        let agent = name.is_some().then(|| agent_access(&plan.access, timeout)).transpose()?;
        machines.push(match (name, parents[host]) {
            (Some(_), Some(_)) => Machine::Remote(host, None),
            (Some(name), None) => {
                let start = AgentStart { host: name.clone(), access: plan.access.clone(), timeout };
                let connection = AgentConnection::open(&start, descriptors)?;
                Machine::Remote(host, Some(Box::new(connection)))
            }
            (None, _) => {
                let (input, ahead) = (input.take().into(), plan.open_ahead.unwrap_or(open_nothing));
                Machine::Local(host, Box::new(LocalProcesses::new(input, descriptors, ahead)))
            }
        });
        let (name, parent) = (name.clone().unwrap_or_else(host_name), parents[host]);
        hosts.push(HostSetup { name, start, agent, parent });
    }
    let files = open_files(plan, &placement.ranks, &hosts)?;
    let start_of_ranks = match table {
        Some(table) if table.holds() => StartOfRanks::AfterDebugger,
        _ => StartOfRanks::Immediate,
    };
    let setup = JobSetup {
        hosts,
        places: placement.ranks,
        universe_size: slots.slots().max(applications.len() as u32),
        applications,
        launcher,
        is_spawned,
        name: name.map(str::to_owned),
        slots,
        rank_slots,
        console,
        outlet: outlet_here(),
        start_of_ranks,
        probes: PROBES,
        measures_tree: plan.launch_width.is_none(),
    };
    Ok(PreparedJob { setup, machines, files, descriptors, relay })
}

/// Where this process writes output and messages.
fn outlet_here() -> MessageOutlet {
    let identity = |number: u32| {
        let facts = std::fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
        Some((facts.dev(), facts.ino()))
    };
    MessageOutlet {
        is_that_of_output: identity(1).is_some_and(|output| identity(2) == Some(output)),
        columns: terminal::columns(io::stderr().as_raw_fd()),
    }
}

/// Opens for each rank, whose host is given, the files to which its output goes.
fn open_files(
    plan: &JobPlan,
    ranks: &[usize],
    hosts: &[HostSetup],
) -> Result<Vec<[Option<OutputFile>; 2]>, LaunchError> {
    let open = |(rank, &host): (usize, &usize)| {
        plan.output.open(rank, ranks.len(), (host, hosts[host].name.as_str()))
    };
    ranks.iter().enumerate().map(open).collect()
}

/// Returns for each host the one whose agent starts its agent. Where the job goes on without hosts
/// that fail, the launcher starts all agents: no host depends on another one then.
fn parents(plan: &JobPlan, hosts: &[Option<String>]) -> Vec<Option<usize>> {
    let remote: Vec<usize> = (0..hosts.len()).filter(|host| hosts[*host].is_some()).collect();
    let width = match (plan.keep_going, plan.launch_width) {
        (true, _) => remote.len(),
        (false, Some(width)) => width.get(),
        (false, None) => launch_tree::best_width(remote.len(), AgentStartTimes::default()),
    };
    let mut parents = vec![None; hosts.len()];
    for (number, parent) in launch_tree::parents(remote.len(), width).into_iter().enumerate() {
        parents[remote[number]] = parent.map(|parent| remote[parent]);
    }
    parents
}

/// What the kernel reports about this machine. Without /proc, only whether a process exists is
/// known.
const PROBES: SystemProbes = SystemProbes {
    time_of_day: output::time_now,
    process_state: |number| {
        process::state(number).or_else(|| process::has_ended(number).then_some("ended"))
    },
    executable: |number| std::fs::read_link(format!("/proc/{number}/exe")).ok(),
};

/// Returns what each host must start.
fn starts(
    plan: &JobPlan,
    placement: &HostAssignment,
    applications: &[u32],
    slots: &SlotTable,
) -> Result<Vec<Start>, LaunchError> {
    let job = random_name()?;
    let size = applications.len() as u32;
    let has_terminal = io::stdout().is_terminal();
    let mut for_all = for_spawning(plan, slots);
    for_all.extend(network_of_job(plan, placement)?);
    let here = |app: &Application| ProgramStart {
        path: app.program.clone(),
        arguments: app.arguments.clone(),
        variables: app.variables.clone().into_iter().chain(for_all.clone()).collect(),
        folder: app.folder.clone(),
    };
    let mut ranks: Vec<Vec<(u32, u32)>> = vec![Vec::new(); placement.hosts.len()];
    for (pair, &host) in (0..).zip(applications.iter().copied()).zip(&placement.ranks) {
        ranks[host].push(pair);
    }
    let programs: Vec<ProgramStart> = plan.applications.iter().map(here).collect();
    let elsewhere = match placement.hosts.iter().any(Option::is_some) {
        true => for_elsewhere(programs.clone(), &plan.access)?,
        false => Vec::new(),
    };
    let mut starts = Vec::new();
    for (name, ranks) in placement.hosts.iter().zip(ranks) {
        let all = if name.is_none() { &programs } else { &elsewhere };
        let (programs, ranks) = used_programs(all, ranks);
        let chosen = ranks.iter().enumerate();
        let slots = chosen.map(|(local, pair)| plan.chosen_slots(pair.0 as usize, local)).collect();
        starts.push(Start {
            job: job.clone(),
            size,
            programs,
            ranks,
            policy: plan.policy.clone(),
            reports_bindings: plan.reports_bindings,
            reports_pools: plan.reports_pools,
            has_terminal,
            slots,
            trace_bytes: plan.trace.as_ref().map_or(0, |target| target.bytes as u32),
        });
    }
    Ok(starts)
}

/// Returns the variables by which the launcher of a spawned job finds the hosts of this one, and
/// tags lines as this job does.
fn for_spawning(plan: &JobPlan, slots: &SlotTable) -> Vec<(OsString, OsString)> {
    let tag = plan.output.tag.name();
    let mut variables = Vec::from_iter(tag.map(|tag| (variables::JOB_TAGS.into(), tag.into())));
    if slots.is_empty() {
        return variables;
    }
    variables.push((variables::JOB_HOSTS.into(), slots.to_string().into()));
    if let HostAccess::Shell(words) = &plan.access {
        variables.push((variables::LAUNCH_AGENT.into(), words.join(OsStr::new(" "))));
    }
    variables
}

/// The longest description of a network that processes get, in bytes. The kernel allows 128 KiB.
const NETWORK_BYTES_MAX: usize = 100_000;

/// Returns the variable that describes the network between the hosts of the job, if it is known.
///
/// # Errors
/// A host is not in the network, or the description is too long.
fn network_of_job(
    plan: &JobPlan,
    placement: &HostAssignment,
) -> Result<Option<(OsString, OsString)>, LaunchError> {
    let Some(network) = &plan.network else { return Ok(None) };
    // In the order of the lowest ranks.
    let mut hosts: Vec<usize> = Vec::new();
    let mut is_known = vec![false; placement.hosts.len()];
    for &host in &placement.ranks {
        if !std::mem::replace(&mut is_known[host], true) {
            hosts.push(host);
        }
    }
    let name = |host: &usize| placement.hosts[*host].clone().unwrap_or_else(host_name);
    let names: Vec<String> = hosts.iter().map(name).collect();
    let text = JobNetwork::new(network, &names).map(|network| network.to_string());
    match text {
        Some(text) if text.len() <= NETWORK_BYTES_MAX => {
            Ok(Some((variables::NETWORK_OF_JOB.into(), text.into())))
        }
        Some(_) => Err(LaunchError::new(format!(
            "the network of {} hosts is too large to describe it to each process: unset {}",
            names.len(),
            variables::NETWORK
        ))),
        None => Err(LaunchError::new(format!(
            "the network that {} describes does not contain all hosts of the job: {}",
            variables::NETWORK,
            names.iter().find(|name| !network.hosts().contains(name)).map_or("", String::as_str)
        ))),
    }
}

/// Returns the programs that a host with these ranks runs, as the others need not exist there, and
/// the ranks with the numbers of their programs among those.
fn used_programs(
    all: &[ProgramStart],
    mut ranks: Vec<(u32, u32)>,
) -> (Vec<ProgramStart>, Vec<(u32, u32)>) {
    let mut positions: HashMap<u32, u32> = HashMap::new();
    let mut used = Vec::new();
    for (_, program) in &mut ranks {
        *program = *positions.entry(*program).or_insert_with(|| {
            used.push(all[*program as usize].clone());
            used.len() as u32 - 1
        });
    }
    (used, ranks)
}

/// Returns the programs with what another machine cannot derive: their folders, and variables of
/// this machine.
fn for_elsewhere(
    mut programs: Vec<ProgramStart>,
    access: &HostAccess,
) -> io::Result<Vec<ProgramStart>> {
    let own = std::env::current_dir()?;
    let is_sent = |name: &OsStr| is_passed_on(name) || access.withholds(name);
    let sent: Vec<_> = std::env::vars_os().filter(|(name, _)| is_sent(name)).collect();
    for ProgramStart { folder, variables, .. } in &mut programs {
        *folder = Some(folder.as_ref().map_or_else(|| own.clone(), |folder| own.join(folder)));
        for (name, value) in &sent {
            if variables.iter().all(|(known, _)| known != name) {
                variables.push((name.clone(), value.clone()));
            }
        }
    }
    Ok(programs)
}

/// Variables with our prefix that apply to this machine or this launcher only.
const NOT_PASSED_ON: &[&str] =
    &[variables::NODE, variables::LAUNCH_AGENT, variables::LAUNCH_WIDTH, variables::NETWORK];

/// Whether one of the launcher's variables is sent with the program to another machine.
fn is_passed_on(name: &OsStr) -> bool {
    let is_ours = name.as_encoded_bytes().starts_with(variables::PREFIX.as_bytes());
    let is_known = name == "PATH" || name == "LD_LIBRARY_PATH" || is_ours;
    is_known
        && !NOT_PASSED_ON.iter().any(|known| name == *known)
        && local_processes::stale(std::iter::once(name.to_owned())).next().is_none()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::*;
    use crate::Host;

    #[test]
    fn what_belongs_to_one_machine_stays_there() {
        for name in ["PATH", "LD_LIBRARY_PATH", "COMBRAY_STRATEGY", "COMBRAY_NET"] {
            assert!(is_passed_on(OsStr::new(name)), "{name}");
        }
        for name in ["HOME", "COMBRAY_NODE", "COMBRAY_RANK", "PMI_FD", "DISPLAY"] {
            assert!(!is_passed_on(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn hosts_get_their_own_programs_only() {
        let program = |path: &str| ProgramStart { path: path.into(), ..ProgramStart::default() };
        let programs = vec![program("a"), program("b"), program("c")];
        let (programs, ranks) = used_programs(&programs, vec![(3, 2), (4, 0), (6, 2)]);
        assert_eq!(ranks, [(3, 0), (4, 1), (6, 0)]);
        assert_eq!(programs, [program("c"), program("a")]);
    }

    #[test]
    fn folders_are_whole_elsewhere() {
        let sent = |program| for_elsewhere(vec![program], &HostAccess::Ssh).unwrap().remove(0);
        let program = |folder: Option<&str>| {
            let folder = folder.map(PathBuf::from);
            sent(ProgramStart { folder, ..ProgramStart::default() }).folder.unwrap()
        };
        let own = std::env::current_dir().unwrap();
        assert_eq!(program(None), own);
        assert_eq!(program(Some("x")), own.join("x"));
        assert_eq!(program(Some("/x")), Path::new("/x"));
        let variables = vec![(OsString::from("PATH"), OsString::from("/x"))];
        let kept = sent(ProgramStart { variables, ..ProgramStart::default() });
        assert_eq!(kept.variables.iter().filter(|pair| pair.0 == "PATH").count(), 1);
    }

    #[test]
    fn many_hosts_are_prepared_quickly() {
        const HOSTS: u32 = 10_000;
        const RANKS: u32 = 8 * HOSTS;
        let host = |number| Host { name: format!("host{number}"), slots: Some(8), slots_max: None };
        let application = Application {
            processes: RANKS,
            hosts: (0..HOSTS).map(host).collect(),
            ..Application::default()
        };
        let plan = JobPlan { applications: vec![application], ..JobPlan::default() };
        let begun = sys::usage::processor_time();
        let placement = plan.placement().unwrap();
        let starts =
            starts(&plan, &placement, &[0; RANKS as usize], &plan.slots_after(&placement).0)
                .unwrap();
        let spent = sys::usage::processor_time() - begun;
        assert_eq!(starts.len(), HOSTS as usize);
        assert_eq!(starts[9].ranks, (72..80).map(|rank| (rank, 0)).collect::<Vec<_>>());
        println!("{HOSTS} hosts with {RANKS} ranks: {spent:?}");
        assert!(spent < Duration::from_secs(5), "{spent:?}");
    }
}
