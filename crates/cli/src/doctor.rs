//! `combray doctor`: checks whether this machine, this allocation and the network between hosts are
//! fit for jobs, and gives remedies.

mod finding;
mod hosts;
mod installation;
mod machine;
mod network;
mod pools;
mod processors;
mod sharing;

use std::env;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use driver_tcp::NetworkSelection;
use runtime::{configuration, samples};
use serde::{Deserialize, Serialize};

use crate::prefix;
use finding::{Finding, PageForm, Verdict};
pub use machine::oversubscription;

/// The options of `combray doctor`.
#[derive(Args)]
pub struct DoctorOptions {
    /// Hosts to check as well, with the network between them, named as in combray run; without it,
    /// the hosts of the allocation of a batch system, or only this machine
    #[arg(long, value_name = "LIST", conflicts_with = "hostfile")]
    hosts: Option<String>,
    /// A file that names the hosts, as in combray run
    #[arg(long, value_name = "FILE")]
    hostfile: Option<OsString>,
    /// How other hosts are reached, as in combray run
    #[arg(long, value_name = "COMMAND")]
    launch_agent: Option<OsString>,
    /// Prints the findings about this machine as JSON: one line
    #[arg(long, conflicts_with_all = ["hosts", "hostfile"])]
    json: bool,
    /// Opens the memory that the process at the other end shares, and reads that process's memory
    #[arg(long, hide = true, num_args = 3, value_names = ["CARD", "PROCESS", "ADDRESS"])]
    probe: Option<Vec<String>>,
}

/// The findings of one host.
#[derive(Debug, Serialize, Deserialize)]
struct HostReport {
    host: String,
    version: String,
    prefix: PathBuf,
    findings: Vec<Finding>,
    /// The interfaces that jobs would use: name, address, and prefix length of the network.
    interfaces: Vec<(String, IpAddr, u8)>,
}

/// Runs all checks and prints one page. The exit code is 1 if there is a fault.
///
/// # Errors
/// The named hosts are malformed.
pub fn run(options: &DoctorOptions) -> Result<i32, String> {
    if let Some(words) = &options.probe {
        return sharing::serve_probe(words).map(|()| 0);
    }
    if options.json {
        let report = report_here()?;
        println!("{}", serde_json::to_string(&report).map_err(|cause| cause.to_string())?);
        return Ok(i32::from(report.has_fault()));
    }
    let (allocation, hosts) = hosts::asked_for(options)?;
    let mut own = report_here()?;
    own.findings.extend(allocation);
    own.findings.extend(hosts::foreign_variables());
    let form = PageForm::here();
    println!("Combray {} in {}\n", own.version, own.prefix.display());
    print!("{}", own.page(form));
    let mut all: Vec<Finding> = Vec::new();
    if !hosts.is_empty() {
        let others = hosts::reports(options, &hosts);
        for (host, report) in &others {
            match report {
                Ok(report) => print!("\n{}", report.short_page(form)),
                Err(cause) => print!("\n{}", hosts::unreachable(host, cause).page_of(host, form)),
            }
        }
        let between = hosts::between(options, &own, &hosts, &others);
        println!("\nBetween the hosts");
        between.iter().for_each(|finding| print!("{}", finding.text(form)));
        all.extend(between);
        for (host, report) in others {
            match report {
                Ok(report) => all.extend(report.findings),
                Err(cause) => all.push(hosts::unreachable(&host, &cause)),
            }
        }
    }
    all.extend(own.findings);
    println!("\n{}", conclusion(&all));
    Ok(i32::from(all.iter().any(|finding| finding.verdict == Verdict::Fault)))
}

/// Runs all checks of this machine.
fn report_here() -> Result<HostReport, String> {
    let prefix = prefix::find()?;
    let mut findings = machine::findings();
    findings.extend(sharing::findings());
    findings.extend(network::findings());
    findings.extend(pools::findings());
    findings.extend(installation::findings(&prefix));
    findings.push(installation::trial(&prefix));
    let selection = NetworkSelection::parse(&configuration::networks()).unwrap_or_default();
    let interfaces = driver_tcp::usable(&selection).into_iter();
    Ok(HostReport {
        host: samples::host(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        prefix,
        findings,
        interfaces: interfaces.map(|one| (one.name, one.address, one.prefix)).collect(),
    })
}

impl HostReport {
    fn has_fault(&self) -> bool {
        self.findings.iter().any(|finding| finding.verdict == Verdict::Fault)
    }

    fn page(&self, form: PageForm) -> String {
        let lines = self.findings.iter().map(|finding| finding.text(form));
        format!("{}\n", self.host) + &lines.collect::<String>()
    }

    /// Only the findings that are not fit.
    fn short_page(&self, form: PageForm) -> String {
        let (fit, others): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.verdict == Verdict::Fit);
        let lines: String = others.into_iter().map(|finding| finding.text(form)).collect();
        let fit = Finding::fit("other checks", format!("{} are fine", fit.len()));
        format!("{}\n{lines}{}", self.host, fit.text(form))
    }
}

/// The last line of the page.
fn conclusion(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    match (count(Verdict::Fault), count(Verdict::Slow)) {
        (0, 0) => "Fit for jobs.".to_owned(),
        (0, 1) => "Fit for jobs; 1 of these makes them slower.".to_owned(),
        (0, slow) => format!("Fit for jobs; {slow} of these make them slower."),
        (faults, _) => {
            format!("Not fit: {faults} marked FAULT; the line below each describes what to do.")
        }
    }
}

/// A command that runs this program with these words, without input.
fn own_command(words: &[&str]) -> Result<Command, String> {
    let own = env::current_exe();
    let own = own.map_err(|cause| format!("the path of this program is not known: {cause}"))?;
    let mut command = Command::new(own);
    command.args(words).stdin(Stdio::null());
    Ok(command)
}

/// The output of a command, or its error output if it failed.
fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|cause| format!("it does not start: {cause}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(if errors.is_empty() { output.status.to_string() } else { errors })
}
