//! Routines of the Fortran interfaces, as derived from the C functions.

use super::super::parameter::Parameter;
use super::super::tables::{FortranRow, MpiFunction, Tables};
use super::meaning::{ArgumentKind, ArgumentMeaning, Intent, Shape};

/// A routine.
pub struct Routine {
    /// The name in C, with the prefix `MPI_`.
    pub name: String,
    /// The arguments without the error code at the end.
    pub arguments: Vec<FortranArgument>,
    /// The type that a function returns; `None` for the many subroutines.
    pub result: Option<&'static str>,
    /// Whether an error code is the last argument.
    pub has_code: bool,
    /// Whether it was deprecated before module `mpi_f08` existed, which therefore does not have it.
    pub is_old: bool,
    /// Whether the entry point is written by hand.
    pub is_special: bool,
    /// Whether all interfaces have it with large counts, which normally only module `mpi_f08` has.
    pub is_everywhere: bool,
    /// Whether a C function of this name exists.
    pub is_in_c: bool,
}

/// An argument.
#[derive(Clone)]
pub struct FortranArgument {
    /// The name in Fortran.
    pub name: String,
    pub c: Parameter,
    pub kind: ArgumentKind,
    pub intent: Intent,
    pub shape: Shape,
    /// The number of elements of a list, if the entry point needs it. For a string that the library
    /// writes, the constant that bounds its length.
    pub extent: Option<String>,
    /// Whether it stays in use after the call.
    pub is_kept: bool,
    /// Whether it is an integer that is a large count in the dialects.
    pub is_large_in_dialects: bool,
}

/// Routines that do not exist in C.
const ONLY_IN_FORTRAN: [(&str, &str); 3] = [
    ("MPI_F_sync_reg", "void *buf"),
    ("MPI_Status_f2f08", "const int f_status[], MPI_Status *f08_status"),
    ("MPI_Status_f082f", "const MPI_Status *f08_status, int f_status[]"),
];

/// Routines of MPI-1 that the standard has removed. Their addresses are default integers.
const REMOVED: [(&str, &str); 10] = [
    ("MPI_Address", "const void *location, int *address"),
    (
        "MPI_Errhandler_create",
        "MPI_Comm_errhandler_function *handler_fn, MPI_Errhandler *errhandler",
    ),
    ("MPI_Errhandler_get", "MPI_Comm comm, MPI_Errhandler *errhandler"),
    ("MPI_Errhandler_set", "MPI_Comm comm, MPI_Errhandler errhandler"),
    ("MPI_Type_extent", "MPI_Datatype datatype, int *extent"),
    (
        "MPI_Type_hindexed",
        "int count, const int array_of_blocklengths[], const int array_of_displacements[], \
         MPI_Datatype oldtype, MPI_Datatype *newtype",
    ),
    (
        "MPI_Type_hvector",
        "int count, int blocklength, int stride, MPI_Datatype oldtype, MPI_Datatype *newtype",
    ),
    ("MPI_Type_lb", "MPI_Datatype datatype, int *displacement"),
    (
        "MPI_Type_struct",
        "int count, const int array_of_blocklengths[], const int array_of_displacements[], const \
         MPI_Datatype array_of_types[], MPI_Datatype *newtype",
    ),
    ("MPI_Type_ub", "MPI_Datatype datatype, int *displacement"),
];

impl Routine {
    /// All routines, in the order of the table.
    pub fn all(tables: &Tables) -> Result<Vec<Self>, String> {
        let in_fortran = |function: &&MpiFunction| {
            let name = &function.name;
            let only_c = ["_toint", "_fromint"].iter().any(|end| name.ends_with(end));
            !only_c && !name.starts_with("MPI_T_")
        };
        let mut routines = Vec::new();
        for function in tables.functions.iter().filter(in_fortran) {
            routines.push(Self::of(function, &function.parameters, tables)?);
        }
        for (name, parameters) in ONLY_IN_FORTRAN.iter().chain(&REMOVED) {
            let function = MpiFunction::only_in_fortran(name);
            let mut routine = Self::of(&function, &Parameter::parse_list(parameters)?, tables)?;
            routine.is_old = REMOVED.iter().any(|(removed, _)| removed == name);
            routine.is_in_c = false;
            routines.push(routine);
        }
        let is_there = |row: &&FortranRow| routines.iter().any(|one| one.name == row.name);
        match tables.fortran.iter().find(|row| !is_there(row)) {
            Some(row) => Err(format!("{} of the Fortran table is not in C", row.name)),
            None => Ok(routines),
        }
    }

    fn of(
        function: &MpiFunction,
        parameters: &[Parameter],
        tables: &Tables,
    ) -> Result<Self, String> {
        let name = function.name.as_str();
        let row = row_of(name, parameters.len(), tables)?;
        let there = tables.other_form(name).map(|function| function.parameters.as_slice());
        let is_large_there = |c: &Parameter| {
            c.base == "int"
                && there
                    .unwrap_or_default()
                    .iter()
                    .any(|other| other.name == c.name && other.base == "MPI_Count")
        };
        let mut arguments = Vec::new();
        for (c, word) in parameters.iter().zip(&row.words) {
            let failed = |what: String| format!("{name} in the Fortran table: {what}");
            let Some(meaning) = ArgumentMeaning::parse(word).map_err(failed)? else { continue };
            arguments.push(FortranArgument {
                // The C table avoids the name of a function of libc.
                name: if c.name == "indx" { "index".to_owned() } else { c.name.clone() },
                c: c.clone(),
                kind: meaning.kind(c).map_err(failed)?,
                intent: meaning.intent,
                shape: meaning.shape(c),
                extent: meaning.extent,
                is_kept: meaning.is_kept,
                is_large_in_dialects: is_large_there(c),
            });
        }
        let result = match function.returns.as_str() {
            "double" => Some("double precision"),
            "MPI_Aint" => Some("integer(MPI_ADDRESS_KIND)"),
            _ => None,
        };
        Ok(Self {
            name: name.to_owned(),
            arguments,
            result,
            has_code: result.is_none() && !matches!(name, "MPI_Pcontrol" | "MPI_F_sync_reg"),
            is_old: function.note == "deprecated: MPI-2.0",
            is_special: row.is_by_hand,
            is_everywhere: row.is_everywhere,
            is_in_c: true,
        })
    }

    /// The name without `MPI_` in lower case, as used in symbols.
    pub fn symbol(&self) -> String {
        self.name.trim_start_matches("MPI_").to_lowercase()
    }

    /// Whether it is a form with large counts.
    pub fn is_large(&self) -> bool {
        self.name.ends_with("_c")
    }

    /// Whether only module `mpi_f08` has it.
    pub fn is_only_08(&self) -> bool {
        self.is_large() && !self.is_everywhere
    }

    pub fn has_choice(&self) -> bool {
        self.arguments.iter().any(|argument| matches!(argument.kind, ArgumentKind::Choice(_)))
    }
}

/// Strips the suffix of the form for large counts.
pub fn plain(name: &str) -> &str {
    name.strip_suffix("_c").unwrap_or(name)
}

/// The row of a function: its own, or that of its twin with an equal number of parameters.
fn row_of<'a>(name: &str, arity: usize, tables: &'a Tables) -> Result<&'a FortranRow, String> {
    let row = |name: &str| {
        let mut rows = tables.fortran.iter();
        rows.find(|row| row.name == name && row.words.len() == arity)
    };
    let found = row(name).or_else(|| row(plain(name)));
    found
        .ok_or_else(|| format!("the Fortran table has no row for the {arity} parameters of {name}"))
}
