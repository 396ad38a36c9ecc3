//! Generates the modules `mpi` and `mpi_f08`.

use std::fmt::Write;

use super::super::tables::Tables;
use super::constants::{HEAD, REMOVED_DATATYPES, named};
use super::declarations::{FortranInterface, declaration, names, type_of};
use super::filled;
use super::meaning::ArgumentKind;
use super::routine::{FortranArgument, Routine, plain};

/// The text of module `mpi`.
pub fn mpi(tables: &Tables, routines: &[Routine]) -> String {
    let mut text = format!("{HEAD}module mpi\n  use combray_mpi_types\n  implicit none\n\n");
    text.push_str(&agreements(FortranInterface::Mpi));
    for constant in named(tables).iter().filter(|constant| constant.handle.is_some()) {
        writeln!(text, "  integer, parameter :: {} = {}", constant.name, constant.value).unwrap();
    }
    for (name, value) in REMOVED_DATATYPES {
        writeln!(text, "  integer, parameter :: {name} = {value}").unwrap();
    }
    for (name, extent) in [("STATUS", ""), ("STATUSES", ", 1")] {
        let symbol = name.to_lowercase();
        writeln!(
            text,
            "  integer, bind(C, name=\"mpi_fortran_{symbol}_ignore_\"), target :: &\n      \
             MPI_{name}_IGNORE(MPI_STATUS_SIZE{extent})"
        )
        .unwrap();
    }
    text.push_str("\n  ! Functions of attributes and data representations.\n");
    for name in FUNCTIONS {
        writeln!(text, "  external :: {name}, P{name}").unwrap();
    }
    for routine in routines.iter().filter(|routine| !routine.is_large()) {
        let large =
            routines.iter().find(|one| one.is_everywhere && plain(&one.name) == routine.name);
        for prefix in ["", "P"] {
            let name = format!("{prefix}{}", routine.name);
            if let Some(large) = large {
                text.push_str(&with_large(routine, large, prefix));
                continue;
            }
            let has_pointer = routine.arguments.iter().any(|one| one.kind == ArgumentKind::Pointer);
            let generic = if has_pointer { format!(" {name}") } else { String::new() };
            write!(text, "\n  interface{generic}\n").unwrap();
            text.push_str(&body(routine, &name, None, FortranInterface::Mpi));
            if has_pointer {
                let specific = format!("{name}_cptr");
                text.push_str(&body(routine, &specific, None, FortranInterface::MpiPointer));
            }
            writeln!(text, "  end interface{generic}").unwrap();
        }
    }
    text + "end module mpi\n"
}

/// A generic routine whose counts may be of either kind.
fn with_large(routine: &Routine, large: &Routine, prefix: &str) -> String {
    let mut text = format!("\n  interface {prefix}{}\n", routine.name);
    for one in [routine, large] {
        text.push_str(&body(one, &format!("{prefix}{}", one.name), None, FortranInterface::Mpi));
    }
    text + &format!("  end interface {prefix}{}\n", routine.name)
}

/// The functions that the standard defines, and that a program passes in place of its own
/// functions.
pub const FUNCTIONS: [&str; 14] = [
    "MPI_COMM_NULL_COPY_FN",
    "MPI_COMM_DUP_FN",
    "MPI_COMM_NULL_DELETE_FN",
    "MPI_TYPE_NULL_COPY_FN",
    "MPI_TYPE_DUP_FN",
    "MPI_TYPE_NULL_DELETE_FN",
    "MPI_WIN_NULL_COPY_FN",
    "MPI_WIN_DUP_FN",
    "MPI_WIN_NULL_DELETE_FN",
    "MPI_NULL_COPY_FN",
    "MPI_DUP_FN",
    "MPI_NULL_DELETE_FN",
    "MPI_CONVERSION_FN_NULL",
    "MPI_CONVERSION_FN_NULL_C",
];

/// The text of module `mpi_f08`.
pub fn mpi_f08(tables: &Tables, routines: &[Routine]) -> String {
    let mut text = format!(
        "{HEAD}module mpi_f08\n  use combray_mpi_types\n  use combray_mpi_callbacks\n  implicit \
         none\n\n"
    );
    text.push_str(&agreements(FortranInterface::Mpi08));
    for constant in named(tables) {
        let Some(handle) = &constant.handle else { continue };
        let (name, value) = (&constant.name, constant.value);
        writeln!(text, "  type(MPI_{handle}), parameter :: {name} = MPI_{handle}({value})")
            .unwrap();
    }
    for (name, extent) in [("STATUS", ""), ("STATUSES", "(1)")] {
        let symbol = name.to_lowercase();
        writeln!(
            text,
            "  type(MPI_Status), bind(C, name=\"mpi_fortran_f08_{symbol}_ignore_\"), target :: &\n      \
             MPI_{name}_IGNORE{extent}"
        )
        .unwrap();
    }
    let with_types: Vec<&Routine> = routines.iter().filter(|routine| !routine.is_old).collect();
    for routine in with_types.iter().filter(|routine| !routine.is_large()) {
        let large =
            with_types.iter().find(|other| other.is_large() && plain(&other.name) == routine.name);
        for prefix in ["", "P"] {
            text.push_str(&generic(prefix, &routine.name, &[routine]));
            let Some(large) = large else { continue };
            text.push_str(&generic(prefix, &large.name, &[large]));
            if !is_same_to_callers(routine, large) {
                let both = format!(
                    "\n  interface {prefix}{}\n    procedure :: {prefix}{}\n  end interface\n",
                    routine.name,
                    specific(large)
                );
                text.push_str(&both);
            }
        }
    }
    text + "end module mpi_f08\n"
}

/// The two constants in which an interface declares its abilities. Only with descriptors are both
/// true.
fn agreements(interface: FortranInterface) -> String {
    let value = if interface == FortranInterface::Mpi08 { ".true." } else { ".false." };
    format!(
        "  logical, parameter :: MPI_SUBARRAYS_SUPPORTED = {value}\n  logical, parameter :: \
         MPI_ASYNC_PROTECTS_NONBLOCKING = {value}\n"
    )
}

/// Whether a call cannot distinguish the two routines. Then only the one without `_c` gets the
/// name.
pub fn is_same_to_callers(routine: &Routine, large: &Routine) -> bool {
    let types = |routine: &Routine| {
        let is_procedure = |one: &&FortranArgument| !matches!(one.kind, ArgumentKind::Procedure(_));
        let arguments = routine.arguments.iter().filter(is_procedure);
        let text = |one: &FortranArgument| {
            // The two kinds are equal.
            let kind =
                type_of(one, FortranInterface::Mpi08).replace("MPI_ADDRESS_KIND", "MPI_COUNT_KIND");
            format!("{kind} {:?}", one.shape)
        };
        arguments.map(text).collect::<Vec<_>>()
    };
    types(routine) == types(large)
}

/// The name of a specific routine for tools (section 19.1.5).
pub fn specific(routine: &Routine) -> String {
    let end = if routine.has_choice() { "f08ts" } else { "f08" };
    format!("{}_{end}", routine.name)
}

fn generic(prefix: &str, name: &str, routines: &[&Routine]) -> String {
    let mut text = format!("\n  interface {prefix}{name}\n");
    for routine in routines {
        let specific = format!("{prefix}{}", specific(routine));
        let symbol = routine.has_choice().then(|| format!("{}_", specific.to_lowercase()));
        text.push_str(&body(routine, &specific, symbol.as_deref(), FortranInterface::Mpi08));
    }
    text + &format!("  end interface {prefix}{name}\n")
}

/// The declaration of a routine in module `mpi_f08`, as lines for readers.
pub fn declared(routine: &Routine) -> Vec<String> {
    let text = body(routine, &routine.name, None, FortranInterface::Mpi08);
    let lines = text.lines().filter(|line| line.trim() != "import");
    lines.map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned()).collect()
}

/// An interface body. With `symbol` it declares a C function, which receives descriptors.
fn body(
    routine: &Routine,
    name: &str,
    symbol: Option<&str>,
    interface: FortranInterface,
) -> String {
    let binding = symbol.map(|symbol| format!(", bind(C, name=\"{symbol}\")"));
    // The type of a function is declared inside.
    let word = if routine.result.is_some() { "function" } else { "subroutine" };
    let bind = binding.map(|binding| binding.replace(", bind", " bind")).unwrap_or_default();
    let mut text = filled(4, &format!("{word} {name}("), &names(routine), &format!("){bind}"));
    text.push_str("      import\n");
    for argument in &routine.arguments {
        for line in declaration(argument, interface) {
            let indent = if line.starts_with('!') { "" } else { "      " };
            writeln!(text, "{indent}{line}").unwrap();
        }
    }
    if routine.has_code {
        let optional = if interface == FortranInterface::Mpi08 { "optional, " } else { "" };
        writeln!(text, "      integer, {optional}intent(out) :: ierror").unwrap();
    }
    if let Some(result) = routine.result {
        writeln!(text, "      {result} :: {name}").unwrap();
    }
    text + &format!("    end {word} {name}\n")
}
