//! `combray run`: from the command line to a job plan.

pub mod allocation;
mod called;
mod counts;
mod dry_run;
pub mod foreign;
pub mod help;
pub mod hosts;
mod network;
pub mod options;
#[cfg(test)]
mod others;
mod output;
mod refused;
mod reports;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

use allocation::Allocation;
use base::limits::PROGRAM_PROCESSES_MAX;
use base::variables;
use launcher::binding::{HostOrder, Oversubscription, PolicyOption};
use launcher::{
    Application, Claim, Host, HostAccess, JobPlan, LineTag, OwnHost, SlotExpectation, SlotTable,
    SpawnedOrigin, WithoutSlot,
};
use options::{Meaning, ValueCount};

/// Does what [`run`] does, under another name: the help and the messages have the name that the
/// user typed.
pub fn run_as(name: &'static str, words: &[OsString]) -> Result<i32, String> {
    called::set(name);
    run(words)
}

/// Runs the job that `words` describe and returns the exit code.
pub fn run(words: &[OsString]) -> Result<i32, String> {
    match parse(words)? {
        RunRequest::Help => {
            print!("{}", called::named(&help::text()));
            Ok(0)
        }
        RunRequest::Version => {
            println!("combray {}", base::VERSION);
            Ok(0)
        }
        RunRequest::Job { plan, ignored, shown, purpose } => {
            if let Some(line) = shown {
                eprintln!("combray: {line}");
            }
            if !ignored.is_empty() {
                let is_explained = ignored.iter().all(|one| one.ends_with(')'));
                let hint = if is_explained { "" } else { "; combray info lists what can be set" };
                eprintln!("combray: without effect here: {}{hint}", ignored.join(", "));
            }
            match purpose {
                RunMode::Show { machine } => dry_run::run(&plan, machine.as_deref()),
                RunMode::Start => {
                    if let Some(line) = network::describe_unfitting(&plan) {
                        eprintln!("combray: {line}");
                    }
                    crate::memory::calibrate_once();
                    let open_ahead = Some(runtime::open_ahead as launcher::OpenAhead);
                    let plan = JobPlan { open_ahead, ..*plan };
                    launcher::run(&plan).map_err(|error| error.to_string())
                }
            }
        }
    }
}

/// Runs the job that `words` describe for the process that spawns it, which is at the other end of
/// the standard input, and returns the exit code. That process gets the messages about errors, too.
pub fn run_spawned(words: &[OsString]) -> Result<i32, String> {
    let origin = launcher::SpawnedOrigin::detach().map_err(|error| error.to_string())?;
    let Some(mut origin) = origin else { return Ok(0) };
    let planned = plan_spawned(words, &mut origin);
    let planned =
        planned.and_then(|plan| Ok((plan, origin.port().map_err(|error| error.to_string())?)));
    match planned {
        Ok((mut plan, port)) => {
            if !plan.slot_table.is_empty() && plan.shares_slots() {
                eprintln!("combray: {NO_FREE_SLOT}");
            }
            let port = (variables::PARENT_PORT, OsString::from(port));
            for (name, value) in std::iter::once(port).chain(reports::own_files(std::process::id()))
            {
                for application in &mut plan.applications {
                    let variables = &mut application.variables;
                    variables.entry(name.into()).or_insert_with(|| value.clone());
                }
            }
            plan.trace = reports::trace_target(&plan);
            plan.output.tag = LineTag::named(&env::var(variables::JOB_TAGS).unwrap_or_default());
            plan.output.job = Some(std::process::id());
            launcher::run_spawned(&plan, origin).map_err(|error| error.to_string())
        }
        Err(message) => {
            origin.fail(message);
            Ok(2)
        }
    }
}

/// How long a spawned job waits for slots of jobs that may be about to end, before its processes
/// share slots or are refused, and the time between two looks. The end of a job takes milliseconds,
/// but a second or more on a machine with many more running processes than cores. A job that has
/// begun to end is therefore waited for much longer.
const SLOTS_RETURN_MAX: Duration = Duration::from_secs(1);
const SLOTS_RETURN_MAX_AT_END: Duration = Duration::from_secs(30);
const SLOTS_RETURN_MAX_BEFORE_REFUSAL: Duration = Duration::from_secs(5);
const SLOTS_PAUSE: Duration = Duration::from_millis(10);

/// Plans a spawned job, and takes its slots.
fn plan_spawned(words: &[OsString], origin: &mut SpawnedOrigin) -> Result<JobPlan, String> {
    let inherited = env::var(variables::JOB_HOSTS).unwrap_or_default();
    let begun = Instant::now();
    loop {
        let slots = match origin.slot_table().map_err(|error| error.to_string())? {
            Some(slots) => slots,
            None => SlotTable::parse(&inherited)
                .filter(|slots| !slots.is_empty())
                .unwrap_or_else(allocation::slots_for_spawned),
        };
        let RunRequest::Job { plan, purpose: RunMode::Start, .. } = parse_spawned(words, &slots)?
        else {
            return Err("a spawned job needs a program".to_owned());
        };
        let open_ahead = Some(runtime::open_ahead as launcher::OpenAhead);
        let oversubscribe = slots.without_slot == WithoutSlot::Share;
        let plan = JobPlan { open_ahead, oversubscribe, slot_table: slots, ..*plan };
        // A program that disconnects from its workers and spawns others expects their slots.
        let patience = match origin.expectation {
            SlotExpectation::No => Duration::ZERO,
            SlotExpectation::Soon => SLOTS_RETURN_MAX_AT_END,
            SlotExpectation::Perhaps if plan.oversubscribe => SLOTS_RETURN_MAX,
            SlotExpectation::Perhaps => SLOTS_RETURN_MAX_BEFORE_REFUSAL,
        };
        if begun.elapsed() < patience && plan.lacks_slots() {
            std::thread::sleep(SLOTS_PAUSE);
            continue;
        }
        // Otherwise another job has taken slots meanwhile.
        if origin.take(&plan).map_err(|error| error.to_string())? == Claim::Taken {
            return Ok(plan);
        }
    }
}

/// The note when spawned processes share slots.
const NO_FREE_SLOT: &str = "there are more spawned processes than free slots, so processes share \
                            slots (combray run --nooversubscribe refuses this)";

/// The request on the command line.
#[derive(Debug)]
enum RunRequest {
    Help,
    Version,
    Job {
        plan: Box<JobPlan>,
        ignored: Vec<String>,
        /// The line about hosts and slots, if requested.
        shown: Option<String>,
        purpose: RunMode,
    },
}

/// The use of a plan.
#[derive(Debug)]
enum RunMode {
    /// The job is started.
    Start,
    /// The plan is shown, for this machine or for a described one.
    Show { machine: Option<String> },
}

/// Whether the words are valid.
///
/// # Errors
/// The message about the invalid word.
#[cfg(test)]
pub fn check(words: &[OsString]) -> Result<(), String> {
    parse(words).map(|_| ())
}

fn parse(words: &[OsString]) -> Result<RunRequest, String> {
    parse_with_hosts(words, &[])
}

/// Parses the options of a spawned job, whose programs run by default on the hosts with slots; if
/// there are none, on this machine.
fn parse_spawned(words: &[OsString], slots: &SlotTable) -> Result<RunRequest, String> {
    let mut hosts = slots.hosts();
    if hosts.is_empty() {
        hosts.push(Host { name: "localhost".to_owned(), slots: None, slots_max: None });
    }
    let mut request = parse_with_hosts(words, &hosts)?;
    if let RunRequest::Job { plan, .. } = &mut request {
        for host in plan.applications.iter_mut().flat_map(|app| &mut app.hosts) {
            if let Some(known) = slots.host(&host.name).filter(|_| host.slots.is_none()) {
                *host = known;
            }
        }
    }
    Ok(request)
}

/// Parses the options. Programs that name no hosts run on `hosts`; if that is empty, on those of
/// the first program that does.
fn parse_with_hosts(words: &[OsString], default: &[Host]) -> Result<RunRequest, String> {
    let mut plan = JobPlan::default();
    let foreign = foreign::here();
    foreign.set_policies(&mut plan)?;
    let mut ignored = Vec::new();
    let mut global = HashMap::new();
    let mut hosts = default.to_vec();
    let (mut is_dry_run, mut shows_allocation, mut machine) = (false, false, None);
    for part in words.split(|word| word == ":") {
        let mut reader = ProgramReader {
            plan: &mut plan,
            ignored: &mut ignored,
            global: &mut global,
            is_dry_run: &mut is_dry_run,
            shows_allocation: &mut shows_allocation,
            machine: &mut machine,
            application: Application::default(),
        };
        match reader.read(part)? {
            Some(asked) => return Ok(asked),
            None => {
                let mut application = reader.application;
                if application.hosts.is_empty() {
                    application.hosts.clone_from(&hosts);
                } else if hosts.is_empty() {
                    hosts.clone_from(&application.hosts);
                }
                plan.applications.push(application);
            }
        }
    }
    let names_hosts = plan.rankfile.iter().any(|place| !place.host.starts_with('+'));
    if names_hosts && plan.applications.iter().any(|app| !app.hosts.is_empty()) {
        return Err("--rankfile names the hosts of all ranks; leave out --hosts".to_owned());
    }
    // With oversubscription, processes may also share the cores to which they are bound.
    plan.policy.overload.by_mapping |= plan.oversubscribe;
    let file = foreign.set_hosts(&mut plan)?;
    let allocation = use_allocation(&mut plan)?;
    foreign.set_access(&mut plan)?;
    allocation.as_ref().map_or(Ok(()), |found| found.check(&plan))?;
    for index in 0..plan.applications.len() {
        if plan.applications[index].processes == 0 {
            let count = counts::unsaid(&plan, &plan.applications[index], machine.as_deref())?;
            plan.applications[index].processes = count;
        }
        let application = &mut plan.applications[index];
        for (name, value) in &global {
            application.variables.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    if machine.is_some() && !is_dry_run {
        return Err("--topology describes another machine, on which nothing can be started; add \
                    --dry-run to see what would run where"
            .to_owned());
    }
    let set = plan.applications.iter().flat_map(|one| &one.variables);
    ignored.extend(foreign::set_for_processes(set));
    foreign.set_networks(&mut plan)?;
    follow_environment(&mut plan)?;
    let shown = shows_allocation.then(|| {
        let source = file.or(allocation.as_ref().map(|found| found.name.as_str()));
        allocation::line(&plan, source)
    });
    if shows_allocation {
        ignored.extend(foreign.without_effect().into_iter().map(str::to_owned));
    }
    let purpose = if is_dry_run { RunMode::Show { machine } } else { RunMode::Start };
    Ok(RunRequest::Job { plan: Box::new(plan), ignored, shown, purpose })
}

/// Takes settings from the environment that no option has set, and sets the variables for the
/// processes.
fn follow_environment(plan: &mut JobPlan) -> Result<(), String> {
    if plan.timeout.is_none() {
        let limit = env::var(TIMEOUT_VARIABLE).ok().filter(|text| !text.trim().is_empty());
        plan.timeout = limit.map(|text| seconds(TIMEOUT_VARIABLE, text.trim())).transpose()?;
    }
    if let Ok(text) = env::var(variables::HOST_TIMEOUT) {
        plan.host_timeout = Some(host_timeout(&text)?);
    }
    plan.host_wait = match env::var(variables::HOST_WAIT) {
        Ok(text) => host_wait(&text)?,
        Err(_) => foreign::host_wait(),
    };
    if let Ok(text) = env::var(variables::LAUNCH_WIDTH) {
        plan.launch_width = Some(launch_width(&text)?);
    }
    plan.network = network::network()?;
    plan.trace = reports::trace_target(plan);
    reports::take_ranges_for_phases(plan);
    if plan.keep_going {
        for application in &mut plan.applications {
            application.variables.insert(variables::KEEP_GOING.into(), "1".into());
        }
    }
    Ok(())
}

/// If no option names hosts, takes the hosts of the batch system's allocation. Hosts inside the
/// allocation are reached by the batch system's own command.
fn use_allocation(plan: &mut JobPlan) -> Result<Option<Allocation>, String> {
    if let Some(command) =
        env::var_os(variables::LAUNCH_AGENT).filter(|_| plan.access == HostAccess::Ssh)
    {
        plan.access = HostAccess::Shell(command_words(variables::LAUNCH_AGENT, &command)?);
    }
    let has_hosts = plan.applications.iter().any(|application| !application.hosts.is_empty());
    let is_placed = has_hosts || !plan.rankfile.is_empty();
    let allocation = match allocation::here() {
        Err(_) if is_placed => None,
        found => found?,
    };
    hosts::name_by_position(plan, allocation.as_ref().map(Allocation::names))?;
    let Some(allocation) = allocation else { return Ok(None) };
    let has_way = plan.access != HostAccess::Ssh;
    if is_placed {
        let listed = plan.applications.iter().flat_map(|application| &application.hosts);
        let ranked = plan.rankfile.iter().map(|place| place.host.as_str());
        let names: Vec<&str> = listed.map(|host| host.name.as_str()).chain(ranked).collect();
        if !has_way && allocation.has(&names) {
            plan.access = match &allocation.access {
                HostAccess::Srun(_) => HostAccess::Srun(OwnHost::Directly),
                other => other.clone(),
            };
        }
        return Ok(Some(allocation));
    }
    let processes = plan.applications.iter().map(|application| application.processes).sum();
    let per_host = plan.applications.iter().filter_map(|application| application.per_host).max();
    let hosts = allocation.hosts(processes, per_host);
    for application in &mut plan.applications {
        application.hosts.clone_from(&hosts);
    }
    if !has_way {
        plan.access = allocation.access.clone();
    }
    Ok(Some(allocation))
}

/// Splits a command into words.
fn command_words(option: &str, command: &OsStr) -> Result<Vec<OsString>, String> {
    let words = command.as_bytes().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let words: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
    if words.is_empty() {
        return Err(format!(
            "{option} needs a command that runs other commands on a host, as ssh does"
        ));
    }
    Ok(words)
}

/// Parses the part of the command line for one program.
struct ProgramReader<'a> {
    plan: &'a mut JobPlan,
    ignored: &'a mut Vec<String>,
    global: &'a mut HashMap<OsString, OsString>,
    is_dry_run: &'a mut bool,
    /// Whether hosts and slots are displayed.
    shows_allocation: &'a mut bool,
    /// The machine for which a dry run is made.
    machine: &'a mut Option<String>,
    application: Application,
}

impl ProgramReader<'_> {
    fn read(&mut self, words: &[OsString]) -> Result<Option<RunRequest>, String> {
        let mut rest = words;
        let mut last = String::new();
        while let Some((word, after)) = rest.split_first() {
            let is_mark = word == "--";
            if is_mark || !word.as_bytes().starts_with(b"-") || word == "-" {
                let words = if is_mark { after } else { rest };
                let Some((program, arguments)) = words.split_first() else { break };
                self.application.program = program.clone();
                self.application.arguments = arguments.to_vec();
                return Ok(None);
            }
            let (name, joined) = match split(word) {
                Some((name, value)) => (name.display().to_string(), Some(value)),
                None => (word.display().to_string(), None),
            };
            let option = options::find(&name).ok_or_else(|| refused::unknown(&name))?;
            rest = after;
            let mut values: Vec<OsString> = joined.into_iter().collect();
            while values.len() < wanted(option.takes, &values, rest) {
                let (value, after) = rest.split_first().ok_or_else(|| {
                    format!("the option {name} needs a value after it, but nothing follows")
                })?;
                values.push(value.clone());
                rest = after;
            }
            if let Some(value) = values.last() {
                last = format!(" ({} is the value of {name})", value.display());
            }
            match option.meaning {
                Meaning::Help => return Ok(Some(RunRequest::Help)),
                Meaning::Version => return Ok(Some(RunRequest::Version)),
                meaning => self.apply(meaning, &name, &values)?,
            }
        }
        Err(format!("no program to run is named{last}; see {} --help", called::name()))
    }

    fn apply(&mut self, meaning: Meaning, name: &str, values: &[OsString]) -> Result<(), String> {
        let raw = values.first().map_or(OsStr::new(""), OsString::as_os_str);
        let value = raw.to_string_lossy();
        match meaning {
            Meaning::Processes => self.application.processes = count(name, &value)?,
            Meaning::ProcessesPerMachine => {
                self.application.per_host = Some(count(name, &value)?);
            }
            Meaning::Timeout => self.plan.timeout = Some(seconds(name, &value)?),
            Meaning::Stall => self.plan.stall = Some(seconds(name, &value)?),
            Meaning::Variable => {
                let found = variable(name, values)?;
                if found.is_none() {
                    self.ignored.push(format!("{name} {value} (there is no such variable here)"));
                }
                self.application.variables.extend(found);
            }
            Meaning::GlobalVariable => self.global.extend(variable(name, values)?),
            Meaning::VariableList => {
                for one in value.split(',').filter(|one| !one.is_empty()) {
                    self.application.variables.extend(variable(name, &[one.into()])?);
                }
            }
            Meaning::InitialErrhandler => {
                self.global.insert(
                    variables::INITIAL_ERRHANDLER.into(),
                    error_handler(name, &value)?.into(),
                );
            }
            Meaning::Rankfile => self.plan.rankfile = hosts::read_rankfile(name, raw)?,
            Meaning::Record | Meaning::Profile | Meaning::Trace | Meaning::Order(_) => {
                let (variable, target) = report_target(meaning, name, raw)?;
                self.global.insert(variable.into(), target);
            }
            Meaning::TraceLast => {
                let last = reports::trace_last(name, &value)?.into();
                self.global.insert(variables::TRACE_LAST.into(), last);
            }
            Meaning::Check => drop(self.global.insert(variables::CHECK.into(), "1".into())),
            Meaning::Folder => self.application.folder = Some(raw.into()),
            Meaning::Hosts => self.add_hosts(name, hosts::read_list(name, &value)?)?,
            Meaning::HostFile => self.add_hosts(name, hosts::read_file(name, raw)?)?,
            Meaning::LaunchAgent => {
                self.plan.access = HostAccess::Shell(command_words(name, raw)?);
            }
            Meaning::Oversubscribe => {
                self.plan.oversubscribe = true;
                self.plan.policy.oversubscription = Oversubscription::Allowed;
            }
            Meaning::NoOversubscribe => {
                self.plan.policy.oversubscription = Oversubscription::Refused;
            }
            Meaning::KeepGoing => self.plan.keep_going = true,
            Meaning::ForceLibrary => self.switch_on(variables::FORCE_LIBRARY),
            Meaning::OpenMp => self.switch_on(variables::OPENMP),
            Meaning::InTurn => self.plan.in_turn = true,
            Meaning::Binding(option) => self.set_policy(option, &value)?,
            Meaning::BindingAs(option, words) => self.set_policy(option, words)?,
            Meaning::Needs => self.set_policy(PolicyOption::Needs, &needs(name, raw)?)?,
            Meaning::ReportBindings => self.plan.reports_bindings = true,
            Meaning::DryRun => *self.is_dry_run = true,
            Meaning::ShowAllocation | Meaning::Verbose => self.show(meaning == Meaning::Verbose),
            Meaning::Machine => *self.machine = Some(value.into_owned()),
            Meaning::AllVariables => self.global.extend(env::vars_os()),
            Meaning::Accepted | Meaning::Help | Meaning::Version => {}
            meaning if self.apply_output(meaning, name, &value)? => {}
            meaning => self.apply_foreign(meaning, name, values)?,
        }
        Ok(())
    }

    /// Sets a variable by which the launcher, which starts the program, learns of an option.
    fn switch_on(&mut self, name: &str) {
        self.application.variables.insert(name.into(), "1".into());
    }

    /// Applies an option for the output of processes. Returns false for other options.
    fn apply_output(&mut self, meaning: Meaning, name: &str, value: &str) -> Result<bool, String> {
        let form = &mut self.plan.output;
        match meaning {
            Meaning::TagOutput => form.tag = LineTag::RankAndStream,
            Meaning::TagRank => form.tag = LineTag::Rank,
            Meaning::TimeOutput => form.is_timed = true,
            Meaning::MergeOutput => form.is_merged = true,
            Meaning::OutputFolder => output::set_folder(form, name, value)?,
            Meaning::FilePattern(kind) => {
                form.files[kind as usize] = Some(value.to_owned());
                form.is_copied = false;
            }
            Meaning::Output => output::set(form, name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies options that have their own syntax in other launchers.
    fn apply_foreign(
        &mut self,
        meaning: Meaning,
        name: &str,
        values: &[OsString],
    ) -> Result<(), String> {
        let value = values.first().map_or_else(String::new, |raw| raw.to_string_lossy().into());
        match meaning {
            Meaning::CoresEach => {
                let each = count(name, &value)?;
                self.set_policy(PolicyOption::MapBy, &format!("slot:PE={each}"))
            }
            Meaning::EachPackage => {
                let each = count(name, &value)?;
                self.set_policy(PolicyOption::MapBy, &format!("ppr:{each}:package"))
            }
            Meaning::OnePerMachine => {
                self.application.per_host = Some(1);
                Ok(())
            }
            Meaning::Launcher => {
                self.plan.access = hosts::named_launcher(name, &value)?;
                Ok(())
            }
            Meaning::Interface => {
                self.global.insert(variables::NET.into(), value.into());
                Ok(())
            }
            Meaning::FaultTolerance => match value.as_str() {
                "ulfm" | "mpi" | "true" | "1" => {
                    self.plan.keep_going = true;
                    Ok(())
                }
                "none" | "no" | "false" | "0" => Ok(()),
                _ => Err(format!("{name} needs ulfm or none, but got \"{value}\"")),
            },
            Meaning::StandardInput if value == "0" => Ok(()),
            Meaning::StandardInput => Err(format!(
                "{name} {value}: standard input goes to rank 0; write < /dev/null after the \
                 command for none, and let rank 0 pass it on for all"
            )),
            Meaning::Display => self.display(name, &value),
            _ => {
                self.parameter(name, values)?;
                Ok(())
            }
        }
    }

    /// Displays hosts and slots, and the variables for pools of threads if `shows_pools`.
    fn show(&mut self, shows_pools: bool) {
        *self.shows_allocation = true;
        self.plan.reports_pools |= shows_pools;
    }

    /// Applies an option about information to display before the job begins.
    fn display(&mut self, name: &str, words: &str) -> Result<(), String> {
        for word in words.split(',').filter(|word| !word.is_empty()) {
            match word {
                "map" | "map-devel" | "bind" | "bindings" => self.plan.reports_bindings = true,
                "allocation" => *self.shows_allocation = true,
                "topo" => return Err(format!("{name} topo: write combray topo instead")),
                _ => {
                    return Err(format!(
                        "{name} needs map, bind or allocation, but got \"{word}\""
                    ));
                }
            }
        }
        Ok(())
    }

    /// Applies a parameter of Open MPI. The few that have an equivalent are applied; the others are
    /// reported as ignored.
    fn parameter(&mut self, name: &str, values: &[OsString]) -> Result<(), String> {
        let words = values.join(OsStr::new("=")).to_string_lossy().into_owned();
        let (key, value) = words.split_once('=').unwrap_or((&words, ""));
        match key {
            "btl_tcp_if_include" => {
                self.global.insert(variables::NET.into(), value.into());
            }
            "btl_tcp_if_exclude" => {
                self.global.insert(variables::NET.into(), format!("^{value}").into());
            }
            "orte_tag_output" if value != "0" => self.plan.output.tag = LineTag::RankAndStream,
            "rmaps_base_oversubscribe" if value != "0" => self.plan.oversubscribe = true,
            "plm_rsh_agent" | "plm_ssh_agent" => {
                let words = value.split_whitespace().map(OsString::from).collect();
                self.plan.access = HostAccess::Shell(words);
            }
            "orte_default_hostfile" | "prte_default_hostfile" => {
                self.add_hosts(name, hosts::read_file(key, OsStr::new(value))?)?;
            }
            _ => self.ignored.push(format!("{name} {key}")),
        }
        Ok(())
    }
}

impl ProgramReader<'_> {
    /// Sets how processes are mapped, bound or ranked. The last option wins.
    fn set_policy(&mut self, option: PolicyOption, words: &str) -> Result<(), String> {
        if option == PolicyOption::BindTo {
            let listed = words.strip_prefix("user:").map(hosts::listed_slots).transpose()?;
            self.plan.listed_slots = listed.clone().unwrap_or_default();
            if listed.is_some() {
                return Ok(());
            }
        }
        let hosts = self.plan.policy.set(option, words)?;
        let HostOrder { in_turn, per_host, oversubscribe } = hosts;
        if option == PolicyOption::MapBy {
            self.plan.in_turn = in_turn;
            self.application.per_host = per_host.or(self.application.per_host);
        }
        self.plan.oversubscribe |= oversubscribe;
        Ok(())
    }

    fn add_hosts(&mut self, option: &str, hosts: Vec<Host>) -> Result<(), String> {
        if !self.application.hosts.is_empty() {
            return Err(format!(
                "{option} names hosts, but hosts were named before; name them once"
            ));
        }
        self.application.hosts = hosts;
        Ok(())
    }
}

/// Splits `NAME=value`, if the word has that form.
fn split(word: &OsStr) -> Option<(&OsStr, OsString)> {
    let bytes = word.as_bytes();
    let middle = bytes.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&bytes[..middle], bytes[middle + 1..].to_vec());
    Some((OsStr::from_bytes(name), OsString::from_vec(value)))
}

/// Parses a time limit: seconds, or a number with one of the units of timeout(1).
fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    const UNITS: [(char, f64); 4] = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86400.0)];
    let with_unit =
        UNITS.iter().find_map(|(unit, factor)| Some((value.strip_suffix(*unit)?, factor)));
    let (number, factor) = with_unit.unwrap_or((value, &1.0));
    let seconds = number.parse().ok().map(|number: f64| number * factor);
    let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        format!(
            "{name} needs a number of seconds above 0, or one with a unit (90s, 5m, 2h, 1d), but got \
             \"{value}\""
        )
    })
}

/// Parses the value of `COMBRAY_HOST_TIMEOUT`; processes use the same parser.
fn host_timeout(text: &str) -> Result<Duration, String> {
    variables::host_timeout(text).ok_or_else(|| {
        let (name, range) = (variables::HOST_TIMEOUT, variables::HOST_TIMEOUT_RANGE_S);
        let (least, most) = range.into_inner();
        format!("{name} needs a number of seconds from {least} to {most}, but got \"{text}\"")
    })
}

/// Parses the value of `COMBRAY_HOST_WAIT`.
fn host_wait(text: &str) -> Result<Duration, String> {
    variables::host_wait(text).ok_or_else(|| {
        let (name, most) = (variables::HOST_WAIT, variables::HOST_WAIT_MAX_S);
        format!("{name} needs a number of seconds from 0 to {most}, but got \"{text}\"")
    })
}

/// Parses the value of `COMBRAY_LAUNCH_WIDTH`.
fn launch_width(text: &str) -> Result<NonZeroUsize, String> {
    text.trim().parse().map_err(|_| {
        let name = variables::LAUNCH_WIDTH;
        format!("{name} needs a number of hosts from 1, but got \"{text}\"")
    })
}

/// The variable, and its value, that makes the processes write a report to a file at the end of the
/// job.
fn report_target(
    meaning: Meaning,
    option: &str,
    file: &OsStr,
) -> Result<(&'static str, OsString), String> {
    let absolute = || {
        let file = std::path::absolute(file);
        file.map_err(|cause| format!("{option} needs a name: {cause}"))
    };
    match meaning {
        Meaning::Record => return Ok((variables::RECORD, absolute()?.into())),
        Meaning::Trace => return Ok((variables::TRACE, absolute()?.into())),
        Meaning::Order(variable) => return Ok((variable, absolute()?.into())),
        _ => {}
    }
    if file.is_empty() {
        return Ok((variables::PROFILE, "page".into()));
    }
    let bytes = file.as_bytes();
    if !bytes.ends_with(b".json") && !bytes.ends_with(b".html") {
        let name = file.display();
        return Err(format!(
            "{option} needs a file that ends in .json or .html, but got \"{name}\""
        ));
    }
    Ok((variables::PROFILE, absolute()?.into()))
}

/// The variable with a time limit that other launchers read, too.
const TIMEOUT_VARIABLE: &str = "MPIEXEC_TIMEOUT";

/// The number of values of an option, after the first word is known. Some users write `-genv
/// NAME=value` as one word.
fn wanted(takes: ValueCount, values: &[OsString], rest: &[OsString]) -> usize {
    let is_file = |word: &OsString, endings: &[&str]| {
        endings.iter().any(|ending| word.as_bytes().ends_with(ending.as_bytes()))
    };
    match takes {
        ValueCount::FileEndingIn(endings) => {
            let follows = rest.first().is_some_and(|word| is_file(word, endings));
            usize::from(values.is_empty() && follows)
        }
        ValueCount::Nothing => 0,
        ValueCount::One => 1,
        ValueCount::Two if values.first().is_some_and(|value| split(value).is_some()) => 1,
        ValueCount::Two => 2,
    }
}

fn count(name: &str, value: &str) -> Result<u32, String> {
    let count = value.parse().ok().filter(|count| (1..=PROGRAM_PROCESSES_MAX).contains(count));
    count.ok_or_else(|| {
        format!("{name} needs the number of processes, 1 to {PROGRAM_PROCESSES_MAX}, but got \"{value}\"")
    })
}

/// A description of needs: the words themselves, or the content of a file.
fn needs(option: &str, words: &OsStr) -> Result<String, String> {
    let text = words.to_string_lossy();
    if text.contains(':') {
        return Ok(text.into_owned());
    }
    let file = std::fs::read_to_string(words);
    file.map_err(|error| format!("{option}: the file {text} cannot be read: {error}"))
}

/// The variable that an option sets. Without a value the launcher's own value is used, which all
/// processes inherit anyway.
fn variable(option: &str, values: &[OsString]) -> Result<Option<(OsString, OsString)>, String> {
    let pair = match values {
        [name, value] => Some((name.clone(), value.clone())),
        [both] => match split(both) {
            Some((name, value)) => Some((name.to_owned(), value)),
            None => env::var_os(both).map(|value| (both.clone(), value)),
        },
        _ => None,
    };
    let name = pair.as_ref().map(|pair| pair.0.as_bytes());
    if name.is_some_and(|name| name.is_empty() || name.contains(&b'=')) {
        return Err(format!("{option} needs the name of a variable, but got none"));
    }
    Ok(pair)
}

/// The name of an initial error handler, as in the standard's info key `mpi_initial_errhandler`.
/// The common prefix may be missing, and capitals are accepted.
fn error_handler(option: &str, value: &str) -> Result<&'static str, String> {
    let index = const { variables::control_index(variables::INITIAL_ERRHANDLER) };
    let names = variables::CONTROL_VARIABLES[index].values;
    let wanted = value.to_lowercase();
    let is_it =
        |name: &&&str| wanted == **name || name.strip_prefix("mpi_errors_") == Some(&wanted);
    names
        .iter()
        .find(is_it)
        .copied()
        .ok_or_else(|| format!("{option} needs {}, but got \"{value}\"", names.join(" or ")))
}
