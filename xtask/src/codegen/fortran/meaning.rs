//! Parses the words of the table of the Fortran interfaces (such as `any.block[count]+kept`). A
//! word contains an argument's intent, its meaning if the C type leaves that open, the number of
//! elements of a list, and whether the argument stays in use after the call.

use super::super::parameter::Parameter;
use super::views::SectionView;

/// A word of the table.
#[derive(Debug)]
pub struct ArgumentMeaning {
    pub intent: Intent,
    /// Empty if the C type determines the meaning.
    meaning: String,
    /// The number of elements of a list, or the constant that bounds a string.
    pub extent: Option<String>,
    pub is_kept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Integer,
    /// An index, or a list of them: 1-based in Fortran and 0-based in C.
    Position,
    /// Integers, or a constant in their place.
    Weights,
    Address,
    Count,
    Offset,
    Logical,
    /// A handle: the name of its type without `MPI_`.
    Handle(String),
    Status,
    /// A status of module `mpi_f08`, in all interfaces.
    Status08,
    Text,
    /// A key or a value of an info object, whose leading blanks are removed.
    Word,
    /// Memory of any type.
    Choice(SectionView),
    /// The address of memory, returned to the program.
    Pointer,
    /// The address of memory, returned to the program. The interfaces before `mpi_f08` declare it
    /// as memory of any type.
    Memory,
    /// A function of the program: the name of its interface.
    Procedure(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    In,
    Out,
    InOut,
    /// No intent is declared, because the program may pass a constant, to which nothing is written.
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
    /// `(8)`, the integers of a status.
    Status,
}

impl ArgumentMeaning {
    /// Parses a word. Returns `None` for a parameter that Fortran does not have.
    pub fn parse(word: &str) -> Result<Option<Self>, String> {
        if word == "-" {
            return Ok(None);
        }
        let (rest, is_kept) = match word.strip_suffix("+kept") {
            Some(rest) => (rest, true),
            None => (word, false),
        };
        let (rest, extent) = match rest.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
            Some((rest, extent)) => (rest, Some(extent.to_owned())),
            None => (rest, None),
        };
        let (intent, meaning) = rest.split_once('.').unwrap_or((rest, ""));
        let intent = match intent {
            "in" => Intent::In,
            "out" => Intent::Out,
            "inout" => Intent::InOut,
            "any" => Intent::Unsaid,
            _ => return Err(format!("{word} does not begin with an intent")),
        };
        Ok(Some(Self { intent, meaning: meaning.to_owned(), extent, is_kept }))
    }

    /// The kind of a C parameter with this meaning.
    ///
    /// # Errors
    /// A parameter of this type cannot have the meaning.
    pub fn kind(&self, c: &Parameter) -> Result<ArgumentKind, String> {
        if c.stars == 0 && self.intent != Intent::In {
            return Err(format!("{} is passed by value, so it can only be in", c.name));
        }
        if c.constant && c.base != "char" && self.intent != Intent::In {
            return Err(format!("{} is constant, so it can only be in", c.name));
        }
        let is_pointer = c.stars == 1 && !c.is_array;
        let kind = match (c.base.as_str(), self.meaning.as_str()) {
            (base, "function") if c.is_callback() => ArgumentKind::Procedure(base.to_owned()),
            ("int", "" | "status") => ArgumentKind::Integer,
            ("int", "logical") => ArgumentKind::Logical,
            ("int", "weights") if c.is_array => ArgumentKind::Weights,
            ("int", "position") if is_pointer || self.extent.is_some() && c.is_array => {
                ArgumentKind::Position
            }
            ("MPI_Aint", "") => ArgumentKind::Address,
            ("MPI_Count", "") => ArgumentKind::Count,
            ("MPI_Offset", "") => ArgumentKind::Offset,
            ("MPI_Status", "" | "list") => ArgumentKind::Status,
            ("MPI_Status", "f08") => ArgumentKind::Status08,
            ("char", "" | "list" | "table") => ArgumentKind::Text,
            ("char", "word") => ArgumentKind::Word,
            ("void", "logical") => ArgumentKind::Logical,
            ("void", "value") => ArgumentKind::Address,
            ("void", "short") => ArgumentKind::Integer,
            ("void", "pointer") => ArgumentKind::Pointer,
            ("void", "memory") => ArgumentKind::Memory,
            ("void", meaning) => ArgumentKind::Choice(
                SectionView::named(meaning)
                    .ok_or_else(|| format!("{} wants a meaning, as it is void *", c.name))?,
            ),
            (base, "") if base.starts_with("MPI_") && !c.is_callback() => {
                ArgumentKind::Handle(base.trim_start_matches("MPI_").to_owned())
            }
            _ => return Err(format!("{} cannot be {:?} in Fortran", c.name, self.meaning)),
        };
        let is_list_of_handles =
            matches!(kind, ArgumentKind::Handle(_)) && self.shape(c) == Shape::List;
        if is_list_of_handles && self.extent.is_none() {
            return Err(format!("{} wants the number of its elements", c.name));
        }
        Ok(kind)
    }

    pub fn shape(&self, c: &Parameter) -> Shape {
        match self.meaning.as_str() {
            "table" => Shape::Table,
            "list" => Shape::List,
            "status" => Shape::Status,
            _ if c.triplets => Shape::Triplets,
            _ if c.is_array && c.base != "char" => Shape::List,
            _ => Shape::Scalar,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(word: &str, declaration: &str) -> Result<ArgumentKind, String> {
        let parameters = Parameter::parse_list(declaration).unwrap();
        ArgumentMeaning::parse(word).unwrap().unwrap().kind(&parameters[0])
    }

    #[test]
    fn words_are_understood() {
        let word = ArgumentMeaning::parse("any.block[count]+kept").unwrap().unwrap();
        assert_eq!((word.intent, word.is_kept), (Intent::Unsaid, true));
        assert_eq!(word.extent.as_deref(), Some("count"));
        assert!(ArgumentMeaning::parse("-").unwrap().is_none());
        assert!(ArgumentMeaning::parse("block").is_err());
    }

    #[test]
    fn a_meaning_must_fit_the_type_in_c() {
        assert_eq!(kind("out.position", "int *indx"), Ok(ArgumentKind::Position));
        assert_eq!(kind("out", "int indx[]"), Ok(ArgumentKind::Integer));
        for (word, declaration) in [
            ("out.position", "int indx[]"),
            ("out", "int maxindex"),
            ("out", "const int dims[]"),
            ("in", "void *buf"),
            ("out.logical", "MPI_Aint *size"),
            ("inout", "MPI_Request array_of_requests[]"),
        ] {
            assert!(kind(word, declaration).is_err(), "{word} for {declaration}");
        }
    }
}
