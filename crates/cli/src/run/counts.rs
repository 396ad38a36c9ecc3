//! The number of processes where the user has not set it.

use base::limits::PROGRAM_PROCESSES_MAX;
use launcher::binding::ProcessMapping;
use launcher::{Application, JobPlan};
use sys::cores;
use topology::Kind;

use super::dry_run;

/// The number of processes of a program without an explicit number. One of several programs gets
/// one process. A single program gets the number that its mapping implies, or as many as there is
/// room for.
///
/// # Errors
/// The hosts have no room, or the machine cannot be discovered.
pub fn unsaid(
    plan: &JobPlan,
    application: &Application,
    machine: Option<&str>,
) -> Result<u32, String> {
    if plan.applications.len() > 1 {
        return Ok(1);
    }
    let is_here = application.hosts.is_empty();
    let policy = &plan.policy;
    Ok(match (&policy.mapping, application.per_host) {
        (ProcessMapping::EachOf(each, kind), _) if is_here => {
            let topology = dry_run::machine(machine)?;
            let objects = match kind {
                Kind::Device(_) => topology.near_gpus(topology.root()),
                _ => topology.of_kind(*kind),
            };
            each * objects.len() as u32
        }
        _ if !plan.rankfile.is_empty() => plan.rankfile.len() as u32,
        (_, None) if is_here && policy.cores_each.number() > 0 => {
            let cores = dry_run::machine(machine)?.of_kind(Kind::Core).len() as u32;
            (cores / policy.cores_each.number()).max(1)
        }
        (_, None) if is_here && machine.is_some() => {
            dry_run::machine(machine)?.threads().len() as u32
        }
        (_, Some(each)) if is_here && machine.is_some() => each,
        _ => usual(application)?,
    })
}

/// As many processes as there is room for.
fn usual(application: &Application) -> Result<u32, String> {
    let count = match (&application.hosts[..], application.per_host) {
        ([], None) => cores::usable() as u32,
        ([], Some(each)) => each,
        ([host], None) if host.slots.is_none() && launcher::is_this_machine(&host.name) => {
            cores::usable() as u32
        }
        (hosts, each) => launcher::slots(hosts, each),
    };
    if (1..=PROGRAM_PROCESSES_MAX).contains(&count) {
        return Ok(count);
    }
    Err(format!("the hosts have {count} slots; give the number of processes with -n"))
}
