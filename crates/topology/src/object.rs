//! The objects of the tree.

use std::fmt;

use crate::CpuSet;

/// What an object is. From the outside to the inside, but machines differ: a NUMA node may hold
/// packages, or a package NUMA nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// All machines of a job.
    Cluster,
    /// Machines, or switches, that one switch joins.
    Switch,
    /// One machine, that is one kernel.
    Machine,
    /// A processor chip with its case.
    Package,
    /// One of several chips in a case.
    Die,
    /// Something that has no better name.
    Group,
    /// Memory, and the cores that are nearest to it.
    NumaNode,
    /// A cache for data, of this level.
    Cache(u8),
    /// A core with its hardware threads.
    Core,
    /// A hardware thread: what the kernel calls a CPU.
    Thread,
    /// A device on a PCI bus.
    Pci,
    /// A device as the operating system knows it.
    Device(DeviceKind),
}

/// What a device is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A network interface.
    Network,
    /// An interface for remote memory access, such as InfiniBand.
    Fabric,
    /// A disk.
    Disk,
    /// A processor for graphics or computing.
    Gpu,
    /// Something else.
    Other,
}

/// The place of an object in its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub(crate) usize);

/// One object of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// Its number among those of its kind in its machine, from left to right; for devices, among
    /// those of theirs.
    pub logical: usize,
    /// The system's own number, if it has one. These may be in any order.
    pub system: Option<u32>,
    /// Its name: of a device the system's, of a machine the host's, of a package the processor's.
    pub name: Option<String>,
    /// The hardware threads inside it; of a device, none.
    pub threads: CpuSet,
    /// How many bytes its memory or its cache has; else 0.
    pub bytes: u64,
    /// What holds it.
    pub parent: Option<ObjectId>,
    /// What it holds, devices and further memory aside.
    pub children: Vec<ObjectId>,
    /// NUMA nodes as near as its own memory, or without any cores.
    pub memories: Vec<ObjectId>,
    /// The devices near it; of a PCI device, what the system knows it as.
    pub devices: Vec<ObjectId>,
}

impl Kind {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cluster => "cluster",
            Kind::Switch => "switch",
            Kind::Machine => "machine",
            Kind::Package => "package",
            Kind::Die => "die",
            Kind::Group => "group",
            Kind::NumaNode => "NUMA node",
            Kind::Cache(1) => "L1 cache",
            Kind::Cache(2) => "L2 cache",
            Kind::Cache(3) => "L3 cache",
            Kind::Cache(4) => "L4 cache",
            Kind::Cache(_) => "cache",
            Kind::Core => "core",
            Kind::Thread => "thread",
            Kind::Pci => "PCI",
            Kind::Device(DeviceKind::Network) => "network",
            Kind::Device(DeviceKind::Fabric) => "fabric",
            Kind::Device(DeviceKind::Disk) => "disk",
            Kind::Device(DeviceKind::Gpu) => "GPU",
            Kind::Device(DeviceKind::Other) => "device",
        }
    }

    /// Whether it is a device or what a device stands on.
    pub fn is_device(self) -> bool {
        matches!(self, Kind::Pci | Kind::Device(_))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ObjectId {
    /// A number that is different for each object of a topology, from 0 (the root) on.
    pub fn index(self) -> usize {
        self.0
    }
}

impl Object {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            logical: 0,
            system: None,
            name: None,
            threads: CpuSet::default(),
            bytes: 0,
            parent: None,
            children: Vec::new(),
            memories: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// What it is and which, for people: `NUMA node 2`, `eth0`.
    pub fn label(&self) -> String {
        match (&self.name, self.kind) {
            (Some(name), kind) if kind.is_device() || kind == Kind::Machine => name.clone(),
            (Some(name), Kind::Switch) => name.clone(),
            (_, kind @ (Kind::Machine | Kind::Cluster)) => kind.name().to_owned(),
            (_, kind) => format!("{kind} {}", self.logical),
        }
    }
}
