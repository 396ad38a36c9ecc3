//! The costs of steps of collective operations inside a machine, as the costs of its memory predict
//! them.
//!
//! Why: docs/internals/decisions/0141-collectives-use-the-costs-of-memory.md

use collectives::Costs;
use drivers::LocalWay;
use memory_costs::LineState::{Modified, Shared};
use memory_costs::MemoryOperation::{Load, Store};
use memory_costs::Met::{Memory, Other, Own};
use memory_costs::{AccessCondition, CostTable, Curve, Distance, SentBytes, SystemCopy};

/// Lines through two lengths represent the costs, in bytes: those between which the choice of an
/// algorithm matters most.
const SHORT: u64 = 32 << 10;
const LONG: u64 = 128 << 10;

/// The length of a message that goes in packets, and those of messages that go in announced pieces,
/// in bytes: the longer one exceeds the blocks that are measured.
const IN_PACKETS: u64 = 16 << 10;
const ANNOUNCED: [u64; 2] = [64 << 10, 1 << 20];

/// The length of the longest block that the first job on a machine measures, in bytes.
const MEASURED: u64 = 512 << 10;

/// Returns the costs with those of data inside a machine replaced by predictions from the costs of
/// its memory. Costs that the table does not have keep their values.
pub(super) fn predicted(costs: Costs, table: &CostTable) -> Costs {
    let mut predicted = costs;
    add_slots(&mut predicted, table);
    add_single_copies(&mut predicted, table);
    add_messages(&mut predicted, table);
    if predicted.are_plausible() { predicted } else { costs }
}

/// Data that goes through slots: each member writes lines that others have read, and reads lines
/// that others have written.
fn add_slots(costs: &mut Costs, table: &CostTable) {
    let access = |operation, met| {
        mean(table, |distance| distance.curves.get(&AccessCondition::of(operation, met))?.at(SHORT))
    };
    let written = access(Store, Own(Shared));
    let read = access(Load, Other(Modified));
    if let Some((written, read)) = written.zip(read) {
        costs.slot_ps = ps_per_byte((written + read) / 2.0, SHORT);
    }
    let loaded = access(Load, Own(Modified));
    let stored = access(Store, Own(Modified));
    if let Some((loaded, stored)) = loaded.zip(stored) {
        costs.reduce_ps = ps_per_byte(2.0 * loaded + stored, SHORT);
    }
    if let Some(copied) = table.copy.at(SHORT) {
        costs.own_slot_ps = ps_per_byte(copied, SHORT).min(costs.slot_ps);
    }
}

/// A single copy by the system. Whether the data was written since the last copy is not known, so
/// the cost is the geometric mean of both cases, from which each differs by one factor.
fn add_single_copies(costs: &mut Costs, table: &CostTable) {
    let copy = |bytes| {
        mean(table, |Distance { copies, .. }| {
            let at = |kind| copies.get(&kind).and_then(|curve: &Curve| curve.at(bytes));
            let (fresh, again) = (at(SystemCopy::Fetched)?, at(SystemCopy::FetchedAgain)?);
            Some((fresh * again).sqrt())
        })
    };
    if let Some((short, long)) = copy(SHORT).zip(copy(LONG)) {
        (costs.fetch_ns, costs.fetch_ps) = line((SHORT, short), (LONG, long));
    }
}

/// A message in packets, and an announced one, each in the fastest way.
fn add_messages(costs: &mut Costs, table: &CostTable) {
    let message = |bytes| message_time(table, bytes);
    let fixed = (2 * costs.packet_ns + costs.latency_ns) as f64;
    if let Some(time) = message(IN_PACKETS) {
        costs.copy_ps = ps_per_byte((time - fixed) / 2.0, IN_PACKETS);
    }
    let [short, long] = ANNOUNCED;
    if let Some((first, last)) = message(short).zip(message(long)) {
        let (ns, ps) = line((short, first), (long, last));
        let own = costs.packet_ns + costs.latency_ns;
        (costs.announced_ns, costs.pipe_ps) = (ns.saturating_sub(own).max(1), ps);
    }
}

/// Returns the time of a message of `bytes` bytes, in nanoseconds. The buffers and the shared
/// memory of a longer message than the blocks that are measured may exceed the caches: each further
/// byte takes no less time than its load from memory and its store.
fn message_time(table: &CostTable, bytes: u64) -> Option<f64> {
    let fastest = fastest_message(table, bytes)?;
    let access = |operation, met| {
        let condition = AccessCondition::of(operation, met);
        mean(table, |distance| distance.curves.get(&condition)?.at(MEASURED))
    };
    let copied = access(Load, Memory).zip(access(Store, Own(Modified)));
    let Some((loaded, stored)) = copied.filter(|_| bytes > MEASURED) else { return Some(fastest) };
    let further = (loaded + stored) * (bytes - MEASURED) as f64 / MEASURED as f64;
    Some(fastest.max(fastest_message(table, MEASURED)? + further))
}

/// Returns the time of a message of `bytes` bytes by the fastest method, in nanoseconds.
fn fastest_message(table: &CostTable, bytes: u64) -> Option<f64> {
    let ways = LocalWay::all_of(bytes).into_iter();
    let times = ways.filter_map(|way| way.message(bytes, SentBytes::Fresh).expect(table));
    times.min_by(f64::total_cmp)
}

/// Returns the mean over all distances of the table; `None` if one of them has no such figure.
fn mean(table: &CostTable, of: impl Fn(&Distance) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = table.distances.iter().map(of).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
}

/// Returns the nanoseconds of a line at no bytes, and its picoseconds per byte.
fn line(short: (u64, f64), long: (u64, f64)) -> (u64, u64) {
    let per_byte = ((long.1 - short.1) / (long.0 - short.0) as f64).max(0.0);
    let begin = (short.1 - per_byte * short.0 as f64).max(1.0);
    (begin.round() as u64, ((1000.0 * per_byte).round() as u64).max(1))
}

fn ps_per_byte(ns: f64, bytes: u64) -> u64 {
    ((1000.0 * ns / bytes as f64).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    use collectives::board::{RegionSupport, SlotCapacities};
    use collectives::{Algorithm, CollectiveCall, InputPlace, Member, Operands, Situation};
    use memory_costs::{CONDITIONS, SYSTEM_COPIES, SystemCosts};

    /// A machine on which a line of another core costs `line_ps` per byte, one of the own core 20,
    /// and a single copy by the system 600 ns and `system_ps` per byte.
    fn machine(line_ps: f64, system_ps: f64) -> CostTable {
        let curve = |ns: f64, ps: f64| {
            Curve::new([12, 15, 17, 19].map(|bit| (1 << bit, ns + f64::from(1 << bit) * ps / 1e3)))
        };
        let cost = |condition: &AccessCondition| match (condition.operation, condition.met) {
            (Store, Own(Shared)) | (_, Other(_)) => line_ps,
            _ => 20.0,
        };
        let mut table = CostTable { copy: curve(0.0, 25.0), ..CostTable::default() };
        table.learn(Distance {
            crossing_ns: 60.0,
            curves: CONDITIONS.map(|condition| (condition, curve(0.0, cost(&condition)))).into(),
            copies: SYSTEM_COPIES.map(|kind| (kind, curve(600.0, system_ps))).into(),
        });
        table.system = SystemCosts { copy_call_ns: 600.0, ..SystemCosts::default() };
        table
    }

    #[test]
    fn steps_follow_the_costs_of_memory() {
        let costs = predicted(Costs::default(), &machine(100.0, 60.0));
        assert_eq!((costs.slot_ps, costs.own_slot_ps, costs.reduce_ps), (100, 25, 60));
        assert_eq!((costs.fetch_ns, costs.fetch_ps), (600, 60));
        let Costs { packet_ns, latency_ns, copy_ps, announced_ns, pipe_ps, .. } = costs;
        let in_packets = 2 * packet_ns + latency_ns + 2 * copy_ps * IN_PACKETS / 1000;
        let announced = |bytes| packet_ns + latency_ns + announced_ns + pipe_ps * bytes / 1000;
        let [short, long] = ANNOUNCED;
        let all = [(IN_PACKETS, in_packets), (short, announced(short)), (long, announced(long))];
        for (bytes, time) in all {
            let expected = message_time(&machine(100.0, 60.0), bytes).unwrap();
            assert!((time as f64 / expected - 1.0).abs() < 0.02, "{bytes}: {time}, {expected}");
        }
        let Costs { packet_ns, latency_ns, flag_ns, turn_ns, far_ps, .. } = Costs::default();
        let kept = [costs.packet_ns, costs.latency_ns, costs.flag_ns, costs.turn_ns, costs.far_ps];
        assert_eq!(kept, [packet_ns, latency_ns, flag_ns, turn_ns, far_ps]);
    }

    /// What the first job on a virtual machine with an Intel Xeon (family 6, model 207) measured.
    fn xeon() -> CostTable {
        let curve =
            |ns: [f64; 4]| Curve::new([4, 32, 128, 512].map(|kib| kib << 10).into_iter().zip(ns));
        let curves = [
            (Load, Own(Modified), [61.0, 266.0, 2202.0, 8026.0]),
            (Load, Other(Modified), [624.0, 4094.0, 10866.0, 28664.0]),
            (Load, Memory, [595.0, 4566.0, 17619.0, 54957.0]),
            (Store, Own(Modified), [99.0, 698.0, 3447.0, 13894.0]),
            (Store, Own(Shared), [435.0, 2611.0, 10198.0, 29948.0]),
            (Store, Other(Modified), [623.0, 4142.0, 12875.0, 34633.0]),
        ];
        let copies = [
            (SystemCopy::Fetched, [1604.0, 6253.0, 17591.0, 76676.0]),
            (SystemCopy::FetchedAgain, [736.0, 2068.0, 6862.0, 40457.0]),
            (SystemCopy::Given, [1278.0, 6038.0, 15208.0, 45962.0]),
        ];
        let curves =
            curves.map(|(operation, met, ns)| (AccessCondition::of(operation, met), curve(ns)));
        let mut table =
            CostTable { copy: curve([38.0, 820.0, 3552.0, 13725.0]), ..CostTable::default() };
        table.learn(Distance {
            crossing_ns: 108.4,
            curves: curves.into(),
            copies: copies.map(|(kind, ns)| (kind, curve(ns))).into(),
        });
        table.system = SystemCosts { copy_call_ns: 722.0, copy_page_ns: 77.0, page_fault_ns: 0.0 };
        table
    }

    /// What the first job on a virtual machine with an AMD EPYC (family 26, model 2) measured.
    fn epyc() -> CostTable {
        let curve =
            |ns: [f64; 4]| Curve::new([4, 32, 128, 512].map(|kib| kib << 10).into_iter().zip(ns));
        let curves = [
            (Load, Own(Modified), [20.0, 240.0, 1012.0, 3845.0]),
            (Load, Other(Modified), [500.0, 1472.0, 3696.0, 12709.0]),
            (Load, Memory, [20.0, 391.0, 3165.0, 13280.0]),
            (Store, Own(Modified), [60.0, 461.0, 1822.0, 7281.0]),
            (Store, Own(Shared), [761.0, 4557.0, 16455.0, 62403.0]),
            (Store, Other(Modified), [300.0, 1202.0, 3485.0, 12438.0]),
        ];
        let copies = [
            (SystemCopy::Fetched, [2063.0, 4096.0, 11137.0, 45138.0]),
            (SystemCopy::FetchedAgain, [1261.0, 2784.0, 8022.0, 30406.0]),
            (SystemCopy::Given, [1302.0, 4066.0, 13580.0, 51367.0]),
        ];
        let curves =
            curves.map(|(operation, met, ns)| (AccessCondition::of(operation, met), curve(ns)));
        let mut table =
            CostTable { copy: curve([50.0, 241.0, 961.0, 5428.0]), ..CostTable::default() };
        table.learn(Distance {
            crossing_ns: 240.0,
            curves: curves.into(),
            copies: copies.map(|(kind, ns)| (kind, curve(ns))).into(),
        });
        table.system = SystemCosts { copy_call_ns: 960.0, copy_page_ns: 182.0, page_fault_ns: 0.0 };
        table
    }

    /// The fastest algorithm of two processes for operands or data of `bytes` bytes.
    fn chosen(
        table: &CostTable,
        call: impl Fn(Operands) -> CollectiveCall,
        bytes: usize,
    ) -> Algorithm {
        chosen_among(2, table, call, bytes)
    }

    /// The fastest algorithm of so many processes on two cores.
    fn chosen_among(
        size: u32,
        table: &CostTable,
        call: impl Fn(Operands) -> CollectiveCall,
        bytes: usize,
    ) -> Algorithm {
        let costs = predicted(Costs::default(), table);
        let plain = Situation::plain(size);
        let situation = Situation { costs, cores: 2, oversubscribed: size > 2, ..plain };
        let member = Member { rank: 0, size, situation: &situation };
        let call = call(Operands { count: bytes / 8, element_bytes: 8, commutative: true });
        let slots = SlotCapacities::new(RegionSupport::Possible);
        collectives::candidates(&call, member, Some(slots))[0].algorithm
    }

    #[test]
    fn long_data_on_the_xeon_is_copied_once() {
        let input = InputPlace::SendBuffer;
        for bytes in [512 << 10, 1 << 20] {
            let bcast = |data: Operands| CollectiveCall::Bcast { root: 0, bytes: data.bytes() };
            assert_eq!(chosen(&xeon(), bcast, bytes), Algorithm::Direct, "bcast of {bytes}");
            let allreduce = |operands| CollectiveCall::Allreduce { operands, input };
            assert_eq!(
                chosen(&xeon(), allreduce, bytes),
                Algorithm::Direct,
                "allreduce of {bytes}"
            );
        }
        let reduce = |operands| CollectiveCall::Reduce { root: 0, operands, input };
        assert_eq!(chosen(&xeon(), reduce, 1 << 20), Algorithm::Direct);
    }

    /// A message of 64 KiB takes 1.5 to 3 µs there, and a single copy by the system 5.
    #[test]
    fn blocks_of_a_root_go_as_messages_where_these_are_faster_than_single_copies() {
        let input = InputPlace::SendBuffer;
        let gather =
            |data: Operands| CollectiveCall::Gather { root: 0, block_bytes: data.bytes(), input };
        let scatter =
            |data: Operands| CollectiveCall::Scatter { root: 0, block_bytes: data.bytes(), input };
        for bytes in [32 << 10, 64 << 10, 256 << 10, 1 << 20] {
            assert_ne!(chosen(&epyc(), gather, bytes), Algorithm::Direct, "gather of {bytes}");
            assert_ne!(chosen(&epyc(), scatter, bytes), Algorithm::Direct, "scatter of {bytes}");
        }
        assert_eq!(chosen(&xeon(), gather, 64 << 10), Algorithm::Direct);
        assert_eq!(chosen(&xeon(), scatter, 64 << 10), Algorithm::Direct);
    }

    /// Four processes take turns on two cores there: 64 KiB take 6 µs as messages in a broadcast,
    /// 19 in an allgather and 22 in an alltoall, and 10, 35 and 36 by single copies.
    #[test]
    fn processes_that_share_cores_copy_once_only_where_messages_are_slower() {
        let input = InputPlace::SendBuffer;
        let calls: [&dyn Fn(Operands) -> CollectiveCall; 4] = [
            &|data| CollectiveCall::Bcast { root: 0, bytes: data.bytes() },
            &|data| CollectiveCall::Gather { root: 0, block_bytes: data.bytes(), input },
            &|data| CollectiveCall::Allgather { block_bytes: data.bytes(), input },
            &|data| CollectiveCall::Alltoall { block_bytes: data.bytes(), input },
        ];
        for call in calls {
            let algorithm = chosen_among(4, &epyc(), call, 64 << 10);
            let of = call(Operands { count: 1, element_bytes: 8, commutative: true });
            assert_ne!(algorithm, Algorithm::Direct, "{of:?}");
        }
    }

    #[test]
    fn an_empty_table_changes_nothing() {
        assert_eq!(predicted(Costs::default(), &CostTable::default()), Costs::default());
    }

    #[test]
    fn each_machine_gets_the_algorithms_that_suit_it() {
        let allreduce =
            |operands| CollectiveCall::Allreduce { operands, input: InputPlace::SendBuffer };
        let algorithm = |table: &CostTable| chosen(table, allreduce, 64 << 10);
        assert_eq!(algorithm(&machine(100.0, 30.0)), Algorithm::Direct);
        assert_ne!(algorithm(&machine(20.0, 400.0)), Algorithm::Direct);
    }
}
