//! Levels of the tree by the names that people use, and the order of places.

use topology::{Kind, ObjectId, Topology};

use super::policy::word;

/// The objects of a kind with hardware threads, from left to right.
///
/// # Errors
/// The machine has none; the text names those that it has.
pub(super) fn objects(
    topology: &Topology,
    machine: ObjectId,
    kind: Kind,
) -> Result<Vec<ObjectId>, String> {
    let mut found = topology.of_kind_in(machine, kind);
    found.retain(|id| !topology[*id].threads.is_empty());
    if !found.is_empty() {
        return Ok(found);
    }
    let names: Vec<&str> = topology
        .kinds()
        .into_iter()
        .filter(|kind| !topology.of_kind_in(machine, *kind).is_empty())
        .map(word)
        .filter(|word| !word.is_empty())
        .collect();
    Err(format!("this machine has no level \"{}\"; it has {}", word(kind), names.join(", ")))
}

/// The places that a description level by level runs through: the first level changes fastest.
///
/// # Errors
/// The machine has no such level.
pub(super) fn leaves(
    topology: &Topology,
    machine: ObjectId,
    kinds: &[Kind],
) -> Result<Vec<ObjectId>, String> {
    let mut levels = Vec::new();
    for &kind in kinds {
        levels.push(objects(topology, machine, kind)?);
    }
    // The smallest of the levels is that of the places.
    let smallest = |level: &&Vec<ObjectId>| topology[level[0]].threads.len();
    let Some(places) = levels.iter().min_by_key(smallest) else { return Ok(vec![machine]) };
    let holder = |level: &[ObjectId], place: ObjectId| {
        let threads = &topology[place].threads;
        level.iter().position(|id| threads.is_subset(&topology[*id].threads))
    };
    let mut keyed = Vec::new();
    for &place in places {
        let position = |level: &Vec<ObjectId>| holder(level, place);
        keyed.push((levels.iter().map(position).collect::<Vec<_>>(), place));
    }
    // Which of its siblings below the next larger level a holder is, for each level.
    let digits = |positions: &[Option<usize>]| -> Vec<usize> {
        (0..levels.len())
            .rev()
            .map(|level| {
                let own = size(topology, &levels[level]);
                let outer = (0..levels.len()).filter(|other| size(topology, &levels[*other]) > own);
                let outer: Vec<usize> = outer.collect();
                let mut siblings: Vec<Option<usize>> = keyed
                    .iter()
                    .filter(|(other, _)| outer.iter().all(|at| other[*at] == positions[*at]))
                    .map(|(other, _)| other[level])
                    .collect();
                siblings.dedup();
                siblings.iter().position(|one| *one == positions[level]).unwrap_or_default()
            })
            .collect()
    };
    let mut sorted: Vec<(Vec<usize>, ObjectId)> =
        keyed.iter().map(|(positions, place)| (digits(positions), *place)).collect();
    sorted.sort_by(|one, two| one.0.cmp(&two.0));
    Ok(sorted.into_iter().map(|(_, place)| place).collect())
}

/// How large the objects of a level are.
fn size(topology: &Topology, level: &[ObjectId]) -> usize {
    level.iter().map(|id| topology[*id].threads.len()).max().unwrap_or_default()
}
