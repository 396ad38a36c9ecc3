//! `combray info --collectives`: which algorithm is chosen from which size on, and how long it is
//! predicted to take.

use std::fmt::Write;

use clap::Args;
use collectives::board::{self, RegionSupport, SlotCapacities};
use collectives::{
    Candidate, CollectiveCall, CollectiveOperation, Costs, Member, Situation, candidates,
};
use runtime::JobSettings;
use runtime::samples::{self, Samples};
use sys::cores;
use topology::{Scope, Topology};

use super::machine;
use crate::prefix;

/// The communicator for which the choices are shown.
#[derive(Args)]
pub struct ShownCommunicator {
    /// How many processes the communicator has; without it, as many as there are cores, but at
    /// least four
    #[arg(long, requires = "collectives", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=PROCESSES_MAX))]
    processes: Option<u32>,
    /// On how many machines they run, with an equal number of neighbouring ranks on each
    #[arg(long, requires = "collectives", value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// The machines, described as for combray topo: a file in hwloc's XML format, or a line
    /// such as "package:2 numa:2 core:4 pu:2"; without it, they are like this one
    #[arg(long, requires = "collectives", value_name = "MACHINE")]
    input: Option<String>,
    /// How many cores they may use on each machine; without it, as many as the machine has. With it
    /// and without --input the inner structure of machines counts as unknown
    #[arg(long, requires = "collectives", value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// Sizes to show, such as 8,64K,1M: of what one process contributes or gets; without it, all
    /// sizes at which the algorithm changes
    #[arg(long, requires = "collectives", value_name = "LIST", value_delimiter = ',', value_parser = bytes)]
    sizes: Vec<usize>,
}

/// The maximum of `--processes`: larger communicators are assumed to make the choices of this size.
const PROCESSES_MAX: i64 = 1 << 20;

/// The largest size at which changes are searched for, as a power of two.
const LARGEST_BIT: u32 = 26;

/// Describes the choices between algorithms.
///
/// # Errors
/// There are fewer processes than machines, or the machine description is malformed.
pub fn explain(communicator: &ShownCommunicator) -> Result<String, String> {
    let topology = match &communicator.input {
        Some(described) => Some(Topology::described(described).map_err(|error| error.to_string())?),
        None if communicator.cores.is_some() => None,
        // Without hwloc processes are not bound, and their machine has no known levels.
        None => Topology::this_machine(Scope::Cores).ok(),
    };
    let described = topology.as_ref().filter(|_| communicator.input.is_some());
    let cores = described.map_or_else(cores::usable, |machine| machine.threads().len()) as u32;
    let cores = communicator.cores.unwrap_or(cores);
    let size = communicator.processes.unwrap_or(cores.max(4).max(communicator.nodes));
    let nodes = communicator.nodes;
    if nodes > size {
        return Err(format!("{size} processes cannot run on {nodes} machines: use --processes"));
    }
    let host = samples::host();
    let kept = samples::folder().map_or(Ok(None), |folder| Samples::read(&folder, &host))?;
    let kept = kept.unwrap_or_else(|| Samples::none(&host));
    let (JobSettings { costs, preferences, .. }, warnings) =
        JobSettings::of_environment(kept.collective_costs());
    let oversubscribed = size.div_ceil(nodes) > cores;
    let all = Situation { cores, oversubscribed, costs, preferences, ..Situation::default() };
    let situation = machine::situation(topology.as_ref(), size, nodes, all)?;
    let mut text = warnings.iter().fold(String::new(), |text, one| text + one + "\n");
    _ = writeln!(
        text,
        "{size} processes on {nodes} machine(s) with {cores} core(s) each{}",
        if oversubscribed { ", which is fewer than processes" } else { "" }
    );
    text += &costs_text(&costs, &kept);
    text += &machine::levels_text(&situation);
    _ = writeln!(text, "\n{:15}{:>9}  {:32}otherwise", "operation", "from", "algorithm");
    for operation in CollectiveOperation::ALL {
        text += &lines(operation, &situation, size, &communicator.sizes);
    }
    if nodes == 1 {
        text += "\n\"board\" and \"direct\" are for communicators that have a board, from the fifth operation or the\n\
                 first reduction on; with more than 32 processes after more operations, and with more\n\
                 than 64 not for the reductions of a program that reduces before that.\n";
    }
    text += "\nSizes are of what one process contributes or gets; times are predicted. The variable\n\
             COMBRAY_COLLECTIVES=operation:algorithm,... takes another algorithm where it is applicable.\n";
    _ = writeln!(text, "More: {}", prefix::page("internals/collectives.md"));
    Ok(text)
}

fn lines(
    operation: CollectiveOperation,
    situation: &Situation,
    size: u32,
    sizes: &[usize],
) -> String {
    let member = Member { rank: 0, size, situation };
    // Boards are for communicators inside one machine that are not too large.
    let has_board = situation.layout.nodes() == 1 && size <= board::SIZE_MAX;
    let rooms = has_board.then_some(SlotCapacities::new(RegionSupport::Possible));
    let powers: Vec<usize> = (0..=LARGEST_BIT).map(|bit| 1 << bit).collect();
    let asked = match operation {
        CollectiveOperation::Barrier => &[0],
        _ if sizes.is_empty() => powers.as_slice(),
        _ => sizes,
    };
    let mut text = String::new();
    let mut before = None;
    for &bytes in asked {
        let candidates = candidates(&CollectiveCall::of(operation, size, bytes), member, rooms);
        let reported = |one: &Candidate| format!("{} {}", one.algorithm, one.cost);
        let Some(taken) = candidates.first() else { continue };
        if sizes.is_empty() && Some(taken.algorithm) == before {
            continue;
        }
        let name = if text.is_empty() { operation.name() } else { "" };
        let other = candidates.get(1).map(reported);
        let from =
            if operation == CollectiveOperation::Barrier { String::new() } else { shown(bytes) };
        let other = other.unwrap_or_default();
        let line = format!("{name:15}{from:>9}  {:32}{other}", reported(taken));
        _ = writeln!(text, "{}", line.trim_end());
        before = Some(taken.algorithm);
    }
    text
}

fn costs_text(costs: &Costs, kept: &Samples) -> String {
    let whose = match (kept.costs, &kept.memory) {
        (Some(_), _) => "measured by combray sample",
        (None, Some(_)) => {
            "of data predicted from those of memory, others assumed (combray sample measures)"
        }
        (None, None) => "assumed (combray sample measures)",
    };
    format!(
        "costs {whose}: message {} + {} ns, flag {} ns, turn on a core {} ns, copying {} ps/B,
      slots {} ps/B, announced {} ns, piped {} ps/B, single copy {} ns + {} ps/B, combining {} ps/B; between machines: message {} + {} ns, {} ps/B\n",
        2 * costs.packet_ns,
        costs.latency_ns,
        costs.flag_ns,
        costs.turn_ns,
        costs.copy_ps,
        costs.slot_ps,
        costs.announced_ns,
        costs.pipe_ps,
        costs.fetch_ns,
        costs.fetch_ps,
        costs.reduce_ps,
        2 * costs.far_packet_ns,
        costs.far_latency_ns,
        costs.far_ps,
    )
}

/// Returns a number of bytes in the largest unit in which it is whole.
pub(super) fn shown(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Parses a number of bytes with an optional suffix K, M or G.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let unit: usize = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return Err("a size is a number, with K, M or G after it or without".into()),
    };
    let number: usize =
        digits.parse().map_err(|_| format!("\"{digits}\" is not a number of bytes"))?;
    number.checked_mul(unit).ok_or_else(|| format!("{text} bytes are too many"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_understood_and_shown() {
        for (text, number) in [("8", 8), ("64K", 65_536), ("1m", 1 << 20), ("3G", 3 << 30)] {
            assert_eq!(bytes(text), Ok(number));
        }
        for nonsense in ["", "K", "1KM", "99999999999G", "-1"] {
            assert!(bytes(nonsense).is_err(), "{nonsense}");
        }
        assert_eq!([8, 1025, 65_536, 1 << 20].map(shown), ["8 B", "1025 B", "64 KiB", "1 MiB"]);
    }

    #[test]
    fn each_operation_has_its_lines() {
        let situation = Situation::plain(8);
        for operation in CollectiveOperation::ALL {
            let text = lines(operation, &situation, 8, &[]);
            assert!(text.starts_with(operation.name()), "{text}");
            let asked = lines(operation, &situation, 8, &[8, 1 << 20]);
            assert_eq!(
                asked.lines().count(),
                if operation == CollectiveOperation::Barrier { 1 } else { 2 }
            );
        }
    }
}
