//! Levels of the tree by the names that users write, and the order of places.

use topology::{Kind, ObjectId, Topology};

use super::policy::{GPU, word};

/// Returns the objects of a kind that have hardware threads, from left to right; for GPUs, the
/// parts of the machine that they are near to.
///
/// # Errors
/// The machine has none; the message names the kinds that it has.
pub(super) fn objects(
    topology: &Topology,
    machine: ObjectId,
    kind: Kind,
) -> Result<Vec<ObjectId>, String> {
    if kind == GPU {
        let near = topology.near_gpus(machine);
        let lacks = "this machine shows no GPU (`combray topo` lists its devices)";
        return if near.is_empty() { Err(lacks.to_owned()) } else { Ok(near) };
    }
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

/// Returns the places in the order of a mapping by levels: the first level changes fastest.
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
    // The objects of the smallest level are the places.
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
    // For each level, the index of the object among its siblings below the next larger level.
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

/// Returns the size of the largest object of a level in hardware threads.
fn size(topology: &Topology, level: &[ObjectId]) -> usize {
    level.iter().map(|id| topology[*id].threads.len()).max().unwrap_or_default()
}
