use proptest::prelude::*;

use super::*;

fn group_of(processes: &[u32]) -> Rc<Group> {
    Group::of(&processes.iter().map(|process| GateId(*process)).collect::<Vec<_>>())
}

fn listed(group: &Group) -> Vec<u32> {
    group.gates().map(|process| process.0).collect()
}

/// Distinct processes in any order, often an arithmetic progression.
fn processes() -> impl Strategy<Value = Vec<u32>> {
    let any_order = Just((0..24_u32).collect::<Vec<_>>()).prop_shuffle();
    let shuffled = (any_order, 0..=24_usize).prop_map(|(mut all, length)| {
        all.truncate(length);
        all
    });
    let progression = (0..8_u32, 1..4_u32, 0..6_u32, any::<bool>()).prop_map(
        |(first, stride, size, backwards)| {
            let mut all: Vec<_> = (0..size).map(|i| first + i * stride).collect();
            if backwards {
                all.reverse();
            }
            all
        },
    );
    prop_oneof![shuffled, progression]
}

proptest! {
    #[test]
    fn translation_is_inverse_both_ways(list in processes()) {
        let group = group_of(&list);
        prop_assert_eq!(group.size() as usize, list.len());
        for process in 0..30 {
            let rank = list.iter().position(|member| *member == process).map(|rank| rank as u32);
            prop_assert_eq!(group.rank_of(GateId(process)), rank);
        }
        for rank in 0..30 {
            let process = list.get(rank as usize).map(|process| GateId(*process));
            prop_assert_eq!(group.gate(rank), process);
        }
    }

    #[test]
    fn set_operations_agree_with_lists(a in processes(), b in processes()) {
        let (group_a, group_b) = (group_of(&a), group_of(&b));
        let union: Vec<u32> =
            a.iter().chain(b.iter().filter(|process| !a.contains(process))).copied().collect();
        prop_assert_eq!(listed(&group_a.union(&group_b)), union);
        let (both, only_a): (Vec<u32>, Vec<u32>) =
            a.iter().copied().partition(|process| b.contains(process));
        prop_assert_eq!(listed(&group_a.intersection(&group_b)), both);
        prop_assert_eq!(listed(&group_a.difference(&group_b)), only_a);
    }

    #[test]
    fn comparison_agrees_with_lists(a in processes(), b in processes()) {
        let sorted = |list: &[u32]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list
        };
        let expected = if a == b {
            GroupComparison::Identical
        } else if sorted(&a) == sorted(&b) {
            GroupComparison::Similar
        } else {
            GroupComparison::Unequal
        };
        prop_assert_eq!(group_of(&a).compare(&group_of(&b)), expected);
        if a.len() > 1 {
            let mut turned = a.clone();
            turned.rotate_left(1);
            let comparison = group_of(&a).compare(&group_of(&turned));
            prop_assert_eq!(comparison, GroupComparison::Similar);
        }
    }

    #[test]
    fn inclusion_and_exclusion_agree_with_lists(
        list in processes(),
        ranks in proptest::collection::vec(-1..26_i32, 0..6),
    ) {
        let group = group_of(&list);
        let distinct = (1..ranks.len()).all(|i| !ranks[..i].contains(&ranks[i]));
        let inside = ranks.iter().all(|rank| (0..list.len() as i32).contains(rank));
        let chosen = group.incl(&ranks);
        let rest = group.excl(&ranks);
        if distinct && inside {
            let expected: Vec<u32> = ranks.iter().map(|rank| list[*rank as usize]).collect();
            prop_assert_eq!(listed(&chosen.unwrap()), expected);
            let expected: Vec<u32> = (0..)
                .zip(&list)
                .filter(|(rank, _)| !ranks.contains(rank))
                .map(|(_, process)| *process)
                .collect();
            prop_assert_eq!(listed(&rest.unwrap()), expected);
        } else {
            prop_assert_eq!(chosen.unwrap_err().class, ErrorClass::Rank);
            prop_assert_eq!(rest.unwrap_err().class, ErrorClass::Rank);
        }
    }
}

#[test]
fn ranges_include_their_last_rank_only_when_the_stride_meets_it() {
    let group = Group::world(10);
    let chosen = group.range_incl(&[[6, 7, 1], [1, 5, 3], [9, 8, -2]]).unwrap();
    assert_eq!(listed(&chosen), [6, 7, 1, 4, 9]);
    let rest = group.range_excl(&[[0, 9, 3]]).unwrap();
    assert_eq!(listed(&rest), [1, 2, 4, 5, 7, 8]);
}

#[test]
fn wrong_ranges_are_explained_with_their_values() {
    let group = Group::world(4);
    let zero = group.range_incl(&[[0, 3, 0]]).unwrap_err();
    assert_eq!(zero.class, ErrorClass::Arg);
    assert!(zero.detail.contains("(0, 3, 0)"), "{zero}");
    assert_eq!(group.range_incl(&[[3, 0, 1]]).unwrap_err().class, ErrorClass::Arg);
    let outside = group.range_excl(&[[0, i32::MAX, 1]]).unwrap_err();
    assert_eq!(outside.class, ErrorClass::Rank);
    assert!(outside.detail.contains("2147483647"), "{outside}");
    let twice = group.range_incl(&[[0, 2, 1], [2, 3, 1]]).unwrap_err();
    assert!(twice.detail.contains("rank 2"), "{twice}");
}

#[test]
fn progressions_hold_no_table() {
    for list in [&[][..], &[5], &[0, 1, 2], &[7, 5, 3, 1]] {
        assert!(matches!(group_of(list).members, GroupMembers::Progression { .. }), "{list:?}");
    }
    assert!(matches!(group_of(&[0, 1, 3]).members, GroupMembers::Table(_)));
}

#[test]
fn translation_names_the_rank_that_does_not_exist() {
    let (world, alone) = (Group::world(3), Group::single(GateId(2)));
    assert_eq!(world.translate_rank(2, &alone), Ok(Some(0)));
    assert_eq!(world.translate_rank(1, &alone), Ok(None));
    let error = world.translate_rank(-7, &alone).unwrap_err();
    assert!(error.detail.contains("-7"), "{error}");
}
