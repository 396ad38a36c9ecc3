//! Variables of other launchers that say where processes run, or how hosts are reached.

use std::env;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use base::variables::NET;
use launcher::binding::{HostOrder, PolicyOption};
use launcher::{Application, Host, HostAccess, JobPlan};

use super::hosts;

/// The effect of a variable of another launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableEffect {
    /// Names a host file, as `--hostfile` does.
    HostFile,
    /// The number of slots of hosts for which the host file gives none.
    DefaultSlots,
    /// The number of processes on each host, as with `-ppn`.
    PerHost,
    /// More processes than slots are allowed, as with `--oversubscribe`.
    Oversubscribe,
    /// The words of an option for the mapping or binding of processes.
    Policy(PolicyOption),
    /// The command that reaches other hosts, as `--launch-agent` does.
    Agent,
    /// Further arguments of the command that reaches other hosts.
    AgentArguments,
    /// The network interfaces to use, as `-iface` does; those after `^` are not used.
    Interfaces,
    /// The network interfaces not to use.
    ExcludedInterfaces,
    /// Whether processes are bound: those that say no have the effect of `--bind-to none`.
    IsBound,
    /// It would change where processes run and has no equivalent: an error with this remedy.
    Refused(&'static str),
    /// None.
    Nothing,
}

use VariableEffect::{
    Agent, AgentArguments, DefaultSlots, ExcludedInterfaces, HostFile, Interfaces, IsBound,
    Nothing, Oversubscribe, PerHost, Policy, Refused,
};

const NAME_HOSTS: &str = "name the hosts to use with --hosts";
const NAME_RANKS: &str = "name the file with --rankfile";
const NEEDS_BINDING: &str = "restrict the launcher with taskset, or use --rankfile";

/// The variables of Open MPI 4 (`OMPI_MCA_`), Open MPI 5 (`PRTE_MCA_`), MPICH (`HYDRA_`) and Intel
/// MPI (`I_MPI_`). A page for users contains this table.
pub const VARIABLES: &[(&str, VariableEffect)] = &[
    ("OMPI_MCA_orte_default_hostfile", HostFile),
    ("PRTE_MCA_prte_default_hostfile", HostFile),
    ("PRTE_MCA_default_hostfile", HostFile),
    ("I_MPI_HYDRA_HOST_FILE", HostFile),
    ("HYDRA_HOST_FILE", HostFile),
    ("OMPI_MCA_orte_set_default_slots", DefaultSlots),
    ("PRTE_MCA_prte_set_default_slots", DefaultSlots),
    ("I_MPI_PERHOST", PerHost),
    ("OMPI_MCA_rmaps_base_oversubscribe", Oversubscribe),
    ("OMPI_MCA_rmaps_base_mapping_policy", Policy(PolicyOption::MapBy)),
    ("PRTE_MCA_rmaps_default_mapping_policy", Policy(PolicyOption::MapBy)),
    ("OMPI_MCA_hwloc_base_binding_policy", Policy(PolicyOption::BindTo)),
    ("PRTE_MCA_hwloc_default_binding_policy", Policy(PolicyOption::BindTo)),
    ("OMPI_MCA_plm_rsh_agent", Agent),
    ("PRTE_MCA_plm_ssh_agent", Agent),
    ("I_MPI_HYDRA_BOOTSTRAP_EXEC", Agent),
    ("HYDRA_LAUNCHER_EXEC", Agent),
    ("OMPI_MCA_plm_rsh_args", AgentArguments),
    ("PRTE_MCA_plm_ssh_args", AgentArguments),
    ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", AgentArguments),
    ("HYDRA_LAUNCH_EXTRA_ARGS", AgentArguments),
    ("OMPI_MCA_rmaps_base_no_schedule_local", Refused(NAME_HOSTS)),
    ("OMPI_MCA_rmaps_rank_file_path", Refused(NAME_RANKS)),
    ("PRTE_MCA_rmaps_rank_file_path", Refused(NAME_RANKS)),
    ("OMPI_MCA_hwloc_base_cpu_set", Refused(NEEDS_BINDING)),
    ("PRTE_MCA_hwloc_default_cpu_list", Refused(NEEDS_BINDING)),
    ("OMPI_MCA_orte_keep_fqdn_hostnames", Nothing),
    ("PRTE_MCA_prte_keep_fqdn_hostnames", Nothing),
    ("OMPI_MCA_plm", Nothing),
    ("PRTE_MCA_plm", Nothing),
    ("OMPI_MCA_ras", Nothing),
    ("PRTE_MCA_ras", Nothing),
    ("HYDRA_LAUNCHER", Nothing),
    ("HYDRA_RMK", Nothing),
    ("I_MPI_HYDRA_BOOTSTRAP", Nothing),
    ("I_MPI_HYDRA_RMK", Nothing),
    ("OMPI_MCA_btl_tcp_if_include", Interfaces),
    ("HYDRA_IFACE", Interfaces),
    ("I_MPI_HYDRA_IFACE", Interfaces),
    ("OMPI_MCA_btl_tcp_if_exclude", ExcludedInterfaces),
    ("I_MPI_PIN", IsBound),
    ("I_MPI_PIN_DOMAIN", Nothing),
    ("I_MPI_PIN_ORDER", Nothing),
    ("I_MPI_PIN_PROCESSOR_LIST", Nothing),
];

/// The variable that Kubernetes' MPI operator sets in its pods, and its value in the one with the
/// launcher.
const POD_ROLE: (&str, &str) = ("K_MPI_JOB_ROLE", "launcher");

/// How long the launcher waits for the pods of Kubernetes' MPI operator, which starts it beside
/// them: their images may have to be fetched, and their names to be published.
const POD_WAIT: Duration = Duration::from_secs(120);

/// For how long after the start of a job hosts that cannot be reached are tried again, unless the
/// user specifies it.
pub fn host_wait() -> Duration {
    let (name, launcher) = POD_ROLE;
    if env::var(name).is_ok_and(|role| role == launcher) { POD_WAIT } else { Duration::ZERO }
}

/// How the names of variables of other libraries and their launchers begin.
const FAMILIES: [&str; 7] =
    ["OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_", "HYDRA_", "MPIR_CVAR_", "MPICH_", "I_MPI_"];

/// How the names of those end that say where a library is installed.
const PLACES: [&str; 3] = ["_ROOT", "_HOME", "_DIR"];

/// The variables of other launchers and libraries that are set.
#[derive(Debug)]
pub struct ForeignVariables {
    /// Those of the table, with their values.
    listed: Vec<(&'static str, VariableEffect, String)>,
    /// The names of others, sorted.
    others: Vec<String>,
}

/// Those of the environment.
pub fn here() -> ForeignVariables {
    let all = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    read(|name| env::var(name).ok(), all)
}

/// Those that `variable` gives, and of `names` those that the table lacks. Empty ones are left out,
/// and so are refused switches that are off.
fn read(
    variable: impl Fn(&str) -> Option<String>,
    names: impl Iterator<Item = String>,
) -> ForeignVariables {
    let is_set = |name, effect, value: &str| {
        let is_switch = effect == Oversubscribe || name == "OMPI_MCA_rmaps_base_no_schedule_local";
        if is_switch { !is_no(value) } else { !value.is_empty() }
    };
    let all = VARIABLES.iter().filter_map(|&(name, effect)| {
        let value = variable(name)?.trim().to_owned();
        is_set(name, effect, &value).then_some((name, effect, value))
    });
    let is_other = |name: &String| {
        FAMILIES.iter().any(|family| name.starts_with(family))
            && !PLACES.iter().any(|end| name.ends_with(end))
            && VARIABLES.iter().all(|(listed, _)| listed != name)
    };
    let mut others: Vec<String> = names.filter(is_other).collect();
    others.sort();
    ForeignVariables { listed: all.collect(), others }
}

impl ForeignVariables {
    /// The variable with an effect, and its value.
    ///
    /// # Errors
    /// A message for the user: two of them have different values.
    fn only(&self, effect: VariableEffect) -> Result<Option<(&'static str, &str)>, String> {
        let mut all = self.listed.iter().filter(|(_, one, _)| *one == effect);
        let Some((name, _, value)) = all.next() else { return Ok(None) };
        match all.find(|(_, _, other)| other != value) {
            Some((second, _, other)) => Err(format!(
                "{name} is \"{value}\", but {second} is \"{other}\"; unset one of them"
            )),
            None => Ok(Some((name, value))),
        }
    }

    /// Sets the mapping and binding of processes. Called before the options are read, which
    /// replace them.
    ///
    /// # Errors
    /// A message for the user: a value has no equivalent.
    pub fn set_policies(&self, plan: &mut JobPlan) -> Result<(), String> {
        plan.oversubscribe |= self.only(Oversubscribe)?.is_some();
        if self.only(IsBound)?.is_some_and(|(_, value)| is_no(value)) {
            plan.policy.set(PolicyOption::BindTo, "none")?;
        }
        for (option, spelling) in
            [(PolicyOption::MapBy, "--map-by"), (PolicyOption::BindTo, "--bind-to")]
        {
            let Some((name, words)) = self.only(Policy(option))? else { continue };
            let refused = |cause: &str| format!("{name}: {cause}; unset it and use {spelling}");
            let order = plan.policy.set(option, words).map_err(|cause| refused(&cause))?;
            let HostOrder { in_turn, per_host, oversubscribe } = order;
            if per_host.is_some() {
                return Err(refused(&format!("\"{words}\" works only as an option")));
            }
            plan.in_turn |= in_turn;
            plan.oversubscribe |= oversubscribe;
        }
        Ok(())
    }

    /// Sets the hosts and the number of processes on each, unless options did. Returns the
    /// variable that named the hosts.
    ///
    /// # Errors
    /// A message for the user: a value cannot be used, or has no equivalent.
    pub fn set_hosts(&self, plan: &mut JobPlan) -> Result<Option<&'static str>, String> {
        let has_hosts = plan.applications.iter().any(|one| !one.hosts.is_empty());
        let has_ranks = !plan.rankfile.is_empty();
        for (name, effect, _) in &self.listed {
            let Refused(remedy) = effect else { continue };
            let is_replaced = has_ranks || (has_hosts && *remedy == NAME_HOSTS);
            if !is_replaced {
                return Err(format!(
                    "{name} would change where processes run, and has no effect here; unset it, \
                     and {remedy}"
                ));
            }
        }
        if has_ranks {
            return Ok(None);
        }
        if let Some((name, value)) = self.only(PerHost)?.filter(|(_, value)| !is_all(value)) {
            let each = super::count(name, value)?;
            // Slots that an option gives for hosts go before.
            let is_open = |one: &&mut Application| one.hosts.iter().all(|h| h.slots.is_none());
            for one in plan.applications.iter_mut().filter(is_open) {
                one.per_host.get_or_insert(each);
            }
        }
        if has_hosts {
            return Ok(None);
        }
        let Some((name, hosts)) = self.host_file()? else { return Ok(None) };
        for one in &mut plan.applications {
            one.hosts.clone_from(&hosts);
        }
        Ok(Some(name))
    }

    /// The hosts of the host file that a variable names, and that variable.
    ///
    /// # Errors
    /// A message for the user: the file cannot be read.
    pub fn host_file(&self) -> Result<Option<(&'static str, Vec<Host>)>, String> {
        let Some((name, file)) = self.only(HostFile)? else { return Ok(None) };
        let mut hosts = hosts::read_file(name, OsStr::new(file))?;
        if let Some((name, value)) = self.only(DefaultSlots)?.filter(|(_, value)| !is_all(value)) {
            let slots = super::count(name, value)?;
            for host in &mut hosts {
                host.slots.get_or_insert(slots);
            }
        }
        Ok(Some((name, hosts)))
    }

    /// Sets how hosts are reached, unless an option, the own variable or the batch system did.
    ///
    /// # Errors
    /// A message for the user: two variables contradict each other.
    pub fn set_access(&self, plan: &mut JobPlan) -> Result<(), String> {
        if plan.access != HostAccess::Ssh {
            return Ok(());
        }
        let words = |text: &str| text.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        if let Some((name, command)) = self.only(Agent)? {
            // Open MPI separates alternatives by colons.
            let first = words(command.split(" : ").next().unwrap_or_default());
            if first.is_empty() {
                return Err(format!("{name} needs a command, but is \"{command}\""));
            }
            plan.access = HostAccess::Shell(first);
        }
        if let Some((_, arguments)) = self.only(AgentArguments)? {
            plan.access = plan.access.with_arguments(&words(arguments));
        }
        Ok(())
    }

    /// Sets the network interfaces, unless an option or the own variable did.
    ///
    /// # Errors
    /// A message for the user: two variables contradict each other.
    pub fn set_networks(&self, plan: &mut JobPlan) -> Result<(), String> {
        let excluded = self.only(ExcludedInterfaces)?;
        let value = match (self.only(Interfaces)?, excluded) {
            (Some((name, _)), Some((other, _))) => {
                return Err(format!("{name} and {other} contradict each other; unset one of them"));
            }
            (Some((_, names)), None) => names.to_owned(),
            (None, Some((_, names))) => format!("^{names}"),
            (None, None) => return Ok(()),
        };
        if env::var_os(NET).is_none() {
            for one in &mut plan.applications {
                one.variables.entry(NET.into()).or_insert_with(|| value.clone().into());
            }
        }
        Ok(())
    }

    /// The variables that have no effect.
    pub fn without_effect(&self) -> Vec<&str> {
        let all = self.listed.iter().filter(|(_, effect, _)| *effect == Nothing);
        all.map(|(name, _, _)| *name).chain(self.others.iter().map(String::as_str)).collect()
    }
}

/// Describes to users the variables among `set`, those that options set for processes, that would
/// have an effect on the launcher if its own environment had them.
pub fn set_for_processes<'a>(
    set: impl Iterator<Item = (&'a OsString, &'a OsString)>,
) -> Vec<String> {
    let is_unread = |(name, value): &(&OsString, &OsString)| {
        let mut listed = VARIABLES.iter().filter(|(_, effect)| *effect != Nothing);
        listed.any(|(listed, _)| name.as_os_str() == *listed)
            && env::var_os(name).as_ref() != Some(*value)
    };
    let mut all: Vec<String> = set
        .filter(is_unread)
        .map(|(name, _)| {
            let name = name.to_string_lossy();
            format!("{name} for the processes (export it, so that the launcher has it, too)")
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Whether the value of a switch is one of those that say no.
fn is_no(value: &str) -> bool {
    ["0", "no", "off", "false", "disable", ""].contains(&value.to_lowercase().as_str())
}

/// Whether a number of processes or slots is that of the cores of a host, which is the default.
fn is_all(value: &str) -> bool {
    ["all", "allcores", "cores"].contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    use launcher::binding::Bind;

    fn of(variables: &[(&str, &str)]) -> ForeignVariables {
        let value = |wanted: &str| {
            let pair = variables.iter().find(|(name, _)| *name == wanted);
            pair.map(|(_, value)| (*value).to_owned())
        };
        read(value, variables.iter().map(|(name, _)| (*name).to_owned()))
    }

    #[test]
    fn variables_that_are_not_in_the_table_have_no_effect() {
        let names =
            ["PATH", "MPICH_HOME", "I_MPI_DEBUG", "I_MPI_ROOT", "HYDRA_IFACE", "OMPI_MCA_btl"];
        let all = of(&names.map(|name| (name, "1")));
        assert_eq!(all.without_effect(), ["I_MPI_DEBUG", "OMPI_MCA_btl"]);
    }

    /// The plan of one program with these variables, and the variable that named the hosts.
    fn plan(variables: &[(&str, &str)]) -> Result<(JobPlan, Option<&'static str>), String> {
        let mut plan = JobPlan { applications: vec![Application::default()], ..JobPlan::default() };
        let all = of(variables);
        all.set_policies(&mut plan)?;
        let source = all.set_hosts(&mut plan)?;
        all.set_access(&mut plan)?;
        all.set_networks(&mut plan)?;
        Ok((plan, source))
    }

    #[test]
    fn each_variable_has_its_effect() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "a slots=2\nb\n").unwrap();
        let file = file.path().to_str().unwrap();
        let shell = |words: &[&str]| HostAccess::Shell(words.iter().map(OsString::from).collect());
        let untouched = plan(&[]).unwrap().0;
        for &(name, effect) in VARIABLES {
            match effect {
                HostFile => {
                    let (plan, source) = plan(&[(name, file)]).unwrap();
                    let hosts = &plan.applications[0].hosts;
                    let shown: Vec<_> = hosts.iter().map(|h| (&*h.name, h.slots)).collect();
                    assert_eq!((shown, source), (vec![("a", Some(2)), ("b", None)], Some(name)));
                    let missing = super::tests::plan(&[(name, "/nonexistent")]).unwrap_err();
                    assert!(missing.contains(name) && missing.contains("cannot be read"));
                }
                DefaultSlots => {
                    let (plan, _) = plan(&[("HYDRA_HOST_FILE", file), (name, "3")]).unwrap();
                    let slots = plan.applications[0].hosts.iter().map(|host| host.slots);
                    assert_eq!(slots.collect::<Vec<_>>(), [Some(2), Some(3)], "{name}");
                    let sockets = [("HYDRA_HOST_FILE", file), (name, "sockets")];
                    assert!(super::tests::plan(&sockets).unwrap_err().contains(name));
                }
                PerHost => {
                    let each = |value| plan(&[(name, value)]).map(|p| p.0.applications[0].per_host);
                    assert_eq!((each("2"), each("allcores")), (Ok(Some(2)), Ok(None)));
                    assert!(each("two").unwrap_err().contains(name));
                }
                Oversubscribe => {
                    assert!(plan(&[(name, "1")]).unwrap().0.oversubscribe);
                    assert!(!plan(&[(name, "false")]).unwrap().0.oversubscribe);
                }
                Policy(option) => {
                    let (plan, _) = plan(&[(name, "core")]).unwrap();
                    let mut expected = JobPlan::default();
                    expected.policy.set(option, "core").unwrap();
                    assert_eq!(plan.policy, expected.policy, "{name}");
                    assert_ne!(plan.policy, untouched.policy, "{name}");
                    let error = super::tests::plan(&[(name, "unknown")]).unwrap_err();
                    assert!(error.contains(name) && error.contains("unset it"), "{error}");
                }
                Agent => {
                    let access = plan(&[(name, "reach -v : rsh")]).unwrap().0.access;
                    assert_eq!(access, shell(&["reach", "-v"]), "{name}");
                }
                AgentArguments => {
                    let access = plan(&[(name, "-p 22"), ("HYDRA_LAUNCHER_EXEC", "reach")]);
                    assert_eq!(access.unwrap().0.access, shell(&["reach", "-p", "22"]), "{name}");
                    let HostAccess::Shell(words) = plan(&[(name, "-p 22")]).unwrap().0.access
                    else {
                        panic!("{name} has no effect");
                    };
                    assert!(words[0] == "ssh" && words.ends_with(&["-p".into(), "22".into()]));
                }
                Interfaces | ExcludedInterfaces | IsBound => {}
                Refused(remedy) => {
                    let error = plan(&[(name, "1")]).unwrap_err();
                    assert!(error.contains(name) && error.contains(remedy), "{error}");
                }
                Nothing => {
                    assert_eq!(of(&[(name, "1")]).without_effect(), [name]);
                    assert_eq!(plan(&[(name, "1")]).unwrap().0.access, untouched.access);
                }
            }
        }
    }

    #[test]
    fn variables_that_only_processes_get_are_reported() {
        let pairs = [("I_MPI_PIN", "0"), ("I_MPI_PIN_ORDER", "x"), ("A", "1"), ("I_MPI_PIN", "0")];
        let pairs = pairs.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let found = set_for_processes(pairs.iter().map(|(name, value)| (name, value)));
        assert!(found.len() == 1 && found[0].starts_with("I_MPI_PIN for"), "{found:?}");
    }

    #[test]
    fn interfaces_and_binding_are_set() {
        for &(name, effect) in VARIABLES {
            match effect {
                Interfaces | ExcludedInterfaces => {
                    let mark = if effect == ExcludedInterfaces { "^" } else { "" };
                    let plan = plan(&[(name, "eth1")]).unwrap().0;
                    let given = plan.applications[0].variables.get(OsStr::new(NET));
                    assert_eq!(given, Some(&OsString::from(format!("{mark}eth1"))), "{name}");
                }
                IsBound => {
                    let bind = |value| plan(&[(name, value)]).unwrap().0.policy.bind;
                    assert_eq!((bind("off"), bind("1")), (Bind::Nothing, Bind::Share), "{name}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn options_go_before_variables() {
        let all = of(&[
            ("HYDRA_HOST_FILE", "/nonexistent"),
            ("I_MPI_PERHOST", "2"),
            ("OMPI_MCA_rmaps_base_no_schedule_local", "1"),
            ("HYDRA_LAUNCHER_EXEC", "other"),
            ("HYDRA_LAUNCH_EXTRA_ARGS", "-v"),
        ]);
        let hosts = hosts::read_list("--hosts", "c").unwrap();
        let program = Application { hosts, per_host: Some(1), ..Application::default() };
        let own = HostAccess::Shell(vec!["own".into()]);
        let mut plan =
            JobPlan { applications: vec![program], access: own.clone(), ..JobPlan::default() };
        assert_eq!(all.set_hosts(&mut plan), Ok(None));
        all.set_access(&mut plan).unwrap();
        let program = &plan.applications[0];
        assert_eq!((&*program.hosts[0].name, program.per_host), ("c", Some(1)));
        assert_eq!(plan.access, own);
        let hosts = |list| hosts::read_list("--hosts", list).unwrap();
        for (list, expected) in [("c:3", None), ("c", Some(2))] {
            let program = Application { hosts: hosts(list), ..Application::default() };
            let mut plan = JobPlan { applications: vec![program], ..JobPlan::default() };
            all.set_hosts(&mut plan).unwrap();
            assert_eq!(plan.applications[0].per_host, expected, "{list}");
        }
    }

    #[test]
    fn contradicting_variables_are_an_error() {
        let pair = [("HYDRA_HOST_FILE", "/a"), ("I_MPI_HYDRA_HOST_FILE", "/b")];
        let error = plan(&pair).unwrap_err();
        assert!(pair.iter().all(|(name, _)| error.contains(name)), "{error}");
        assert!(plan(&[("HYDRA_HOST_FILE", " ")]).unwrap().1.is_none());
        let both = [("HYDRA_IFACE", "a"), ("OMPI_MCA_btl_tcp_if_exclude", "b")];
        assert!(plan(&both).unwrap_err().contains("contradict each other"));
    }

    #[test]
    fn the_page_has_all_variables() {
        let page = include_str!("../../../../docs/user/launching.md");
        let table = page.split("## Variables of other launchers").nth(1).unwrap();
        let table = table.split("\n## ").next().unwrap();
        for (name, _) in VARIABLES {
            assert!(table.contains(&format!("`{name}`")), "{name} is not on the page");
        }
    }
}
