//! Allocations of batch systems: the hosts of a job, the number of processes for each host, and how
//! processes are started there.

mod slurm;

use std::collections::HashSet;
use std::env;
use std::ffi::OsStr;
use std::net::IpAddr;

use launch::allocation::{HostSlots, UnusableVariable, lsf_hosts, pbs_hosts};
use launcher::{Host, HostAccess, JobPlan, SlotTable, is_this_machine};
use sys::cores;

/// An allocation of a batch system.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The batch system and the job, for display.
    pub name: String,
    hosts: Vec<AllocatedHost>,
    /// How processes are started on the hosts.
    pub access: HostAccess,
}

/// The maximum number of hosts that a message lists.
const NAMED_MAX: usize = 16;

/// One host of an allocation.
#[derive(Debug, PartialEq, Eq)]
struct AllocatedHost {
    name: String,
    /// The number of processes that the user requested there.
    tasks: u32,
    /// The number of allocated hardware threads; at least the number of tasks.
    cores: u32,
}

/// The allocation in which this process runs.
///
/// # Errors
/// A message for the user: there is an allocation, but its hosts cannot be determined or used.
pub fn here() -> Result<Option<Allocation>, String> {
    find(variable, is_command)
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the slots of the allocation for processes that are spawned by a process that our
/// launcher has not started, but that of the batch system, or none. They are empty if there is no
/// allocation of several hosts, or if its hosts cannot be determined: then the processes run on
/// this machine.
pub fn slots_for_spawned() -> SlotTable {
    let allocation = here().ok().flatten();
    let taken = slurm::tasks_of_step(&variable);
    allocation.map_or_else(SlotTable::default, |one| one.slot_table(&taken, is_this_machine))
}

/// Whether a command is on the search path.
fn is_command(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Finds the allocation in which this process runs. `variable` reads the environment; `is_there`
/// returns whether a command is on the search path.
///
/// # Errors
/// A message for the user: there is an allocation, but its hosts cannot be determined or used.
fn find(
    variable: impl Fn(&str) -> Option<String>,
    is_there: impl Fn(&str) -> bool,
) -> Result<Option<Allocation>, String> {
    if let Some(allocation) = slurm::find(&variable, &is_there)? {
        return Ok(Some(allocation));
    }
    let wrong = |error: UnusableVariable| unusable(error.name, &error.why);
    if let Some(hosts) = lsf_hosts(&variable).map_err(wrong)? {
        let hosts = allocated(hosts);
        let name = format!("LSF job {}", variable("LSB_JOBID").unwrap_or_default());
        // LSF's own command, which accepts the arguments of ssh.
        let access = match is_there("blaunch") {
            true => HostAccess::Shell(vec!["blaunch".into()]),
            false => HostAccess::Ssh,
        };
        return Ok(Some(Allocation { name: name.trim_end().to_owned(), hosts, access }));
    }
    if let Some(hosts) = pbs_hosts(&variable).map_err(wrong)? {
        let name = format!("PBS job {}", variable("PBS_JOBID").unwrap_or_default());
        let hosts = allocated(hosts);
        let name = name.trim_end().to_owned();
        return Ok(Some(Allocation { name, hosts, access: HostAccess::Ssh }));
    }
    Ok(None)
}

/// One line about the hosts of a job: their source if it is not an option, their slots, and how
/// they are reached.
pub fn line(plan: &JobPlan, source: Option<&str>) -> String {
    let Some(hosts) = plan.applications.iter().map(|app| &app.hosts).find(|all| !all.is_empty())
    else {
        let source = source.unwrap_or("no allocation");
        return format!("{source}: this machine, {} cores", cores::usable());
    };
    let source = source.unwrap_or("hosts given");
    let slots = |host: &Host| host.slots.map_or_else(String::new, |slots| format!(":{slots}"));
    let names: Vec<String> =
        hosts.iter().map(|host| format!("{}{}", host.name, slots(host))).collect();
    let access = match &plan.access {
        HostAccess::Ssh => "ssh".to_owned(),
        HostAccess::Shell(words) => words.join(OsStr::new(" ")).to_string_lossy().into_owned(),
        HostAccess::Srun(_) => "srun".to_owned(),
    };
    format!("{source}: {} (other hosts are reached by {access})", names.join(","))
}

impl Allocation {
    /// The names of its hosts, in their order.
    pub fn names(&self) -> Vec<&str> {
        self.hosts.iter().map(|host| host.name.as_str()).collect()
    }

    /// The hosts with their slots. A host has as many slots as tasks were requested there. If more
    /// processes are requested, in total or per host, it has as many slots as cores.
    pub fn hosts(&self, processes: u32, per_host: Option<u32>) -> Vec<Host> {
        let tasks: u32 = self.hosts.iter().map(|host| host.tasks).sum();
        let is_more = processes > tasks
            || per_host.is_some_and(|each| self.hosts.iter().any(|host| host.tasks < each));
        let host = |host: &AllocatedHost| Host {
            name: host.name.clone(),
            slots: Some(if is_more { host.cores } else { host.tasks }),
            slots_max: None,
        };
        self.hosts.iter().map(host).collect()
    }

    /// The slots, if there are several hosts: those of this machine first. Some hosts have so many
    /// processes already.
    fn slot_table(&self, taken: &[(String, u32)], is_local: impl Fn(&str) -> bool) -> SlotTable {
        if self.hosts.len() < 2 {
            return SlotTable::default();
        }
        let mut hosts = self.hosts(0, None);
        hosts.sort_by_key(|host| !is_local(&host.name));
        SlotTable::of(&hosts, taken)
    }

    /// Checks that the hosts of a job belong to the allocation, unless the user has named a way to
    /// reach others.
    ///
    /// # Errors
    /// A message for the user that names another host.
    pub fn check(&self, plan: &JobPlan) -> Result<(), String> {
        if plan.access != HostAccess::Ssh {
            return Ok(());
        }
        let listed = plan.applications.iter().flat_map(|application| &application.hosts);
        let ranked = plan.rankfile.iter().map(|place| place.host.as_str());
        let names = listed.map(|host| host.name.as_str()).chain(ranked);
        self.stranger(names).map_or(Ok(()), |name| {
            let mut names = self.names();
            let left_out = names.len().saturating_sub(NAMED_MAX);
            names.truncate(NAMED_MAX);
            let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
            Err(format!(
                "{name} is none of the hosts of {}: {}{more}; with --launch-agent ssh, or \
                 COMBRAY_LAUNCH_AGENT=ssh for spawned processes, it is tried nevertheless",
                self.name,
                names.join(", ")
            ))
        })
    }

    /// Returns the first of these hosts that does not belong to the allocation. A name with a
    /// domain and one without it may mean one host, and an address any host: names are not looked
    /// up.
    fn stranger<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let known: HashSet<&str> = self.hosts.iter().map(|host| short(&host.name)).collect();
        names.find(|name| {
            !known.contains(short(name)) && !is_address(name) && !is_this_machine(name)
        })
    }

    /// Whether all these hosts belong to the allocation.
    pub fn has(&self, names: &[&str]) -> bool {
        let known: HashSet<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let mut others = names.iter().filter(|name| !known.contains(**name)).peekable();
        let has_this_machine = || self.hosts.iter().any(|host| is_this_machine(&host.name));
        others.peek().is_none() || has_this_machine() && others.all(|name| is_this_machine(name))
    }
}

fn is_address(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
}

/// Returns the name of a host without its domain.
fn short(name: &str) -> &str {
    if is_address(name) { name } else { name.split('.').next().unwrap_or(name) }
}

/// The hosts with the numbers of their slots, and of as many cores.
fn allocated(hosts: HostSlots) -> Vec<AllocatedHost> {
    let host = |(name, tasks)| AllocatedHost { name, tasks, cores: tasks };
    hosts.into_iter().map(host).collect()
}

/// The message about an allocation whose variable does not suffice.
fn unusable(variable: &str, why: &str) -> String {
    format!(
        "this is an allocation of a batch system, because {variable} is set, but its hosts cannot \
         be determined: {why}; name them with --hosts, such as --hosts a:2,b:2 (--hosts localhost \
         for this machine only)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use launcher::OwnHost;

    /// The allocation with these variables, if these commands are installed.
    pub(super) fn found(
        variables: &[(&str, &str)],
        commands: &[&str],
    ) -> Result<Option<Allocation>, String> {
        let value = |wanted: &str| {
            let pair = variables.iter().find(|(name, _)| *name == wanted);
            pair.map(|(_, value)| (*value).to_owned())
        };
        find(value, |command| commands.contains(&command))
    }

    pub(super) fn shown(allocation: &Allocation, processes: u32) -> String {
        let hosts = allocation.hosts(processes, None);
        let one = |host: &Host| format!("{}:{}", host.name, host.slots.unwrap_or_default());
        hosts.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn file(text: &str) -> tempfile::TempPath {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, text).unwrap();
        file.into_temp_path()
    }

    #[test]
    fn spawned_processes_get_the_slots_of_the_allocation() {
        let variables = [
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_JOB_CPUS_PER_NODE", "4(x2),2"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NODELIST", "n[1-2]"),
            ("SLURM_STEP_TASKS_PER_NODE", "3,1"),
        ];
        let value = |wanted: &str| {
            let pair = variables.iter().find(|(name, _)| *name == wanted);
            pair.map(|(_, value)| (*value).to_owned())
        };
        let allocation = find(value, |_| true).unwrap().unwrap();
        let table = allocation.slot_table(&slurm::tasks_of_step(&value), |name| name == "n2");
        assert_eq!(table.to_string(), "n2=4/1,n1=4/3,n3=2/0,");
        // One host has nothing to choose from.
        let one = found(&[("SLURM_JOB_NODELIST", "n1")], &[]).unwrap().unwrap();
        assert!(one.slot_table(&[], |_| true).is_empty());
        assert!(slurm::tasks_of_step(&|_: &str| None).is_empty());
    }

    #[test]
    fn hosts_of_all_systems() {
        let nodes = file("a\na\nb\n\na\n");
        let nodes = nodes.to_str().unwrap();
        for (name, value, expected) in [
            ("PBS_NODEFILE", nodes, "a:3 b:1"),
            ("LSB_DJOB_HOSTFILE", nodes, "a:3 b:1"),
            ("LSB_MCPU_HOSTS", "a 4 b 2 ", "a:4 b:2"),
            ("LSB_HOSTS", "a a b", "a:2 b:1"),
            ("SLURM_JOB_NODELIST", "n[1-2]", "n1:1 n2:1"),
        ] {
            let found = found(&[(name, value)], &[]).unwrap().unwrap();
            assert_eq!(shown(&found, 0), expected, "{name}");
            assert_eq!(found.access, HostAccess::Ssh);
        }
        assert_eq!(found(&[("HOME", "/")], &["srun", "blaunch"]), Ok(None));
    }

    #[test]
    fn what_cannot_be_used_is_an_error() {
        for (name, value, words) in [
            ("PBS_NODEFILE", "/nonexistent", "/nonexistent cannot be read"),
            ("PBS_NODEFILE", "/dev/null", "names no host"),
            ("LSB_MCPU_HOSTS", "a 4 b", "not names and numbers"),
            ("LSB_HOSTS", " ", "names no host"),
            ("LSB_HOSTS", "-oProxyCommand=x", "names no host"),
            ("SLURM_JOB_NODELIST", "n[1-", "not understood"),
            ("SLURM_JOB_NUM_NODES", "4", "4 nodes"),
        ] {
            let error = found(&[(name, value)], &[]).unwrap_err();
            assert!(error.contains(words) && error.contains("--hosts"), "{error}");
        }
    }

    #[test]
    fn each_system_has_its_own_way() {
        let lsf = |commands| found(&[("LSB_HOSTS", "a b"), ("LSB_JOBID", "7")], commands);
        let lsf = lsf(&["blaunch"]).unwrap().unwrap();
        assert_eq!(lsf.name, "LSF job 7");
        assert_eq!(lsf.access, HostAccess::Shell(vec!["blaunch".into()]));
        let slurm = |variables: &[(&str, &str)]| {
            let list = [&[("SLURM_JOB_NODELIST", "a,b"), ("SLURM_JOB_ID", "7")], variables];
            found(&list.concat(), &["srun"]).unwrap().unwrap()
        };
        assert_eq!(slurm(&[]).access, HostAccess::Srun(OwnHost::ByAgent));
        assert_eq!(slurm(&[]).name, "Slurm job 7");
        let batch = ("SLURMD_NODENAME", "a");
        assert_eq!(slurm(&[batch]).access, HostAccess::Srun(OwnHost::Directly));
        let step = [batch, ("SLURM_STEP_ID", "0")];
        assert_eq!(slurm(&step).access, HostAccess::Srun(OwnHost::ByAgent));
        let interactive = [batch, ("SLURM_STEP_ID", "4294967290")];
        assert_eq!(slurm(&interactive).access, HostAccess::Srun(OwnHost::Directly));
    }

    #[test]
    fn hosts_are_known() {
        let found = found(&[("LSB_HOSTS", "a b localhost")], &[]).unwrap().unwrap();
        assert!(found.has(&["a"]) && found.has(&["b", "127.0.0.1"]) && !found.has(&["a", "c"]));
    }

    #[test]
    fn strangers_are_found_by_their_names() {
        let found = found(&[("LSB_HOSTS", "a b.example.org")], &[]).unwrap().unwrap();
        let own = launcher::host_name();
        let known = ["a", "a.example.org", "b", "b.example.org", "192.0.2.1", "::1", "localhost"];
        assert_eq!(found.stranger(known.into_iter().chain([own.as_str()])), None);
        for other in ["c", "aa", "example.org", "b-ib.example.org"] {
            assert_eq!(found.stranger(["a", other].into_iter()), Some(other));
        }
    }

    #[test]
    fn many_hosts_are_looked_up_quickly() {
        let names: Vec<String> = (0..10_000).map(|number| format!("node{number}")).collect();
        let found = found(&[("LSB_HOSTS", &names.join(" "))], &[]).unwrap().unwrap();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let begun = sys::usage::processor_time();
        assert!(found.has(&names) && found.stranger(names.iter().copied()).is_none());
        let spent = sys::usage::processor_time() - begun;
        println!("{} hosts: {spent:?}", names.len());
        assert!(spent.as_secs_f64() < 0.5, "{spent:?}");
    }
}
