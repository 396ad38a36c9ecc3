//! The machines on which the processes of a communicator run, and their inner structure.

use std::fmt::Write;

use collectives::{Crossing, ProcessLayout, Situation, leaders};
use launcher::binding::{self, Policy};
use runtime::parts::by_width;
use topology::{Parts, Topology};

/// The situation of this many processes on machines that are all alike, bound as `combray run`
/// binds them by default.
///
/// # Errors
/// The processes cannot be bound on this machine.
pub fn situation(
    topology: Option<&Topology>,
    size: u32,
    nodes: u32,
    all: Situation,
) -> Result<Situation, String> {
    let node_of = |rank: u32| (u64::from(rank) * u64::from(nodes) / u64::from(size)) as u32;
    let node_by_rank: Vec<u32> = (0..size).map(node_of).collect();
    let all = Situation { layout: ProcessLayout::on_nodes(&node_by_rank), ..all };
    let Some(topology) = topology else { return Ok(all) };
    let mut parts = Vec::new();
    for ranks in node_by_rank.chunk_by(|one, next| one == next) {
        parts.extend(parts_of(topology, ranks.len() as u32)?);
    }
    Ok(all.in_parts(&by_width(&parts)))
}

/// The parts in which this many processes of one machine run.
fn parts_of(topology: &Topology, processes: u32) -> Result<Vec<Parts>, String> {
    let ranks: Vec<u32> = (0..processes).collect();
    let cpusets = binding::plan(topology, topology.root(), &ranks, &Policy::default())?;
    Ok(binding::parts(topology, &cpusets))
}

/// Describes the levels of hierarchical algorithms inside machines: their leaders and crossing
/// costs.
pub fn levels_text(situation: &Situation) -> String {
    let mut text = String::new();
    let leaders = leaders(situation);
    let skipped = leaders.len() - situation.levels.len();
    for (level, leaders) in situation.levels.iter().zip(&leaders[skipped..]) {
        let (count, name) = (level.layout.nodes(), level.width.name());
        let shown: Vec<String> = leaders.iter().take(SHOWN_MAX).map(u32::to_string).collect();
        let more = if leaders.len() > SHOWN_MAX { ", ..." } else { "" };
        let Crossing { line_ns, part_ps } = situation.costs.crossing(level.width);
        _ = writeln!(
            text,
            "level: {count} {name}s, led by {}{more}; a cache line from another one takes {line_ns} ns longer, \
             and all traffic of one takes {part_ps} ps/B",
            shown.join(", ")
        );
    }
    text
}

/// The maximum number of leaders of a level to show.
const SHOWN_MAX: usize = 16;
