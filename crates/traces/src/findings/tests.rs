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
        wait: Option<(WaitCause, Option<u32>, u64)>,
    ) -> Self {
        let thread = 7;
        let operation = operation.map(|number| TracedOperation { communicator: 1, number });
        self.0.events.push((begun * MS, TraceEvent::CallBegan { thread, place, operation }));
        if let Some((cause, peer, lasted)) = wait {
            let lasted = lasted * MS;
            self.0.events.push((ended * MS, TraceEvent::Waited { thread, cause, peer, lasted }));
        }
        self.0.events.push((ended * MS, TraceEvent::CallEnded { thread }));
        self
    }
}

#[test]
fn phases_show_how_even_they_are() {
    let mut traces = late_sender();
    for trace in &mut traces {
        trace.names = vec!["all".to_owned()];
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
    let wait = Some((WaitCause::LateSender, Some(1), 40));
    let barrier = Some((WaitCause::Members, None, 20));
    let mut traces = vec![
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
    ];
    with_message(&mut traces, (1, 0), 60, 60);
    traces
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

/// In each job rank 1 comes after 40 ms, and the data has arrived 20 ms later.
#[test]
fn waits_end_when_the_awaited_rank_comes() {
    let wait_of = |traces: &[AlignedTrace]| {
        let waits = Findings::of(traces).waits;
        let [wait] = waits.as_slice() else { panic!("{waits:?}") };
        assert_eq!((wait.rank, wait.awaited), (0, Some(1)));
        (wait.kind, (wait.seconds * 1e3).round() as u64)
    };
    let late = |function: &str, operation, cause, peer| {
        let wait = Some((cause, peer, 60));
        vec![
            Builder::new(0, &[function]).call(0, (0, 60), operation, wait).0,
            Builder::new(1, &[function]).call(0, (40, 60), operation, None).0,
        ]
    };
    let mut received = late("MPI_Recv", None, WaitCause::LateSender, Some(1));
    // The receiver has no core when the message comes.
    with_message(&mut received, (1, 0), 40, 55);
    assert_eq!(wait_of(&received), (WaitKind::LateSender, 40));
    let mut sent = late("MPI_Send", None, WaitCause::LateReceiver, Some(1));
    with_message(&mut sent, (0, 1), 0, 40);
    assert_eq!(wait_of(&sent), (WaitKind::LateReceiver, 40));
    for peer in [None, Some(1)] {
        let reduced = late("MPI_Allreduce", Some(0), WaitCause::Members, peer);
        assert_eq!(wait_of(&reduced), (WaitKind::WaitAtNxN, 40));
    }
    // The member that passes data on was there, and waited for the late one.
    let mut chain = late("MPI_Reduce", Some(0), WaitCause::Members, Some(2));
    chain.push(Builder::new(2, &["MPI_Reduce"]).call(0, (0, 60), Some(0), None).0);
    assert_eq!(wait_of(&chain), (WaitKind::EarlyReduce, 40));
    // Nobody has recorded when the owner of a window came.
    let locked = late("MPI_Win_lock", None, WaitCause::Window, Some(1));
    assert_eq!(wait_of(&locked), (WaitKind::WaitForWindow, 60));
}

#[test]
fn a_wait_for_data_of_members_that_have_come_is_no_wait_for_them() {
    let wait = Some((WaitCause::Members, Some(1), 20));
    let traces = [
        Builder::new(0, &["MPI_Reduce"]).call(0, (0, 60), Some(0), wait).0,
        Builder::new(1, &["MPI_Reduce"]).call(0, (30, 60), Some(0), None).0,
    ];
    let waits = Findings::of(&traces).waits;
    let [wait] = waits.as_slice() else { panic!("{waits:?}") };
    assert_eq!((wait.kind, wait.awaited), (WaitKind::Other, Some(1)));
}

#[test]
fn efficiencies_are_products() {
    let findings = Findings::of(&late_sender());
    let Efficiency { parallel, load_balance, communication, serialisation, transfer } =
        findings.efficiency;
    // Rank 0 computes 40 of 80 ms, rank 1 60 of 80.
    assert!((parallel - 0.625).abs() < 1e-9, "{parallel}");
    assert!((load_balance - 50.0 / 60.0).abs() < 1e-9, "{load_balance}");
    assert!((communication - 0.75).abs() < 1e-9, "{communication}");
    // The message takes no time: 60 ms on rank 1, then 20 ms on rank 0.
    assert!((serialisation - 0.75).abs() < 1e-9, "{serialisation}");
    assert!((transfer - 1.0).abs() < 1e-9, "{transfer}");
}

/// Adds a message from rank 0 to rank 1, sent and matched at these milliseconds.
fn with_message(traces: &mut [AlignedTrace], (from, to): (usize, usize), sent: u64, matched: u64) {
    let message = |peer: usize| {
        let peer = peer as u32;
        TracedMessage { thread: 7, context: 3, peer, tag: 1, bytes: 8, number: 0 }
    };
    for (rank, time, event) in [
        (from, sent, TraceEvent::Sent(message(to))),
        (to, matched, TraceEvent::Matched(message(from))),
    ] {
        let events = &mut traces[rank].events;
        // After the beginnings of calls at this time, and before their ends.
        let is_later = |(at, other): &(u64, TraceEvent)| {
            *at > time * MS
                || *at == time * MS
                    && !matches!(other, TraceEvent::CallBegan { .. } | TraceEvent::Matched(_))
        };
        let place = events.iter().position(is_later).unwrap_or(events.len());
        events.insert(place, (time * MS, event));
    }
}

/// Both ranks compute 50 ms, and their messages take 50 ms.
#[test]
fn slow_messages_lower_the_transfer_efficiency() {
    let mut traces: Vec<AlignedTrace> = (0..2)
        .map(|rank| {
            let wait = Some((WaitCause::LateSender, Some(1 - rank), 50));
            Builder::new(rank, &["MPI_Sendrecv"]).call(0, (50, 100), None, wait).0
        })
        .collect();
    for trace in &mut traces {
        trace.events.insert(0, (0, TraceEvent::PhaseEnded));
    }
    with_message(&mut traces, (0, 1), 50, 100);
    with_message(&mut traces, (1, 0), 50, 100);
    let Efficiency { parallel, load_balance, serialisation, transfer, .. } =
        Findings::of(&traces).efficiency;
    for (found, expected) in
        [(parallel, 0.5), (load_balance, 1.0), (serialisation, 1.0), (transfer, 0.5)]
    {
        assert!((found - expected).abs() < 1e-9, "{:?}", Findings::of(&traces).efficiency);
    }
}

/// Rank 1 works when rank 0 has ended its work, and rank 0 waits until rank 1 receives.
#[test]
fn work_in_turns_lowers_the_serialisation_efficiency() {
    let wait = Some((WaitCause::LateSender, Some(0), 50));
    let receiver = Builder::new(1, &["MPI_Recv"]).call(0, (0, 50), None, wait);
    let mut traces =
        vec![Builder::new(0, &["MPI_Send"]).call(0, (50, 50), None, None).0, receiver.0];
    for trace in &mut traces {
        trace.events.insert(0, (0, TraceEvent::PhaseEnded));
        trace.events.push((100 * MS, TraceEvent::PhaseEnded));
    }
    // After its send, rank 0 computes no longer.
    let finalize = |rank: usize, begun: u64| {
        let call = TraceEvent::CallBegan { thread: 7, place: 0, operation: None };
        (rank, (begun * MS, call))
    };
    for (rank, event) in [finalize(0, 50), finalize(1, 100)] {
        let place = traces[rank].events.len() - 1;
        traces[rank].events.insert(place, event);
    }
    with_message(&mut traces, (0, 1), 50, 50);
    let Efficiency { parallel, load_balance, serialisation, transfer, .. } =
        Findings::of(&traces).efficiency;
    for (found, expected) in
        [(parallel, 0.5), (load_balance, 1.0), (serialisation, 0.5), (transfer, 1.0)]
    {
        assert!((found - expected).abs() < 1e-9, "{:?}", Findings::of(&traces).efficiency);
    }
}

/// A send that waits for its receive is no slow message.
#[test]
fn a_late_receiver_lowers_the_serialisation_efficiency() {
    let wait = Some((WaitCause::LateReceiver, Some(1), 80));
    let mut traces = vec![
        Builder::new(0, &["MPI_Ssend"]).call(0, (20, 100), None, wait).0,
        Builder::new(1, &["MPI_Recv"]).call(0, (100, 100), None, None).0,
    ];
    for trace in &mut traces {
        trace.events.insert(0, (0, TraceEvent::PhaseEnded));
        trace.events.push((150 * MS, TraceEvent::PhaseEnded));
    }
    // Rank 0 computes 20 and then 50 ms, rank 1 computes 100 ms and is in MPI afterwards.
    let call = TraceEvent::CallBegan { thread: 7, place: 0, operation: None };
    let place = traces[1].events.len() - 1;
    traces[1].events.insert(place, (100 * MS, call));
    with_message(&mut traces, (0, 1), 20, 100);
    let Efficiency { serialisation, transfer, .. } = Findings::of(&traces).efficiency;
    assert!((serialisation - 100.0 / 150.0).abs() < 1e-9, "{serialisation}");
    assert!((transfer - 1.0).abs() < 1e-9, "{transfer}");
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
    let first = path[0].described();
    assert_eq!(first, "computing until MPI_Send in main (a.c:1)", "{path:?}");
}

/// Rank 0 waits for the message with number 1 while the one with number 0, which it receives
/// afterwards, is there; with `sent` it was sent at this millisecond.
fn out_of_order(sent: u64) -> Vec<WaitKind> {
    let wait = Some((WaitCause::LateSender, Some(1), 40));
    let mut traces = vec![
        Builder::new(0, &["MPI_Recv"])
            .call(0, (20, 60), None, wait)
            .call(0, (60, 61), None, None)
            .0,
        Builder::new(1, &["MPI_Send"]).call(0, (0, 60), None, None).0,
    ];
    for (number, sent, matched) in [(0, sent, 61), (1, 59, 60)] {
        let message =
            |peer| TracedMessage { thread: 7, context: 3, peer, tag: 1, bytes: 8, number };
        traces[1].events.push((sent * MS, TraceEvent::Sent(message(0))));
        traces[0].events.push((matched * MS, TraceEvent::Matched(message(1))));
    }
    traces.iter_mut().for_each(|trace| trace.events.sort_by_key(|(time, _)| *time));
    Findings::of(&traces).waits.iter().map(|wait| wait.kind).collect()
}

#[test]
fn a_wait_is_in_wrong_order_if_an_older_message_was_there() {
    assert_eq!(out_of_order(10), [WaitKind::WrongOrder]);
    assert_eq!(out_of_order(30), [WaitKind::LateSender], "it was sent during the wait");
}

#[test]
fn the_kinds_follow_the_functions() {
    let kind = |function| WaitKind::of(WaitCause::Members, function);
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
    trace.names = vec!["one".to_owned()];
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
                cause: WaitCause::Members,
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
