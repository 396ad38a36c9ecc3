//! Properties that must hold for all trees and matrices.

use placement::{
    Affinity, Branch, BranchTree, Matrix, Placement, PlacementOrder, Weighing, cost,
    distance_to_interfaces, patterns, place, place_in_order, turn,
};
use proptest::prelude::*;

/// Trees of any shape, with costs that do not decrease towards the root and some leaves without
/// slots.
fn branches() -> impl Strategy<Value = Branch> {
    let leaf = (0_u32..4).prop_map(Branch::leaf);
    leaf.prop_recursive(4, 40, 5, |inner| {
        (prop::collection::vec(inner, 1..5), 0_u64..5, 0_u32..2).prop_map(
            |(children, more, interfaces)| {
                let below = children.iter().map(|child| child.crossing).max().unwrap_or_default();
                Branch { interfaces, ..Branch::of(below + more, children) }
            },
        )
    })
    .prop_map(|root| Branch { is_machine: false, children: machines(root.children), ..root })
}

fn machines(children: Vec<Branch>) -> Vec<Branch> {
    children.into_iter().map(|child| Branch { is_machine: true, ..child }).collect()
}

fn matrices() -> impl Strategy<Value = Matrix> {
    (1_u32..40).prop_flat_map(|ranks| {
        let entry = (0..ranks, 0..ranks, 0_u64..1000);
        prop::collection::vec(entry, 0..120).prop_map(move |entries| {
            let mut matrix = Matrix::new(ranks);
            for (from, to, bytes) in entries {
                matrix.add(from, to, bytes, 1);
            }
            matrix
        })
    })
}

/// The number of ranks on each leaf.
fn loads(tree: &BranchTree, placement: &Placement) -> Vec<u64> {
    let mut loads = vec![0; tree.leaf_count() as usize];
    placement.leaves().iter().for_each(|leaf| loads[*leaf as usize] += 1);
    loads
}

/// Whether each leaf has at most as many ranks as slots or, if there are too few slots, at most its
/// share.
fn is_within_slots(tree: &BranchTree, placement: &Placement) -> bool {
    let (ranks, slots) = (placement.leaves().len() as u64, tree.slots_in_all());
    (0..).zip(loads(tree, placement)).all(|(leaf, load)| {
        let own = u64::from(tree.slots(leaf));
        if ranks <= slots {
            load <= own
        } else {
            (ranks * own / slots..=(ranks * own).div_ceil(slots)).contains(&load)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn placements_are_valid_and_never_worse_than_packed(
        branch in branches(),
        matrix in matrices(),
    ) {
        let tree = BranchTree::new(&branch);
        let affinity = matrix.affinity(Weighing::Bytes);
        let Ok(placed) = place(&affinity, &tree, &[]) else {
            prop_assert_eq!(tree.slots_in_all(), 0);
            return Ok(());
        };
        prop_assert_eq!(placed.leaves().len() as u32, matrix.ranks());
        prop_assert!(is_within_slots(&tree, &placed), "{:?}", placed);
        let packed = place_in_order(matrix.ranks(), &tree, PlacementOrder::Packed).unwrap();
        prop_assert!(cost(&affinity, &tree, &placed) <= cost(&affinity, &tree, &packed));
        for order in [PlacementOrder::Packed, PlacementOrder::Scattered, PlacementOrder::Random(7)] {
            let placed = place_in_order(matrix.ranks(), &tree, order).unwrap();
            prop_assert!(is_within_slots(&tree, &placed), "{:?} {:?}", order, placed);
        }
        prop_assert_eq!(placed, place(&affinity, &tree, &[]).unwrap());
    }

    #[test]
    fn fixed_ranks_stay_where_they_are(
        branch in branches(),
        matrix in matrices(),
        fixed_leaves in prop::collection::vec(prop::option::weighted(0.3, 0_u32..60), 40),
    ) {
        let tree = BranchTree::new(&branch);
        let affinity = matrix.affinity(Weighing::Bytes);
        let fixed: Vec<Option<u32>> = fixed_leaves.into_iter().take(matrix.ranks() as usize)
            .map(|leaf| leaf.map(|leaf| leaf % tree.leaf_count()))
            .collect();
        if let Ok(mut placed) = place(&affinity, &tree, &fixed) {
            turn(&affinity, &tree, &fixed, &mut placed);
            for (leaf, fixed) in placed.leaves().iter().zip(&fixed) {
                prop_assert!(fixed.is_none_or(|fixed| fixed == *leaf));
            }
            let slots = tree.slots_in_all();
            let ranks = u64::from(matrix.ranks());
            for (leaf, load) in (0..).zip(loads(&tree, &placed)) {
                let own = u64::from(tree.slots(leaf));
                let most = if ranks <= slots { own } else { (ranks * own).div_ceil(slots) };
                prop_assert!(load <= most);
            }
        }
    }

    #[test]
    fn turning_keeps_the_cost_and_goes_nearer(branch in branches(), matrix in matrices()) {
        let tree = BranchTree::new(&branch);
        let affinity = matrix.affinity(Weighing::Bytes);
        if let Ok(placed) = place(&affinity, &tree, &[]) {
            let mut turned = placed.clone();
            turn(&affinity, &tree, &[], &mut turned);
            prop_assert_eq!(cost(&affinity, &tree, &turned), cost(&affinity, &tree, &placed));
            prop_assert!(is_within_slots(&tree, &turned));
            prop_assert!(
                distance_to_interfaces(&affinity, &tree, &turned)
                    <= distance_to_interfaces(&affinity, &tree, &placed)
            );
        }
    }
}

#[test]
fn pairs_that_talk_come_together() {
    // The pairs are ranks 0 and 4, 1 and 5, and so on.
    let affinity = Affinity::new(8, (0..4).map(|rank| (rank, rank + 4, 100)));
    let tree = BranchTree::new(&Branch::regular(&[4, 2]));
    let placed = place(&affinity, &tree, &[]).unwrap();
    for rank in 0..4 {
        assert_eq!(placed.leaf(rank) / 2, placed.leaf(rank + 4) / 2);
    }
}

#[test]
fn few_ranks_stay_together() {
    let affinity = patterns::stencil(&[6], patterns::Edges::Periodic, 10).affinity(Weighing::Bytes);
    let tree = BranchTree::new(&Branch::regular(&[4, 8]));
    let placed = place(&affinity, &tree, &[]).unwrap();
    assert!(placed.leaves().iter().all(|leaf| leaf / 8 == placed.leaf(0) / 8), "{placed:?}");
}

#[test]
fn ranks_that_send_to_other_machines_are_near_the_interface() {
    let machine = Branch {
        is_machine: true,
        ..Branch::of(
            4,
            vec![Branch::regular(&[2]), Branch { interfaces: 1, ..Branch::regular(&[2]) }],
        )
    };
    let tree = BranchTree::new(&Branch::of(6, vec![machine.clone(), machine]));
    // Ranks 0 and 1 are a pair that also communicates with 4 and 5. Ranks 2 and 3, 6 and 7
    // communicate only within their group.
    let pairs = [(0, 1, 100), (2, 3, 100), (4, 5, 100), (6, 7, 100)];
    let others = [(0, 4, 50), (1, 5, 50), (0, 2, 60), (4, 6, 60)];
    let affinity = Affinity::new(8, pairs.into_iter().chain(others));
    let mut placed = Placement::new((0..8).collect());
    let before = cost(&affinity, &tree, &placed);
    assert_eq!(distance_to_interfaces(&affinity, &tree, &placed), 2 * 200);
    turn(&affinity, &tree, &[], &mut placed);
    assert_eq!(placed.leaves(), [2, 3, 0, 1, 6, 7, 4, 5]);
    assert_eq!(distance_to_interfaces(&affinity, &tree, &placed), 200);
    assert_eq!(cost(&affinity, &tree, &placed), before);
}

#[test]
fn what_cannot_be_is_reported() {
    let affinity = Affinity::new(3, [(0, 1, 1)].into_iter());
    let fault = |tree: &Branch, fixed: &[Option<u32>]| {
        place(&affinity, &BranchTree::new(tree), fixed).unwrap_err()
    };
    assert!(fault(&Branch::leaf(0), &[]).contains("no slot"));
    let four = Branch::regular(&[4]);
    assert!(fault(&four, &[Some(4), None, None]).contains("leaves are 0 to 3"));
    assert!(fault(&four, &[Some(1), Some(1), None]).contains("more ranks"));
    assert!(fault(&four, &[Some(1)]).contains("1 ranks of 3"));
}

/// The matrices of the comparison in docs/user/placement.md, with bounds a little above the results
/// of Scotch 7 on the same trees.
#[test]
fn known_patterns_are_placed_well() {
    let bounds = [
        (patterns::stencil(&[8, 8], patterns::Edges::Open, 1), [4, 2, 8], 0.85),
        (patterns::stencil(&[4, 4, 4], patterns::Edges::Open, 1), [4, 2, 8], 0.9),
        (patterns::butterfly(64, 1), [4, 2, 8], 1.0),
        (patterns::random(64, 4, 1), [4, 2, 8], 0.76),
        (patterns::stencil(&[32, 16], patterns::Edges::Periodic, 1), [16, 2, 16], 0.89),
        (patterns::broadcasts(512, 512, 1), [16, 2, 16], 0.39),
    ];
    for (matrix, arities, bound) in bounds {
        let tree = BranchTree::new(&Branch::regular(&arities));
        let affinity = matrix.affinity(Weighing::Bytes);
        let placed = place(&affinity, &tree, &[]).unwrap();
        let packed = place_in_order(matrix.ranks(), &tree, PlacementOrder::Packed).unwrap();
        let ratio = cost(&affinity, &tree, &placed) as f64 / cost(&affinity, &tree, &packed) as f64;
        assert!(ratio <= bound, "{arities:?}: {ratio} above {bound}");
    }
}
