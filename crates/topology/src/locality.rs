//! Where devices are, and how far a process is from them.

use crate::{CpuSet, DeviceKind, Kind, ObjectId, Topology};

/// The part of a machine that a device is near to, by the system's numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locality {
    /// The NUMA node that is near; none: several are equally near.
    pub node: Option<u32>,
    /// The hardware threads that are near.
    pub threads: CpuSet,
}

/// The distance of what is near, as firmware counts it: twice as much takes twice as long.
pub const NEAR: u32 = 10;

/// What each edge of the tree adds where the machine does not tell distances.
const HOP: u32 = 5;

impl Topology {
    /// The network interface, or that for remote memory access, which the system calls so.
    pub fn interface(&self, name: &str) -> Option<ObjectId> {
        let devices = self.devices().into_iter();
        devices
            .filter(|id| self.is_interface(*id))
            .find(|id| self[*id].name.as_deref() == Some(name))
    }

    /// Whether an object is a network interface, or one for remote memory access.
    pub fn is_interface(&self, id: ObjectId) -> bool {
        matches!(self[id].kind, Kind::Device(DeviceKind::Network | DeviceKind::Fabric))
    }

    /// Where a device is. None: that is not known.
    pub fn locality(&self, device: ObjectId) -> Option<Locality> {
        let place = self.near(device)?;
        let node = self.numa_node(place).and_then(|node| self[node].system);
        Some(Locality { node, threads: self[place].threads.clone() })
    }

    /// How far it is from any of some hardware threads to a device: [`NEAR`] where one of them is
    /// near, else the least distance between their NUMA nodes and the device's, as the machine
    /// tells it or as the tree lets expect. None: the place of the device is not known.
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

    /// The network interface that is nearest to any of some hardware threads; of several in one
    /// place the first. None: several places are equally near, or none is known.
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

    /// From one NUMA node to another, or to a part of the machine that is none.
    fn between(&self, from: ObjectId, to: ObjectId) -> u32 {
        let numbers =
            self[from].system.zip(self[to].system.filter(|_| self[to].kind == Kind::NumaNode));
        let told = numbers.and_then(|(from, to)| self.distances()?.between(from, to));
        let expected = NEAR + HOP * self.hops(from, to) as u32;
        told.and_then(|told| u32::try_from(told).ok()).unwrap_or(expected)
    }
}
