//! The locality of devices, and the distance of a process from them.

use crate::{CpuSet, DeviceKind, Kind, ObjectId, Topology};

/// The part of a machine to which a device is near, by the kernel's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locality {
    /// The NUMA node that is near; `None` if several are equally near.
    pub node: Option<u32>,
    /// The hardware threads that are near.
    pub threads: CpuSet,
}

/// The distance of near memory, in the unit of firmware tables: twice the value means twice the
/// latency.
pub const NEAR: u32 = 10;

/// The distance that each edge of the tree adds if the machine reports no distances.
const HOP: u32 = 5;

impl Topology {
    /// The network interface or RDMA interface with this name.
    pub fn interface(&self, name: &str) -> Option<ObjectId> {
        let devices = self.devices().into_iter();
        devices
            .filter(|id| self.is_interface(*id))
            .find(|id| self[*id].name.as_deref() == Some(name))
    }

    /// Whether an object is a network interface or an RDMA interface.
    pub fn is_interface(&self, id: ObjectId) -> bool {
        matches!(self[id].kind, Kind::Device(DeviceKind::Network | DeviceKind::Fabric))
    }

    /// The locality of a device. `None`: unknown.
    pub fn locality(&self, device: ObjectId) -> Option<Locality> {
        let place = self.near(device)?;
        let node = self.numa_node(place).and_then(|node| self[node].system);
        Some(Locality { node, threads: self[place].threads.clone() })
    }

    /// The distance from a set of hardware threads to a device. It is [`NEAR`] if one of the
    /// threads is near the device. Otherwise it is the least distance between the NUMA nodes of the
    /// threads and that of the device, as the machine reports it or as estimated from the tree.
    /// `None`: the locality of the device is unknown.
    pub fn distance(&self, threads: &CpuSet, device: ObjectId) -> Option<u32> {
        let place = self.near(device)?;
        if self[place].threads.intersects(threads) {
            return Some(NEAR);
        }
        let from = self.of_kind(Kind::NumaNode).into_iter();
        let from = from.filter(|id| self[*id].threads.intersects(threads));
        let to = self.numa_node(place).unwrap_or(place);
        from.map(|from| self.between(from, to)).min()
    }

    /// The network interface that is nearest to any of some hardware threads; the first of several
    /// in one place. `None`: several places are equally near, or none is known.
    pub fn nearest_network(&self, threads: &CpuSet) -> Option<ObjectId> {
        let networks = self.of_kind(Kind::Device(DeviceKind::Network)).into_iter();
        let known: Vec<(u32, ObjectId)> =
            networks.filter_map(|id| Some((self.distance(threads, id)?, id))).collect();
        let least = known.iter().map(|(distance, _)| *distance).min()?;
        let mut nearest =
            known.iter().filter(|(distance, _)| *distance == least).map(|(_, id)| *id);
        let first = nearest.next()?;
        nearest.all(|other| self.near(other) == self.near(first)).then_some(first)
    }

    /// The distance from one NUMA node to another, or to a part of the machine that is no NUMA
    /// node.
    fn between(&self, from: ObjectId, to: ObjectId) -> u32 {
        let numbers =
            self[from].system.zip(self[to].system.filter(|_| self[to].kind == Kind::NumaNode));
        let reported = numbers.and_then(|(from, to)| self.distances()?.between(from, to));
        let expected = NEAR + HOP * self.hops(from, to) as u32;
        reported.and_then(|reported| u32::try_from(reported).ok()).unwrap_or(expected)
    }
}
