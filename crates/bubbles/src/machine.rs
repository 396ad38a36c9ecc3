//! The tree of the machine that schedulers see.

use std::collections::HashMap;
use std::ops::Range;

use topology::{Kind, ObjectId, Topology};

/// A part of the machine: the whole machine, a package, a NUMA node, a shared cache, a core or a
/// processor. Each has a run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexId(pub u32);

/// The properties of a part of the machine.
#[derive(Clone, Debug)]
pub struct Vertex {
    /// The part that contains it.
    pub parent: Option<VertexId>,
    /// The parts that it contains, from left to right. A processor has no children.
    pub children: Vec<VertexId>,
    /// The indices of the processors (hardware threads) inside it, counted from left to right.
    pub processors: Range<u32>,
    /// The index of the NUMA node that it is or lies in, counted from left to right.
    pub node: Option<u32>,
    /// Whether it is a NUMA node.
    pub is_node: bool,
    /// Whether a network interface is attached to this part, and not to a part below.
    pub has_interface: bool,
    /// The number of levels at which the tree below divides, on the longest path to a processor.
    pub height: u32,
}

/// A machine as a tree. The root is first, and each vertex comes after its parent.
#[derive(Clone, Debug)]
pub struct MachineTree {
    vertices: Vec<Vertex>,
    /// The vertex of each processor.
    leaves: Vec<VertexId>,
    /// The kernel's number of each processor.
    system: Vec<u32>,
    /// The vertex of each NUMA node.
    nodes: Vec<VertexId>,
    /// The kernel's number of each NUMA node.
    system_nodes: Vec<u32>,
}

impl MachineTree {
    /// Builds the tree from hwloc's description of a machine.
    pub fn of(topology: &Topology) -> Self {
        let mut tree = Self::empty();
        let mut vertex_of = HashMap::new();
        tree.add_object(topology, topology.root(), None, &mut vertex_of);
        for device in topology.devices().into_iter().filter(|id| topology.is_interface(*id)) {
            if let Some(vertex) = topology.near(device).and_then(|place| vertex_of.get(&place)) {
                let vertex: &VertexId = vertex;
                tree.vertices[vertex.0 as usize].has_interface = true;
            }
        }
        tree.finish();
        tree
    }

    /// Builds a regular tree with these numbers of children, level by level from the root. The
    /// parts on level `node_level` (the root is on level 0) are NUMA nodes.
    pub fn regular(arities: &[u32], node_level: usize) -> Self {
        let mut tree = Self::empty();
        tree.add_regular(arities, node_level, 0, None);
        tree.finish();
        tree
    }

    /// Builds a flat tree of processors with these kernel numbers, about which nothing else is
    /// known.
    pub fn flat(system: &[u32]) -> Self {
        let mut tree = Self::regular(&[system.len() as u32], 0);
        tree.system = system.to_vec();
        tree
    }

    fn empty() -> Self {
        Self {
            vertices: Vec::new(),
            leaves: Vec::new(),
            system: Vec::new(),
            nodes: Vec::new(),
            system_nodes: Vec::new(),
        }
    }

    fn push(&mut self, parent: Option<VertexId>) -> VertexId {
        let id = VertexId(self.vertices.len() as u32);
        let node = parent.and_then(|parent| self[parent].node);
        let first = self.leaves.len() as u32;
        self.vertices.push(Vertex {
            parent,
            children: Vec::new(),
            processors: first..first,
            node,
            is_node: false,
            has_interface: false,
            height: 0,
        });
        if let Some(parent) = parent {
            self.vertices[parent.0 as usize].children.push(id);
        }
        id
    }

    /// Makes a vertex a NUMA node. Vertices that are pushed below it belong to this node.
    fn make_node(&mut self, id: VertexId, system: u32) {
        let node = Some(self.nodes.len() as u32);
        self.nodes.push(id);
        self.system_nodes.push(system);
        let vertex = &mut self.vertices[id.0 as usize];
        (vertex.node, vertex.is_node) = (node, true);
    }

    fn push_processor(&mut self, vertex: VertexId, system: u32) {
        self.leaves.push(vertex);
        self.system.push(system);
    }

    fn add_object(
        &mut self,
        topology: &Topology,
        id: ObjectId,
        parent: Option<VertexId>,
        vertex_of: &mut HashMap<ObjectId, VertexId>,
    ) {
        let object = &topology[id];
        let vertex = self.push(parent);
        if object.kind == Kind::NumaNode {
            self.make_node(vertex, object.system.unwrap_or_default());
        }
        vertex_of.insert(id, vertex);
        if object.children.is_empty() {
            for thread in object.threads.iter() {
                // A core that has several hardware threads but no objects for them gets a child for
                // each.
                let leaf = if object.threads.len() == 1 { vertex } else { self.push(Some(vertex)) };
                self.push_processor(leaf, thread as u32);
            }
        }
        for &child in &object.children {
            self.add_object(topology, child, Some(vertex), vertex_of);
        }
        self.vertices[vertex.0 as usize].processors.end = self.leaves.len() as u32;
    }

    fn add_regular(
        &mut self,
        arities: &[u32],
        node_level: usize,
        level: usize,
        parent: Option<VertexId>,
    ) {
        let vertex = self.push(parent);
        if level == node_level {
            self.make_node(vertex, self.nodes.len() as u32);
        }
        match arities.split_first() {
            None => self.push_processor(vertex, self.leaves.len() as u32),
            Some((&arity, below)) => {
                (0..arity).for_each(|_| {
                    self.add_regular(below, node_level, level + 1, Some(vertex));
                });
            }
        }
        self.vertices[vertex.0 as usize].processors.end = self.leaves.len() as u32;
    }

    /// Sets the properties that can only be computed when all vertices exist.
    fn finish(&mut self) {
        for (number, &leaf) in (0..).zip(&self.leaves) {
            self.vertices[leaf.0 as usize].processors = number..number + 1;
        }
        for index in (0..self.vertices.len()).rev() {
            let vertex = &self.vertices[index];
            let below = vertex.children.iter().map(|&child| self[child].height).max();
            let divides = u32::from(vertex.children.len() > 1);
            self.vertices[index].height = below.unwrap_or(0) + divides;
        }
    }

    /// The whole machine.
    pub fn root(&self) -> VertexId {
        VertexId(0)
    }

    /// All parts, each after its parent.
    pub fn vertices(&self) -> impl Iterator<Item = (VertexId, &Vertex)> {
        (0..).map(VertexId).zip(&self.vertices)
    }

    /// The number of processors.
    pub fn processor_count(&self) -> u32 {
        self.leaves.len() as u32
    }

    /// The kernel's number of a processor.
    pub fn system_number(&self, processor: u32) -> u32 {
        self.system[processor as usize]
    }

    /// The vertex of a processor.
    #[inline]
    pub fn leaf(&self, processor: u32) -> VertexId {
        self.leaves[processor as usize]
    }

    /// The vertex of each NUMA node.
    pub fn nodes(&self) -> &[VertexId] {
        &self.nodes
    }

    /// The kernel's number of a NUMA node, given by its index.
    pub fn system_node(&self, node: u32) -> Option<u32> {
        self.system_nodes.get(node as usize).copied()
    }

    /// The index of the NUMA node with this kernel number.
    pub fn node_of_system(&self, system: u32) -> Option<u32> {
        self.system_nodes.iter().position(|&one| one == system).map(|place| place as u32)
    }

    /// The vertex itself and its ancestors, up to the root.
    pub fn way_up(&self, from: VertexId) -> impl Iterator<Item = VertexId> {
        std::iter::successors(Some(from), |&vertex| self[vertex].parent)
    }

    /// Whether `inner` is `outer` or lies inside it.
    pub fn is_within(&self, inner: VertexId, outer: VertexId) -> bool {
        self.way_up(inner).any(|vertex| vertex == outer)
    }

    /// The vertices of a part: the part itself first, each vertex before its children.
    pub fn below(&self, top: VertexId) -> Vec<VertexId> {
        let mut found = vec![top];
        let mut next = 0;
        while let Some(&vertex) = found.get(next) {
            found.extend(&self[vertex].children);
            next += 1;
        }
        found
    }

    /// The smallest part that contains both vertices.
    pub fn common(&self, one: VertexId, two: VertexId) -> VertexId {
        let holds = |&vertex: &VertexId| self.is_within(two, vertex);
        self.way_up(one).find(holds).unwrap_or(self.root())
    }

    /// The distance of two processors: the height of the smallest part that contains both.
    pub fn distance(&self, one: u32, two: u32) -> u32 {
        self[self.common(self.leaf(one), self.leaf(two))].height
    }
}

impl std::ops::Index<VertexId> for MachineTree {
    type Output = Vertex;

    fn index(&self, id: VertexId) -> &Vertex {
        &self.vertices[id.0 as usize]
    }
}
