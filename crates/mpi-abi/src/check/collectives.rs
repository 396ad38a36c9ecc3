//! Checks collective operations by their arguments.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::thread::{self, ThreadId};

use checks::{CallSite, CollectiveEntry, CollectiveOrder, Mistake, MistakeKind};
use mpi::{Communicator, Process};

use super::operations::{ReturnTime, collective, operation_name};
use super::transfers::element_kind;
use super::{CheckMessage, Checks, SeenCall, blocks};
use crate::arguments::is_in_place;

/// The collective operations of all communicators, by their numbers.
#[derive(Debug, Default)]
pub struct CollectiveChecks(RefCell<HashMap<u64, OneCommunicator>>);

/// The collective operations of one communicator.
#[derive(Debug, Default)]
struct OneCommunicator {
    order: CollectiveOrder,
    /// The name of the communicator in messages.
    name: String,
    /// The rank in the job of the reference process, with which all others are compared.
    reference: u32,
    /// The number of operations that this process has called.
    entered: u64,
    /// The calls that threads are in, with the numbers of their operations.
    inside: Vec<(u64, ThreadId, Rc<CallSite>)>,
}

/// Compares a collective call with the call of the first process of its communicator. A blocking
/// call waits for that comparison first, because it waits for other processes anyway. Returns the
/// number of the communicator and the number of the operation on it, if the call is blocking.
pub fn begin(seen: &SeenCall) -> Option<(u64, u64)> {
    if seen.entry.name == "MPI_Finalize" {
        let world = seen.library.process.world_if_usable()?;
        return enter(seen, world, ReturnTime::AtTheEnd);
    }
    let time = collective(seen.entry.name)?;
    let communicator = seen.communicator("comm").or_else(|| seen.communicator("comm_old"))?;
    enter(seen, &communicator, time)
}

fn enter(seen: &SeenCall, communicator: &Rc<Communicator>, time: ReturnTime) -> Option<(u64, u64)> {
    let (checks, process) = (&seen.checks, &seen.library.process);
    let all_members = communicator.all_members();
    let number = communicator.number().filter(|_| all_members.size() > 1)?;
    // Processes of another job are not checked with this one.
    let of_job = || all_members.gates().filter(|gate| gate.0 < process.size());
    let reference = of_job().next()?.0;
    let site = seen.site();
    let entry = entry_of(seen, communicator, &site);
    let mut mistake = None;
    let mut own = None;
    let entered;
    {
        let mut known = checks.collectives.0.borrow_mut();
        let one = known.entry(number).or_default();
        one.name = name_of(communicator);
        one.reference = reference;
        one.entered += 1;
        entered = one.entered;
        let this_thread = thread::current().id();
        if let Some((_, _, other)) = one.inside.iter().find(|(_, thread, _)| *thread != this_thread)
        {
            let what = format!(
                "rank {} calls {} on {} while another of its threads is in {} there",
                checks.rank, site.function, one.name, other.function
            );
            let sites = vec![(checks.rank, (*site).clone()), (checks.rank, (**other).clone())];
            mistake = Some(Mistake { kind: MistakeKind::Threads, what, sites });
        }
        if time == ReturnTime::AtTheEnd {
            one.inside.push((entered, this_thread, site));
        }
        if reference != checks.rank {
            own = Some(one.order.enter(entry.clone()));
        }
    }
    mistake.iter().for_each(|mistake| checks.report_mistake(mistake));
    blocks::begin(seen, communicator, number, entered);
    if time == ReturnTime::AtTheEnd && seen.function() != "MPI_Finalize" {
        let others = all_members.gates().map(|gate| gate.0).filter(|rank| *rank != checks.rank);
        checks.deadlock.await_operation(seen, (number, entered), others.collect());
    }
    match own {
        None => {
            let note = CheckMessage::Collective(number, entry);
            for gate in of_job().skip(1) {
                checks.send(process, gate.0, &note);
            }
        }
        Some(own) => {
            checks.collectives.compare(checks, process, number);
            if time == ReturnTime::AtTheEnd {
                process.wait_until(&mut |process| {
                    checks.collectives.is_compared(number, own)
                        || !communicator.is_ready()
                        || process.has_lost_processes()
                });
            }
        }
    }
    (time == ReturnTime::AtTheEnd).then_some((number, entered))
}

impl CollectiveChecks {
    /// Records that the reference process of a communicator has called its next operation.
    pub fn add_received(
        &self,
        checks: &Checks,
        process: &Process,
        communicator: u64,
        from: u32,
        entry: CollectiveEntry,
    ) {
        {
            let mut known = self.0.borrow_mut();
            let one = known.entry(communicator).or_default();
            one.reference = from;
            one.order.add_received(entry);
        }
        self.compare(checks, process, communicator);
    }

    fn compare(&self, checks: &Checks, process: &Process, communicator: u64) {
        loop {
            let mistake = {
                let mut known = self.0.borrow_mut();
                let Some(one) = known.get_mut(&communicator) else { return };
                one.order.compare((checks.rank, one.reference), &one.name)
            };
            let Some(mistake) = mistake else { return };
            checks.report_mistake(&mistake);
            if mistake.kind == MistakeKind::Order {
                checks.part(process);
            }
        }
    }

    fn is_compared(&self, communicator: u64, number: u64) -> bool {
        let known = self.0.borrow();
        known.get(&communicator).is_none_or(|one| one.order.is_compared(number))
    }

    /// Whether this process has called the operation with a number on a communicator.
    pub fn has_entered(&self, communicator: u64, number: u64) -> bool {
        self.0.borrow().get(&communicator).is_some_and(|one| one.entered >= number)
    }

    /// The number of communicators with records.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Removes the records of communicators that are gone.
    pub fn purge(&self, is_alive: &dyn Fn(u64) -> bool) {
        self.0.borrow_mut().retain(|number, one| {
            is_alive(*number) || !one.order.is_empty() || !one.inside.is_empty()
        });
    }

    /// Records that a thread has left the operation with a number on a communicator. The thread may
    /// run on another kernel thread than at the beginning.
    pub fn end(&self, (communicator, number): (u64, u64)) {
        if let Some(one) = self.0.borrow_mut().get_mut(&communicator) {
            one.inside.retain(|(entered, ..)| *entered != number);
        }
    }
}

/// Returns the name of a communicator in messages.
pub fn name_of(communicator: &Communicator) -> String {
    let name = String::from_utf8_lossy(&communicator.name()).into_owned();
    let size = communicator.size();
    if name.is_empty() { format!("a communicator of {size} processes") } else { name }
}

/// Returns the arguments of a call that must be equal on all processes.
fn entry_of(seen: &SeenCall, communicator: &Communicator, site: &CallSite) -> CollectiveEntry {
    let mut entry = CollectiveEntry {
        root: None,
        operation: None,
        bytes: None,
        element: None,
        site: site.clone(),
    };
    // In an intercommunicator the root argument differs between the two groups.
    if communicator.remote().is_some() {
        return entry;
    }
    entry.root = seen.integer("root");
    entry.operation = seen.word("op").map(operation_name);
    let is_root = entry.root == Some(i64::from(communicator.rank()));
    let name = seen.entry.name.to_ascii_lowercase();
    let has = |operation: &str| name.strip_suffix("_c").unwrap_or(&name).contains(operation);
    let receives = match () {
        () if has("gatherv") || has("scatterv") || has("alltoallv") || has("alltoallw") => {
            return entry;
        }
        () if has("neighbor") => return entry,
        () if has("allgather") || has("alltoall") => true,
        () if has("gather") => is_root,
        () if has("scatter") && !has("reduce") => !is_root,
        () => true,
    };
    let (count, datatype) = match (seen.word("datatype"), receives) {
        (Some(_), _) => (seen.integer("count").or_else(|| seen.integer("recvcount")), "datatype"),
        (None, true) => (seen.integer("recvcount"), "recvtype"),
        (None, false) => (seen.integer("sendcount"), "sendtype"),
    };
    // A root that scatters or gathers in place ignores the arguments of its own side.
    let place = if receives { "recvbuf" } else { "sendbuf" };
    let in_place =
        seen.word(place).is_some_and(|word| is_in_place(std::ptr::with_exposed_provenance(word)));
    let datatype = seen.datatype(datatype).filter(|_| !in_place);
    if let (Some(count @ 0..), Some(datatype)) = (count, datatype) {
        entry.bytes = Some((count as u64).saturating_mul(datatype.size() as u64));
        entry.element = datatype.operand().filter(|_| count > 0).and_then(element_kind);
    }
    entry
}
