//! Balance and locality of each scheduler on described machines, as reviewed in figures.txt.
//! `COMBRAY_UPDATE=1 cargo test -p bubbles --test figures` writes that file anew.

mod common;

use std::fmt::Write;
use std::sync::Arc;

use bubbles::{Event, MachineTree, Place, Plan, Scheduler, schedulers};
use common::programs::Program;
use common::world::{Figures, Idling, run};
use fastrand::Rng;

const MACHINES: [&str; 5] =
    ["two-sockets", "emulated", "many-chiplets", "eight-sockets", "thirty-two-nodes"];

#[test]
fn the_figures_are_those_that_were_reviewed() {
    let mut text = "\
time: of the run, by that of a machine on which all processors computed all the time and all memory\n\
was near; local: how much of the time of threads with memory was on its node; elsewhere: how many of\n\
a hundred times a thread was run elsewhere than before.\n"
        .to_owned();
    for (name, machine) in common::machines() {
        if !MACHINES.contains(&name.as_str()) {
            continue;
        }
        let nodes = machine.nodes().len() as u32;
        let width = machine.processor_count() as usize;
        writeln!(text, "\n{name}: {nodes} NUMA nodes, {width} processors").unwrap();
        writeln!(text, "  {:10}{:>26}{:>26}{:>26}", "", "zones", "jobs", "divide").unwrap();
        let head = format!("{:>8}{:>7}{:>11}", "time", "local", "elsewhere").repeat(3);
        writeln!(text, "  {:10}{head}", "").unwrap();
        let programs = [
            Program::zones(4 * nodes as usize, width / nodes as usize, nodes),
            Program::gangs(3, width),
            Program::divide(11, &mut Rng::with_seed(8)),
        ];
        let mut all = schedulers::all();
        all.push(Box::new(Blind));
        for mut scheduler in all {
            write!(text, "  {:10}", scheduler.name()).unwrap();
            for program in &programs {
                let found = run(&machine, program, &mut *scheduler, Idling::Never);
                text.push_str(&row(&machine, program, &found));
            }
            text.push('\n');
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/figures.txt");
    if std::env::var_os("COMBRAY_UPDATE").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let reviewed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == reviewed, "{path} has\n{reviewed}\nand it is\n{text}");
}

fn row(machine: &Arc<MachineTree>, program: &Program, found: &Figures) -> String {
    let ideal = program.work() / u64::from(machine.processor_count());
    let longest = (0..program.threads.len()).map(|index| program.work_of(index)).max().unwrap();
    let time = found.time as f64 / ideal.max(longest) as f64;
    let local = match found.with_memory {
        0 => "-".to_owned(),
        all => format!("{} %", found.local * 100 / all),
    };
    format!("{time:>8.2}{local:>7}{:>11}", found.elsewhere * 100 / found.runs)
}

/// Work stealing that knows neither bubbles nor the machine, for comparison: everything lies in the
/// queue of the processor that started the program, and an idle processor takes the first entry
/// that it finds.
struct Blind;

impl Scheduler for Blind {
    fn name(&self) -> &'static str {
        "(blind)"
    }

    fn decide(&mut self, event: Event, plan: &mut Plan<'_>) {
        let leaf = |plan: &Plan<'_>, processor| Place::Queue(plan.machine().leaf(processor));
        match event {
            Event::Submitted { entity, by } => plan.put(entity, leaf(plan, by)),
            Event::Idle { processor } => {
                let ready = |(_, entity): &(bubbles::EntityId, &bubbles::Entity)| {
                    entity.state() == Some(bubbles::State::Ready)
                };
                let found = plan.pool().entities().find(ready).map(|(id, _)| id);
                if let Some(id) = found {
                    plan.put(id, leaf(plan, processor));
                }
            }
            _ => {}
        }
    }
}
