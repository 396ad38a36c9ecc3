//! Made-up jobs with known waits.

use super::*;
use crate::{TracedMessage, TracedOperation};

const MS: u64 = 1_000_000;

/// Builds the trace of a rank.
struct Builder(AlignedTrace);

impl Builder {
    fn new(rank: u32, functions: &[&str]) -> Self {
        let place = |function: &&str| TracedPlace {
            function: (*function).to_owned(),
            caller: "main (a.c:1)".to_owned(),
        };
        let places = functions.iter().map(place).collect();
        let host = "one".to_owned();
        Self(AlignedTrace { rank, host, places, ..AlignedTrace::default() })
    }

    /// A call from `begun` to `ended`, in milliseconds, with a wait at its end.
    fn call(
        mut self,
        place: u32,
        (begun, ended): (u64, u64),
        operation: Option<u32>,
        wait: Option<(WaitReason, Option<u32>, u64)>,
    ) -> Self {
        let thread = 7;
        let operation = operation.map(|number| TracedOperation { communicator: 1, number });
        self.0.events.push((begun * MS, TraceEvent::CallBegan { thread, place, operation }));
        if let Some((reason, peer, lasted)) = wait {
            let lasted = lasted * MS;
            self.0.events.push((ended * MS, TraceEvent::Waited { thread, reason, peer, lasted }));
        }
        self.0.events.push((ended * MS, TraceEvent::CallEnded { thread }));
        self
    }
}

#[test]
fn phases_show_how_even_they_are() {
    let mut traces = late_sender();
    for trace in &mut traces {
        trace.phases = vec!["all".to_owned()];
        trace.events.insert(0, (0, TraceEvent::PhaseBegan { name: 0 }));
        trace.events.push((80 * MS, TraceEvent::PhaseEnded));
    }
    let phases = Findings::of(&traces).phases;
    let [phase] = phases.as_slice() else { panic!("{phases:?}") };
    assert_eq!((phase.name.as_str(), phase.times, phase.slowest), ("all", 1, 1));
    assert!((phase.seconds - 0.080).abs() < 1e-9);
    assert!((phase.load_balance - 50.0 / 60.0).abs() < 1e-9);
    // 40 ms of rank 0 and 20 ms of rank 1, of 80 ms each.
    assert!((phase.waiting - 60.0 / 160.0).abs() < 1e-9);
}

/// Rank 1 computes 60 ms before it sends, and rank 0 only 20 ms.
fn late_sender() -> Vec<AlignedTrace> {
    let wait = Some((WaitReason::LateSender, Some(1), 40));
    let barrier = Some((WaitReason::Members, None, 20));
    vec![
        Builder::new(0, &["MPI_Init", "MPI_Recv", "MPI_Barrier"])
            .call(0, (0, 0), None, None)
            .call(1, (20, 60), None, wait)
            .call(2, (80, 80), Some(0), None)
            .0,
        Builder::new(1, &["MPI_Init", "MPI_Send", "MPI_Barrier"])
            .call(0, (0, 0), None, None)
            .call(1, (60, 60), None, None)
            .call(2, (60, 80), Some(0), barrier)
            .0,
    ]
}

#[test]
fn waits_are_named_with_rank_culprit_and_time() {
    let findings = Findings::of(&late_sender());
    let of = |kind| findings.waits.iter().find(|wait| wait.kind == kind).unwrap();
    let late = of(WaitKind::LateSender);
    assert_eq!((late.rank, late.awaited, late.waits), (0, Some(1), 1));
    assert!((late.seconds - 0.040).abs() < 1e-9);
    assert_eq!((late.function.as_str(), late.place.as_str()), ("MPI_Recv", "main (a.c:1)"));
    let barrier = of(WaitKind::WaitAtBarrier);
    assert_eq!((barrier.rank, barrier.awaited), (1, Some(0)));
    assert!((barrier.seconds - 0.020).abs() < 1e-9);
    assert_eq!(findings.waits.len(), 2);
}

#[test]
fn efficiencies_are_products() {
    let findings = Findings::of(&late_sender());
    let Efficiency { parallel, load_balance, communication } = findings.efficiency;
    // Rank 0 computes 40 of 80 ms, rank 1 60 of 80.
    assert!((parallel - 0.625).abs() < 1e-9, "{parallel}");
    assert!((load_balance - 50.0 / 60.0).abs() < 1e-9, "{load_balance}");
    assert!((communication - 0.75).abs() < 1e-9, "{communication}");
}

#[test]
fn the_critical_path_goes_through_what_others_waited_for() {
    let path = Findings::of(&late_sender()).critical_path;
    let share = |rank, activity: &str| {
        let found = path.iter().find(|one| one.rank == rank && one.activity == activity);
        found.map_or(0.0, |one| one.seconds)
    };
    // Rank 1 computes 60 ms, then rank 0 20 ms, for which rank 1 waits.
    assert!((share(1, "computing") - 0.060).abs() < 1e-5, "{path:?}");
    assert!((share(0, "computing") - 0.020).abs() < 1e-5, "{path:?}");
    let total: f64 = path.iter().map(|one| one.seconds).sum();
    assert!((total - 0.080).abs() < 1e-5, "{path:?}");
}

#[test]
fn the_kinds_follow_the_functions() {
    let kind = |function| WaitKind::of(WaitReason::Members, function);
    for (function, expected) in [
        ("MPI_Barrier", WaitKind::WaitAtBarrier),
        ("MPI_Allreduce", WaitKind::WaitAtNxN),
        ("MPI_Alltoallv_c", WaitKind::WaitAtNxN),
        ("MPI_Reduce_scatter_block", WaitKind::WaitAtNxN),
        ("MPI_Reduce", WaitKind::EarlyReduce),
        ("MPI_Gatherv", WaitKind::EarlyReduce),
        ("MPI_Bcast", WaitKind::LateBroadcast),
        ("MPI_Scatter", WaitKind::LateBroadcast),
        ("MPI_Scan", WaitKind::LateMember),
        ("MPI_Comm_dup", WaitKind::LateMember),
    ] {
        assert_eq!(kind(function), expected, "{function}");
    }
}

/// The analysis ends, and finds no more time than there is, whatever the events are.
#[test]
fn nonsense_is_analysed() {
    for seed in 0..1000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let ranks = random.u32(0..4);
        let traces: Vec<AlignedTrace> = (0..ranks).map(|rank| any(rank, &mut random)).collect();
        let findings = Findings::of(&traces);
        let path: f64 = findings.critical_path.iter().map(|one| one.seconds).sum();
        assert!(path <= findings.seconds + 1e-6, "seed {seed}: {path} of {}", findings.seconds);
        assert!(!findings.to_json().is_empty());
    }
}

fn any(rank: u32, random: &mut fastrand::Rng) -> AlignedTrace {
    let mut trace = Builder::new(rank, &["MPI_Recv", "MPI_Barrier"]).0;
    trace.phases = vec!["one".to_owned()];
    let mut time = random.u64(0..1000);
    for _ in 0..random.u32(0..60) {
        time += random.u64(0..10_000);
        let thread = random.u64(0..2);
        let event = match random.u32(0..7) {
            0 => TraceEvent::CallBegan {
                thread,
                place: random.u32(0..3),
                operation: random
                    .bool()
                    .then(|| TracedOperation { communicator: 1, number: random.u32(0..5) }),
            },
            1 | 2 => TraceEvent::CallEnded { thread },
            4 => TraceEvent::PhaseBegan { name: random.u32(0..2) },
            5 => TraceEvent::PhaseEnded,
            3 => TraceEvent::Waited {
                thread,
                reason: WaitReason::Members,
                peer: random.bool().then(|| random.u32(0..5)),
                lasted: random.u64(0..20_000),
            },
            _ => TraceEvent::Sent(TracedMessage {
                thread,
                context: 0,
                peer: 0,
                tag: 0,
                bytes: 0,
                number: 0,
            }),
        };
        trace.events.push((time, event));
    }
    trace
}
