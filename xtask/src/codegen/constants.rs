//! Generates the constants and the error classes in Rust.

use std::fmt::Write;

use super::rust_text::{HEAD, formatted};
use super::tables::{Constant, Dialect, Tables};

/// The text of `constants.rs` of the standard ABI, or of another dialect.
pub fn constants(tables: &Tables, dialect: Option<&Dialect>) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(
        "//! The constants of the ABI, under the names of the C interface.\n\n\
         #![allow(dead_code, missing_docs)]\n\n\
         use std::ffi::c_int;\n\nuse crate::c::*;\n\n",
    );
    let added = dialect.map_or(&[][..], |dialect| &dialect.constants);
    let all = || tables.constants.iter().chain(added);
    for constant in all() {
        let name = &constant.name;
        let value = value_in(dialect, constant);
        let line = match kind(constant) {
            ConstantKind::Integer => format!("pub const {name}: c_int = {value};\n"),
            ConstantKind::Limit => format!("pub const {name}: usize = {value};\n"),
            ConstantKind::Offset => format!("pub const {name}: i64 = {value};\n"),
            ConstantKind::Pointer => format!("pub const {name}: usize = {value};\n"),
            ConstantKind::Handle(handle) => {
                format!("pub const {name}: {handle} = {handle}({value});\n")
            }
            ConstantKind::Alias(handle) => format!("pub const {name}: {handle} = {value};\n"),
        };
        text.push_str(&line);
    }
    text.push_str(
        "\n/// The names of the predefined handles, for messages; those of the tools interface \
         excepted.\npub const HANDLE_NAMES: &[(HandleKind, usize, &str)] = &[\n",
    );
    for constant in all() {
        if let ConstantKind::Handle(kind) = kind(constant) {
            let (name, value) = (&constant.name, value_in(dialect, constant));
            writeln!(text, "(HandleKind::{kind}, {value}, {name:?}),").expect("strings grow");
        }
    }
    text.push_str("];\n");
    formatted(&text)
}

/// The value of a constant in a dialect; if the dialect's table has none, the value of the standard
/// ABI.
pub fn value_in<'a>(dialect: Option<&'a Dialect>, constant: &'a Constant) -> &'a str {
    let own = dialect.and_then(|dialect| dialect.values.get(&constant.name));
    own.unwrap_or(&constant.value)
}

/// The text of `classes.rs`.
pub fn errors(tables: &Tables) -> String {
    let classes: Vec<(&str, String)> = tables
        .constants
        .iter()
        .map(|constant| constant.name.as_str())
        .filter(|name| name.starts_with("MPI_ERR_") || name.starts_with("MPIX_ERR_"))
        .filter(|name| !matches!(*name, "MPI_ERR_LASTCODE" | "MPI_ERRCODES_IGNORE"))
        .map(|name| (name, variant(name)))
        .collect();
    let mut text = HEAD.to_owned();
    text.push_str(
        "//! Error classes and their numbers.\n\n\
         use std::ffi::c_int;\n\nuse base::ErrorClass;\n\nuse super::constants::*;\n\n\
         /// The number of a class in the C interface.\n\
         pub fn code_of_class(class: ErrorClass) -> c_int {\n match class {\n",
    );
    for (name, variant) in &classes {
        writeln!(text, "ErrorClass::{variant} => {name},").expect("strings grow");
    }
    text.push_str(
        "ErrorClass::Added(code) => code,\n}\n}\n\n\
         /// The class with a number, if the standard has one.\n#[cfg(test)]\n\
         #[allow(unreachable_patterns, clippy::match_overlapping_arm)]\n\
         pub fn class_of_code(code: c_int) -> Option<ErrorClass> {\n Some(match code {\n",
    );
    for (name, variant) in &classes {
        writeln!(text, "{name} => ErrorClass::{variant},").expect("strings grow");
    }
    text.push_str(
        "_ => return None,\n})\n}\n\n\
         /// A sentence for an error class of the standard; where a dialect has one number for\n\
         /// two, for the first.\n\
         #[allow(unreachable_patterns, clippy::match_overlapping_arm)]\n\
         pub fn text_of_class(code: c_int) -> Option<&'static str> {\n Some(match code {\n",
    );
    for (name, sentence) in &tables.errors {
        let full = if name == "MPI_SUCCESS" { sentence } else { &format!("{name}: {sentence}") };
        writeln!(text, "{name} => {full:?},").expect("strings grow");
    }
    text.push_str("_ => return None,\n})\n}\n");
    formatted(&text)
}

enum ConstantKind<'a> {
    Integer,
    /// The size of an object, in bytes.
    Limit,
    Offset,
    /// An address, or one of the numbers that stand for functions of the program.
    Pointer,
    Handle(&'a str),
    /// Another name of a handle constant.
    Alias(&'static str),
}

fn kind(constant: &Constant) -> ConstantKind<'_> {
    match constant.kind.as_str() {
        "" if constant.value.starts_with("MPI_") => ConstantKind::Alias("Datatype"),
        "" if constant.name.contains("VERSION") && !constant.name.contains("MAX") => {
            ConstantKind::Integer
        }
        "" => ConstantKind::Limit,
        "int" => ConstantKind::Integer,
        "MPI_Offset" => ConstantKind::Offset,
        kind if kind.ends_with('*') => ConstantKind::Pointer,
        kind if kind.starts_with("MPI_T_") => ConstantKind::Pointer,
        kind => ConstantKind::Handle(kind.trim_start_matches("MPI_")),
    }
}

/// Converts `MPI_ERR_NO_MEM` to `NoMem`.
fn variant(name: &str) -> String {
    let name = name.trim_start_matches("MPIX_ERR_").trim_start_matches("MPI_ERR_");
    let words = name.split('_');
    words.map(|word| word[..1].to_owned() + &word[1..].to_lowercase()).collect()
}
