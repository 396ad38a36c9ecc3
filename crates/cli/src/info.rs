//! `combray info`.

pub mod choices;
mod copying;
mod machine;

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use base::variables::{COMMAND_VARIABLES, CONTROL_VARIABLES, TEXT_VARIABLES};
use launcher::libraries::{self, BroughtLibraries};
use runtime::FoundRail;
use runtime::configuration;
use runtime::instruments::Category;
use runtime::instruments::journal::EVENTS;
use runtime::instruments::performance::PERFORMANCE_VARIABLES;
use serde_json::json;
use sys::cores;
use topology::Locality;

use crate::output::{print, print_page};
use crate::prefix;
use choices::ShownCommunicator;

/// The functions that the library does not implement yet, one per line; generated.
const UNSUPPORTED: &str = include_str!("../../mpi-abi/generated/unsupported.txt");

/// What `combray info` prints.
pub enum Topic<'a> {
    /// Version, folders, and settings.
    Summary,
    /// Version, folders, and settings as JSON.
    Json,
    /// The functions that are not implemented.
    Unsupported,
    /// The variables and events of the tool interface.
    Variables,
    /// The MPI library for which a program was built.
    Program(&'a Path),
    /// Which collective algorithm is chosen when.
    Collectives(&'a ShownCommunicator),
    /// How messages inside this machine are copied at first.
    Copying,
}

/// Prints information about this installation.
///
/// # Errors
/// The path of this program is unknown, or the output cannot be written.
pub fn run(topic: Topic) -> Result<i32, String> {
    let text = match topic {
        Topic::Summary => summary(&prefix::find()?),
        Topic::Json => return print(&json(&prefix::find()?)).map(|()| 0),
        Topic::Unsupported => UNSUPPORTED.to_owned(),
        Topic::Variables => variables(),
        Topic::Program(path) => program(path, &prefix::find()?)?,
        Topic::Collectives(communicator) => choices::explain(communicator)?,
        Topic::Copying => copying::explain(),
    };
    print_page(&text)?;
    Ok(0)
}

fn summary(prefix: &Path) -> String {
    let missing = UNSUPPORTED.lines().filter(|line| line.starts_with("MPI_")).count();
    let text = format!(
        "Combray {}
  interface   MPI 5.0 standard ABI 1.0, libmpi_abi.so.1
  prefix      {}
  library     {}
  rails       self (within a process), shm (between processes of one machine){}
  launchers   combray run, and others that speak PMI-1, PMI-2 or PMIx
  cores       {} usable here
  missing     {missing} functions (combray info --unsupported lists them)

Variables (combray info --variables lists all that tools can see):
",
        base::VERSION,
        prefix.display(),
        prefix.join("lib/libmpi_abi.so.1").display(),
        rails_between_machines(),
        cores::usable(),
    );
    text + &settings()
}

/// Reports which MPI library a program was built for, and which one it would load.
fn program(path: &Path, prefix: &Path) -> Result<String, String> {
    let shown = path.display();
    if !is_executable(path).map_err(|cause| format!("{shown} cannot be read: {cause}"))? {
        return Err(format!("{shown} is neither a program nor a library, nor a script with #!"));
    }
    let given = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let provision = libraries::provide_for(path, prefix, &given, BroughtLibraries::Kept)
        .map_err(|cause| format!("{shown} cannot be read: {cause}"))?;
    // Names and folders come from the program's file, so they are untrusted text.
    let reported = provision.wants.iter().map(|want| format!("{shown} needs {want}"));
    let reported = reported.chain(provision.notes.iter().map(ToString::to_string));
    let openmp = libraries::openmp_of(path, prefix, &given)
        .map_err(|cause| format!("{shown} cannot be read: {cause}"))?;
    let openmp = openmp.map(|library| foreign::one_line(&format!("{shown} needs {library}")));
    let mut text: String = reported.map(|line| foreign::one_line(&line) + "\n").collect();
    if text.is_empty() {
        text = format!(
            "{shown} itself needs no library of MPI; libraries that it loads later are not known\n"
        );
    }
    text.extend(openmp.map(|line| line + "\n"));
    Ok(text)
}

/// Whether a file begins as the system's programs, libraries and scripts do.
fn is_executable(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut begin)?;
    Ok(begin == b"\x7fELF" || begin.starts_with(b"#!"))
}

/// The summary as one line of JSON.
fn json(prefix: &Path) -> String {
    let rails = runtime::found_rails(&configuration::networks()).unwrap_or_default();
    let rail = |rail: FoundRail| json!({"name": rail.name, "obstacle": rail.obstacle});
    let variables = CONTROL_VARIABLES
        .iter()
        .chain(TEXT_VARIABLES)
        .map(|one| json!({"name": one.name, "values": one.values, "help": one.help}));
    let all = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "prefix": prefix,
        "library": prefix.join("lib/libmpi_abi.so.1"),
        "cores": cores::usable(),
        "rails": rails.into_iter().map(rail).collect::<Vec<_>>(),
        "missing": UNSUPPORTED.lines().collect::<Vec<_>>(),
        "variables": variables.collect::<Vec<_>>(),
    });
    format!("{all}\n")
}

/// The rails that jobs on several machines use here, with their locality, and the rails that they
/// do not use, with the reason.
fn rails_between_machines() -> String {
    let rails = match runtime::found_rails(&configuration::networks()) {
        Ok(rails) => rails,
        Err(error) => return format!(",\n              none between machines: {error}"),
    };
    let tree = runtime::machine::tree_with_devices();
    let line = |rail: FoundRail| {
        if let Some(obstacle) = rail.obstacle {
            return format!("\n              {} is not used: {obstacle}", rail.name);
        }
        let locality = tree
            .and_then(|tree| tree.locality(runtime::machine::interface(tree, &rail.interface)?));
        let place = match locality {
            Some(Locality { node: Some(node), threads }) => {
                format!("near NUMA node {node}, hardware threads {threads}")
            }
            Some(Locality { node: None, threads }) => format!("near hardware threads {threads}"),
            None => "its place is not known".to_owned(),
        };
        format!(",\n              {} (between machines; {place})", rail.name)
    };
    rails.into_iter().map(line).collect()
}

/// The settings of the user, with their values: first those about hosts, networks and compilers,
/// which users set more often than those about the ways of messages.
fn settings() -> String {
    let mut text = String::new();
    for variable in TEXT_VARIABLES.iter().chain(COMMAND_VARIABLES).chain(CONTROL_VARIABLES) {
        text += &format!("  {}", variable.name);
        if let Some((default, others)) = variable.values.split_first() {
            text += &format!("={default} (or {})", others.join(", "));
        }
        if let Some(value) = env::var_os(variable.name) {
            text += &format!("; set here: {}", foreign::one_line(&value.to_string_lossy()));
        }
        text += &format!("\n      {}\n", variable.help);
    }
    text
}

/// The variables and events of a process that tools see through the functions MPI_T_*.
fn variables() -> String {
    let mut text = format!("Control variables, which the environment sets:\n{}", settings());
    text += "\nPerformance variables:\n";
    for category in Category::ALL {
        for variable in PERFORMANCE_VARIABLES.iter().filter(|one| one.category == category) {
            let (name, class) = (variable.name, variable.class.name());
            text += &format!("  {:13} {name:24} {class:14} {}\n", category.name(), variable.help);
        }
    }
    text += "\nEvents, with the numbers that come with them:\n";
    for event in EVENTS {
        text += &format!("  {:13} {} ", event.category.name(), event.name);
        text += &format!("({})\n      {}\n", event.elements.join(", "), event.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use base::variables::Variable;

    /// A row of docs/user/variables.md.
    fn row(variable: &Variable) -> String {
        let values: Vec<String> =
            variable.values.iter().map(|value| format!("`{value}`")).collect();
        format!("| `{}` | {} | {} |\n", variable.name, values.join(", "), variable.help)
    }

    #[test]
    fn the_page_lists_every_variable() {
        let page = include_str!("../../../docs/user/variables.md");
        let rows: String = base::variables::all().map(row).collect();
        let table = format!("| variable | values | what it does |\n|---|---|---|\n{rows}");
        let begun = page.split_once("checked by a test of crates/cli: -->\n");
        let shown = begun.and_then(|(_, rest)| rest.split_once("<!-- end of what is checked -->"));
        let shown = shown.map_or("", |(shown, _)| shown);
        assert!(shown == table, "docs/user/variables.md should have this table:\n{table}");
    }
}
