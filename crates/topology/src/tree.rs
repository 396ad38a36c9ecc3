//! The tree, and queries on it.

use std::collections::HashMap;
use std::ops::Index;

use crate::{CpuSet, DeviceKind, HostNetwork, Kind, Object, ObjectId, TopologyError};

/// A machine, or all machines of a job, as one tree. Its objects are in logical order: from left to
/// right, whatever numbers the kernel gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    objects: Vec<Object>,
    distances: Option<Distances>,
    /// Of a cluster: the network, if it is known as a graph.
    network: Option<HostNetwork>,
}

/// The distances between the NUMA nodes of a machine, as its firmware reports them: 10 for local
/// memory, 20 for twice the latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// The kernel's numbers of the nodes, in the order of the values.
    pub nodes: Vec<u32>,
    /// The distance from each node to each node, row by row.
    pub values: Vec<u64>,
}

impl Distances {
    /// The distance from one node to another, by the kernel's numbers.
    pub fn between(&self, from: u32, to: u32) -> Option<u64> {
        let position = |node| self.nodes.iter().position(|known| *known == node);
        self.values.get(position(from)? * self.nodes.len() + position(to)?).copied()
    }
}

/// How an object is attached to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentRelation {
    Child,
    Memory,
    Device,
}

impl Index<ObjectId> for Topology {
    type Output = Object;

    fn index(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }
}

impl Topology {
    /// The machine, or the cluster.
    pub fn root(&self) -> ObjectId {
        ObjectId(0)
    }

    /// All objects, each after its parent.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.objects.iter().enumerate().map(|(index, object)| (ObjectId(index), object))
    }

    /// The hardware threads of the whole tree. In a cluster this is the union of the hosts' own
    /// numbers.
    pub fn threads(&self) -> &CpuSet {
        &self.objects[0].threads
    }

    /// The network between the machines of a cluster, if its description has one.
    pub fn network(&self) -> Option<&HostNetwork> {
        self.network.as_ref()
    }

    /// The topology with this network between its machines.
    #[must_use]
    pub fn with_network(mut self, network: Option<HostNetwork>) -> Self {
        self.network = network;
        self
    }

    /// The distances between the NUMA nodes, if the machine reports them.
    pub fn distances(&self) -> Option<&Distances> {
        self.distances.as_ref()
    }

    /// The objects of a kind, in logical order.
    pub fn of_kind(&self, kind: Kind) -> Vec<ObjectId> {
        self.of_kind_in(self.root(), kind)
    }

    /// The objects of a kind that are inside `within` or are `within` itself, in logical order.
    pub fn of_kind_in(&self, within: ObjectId, kind: Kind) -> Vec<ObjectId> {
        let mut found = Vec::new();
        self.visit(within, &mut |id| {
            if self[id].kind == kind {
                found.push(id);
            }
        });
        found
    }

    /// The kinds of objects in the tree without devices, in the order of first appearance from the
    /// outside.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for object in self.objects.iter().filter(|object| !object.kind.is_device()) {
            if !kinds.contains(&object.kind) {
                kinds.push(object.kind);
            }
        }
        kinds
    }

    /// The ancestors of an object, innermost first.
    pub fn ancestors(&self, id: ObjectId) -> impl Iterator<Item = ObjectId> {
        std::iter::successors(self[id].parent, |id| self[*id].parent)
    }

    /// The object itself or its innermost ancestor of this kind.
    pub fn holder(&self, id: ObjectId, kind: Kind) -> Option<ObjectId> {
        std::iter::once(id).chain(self.ancestors(id)).find(|id| self[*id].kind == kind)
    }

    /// The smallest object of one machine that contains all these hardware threads.
    pub fn smallest_holding(&self, machine: ObjectId, threads: &CpuSet) -> Option<ObjectId> {
        let holds = |id: &ObjectId| threads.is_subset(&self[*id].threads);
        let mut smallest = Some(machine).filter(holds).filter(|_| !threads.is_empty())?;
        while let Some(child) = self[smallest].children.iter().copied().find(holds) {
            smallest = child;
        }
        Some(smallest)
    }

    /// The number of edges of the tree between two objects.
    pub fn hops(&self, one: ObjectId, two: ObjectId) -> usize {
        let way = |id| {
            let mut way: Vec<ObjectId> = std::iter::once(id).chain(self.ancestors(id)).collect();
            way.reverse();
            way
        };
        let (one, two) = (way(one), way(two));
        let common = one.iter().zip(&two).take_while(|(one, two)| one == two).count();
        one.len() + two.len() - 2 * common
    }

    /// The devices that the operating system presents, in logical order.
    pub fn devices(&self) -> Vec<ObjectId> {
        let ids = self.objects().filter(|(_, object)| matches!(object.kind, Kind::Device(_)));
        ids.map(|(id, _)| id).collect()
    }

    /// The part of the machine to which a device is near. `None`: unknown, because the device is
    /// attached to a machine with several NUMA nodes and to none of the nodes.
    pub fn near(&self, device: ObjectId) -> Option<ObjectId> {
        let place = self.ancestors(device).find(|id| !self[*id].kind.is_device())?;
        let is_vague =
            self[place].kind == Kind::Machine && self.of_kind_in(place, Kind::NumaNode).len() > 1;
        (!is_vague).then_some(place)
    }

    /// For each processor for graphics or computing of a machine, in the order of their PCI
    /// locations: the part of the machine to which it is near, or the machine where that is
    /// unknown. Devices that only show a picture, as those for remote consoles, do not count.
    pub fn near_gpus(&self, machine: ObjectId) -> Vec<ObjectId> {
        let mut seen = Vec::new();
        for id in self.of_kind_in(machine, Kind::Device(DeviceKind::Gpu)) {
            let name = self[id].name.as_deref().unwrap_or_default();
            let shows_only = name.starts_with("card") || name.starts_with("controlD");
            let location = self[id].parent;
            if !shows_only && !seen.iter().any(|(other, _)| *other == location) {
                seen.push((location, self.near(id).unwrap_or(machine)));
            }
        }
        seen.into_iter().map(|(_, near)| near).collect()
    }

    /// The NUMA node of an object: the object itself, the node that contains it, or the only node
    /// inside it.
    pub fn numa_node(&self, id: ObjectId) -> Option<ObjectId> {
        self.holder(id, Kind::NumaNode).or_else(|| {
            let inside = self.of_kind_in(id, Kind::NumaNode);
            let mut with_cores = inside.iter().filter(|id| !self[**id].threads.is_empty());
            with_cores.next().copied().filter(|_| with_cores.next().is_none())
        })
    }

    /// Returns the machine with only these hardware threads. Objects that lose all their threads
    /// are removed, but memory stays, because it can be used from elsewhere.
    ///
    /// # Errors
    /// The machine has none of these hardware threads.
    pub fn restricted(&self, wanted: &CpuSet) -> Result<Self, TopologyError> {
        if !self.threads().intersects(wanted) {
            return Err(TopologyError::Nothing {
                wanted: wanted.to_string(),
                present: self.threads().to_string(),
            });
        }
        let mut topology = Self { objects: Vec::new(), ..self.clone() };
        self.copy(self.root(), wanted, None, &mut topology);
        topology.number();
        Ok(topology)
    }

    /// Copies an object and its contents, as far as they have wanted hardware threads.
    fn copy(
        &self,
        id: ObjectId,
        wanted: &CpuSet,
        parent: Option<(ObjectId, ParentRelation)>,
        out: &mut Self,
    ) {
        let old = &self[id];
        let mut parent = parent;
        let is_child = parent.is_none_or(|(_, relation)| relation == ParentRelation::Child);
        let threads = old.threads.intersection(wanted);
        if is_child && threads.is_empty() {
            match (old.kind, parent) {
                // The nearest remaining ancestor takes the memory.
                (Kind::NumaNode, Some((above, _))) => {
                    parent = Some((above, ParentRelation::Memory))
                }
                _ => {
                    for &inside in old.children.iter().chain(&old.memories) {
                        self.copy(inside, wanted, parent, out);
                    }
                    self.copy_devices(old, parent.map(|(above, _)| above), out);
                    return;
                }
            }
        }
        let bare =
            Object { threads, children: vec![], memories: vec![], devices: vec![], ..old.clone() };
        let copy = out.add(bare, parent);
        for &child in &old.children {
            self.copy(child, wanted, Some((copy, ParentRelation::Child)), out);
        }
        for &memory in &old.memories {
            self.copy(memory, wanted, Some((copy, ParentRelation::Memory)), out);
        }
        self.copy_devices(old, Some(copy), out);
    }

    fn copy_devices(&self, old: &Object, parent: Option<ObjectId>, out: &mut Self) {
        let Some(parent) = parent else { return };
        for &device in &old.devices {
            self.copy(device, &CpuSet::default(), Some((parent, ParentRelation::Device)), out);
        }
    }

    /// Adds an object to the tree. The first object is the root.
    pub(crate) fn add(
        &mut self,
        object: Object,
        parent: Option<(ObjectId, ParentRelation)>,
    ) -> ObjectId {
        let id = ObjectId(self.objects.len());
        self.objects.push(Object { parent: parent.map(|(parent, _)| parent), ..object });
        if let Some((parent, relation)) = parent {
            let parent = &mut self.objects[parent.0];
            match relation {
                ParentRelation::Child => parent.children.push(id),
                ParentRelation::Memory => parent.memories.push(id),
                ParentRelation::Device => parent.devices.push(id),
            }
        }
        id
    }

    pub(crate) fn change(&mut self, id: ObjectId) -> &mut Object {
        &mut self.objects[id.0]
    }

    pub(crate) fn set_distances(&mut self, distances: Distances) {
        self.distances = Some(distances);
    }

    /// Assigns logical numbers to all objects.
    pub(crate) fn number(&mut self) {
        let mut order = Vec::with_capacity(self.objects.len());
        self.visit(self.root(), &mut |id| order.push(id));
        let mut counts: HashMap<Kind, usize> = HashMap::new();
        for id in order {
            let object = &mut self.objects[id.0];
            if object.kind == Kind::Machine {
                // Numbering starts anew in each machine of a cluster.
                counts
                    .retain(|kind, _| matches!(kind, Kind::Cluster | Kind::Switch | Kind::Machine));
            }
            let count = counts.entry(object.kind).or_default();
            object.logical = *count;
            *count += 1;
        }
    }

    /// Visits an object and everything below it: the object first, then its children, memories, and
    /// devices.
    pub fn visit(&self, id: ObjectId, visitor: &mut dyn FnMut(ObjectId)) {
        visitor(id);
        let object = &self[id];
        for inside in [&object.children, &object.memories, &object.devices] {
            inside.iter().for_each(|id| self.visit(*id, visitor));
        }
    }
}
