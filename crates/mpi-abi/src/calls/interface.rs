//! Properties of the binary interface (section 20.2 of the standard), memory for messages (section
//! 9.2), and hardware resources (section 11.8).

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::rc::Rc;

use base::ErrorClass;
use datatype::Predefined;
use memory::placing::{Placing, PlacingError};
use mpi::communicator::MachinePart;
use mpi::info::Info;
use sys::pages::page_bytes;

use crate::arguments::{Out, OutList};
use crate::c;
use crate::call::Call;
use crate::calls::infos;
use crate::failure::{CallOutcome, Failure};
use crate::generated::constants::*;
use crate::library::fortran_facts::Booleans;

pub fn abi_get_version(_call: &Call, major: Out<c_int>, minor: Out<c_int>) -> CallOutcome<()> {
    major.set(MPI_ABI_VERSION);
    minor.set(MPI_ABI_SUBVERSION);
    Ok(())
}

pub fn abi_get_info(call: &Call, info: Out<c::Info>) -> CallOutcome<()> {
    let reported = Info::new();
    for (key, bytes) in [
        ("mpi_aint_size", size_of::<isize>()),
        ("mpi_count_size", size_of::<i64>()),
        ("mpi_offset_size", size_of::<i64>()),
    ] {
        reported.set(key.as_bytes(), bytes.to_string().as_bytes(), infos::LIMITS)?;
    }
    info.set(call.library.infos.insert(reported));
    Ok(())
}

pub fn abi_set_fortran_info(call: &Call, info: Option<Rc<Info>>) -> CallOutcome<()> {
    let mut known = call.library.fortran.info.borrow_mut();
    if known.is_some() {
        return Err(Failure::new(ErrorClass::Abi, "the information about Fortran was set before"));
    }
    let info = info.ok_or_else(|| Failure::argument(1, ErrorClass::Info, "is MPI_INFO_NULL"))?;
    let facts = Info::new();
    for (key, named) in FORTRAN_SIZES {
        if let Some(value) = info.value(key.as_bytes(), infos::LIMITS)? {
            check_size(key, &value, named)?;
            facts.set(key.as_bytes(), &value, infos::LIMITS)?;
        }
    }
    for kind in FORTRAN_KINDS {
        let key = format!("mpi_{kind}_supported");
        if let Some(value) = info.value(key.as_bytes(), infos::LIMITS)? {
            if !matches!(&*value, b"true" | b"false") {
                let value = String::from_utf8_lossy(&value);
                let detail = format!("has \"{value}\" for {key}, but must be true or false");
                return Err(Failure::argument(1, ErrorClass::InfoValue, detail));
            }
            facts.set(key.as_bytes(), &value, infos::LIMITS)?;
        }
    }
    *known = Some(facts);
    Ok(())
}

/// The sizes, in bytes, that Fortran bindings report, and the datatypes that must have them.
const FORTRAN_SIZES: [(&str, Predefined); 4] = [
    ("mpi_logical_size", Predefined::FortranLogical),
    ("mpi_integer_size", Predefined::FortranInteger),
    ("mpi_real_size", Predefined::FortranReal),
    ("mpi_double_precision_size", Predefined::FortranDoublePrecision),
];

/// The optional types for which Fortran bindings report whether the compiler supports them.
const FORTRAN_KINDS: [&str; 19] = [
    "logical1",
    "logical2",
    "logical4",
    "logical8",
    "logical16",
    "integer1",
    "integer2",
    "integer4",
    "integer8",
    "integer16",
    "real2",
    "real4",
    "real8",
    "real16",
    "complex4",
    "complex8",
    "complex16",
    "complex32",
    "double_complex",
];

/// Checks that a size that the Fortran bindings report is the size of the datatype here.
fn check_size(key: &str, value: &[u8], named: Predefined) -> CallOutcome<()> {
    let text = String::from_utf8_lossy(value);
    let Ok(size) = text.parse::<usize>() else {
        let detail = format!("has \"{text}\" for {key}, but must be a number of bytes");
        return Err(Failure::argument(1, ErrorClass::InfoValue, detail));
    };
    if size == named.size() {
        return Ok(());
    }
    let detail = format!(
        "has {size} for {key}, but {} has {} bytes here; compile without options that change the \
         sizes of Fortran's types",
        named.name(),
        named.size()
    );
    Err(Failure::argument(1, ErrorClass::Abi, detail))
}

pub fn abi_get_fortran_info(call: &Call, info: Out<c::Info>) -> CallOutcome<()> {
    let known = call.library.fortran.info.borrow();
    info.set(match &*known {
        Some(known) => call.library.infos.insert(known.duplicate()),
        None => MPI_INFO_NULL,
    });
    Ok(())
}

pub fn abi_set_fortran_booleans(
    call: &Call,
    logical_size: c_int,
    logical_true: &[u8],
    logical_false: &[u8],
) -> CallOutcome<()> {
    logical_bytes(logical_size)?;
    let mut known = call.library.fortran.booleans.borrow_mut();
    if known.is_some() {
        return Err(Failure::new(ErrorClass::Abi, "Fortran's truth values were set before"));
    }
    let reported =
        Booleans { logical_true: logical_true.into(), logical_false: logical_false.into() };
    // Reductions take every nonzero byte for true, which fits the values of all compilers.
    if reported.logical_false.iter().any(|&byte| byte != 0)
        || reported.logical_true.iter().all(|&byte| byte == 0)
    {
        let detail =
            "false must have no bit set and true at least one, as with all Fortran compilers";
        return Err(Failure::new(ErrorClass::Abi, detail));
    }
    *known = Some(reported);
    Ok(())
}

pub fn abi_get_fortran_booleans(
    call: &Call,
    logical_size: c_int,
    logical_true: OutList<u8>,
    logical_false: OutList<u8>,
    is_set: Out<c_int>,
) -> CallOutcome<()> {
    let size = logical_bytes(logical_size)?;
    let known = call.library.fortran.booleans.borrow();
    let known = known.as_ref().filter(|known| known.logical_true.len() == size);
    is_set.set_flag(known.is_some());
    let Some(known) = known else { return Ok(()) };
    logical_true.write(known.logical_true.iter().copied())?;
    logical_false.write(known.logical_false.iter().copied())
}

fn logical_bytes(size: c_int) -> CallOutcome<usize> {
    if matches!(size, 1 | 2 | 4 | 8 | 16) {
        return Ok(size as usize);
    }
    let detail = format!("is {size}, but the sizes of Fortran's LOGICAL are 1, 2, 4, 8 and 16");
    Err(Failure::argument(1, ErrorClass::Arg, detail))
}

/// The alignment of memory of `MPI_Alloc_mem`. As many bytes before the memory contain its size and
/// its alignment. Memory that must be placed on a NUMA node is aligned to whole pages instead.
const ALIGNMENT: usize = 64;

/// Returns the layout of memory for the program, including the bytes before it.
fn layout_of(bytes: usize, alignment: usize) -> Option<Layout> {
    let all = bytes.checked_next_multiple_of(alignment)?.checked_add(alignment)?;
    Layout::from_size_align(all, alignment).ok()
}

/// Returns the placement that the value of the info key `combray_memory` specifies.
fn placing_of(words: &[u8]) -> CallOutcome<Placing> {
    let wrong = |why: String| {
        Failure::argument(
            2,
            ErrorClass::InfoValue,
            format!("has an invalid value for combray_memory: {why}"),
        )
    };
    let wrong = |error: PlacingError| wrong(error.to_string());
    let placing: Placing = String::from_utf8_lossy(words).parse().map_err(wrong)?;
    placing.check().map_err(wrong)?;
    Ok(placing)
}

pub fn alloc_mem(
    _call: &Call,
    size: i64,
    info: Option<Rc<Info>>,
    baseptr: Out<usize>,
) -> CallOutcome<()> {
    let bytes = usize::try_from(size).map_err(|_| {
        let detail = format!("is {size}, but must not be negative");
        Failure::argument(1, ErrorClass::Arg, detail)
    })?;
    let no_memory =
        || Failure::new(ErrorClass::NoMem, format!("{size} bytes of memory are not available"));
    let placing = info.and_then(|info| info.hint(b"combray_memory"));
    let placing = placing.map(|words| placing_of(&words)).transpose()?;
    // Memory with a placement must share no page with other memory.
    let alignment = if placing.is_some() { page_bytes() } else { ALIGNMENT };
    let layout = layout_of(bytes, alignment).ok_or_else(no_memory)?;
    // SAFETY:
    // - The layout includes the bytes before the memory, so it is not empty.
    // - Size and alignment are written to these bytes.
    let memory = unsafe {
        let block = alloc(layout);
        if block.is_null() {
            return Err(no_memory());
        }
        let memory = block.add(alignment);
        memory.cast::<[usize; 2]>().sub(1).write([bytes, alignment]);
        memory as usize
    };
    baseptr.set(memory);
    if let Some(placing) = placing {
        // The placement is a hint: if the system refuses it, pages are placed at the first touch.
        let _ = placing.apply(memory..memory + bytes);
    }
    Ok(())
}

/// Memory of the program that `MPI_Alloc_mem` allocated and that is not freed yet. The creator of a
/// value guarantees this.
pub struct Allocated(NonNull<u8>);

impl Call {
    /// Returns memory that `MPI_Alloc_mem` allocated.
    ///
    /// # Errors
    /// `Base` for a null pointer.
    ///
    /// # Safety
    /// Unless null, as for [`Allocated`].
    pub unsafe fn allocated(&self, position: usize, base: *mut c_void) -> CallOutcome<Allocated> {
        let base = NonNull::new(base.cast());
        let null = || Failure::argument(position, ErrorClass::Base, "is a null pointer");
        base.map(Allocated).ok_or_else(null)
    }
}

pub fn free_mem(_call: &Call, Allocated(base): Allocated) -> CallOutcome<()> {
    // SAFETY: `alloc_mem` wrote this before the memory, which is still allocated.
    let [bytes, alignment] = unsafe { base.cast::<[usize; 2]>().sub(1).read() };
    let damaged = || Failure::argument(1, ErrorClass::Base, "is not memory from MPI_Alloc_mem");
    let is_known = alignment == ALIGNMENT || alignment == page_bytes();
    let layout = layout_of(bytes, alignment).filter(|_| is_known).ok_or_else(damaged)?;
    if alignment == page_bytes() {
        // The next user of these pages must not inherit the placement.
        let start = base.as_ptr() as usize;
        let _ = Placing::FirstTouch.apply(start..start + bytes);
    }
    // SAFETY: the allocation begins `alignment` bytes before the memory, and had this layout.
    unsafe { dealloc(base.as_ptr().sub(alignment), layout) };
    Ok(())
}

pub fn get_hw_resource_info(call: &Call, hw_info: Out<c::Info>) -> CallOutcome<()> {
    // The resource types that MPI_Comm_split_type supports, and whether this process is restricted
    // to one of them; all processes of a job share memory.
    let reported = Info::new();
    reported.set(b"mpi_shared_memory", b"true", infos::LIMITS)?;
    for part in MachinePart::all() {
        let restricts: &[u8] = if part.restricts() { b"true" } else { b"false" };
        reported.set(part.name().as_bytes(), restricts, infos::LIMITS)?;
    }
    hw_info.set(call.library.infos.insert(reported));
    Ok(())
}
