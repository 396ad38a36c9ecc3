//! Groups (section 7.3 of the standard).

use std::ffi::c_int;
use std::rc::Rc;

use base::GateId;
use mpi::group::Group;

use crate::arguments::{Integers, Out, OutConstant, OutIntegers, invalid};
use crate::c;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::{MPI_GROUP_EMPTY, MPI_GROUP_NULL, MPI_PROC_NULL, MPI_UNDEFINED};

/// Stores a handle for a group; every empty group has the handle `MPI_GROUP_EMPTY`.
pub fn hand_out(call: &Call, group: Rc<Group>, place: Out<c::Group>) {
    let empty = group.size() == 0;
    place.set(if empty { MPI_GROUP_EMPTY } else { call.library.groups.insert(group) });
}

pub fn group_size(_call: &Call, group: Rc<Group>, size: Out<c_int>) -> CallOutcome<()> {
    size.set(group.size() as c_int);
    Ok(())
}

pub fn group_rank(call: &Call, group: Rc<Group>, rank: OutConstant) -> CallOutcome<()> {
    let own = group.rank_of(GateId(call.library.process.rank()));
    rank.set(own);
    Ok(())
}

pub fn group_translate_ranks(
    _call: &Call,
    group1: Rc<Group>,
    ranks1: Integers,
    group2: Rc<Group>,
    ranks2: OutIntegers,
) -> CallOutcome<()> {
    let mut translated = Vec::with_capacity(ranks1.length());
    for rank in ranks1.read_ints()? {
        translated.push(match rank {
            MPI_PROC_NULL => i64::from(MPI_PROC_NULL),
            _ => group1
                .translate_rank(rank, &group2)
                .map_err(of_ranks)?
                .map_or(MPI_UNDEFINED.into(), i64::from),
        });
    }
    ranks2.write(translated.into_iter())
}

pub fn group_compare(
    _call: &Call,
    group1: Rc<Group>,
    group2: Rc<Group>,
    result: OutConstant,
) -> CallOutcome<()> {
    result.set(group1.compare(&group2));
    Ok(())
}

pub fn group_union(
    call: &Call,
    group1: Rc<Group>,
    group2: Rc<Group>,
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    hand_out(call, group1.union(&group2), newgroup);
    Ok(())
}

pub fn group_intersection(
    call: &Call,
    group1: Rc<Group>,
    group2: Rc<Group>,
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    hand_out(call, group1.intersection(&group2), newgroup);
    Ok(())
}

pub fn group_difference(
    call: &Call,
    group1: Rc<Group>,
    group2: Rc<Group>,
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    hand_out(call, group1.difference(&group2), newgroup);
    Ok(())
}

pub fn group_incl(
    call: &Call,
    group: Rc<Group>,
    ranks: Integers,
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    let ranks = ranks.ints()?;
    hand_out(call, group.incl(&ranks).map_err(of_ranks)?, newgroup);
    Ok(())
}

pub fn group_excl(
    call: &Call,
    group: Rc<Group>,
    ranks: Integers,
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    let ranks = ranks.ints()?;
    hand_out(call, group.excl(&ranks).map_err(of_ranks)?, newgroup);
    Ok(())
}

pub fn group_range_incl(
    call: &Call,
    group: Rc<Group>,
    ranges: &[[c_int; 3]],
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    hand_out(call, group.range_incl(ranges).map_err(of_ranks)?, newgroup);
    Ok(())
}

pub fn group_range_excl(
    call: &Call,
    group: Rc<Group>,
    ranges: &[[c_int; 3]],
    newgroup: Out<c::Group>,
) -> CallOutcome<()> {
    hand_out(call, group.range_excl(ranges).map_err(of_ranks)?, newgroup);
    Ok(())
}

/// Attributes an error to the list of ranks, which is the third argument of all calls with such a
/// list.
fn of_ranks(error: base::Error) -> Failure {
    Failure::of_argument(3, error)
}

pub fn group_free(call: &Call, group: Out<c::Group>) -> CallOutcome<()> {
    let handle = group.value();
    // Calls that create a group return MPI_GROUP_EMPTY for an empty one, so the program may free
    // it.
    if handle != MPI_GROUP_EMPTY {
        call.library.groups.forget(handle).ok_or_else(|| invalid(1, handle))?;
    }
    group.set(MPI_GROUP_NULL);
    Ok(())
}
