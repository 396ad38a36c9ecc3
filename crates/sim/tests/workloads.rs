//! Workloads in virtual time under each strategy. `auto` must be about as good as the best other
//! strategy. `--nocapture` prints the table, in microseconds.

use engine::strategy::{self, NAMES};
use sim::timed::{ProcessStep, TimedMessage, TimedRail, Times, Workload, run};
use sim::workloads::{all, large, rail};

/// How much worse than the best other strategy `auto` may be.
const MARGIN: f64 = 1.05;

fn times(workload: &Workload, name: &str) -> Times {
    let strategy = strategy::by_name(name).unwrap();
    run(workload, &|| Box::new(strategy))
}

/// The time by which a strategy is judged: the end or, if some messages are urgent, the time of
/// urgent messages.
fn judged(workload: &Workload, times: Times) -> f64 {
    let urgent = workload.priorities.len() > 1;
    (if urgent { times.urgent_ns } else { times.end_ns }) as f64 / 1000.0
}

#[test]
fn auto_is_about_as_good_as_the_best_of_the_others() {
    let names: String = NAMES.iter().map(|name| format!("{name:>12}")).collect();
    println!("{:24}{names}", "");
    let mut worse = Vec::new();
    for workload in all() {
        let figures: Vec<f64> =
            NAMES.iter().map(|name| judged(&workload, times(&workload, name))).collect();
        let others = figures[1..].iter().copied().fold(f64::MAX, f64::min);
        let row: String = figures.iter().map(|figure| format!("{figure:12.1}")).collect();
        println!("{:24}{row}{:8.3}", workload.name, figures[0] / others);
        if figures[0] > others * MARGIN {
            worse.push(workload.name);
        }
    }
    assert!(worse.is_empty(), "auto is worse than another one: {worse:?}");
}

/// The time of one large message over rails under `auto`, relative to the ideal time.
fn excess(rails: Vec<TimedRail>, ideal_us: f64) -> f64 {
    let (name, priorities, scripts) = ("large".into(), vec![0], large());
    let workload = Workload { name, rails, priorities, scripts };
    let taken = times(&workload, "auto").end_ns as f64 / 1000.0;
    println!("{taken:.0} of {ideal_us:.0} us: {:.3}", taken / ideal_us);
    taken / ideal_us
}

const LARGE_BYTES: f64 = (32 << 20) as f64;

#[test]
fn all_rails_finish_together() {
    let rails = [1170, 850].map(|megabits| rail(megabits / 8, 12_000, 2500));
    assert!(excess(rails.to_vec(), LARGE_BYTES / 252.0) < 1.01);
    let rails = [1180, 590, 295].map(|speed| rail(speed, 12_000, 2500));
    assert!(excess(rails.to_vec(), LARGE_BYTES / 2065.0) < 1.02);
}

#[test]
fn wrong_declarations_are_corrected() {
    let lies = [146, 106]
        .map(|speed| TimedRail { declared_bytes_per_us: 1250, ..rail(speed, 12_000, 2500) });
    assert!(excess(lies.to_vec(), LARGE_BYTES / 252.0) < 1.05);
    let mut lies = [146, 106].map(|speed| rail(speed, 12_000, 2500));
    lies[1].declared_bytes_per_us = 10;
    assert!(excess(lies.to_vec(), LARGE_BYTES / 252.0) < 1.05);
}

#[test]
fn a_rail_that_becomes_slower_gets_less() {
    let mut rails = [146, 106].map(|speed| rail(speed, 12_000, 2500));
    rails[0].slower = Some((20_000_000, 20));
    let left = LARGE_BYTES - 20_000.0 * 252.0;
    assert!(excess(rails.to_vec(), 20_000.0 + left / 126.0) < 1.05);
}

#[test]
fn short_messages_pay_nothing_for_a_second_rail() {
    for bytes in [1, 64, 1000, 8000, 32_000] {
        let message = |peer| TimedMessage { peer, context: 0, tag: 0, bytes };
        let one =
            [ProcessStep::Send(message(1)), ProcessStep::Receive(message(1)), ProcessStep::Wait]
                .repeat(10);
        let other =
            [ProcessStep::Send(message(0)), ProcessStep::Receive(message(0)), ProcessStep::Wait]
                .repeat(10);
        let taken = |rails: &[TimedRail]| {
            let (rails, scripts) = (rails.to_vec(), vec![one.clone(), other.clone()]);
            let workload = Workload { name: "short".into(), rails, priorities: vec![0], scripts };
            times(&workload, "auto").end_ns as f64
        };
        let rails = [rail(146, 12_000, 2500), rail(106, 15_000, 2500)];
        let ratio = taken(&rails) / taken(&rails[..1]);
        println!("{bytes} bytes: {ratio:.3} of the time on the faster rail alone");
        assert!(ratio < 1.05, "{bytes} bytes take {ratio} times as long");
    }
}
