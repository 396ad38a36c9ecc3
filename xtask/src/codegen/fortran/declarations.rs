//! The declaration of an argument in each interface.

use super::meaning::{ArgumentKind, Intent, Shape};
use super::routine::{FortranArgument, Routine};

/// The interface for which a declaration is generated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FortranInterface {
    /// Module `mpi_f08`.
    Mpi08,
    /// Module `mpi`.
    Mpi,
    /// Module `mpi`, with `type(c_ptr)` for a memory address.
    MpiPointer,
    /// `mpif.h`, in which the constants of the modules are not available.
    Header,
}

impl FortranInterface {
    fn address_kind(self) -> &'static str {
        if self == Self::Header { "8" } else { "MPI_ADDRESS_KIND" }
    }
}

/// The declaration of an argument, as lines.
pub fn declaration(argument: &FortranArgument, interface: FortranInterface) -> Vec<String> {
    let name = format!("{}{}", argument.name, dimensions(argument, interface));
    let is_memory = matches!(argument.kind, ArgumentKind::Choice(_) | ArgumentKind::Memory);
    if is_memory && interface != FortranInterface::Mpi08 {
        return vec![
            format!("!GCC$ ATTRIBUTES NO_ARG_CHECK :: {}", argument.name),
            format!("!DIR$ IGNORE_TKR {}", argument.name),
            format!("integer :: {}(*)", argument.name),
        ];
    }
    if let ArgumentKind::Procedure(of) = &argument.kind {
        return match interface {
            FortranInterface::Mpi08 => vec![format!("procedure({of}) :: {name}")],
            _ => vec![format!("external :: {name}")],
        };
    }
    let mut words = vec![type_of(argument, interface)];
    let is_choice = matches!(argument.kind, ArgumentKind::Choice(_));
    if is_choice {
        words.push("dimension(..)".to_owned());
    }
    match argument.intent {
        Intent::In => words.push("intent(in)".to_owned()),
        Intent::Out => words.push("intent(out)".to_owned()),
        Intent::InOut => words.push("intent(inout)".to_owned()),
        Intent::Unsaid => {}
    }
    if argument.is_kept && interface == FortranInterface::Mpi08 {
        words.push("asynchronous".to_owned());
        // Compilers assume that the address of an argument that is not a target is not kept, and
        // many programs do not declare their buffers as asynchronous.
        if is_choice {
            words.push("target".to_owned());
        }
    }
    vec![format!("{} :: {name}", words.join(", "))]
}

/// The type, as far as it distinguishes the specific routines of a generic one.
pub fn type_of(argument: &FortranArgument, interface: FortranInterface) -> String {
    let integer = |kind: &str| match interface {
        FortranInterface::Header => "integer(8)".to_owned(),
        _ => format!("integer({kind})"),
    };
    match &argument.kind {
        ArgumentKind::Integer | ArgumentKind::Position | ArgumentKind::Weights => {
            "integer".to_owned()
        }
        ArgumentKind::Address => integer("MPI_ADDRESS_KIND"),
        ArgumentKind::Count => integer("MPI_COUNT_KIND"),
        ArgumentKind::Offset => integer("MPI_OFFSET_KIND"),
        ArgumentKind::Logical => "logical".to_owned(),
        ArgumentKind::Handle(_) | ArgumentKind::Status if interface != FortranInterface::Mpi08 => {
            "integer".to_owned()
        }
        ArgumentKind::Handle(name) => format!("type(MPI_{name})"),
        ArgumentKind::Status | ArgumentKind::Status08 => "type(MPI_Status)".to_owned(),
        ArgumentKind::Text | ArgumentKind::Word => "character(len=*)".to_owned(),
        ArgumentKind::Choice(_) => "type(*)".to_owned(),
        ArgumentKind::Pointer | ArgumentKind::Memory => match interface {
            FortranInterface::Mpi08 | FortranInterface::MpiPointer => "type(c_ptr)".to_owned(),
            _ => format!("integer({})", interface.address_kind()),
        },
        ArgumentKind::Procedure(name) => format!("procedure({name})"),
    }
}

fn dimensions(argument: &FortranArgument, interface: FortranInterface) -> &'static str {
    let is_status = argument.kind == ArgumentKind::Status && interface != FortranInterface::Mpi08;
    match argument.shape {
        Shape::Status => "(8)",
        Shape::Scalar if is_status => "(8)",
        Shape::List if is_status => "(8, *)",
        Shape::Scalar => "",
        Shape::List => "(*)",
        Shape::Triplets => "(3, *)",
        Shape::Table => "(count, *)",
    }
}

/// The names of all arguments, including the error code.
pub fn names(routine: &Routine) -> Vec<String> {
    let code = routine.has_code.then(|| "ierror".to_owned());
    routine.arguments.iter().map(|argument| argument.name.clone()).chain(code).collect()
}
