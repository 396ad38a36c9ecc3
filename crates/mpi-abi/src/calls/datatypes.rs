//! Creating, naming and freeing datatypes (chapter 5 of the standard).

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use base::ErrorClass;
use datatype::{
    ArgumentForm, ArrayOrder, Construction, Datatype, DistributedDimension, Distribution,
    DistributionArgument, StructBlock, SubarrayDimension, TypeClass,
};

use crate::arguments::{HandleList, Integers, KnownDatatype, Out, OutInteger, OutText, invalid};
use crate::c;
use crate::call::Call;
use crate::dialect::BOUND_MARKERS;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;
use crate::library::{LibraryState, TypeRecord};
use crate::predefined::handle_of_type;

type Handle = c::Datatype;

/// Returns the form of the call, which determines how the contents of the datatype are returned.
fn form(call: &Call) -> ArgumentForm {
    if call.entry.name.ends_with("_c") { ArgumentForm::Large } else { ArgumentForm::Int }
}

fn create(call: &Call, construction: Construction, newtype: Out<Handle>) -> CallOutcome<()> {
    let made =
        Datatype::create(construction, form(call)).map_err(|error| of_parameter(call, error))?;
    newtype.set(call.library.datatypes.insert(made));
    Ok(())
}

/// The words of the constructors' error messages for their arguments, and the endings of the names
/// of the corresponding parameters.
const SPOKEN_NAMES: [(&str, &str); 10] = [
    ("block length ", "blocklength"),
    ("block length ", "blocklengths"),
    ("subsize ", "array_of_subsizes"),
    ("start ", "array_of_starts"),
    ("global size ", "array_of_gsizes"),
    ("size ", "array_of_sizes"),
    ("process grid ", "array_of_psizes"),
    ("distribution argument ", "array_of_dargs"),
    ("rank ", "rank"),
    ("count ", "count"),
];

/// Attributes an error of a constructor to the parameter with whose description its message begins.
fn of_parameter(call: &Call, error: base::Error) -> Failure {
    let position = SPOKEN_NAMES.iter().find_map(|(spoken, ending)| {
        let begins = error.detail.strip_prefix("the ")?.starts_with(spoken);
        let index = call.entry.parameters.iter().position(|name| name.ends_with(ending))?;
        begins.then_some(index + 1)
    });
    match position {
        Some(position) => Failure::of_argument(position, error),
        None => error.into(),
    }
}

pub fn type_contiguous(
    call: &Call,
    count: usize,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let construction = Construction::Contiguous { count: count as i64, of: oldtype.object };
    create(call, construction, newtype)
}

pub fn type_vector(
    call: &Call,
    count: usize,
    block_length: i64,
    stride: i64,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let (count, of) = (count as i64, oldtype.object);
    create(call, Construction::Vector { count, block_length, stride, of }, newtype)
}

pub fn type_create_hvector(
    call: &Call,
    count: usize,
    block_length: i64,
    stride: i64,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let (count, of) = (count as i64, oldtype.object);
    create(call, Construction::Hvector { count, block_length, stride, of }, newtype)
}

pub fn type_indexed(
    call: &Call,
    lengths: Integers,
    displacements: Integers,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let (block_lengths, displacements) = (lengths.read()?, displacements.read()?);
    let of = oldtype.object;
    create(call, Construction::Indexed { block_lengths, displacements, of }, newtype)
}

pub fn type_create_hindexed(
    call: &Call,
    lengths: Integers,
    displacements: Integers,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let (block_lengths, displacements) = (lengths.read()?, displacements.read()?);
    let of = oldtype.object;
    create(call, Construction::Hindexed { block_lengths, displacements, of }, newtype)
}

pub fn type_create_indexed_block(
    call: &Call,
    block_length: i64,
    displacements: Integers,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let displacements = displacements.read()?;
    let of = oldtype.object;
    create(call, Construction::IndexedBlock { block_length, displacements, of }, newtype)
}

pub fn type_create_hindexed_block(
    call: &Call,
    block_length: i64,
    displacements: Integers,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let displacements = displacements.read()?;
    let of = oldtype.object;
    create(call, Construction::HindexedBlock { block_length, displacements, of }, newtype)
}

pub fn type_create_struct(
    call: &Call,
    lengths: Integers,
    displacements: Integers,
    types: HandleList<Handle>,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let (lengths, displacements) = (lengths.one_by_one()?, displacements.one_by_one()?);
    let mut blocks = Vec::with_capacity(types.len());
    let [mut lower, mut upper]: [Option<i64>; 2] = [None; 2];
    for ((length, displacement), handle) in lengths.zip(displacements).zip(types.iter()) {
        match BOUND_MARKERS.iter().position(|marker| *marker == Some(handle)) {
            Some(0) => lower = Some(lower.map_or(displacement, |lowest| displacement.min(lowest))),
            Some(_) => upper = upper.max(Some(displacement)),
            None => {
                let of = call.datatype(4, handle)?.object;
                blocks.push(StructBlock { length, displacement, of });
            }
        }
    }
    let data = Construction::Struct(blocks);
    if lower.or(upper).is_none() {
        return create(call, data, newtype);
    }
    let made = Datatype::create(data, form(call)).map_err(|error| of_parameter(call, error))?;
    let lower_bound = lower.unwrap_or(made.lower_bound() as i64);
    let end = upper.unwrap_or((made.lower_bound() + made.extent()) as i64);
    let extent = end.wrapping_sub(lower_bound);
    create(call, Construction::Resized { lower_bound, extent, of: made.borrowed() }, newtype)
}

pub fn type_create_subarray(
    call: &Call,
    sizes: Integers,
    subsizes: Integers,
    starts: Integers,
    order: c_int,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let dimensions = sizes.one_by_one()?.zip(subsizes.one_by_one()?).zip(starts.one_by_one()?);
    let dimensions =
        dimensions.map(|((size, subsize), start)| SubarrayDimension { size, subsize, start });
    let (dimensions, of) = (dimensions.collect(), oldtype.object);
    let order = array_order(5, order)?;
    create(call, Construction::Subarray { dimensions, order, of }, newtype)
}

#[expect(clippy::too_many_arguments, reason = "the standard's argument list")]
pub fn type_create_darray(
    call: &Call,
    size: c_int,
    rank: c_int,
    ndims: usize,
    gsizes: Integers,
    distribs: Integers,
    dargs: Integers,
    psizes: Integers,
    order: c_int,
    oldtype: KnownDatatype,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let (global, distributions) = (gsizes.read()?, distribs.read_ints()?);
    let (arguments, processes) = (dargs.read_ints()?, psizes.read()?);
    let mut dimensions = Vec::with_capacity(ndims);
    for index in 0..ndims {
        dimensions.push(DistributedDimension {
            global_size: global[index],
            distribution: distribution(distribs.position(), distributions[index])?,
            argument: match arguments[index] {
                MPI_DISTRIBUTE_DFLT_DARG => DistributionArgument::Default,
                size => DistributionArgument::Size(size.into()),
            },
            processes: processes[index],
        });
    }
    let (size, rank, order) = (size.into(), rank.into(), array_order(8, order)?);
    let of = oldtype.object;
    create(call, Construction::Darray { size, rank, dimensions, order, of }, newtype)
}

fn array_order(position: usize, order: c_int) -> CallOutcome<ArrayOrder> {
    match order {
        MPI_ORDER_C => Ok(ArrayOrder::C),
        MPI_ORDER_FORTRAN => Ok(ArrayOrder::Fortran),
        _ => {
            let detail = format!("is {order}, but must be MPI_ORDER_C or MPI_ORDER_FORTRAN");
            Err(Failure::argument(position, ErrorClass::Arg, detail))
        }
    }
}

fn distribution(position: usize, number: c_int) -> CallOutcome<Distribution> {
    match number {
        MPI_DISTRIBUTE_NONE => Ok(Distribution::None),
        MPI_DISTRIBUTE_BLOCK => Ok(Distribution::Block),
        MPI_DISTRIBUTE_CYCLIC => Ok(Distribution::Cyclic),
        _ => {
            let detail =
                format!("has {number}, which is not one of the constants MPI_DISTRIBUTE_...");
            Err(Failure::argument(position, ErrorClass::Arg, detail))
        }
    }
}

pub fn type_create_resized(
    call: &Call,
    oldtype: KnownDatatype,
    lower_bound: i64,
    extent: i64,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let of = oldtype.object;
    create(call, Construction::Resized { lower_bound, extent, of }, newtype)
}

pub fn type_dup(call: &Call, oldtype: KnownDatatype, newtype: Out<Handle>) -> CallOutcome<()> {
    let copied = match notes_of(call.library, oldtype.handle) {
        Some(notes) => notes.attributes.copied(oldtype.handle.0 as u64)?,
        None => Default::default(),
    };
    let made = Datatype::create(Construction::Duplicate(oldtype.object), ArgumentForm::Int)?;
    let handle = call.library.datatypes.insert(made);
    if !copied.is_empty() {
        let notes = Rc::new(TypeRecord { attributes: copied, ..TypeRecord::default() });
        call.library.type_notes.borrow_mut().insert(handle, notes);
    }
    newtype.set(handle);
    Ok(())
}

pub fn type_commit(call: &Call, datatype: Out<Handle>) -> CallOutcome<()> {
    let handle = datatype.value();
    match call.library.datatypes.with(handle, |known| known.commit()) {
        Some(()) => Ok(()),
        // Predefined datatypes are always committed.
        None => call.datatype(1, handle).map(|_| ()),
    }
}

pub fn type_free(call: &Call, datatype: Out<Handle>) -> CallOutcome<()> {
    let handle = datatype.value();
    let is_derived = |known: &mut Arc<Datatype>| known.predefined().is_none();
    if call.library.datatypes.with(handle, is_derived) != Some(true) {
        return Err(cannot_be_freed(call, handle));
    }
    if let Some(notes) = notes_of(call.library, handle) {
        // As in other libraries, the datatype is freed even if a delete function fails, and the
        // call succeeds.
        let _ = notes.attributes.delete_all_despite_errors(handle.0 as u64);
        call.library.type_notes.borrow_mut().remove(&handle);
    }
    call.library.datatypes.forget(handle).ok_or_else(|| invalid(1, handle))?;
    datatype.set(MPI_DATATYPE_NULL);
    Ok(())
}

/// Returns the failure for a datatype that cannot be freed.
#[cold]
fn cannot_be_freed(call: &Call, handle: Handle) -> Failure {
    match call.datatype(1, handle) {
        Ok(known) => {
            let described = crate::handles::describe_type(&known);
            let detail = format!("{described}, which cannot be freed");
            Failure::argument(1, ErrorClass::Type, detail)
        }
        Err(failure) => failure,
    }
}

pub fn type_size(_call: &Call, datatype: KnownDatatype, size: OutInteger) -> CallOutcome<()> {
    size.set_or_undefined(Some(datatype.size() as i64));
    Ok(())
}

pub fn type_get_extent(
    _call: &Call,
    datatype: KnownDatatype,
    lower_bound: OutInteger,
    extent: OutInteger,
) -> CallOutcome<()> {
    lower_bound.set(datatype.lower_bound() as i64)?;
    extent.set(datatype.extent() as i64)
}

pub fn type_get_true_extent(
    _call: &Call,
    datatype: KnownDatatype,
    lower_bound: OutInteger,
    extent: OutInteger,
) -> CallOutcome<()> {
    lower_bound.set(datatype.true_lower_bound() as i64)?;
    extent.set(datatype.true_extent() as i64)
}

pub fn type_create_f90_real(
    call: &Call,
    precision: c_int,
    range: c_int,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let made = Datatype::fortran_real(defined(precision), defined(range))?;
    newtype.set(handle_of(call.library, &made));
    Ok(())
}

pub fn type_create_f90_complex(
    call: &Call,
    precision: c_int,
    range: c_int,
    newtype: Out<Handle>,
) -> CallOutcome<()> {
    let made = Datatype::fortran_complex(defined(precision), defined(range))?;
    newtype.set(handle_of(call.library, &made));
    Ok(())
}

pub fn type_create_f90_integer(call: &Call, range: c_int, newtype: Out<Handle>) -> CallOutcome<()> {
    newtype.set(handle_of(call.library, &Datatype::fortran_integer(range)?));
    Ok(())
}

fn defined(number: c_int) -> Option<i32> {
    (number != MPI_UNDEFINED).then_some(number)
}

/// Returns a handle for a datatype: the predefined one, or a new one. Each of Fortran's
/// parameterized datatypes has only one handle, however often the program requests it (section
/// 19.1.9).
pub fn handle_of(library: &LibraryState, datatype: &Arc<Datatype>) -> Handle {
    let key = match *datatype.construction() {
        Construction::Named(named) => return handle_of_type(named),
        Construction::FortranReal { precision, range } => (0, precision, range),
        Construction::FortranComplex { precision, range } => (1, precision, range),
        Construction::FortranInteger { range } => (2, None, Some(range)),
        _ => return library.datatypes.insert(Arc::clone(datatype)),
    };
    let mut known = library.fortran_types.borrow_mut();
    *known.entry(key).or_insert_with(|| library.datatypes.insert(Arc::clone(datatype)))
}

pub fn type_match_size(
    _call: &Call,
    typeclass: c_int,
    size: c_int,
    datatype: Out<Handle>,
) -> CallOutcome<()> {
    let class = match typeclass {
        MPI_TYPECLASS_INTEGER => TypeClass::Integer,
        MPI_TYPECLASS_REAL => TypeClass::Real,
        MPI_TYPECLASS_COMPLEX => TypeClass::Complex,
        MPIX_TYPECLASS_LOGICAL => TypeClass::Logical,
        _ => {
            let detail =
                format!("is {typeclass}, which is not one of the constants MPI_TYPECLASS_...");
            return Err(Failure::argument(1, ErrorClass::Arg, detail));
        }
    };
    let bytes = usize::try_from(size).map_err(|_| {
        Failure::argument(2, ErrorClass::Arg, format!("is {size}, but must not be negative"))
    })?;
    datatype.set(handle_of_type(Datatype::match_size(class, bytes)?));
    Ok(())
}

pub fn type_get_value_index(
    _call: &Call,
    value_type: KnownDatatype,
    index_type: KnownDatatype,
    pair_type: Out<Handle>,
) -> CallOutcome<()> {
    let pair = value_type
        .predefined()
        .zip(index_type.predefined())
        .and_then(|(value, index)| Datatype::value_index(value, index));
    pair_type.set(pair.map_or(MPI_DATATYPE_NULL, handle_of_type));
    Ok(())
}

pub fn type_set_name(call: &Call, datatype: KnownDatatype, type_name: &[u8]) -> CallOutcome<()> {
    let length = type_name.len().min(MPI_MAX_OBJECT_NAME - 1);
    *notes(call.library, datatype.handle).name.borrow_mut() = Some(type_name[..length].into());
    Ok(())
}

pub fn type_get_name(
    call: &Call,
    datatype: Handle,
    type_name: OutText,
    resultlen: Out<c_int>,
) -> CallOutcome<()> {
    let given = notes_of(call.library, datatype).and_then(|notes| notes.name.borrow().clone());
    let name = match given {
        Some(name) => name,
        None if datatype == MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL".as_slice().into(),
        None => match call.datatype(1, datatype)?.construction() {
            Construction::Named(named) => named.name().as_bytes().into(),
            _ => Box::default(),
        },
    };
    resultlen.set(type_name.write(&name) as c_int);
    Ok(())
}

/// Returns the name and attributes that the program has set on a datatype, if there are any.
pub fn notes_of(library: &LibraryState, handle: Handle) -> Option<Rc<TypeRecord>> {
    library.type_notes.borrow().get(&handle).cloned()
}

/// Returns the record of the name and attributes of a datatype, which is created if necessary.
pub fn notes(library: &LibraryState, handle: Handle) -> Rc<TypeRecord> {
    Rc::clone(library.type_notes.borrow_mut().entry(handle).or_default())
}
