//! Measures the costs of the steps of collective operations.

use std::collections::BTreeMap;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use collectives::Costs;
use engine::model::RailFigures;
use sys::cores;
use topology::{Kind, ObjectId, Parts, Scope, Topology};

use super::figures::{Results, nanoseconds};

/// The benchmark between two processes of a machine, in addition to those for the rail: name,
/// sizes, window.
pub const NEAR_BENCHMARK: [&str; 3] = ["pingpong", "32K,1M", "1"];

/// The benchmark between two processes that share a core.
pub const TURN_BENCHMARK: [&str; 3] = ["pingpong", "8", "1"];

/// The number of bytes copied and combined at once; inner caches hold twice as many.
const BLOCK: usize = 64 << 10;

/// How often a short operation is repeated for a measurement.
const TIMES: u32 = 200;

/// The time limit of a spinning thread; a machine without a free core may need that long.
const FLAG_LIMIT: Duration = Duration::from_secs(2);

/// The costs inside this machine, from the figures of its rail and from the results of
/// [`NEAR_BENCHMARK`] and [`TURN_BENCHMARK`]. Costs that cannot be measured get default values.
///
/// # Errors
/// A result is missing, or the machine is too busy for meaningful results.
pub fn near(rail: &RailFigures, results: &Results, on_one_core: &Results) -> Result<Costs, String> {
    let [short, long] = [32_u64 << 10, 1 << 20];
    let one_way = 2 * rail.packet_ns + rail.latency_ns;
    let (short_us, long_us) =
        (results.line("pingpong", short)?.min_us, results.line("pingpong", long)?.min_us);
    let pipe_ps = picoseconds((long_us - short_us).max(0.0), long - short);
    let announced_ns = nanoseconds(short_us).saturating_sub(one_way + short * pipe_ps / 1000);
    let shared_us = on_one_core.line("pingpong", 8)?.min_us;
    if nanoseconds(shared_us) < one_way {
        let what =
            "a message between two cores took longer than between two processes that share a core";
        return Err(format!("{what}: other programs keep the cores busy"));
    }
    let assumed = with_lines(Costs::default());
    let cores = cores::allowed();
    let pair = (cores.first().copied(), cores.get(1).copied());
    Ok(Costs {
        packet_ns: rail.packet_ns,
        latency_ns: rail.latency_ns,
        flag_ns: flag_ns(pair).unwrap_or(assumed.flag_ns),
        turn_ns: nanoseconds(shared_us).saturating_sub(2 * rail.packet_ns).max(1),
        copy_ps: copy_ps(),
        announced_ns: announced_ns.max(1),
        pipe_ps,
        reduce_ps: reduce_ps(),
        ..assumed
    })
}

/// The costs between machines, where data uses all rails at once.
pub fn far(rails: &BTreeMap<String, RailFigures>) -> Option<Costs> {
    let fastest = rails.values().min_by_key(|rail| rail.latency_ns)?;
    let all: u64 = rails.values().map(|rail| rail.bytes_per_us[3]).sum();
    Some(Costs {
        far_packet_ns: fastest.packet_ns,
        far_latency_ns: fastest.latency_ns,
        far_ps: 1_000_000 / all.max(1),
        ..Costs::default()
    })
}

fn copy_ps() -> u64 {
    let from = vec![1_u8; BLOCK];
    let mut into = vec![0_u8; BLOCK];
    least(|| black_box(&mut into).copy_from_slice(black_box(&from)))
}

fn reduce_ps() -> u64 {
    let from = vec![1_u64; BLOCK / 8];
    let mut into = vec![1_u64; BLOCK / 8];
    least(|| {
        let both = black_box(&mut into).iter_mut().zip(black_box(&from));
        both.for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
    })
}

/// The least time of an operation on a block, in picoseconds per byte.
fn least(mut once: impl FnMut()) -> u64 {
    let time = |_| {
        let begin = Instant::now();
        once();
        begin.elapsed()
    };
    let least = (0..TIMES).map(time).min().unwrap_or_default();
    picoseconds(least.as_nanos() as f64 / 1000.0, BLOCK as u64)
}

/// Adds the times that cache lines take from one part of this machine to another, as far as it has
/// such parts.
fn with_lines(mut costs: Costs) -> Costs {
    let Ok(topology) = Topology::this_machine(Scope::Cores) else { return costs };
    let cores = topology.of_kind(Kind::Core);
    let first_thread = |id: &ObjectId| topology[*id].threads.first();
    let places: Vec<(usize, Parts)> = cores
        .iter()
        .filter_map(|id| {
            Some((first_thread(id)?, topology.parts(topology.root(), &topology[*id].threads)))
        })
        .collect();
    let Some(&(here, own)) = places.first() else { return costs };
    let time_to = |differs: &dyn Fn(&Parts) -> bool| {
        let there = places[1..].iter().find(|(_, parts)| differs(parts));
        flag_ns((Some(here), there.map(|(core, _)| *core)))
    };
    let Some(beside) = time_to(&|parts| *parts == own) else { return costs };
    let same_node =
        |parts: &Parts| (parts.package, parts.numa_node) == (own.package, own.numa_node);
    let farther: [(&mut u64, Option<u64>); 3] = [
        (&mut costs.cache_line_ns, time_to(&|parts| *parts != own && same_node(parts))),
        (
            &mut costs.numa_line_ns,
            time_to(&|parts| !same_node(parts) && parts.package == own.package),
        ),
        (&mut costs.package_line_ns, time_to(&|parts| parts.package != own.package)),
    ];
    for (line, measured) in farther {
        *line = measured.map_or(*line, |time| time.saturating_sub(beside).max(1));
    }
    costs
}

/// Half of a round trip from one core to another; `None` if there are not two.
fn flag_ns((here, there): (Option<usize>, Option<usize>)) -> Option<u64> {
    let (here, there) = (here?, there?);
    let (call, answer) = (AtomicU32::new(0), AtomicU32::new(0));
    let deadline = Instant::now() + FLAG_LIMIT;
    let await_word = |word: &AtomicU32, value: u32| {
        let mut polls = 0_u32;
        while word.load(Ordering::Acquire) != value {
            spin_loop();
            polls += 1;
            if polls.is_multiple_of(1 << 16) && Instant::now() > deadline {
                return false;
            }
        }
        true
    };
    let rounds = TIMES * TIMES;
    let times = thread::scope(|scope| {
        scope.spawn(|| {
            cores::bind(there).ok();
            (1..=rounds).all(|round| {
                let round_read = await_word(&call, round);
                answer.store(round, Ordering::Release);
                round_read
            })
        });
        let own = scope.spawn(|| {
            cores::bind(here).ok();
            let mut times = Vec::new();
            for batch in 0..TIMES {
                let begin = Instant::now();
                for round in batch * TIMES + 1..=(batch + 1) * TIMES {
                    call.store(round, Ordering::Release);
                    if !await_word(&answer, round) {
                        return Vec::new();
                    }
                }
                times.push(begin.elapsed().as_nanos() as u64 / u64::from(2 * TIMES));
            }
            times
        });
        own.join().unwrap_or_default()
    });
    times.into_iter().min()
}

fn picoseconds(microseconds: f64, bytes: u64) -> u64 {
    ((microseconds * 1e6 / bytes as f64).round() as u64).max(1)
}

/// The costs for display.
pub fn table(costs: &Costs) -> String {
    format!(
        "steps of collective operations: flag {} ns, turn on a core {} ns, copying {} ps/B, announced {} ns, \
         piped {} ps/B, combining {} ps/B\n",
        costs.flag_ns,
        costs.turn_ns,
        costs.copy_ps,
        costs.announced_ns,
        costs.pipe_ps,
        costs.reduce_ps
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_from_results() {
        let rail = RailFigures {
            packet_ns: 50,
            latency_ns: 100,
            gap_ns: 0,
            bytes_per_us: [10_000; 5],
            copied_bytes_per_us: 8000,
        };
        let line = |bytes: u64, us: f64| {
            format!("{{\"benchmark\":\"pingpong\",\"bytes\":{bytes},\"min_us\":{us}}}\n")
        };
        // 0.2 us for a message, 1 us for the announcement, 40 ps for a byte.
        let time = |bytes: u64| 1.2 + bytes as f64 * 40e-6;
        let text = line(32 << 10, time(32 << 10)) + &line(1 << 20, time(1 << 20));
        let shared = Results::of(&line(8, 0.9));
        let costs = near(&rail, &Results::of(&text), &shared).unwrap();
        assert_eq!((costs.packet_ns, costs.latency_ns, costs.turn_ns), (50, 100, 800));
        assert_eq!(costs.pipe_ps, 40);
        assert!((999..=1001).contains(&costs.announced_ns), "{costs:?}");
        assert!(costs.are_plausible() && costs.copy_ps > 0 && costs.reduce_ps > 0);
        let busy = near(&rail, &Results::of(&text), &Results::of(&line(8, 0.1))).unwrap_err();
        assert!(busy.contains("keep the cores busy"), "{busy}");
        let missing = near(&rail, &shared, &shared).unwrap_err();
        assert!(missing.contains("pingpong with 32768 bytes"), "{missing}");
        let far = far(&[("tcp:a".to_owned(), rail.clone()), ("tcp:b".to_owned(), rail)].into());
        assert_eq!(far.unwrap().far_ps, 50);
    }
}
