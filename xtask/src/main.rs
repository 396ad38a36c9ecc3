//! Tasks of the workspace. `cargo xtask codegen` generates files from the tables of the MPI ABI.
//! `cargo xtask codegen --check` checks whether they are current. `cargo xtask fortran-programs
//! FOLDER` writes the programs that call every Fortran routine into a folder, `cargo xtask
//! man-pages SHARE` the man pages of all functions, and `cargo xtask site-pages FOLDER` the pages
//! of the site about them. `cargo xtask installed-pages FOLDER` removes links to files that are not
//! installed from the pages below a folder.

#![forbid(unsafe_code)]

mod codegen;
mod pages;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
        ["man-pages", share] => codegen::write_man_pages(Path::new(share)),
        ["installed-pages", folder] => pages::remove_dead_links(Path::new(folder)),
        ["site-pages", folder] => codegen::write_site_pages(Path::new(folder)),
        ["fortran-programs", folder] => codegen::write_fortran_programs(Path::new(folder)),
        _ => Err("usage: cargo xtask codegen [--check] | man-pages SHARE | site-pages FOLDER | \
                  installed-pages FOLDER | fortran-programs FOLDER"
            .to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
