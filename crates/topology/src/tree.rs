//! The tree and what can be asked of it.

use std::collections::HashMap;
use std::ops::Index;

use crate::{CpuSet, Kind, Object, ObjectId, TopologyError};

/// A machine, or all machines of a job, as one tree. Its objects are in logical order: from left to
/// right, whatever numbers the system gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    objects: Vec<Object>,
    distances: Option<Distances>,
}

/// How far the NUMA nodes of a machine are from each other, as its firmware tells: 10 is the way to
/// the own memory, 20 takes twice as long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// The system's numbers of the nodes, in the order of the values.
    pub nodes: Vec<u32>,
    /// From each node to each, row by row.
    pub values: Vec<u64>,
}

impl Distances {
    /// From one node to another, by the system's numbers.
    pub fn between(&self, from: u32, to: u32) -> Option<u64> {
        let position = |node| self.nodes.iter().position(|known| *known == node);
        self.values.get(position(from)? * self.nodes.len() + position(to)?).copied()
    }
}

/// How an object belongs to its parent.
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

    /// All objects; each stands after its parent.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectId, &Object)> {
        self.objects.iter().enumerate().map(|(index, object)| (ObjectId(index), object))
    }

    /// The hardware threads of the whole. In a cluster the machines' own numbers, one upon the
    /// other.
    pub fn threads(&self) -> &CpuSet {
        &self.objects[0].threads
    }

    /// How far the NUMA nodes are from each other, if the machine tells.
    pub fn distances(&self) -> Option<&Distances> {
        self.distances.as_ref()
    }

    /// The objects of a kind, in logical order.
    pub fn of_kind(&self, kind: Kind) -> Vec<ObjectId> {
        self.of_kind_in(self.root(), kind)
    }

    /// The objects of a kind that are in `within` or are it, in logical order.
    pub fn of_kind_in(&self, within: ObjectId, kind: Kind) -> Vec<ObjectId> {
        let mut found = Vec::new();
        self.visit(within, &mut |id| {
            if self[id].kind == kind {
                found.push(id);
            }
        });
        found
    }

    /// The kinds that the tree is made of, devices aside, from the outside to the inside as they
    /// are met first.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for object in self.objects.iter().filter(|object| !object.kind.is_device()) {
            if !kinds.contains(&object.kind) {
                kinds.push(object.kind);
            }
        }
        kinds
    }

    /// What holds an object, from the inside to the outside.
    pub fn ancestors(&self, id: ObjectId) -> impl Iterator<Item = ObjectId> {
        std::iter::successors(self[id].parent, |id| self[*id].parent)
    }

    /// The object itself or what holds it, of a kind.
    pub fn holder(&self, id: ObjectId, kind: Kind) -> Option<ObjectId> {
        std::iter::once(id).chain(self.ancestors(id)).find(|id| self[*id].kind == kind)
    }

    /// The smallest object of one machine that all these hardware threads are in.
    pub fn smallest_holding(&self, machine: ObjectId, threads: &CpuSet) -> Option<ObjectId> {
        let holds = |id: &ObjectId| threads.is_subset(&self[*id].threads);
        let mut smallest = Some(machine).filter(holds).filter(|_| !threads.is_empty())?;
        while let Some(child) = self[smallest].children.iter().copied().find(holds) {
            smallest = child;
        }
        Some(smallest)
    }

    /// How many edges of the tree lie between two objects.
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

    /// The devices as the system knows them, in logical order.
    pub fn devices(&self) -> Vec<ObjectId> {
        let ids = self.objects().filter(|(_, object)| matches!(object.kind, Kind::Device(_)));
        ids.map(|(id, _)| id).collect()
    }

    /// The part of the machine that a device is near to. None: its place is not known, as it hangs
    /// on a machine with several NUMA nodes and on none of them.
    pub fn near(&self, device: ObjectId) -> Option<ObjectId> {
        let place = self.ancestors(device).find(|id| !self[*id].kind.is_device())?;
        let is_vague =
            self[place].kind == Kind::Machine && self.of_kind_in(place, Kind::NumaNode).len() > 1;
        (!is_vague).then_some(place)
    }

    /// The NUMA node of an object: the one it is in or is, or the only one in it.
    pub fn numa_node(&self, id: ObjectId) -> Option<ObjectId> {
        self.holder(id, Kind::NumaNode).or_else(|| {
            let inside = self.of_kind_in(id, Kind::NumaNode);
            let mut with_cores = inside.iter().filter(|id| !self[**id].threads.is_empty());
            with_cores.next().copied().filter(|_| with_cores.next().is_none())
        })
    }

    /// The same machine with these hardware threads only. What loses all of its own goes too, but
    /// memory stays: it can be used from elsewhere.
    ///
    /// # Errors
    /// None of the hardware threads is in it.
    pub fn restricted(&self, wanted: &CpuSet) -> Result<Self, TopologyError> {
        if !self.threads().intersects(wanted) {
            return Err(TopologyError::Nothing {
                wanted: wanted.to_string(),
                present: self.threads().to_string(),
            });
        }
        let mut topology = Self { objects: Vec::new(), distances: self.distances.clone() };
        self.copy(self.root(), wanted, None, &mut topology);
        topology.number();
        Ok(topology)
    }

    /// Copies an object and what it holds, as far as it has hardware threads that are wanted.
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
                // The nearest that is left takes the memory.
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

    /// Adds an object to the tree; the first is the root.
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

    /// Gives all objects their logical numbers.
    pub(crate) fn number(&mut self) {
        let mut order = Vec::with_capacity(self.objects.len());
        self.visit(self.root(), &mut |id| order.push(id));
        let mut counts: HashMap<Kind, usize> = HashMap::new();
        for id in order {
            let object = &mut self.objects[id.0];
            if object.kind == Kind::Machine {
                // Each machine of a cluster counts for itself.
                counts
                    .retain(|kind, _| matches!(kind, Kind::Cluster | Kind::Switch | Kind::Machine));
            }
            let count = counts.entry(object.kind).or_default();
            object.logical = *count;
            *count += 1;
        }
    }

    /// Visits an object and all below it: first itself, then memory, what it holds, and devices.
    pub fn visit(&self, id: ObjectId, visitor: &mut dyn FnMut(ObjectId)) {
        visitor(id);
        let object = &self[id];
        for inside in [&object.children, &object.memories, &object.devices] {
            inside.iter().for_each(|id| self.visit(*id, visitor));
        }
    }
}
