//! Splitting by the locations of processes (`MPI_Comm_split_type`, section 7.4.2 of the MPI
//! standard).

use std::rc::Rc;

use base::{GateId, Result};
use runtime::machine::{self, cores};
use topology::{CpuSet, DeviceKind, Kind};

use super::Communicator;
use crate::Process;
use crate::exchange::exchange;
use crate::info::Info;
use crate::session::ProcessSet;

/// The property that the processes of a communicator have in common after
/// [`Communicator::split_by_kind`].
#[derive(Clone, Debug)]
pub enum SplitKind {
    /// Processes that can share memory (`MPI_COMM_TYPE_SHARED`): all processes of the job on one
    /// machine.
    SharedMemory,
    /// Processes that are restricted to one part of the machine of this kind.
    Part(MachinePart),
    /// Processes that are in one process set.
    Set(ProcessSet),
    /// Processes that are restricted to one part of the machine, of the largest kind in which the
    /// processes differ (`MPI_COMM_TYPE_HW_UNGUIDED`).
    LargestPart,
    /// None: the process takes part and gets no communicator (`MPI_UNDEFINED`, or an unknown
    /// kind).
    None,
}

/// A kind of part of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachinePart(Kind);

/// All kinds that contain each other, from large to small.
const ALL: [Kind; 5] = [Kind::NumaNode, Kind::Package, Kind::Cache(3), Kind::Core, Kind::Thread];

/// Network interfaces, which are not nested with the other kinds.
const NETWORK: Kind = Kind::Device(DeviceKind::Network);

impl MachinePart {
    /// All kinds, from large to small; the network interface, which is not nested, comes last.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter().chain([NETWORK]).map(Self)
    }

    /// The name of the kind, which is also the one in hwloc's programs (section 11.8 of the
    /// standard).
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::NumaNode => "hwloc://NUMANode",
            Kind::Package => "hwloc://Package",
            Kind::Cache(_) => "hwloc://L3Cache",
            Kind::Core => "hwloc://Core",
            NETWORK => "hwloc://Network",
            _ => "hwloc://PU",
        }
    }

    /// Returns the kind with a name, if it exists.
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::all().find(|part| part.name().as_bytes() == name)
    }

    /// Whether this process is restricted to one part of this kind by its current affinity mask.
    pub fn restricts(self) -> bool {
        self.instance(&own_cores()).is_some()
    }

    /// Returns the number of the part that contains all the cores: the number of its first
    /// hardware thread, which is equal on all processes of the machine. `None` if there is no
    /// such part, or if hwloc is missing.
    ///
    /// For a network interface, returns the number of the interface that is nearest to the cores.
    fn instance(self, cores: &CpuSet) -> Option<i32> {
        if self.0 == NETWORK {
            let tree = machine::tree_with_devices()?;
            return i32::try_from(tree[tree.nearest_network(cores)?].logical).ok();
        }
        let tree = machine::tree()?;
        let holds = |threads: &CpuSet| !cores.is_empty() && cores.is_subset(threads);
        let mut parts = tree.of_kind(self.0).into_iter().map(|id| &tree[id].threads);
        let first = parts.find(|threads| holds(threads))?.first()?;
        i32::try_from(first).ok()
    }
}

/// The current affinity mask of this process.
fn own_cores() -> CpuSet {
    cores::allowed().into_iter().collect()
}

/// The location of a process: the number of its part of each kind.
type PartNumbers = [Option<i32>; ALL.len()];

impl Communicator {
    /// Returns the largest kind of part in which the processes that ask for
    /// [`SplitKind::LargestPart`] differ. All processes take part, because they do not know
    /// whether others ask for it.
    fn largest_parts(
        self: &Rc<Self>,
        process: &Process,
        asks: bool,
        cores: &CpuSet,
    ) -> Result<Option<MachinePart>> {
        if self.remote().is_some() {
            return Ok(None);
        }
        // The number of this process's part of each kind; a negative number is none.
        let own = match asks {
            true => ALL.map(|kind| MachinePart(kind).instance(cores).unwrap_or(-1)),
            false => [-1; ALL.len()],
        };
        let all = exchange(process, self, &(asks, own))?;
        if !asks {
            return Ok(None);
        }
        let place = |(asks, parts): (bool, [i32; ALL.len()])| {
            asks.then(|| parts.map(|part| (part >= 0).then_some(part)))
        };
        let places: Vec<Option<PartNumbers>> = all.into_iter().map(place).collect();
        Ok(largest_difference(&places).map(|index| MachinePart(ALL[index])))
    }

    /// Splits the communicator by the locations of its processes (`MPI_Comm_split_type`). For
    /// [`SplitKind::LargestPart`] returns also the kind of part that was chosen; on an
    /// intercommunicator there is none.
    ///
    /// # Errors
    /// Those of [`Communicator::split`].
    pub fn split_by_kind(
        self: &Rc<Self>,
        process: &Process,
        kind: SplitKind,
        key: i32,
        info: Option<&Info>,
    ) -> Result<(Option<Rc<Communicator>>, Option<MachinePart>)> {
        let cores = own_cores();
        let asks = matches!(kind, SplitKind::LargestPart);
        let largest = self.largest_parts(process, asks, &cores)?;
        // Ranks in the job and machines are numbers of one job; places in the communicator mean the
        // same process to members of all jobs.
        let first = |is_wanted: &dyn Fn(GateId) -> bool| {
            let place = self.all_members().gates().position(is_wanted);
            place.and_then(|place| i32::try_from(place).ok())
        };
        let color = match kind {
            SplitKind::Set(ProcessSet::World) => first(&|gate| gate.0 < process.size()),
            SplitKind::SharedMemory => first(&|gate| process.map().node(gate.0) == process.node()),
            SplitKind::Set(ProcessSet::Myself) => first(&|gate| gate.0 == process.rank()),
            SplitKind::Set(ProcessSet::Published(home)) => {
                let is_member = |gate| home.group().rank_of(gate).is_some();
                if is_member(process.myself()) { first(&is_member) } else { None }
            }
            SplitKind::Part(part) => part.instance(&cores),
            SplitKind::LargestPart => largest.and_then(|part| part.instance(&cores)),
            SplitKind::Set(ProcessSet::Withdrawn) | SplitKind::None => None,
        };
        let created = self.split(process, color, key)?;
        if let (Some(created), Some(info)) = (&created, info) {
            created.set_info(process, info);
        }
        Ok((created, largest))
    }
}

/// Returns the first kind of part in which the processes differ: not all are in one part, and not
/// all are in none.
fn largest_difference(places: &[Option<PartNumbers>]) -> Option<usize> {
    (0..ALL.len()).find(|&index| {
        let mut parts = places.iter().map(|place| place.and_then(|place| place[index]));
        let first = parts.next().flatten();
        parts.any(|part| part != first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_is_one_that_separates() {
        let at = |node, core| Some([Some(node), Some(node), None, core, core]);
        assert_eq!(largest_difference(&[at(0, Some(0)), at(1, Some(2))]), Some(0));
        assert_eq!(largest_difference(&[at(0, Some(0)), at(0, Some(2))]), Some(3));
        assert_eq!(largest_difference(&[at(0, Some(0)), at(0, None)]), Some(3));
        assert_eq!(largest_difference(&[at(0, None), at(0, None)]), None);
        assert_eq!(largest_difference(&[at(0, Some(1))]), None);
        assert_eq!(largest_difference(&[None, at(0, None)]), Some(0));
    }

    #[test]
    fn parts_have_names() {
        for part in MachinePart::all() {
            assert_eq!(MachinePart::named(part.name().as_bytes()), Some(part));
        }
        assert_eq!(MachinePart::named(b"hwloc://Moon"), None);
    }
}
