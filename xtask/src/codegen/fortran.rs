//! Generates the Fortran interfaces from the tables of the C functions: `mpif.h`, the modules `mpi`
//! and `mpi_f08`, and their C entry points.

mod constants;
mod declarations;
mod entries;
mod fixed;
mod header;
mod meaning;
mod modules;
mod programs;
mod recorder;
mod routine;
mod views;

use super::tables::Tables;
pub use modules::declared;
pub use routine::Routine;

/// The generated files: path relative to the workspace, and text.
pub fn files(tables: &Tables) -> Result<Vec<(String, String)>, String> {
    let routines = Routine::all(tables)?;
    Ok(vec![
        ("fortran/generated/types.f90".to_owned(), constants::types(tables)),
        ("fortran/generated/mpi.f90".to_owned(), modules::mpi(tables, &routines)),
        ("fortran/generated/mpi_f08.f90".to_owned(), modules::mpi_f08(tables, &routines)),
        ("fortran/generated/mpif.h".to_owned(), header::header(tables, &routines)),
        ("fortran/generated/entries.c".to_owned(), entries::entries(&routines)),
        (
            "fortran/generated/entries_f08.c".to_owned(),
            entries::entries_with_descriptors(&routines),
        ),
    ])
}

/// Generates programs that call every routine, and the C functions behind the routines: name and
/// text.
pub fn programs(tables: &Tables) -> Result<Vec<(String, String)>, String> {
    let routines = Routine::all(tables)?;
    let mut files = programs::programs(&routines);
    files.push(("recorded.c".to_owned(), recorder::recorder(tables, &routines)));
    files.push(("constants_mpif.f90".to_owned(), fixed::program(tables, &routines)));
    Ok(files)
}

/// Joins `words` with commas, in free-form lines that begin with `indent` spaces.
fn filled(indent: usize, first: &str, words: &[String], last: &str) -> String {
    let mut text = format!("{}{first}", " ".repeat(indent));
    let mut length = text.len();
    for (index, word) in words.iter().enumerate() {
        let after = if index + 1 == words.len() { "" } else { ", " };
        if length + word.len() + after.len() > WIDTH {
            text.truncate(text.trim_end().len());
            text.push_str(" &\n");
            text.push_str(&" ".repeat(indent + 4));
            length = indent + 4;
        }
        text.push_str(word);
        text.push_str(after);
        length += word.len() + after.len();
    }
    if length + last.len() > WIDTH {
        text.push_str(&format!(" &\n{}", " ".repeat(indent + 4)));
    }
    text + last + "\n"
}

/// The length of lines, without the continuation sign.
const WIDTH: usize = 96;
