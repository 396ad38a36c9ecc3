//! Chores of the workspace: `cargo xtask codegen` makes what is generated from the tables of the
//! MPI ABI, `cargo xtask codegen --check` tells whether it is current.

#![forbid(unsafe_code)]

mod codegen;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
        _ => Err("usage: cargo xtask codegen [--check]".to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
