//! Queries of how a datatype was created (section 5.1.13 of the standard).

use std::ffi::c_int;

use base::ErrorClass;
use datatype::{ArrayOrder, Combiner, ContentInteger, Contents, Distribution};

use crate::arguments::{KnownDatatype, Out, OutInteger, OutIntegers, OutList};
use crate::c::Datatype;
use crate::call::Call;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;

use super::datatypes::handle_of;

pub fn type_get_envelope(
    _call: &Call,
    datatype: KnownDatatype,
    integers: Out<c_int>,
    addresses: Out<c_int>,
    datatypes: Out<c_int>,
    combiner: Out<c_int>,
) -> CallOutcome<()> {
    let envelope = datatype.envelope();
    check_form(envelope.large_counts)?;
    integers.set(envelope.integers as c_int);
    addresses.set(envelope.addresses as c_int);
    datatypes.set(envelope.datatypes as c_int);
    combiner.set(number_of_combiner(envelope.combiner));
    Ok(())
}

pub fn type_get_envelope_c(
    _call: &Call,
    datatype: KnownDatatype,
    integers: OutInteger,
    addresses: OutInteger,
    large_counts: OutInteger,
    datatypes: OutInteger,
    combiner: Out<c_int>,
) -> CallOutcome<()> {
    let envelope = datatype.envelope();
    integers.set(envelope.integers as i64)?;
    addresses.set(envelope.addresses as i64)?;
    large_counts.set(envelope.large_counts as i64)?;
    datatypes.set(envelope.datatypes as i64)?;
    combiner.set(number_of_combiner(envelope.combiner));
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn type_get_contents(
    call: &Call,
    datatype: KnownDatatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: OutIntegers,
    addresses: OutIntegers,
    datatypes: OutList<Datatype>,
) -> CallOutcome<()> {
    let contents = datatype.contents().map_err(|error| Failure::of_argument(1, error))?;
    check_form(contents.large_counts.len())?;
    let room = [max_integers.into(), max_addresses.into(), max_datatypes.into()];
    check_room(&contents, [2, 3, 4], room)?;
    write_contents(call, &contents, integers, addresses, datatypes)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn type_get_contents_c(
    call: &Call,
    datatype: KnownDatatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    integers: OutIntegers,
    addresses: OutIntegers,
    large_counts: OutIntegers,
    datatypes: OutList<Datatype>,
) -> CallOutcome<()> {
    let contents = datatype.contents().map_err(|error| Failure::of_argument(1, error))?;
    check_room(&contents, [2, 3, 5], [max_integers, max_addresses, max_datatypes])?;
    check_one(4, max_large_counts, contents.large_counts.len())?;
    large_counts.write(contents.large_counts.iter().copied())?;
    write_contents(call, &contents, integers, addresses, datatypes)
}

/// Refuses datatypes with large counts, which calls without `_c` cannot return.
fn check_form(large_counts: usize) -> CallOutcome<()> {
    if large_counts == 0 {
        return Ok(());
    }
    let detail = "was made with large counts; use the call with _c";
    Err(Failure::argument(1, ErrorClass::Type, detail))
}

fn check_room(contents: &Contents, positions: [usize; 3], room: [i64; 3]) -> CallOutcome<()> {
    let needed = [contents.integers.len(), contents.addresses.len(), contents.datatypes.len()];
    (0..3).try_for_each(|index| check_one(positions[index], room[index], needed[index]))
}

fn check_one(position: usize, room: i64, needed: usize) -> CallOutcome<()> {
    if usize::try_from(room).is_ok_and(|room| room >= needed) {
        return Ok(());
    }
    let detail = format!("is {room}, but {needed} are needed; ask MPI_Type_get_envelope");
    Err(Failure::argument(position, ErrorClass::Arg, detail))
}

fn write_contents(
    call: &Call,
    contents: &Contents,
    integers: OutIntegers,
    addresses: OutIntegers,
    datatypes: OutList<Datatype>,
) -> CallOutcome<()> {
    integers.write(contents.integers.iter().map(|integer| number_of(*integer)))?;
    addresses.write(contents.addresses.iter().copied())?;
    datatypes.write(contents.datatypes.iter().map(|datatype| handle_of(call.library, datatype)))
}

fn number_of(integer: ContentInteger) -> i64 {
    let number = match integer {
        ContentInteger::Value(value) => return value,
        ContentInteger::Order(ArrayOrder::C) => MPI_ORDER_C,
        ContentInteger::Order(ArrayOrder::Fortran) => MPI_ORDER_FORTRAN,
        ContentInteger::Distribution(Distribution::None) => MPI_DISTRIBUTE_NONE,
        ContentInteger::Distribution(Distribution::Block) => MPI_DISTRIBUTE_BLOCK,
        ContentInteger::Distribution(Distribution::Cyclic) => MPI_DISTRIBUTE_CYCLIC,
        ContentInteger::DefaultArgument => MPI_DISTRIBUTE_DFLT_DARG,
        ContentInteger::Undefined => MPI_UNDEFINED,
    };
    number.into()
}

fn number_of_combiner(combiner: Combiner) -> c_int {
    match combiner {
        Combiner::Named => MPI_COMBINER_NAMED,
        Combiner::Duplicate => MPI_COMBINER_DUP,
        Combiner::Contiguous => MPI_COMBINER_CONTIGUOUS,
        Combiner::Vector => MPI_COMBINER_VECTOR,
        Combiner::Hvector => MPI_COMBINER_HVECTOR,
        Combiner::Indexed => MPI_COMBINER_INDEXED,
        Combiner::Hindexed => MPI_COMBINER_HINDEXED,
        Combiner::IndexedBlock => MPI_COMBINER_INDEXED_BLOCK,
        Combiner::HindexedBlock => MPI_COMBINER_HINDEXED_BLOCK,
        Combiner::Struct => MPI_COMBINER_STRUCT,
        Combiner::Subarray => MPI_COMBINER_SUBARRAY,
        Combiner::Darray => MPI_COMBINER_DARRAY,
        Combiner::FortranReal => MPI_COMBINER_F90_REAL,
        Combiner::FortranComplex => MPI_COMBINER_F90_COMPLEX,
        Combiner::FortranInteger => MPI_COMBINER_F90_INTEGER,
        Combiner::Resized => MPI_COMBINER_RESIZED,
    }
}
