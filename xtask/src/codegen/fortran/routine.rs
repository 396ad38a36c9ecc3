//! A routine of the Fortran interfaces, as far as it follows from the C function.

use super::super::parameter::Parameter;
use super::super::tables::{MpiFunction, Tables};

/// One routine.
pub struct Routine {
    /// As in C, with the prefix `MPI_`.
    pub name: String,
    /// Without the error code at the end.
    pub arguments: Vec<FortranArgument>,
    /// What a function returns; most routines return nothing.
    pub result: Option<&'static str>,
    /// Whether an error code is the last argument.
    pub has_code: bool,
    /// Deprecated so early that module `mpi_f08` never had it.
    pub is_old: bool,
    /// Whether the entry is written by hand.
    pub is_special: bool,
}

/// One argument.
#[derive(Clone)]
pub struct FortranArgument {
    /// The name in Fortran.
    pub name: String,
    pub c: Parameter,
    pub kind: ArgumentKind,
    pub intent: Intent,
    pub shape: Shape,
    /// Whether it stays in use after the call.
    pub is_kept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Integer,
    Address,
    Count,
    Offset,
    Logical,
    /// The name of the type without `MPI_`.
    Handle(String),
    Status,
    Text,
    /// Memory of any type.
    Choice,
    /// The address of memory, for the program.
    Pointer,
    /// A function of the program, by the name of its interface.
    Procedure(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    In,
    Out,
    InOut,
    /// Not said, as constants may stand in its place that nothing is written to.
    Unsaid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Scalar,
    List,
    /// `(3, *)`
    Triplets,
    /// `(count, *)`
    Table,
}

impl Routine {
    /// All routines, in the order of the table.
    pub fn all(tables: &Tables) -> Result<Vec<Self>, String> {
        let in_fortran = |function: &&MpiFunction| {
            let name = &function.name;
            let only_c = ["_toint", "_fromint"].iter().any(|end| name.ends_with(end));
            !only_c && !name.starts_with("MPI_T_")
        };
        let mut routines: Vec<Self> =
            tables.functions.iter().filter(in_fortran).map(Self::of).collect();
        for (name, parameters, has_code) in [
            ("MPI_F_sync_reg", "void *buf", false),
            ("MPI_Status_f2f08", "const int f_status[], MPI_Status *f08_status", true),
            ("MPI_Status_f082f", "const MPI_Status *f08_status, int f_status[]", true),
        ] {
            let parameters = Parameter::parse_list(parameters)?;
            let arguments = parameters.iter().map(|one| argument(name, one, &parameters));
            routines.push(Self {
                name: name.to_owned(),
                arguments: arguments.collect(),
                result: None,
                has_code,
                is_old: false,
                is_special: true,
            });
        }
        Ok(routines)
    }

    fn of(function: &MpiFunction) -> Self {
        let name = function.name.as_str();
        // The arguments of the program's main function, and what C has a dots for.
        let is_passed = |one: &&Parameter| {
            !matches!(one.name.as_str(), "argc" | "argv") || name == "MPI_Comm_spawn"
        };
        let passed = function.parameters.iter().filter(is_passed);
        let arguments = passed.map(|one| argument(name, one, &function.parameters)).collect();
        let result = match function.returns.as_str() {
            "double" => Some("double precision"),
            "MPI_Aint" => Some("integer(MPI_ADDRESS_KIND)"),
            _ => None,
        };
        Self {
            name: name.to_owned(),
            arguments,
            result,
            has_code: result.is_none() && name != "MPI_Pcontrol",
            is_old: function.note == "deprecated: MPI-2.0",
            is_special: result.is_some() || SPECIAL.contains(&plain(name)),
        }
    }

    /// The name without `MPI_`, in small letters, as symbols have it.
    pub fn symbol(&self) -> String {
        self.name.trim_start_matches("MPI_").to_lowercase()
    }

    /// The form with large counts, which only module `mpi_f08` has.
    pub fn is_large(&self) -> bool {
        self.name.ends_with("_c")
    }

    pub fn has_choice(&self) -> bool {
        self.arguments.iter().any(|argument| argument.kind == ArgumentKind::Choice)
    }
}

/// The name of a function without the ending of its form for large counts.
pub fn plain(name: &str) -> &str {
    name.strip_suffix("_c").unwrap_or(name)
}

/// The routines whose entries are written by hand (fortran/special.c).
const SPECIAL: [&str; 38] = [
    "MPI_Abi_get_fortran_booleans",
    "MPI_Abi_set_fortran_booleans",
    "MPI_Alloc_mem",
    "MPI_Attr_get",
    "MPI_Attr_put",
    "MPI_Buffer_detach",
    "MPI_Comm_create_errhandler",
    "MPI_Comm_create_keyval",
    "MPI_Comm_detach_buffer",
    "MPI_Comm_get_attr",
    "MPI_Comm_set_attr",
    "MPI_Comm_spawn",
    "MPI_Comm_spawn_multiple",
    "MPI_File_create_errhandler",
    "MPI_Grequest_start",
    "MPI_Info_create_env",
    "MPI_Info_get",
    "MPI_Info_get_string",
    "MPI_Init",
    "MPI_Init_thread",
    "MPI_Keyval_create",
    "MPI_Op_create",
    "MPI_Pcontrol",
    "MPI_Register_datarep",
    "MPI_Session_create_errhandler",
    "MPI_Session_detach_buffer",
    "MPI_Session_get_nth_pset",
    "MPI_Type_create_keyval",
    "MPI_Type_get_attr",
    "MPI_Type_get_contents",
    "MPI_Type_set_attr",
    "MPI_Win_allocate",
    "MPI_Win_allocate_shared",
    "MPI_Win_create_errhandler",
    "MPI_Win_create_keyval",
    "MPI_Win_get_attr",
    "MPI_Win_set_attr",
    "MPI_Win_shared_query",
];

fn argument(function: &str, c: &Parameter, all: &[Parameter]) -> FortranArgument {
    let kind = kind(function, c);
    let shape = shape(c);
    let intent = intent(function, c, &kind, shape);
    let name = if c.name == "indx" { "index".to_owned() } else { c.name.clone() };
    let has =
        |base: &str| all.iter().any(|one| one.base == base && one.stars == 1 && !one.is_array);
    let lasts = (has("MPI_Request") && !matches!(function, "MPI_Wait" | "MPI_Test"))
        || all.iter().any(|one| one.base == "MPI_Win")
        || plain(function).ends_with("_begin")
        || function.contains("ttach")
        || REGIONS.contains(&plain(function));
    let is_list = matches!(
        kind,
        ArgumentKind::Integer
            | ArgumentKind::Address
            | ArgumentKind::Count
            | ArgumentKind::Handle(_)
    ) && shape == Shape::List
        && intent == Intent::In
        && has("MPI_Request");
    let is_kept = lasts && (kind == ArgumentKind::Choice || is_list);
    FortranArgument { name, c: c.clone(), kind, intent, shape, is_kept }
}

/// Routines whose buffers are in use by others.
const REGIONS: [&str; 2] = ["MPI_Get_address", "MPI_F_sync_reg"];

fn kind(function: &str, c: &Parameter) -> ArgumentKind {
    let name = c.name.as_str();
    if c.is_callback() {
        return ArgumentKind::Procedure(c.base.clone());
    }
    if is_logical(function, name) {
        return ArgumentKind::Logical;
    }
    match (c.base.as_str(), name) {
        ("int", _) => ArgumentKind::Integer,
        ("MPI_Aint", _) => ArgumentKind::Address,
        ("MPI_Count", _) => ArgumentKind::Count,
        ("MPI_Offset", _) => ArgumentKind::Offset,
        ("MPI_Status", _) => ArgumentKind::Status,
        ("char", _) => ArgumentKind::Text,
        ("void", "extra_state" | "attribute_val") => match function {
            "MPI_Attr_put" | "MPI_Attr_get" | "MPI_Keyval_create" => ArgumentKind::Integer,
            _ => ArgumentKind::Address,
        },
        ("void", "baseptr" | "buffer_addr") => ArgumentKind::Pointer,
        ("void", _) => ArgumentKind::Choice,
        (base, _) => ArgumentKind::Handle(base.trim_start_matches("MPI_").to_owned()),
    }
}

fn is_logical(function: &str, name: &str) -> bool {
    match name {
        "flag" | "reorder" | "commute" | "periods" | "remain_dims" | "weighted" | "is_set" => true,
        "high" => function == "MPI_Intercomm_merge",
        "logical_true" | "logical_false" => true,
        _ => false,
    }
}

fn shape(c: &Parameter) -> Shape {
    match c.name.as_str() {
        "array_of_statuses" => Shape::List,
        "array_of_argv" => Shape::Table,
        _ if c.triplets => Shape::Triplets,
        _ if c.is_array && c.base != "char" => Shape::List,
        "argv" | "array_of_commands" => Shape::List,
        _ => Shape::Scalar,
    }
}

/// Routines that change what a handle stands for, besides those whose name ends in `_free`.
const CHANGING: [&str; 15] = [
    "MPI_Comm_disconnect",
    "MPI_File_close",
    "MPI_Imrecv",
    "MPI_Mrecv",
    "MPI_Session_finalize",
    "MPI_Start",
    "MPI_Startall",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Type_commit",
    "MPI_Wait",
    "MPI_Waitall",
    "MPI_Waitany",
];

fn intent(function: &str, c: &Parameter, kind: &ArgumentKind, shape: Shape) -> Intent {
    let name = c.name.as_str();
    let function = plain(function);
    let is_read = c.constant || (c.stars == 0 && shape == Shape::Scalar);
    match kind {
        ArgumentKind::Procedure(_) => Intent::Unsaid,
        ArgumentKind::Choice if c.constant => Intent::In,
        ArgumentKind::Choice => Intent::Unsaid,
        ArgumentKind::Logical if name.starts_with("logical_") => match function {
            "MPI_Abi_set_fortran_booleans" => Intent::In,
            _ => Intent::Out,
        },
        ArgumentKind::Status if c.constant => Intent::In,
        ArgumentKind::Status if function.starts_with("MPI_Status_set_") => Intent::InOut,
        ArgumentKind::Status => Intent::Unsaid,
        ArgumentKind::Handle(_) if is_read => Intent::In,
        ArgumentKind::Handle(of) => match function {
            "MPI_Cancel" => Intent::In,
            // The request of these is new, the message is not.
            "MPI_Imrecv" if of == "Request" => Intent::Out,
            _ if function.ends_with("_free") || CHANGING.contains(&function) => Intent::InOut,
            "MPI_Waitsome" => Intent::InOut,
            _ => Intent::Out,
        },
        ArgumentKind::Text
            if c.constant || matches!(name, "argv" | "array_of_commands" | "array_of_argv") =>
        {
            Intent::In
        }
        ArgumentKind::Address if name == "extra_state" || function.ends_with("_set_attr") => {
            Intent::In
        }
        ArgumentKind::Integer if name == "extra_state" || function == "MPI_Attr_put" => Intent::In,
        _ if is_read || shape == Shape::Triplets => Intent::In,
        _ if matches!(name, "position" | "buflen" | "pset_len") => Intent::InOut,
        _ if name.ends_with("keyval") && function.contains("free") => Intent::InOut,
        _ if function.ends_with("eyval_free") || function == "MPI_Dims_create" => Intent::InOut,
        // Constants may stand in their place.
        _ if matches!(name, "sourceweights" | "destweights" | "array_of_errcodes") => {
            Intent::Unsaid
        }
        _ => Intent::Out,
    }
}
