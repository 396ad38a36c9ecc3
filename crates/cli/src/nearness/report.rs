//! What was found, as text.

use std::fmt::Write;

use super::Nearness;
use super::analysis::{LevelSpread, NodeMatrix};
use super::decisions::{MOVED_BYTES, NodeDecision};
use super::rails::PAIRS;

/// Returns the text.
pub fn text(found: &Nearness) -> String {
    let nodes = found.nodes.len();
    let mut text = match nodes {
        1 => format!("{}: one NUMA node\n", found.host),
        _ => format!("{}: {nodes} NUMA nodes\n", found.host),
    };
    text += "\nMemory, by the node of the process and that of the memory\n";
    for matrix in &found.memory {
        text += &table(matrix);
    }
    for rail in &found.rails {
        let place = match rail.node {
            Some(node) => format!(", whose interface is on node {node}"),
            None => String::new(),
        };
        let inside = if rail.is_inside { "; inside this machine" } else { "" };
        _ = writeln!(text, "\nMessages over {}{place}{inside}", rail.name);
        match &rail.obstacle {
            Some(obstacle) => _ = writeln!(text, "  not measured: {obstacle}"),
            None => rail.measured.iter().for_each(|matrix| text += &table(matrix)),
        }
        if let Some([one, all]) = rail.bandwidth_of_pairs {
            text += &pairs(one, all);
        }
    }
    text + "\n" + &decisions(found)
}

/// Whether pairs of processes that use a rail at the same time share a link.
fn pairs(one: f64, all: f64) -> String {
    let follows = match all < GROWTH_OF_FREE_LINKS * one {
        true => "they share the link, or cores",
        false => "they do not share a link",
    };
    let (one, all) = (number(one), number(all));
    format!("  one pair of processes sends {one} GB/s, {PAIRS} at once {all} GB/s: {follows}\n")
}

/// If the bandwidth of [`PAIRS`] pairs is at least so many times that of one, no link limits them.
const GROWTH_OF_FREE_LINKS: f64 = 1.5;

fn table(matrix: &NodeMatrix) -> String {
    let mut text = format!("  {}, {}", matrix.subject, matrix.unit);
    let Some(spread) = matrix.spread() else { return text + ": not measured\n" };
    _ = writeln!(text, ": {}", sentence(matrix, &spread));
    if matrix.memories.len() > 1 {
        _ = write!(text, "{:>14}", "memory on");
        matrix.memories.iter().for_each(|node| _ = write!(text, "{node:>10}"));
        text.push('\n');
        for (process, values) in matrix.processes.iter().zip(&matrix.values) {
            _ = write!(text, "    from {process:>5}");
            for value in values {
                _ = write!(text, "{:>10}", value.map_or_else(|| "-".to_owned(), number));
            }
            text.push('\n');
        }
    }
    text
}

/// The cost of distance in a sentence.
pub fn sentence(matrix: &NodeMatrix, spread: &LevelSpread) -> String {
    let LevelSpread { near, far, ratio, hop, levels } = spread;
    let unit = matrix.unit;
    if spread.is_uniform() {
        let all = matrix.values.iter().flatten().count();
        return match all {
            1 => format!("{} {unit}", number(*near)),
            _ => format!("uniform, {} {unit} wherever it is", number(*near)),
        };
    }
    let mut text =
        format!("near {} {unit}, far {} {unit}, ratio {ratio:.2}", number(*near), number(*far));
    if matrix.is_time {
        _ = write!(text, ", {} {unit} a hop", number(*hop));
    }
    if levels.len() > 2 {
        let levels: Vec<String> = levels.iter().map(|level| number(*level)).collect();
        _ = write!(text, " (levels: {})", levels.join(", "));
    }
    text
}

/// Three digits.
pub fn number(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        9.995..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn decisions(found: &Nearness) -> String {
    let uniform = |matrix: &NodeMatrix| matrix.spread().is_none_or(|spread| spread.is_uniform());
    if found.nodes.len() == 1 {
        return "What follows: nothing is nearer than anything else, so no place is preferred.\n"
            .to_owned();
    }
    let mut text = "What follows for a process on\n".to_owned();
    found.decisions.iter().for_each(|one| text += &decision(one));
    if found.memory.iter().all(uniform) {
        text += "Measured, all memory is equally near.\n";
    }
    text + &order(found)
}

fn decision(decision: &NodeDecision) -> String {
    let NodeDecision { node, interface, buffers, helper, moves } = decision;
    let mut text = format!("  node {node}: ");
    match interface {
        None => text += "no interface whose place is known",
        Some((name, distance)) => {
            _ = write!(text, "{name} first, at distance {distance}; ");
            match buffers {
                Some(buffers) => _ = write!(text, "buffers on node {buffers}"),
                None => text += "buffers and helper stay with the process",
            }
            if let Some(helper) = helper {
                let helper: Vec<String> = helper.iter().map(usize::to_string).collect();
                _ = write!(text, ", helper on hardware threads {}", helper.join(" "));
            }
        }
    }
    for (far, reads) in moves {
        let size = MOVED_BYTES >> 20;
        _ = match reads {
            Some(reads) => write!(text, "; {size} MiB of node {far} move here for {reads} reads"),
            None => write!(text, "; memory of node {far} stays there"),
        };
    }
    text + "\n"
}

/// Compares the firmware's distances with the measured latencies.
fn order(found: &Nearness) -> String {
    let Some(latency) = found.memory.first() else { return String::new() };
    let pairs = |row: usize| {
        let known = found.distances[row].iter().zip(&latency.values[row]);
        known.filter_map(|(distance, value)| Some((*distance, (*value)?))).collect::<Vec<_>>()
    };
    let wrong = (0..found.distances.len()).flat_map(|row| {
        let all = pairs(row);
        let is_wrong =
            |one: &(u64, f64), other: &(u64, f64)| one.0 < other.0 && one.1 > other.1 * 1.1;
        let any = all.iter().any(|one| all.iter().any(|other| is_wrong(one, other)));
        any.then(|| latency.processes[row])
    });
    let wrong: Vec<String> = wrong.map(|node| node.to_string()).collect();
    match wrong.is_empty() {
        true => {
            "The distances that the firmware reports are in the order of the measured latencies.\n"
                .to_owned()
        }
        false => format!(
            "Seen from node {}, the distances that the firmware reports are not in the order of the \
             measured latencies.\n",
            wrong.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(nodes: &[u32], latency: impl Fn(u32, u32) -> f64) -> Nearness {
        let mut matrix = NodeMatrix::new(("latency of a read", "ns"), true, (nodes, nodes));
        for (row, from) in nodes.iter().enumerate() {
            for (column, to) in nodes.iter().enumerate() {
                matrix.values[row][column] = Some(latency(*from, *to));
            }
        }
        let distance = |from: u32, to: u32| if from == to { 10 } else { 20 };
        let decision = |node: u32| NodeDecision {
            node,
            interface: Some(("eth0".into(), distance(node, 0) as u32)),
            buffers: (node == 0).then_some(0),
            helper: None,
            moves: nodes.iter().filter(|far| **far != node).map(|far| (*far, Some(16))).collect(),
        };
        Nearness {
            host: "h".into(),
            nodes: nodes.to_vec(),
            distances: nodes
                .iter()
                .map(|from| nodes.iter().map(|to| distance(*from, *to)).collect())
                .collect(),
            memory: vec![matrix],
            rails: Vec::new(),
            decisions: nodes.iter().copied().map(decision).collect(),
        }
    }

    #[test]
    fn near_and_far_are_reported_with_what_follows() {
        let text = text(&found(&[0, 1], |from, to| if from == to { 100.0 } else { 140.0 }));
        assert!(text.contains("near 100 ns, far 140 ns, ratio 1.40, 40.0 ns a hop"), "{text}");
        assert!(text.contains("node 0: eth0 first, at distance 10; buffers on node 0"), "{text}");
        assert!(
            text.contains("node 1: eth0 first, at distance 20; buffers and helper stay"),
            "{text}"
        );
        assert!(text.contains("8 MiB of node 1 move here for 16 reads"), "{text}");
        assert!(text.contains("are in the order of the measured"), "{text}");
    }

    #[test]
    fn uniform_machines_are_reported_as_such() {
        let one = text(&found(&[0], |_, _| 90.0));
        assert!(one.contains("one NUMA node") && one.contains("90.0 ns\n"), "{one}");
        assert!(one.contains("no place is preferred"), "{one}");
        let two = text(&found(&[0, 1], |from, to| 90.0 + f64::from(from + to)));
        assert!(two.contains("uniform, 91.0 ns wherever it is"), "{two}");
        assert!(two.contains("Measured, all memory is equally near."), "{two}");
    }

    #[test]
    fn pairs_that_share_a_link_are_reported() {
        assert!(pairs(1.2, 1.3).contains("2 at once 1.30 GB/s: they share the link"));
        assert!(pairs(1.2, 2.3).contains("they do not share a link"));
    }

    #[test]
    fn a_firmware_that_is_wrong_is_reported() {
        let text = text(&found(&[0, 1], |_, to| if to == 0 { 150.0 } else { 100.0 }));
        assert!(text.contains("Seen from node 0, the distances"), "{text}");
    }
}
