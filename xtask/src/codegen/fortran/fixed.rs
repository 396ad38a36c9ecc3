//! Generates a program that passes every constant to every routine that may change its handle
//! argument. The constants of mpif.h lie in read-only memory.

use std::fmt::Write;

use super::super::tables::Tables;
use super::constants::{HEAD, Named, named};
use super::filled;
use super::meaning::{ArgumentKind, Intent, Shape};
use super::routine::{FortranArgument, Routine};

/// The text of the program.
pub fn program(tables: &Tables, routines: &[Routine]) -> String {
    let mut text = format!(
        "{HEAD}! run: 1\n! flags: -w\nprogram constants\n  implicit none\n  include 'mpif.h'\n  integer :: code, \
         room, request\n  logical :: flag\n  call MPI_Init(code)\n  call \
         MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, code)\n  call \
         MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)\n"
    );
    let constants = named(tables);
    for routine in routines.iter().filter(|one| !one.is_large()) {
        let Some((position, kind)) = changed(routine) else { continue };
        let of_kind = |one: &&Named| one.handle.as_deref() == Some(kind);
        for constant in constants.iter().filter(of_kind) {
            let passed: Vec<String> = (0..routine.arguments.len())
                .map(|index| match index == position {
                    true => constant.name.clone(),
                    false => other(&routine.arguments[index]).to_owned(),
                })
                .chain(["code".to_owned()])
                .collect();
            text.push_str(&filled(2, &format!("call {}(", routine.name), &passed, ")"));
        }
    }
    writeln!(text, "  call MPI_Finalize(code)\n  if (code /= MPI_SUCCESS) error stop 1").unwrap();
    text + "end program constants\n"
}

/// The position and the kind of the handle that a routine may change.
fn changed(routine: &Routine) -> Option<(usize, &str)> {
    let arguments = routine.arguments.iter().enumerate();
    arguments.into_iter().find_map(|(index, one)| match &one.kind {
        ArgumentKind::Handle(kind) if one.intent == Intent::InOut && one.shape == Shape::Scalar => {
            Some((index, kind.as_str()))
        }
        _ => None,
    })
}

/// The value for each other argument.
fn other(argument: &FortranArgument) -> &'static str {
    match &argument.kind {
        ArgumentKind::Status => "MPI_STATUS_IGNORE",
        ArgumentKind::Logical => "flag",
        ArgumentKind::Choice(_) => "room",
        ArgumentKind::Handle(kind) if kind == "Datatype" => "MPI_INTEGER",
        ArgumentKind::Handle(_) => "request",
        _ => "1",
    }
}
