//! Generates docs/user/conformance.md: which functions of each chapter of the standard are
//! implemented.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::tables::{MpiFunction, Tables};

/// The generated part of the page is between these lines.
const BEGIN: &str = "<!-- `cargo xtask codegen`, from crates/mpi-abi/abi: -->\n";
const END: &str = "<!-- end of what is generated -->\n";

/// The chapters of MPI 5.0 that define functions.
pub const CHAPTERS: &[(u8, &str)] = &[
    (3, "Point-to-point communication"),
    (4, "Partitioned communication"),
    (5, "Datatypes"),
    (6, "Collective communication"),
    (7, "Groups, contexts, communicators, caching"),
    (8, "Virtual topologies"),
    (9, "Environmental management"),
    (10, "Info objects"),
    (11, "Initialization, creation of processes"),
    (12, "One-sided communication"),
    (13, "External interfaces"),
    (14, "I/O"),
    (15, "Tool support"),
    (16, "Deprecated interfaces"),
    (19, "Language bindings"),
    (20, "Application binary interface"),
];

/// Prefixes of the names of each chapter's functions. A rule with a leading `*` matches inside the
/// name; a rule with a trailing `$` matches only at the end. The first matching rule applies.
const RULES: &[(&str, u8)] = &[
    ("T_", 15),
    ("Pcontrol$", 15),
    ("Abi_", 20),
    ("*_toint$", 20),
    ("*_fromint$", 20),
    ("Type_create_f90_", 19),
    ("Type_match_size$", 19),
    ("*errhandler", 9),
    ("Errhandler_", 9),
    ("Error_", 9),
    ("Add_error_", 9),
    ("Remove_error_", 9),
    ("Alloc_mem$", 9),
    ("Free_mem$", 9),
    ("Get_version$", 9),
    ("Get_library_version$", 9),
    ("Get_processor_name$", 9),
    ("Get_hw_resource_info$", 9),
    ("Wtime$", 9),
    ("Wtick$", 9),
    ("Info_", 10),
    ("Comm_spawn", 11),
    ("Comm_get_parent$", 11),
    ("Comm_join$", 11),
    ("Comm_accept$", 11),
    ("Comm_connect$", 11),
    ("Comm_disconnect$", 11),
    ("Open_port$", 11),
    ("Close_port$", 11),
    ("Publish_name$", 11),
    ("Unpublish_name$", 11),
    ("Lookup_name$", 11),
    ("Init", 11),
    ("Final", 11),
    ("Abort$", 11),
    ("Query_thread$", 11),
    ("Is_thread_main$", 11),
    ("*_attach_buffer$", 3),
    ("*_detach_buffer$", 3),
    ("*_flush_buffer$", 3),
    ("*_iflush_buffer$", 3),
    ("Session_", 11),
    ("*_keyval$", 7),
    ("*_attr$", 7),
    ("*_set_name$", 7),
    ("*_get_name$", 7),
    ("Register_datarep$", 14),
    ("File_", 14),
    ("Win_", 12),
    ("Put$", 12),
    ("Get$", 12),
    ("Accumulate$", 12),
    ("Get_accumulate$", 12),
    ("Rput$", 12),
    ("Rget$", 12),
    ("Raccumulate$", 12),
    ("Rget_accumulate$", 12),
    ("Fetch_and_op$", 12),
    ("Compare_and_swap$", 12),
    ("Grequest_", 13),
    ("Status_set_", 13),
    ("Cart", 8),
    ("Graph", 8),
    ("Dist_graph_", 8),
    ("Topo_test$", 8),
    ("Dims_create$", 8),
    ("Neighbor_", 8),
    ("Ineighbor_", 8),
    ("Psend_init$", 4),
    ("Precv_init$", 4),
    ("Pready", 4),
    ("Parrived$", 4),
    ("Type_", 5),
    ("Pack", 5),
    ("Unpack", 5),
    ("Get_address$", 5),
    ("Get_elements$", 5),
    ("Aint_", 5),
    ("Group_", 7),
    ("Comm_", 7),
    ("Intercomm_", 7),
    ("Op_", 6),
    ("Barrier", 6),
    ("Bcast", 6),
    ("Gather", 6),
    ("Scatter", 6),
    ("Allgather", 6),
    ("Alltoall", 6),
    ("Reduce", 6),
    ("Allreduce", 6),
    ("Scan", 6),
    ("Exscan", 6),
    ("Ibarrier", 6),
    ("Ibcast", 6),
    ("Igather", 6),
    ("Iscatter", 6),
    ("Iallgather", 6),
    ("Ialltoall", 6),
    ("Ireduce", 6),
    ("Iallreduce", 6),
    ("Iscan", 6),
    ("Iexscan", 6),
    ("Buffer_", 3),
    ("*send", 3),
    ("*Send", 3),
    ("*recv", 3),
    ("*Recv", 3),
    ("*robe$", 3),
    ("Wait", 3),
    ("Test", 3),
    ("Request_", 3),
    ("Start", 3),
    ("Cancel$", 3),
    ("Get_count$", 3),
    ("Status_", 3),
];

/// The text of docs/user/conformance.md.
pub fn page(root: &Path, tables: &Tables) -> Result<String, String> {
    let path = "docs/user/conformance.md";
    let page = fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"))?;
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or(format!("{path} has no place for the chapters"))?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(tables)?))
}

fn table(tables: &Tables) -> Result<String, String> {
    let mut text = String::from("| chapter | functions | here | missing |\n|---|---|---|---|\n");
    let chapters: Vec<u8> = tables.functions.iter().map(chapter).collect::<Result<_, _>>()?;
    let mut all = 0;
    for (number, title) in CHAPTERS {
        let own = tables.functions.iter().zip(&chapters).filter(|(_, chapter)| *chapter == number);
        let own: Vec<&MpiFunction> = own.map(|(function, _)| function).collect();
        let missing: Vec<String> = own
            .iter()
            .filter(|function| function.implemented.is_none())
            .map(|function| format!("`{}`", function.name))
            .collect();
        let (count, here) = (own.len(), own.len() - missing.len());
        all += count;
        _ = writeln!(text, "| {number} {title} | {count} | {here} | {} |", missing.join(", "));
    }
    let here = tables.functions.iter().filter(|function| function.implemented.is_some()).count();
    _ = writeln!(text, "| all | {all} | {here} | |");
    match all == tables.functions.len() {
        true => Ok(text),
        false => Err("some functions are of a chapter that CHAPTERS does not list".to_owned()),
    }
}

/// Returns the chapter of MPI 5.0 that defines a function.
pub fn chapter(function: &MpiFunction) -> Result<u8, String> {
    if function.note.starts_with("deprecated") {
        return Ok(16);
    }
    let bare = function.name.strip_prefix("MPI_").unwrap_or(&function.name);
    // Functions for large counts belong to the chapter of their twins.
    let bare = bare.strip_suffix("_c").unwrap_or(bare);
    let found = RULES.iter().find(|(rule, _)| matches(bare, rule));
    found.map(|(_, chapter)| *chapter).ok_or(format!("{}: of which chapter is it?", function.name))
}

fn matches(name: &str, rule: &str) -> bool {
    match (rule.strip_prefix('*'), rule.strip_suffix('$')) {
        (Some(rest), _) => match rest.strip_suffix('$') {
            Some(end) => name.ends_with(end),
            None => name.contains(rest),
        },
        (None, Some(whole)) => name == whole,
        (None, None) => name.starts_with(rule),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_match_names() {
        assert!(matches("Type_create_keyval", "*_keyval$") && !matches("Keyval_x", "*_keyval$"));
        assert!(matches("Get", "Get$") && !matches("Get_count", "Get$"));
        assert!(matches("Comm_create_errhandler", "*errhandler") && matches("Initialized", "Init"));
    }

    #[test]
    fn every_rule_is_of_use() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tables = Tables::read(&root.join("crates/mpi-abi/abi")).unwrap();
        let names =
            tables.functions.iter().map(|function| function.name.trim_start_matches("MPI_"));
        let names: Vec<&str> = names.map(|name| name.strip_suffix("_c").unwrap_or(name)).collect();
        for (index, (rule, _)) in RULES.iter().enumerate() {
            let is_first = |name: &&&str| {
                matches(name, rule) && !RULES[..index].iter().any(|(other, _)| matches(name, other))
            };
            assert!(names.iter().any(|name| is_first(&name)), "{rule} decides about nothing");
        }
    }
}
