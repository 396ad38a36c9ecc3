//! `combray info --copying`: how messages between processes of this machine are copied at first, by
//! length, and how long each method is predicted to take.

use std::fmt::Write;

use memory_costs::{CostTable, SentBytes};
use runtime::LocalWay;
use runtime::samples;

use super::choices::shown;
use crate::prefix;

/// The lengths of messages that are shown, as powers of two.
const LENGTH_BITS: std::ops::RangeInclusive<u32> = 3..=23;

/// Describes the first choices of the processes of this machine.
pub fn explain() -> String {
    let (kept, warning) = samples::kept();
    let mut text = warning.map_or_else(String::new, |warning| warning + "\n");
    match kept.memory {
        Some(memory) => text += &choices(&memory.processor, &memory.table),
        None => {
            text += "Nothing is known of this machine's memory: its processes try all methods in turn.\n\
                     The next job measures it, unless the cores are busy; combray sample --memory does so now.\n";
        }
    }
    text += "\nProcesses time their messages, and use another method where that is faster. The variable\n\
             COMBRAY_COPYING=METHOD takes one method for all lengths for which it exists.\n";
    _ = writeln!(text, "More: {}", prefix::page("internals/cost-models.md"));
    text
}

fn choices(processor: &str, table: &CostTable) -> String {
    let distances: Vec<f64> = table.distances.iter().map(|one| one.crossing_ns).collect();
    let crossings: Vec<String> = distances.iter().map(|ns| format!("{ns:.0}")).collect();
    let mut text =
        format!("{processor}, a cache line crosses in {} ns\n", crossings.join(" and in "));
    if distances.len() > 1 {
        text += "The first choice is the method with the lowest mean over these distances.\n";
    }
    _ = writeln!(text, "\n{:>9}  {:24}otherwise", "bytes", "first choice");
    for bytes in LENGTH_BITS.map(|bit| 1 << bit) {
        let time = |way: LocalWay| {
            let name = if way == LocalWay::InPacket { "packet" } else { way.name() };
            let mean = way.message(bytes, SentBytes::Fresh).expect(table)?;
            Some((mean, format!("{name} {}", microseconds(mean))))
        };
        let mut ways: Vec<_> = LocalWay::all_of(bytes).into_iter().filter_map(time).collect();
        ways.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut names = ways.into_iter().map(|(_, name)| name);
        let Some(first) = names.next() else {
            return text
                + "Figures that messages need are missing: measure again with combray sample --memory.\n";
        };
        let others: Vec<String> = names.collect();
        let line = format!("{:>9}  {first:24}{}", shown(bytes as usize), others.join(", "));
        _ = writeln!(text, "{}", line.trim_end());
    }
    text + "Times are of messages whose sender waits, in µs from the call to the last byte.\n"
}

fn microseconds(ns: f64) -> String {
    format!("{:.2}", ns / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    use memory_costs::{CONDITIONS, Curve, Distance, SYSTEM_COPIES, SystemCosts};

    /// A machine whose accesses and copies by the system all cost so many picoseconds per byte.
    fn machine(access_ps: f64, system_ps: f64) -> CostTable {
        let curve = |fixed_ns: f64, ps: f64| {
            Curve::new([10, 24].map(|bit| (1 << bit, fixed_ns + f64::from(1 << bit) * ps / 1000.0)))
        };
        let mut table = CostTable { copy: curve(0.0, access_ps), ..CostTable::default() };
        table.learn(Distance {
            crossing_ns: 50.0,
            curves: CONDITIONS.map(|condition| (condition, curve(0.0, access_ps))).into(),
            copies: SYSTEM_COPIES.map(|kind| (kind, curve(1000.0, system_ps))).into(),
        });
        table.system = SystemCosts { copy_call_ns: 1000.0, ..SystemCosts::default() };
        table
    }

    fn first_choice(text: &str, bytes: &str) -> String {
        let line = text.lines().find(|line| line.trim_start().starts_with(bytes));
        let line = line.unwrap_or_else(|| panic!("{bytes} is not in {text}"));
        line[11..].split(' ').next().unwrap_or_default().to_owned()
    }

    #[test]
    fn each_machine_is_shown_with_choices_of_its_own() {
        let dear_lines = choices("one", &machine(200.0, 20.0));
        let dear_system = choices("other", &machine(20.0, 200.0));
        assert!(dear_lines.starts_with("one, a cache line crosses in 50 ns\n"));
        for text in [&dear_lines, &dear_system] {
            assert_eq!(first_choice(text, "64 B"), "packet");
        }
        assert_eq!(first_choice(&dear_lines, "64 KiB"), "receiver");
        assert_eq!(first_choice(&dear_lines, "4 MiB"), "jointly");
        assert!(["fragments", "cells"].contains(&first_choice(&dear_system, "64 KiB").as_str()));
        assert!(!["once", "jointly"].contains(&first_choice(&dear_system, "4 MiB").as_str()));
    }

    #[test]
    fn missing_figures_are_reported() {
        assert!(choices("one", &CostTable::default()).contains("combray sample --memory"));
    }
}
