//! From the raw arguments of a call to checked ones, by type and name of each parameter.

use super::super::parameter::{Parameter, Shape};
use super::super::tables::{Function, Tables};
use super::{is_callback, rust_name};

/// What stands before the call of the implementation, and the arguments it is given.
pub struct Conversions {
    /// Statements; the prefix `unsafe_` marks methods that need an unsafe block.
    pub lines: Vec<String>,
    pub arguments: Vec<String>,
}

/// The conversions for a function that `calls::module` implements.
///
/// Communicators, windows and sessions come first: errors of the other arguments go to their error
/// handler.
pub fn conversions(
    tables: &Tables,
    function: &Function,
    module: &str,
) -> Result<Conversions, String> {
    let context = Context { tables, function, module };
    let mut early = Vec::new();
    let mut late = Vec::new();
    let mut arguments = Vec::new();
    let mut index = 0;
    while index < function.parameters.len() {
        let parameter = &function.parameters[index];
        let name = rust_name(parameter);
        let (expression, taken) = match context.elements(index) {
            Some(expression) => (expression, 3),
            None => (context.single(index)?, 1),
        };
        if expression != name {
            let line = format!("let {name} = {expression};\n");
            let object = match parameter.base.as_str() {
                "MPI_Comm" | "MPI_Win" | "MPI_Session" => true,
                "MPI_Errhandler" => context.makes_object(),
                _ => false,
            };
            let first = object && parameter.shape == Shape::Value;
            if first { early.push(line) } else { late.push(line) }
        }
        arguments.push(name);
        index += taken;
    }
    early.append(&mut late);
    Ok(Conversions { lines: early, arguments })
}

struct Context<'a> {
    tables: &'a Tables,
    function: &'a Function,
    module: &'a str,
}

impl Context<'_> {
    /// Address, count and datatype of a message, if these begin here.
    fn elements(&self, index: usize) -> Option<String> {
        let [address, count, datatype] = self.function.parameters.get(index..index + 3)? else {
            return None;
        };
        // Reductions have two addresses before count and datatype.
        let reduction = self.module != "one_sided"
            && self.function.parameters.iter().any(|other| other.base == "MPI_Op");
        let found = !reduction
            && address.is_address()
            && count.is_integer()
            && count.shape == Shape::Value
            && datatype.base == "MPI_Datatype"
            && datatype.shape == Shape::Value;
        let position = index + 1;
        let count = self.integer(index + 1);
        let (address_name, type_name) = (rust_name(address), rust_name(datatype));
        let elements = format!("Elements::new({position}, {address_name}, {count}, {type_name})");
        let resolved = match (self.module, address.constant) {
            // The most frequent calls take the most frequent buffers a shorter way.
            ("point_to_point", _) if self.is_most_frequent() => elements,
            ("point_to_point", true) => format!("call.unsafe_outgoing({elements})?"),
            // Sent from and received into: the implementation needs both.
            ("point_to_point", false) if address.name == "buf" && self.has("sendtag") => elements,
            ("point_to_point", false) => format!("call.unsafe_incoming({elements})?"),
            _ => elements,
        };
        found.then_some(resolved)
    }

    fn is_most_frequent(&self) -> bool {
        let name = self.function.name.trim_start_matches("MPI_").trim_end_matches("_c");
        matches!(name, "Send" | "Isend" | "Recv" | "Irecv" | "Sendrecv")
    }

    fn single(&self, index: usize) -> Result<String, String> {
        let parameter = &self.function.parameters[index];
        let name = rust_name(parameter);
        let position = index + 1;
        if is_callback(&parameter.base) {
            return Ok(format!("Callback({name})"));
        }
        Ok(match parameter.shape {
            Shape::Value => self.value(index),
            Shape::Pointer => self.pointer(index)?,
            Shape::Array if parameter.is_integer() => {
                let (kind, place) = match parameter.constant {
                    true => ("Integers", "IntegerSource"),
                    false => ("OutIntegers", "IntegerPlace"),
                };
                let (width, cast) = (self.width(index), cast(parameter));
                format!("{kind}::new({position}, {place}::{width}({name}{cast}))")
            }
            Shape::Array if parameter.base == "MPI_Status" => format!("OutStatuses({name})"),
            Shape::Array if parameter.base == "char" => {
                format!("call.unsafe_text({position}, {name})?")
            }
            Shape::Array if parameter.constant => {
                format!("HandleList::new({position}, {name})")
            }
            Shape::Array => format!("OutHandles::new({position}, {name})"),
            Shape::Triplets => format!("Triplets::new({position}, {name})"),
            Shape::PointerPointer | Shape::Deep => name,
        })
    }

    fn value(&self, index: usize) -> String {
        let parameter = &self.function.parameters[index];
        let function = self.function.name.as_str();
        let name = rust_name(parameter);
        let position = index + 1;
        let method = match parameter.base.as_str() {
            "MPI_Comm" if function == "MPI_Comm_get_name" => return name,
            // Significant on one process only.
            "MPI_Comm" if parameter.name == "peer_comm" => return name,
            "MPI_Comm" => "communicator",
            "MPI_Session" => "session",
            // Significant on one process only.
            "MPI_Group" if parameter.name == "remote_group" => return name,
            "MPI_Group" => "group",
            "MPI_Datatype" if function == "MPI_Type_get_name" => return name,
            "MPI_Win" if function == "MPI_Win_get_name" => return name,
            "MPI_Win" => "window",
            "MPI_Datatype"
                if matches!(self.module, "collectives" | "one_sided" | "partitioned") =>
            {
                return format!("TypeArgument {{ position: {position}, handle: {name} }}");
            }
            "MPI_Datatype" => "datatype",
            "MPI_Op" => "operation",
            "MPI_Info" if function.starts_with("MPI_Info_") => "info",
            "MPI_Info" => "optional_info",
            "MPI_Errhandler" if self.makes_object() => {
                let kind = if function == "MPI_Session_init" { "Session" } else { "Comm" };
                return format!("call.handler_of_new(Kind::{kind}, {position}, {name})?");
            }
            "MPI_Errhandler" => "error_handler",
            "int" | "MPI_Count" | "MPI_Aint" | "MPI_Offset" => return self.number(index),
            _ => return name,
        };
        format!("call.{method}({position}, {name})?")
    }

    fn number(&self, index: usize) -> String {
        let parameter = &self.function.parameters[index];
        let name = rust_name(parameter);
        let position = index + 1;
        let integer = self.integer(index);
        let communicator = self.has("comm");
        match parameter.name.as_str() {
            "dest" if communicator => format!("call.destination({position}, {name}, &comm)?"),
            "source" if communicator => format!("call.source({position}, {name}, &comm)?"),
            "tag" if communicator && self.has("source") => {
                format!("call.receive_tag({position}, {name})?")
            }
            "recvtag" => format!("call.receive_tag({position}, {name})?"),
            "tag" | "sendtag" if communicator => format!("call.send_tag({position}, {name})?"),
            "target_rank" => format!("call.target({position}, {name}, &win)?"),
            "root" if communicator && self.module == "collectives" => {
                format!("call.root({position}, {name}, &comm)?")
            }
            "n" if self.module == "infos" => name,
            // Checked where the others can be told of it.
            "n" if self.module == "topologies" => name,
            "count" | "incount" | "outcount" | "n" | "ndims" => {
                let integer = if integer == name { format!("i64::from({name})") } else { integer };
                let integer = if parameter.base == "int" { integer } else { name };
                format!("call.count({position}, {integer})?")
            }
            _ => integer,
        }
    }

    fn pointer(&self, index: usize) -> Result<String, String> {
        let parameter = &self.function.parameters[index];
        let name = rust_name(parameter);
        let position = index + 1;
        Ok(match (parameter.base.as_str(), parameter.constant) {
            ("void", _) => name,
            ("int", _) if parameter.name == "argc" => name,
            ("char", true) => format!("call.unsafe_text({position}, {name})?"),
            // A buffer of length 0 may be null.
            ("char", false) if self.has("buflen") || self.has("pset_len") => name,
            ("char", false) => format!("call.unsafe_out_text({position}, {name})?"),
            ("MPI_Status", true) => format!("call.unsafe_status({position}, {name})?"),
            ("MPI_Status", false) if self.module != "statuses" => format!("OutStatus({name})"),
            (_, false) if parameter.is_integer() && self.is_wide(index) => {
                let width = self.width(index);
                let cast = cast(parameter);
                format!("call.unsafe_out_integer({position}, IntegerPlace::{width}({name}{cast}))?")
            }
            (_, false) => format!("call.unsafe_out({position}, {name})?"),
            _ => return Err(format!("{}: no rule for {}", self.function.name, parameter.name)),
        })
    }

    /// An integer argument as `i64` where one of the twins has a wider type, else as `i32`.
    fn integer(&self, index: usize) -> String {
        let parameter = &self.function.parameters[index];
        let name = rust_name(parameter);
        match parameter.base.as_str() {
            "int" if self.is_wide(index) => format!("i64::from({name})"),
            "MPI_Aint" => format!("{name} as i64"),
            _ => name,
        }
    }

    fn width(&self, index: usize) -> &'static str {
        if self.function.parameters[index].base == "int" { "Int" } else { "Large" }
    }

    /// Whether the implementation takes this integer as `i64`.
    fn is_wide(&self, index: usize) -> bool {
        let parameters = &self.function.parameters;
        let name = &self.function.name;
        let stem = name.strip_suffix("_c").or(name.strip_suffix("_x")).unwrap_or(name);
        let twins = ["", "_c", "_x"].map(|suffix| self.tables.function(&format!("{stem}{suffix}")));
        parameters[index].base != "int"
            || twins.into_iter().flatten().any(|twin| {
                twin.parameters.len() == parameters.len() && twin.parameters[index].base != "int"
            })
    }

    /// Whether the function makes an object with the error handler that it is given.
    fn makes_object(&self) -> bool {
        self.module == "sessions" && self.has("info")
    }

    fn has(&self, name: &str) -> bool {
        self.function.parameters.iter().any(|parameter| parameter.name == name)
    }
}

/// Pointers to `MPI_Aint` are pointers to 64-bit integers.
fn cast(parameter: &Parameter) -> &'static str {
    if parameter.base == "MPI_Aint" { ".cast()" } else { "" }
}
