//! The objects of the tree.

use std::fmt;

use crate::CpuSet;

/// The kind of an object. The kinds are listed from the outside to the inside, but machines differ:
/// a NUMA node may contain packages, or a package NUMA nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The cluster: all machines of a job.
    Cluster,
    /// A network switch: it connects hosts or other switches.
    Switch,
    /// A machine, that is, a host with one kernel.
    Machine,
    /// A processor package.
    Package,
    /// One of several dies in a package.
    Die,
    /// A group of objects without a more specific kind.
    Group,
    /// A NUMA node: memory, and the cores that are nearest to it.
    NumaNode,
    /// A cache for data, of this level.
    Cache(u8),
    /// A core with its hardware threads.
    Core,
    /// A hardware thread: what the kernel calls a CPU.
    Thread,
    /// A device on a PCI bus.
    Pci,
    /// A device as the operating system presents it.
    Device(DeviceKind),
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A network interface.
    Network,
    /// An RDMA interface, such as InfiniBand.
    Fabric,
    /// A disk.
    Disk,
    /// A processor for graphics or computing, such as a GPU.
    Gpu,
    /// Any other device.
    Other,
}

/// The index of an object in its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub(crate) usize);

/// One object of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The kind of the object.
    pub kind: Kind,
    /// Its number among the objects of its kind in its machine, from left to right. Devices are
    /// numbered among the devices of their kind.
    pub logical: usize,
    /// The kernel's number, if it has one. These numbers may be in any order.
    pub system: Option<u32>,
    /// Its name: of a device the kernel's name, of a machine the host name, of a package the
    /// processor model.
    pub name: Option<String>,
    /// The hardware threads inside it; empty for a device.
    pub threads: CpuSet,
    /// The size of its memory or cache in bytes; otherwise 0.
    pub bytes: u64,
    /// The object that contains it.
    pub parent: Option<ObjectId>,
    /// The objects that it contains, except devices and additional memories.
    pub children: Vec<ObjectId>,
    /// Additional NUMA nodes: as near as its own memory, or without any cores.
    pub memories: Vec<ObjectId>,
    /// The devices near it. Below a PCI device: the devices that the operating system presents for
    /// it.
    pub devices: Vec<ObjectId>,
}

impl Kind {
    /// The name of the kind, for display.
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

    /// Whether it is a device, or a PCI device through which a device is attached.
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
    /// The index of the object in its topology; the root has 0.
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

    /// The kind and number, or the name, for display: `NUMA node 2`, `eth0`.
    pub fn label(&self) -> String {
        match (&self.name, self.kind) {
            (Some(name), kind) if kind.is_device() || kind == Kind::Machine => name.clone(),
            (Some(name), Kind::Switch) => name.clone(),
            (_, kind @ (Kind::Machine | Kind::Cluster)) => kind.name().to_owned(),
            (_, kind) => format!("{kind} {}", self.logical),
        }
    }
}
