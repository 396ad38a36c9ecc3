//! Programs that refer to every routine of each interface, with arguments of the types that the
//! standard gives them: they are compiled and linked by the tests.

use std::fmt::Write;

use super::constants::HEAD;
use super::declarations::{FortranInterface, declaration, names};
use super::filled;
use super::routine::{ArgumentKind, FortranArgument, Intent, Routine, plain};

/// The programs: name and text.
pub fn programs(routines: &[Routine]) -> Vec<(String, String)> {
    [
        ("mpif", FortranInterface::Header),
        ("mpi", FortranInterface::Mpi),
        ("mpi_f08", FortranInterface::Mpi08),
    ]
    .map(|(name, interface)| (format!("every_{name}.f90"), program(routines, interface)))
    .into()
}

fn program(routines: &[Routine], interface: FortranInterface) -> String {
    let mut text = format!("{HEAD}module every_routine\n");
    text.push_str(match interface {
        FortranInterface::Mpi08 => {
            "  use mpi_f08\n  use, intrinsic :: iso_c_binding, only: c_ptr\n"
        }
        FortranInterface::Header => "",
        _ => "  use mpi\n  use, intrinsic :: iso_c_binding, only: c_ptr\n",
    });
    text.push_str("  implicit none\n");
    if interface == FortranInterface::Header {
        text.push_str("  include 'mpif.h'\n");
    }
    text.push_str("contains\n");
    for routine in routines {
        match interface {
            FortranInterface::Mpi08 if routine.is_old => continue,
            FortranInterface::Mpi08 => {}
            _ if routine.is_large() => continue,
            // A status of module mpi_f08 is not known there.
            FortranInterface::Header if routine.name.contains("f08") => continue,
            _ => {}
        }
        text.push_str(&procedure(routine, interface));
    }
    text + "end module every_routine\n\nprogram every\n  use every_routine\nend program every\n"
}

/// A subroutine that hands its arguments on.
fn procedure(routine: &Routine, interface: FortranInterface) -> String {
    let name = format!("call_{}", routine.symbol());
    let passed = names(routine);
    let mut text = format!("\n{}", filled(2, &format!("subroutine {name}("), &passed, ")"));
    for argument in &routine.arguments {
        for line in variable(argument, interface) {
            writeln!(text, "    {line}").unwrap();
        }
    }
    if routine.has_code {
        text.push_str("    integer :: ierror\n");
    }
    if let Some(result) = routine.result {
        let result = match interface {
            FortranInterface::Header => result.replace("MPI_ADDRESS_KIND", "8"),
            _ => result.to_owned(),
        };
        writeln!(text, "    {result} :: value").unwrap();
    }
    let word = if routine.result.is_some() { "value = " } else { "call " };
    for called in called(routine, interface) {
        text.push_str(&filled(4, &format!("{word}{called}("), &passed, ")"));
        if interface == FortranInterface::Mpi08 && routine.has_code {
            let without = &passed[..passed.len() - 1];
            text.push_str(&filled(4, &format!("{word}{called}("), without, ")"));
        }
    }
    if routine.result.is_some() {
        text.push_str("    print *, value\n");
    }
    text + &format!("  end subroutine {name}\n")
}

/// The names under which the routine is called.
fn called(routine: &Routine, interface: FortranInterface) -> Vec<String> {
    let name = routine.name.as_str();
    let mut names = vec![name.to_owned(), format!("P{name}")];
    let has_one_name = matches!(name, "MPI_Op_create_c" | "MPI_Register_datarep_c");
    if interface == FortranInterface::Mpi08 && routine.is_large() && !has_one_name {
        names.push(plain(name).to_owned());
        names.push(format!("P{}", plain(name)));
    }
    names
}

/// A dummy argument that can be handed on.
fn variable(argument: &FortranArgument, interface: FortranInterface) -> Vec<String> {
    let is_memory = argument.kind == ArgumentKind::Memory && interface != FortranInterface::Mpi08;
    if is_memory || matches!(argument.kind, ArgumentKind::Choice(_)) {
        return vec![format!("real :: {}(*)", argument.name)];
    }
    let mut free = argument.clone();
    if !matches!(argument.kind, ArgumentKind::Procedure(_)) {
        free.intent = Intent::Unsaid;
    }
    free.is_kept = false;
    declaration(&free, interface)
}
