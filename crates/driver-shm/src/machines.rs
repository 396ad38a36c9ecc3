//! Pretended machines, on which the choice of ways is tested.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Copying, MiddleWay, Settings, When};
use memory_costs::{
    AccessCondition, CostTable, Curve, Distance, LineState, MemoryOperation, Met, SYSTEM_COPIES,
    SentBytes,
};

use crate::copying::CopyStatistics;
use crate::methods::LocalWay;
use crate::middle::{MiddleChoice, MiddleStatistics, SenderState, row};

/// The costs of a machine at one distance of its cores, in picoseconds per byte where no other unit
/// is named.
#[derive(Clone, Copy)]
struct Machine {
    crossing_ns: f64,
    own_load: f64,
    own_store: f64,
    /// Reading lines that the other core has written, and taking such lines to write them.
    others_load: f64,
    others_store: f64,
    /// Writing lines that the other core has read.
    shared_store: f64,
    past_caches: f64,
    memory_load: f64,
    /// One copy by the system: its call, and its bytes by the kind of copy.
    call_ns: f64,
    system: [f64; 3],
}

/// The AMD EPYC of decision 0097, with two cores near each other.
const AMD_NEAR: Machine = Machine {
    crossing_ns: 26.0,
    own_load: 8.7,
    own_store: 17.0,
    others_load: 22.0,
    others_store: 24.0,
    shared_store: 110.0,
    past_caches: 40.0,
    memory_load: 50.0,
    call_ns: 1700.0,
    system: [85.0, 75.0, 80.0],
};

/// The same, with cores far from each other.
const AMD_FAR: Machine = Machine {
    crossing_ns: 165.0,
    others_load: 37.0,
    others_store: 37.0,
    shared_store: 450.0,
    past_caches: 36.0,
    memory_load: 25.0,
    call_ns: 1900.0,
    system: [142.0, 75.0, 96.0],
    ..AMD_NEAR
};

/// An AMD EPYC of family 26, model 2 (Zen 5), with two near cores of a virtual machine.
const ZEN5: Machine = Machine {
    crossing_ns: 41.0,
    own_load: 8.0,
    own_store: 14.6,
    others_load: 10.0,
    others_store: 14.6,
    shared_store: 26.0,
    past_caches: 24.0,
    memory_load: 25.0,
    call_ns: 1150.0,
    system: [64.0, 62.0, 63.0],
};

/// The Intel processor of decision 0063: lines are slow, and the system is fast.
const INTEL: Machine = Machine {
    crossing_ns: 85.0,
    own_load: 6.0,
    own_store: 12.0,
    others_load: 86.0,
    others_store: 86.0,
    shared_store: 86.0,
    past_caches: 60.0,
    memory_load: 90.0,
    call_ns: 1100.0,
    system: [34.0, 33.0, 40.0],
};

/// An Intel Xeon of family 6, model 207 (Emerald Rapids), with two cores of a virtual machine: the
/// system copies what its receiver has read before in half of the time for fresh data.
const XEON5: Machine = Machine {
    crossing_ns: 139.0,
    own_load: 7.5,
    own_store: 21.0,
    others_load: 126.0,
    others_store: 129.0,
    shared_store: 86.0,
    past_caches: 87.0,
    memory_load: 122.0,
    call_ns: 800.0,
    system: [120.0, 53.0, 110.0],
};

/// The processor of decision 0063 with nearer cores, as in decision 0057.
const INTEL_NEAR: Machine = Machine {
    crossing_ns: 50.0,
    others_load: 25.0,
    others_store: 25.0,
    shared_store: 40.0,
    ..INTEL
};

/// All of them.
const MACHINES: [Machine; 6] = [AMD_NEAR, AMD_FAR, ZEN5, INTEL, INTEL_NEAR, XEON5];

impl Machine {
    fn table(&self) -> CostTable {
        use LineState::{Exclusive, Modified, Shared};
        use MemoryOperation::{Load, Store, StorePast};
        let curve = |fixed_ns: f64, cost: f64| {
            let at = |bytes: u64| (bytes, fixed_ns + bytes as f64 * cost / 1000.0);
            Curve::new([at(1 << 10), at(1 << 14), at(1 << 19)])
        };
        let curves = [
            (Load, Met::Own(Modified), self.own_load),
            (Load, Met::Other(Modified), self.others_load),
            (Load, Met::Memory, self.memory_load),
            (Store, Met::Own(Modified), self.own_store),
            (Store, Met::Own(Shared), self.shared_store),
            (Store, Met::Other(Modified), self.others_store),
            (StorePast, Met::Other(Exclusive), self.past_caches),
        ];
        let curves = curves
            .map(|(operation, met, cost)| (AccessCondition { operation, met }, curve(20.0, cost)));
        let mut copies = SYSTEM_COPIES.into_iter().zip(self.system);
        let copies = copies.by_ref().map(|(kind, cost)| (kind, curve(self.call_ns, cost)));
        let distance = Distance {
            crossing_ns: self.crossing_ns,
            curves: curves.into(),
            copies: copies.collect(),
        };
        let mut table = CostTable { copy: curve(0.0, self.own_store), ..CostTable::default() };
        table.learn(distance);
        table
    }

    /// Returns the time of a message of so many bytes, in nanoseconds.
    fn time(&self, way: LocalWay, bytes: usize) -> f64 {
        way.message(bytes as u64, SentBytes::Fresh).expect(&self.table()).unwrap()
    }

    /// Returns the time of a message of middle length; if it is announced and too long for the
    /// lane, in the fastest way for such messages.
    fn middle_time(&self, way: MiddleWay, bytes: usize) -> f64 {
        let ways = LocalWay::all_of(bytes as u64).into_iter();
        let is_meant = |one: &LocalWay| match (one, way) {
            (LocalWay::Middle(one), _) => *one == way,
            (LocalWay::Long(_), MiddleWay::ByReceiver) => true,
            _ => false,
        };
        ways.filter(is_meant).map(|way| self.time(way, bytes)).fold(f64::MAX, f64::min)
    }

    fn settings(&self) -> Settings {
        Settings { memory: Some(Arc::new(self.table())), ..Settings::default() }
    }

    fn first_middle(&self, bytes: usize) -> MiddleWay {
        let choice = MiddleChoice::new(&self.settings());
        let mut statistics = MiddleStatistics::new(choice, Duration::ZERO);
        let usable = (usable(bytes, SenderState::Waits), false);
        let way = statistics.begin(bytes, SenderState::Waits, usable, || true).unwrap();
        // Where the sender does not wait, a cell is preferred if it is about as fast.
        let later = statistics.begin(bytes, SenderState::Computes, usable, || true);
        assert!(later == Some(way) || later == Some(MiddleWay::InCell), "{later:?} and {way:?}");
        way
    }

    fn first_long(&self, bytes: usize) -> Copying {
        CopyStatistics::new(&self.settings()).begin(1, bytes as u64, None, Instant::now())
    }
}

/// Returns which ways a message of so many bytes can go, to a peer that gives cells back.
fn usable(bytes: usize, sender: SenderState) -> [bool; MiddleWay::ALL.len()] {
    let in_lane = sender != SenderState::Exchanges && bytes <= 64 << 10;
    MiddleWay::ALL.map(|way| way != MiddleWay::InFragments || in_lane)
}

/// The lengths of messages, in bytes.
const LENGTHS: [usize; 6] = [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10];

#[test]
fn messages_that_are_not_waited_for_are_left_to_the_receiver_where_the_pool_is_slow() {
    let is_left = |machine: &Machine, bytes| {
        let choice = MiddleChoice::new(&machine.settings());
        let mut statistics = MiddleStatistics::new(choice, Duration::ZERO);
        statistics.leave_to_receiver(bytes, 1, When::Later).is_some()
    };
    // The lane would be faster, but such messages do not go in it.
    for bytes in [32 << 10, 64 << 10] {
        assert!(is_left(&AMD_FAR, bytes) && is_left(&INTEL, bytes), "{bytes}");
    }
    assert!(!is_left(&INTEL_NEAR, 13 << 10));
}

/// Sends messages of so many bytes, of a sender in this state, for so many nanoseconds of pretended
/// time. Returns the mean time of a message.
fn run(
    statistics: &mut MiddleStatistics,
    machine: &Machine,
    (bytes, sender): (usize, SenderState),
    for_ns: f64,
) -> f64 {
    let times = MiddleWay::ALL.map(|way| machine.middle_time(way, bytes));
    let (mut elapsed, mut messages) = (0.0, 0.0);
    while elapsed < for_ns {
        let usable = (usable(bytes, sender), false);
        let way = statistics.begin(bytes, sender, usable, || true).unwrap();
        let time = times[way as usize];
        statistics.end_after(Duration::from_nanos(time as u64));
        (elapsed, messages) = (elapsed + time, messages + 1.0);
    }
    elapsed / messages
}

fn fastest(machine: &Machine, (bytes, sender): (usize, SenderState)) -> f64 {
    let usable = MiddleWay::ALL.into_iter().filter(|way| usable(bytes, sender)[*way as usize]);
    usable.map(|way| machine.middle_time(way, bytes)).fold(f64::MAX, f64::min)
}

const MS: f64 = 1e6;

#[test]
fn each_machine_has_choices_of_its_own_from_the_first_message_on() {
    use MiddleWay::{ByReceiver, InCell};
    for machine in [AMD_NEAR, AMD_FAR] {
        for bytes in LENGTHS {
            let fastest = fastest(&machine, (bytes, SenderState::Waits));
            // No copy by the kernel alone or jointly, and where something else is predicted to be
            // faster than a cell, both take about as long. In a cell, the shortest are not divided.
            let most = if bytes <= 32 << 10 { 1.25 } else { 1.03 };
            let way = machine.first_middle(bytes);
            for way in [way, InCell] {
                let time = machine.middle_time(way, bytes);
                assert!(time < most * fastest, "{bytes} {way:?}: {time} and {fastest}");
            }
        }
    }
    let chosen = LENGTHS.map(|bytes| ZEN5.first_middle(bytes));
    assert!(!chosen[..3].contains(&ByReceiver), "the system is slow: {chosen:?}");
    let chosen = LENGTHS.map(|bytes| INTEL.first_middle(bytes));
    assert_eq!(chosen[1..], [ByReceiver; 5], "the kernel copies all but the shortest");
    assert_ne!(chosen[0], ByReceiver);
    for machine in [INTEL_NEAR, XEON5] {
        assert!(LENGTHS[..3].iter().all(|bytes| machine.first_middle(*bytes) != ByReceiver));
    }
    for megabytes in [1, 4] {
        assert_eq!(XEON5.first_long(megabytes << 20), Copying::Jointly, "each core reads half");
        let [near, far, intel] =
            [AMD_NEAR, AMD_FAR, INTEL].map(|machine| machine.first_long(megabytes << 20));
        assert_eq!((far, intel), (Copying::PipedPastCaches, Copying::Jointly));
        assert_eq!(near, Copying::Packets, "lines are never dear");
        let zen5 = ZEN5.first_long(megabytes << 20);
        assert!(![Copying::Once, Copying::Jointly].contains(&zen5), "{zen5:?}: the system is slow");
    }
}

/// All lengths, of senders that wait and of those that do not.
fn messages() -> impl Iterator<Item = (usize, SenderState)> {
    let exchanged = LENGTHS[2..].iter().map(|bytes| (*bytes, SenderState::Exchanges));
    LENGTHS.map(|bytes| (bytes, SenderState::Waits)).into_iter().chain(exchanged)
}

#[test]
fn figures_of_another_machine_cost_at_most_a_tenth_after_100_ms() {
    for (expected, real) in MACHINES.iter().flat_map(|one| MACHINES.map(|other| (one, other))) {
        for message in messages() {
            let choice = MiddleChoice::new(&expected.settings());
            let mut statistics = MiddleStatistics::new(choice, Duration::ZERO);
            run(&mut statistics, &real, message, 100.0 * MS);
            let mean = run(&mut statistics, &real, message, 100.0 * MS);
            let best = fastest(&real, message);
            assert!(mean < 1.1 * best, "{message:?}: {mean} and {best}");
        }
    }
}

#[test]
fn cores_that_move_are_followed_within_100_ms() {
    for (one, other) in [(AMD_NEAR, AMD_FAR), (INTEL, INTEL_NEAR), (INTEL_NEAR, AMD_FAR)] {
        for message in messages() {
            let choice = MiddleChoice::new(&one.settings());
            let mut statistics = MiddleStatistics::new(choice, Duration::ZERO);
            for machine in [one, other, one, other, one] {
                run(&mut statistics, &machine, message, 100.0 * MS);
                let mean = run(&mut statistics, &machine, message, 300.0 * MS);
                let best = fastest(&machine, message);
                assert!(mean < 1.1 * best, "{message:?}: {mean} and {best}");
            }
        }
    }
}

/// Fetches messages for so many nanoseconds of pretended time. Returns the mean time of a message.
fn fetch(choice: &mut CopyStatistics, machine: &Machine, bytes: usize, for_ns: f64) -> f64 {
    let times = Copying::ALL.map(|way| machine.time(LocalWay::Long(way), bytes));
    let (begin, mut elapsed, mut messages) = (Instant::now(), 0.0, 0.0);
    while elapsed < for_ns {
        let at = |elapsed: f64| begin + Duration::from_nanos(elapsed as u64);
        let way = choice.begin(1, bytes as u64, None, at(elapsed));
        (elapsed, messages) = (elapsed + times[way as usize], messages + 1.0);
        choice.note_complete(at(elapsed), |_| true, |_, _| ());
    }
    elapsed / messages
}

/// Sends messages that go in cells, or are announced and copied as their receiver chooses, for so
/// many nanoseconds of pretended time. Returns the mean time of a message.
fn send_long(
    (sender, receiver): &mut (MiddleStatistics, CopyStatistics),
    machine: &Machine,
    (bytes, state): (usize, SenderState),
    for_ns: f64,
) -> f64 {
    let in_cell = machine.middle_time(MiddleWay::InCell, bytes);
    let announced = Copying::ALL.map(|way| machine.time(LocalWay::Long(way), bytes));
    let (mut elapsed, mut messages, mut in_cells) = (0.0, 0.0, 0);
    let begin = Instant::now();
    while elapsed < for_ns {
        let at = |elapsed: f64| begin + Duration::from_nanos(elapsed as u64);
        let way = sender.begin(bytes, state, (usable(bytes, state), false), || true).unwrap();
        let time = if way == MiddleWay::InCell {
            in_cell
        } else {
            let trial = (in_cells > row(bytes)).then(|| row(bytes));
            let way = receiver.begin(1, bytes as u64, trial, at(elapsed));
            announced[way as usize]
        };
        (elapsed, messages) = (elapsed + time, messages + 1.0);
        receiver.note_complete(at(elapsed), |_| true, |_, _| ());
        sender.end_after(Duration::from_nanos(time as u64));
        in_cells = if way == MiddleWay::InCell { in_cells + 1 } else { 0 };
    }
    elapsed / messages
}

#[test]
fn senders_that_use_cells_and_receivers_find_the_fastest_way_together() {
    let both = |machine: &Machine| {
        let choice = MiddleChoice::new(&machine.settings());
        let sender = MiddleStatistics::new(choice, Duration::ZERO);
        (sender, CopyStatistics::new(&machine.settings()))
    };
    let check = |statistics: &mut _, machine: &Machine, bytes: usize, state: SenderState| {
        send_long(statistics, machine, (bytes, state), 100.0 * MS);
        let mean = send_long(statistics, machine, (bytes, state), 300.0 * MS);
        let best = fastest(machine, (bytes, state));
        assert!(mean < 1.1 * best, "{bytes} {state:?}: {mean} and {best}");
    };
    for bytes in [128 << 10, 512 << 10] {
        for state in [SenderState::Waits, SenderState::Exchanges] {
            for (expected, real) in
                MACHINES.iter().flat_map(|one| MACHINES.map(|other| (one, other)))
            {
                check(&mut both(expected), &real, bytes, state);
            }
            for (one, other) in [(AMD_NEAR, AMD_FAR), (INTEL, INTEL_NEAR), (INTEL_NEAR, AMD_FAR)] {
                let mut statistics = both(&one);
                for machine in [one, other, one, other, one] {
                    check(&mut statistics, &machine, bytes, state);
                }
            }
        }
    }
}

fn fastest_long(machine: &Machine, bytes: usize) -> f64 {
    let times = Copying::ALL.map(|way| machine.time(LocalWay::Long(way), bytes));
    times.into_iter().fold(f64::MAX, f64::min)
}

#[test]
fn wrong_figures_for_long_messages_are_corrected_and_moves_are_followed_too() {
    let check = |choice: &mut CopyStatistics, machine: &Machine, bytes| {
        fetch(choice, machine, bytes, 100.0 * MS);
        let mean = fetch(choice, machine, bytes, 300.0 * MS);
        let best = fastest_long(machine, bytes);
        assert!(mean < 1.1 * best, "{bytes}: {mean} and {best}");
    };
    for (expected, real) in MACHINES.iter().flat_map(|one| MACHINES.map(|other| (one, other))) {
        for bytes in [1 << 20, 4 << 20, 8 << 20] {
            check(&mut CopyStatistics::new(&expected.settings()), &real, bytes);
        }
    }
    for (one, other) in [(AMD_NEAR, AMD_FAR), (INTEL, INTEL_NEAR)] {
        for bytes in [1 << 20, 2 << 20, 4 << 20] {
            let mut choice = CopyStatistics::new(&one.settings());
            [one, other, one, other].iter().for_each(|machine| check(&mut choice, machine, bytes));
        }
    }
}
