//! Several hosts: each checks itself, and a job runs across all of them.

use std::ffi::OsString;
use std::thread;

use driver_tcp::NetworkSelection;
use launcher::{Host, is_this_machine};

use super::finding::Finding;
use super::{DoctorOptions, HostReport, installation, output_of, own_command};
use crate::run::{allocation, foreign, hosts};

/// The name of a host with its report, or the reason why there is none.
pub type Answer = (String, Result<HostReport, String>);

/// The hosts to check: the named hosts, or those of the allocation with a finding about it. `None`:
/// only this machine.
///
/// # Errors
/// The named hosts are malformed.
pub fn asked_for(options: &DoctorOptions) -> Result<(Option<Finding>, Vec<String>), String> {
    let named = match (&options.hosts, &options.hostfile) {
        (Some(list), _) => Some(hosts::read_list("--hosts", list)?),
        (None, Some(file)) => Some(hosts::read_file("--hostfile", file)?),
        (None, None) => {
            let file = foreign::here().host_file();
            file.map_err(|cause| format!("{cause}; unset the variable, or name hosts by --hosts"))?
                .map(|(_, hosts)| hosts)
        }
    };
    let names = |hosts: Vec<Host>| {
        let mut names = Vec::new();
        for host in hosts {
            if !names.contains(&host.name) {
                names.push(host.name);
            }
        }
        names
    };
    let subject = "allocation";
    Ok(match (allocation::here(), named) {
        (Err(cause), named) => {
            let remedy = "name the hosts by --hosts; ssh to them must then work without questions";
            (Some(Finding::fault(subject, cause, remedy)), named.map(names).unwrap_or_default())
        }
        (Ok(None), None) => (Some(Finding::fit(subject, "none: jobs run on this machine")), vec![]),
        (Ok(None), Some(named)) => (None, names(named)),
        (Ok(Some(allocation)), named) => {
            let granted = allocation.hosts(0, None);
            let slots: u32 = granted.iter().filter_map(|host| host.slots).sum();
            let several = |count: usize, what: &str| {
                format!("{count} {what}{}", if count == 1 { "" } else { "s" })
            };
            let (slots, hosts) = (several(slots as usize, "slot"), several(granted.len(), "host"));
            let found = format!("{}: {slots} on {hosts}", allocation.name);
            let mut all = names(named.unwrap_or(granted));
            if let [only] = &all[..]
                && is_this_machine(only)
            {
                all.clear();
            }
            (Some(Finding::fit(subject, found)), all)
        }
    })
}

/// The finding about variables of other launchers without effect, if any are set.
pub fn foreign_variables() -> Option<Finding> {
    let variables = foreign::here();
    let names = variables.without_effect();
    let found = format!("without effect: {}", names.join(", "));
    let remedy = "docs/user/launching.md lists the variables of other launchers that have one";
    (!names.is_empty()).then(|| Finding::note("other launchers", found, remedy))
}

/// Collects the reports of all hosts but this one, in parallel.
pub fn reports(options: &DoctorOptions, hosts: &[String]) -> Vec<Answer> {
    let others: Vec<&String> = hosts.iter().filter(|host| !is_this_machine(host)).collect();
    thread::scope(|scope| {
        let asked: Vec<_> =
            others.iter().map(|host| scope.spawn(move || report_of(options, host))).collect();
        let answers = asked.into_iter().map(|one| one.join());
        let answers =
            answers.map(|one| one.unwrap_or_else(|_| Err("the query was interrupted".into())));
        others.iter().map(|host| (*host).clone()).zip(answers).collect()
    })
}

fn report_of(options: &DoctorOptions, host: &str) -> Result<HostReport, String> {
    let own = std::env::current_exe().map_err(|cause| cause.to_string())?;
    let own = own.to_string_lossy();
    let mut command = own_command(&["run", "-n", "1", "--bind-to", "none", "--timeout", SECONDS])?;
    command.args(["--hosts", &format!("{host}:1")]).args(way(options));
    // A host that is not fit exits with an error code, but its report is still wanted.
    command.args(["--", "sh", "-c", "\"$0\" doctor --json || true", &own]);
    let text = output_of(&mut command)?;
    let report = text.lines().find_map(|line| serde_json::from_str(line).ok());
    report.ok_or_else(|| format!("it answers \"{}\"", text.trim()))
}

/// The time limit for a host, in seconds.
const SECONDS: &str = "120";

fn way(options: &DoctorOptions) -> Vec<OsString> {
    let agent = options.launch_agent.iter();
    agent.flat_map(|command| ["--launch-agent".into(), command.clone()]).collect()
}

/// The finding about a host that did not answer.
pub fn unreachable(host: &str, cause: &str) -> Finding {
    let remedy = format!(
        "ssh {host} true must work without a question, and Combray must be installed there at the \
         same path; --launch-agent or COMBRAY_LAUNCH_AGENT names another way"
    );
    Finding::fault("reach", cause, remedy)
}

/// The findings about the reachable hosts together.
pub fn between(
    options: &DoctorOptions,
    own: &HostReport,
    hosts: &[String],
    others: &[Answer],
) -> Vec<Finding> {
    let has_own = hosts.iter().any(|host| is_this_machine(host));
    let mut reached: Vec<&HostReport> = if has_own { vec![own] } else { Vec::new() };
    reached.extend(others.iter().filter_map(|(_, report)| report.as_ref().ok()));
    let mut findings = vec![versions(own, &reached)];
    findings.extend(networks(&reached));
    let is_reached = |host: &&String| {
        is_this_machine(host) || others.iter().any(|(name, report)| name == *host && report.is_ok())
    };
    let names: Vec<String> =
        hosts.iter().filter(is_reached).map(|host| format!("{host}:1")).collect();
    if names.len() > 1 {
        findings.push(trial(options, own, &names));
    }
    findings
}

/// Runs a job with a process on each host.
fn trial(options: &DoctorOptions, own: &HostReport, names: &[String]) -> Finding {
    let (list, count) = (names.join(","), names.len().to_string());
    let way: Vec<String> =
        way(options).into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut launcher = vec!["-n", &count, "--hosts", &list];
    launcher.extend(way.iter().map(String::as_str));
    let program = own.prefix.join("lib/combray/combray-bench");
    installation::tried(&launcher, &program, &["--sizes", "8", "barrier", "alltoall"])
}

/// Checks that all hosts have one version of Combray.
fn versions(own: &HostReport, reached: &[&HostReport]) -> Finding {
    match reached.iter().find(|other| other.version != own.version) {
        Some(other) => Finding::fault(
            "versions",
            format!("{} has {}, and {} has {}", own.host, own.version, other.host, other.version),
            "install the same version on all hosts, or where all of them see it",
        ),
        None => Finding::fit("versions", format!("{} on all", own.version)),
    }
}

/// Checks that each two hosts have a network in common.
fn networks(reached: &[&HostReport]) -> Vec<Finding> {
    let subject = "networks";
    let shown = |report: &HostReport| {
        let all = report.interfaces.iter();
        let all: Vec<String> =
            all.map(|(name, address, bits)| format!("{name} {address}/{bits}")).collect();
        match all.is_empty() {
            true => format!("{} uses no interface", report.host),
            false => format!("{} uses {}", report.host, all.join(", ")),
        }
    };
    let mut findings = Vec::new();
    for (index, one) in reached.iter().enumerate() {
        for other in &reached[index + 1..] {
            if one.interfaces.is_empty() || other.interfaces.is_empty() {
                findings.push(Finding::fault(
                    subject,
                    format!("{}; {}", shown(one), shown(other)),
                    "the reason is above, with that host's network",
                ));
            } else if !share_a_network(one, other) {
                findings.push(Finding::note(
                    subject,
                    format!("none in common: {}; {}", shown(one), shown(other)),
                    "they communicate through routers, if there are any; COMBRAY_NET names networks \
                     (10.1.0.0/16) that all hosts have",
                ));
            }
        }
    }
    if findings.is_empty() {
        let all: Vec<String> = reached.iter().map(|report| shown(report)).collect();
        findings.push(Finding::fit(subject, all.join("; ")));
    }
    findings
}

fn share_a_network(one: &HostReport, other: &HostReport) -> bool {
    one.interfaces.iter().any(|(_, address, bits)| {
        NetworkSelection::parse(&format!("{address}/{bits}")).is_ok_and(|inside| {
            other
                .interfaces
                .iter()
                .any(|(name, address, _)| inside.accepts("tcp", name, Some(*address)))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::finding::Verdict;
    use super::*;

    fn host(name: &str, version: &str, addresses: &[&str]) -> HostReport {
        let interface = |text: &&str| ("eth0".to_owned(), text.parse().unwrap(), 24);
        HostReport {
            host: name.into(),
            version: version.into(),
            prefix: PathBuf::new(),
            findings: Vec::new(),
            interfaces: addresses.iter().map(interface).collect(),
        }
    }

    #[test]
    fn hosts_without_a_common_network_are_named() {
        let (one, two) =
            (host("one", "1", &["10.0.0.1"]), host("two", "1", &["10.0.0.2", "10.2.0.1"]));
        let (far, dark) = (host("far", "2", &["10.9.0.1"]), host("dark", "1", &[]));
        assert_eq!(networks(&[&one, &two])[0].verdict, Verdict::Fit);
        let found = networks(&[&one, &two, &far]);
        assert_eq!((found.len(), found[0].verdict), (2, Verdict::Note));
        assert!(found[1].found.contains("two uses") && found[1].found.contains("far uses"));
        assert_eq!(networks(&[&one, &dark])[0].verdict, Verdict::Fault);
        assert_eq!(versions(&one, &[&one, &two]).verdict, Verdict::Fit);
        assert!(versions(&one, &[&two, &far]).found.contains("far has 2"));
    }
}
