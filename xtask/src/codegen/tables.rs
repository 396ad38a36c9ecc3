//! Reads the tables.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::parameter::Parameter;

/// All tables of the ABI.
pub struct Tables {
    /// The functions of the standard.
    pub functions: Vec<MpiFunction>,
    /// The functions beyond the standard, in C only.
    pub extensions: Vec<MpiFunction>,
    pub constants: Vec<Constant>,
    /// C text of the callback types.
    pub callbacks: Vec<String>,
    /// The names of the error classes, each with a sentence.
    pub errors: Vec<(String, String)>,
    /// Functions that all dialects have, and that the standard ABI does not have or has in another
    /// form.
    pub former: Vec<MpiFunction>,
    /// The dialects besides the standard ABI.
    pub dialects: Vec<Dialect>,
    pub fortran: Vec<FortranRow>,
    /// What functions do, by name, as the predicate of a sentence.
    pub summaries: HashMap<String, String>,
    /// The meaning of parameters, by name.
    pub parameters: HashMap<String, String>,
}

/// The meaning of a function's arguments in Fortran.
pub struct FortranRow {
    pub name: String,
    /// Whether its entry point is written by hand, in fortran/special.c.
    pub is_by_hand: bool,
    /// Whether all interfaces have it, although it has large counts.
    pub is_everywhere: bool,
    /// A word for each parameter in C.
    pub words: Vec<String>,
}

/// The differences of another library's ABI.
pub struct Dialect {
    /// The name of its folder.
    pub name: &'static str,
    /// Values of constants, by name.
    pub values: HashMap<String, String>,
    /// Constants that the standard ABI does not have.
    pub constants: Vec<Constant>,
    /// Functions that neither the standard ABI nor other dialects have.
    pub functions: Vec<MpiFunction>,
    /// The objects behind predefined handles, if handles are addresses.
    pub objects: Vec<PredefinedObject>,
}

/// An object whose address is a predefined handle.
pub struct PredefinedObject {
    /// The name of the constant; empty for constants that Combray does not have.
    pub constant: String,
    pub symbol: String,
    /// The Fortran integer of the handle, if it is known.
    pub fortran: Option<u32>,
}

/// The folders of the dialects.
const DIALECTS: [&str; 2] = ["mpich", "open_mpi"];

/// The folder of the functions that all dialects have.
const FORMER: &str = "former";

/// A C function.
pub struct MpiFunction {
    /// The name, with the prefix `MPI_`, or `MPIX_` beyond the standard.
    pub name: String,
    pub returns: String,
    /// The parameters as C text.
    pub parameters_text: String,
    pub parameters: Vec<Parameter>,
    /// A note such as "deprecated: MPI-2.0"; empty for most functions.
    pub note: String,
    pub implemented: Option<Implementation>,
}

/// Where a function is implemented, and how a call enters the library.
#[derive(Clone, Debug)]
pub struct Implementation {
    /// The file in `src/calls/`.
    pub module: String,
    /// The Rust function in that file.
    pub function: String,
    pub way: Way,
    pub arguments: Vec<Argument>,
}

/// How a call enters the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Between `MPI_Init` and `MPI_Finalize`, or while a session is open.
    Open,
    /// As `Open`, for functions that access only state that no other party but calls of the program
    /// changes.
    Local,
    /// At any time.
    Any,
    /// As `Open`, from any thread, whatever the level of thread support.
    AnyThread,
    /// A call of the tools interface, while that is initialized.
    Tool,
    /// A call of the tools interface at any time.
    AnyTool,
    /// At any time, returning a value instead of an error code.
    Value,
    /// At any time, returning a value, without entering the library: the function uses nothing that
    /// other threads change.
    Free,
}

/// One or more parameters that form one argument of the implementation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The index of the first parameter.
    pub first: usize,
    /// The number of parameters.
    pub count: usize,
    /// The method that checks it.
    pub kind: String,
    /// Additional arguments of the method: Rust expressions.
    pub needs: Vec<String>,
    /// Whether the argument is passed to the implementation.
    pub given: bool,
}

impl MpiFunction {
    /// A placeholder for a routine that does not exist in C.
    pub fn only_in_fortran(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            returns: "int".to_owned(),
            parameters_text: String::new(),
            parameters: Vec::new(),
            note: String::new(),
            implemented: None,
        }
    }
}

impl Way {
    /// The names in the table and in the macro `entry!`.
    const NAMES: [(Way, &str); 8] = [
        (Way::Open, "open"),
        (Way::Local, "local"),
        (Way::Any, "any"),
        (Way::AnyThread, "any_thread"),
        (Way::Tool, "tool"),
        (Way::AnyTool, "any_tool"),
        (Way::Value, "value"),
        (Way::Free, "free"),
    ];

    fn parse(text: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, name)| *name == text).map(|(way, _)| *way)
    }

    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(way, _)| *way == self).expect("all have a name").1
    }

    /// Whether the function returns a value instead of an error code.
    pub fn is_value(self) -> bool {
        matches!(self, Way::Value | Way::Free)
    }

    pub fn is_tool(self) -> bool {
        matches!(self, Way::Tool | Way::AnyTool)
    }
}

impl Argument {
    /// Parses the kinds of a function's parameters: one word each, with its needs in brackets, and
    /// all in parentheses if only other checks need the parameter. A `.` belongs to the argument
    /// before it.
    fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut arguments: Vec<Self> = Vec::new();
        for (first, word) in text.split_ascii_whitespace().enumerate() {
            if word == "." {
                arguments.last_mut().ok_or("begins with a dot")?.count += 1;
                continue;
            }
            let inner = word.strip_prefix('(').and_then(|word| word.strip_suffix(')'));
            let (word, given) = (inner.unwrap_or(word), inner.is_none() && word != "unused");
            let (kind, needs) = match word.strip_suffix(']').and_then(|word| word.split_once('[')) {
                Some((kind, needs)) => (kind, needs.split(',').map(str::to_owned).collect()),
                None => (word, Vec::new()),
            };
            arguments.push(Self { first, count: 1, kind: kind.to_owned(), needs, given });
        }
        Ok(arguments)
    }

    /// Whether the argument is checked or converted.
    pub fn is_checked(&self) -> bool {
        !matches!(self.kind.as_str(), "value" | "unused")
    }
}

/// A constant.
pub struct Constant {
    pub name: String,
    /// The C type; empty for plain macros.
    pub kind: String,
    pub value: String,
}

impl Tables {
    pub fn read(folder: &Path) -> Result<Self, String> {
        let errors = rows(folder, "errors.tsv", 2)?.into_iter().map(|row| {
            let [name, text] = row.try_into().expect("two columns");
            (name, text)
        });
        let callbacks = text(folder, "callbacks.txt")?;
        let mut tables = Self {
            functions: functions(folder, "functions.tsv")?,
            extensions: functions(folder, "extensions.tsv")?,
            constants: constants(folder, "constants.tsv")?,
            callbacks: callbacks.lines().map(str::to_owned).collect(),
            errors: errors.collect(),
            former: Vec::new(),
            dialects: Vec::new(),
            fortran: fortran(folder)?,
            summaries: pairs(folder, "summaries.tsv")?,
            parameters: pairs(folder, "parameters.tsv")?,
        };
        for row in rows(folder, "implemented.tsv", 4)? {
            tables.mark_implemented(&row).map_err(|what| format!("{}: {what}", row[0]))?;
        }
        tables.former = Dialect::read_functions(&folder.join(FORMER))
            .map_err(|what| format!("{FORMER}: {what}"))?;
        for name in DIALECTS {
            let dialect = Dialect::read(&folder.join(name), name, &tables.constants);
            tables.dialects.push(dialect.map_err(|what| format!("{name}: {what}"))?);
        }
        Ok(tables)
    }

    /// The form that a function of the standard has in all dialects, if it differs.
    pub fn other_form(&self, name: &str) -> Option<&MpiFunction> {
        self.former.iter().find(|function| function.name == name)
    }

    /// Marks a function and those twins with an equal number of parameters, which share one
    /// implementation.
    fn mark_implemented(&mut self, row: &[String]) -> Result<(), String> {
        let [name, module, way, kinds] = row else { return Err("not four columns".to_owned()) };
        let way = Way::parse(way).ok_or("an unknown way in")?;
        let arguments = Argument::parse_list(kinds)?;
        let arity = arguments.iter().map(|argument| argument.count).sum::<usize>();
        let function = name.trim_start_matches("MPI_").to_lowercase();
        let place = Implementation { module: module.clone(), function, way, arguments };
        let mut marked = 0;
        for suffix in ["", "_c", "_x"] {
            let wanted = format!("{name}{suffix}");
            let mut all = self.functions.iter_mut().chain(&mut self.extensions);
            let found = all.find(|other| other.name == wanted);
            let Some(twin) = found.filter(|twin| twin.parameters.len() == arity) else { continue };
            // A twin may have a row of its own.
            if suffix.is_empty() || twin.implemented.is_none() {
                twin.implemented = Some(place.clone());
            }
            marked += 1;
        }
        if marked == 0 {
            Err("no such function with so many parameters".to_owned())
        } else {
            Ok(())
        }
    }
}

impl Dialect {
    fn read(folder: &Path, name: &'static str, standard: &[Constant]) -> Result<Self, String> {
        let mut values = HashMap::new();
        for row in rows(folder, "constants.tsv", 2)? {
            let [constant, value] = row.try_into().expect("two columns");
            if !standard.iter().any(|known| known.name == constant) {
                return Err(format!("the standard ABI has no {constant}"));
            }
            values.insert(constant, value);
        }
        let added = "added_constants.tsv";
        let has_added = folder.join(added).exists();
        let objects = match folder.join("objects.tsv").exists() {
            false => Vec::new(),
            true => rows(folder, "objects.tsv", 3)?,
        };
        let objects = objects.into_iter().map(|row| {
            let [constant, symbol, fortran] = row.try_into().expect("three columns");
            PredefinedObject { constant, symbol, fortran: fortran.parse().ok() }
        });
        Ok(Self {
            name,
            values,
            constants: if has_added { constants(folder, added)? } else { Vec::new() },
            functions: Self::read_functions(folder)?,
            objects: objects.collect(),
        })
    }

    fn read_functions(folder: &Path) -> Result<Vec<MpiFunction>, String> {
        let mut functions = functions(folder, "functions.tsv")?;
        for row in rows(folder, "implemented.tsv", 5)? {
            let [name, module, target, way, kinds] = row.try_into().expect("five columns");
            let found = functions.iter_mut().find(|function| function.name == name);
            let function = found.ok_or_else(|| format!("there is no function {name}"))?;
            let way = Way::parse(&way).ok_or(format!("{name}: an unknown way in"))?;
            let arguments = Argument::parse_list(&kinds)?;
            function.implemented =
                Some(Implementation { module, function: target, way, arguments });
        }
        Ok(functions)
    }
}

fn constants(folder: &Path, name: &str) -> Result<Vec<Constant>, String> {
    let constants = rows(folder, name, 3)?.into_iter().map(|row| {
        let [name, kind, value] = row.try_into().expect("three columns");
        Constant { name, kind, value }
    });
    Ok(constants.collect())
}

fn pairs(folder: &Path, name: &str) -> Result<HashMap<String, String>, String> {
    let pair = |row: Vec<String>| {
        let [name, text] = row.try_into().expect("two columns");
        (name, text)
    };
    Ok(rows(folder, name, 2)?.into_iter().map(pair).collect())
}

fn functions(folder: &Path, name: &str) -> Result<Vec<MpiFunction>, String> {
    let function = |row: Vec<String>| {
        let [name, returns, parameters_text, note] = row.try_into().expect("four columns");
        let parameters = Parameter::parse_list(&parameters_text)?;
        Ok(MpiFunction { name, returns, parameters_text, parameters, note, implemented: None })
    };
    rows(folder, name, 4)?.into_iter().map(function).collect()
}

fn fortran(folder: &Path) -> Result<Vec<FortranRow>, String> {
    let row = |row: Vec<String>| {
        let [name, entry, words] = row.try_into().expect("three columns");
        let (is_by_hand, is_everywhere) = match entry.as_str() {
            "by hand" => (true, false),
            "generated" => (false, false),
            "generated everywhere" => (false, true),
            _ => return Err(format!("{name}: an entry is generated or by hand")),
        };
        let words = words.split_ascii_whitespace().map(str::to_owned).collect();
        Ok(FortranRow { name, is_by_hand, is_everywhere, words })
    };
    rows(folder, "fortran.tsv", 3)?.into_iter().map(row).collect()
}

fn text(folder: &Path, name: &str) -> Result<String, String> {
    let path = folder.join(name);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The rows below the heading, each with exactly this many columns (missing ones are empty).
fn rows(folder: &Path, name: &str, columns: usize) -> Result<Vec<Vec<String>>, String> {
    let split = |line: &str| {
        let mut row: Vec<String> = line.split('\t').map(str::to_owned).collect();
        row.resize(row.len().max(columns), String::new());
        if row.len() == columns { Ok(row) } else { Err(format!("{name}: too long: {line}")) }
    };
    text(folder, name)?.lines().skip(1).map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_understood() {
        let text = "elements . . destination[&comm] unused value (count)";
        let parsed = Argument::parse_list(text).unwrap();
        let (first, second) = (&parsed[0], &parsed[1]);
        assert_eq!((first.first, first.count, first.kind.as_str()), (0, 3, "elements"));
        assert_eq!((second.first, second.count, second.kind.as_str()), (3, 1, "destination"));
        assert_eq!(second.needs, ["&comm"]);
        assert!(!parsed[2].given && !parsed[2].is_checked());
        assert!(parsed[3].given && !parsed[3].is_checked());
        assert!(!parsed[4].given && parsed[4].is_checked());
        assert!(Argument::parse_list(". value").is_err());
    }
}
