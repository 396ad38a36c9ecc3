//! Plans on which hardware threads each process of a machine runs, from a topology tree and a
//! policy; no I/O.
//!
//! Mapping gives each process a place, an object of the tree. Binding widens or narrows the place
//! to the hardware threads on which the process may run. Ranking decides which process gets which
//! place.

mod needs;
mod order;
mod policy;

use topology::{CpuSet, Kind, ObjectId, Parts, Topology};

pub use needs::Needs;
pub(crate) use needs::{GroupNeed, NeedKind};
pub use policy::{
    Bind, CoresEach, HostOrder, Overload, Oversubscription, Policy, PolicyOption, ProcessMapping,
    Ranking,
};

/// The hardware threads on which a process of this machine may run (its cpuset); none: all that the
/// machine allows.
pub type Cpuset = Option<CpuSet>;

/// A place before it is bound.
#[derive(Clone, Debug)]
struct Spot {
    /// The object to which the process is mapped.
    object: ObjectId,
    /// The index of the process among those mapped to the object, and their number.
    position: usize,
    count: usize,
}

/// Returns the cpuset of each process of a machine. `ranks` are their ranks in the job, in order.
///
/// # Errors
/// A message for users: the machine has no such level, or not enough objects of it.
pub fn plan(
    topology: &Topology,
    machine: ObjectId,
    ranks: &[u32],
    policy: &Policy,
) -> Result<Vec<Cpuset>, String> {
    let threads = topology.of_kind_in(machine, Kind::Thread).len();
    policy.check_oversubscription(ranks.len(), threads)?;
    if let Some(needs) = &policy.needs {
        return if ranks.is_empty() {
            Ok(Vec::new())
        } else {
            needs.plan(topology, machine, ranks)
        };
    }
    let processes = ranks.len();
    let planner = Planner { topology, machine, processes, policy };
    if policy.bind == Bind::Nothing {
        return Ok(vec![None; processes]);
    }
    let spots = planner.ranked(planner.spots()?)?;
    let cpusets =
        spots.iter().map(|spot| planner.bound(spot)).collect::<Result<Vec<Cpuset>, _>>()?;
    planner.check_overload(&cpusets)?;
    Ok(cpusets)
}

/// Returns in which parts of a machine processes with these cpusets run. The machine is the whole
/// tree.
pub fn parts(topology: &Topology, cpusets: &[Cpuset]) -> Vec<Parts> {
    let threads = cpusets.iter().map(|cpuset| cpuset.as_ref().unwrap_or(topology.threads()));
    threads.map(|threads| topology.parts(topology.root(), threads)).collect()
}

/// Describes to users where a process may run.
pub fn describe(topology: &Topology, machine: ObjectId, cpuset: &Cpuset) -> String {
    let whole = &topology[machine].threads;
    let Some(threads) = cpuset else { return format!("not bound (hardware threads {whole})") };
    let mut words = Vec::new();
    for kind in [Kind::Package, Kind::NumaNode, Kind::Core] {
        let all = topology.of_kind_in(machine, kind);
        let inside = all.iter().filter(|id| topology[**id].threads.intersects(threads));
        let numbers: CpuSet = inside.map(|id| topology[*id].logical).collect();
        if numbers.is_empty() || all.len() == 1 && kind != Kind::Core {
            continue;
        }
        let plural = if numbers.len() == 1 { "" } else { "s" };
        words.push(format!("{kind}{plural} {numbers}"));
    }
    format!("{} (hardware threads {threads})", words.join(", "))
}

struct Planner<'a> {
    topology: &'a Topology,
    machine: ObjectId,
    processes: usize,
    policy: &'a Policy,
}

impl Planner<'_> {
    /// Returns the places of the processes, in the order of the mapping.
    fn spots(&self) -> Result<Vec<Spot>, String> {
        let objects = match &self.policy.mapping {
            ProcessMapping::Slots => vec![self.machine; self.processes],
            ProcessMapping::Levels(kinds) => {
                let leaves = order::leaves(self.topology, self.machine, kinds)?;
                leaves.iter().copied().cycle().take(self.processes).collect()
            }
            ProcessMapping::EachOf(number, kind) => {
                let all = order::objects(self.topology, self.machine, *kind)?;
                let room = all.len() * *number as usize;
                if room < self.processes {
                    return Err(format!(
                        "{} processes must run here, but {number} on each {kind} makes only {room}; \
                         start fewer processes, or more on each",
                        self.processes
                    ));
                }
                let each = |object| std::iter::repeat_n(object, *number as usize);
                all.into_iter().flat_map(each).take(self.processes).collect()
            }
        };
        let spot = |(index, &object): (usize, &ObjectId)| Spot {
            object,
            position: objects[..index].iter().filter(|other| **other == object).count(),
            count: objects.iter().filter(|other| **other == object).count(),
        };
        Ok(objects.iter().enumerate().map(spot).collect())
    }

    /// Returns the places of the processes, in the order of ranks.
    fn ranked(&self, mut spots: Vec<Spot>) -> Result<Vec<Spot>, String> {
        if self.policy.ranking == Ranking::AsMapped {
            return Ok(spots);
        }
        // From left to right, and within one object in the order of the mapping.
        spots.sort_by_key(|spot| (self.first_thread(spot.object), spot.position));
        let Ranking::InTurn(kind) = self.policy.ranking else { return Ok(spots) };
        let objects = order::objects(self.topology, self.machine, kind)?;
        let holder = |spot: &Spot| {
            let threads = &self.topology[spot.object].threads;
            objects.iter().position(|id| threads.intersects(&self.topology[*id].threads))
        };
        let holders: Vec<Option<usize>> = spots.iter().map(holder).collect();
        let turn = |index: usize| {
            holders[..index].iter().filter(|other| **other == holders[index]).count()
        };
        let mut keyed: Vec<_> = spots
            .into_iter()
            .enumerate()
            .map(|(index, spot)| ((turn(index), holders[index]), spot))
            .collect();
        keyed.sort_by_key(|(key, _)| *key);
        Ok(keyed.into_iter().map(|(_, spot)| spot).collect())
    }

    /// Returns the position of an object from left to right: that of its first hardware thread.
    fn first_thread(&self, object: ObjectId) -> usize {
        let threads = self.topology.of_kind_in(object, Kind::Thread);
        threads.first().map_or(usize::MAX, |id| self.topology[*id].logical)
    }

    /// Returns where a process with this place may run.
    fn bound(&self, spot: &Spot) -> Result<Option<CpuSet>, String> {
        let each = self.policy.cores_each.number().max(1) as usize;
        match self.policy.bind {
            Bind::Nothing => Ok(None),
            Bind::Share if self.policy.cores_each.number() > 0 => {
                self.consecutive(spot, Kind::Core, each).map(Some)
            }
            Bind::Share => Ok(self.share(spot)),
            Bind::To(kind) => {
                order::objects(self.topology, self.machine, kind)?;
                if let Some(holder) = self.topology.holder(spot.object, kind) {
                    return Ok(Some(self.topology[holder].threads.clone()));
                }
                self.consecutive(spot, kind, each).map(Some)
            }
        }
    }

    /// Returns a process's share of a place, which is divided into equal parts for its processes. A
    /// core on the border of two parts belongs to both. A share is never smaller than the machine's
    /// cores divided by all its processes; otherwise the process gets a larger place. None: all of
    /// the machine.
    fn share(&self, spot: &Spot) -> Cpuset {
        self.units(self.machine, self.processes)?;
        let whole = &self.topology[self.machine].threads;
        let units = self.units(spot.object, spot.count).unwrap_or_default();
        let from = spot.position * units.len() / spot.count;
        let to = ((spot.position + 1) * units.len()).div_ceil(spot.count);
        let mut threads = self.threads_of(&units[from..to]);
        let mut above = self.topology.ancestors(spot.object);
        while threads.len() * self.processes < whole.len() {
            let Some(wider) = above.next() else { break };
            threads = self.topology[wider].threads.clone();
            if wider == self.machine {
                break;
            }
        }
        (threads != *whole).then_some(threads)
    }

    /// Returns the units into which an object is divided for `parts` processes: cores, or hardware
    /// threads if there are too few cores. None: there are too few hardware threads, too.
    fn units(&self, object: ObjectId, parts: usize) -> Option<Vec<ObjectId>> {
        let levels = [Kind::Core, Kind::Thread].map(|kind| self.topology.of_kind_in(object, kind));
        levels.into_iter().find(|units| units.len() >= parts)
    }

    /// Returns the objects of a kind that a process gets inside its place, `each` for every process
    /// in turn. After the last object, the first is used again.
    fn consecutive(&self, spot: &Spot, kind: Kind, each: usize) -> Result<CpuSet, String> {
        let mut object = spot.object;
        let with_cores = |object| {
            let mut inside = self.topology.of_kind_in(object, kind);
            inside.retain(|id| !self.topology[*id].threads.is_empty());
            inside
        };
        let mut inside = with_cores(object);
        // If the place has too few objects, the object that contains it is used.
        while inside.len() < each && object != self.machine {
            let Some(above) = self.topology[object].parent else { break };
            object = above;
            inside = with_cores(object);
        }
        if inside.len() < each {
            return Err(format!(
                "each process must have {each} of the level {kind}, but this machine has {}",
                inside.len()
            ));
        }
        let rounds = inside.len() / each;
        let own = self.topology[spot.object].threads.clone();
        let first = inside.iter().position(|id| own.intersects(&self.topology[*id].threads));
        let first = first.unwrap_or_default();
        let start = (first + spot.position % rounds * each).min(inside.len() - each);
        Ok(self.threads_of(&inside[start..start + each]))
    }

    fn threads_of(&self, objects: &[ObjectId]) -> CpuSet {
        objects.iter().fold(CpuSet::default(), |all, id| all.union(&self.topology[*id].threads))
    }

    /// Returns how many processes share these hardware threads, and how many may: as many as there
    /// are hardware threads, or as many as can have the cores that each process requires.
    fn sharing(&self, set: &CpuSet, cpusets: &[Cpuset]) -> (usize, usize) {
        let cpusets = cpusets.iter().flatten();
        if self.policy.cores_each.number() == 0 {
            return (cpusets.filter(|other| other.is_subset(set)).count(), set.len());
        }
        let unit = match self.policy.bind {
            Bind::To(Kind::Thread) => Kind::Thread,
            _ => Kind::Core,
        };
        let units = self.topology.of_kind_in(self.machine, unit);
        let inside = units.iter().filter(|id| self.topology[**id].threads.intersects(set)).count();
        let sharing = cpusets.filter(|other| other.intersects(set)).count();
        (sharing, inside / self.policy.cores_each.number() as usize)
    }

    /// Refuses to bind more processes to some hardware threads than there are threads, unless the
    /// user allowed it.
    fn check_overload(&self, cpusets: &[Cpuset]) -> Result<(), String> {
        if self.policy.allows_overload()
            || self.policy.bind == Bind::Share && self.policy.cores_each.number() == 0
        {
            return Ok(());
        }
        for set in cpusets.iter().flatten() {
            let (sharing, room) = self.sharing(set, cpusets);
            if sharing > room {
                return Err(format!(
                    "{sharing} of {} processes would have to share the hardware threads {set}, \
                     because this machine has no more for them; start fewer, bind them to \
                     something larger, or allow it with --bind-to LEVEL:overload-allowed or \
                     --map-by slot:oversubscribe",
                    self.processes
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
