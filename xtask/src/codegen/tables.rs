//! Reads the tables.

use std::fs;
use std::path::Path;

use super::parameter::Parameter;

/// Everything that is known about the ABI.
pub struct Tables {
    pub functions: Vec<Function>,
    pub constants: Vec<Constant>,
    /// C text of the callback types.
    pub callbacks: Vec<String>,
    /// Name of an error class and a sentence.
    pub errors: Vec<(String, String)>,
}

/// One C function.
pub struct Function {
    /// With the prefix `MPI_`.
    pub name: String,
    pub returns: String,
    /// The parameters as C text.
    pub parameters_text: String,
    pub parameters: Vec<Parameter>,
    /// Such as "deprecated: MPI-2.0"; empty for most.
    pub note: String,
    pub implemented: Option<Implementation>,
}

/// Where a function is implemented.
#[derive(Clone, Debug)]
pub struct Implementation {
    /// The file in `src/calls/`.
    pub module: String,
    /// The Rust function in it.
    pub function: String,
    /// Whether it may be called before `MPI_Init` and after `MPI_Finalize`.
    pub any_time: bool,
}

/// One constant.
pub struct Constant {
    pub name: String,
    /// The C type; empty for plain macros.
    pub kind: String,
    pub value: String,
}

impl Tables {
    pub fn read(folder: &Path) -> Result<Self, String> {
        let mut functions = Vec::new();
        for row in rows(folder, "functions.tsv", 4)? {
            let [name, returns, parameters_text, note] = row.try_into().expect("four columns");
            let parameters = Parameter::parse_list(&parameters_text)?;
            functions.push(Function {
                name,
                returns,
                parameters_text,
                parameters,
                note,
                implemented: None,
            });
        }
        let constants = rows(folder, "constants.tsv", 3)?.into_iter().map(|row| {
            let [name, kind, value] = row.try_into().expect("three columns");
            Constant { name, kind, value }
        });
        let errors = rows(folder, "errors.tsv", 2)?.into_iter().map(|row| {
            let [name, text] = row.try_into().expect("two columns");
            (name, text)
        });
        let callbacks = text(folder, "callbacks.txt")?;
        let mut tables = Self {
            functions,
            constants: constants.collect(),
            callbacks: callbacks.lines().map(str::to_owned).collect(),
            errors: errors.collect(),
        };
        for row in rows(folder, "implemented.tsv", 3)? {
            tables.mark_implemented(&row[0], &row[1], &row[2])?;
        }
        Ok(tables)
    }

    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// Marks a function and its twins; those with the same number of parameters share one
    /// implementation.
    fn mark_implemented(&mut self, name: &str, module: &str, note: &str) -> Result<(), String> {
        if !matches!(note, "" | "any") {
            return Err(format!("implemented.tsv: {name}: unknown note \"{note}\""));
        }
        let base = self.function(name);
        let arity = base.ok_or(format!("implemented.tsv: no function {name}"))?.parameters.len();
        let shared = name.trim_start_matches("MPI_").to_lowercase();
        for suffix in ["", "_c", "_x"] {
            let wanted = format!("{name}{suffix}");
            if let Some(twin) = self.functions.iter_mut().find(|other| other.name == wanted) {
                let own = if twin.parameters.len() == arity { "" } else { suffix };
                twin.implemented = Some(Implementation {
                    module: module.to_owned(),
                    function: format!("{shared}{own}"),
                    any_time: note == "any",
                });
            }
        }
        Ok(())
    }
}

fn text(folder: &Path, name: &str) -> Result<String, String> {
    let path = folder.join(name);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The rows below the heading, each with exactly so many columns (missing ones are empty).
fn rows(folder: &Path, name: &str, columns: usize) -> Result<Vec<Vec<String>>, String> {
    let split = |line: &str| {
        let mut row: Vec<String> = line.split('\t').map(str::to_owned).collect();
        row.resize(row.len().max(columns), String::new());
        if row.len() == columns { Ok(row) } else { Err(format!("{name}: too long: {line}")) }
    };
    text(folder, name)?.lines().skip(1).map(split).collect()
}
