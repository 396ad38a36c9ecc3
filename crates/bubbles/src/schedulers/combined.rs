//! Combinations of schedulers: side by side, one above the other, and one after the other.

use crate::{EntityId, Event, MachineTree, Move, Place, Plan, Scheduler, VertexId};

/// One scheduler for each of some parts of the machine, and one that divides entities among the
/// parts.
pub struct InSpace {
    above: Box<dyn Scheduler>,
    parts: Vec<(VertexId, Box<dyn Scheduler>)>,
}

/// Combines a scheduler that decides down to the NUMA nodes with one inside each node.
pub fn by_level(
    machine: &MachineTree,
    above: Box<dyn Scheduler>,
    below: impl Fn() -> Box<dyn Scheduler>,
) -> InSpace {
    InSpace::new(above, machine.nodes().iter().map(|&node| (node, below())).collect())
}

impl InSpace {
    /// `above` divides entities among all parts and goes no further down. No part may lie in
    /// another.
    pub fn new(above: Box<dyn Scheduler>, parts: Vec<(VertexId, Box<dyn Scheduler>)>) -> Self {
        Self { above, parts }
    }

    /// The scheduler above decides. What it puts on a part is submitted to the scheduler of that
    /// part.
    fn hand_down(&mut self, event: Event, by: u32, plan: &mut Plan<'_>) {
        let floor: Vec<VertexId> = self.parts.iter().map(|(part, _)| *part).collect();
        let first = plan.move_count();
        let above = &mut self.above;
        plan.within(plan.scope(), &floor, |plan| above.decide(event, plan));
        let mut moved: Vec<EntityId> = Vec::new();
        for one in plan.moves_since(first) {
            if let Move::Put(id, Place::Queue(_)) = *one {
                moved.push(id);
            }
        }
        moved.sort_unstable();
        moved.dedup();
        for id in moved {
            let Place::Queue(at) = plan.pool().entity(id).place() else { continue };
            if let Some((part, scheduler)) = self.parts.iter_mut().find(|(part, _)| *part == at) {
                let submitted = Event::Submitted { entity: id, by };
                plan.within(*part, &[], |plan| scheduler.decide(submitted, plan));
            }
        }
    }

    fn inside(&mut self, processor: u32, event: Event, plan: &mut Plan<'_>) -> bool {
        let leaf = plan.machine().leaf(processor);
        let first = plan.move_count();
        for (part, scheduler) in &mut self.parts {
            if plan.machine().is_within(leaf, *part) {
                plan.within(*part, &[], |plan| scheduler.decide(event, plan));
            }
        }
        plan.move_count() > first
    }
}

impl Scheduler for InSpace {
    fn name(&self) -> &'static str {
        "space"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        match event {
            Event::Submitted { by, .. } => self.hand_down(event, by, plan),
            Event::Shake => self.hand_down(event, 0, plan),
            Event::Met { processor, .. } | Event::Idle { processor } => {
                if !self.inside(processor, event, plan) {
                    self.hand_down(event, processor, plan);
                }
            }
            Event::SliceEnded { .. } => {
                for (part, scheduler) in &mut self.parts {
                    plan.within(*part, &[], |plan| scheduler.decide(event, plan));
                }
                self.hand_down(event, 0, plan);
            }
        }
    }
}

/// One scheduler after the other. Each decides from its start time on, when it places everything
/// anew.
pub struct InTime {
    phases: Vec<(u64, Box<dyn Scheduler>)>,
}

impl InTime {
    /// The phases with their start times, in order. The first phase begins immediately.
    pub fn new(phases: Vec<(u64, Box<dyn Scheduler>)>) -> Self {
        assert!(!phases.is_empty(), "one phase at least");
        Self { phases }
    }

    fn phase_at(&self, time: u64) -> usize {
        self.phases.iter().rposition(|(from, _)| *from <= time).unwrap_or(0)
    }
}

impl Scheduler for InTime {
    fn name(&self) -> &'static str {
        "time"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        let phase = self.phase_at(plan.pool().now());
        let event = match event {
            Event::SliceEnded { since } if self.phase_at(since) != phase => Event::Shake,
            event => event,
        };
        self.phases[phase].1.decide(event, plan);
    }
}
