//! Tests of reductions, compared with folding in the order of ranks.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use datatype::reduction::Operator;
use datatype::{Datatype, Predefined};
use memory::Buffer;
use proptest::prelude::*;

use super::world::{Elements, World};
use crate::collective::Root;
use crate::collective::reduction::{self, Reduction};
use crate::operation::Operation;

/// The operation and datatype of a test.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Sums of 64-bit integers.
    Sum,
    /// The maximum with its place, in a datatype with padding.
    MaximumLocation,
    /// Affine maps x -> a x + b, which do not commute, in a datatype with gaps that begins before
    /// its origin.
    Maps,
}

impl Kind {
    fn datatype(self) -> Arc<Datatype> {
        match self {
            Kind::Sum => Arc::clone(Datatype::named(Predefined::Int64)),
            Kind::MaximumLocation => Arc::clone(Datatype::named(Predefined::DoubleInt)),
            Kind::Maps => {
                let long = Datatype::named(Predefined::Int64);
                Datatype::hindexed(vec![1, 1], vec![-24, 16], long).unwrap()
            }
        }
    }

    fn operation(self) -> Rc<Operation> {
        Rc::new(match self {
            Kind::Sum => Operation::Predefined(Operator::Sum),
            Kind::MaximumLocation => Operation::Predefined(Operator::MaximumLocation),
            Kind::Maps => Operation::User { function: Rc::new(compose_all), commutative: false },
        })
    }

    fn element(self, rank: usize, index: usize) -> Vec<u8> {
        let value = (rank * 37 + index * 11) as i64 % 101;
        match self {
            Kind::Sum => value.to_ne_bytes().to_vec(),
            Kind::MaximumLocation => {
                [&(value as f64).to_ne_bytes()[..], &(rank as i32).to_ne_bytes()].concat()
            }
            Kind::Maps => [value.to_ne_bytes(), (value * 3 + 1).to_ne_bytes()].concat(),
        }
    }

    fn combine(self, left: &[u8], right: &[u8]) -> Vec<u8> {
        match self {
            Kind::Sum => (word(left, 0) + word(right, 0)).to_ne_bytes().to_vec(),
            Kind::MaximumLocation => {
                let key = |bytes: &[u8]| {
                    let value = f64::from_bits(word(bytes, 0) as u64);
                    (value, -i32::from_ne_bytes(bytes[8..12].try_into().unwrap()))
                };
                if key(left) >= key(right) { left.to_vec() } else { right.to_vec() }
            }
            Kind::Maps => compose(left, right),
        }
    }

    /// The elements `index` of the contributions of `ranks`, combined in order.
    fn folded(self, ranks: std::ops::RangeInclusive<usize>, index: usize) -> Vec<u8> {
        let elements = ranks.map(|rank| self.element(rank, index));
        elements.reduce(|left, right| self.combine(&left, &right)).unwrap()
    }

    fn contribution(self, rank: usize, count: usize) -> Vec<u8> {
        (0..count).flat_map(|index| self.element(rank, index)).collect()
    }
}

fn word(bytes: &[u8], at: usize) -> i64 {
    i64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap())
}

/// The map that applies `left` first and `right` after it.
fn compose(left: &[u8], right: &[u8]) -> Vec<u8> {
    let (a, b, c, d) = (word(left, 0), word(left, 1), word(right, 0), word(right, 1));
    let slope = a.wrapping_mul(c);
    let offset = b.wrapping_mul(c).wrapping_add(d);
    [slope.to_ne_bytes(), offset.to_ne_bytes()].concat()
}

fn compose_all(left: &Buffer, right: &Buffer, count: usize) {
    assert_eq!((left.len(), right.len()), (16 * count, 16 * count));
    for i in 0..count {
        let (mut first, mut second) = ([0; 16], [0; 16]);
        left.read(16 * i, &mut first);
        right.read(16 * i, &mut second);
        right.write(16 * i, &compose(&first, &second));
    }
}

#[derive(Clone, Debug)]
struct Case {
    size: u32,
    oversubscribed: bool,
    on_board: bool,
    root: u32,
    count: usize,
    counts: Vec<usize>,
    kind: Kind,
    in_place: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let kind = prop::sample::select(vec![Kind::Sum, Kind::MaximumLocation, Kind::Maps]);
    let count = prop_oneof![0..5_usize, Just(33), Just(600)];
    (1..10_u32, any::<(bool, bool)>(), any::<u32>(), count, kind, any::<bool>()).prop_flat_map(
        |(size, (oversubscribed, on_board), root, count, kind, in_place)| {
            prop::collection::vec(0..9_usize, size as usize).prop_map(move |counts| Case {
                size,
                oversubscribed,
                on_board,
                root: root % size,
                count,
                counts,
                kind,
                in_place,
            })
        },
    )
}

impl Case {
    fn world(&self) -> World {
        let world = World::new(self.size, self.oversubscribed);
        if self.on_board { world.with_board() } else { world }
    }

    fn ranks(&self) -> std::ops::Range<usize> {
        0..self.size as usize
    }

    fn last(&self) -> usize {
        self.size as usize - 1
    }

    /// The operands of all processes, `count` elements each.
    fn operands(&self, count: usize) -> Vec<Elements> {
        let datatype = self.kind.datatype();
        let one = |rank| Elements::new(&datatype, count, &self.kind.contribution(rank, count));
        self.ranks().map(one).collect()
    }

    fn reduction(&self, send: Option<&Elements>, receive: Option<&Elements>) -> Reduction {
        Reduction {
            send: send.map(|elements| elements.buffer.clone()),
            receive: receive.map(|elements| elements.buffer.clone()),
            combination: self.kind.operation().on(&self.kind.datatype()).unwrap(),
            datatype: Cow::Owned(self.kind.datatype()),
        }
    }

    /// Checks the result of a process. Receive buffers contain the operands at first, for
    /// operations in place.
    fn check(&self, received: &Elements, ranks: std::ops::RangeInclusive<usize>) {
        let expected: Vec<u8> =
            (0..self.count).flat_map(|index| self.kind.folded(ranks.clone(), index)).collect();
        received.check(&expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn reduce_folds_at_the_root(case in case()) {
        let (sent, received) = (case.operands(case.count), case.operands(case.count));
        let outcomes = case.world().run(|rank, communicator| {
            let root = rank == case.root as usize;
            let send = (!root || !case.in_place).then_some(&sent[rank]);
            let reduction = case.reduction(send, root.then_some(&received[rank]));
            reduction::reduce(communicator, Root::Rank(case.root), case.count, reduction).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        case.check(&received[case.root as usize], 0..=case.last());
        for (rank, sent) in sent.iter().enumerate() {
            sent.check(&case.kind.contribution(rank, case.count));
        }
    }

    #[test]
    fn allreduce_folds_everywhere(case in case()) {
        let (sent, received) = (case.operands(case.count), case.operands(case.count));
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then_some(&sent[rank]);
            let reduction = case.reduction(send, Some(&received[rank]));
            reduction::allreduce(communicator, case.count, reduction).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for received in &received {
            case.check(received, 0..=case.last());
        }
    }

    #[test]
    fn scan_folds_up_to_each_rank(case in case()) {
        let (sent, received) = (case.operands(case.count), case.operands(case.count));
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then_some(&sent[rank]);
            let reduction = case.reduction(send, Some(&received[rank]));
            reduction::scan(communicator, case.count, reduction).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for rank in case.ranks() {
            case.check(&received[rank], 0..=rank);
        }
    }

    #[test]
    fn exscan_folds_up_to_the_rank_before(case in case()) {
        let (sent, received) = (case.operands(case.count), case.operands(case.count));
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then_some(&sent[rank]);
            let reduction = case.reduction(send, Some(&received[rank]));
            reduction::exscan(communicator, case.count, reduction).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for rank in case.ranks().skip(1) {
            case.check(&received[rank], 0..=rank - 1);
        }
    }

    #[test]
    fn reduce_scatter_gives_each_its_share(case in case()) {
        let total: usize = case.counts.iter().sum();
        let (sent, received) = (case.operands(total), case.operands(total));
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then_some(&sent[rank]);
            let reduction = case.reduction(send, Some(&received[rank]));
            reduction::reduce_scatter(communicator, case.counts.clone(), reduction).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        let mut first = 0;
        for (received, count) in received.iter().zip(&case.counts) {
            let indices = first..first + count;
            let expected: Vec<u8> =
                indices.flat_map(|index| case.kind.folded(0..=case.last(), index)).collect();
            prop_assert_eq!(&received.packed()[..expected.len()], &expected);
            first += count;
        }
    }

    #[test]
    fn reduce_scatter_block_gives_each_an_equal_share(case in case()) {
        let total = case.count * case.size as usize;
        let (sent, received) = (case.operands(total), case.operands(total));
        let outcomes = case.world().run(|rank, communicator| {
            let send = (!case.in_place).then_some(&sent[rank]);
            let reduction = case.reduction(send, Some(&received[rank]));
            reduction::reduce_scatter_block(communicator, case.count, reduction).unwrap()
        });
        prop_assert!(outcomes.iter().all(Result::is_ok));
        for (rank, received) in received.iter().enumerate() {
            let indices = rank * case.count..(rank + 1) * case.count;
            let expected: Vec<u8> =
                indices.flat_map(|index| case.kind.folded(0..=case.last(), index)).collect();
            prop_assert_eq!(&received.packed()[..expected.len()], &expected);
        }
    }
}

#[test]
fn the_left_operand_can_be_the_one_that_is_replaced() {
    let datatype = Kind::Maps.datatype();
    let left = Elements::new(&datatype, 3, &Kind::Maps.contribution(1, 3));
    let right = Elements::new(&datatype, 3, &Kind::Maps.contribution(2, 3));
    let combination = Kind::Maps.operation().on(&datatype).unwrap();
    combination.combine_reversed(&right.buffer, &left.buffer, 3);
    let expected: Vec<u8> = (0..3).flat_map(|index| Kind::Maps.folded(1..=2, index)).collect();
    left.check(&expected);
    right.check(&Kind::Maps.contribution(2, 3));
}
