//! One parameter of a C function.

/// A parsed parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// The C type without `const` and stars: `int`, `MPI_Comm`, `void`…
    pub base: String,
    pub constant: bool,
    pub shape: Shape,
}

/// How the value is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Value,
    /// `T *`.
    Pointer,
    /// `T name[]`, or a pointer whose name says that it is one.
    Array,
    /// `int name[][3]`.
    Triplets,
    /// `T **`, `T *name[]`.
    PointerPointer,
    /// `T ***`, `T **name[]`.
    Deep,
}

impl Parameter {
    /// The parameters of a C function, without `...`, which no implementation reads.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        if text == "void" {
            return Ok(Vec::new());
        }
        text.split(", ").filter(|part| *part != "...").map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let constant = text.starts_with("const ");
        let plain = text.trim_start_matches("const ");
        let (triplets, plain) = match plain.strip_suffix("[][3]") {
            Some(rest) => (true, rest),
            None => (false, plain),
        };
        let (brackets, plain) = match plain.strip_suffix("[]") {
            Some(rest) => (true, rest),
            None => (false, plain),
        };
        let (kind, name) = plain.rsplit_once(' ').ok_or(format!("odd parameter: {text}"))?;
        let name_stars = name.chars().take_while(|letter| *letter == '*').count();
        let name = name.trim_start_matches('*');
        let shape = match (triplets, brackets, name_stars) {
            (true, false, 0) => Shape::Triplets,
            (false, true, 0) => Shape::Array,
            (false, false, 0) => Shape::Value,
            (false, false, 1) if name.starts_with("array_of_") => Shape::Array,
            (false, false, 1) => Shape::Pointer,
            (false, true, 1) | (false, false, 2) => Shape::PointerPointer,
            (false, true, 2) | (false, false, 3) => Shape::Deep,
            _ => return Err(format!("odd parameter: {text}")),
        };
        Ok(Self { name: name.to_owned(), base: kind.to_owned(), constant, shape })
    }

    /// Whether it is an integer that the large twin of a function makes wider.
    pub fn is_integer(&self) -> bool {
        matches!(self.base.as_str(), "int" | "MPI_Count" | "MPI_Aint" | "MPI_Offset")
    }

    /// Whether it is the address of a message's data.
    pub fn is_address(&self) -> bool {
        self.base == "void" && self.shape == Shape::Pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_declarations_are_understood() {
        let parse = |text: &str| {
            let one = Parameter::parse(text).unwrap();
            (one.name, one.base, one.constant, one.shape)
        };
        let expected = |name: &str, base: &str, constant, shape| {
            (name.to_owned(), base.to_owned(), constant, shape)
        };
        assert_eq!(parse("int ranges[][3]"), expected("ranges", "int", false, Shape::Triplets));
        assert_eq!(parse("char ***argv"), expected("argv", "char", false, Shape::Deep));
        assert_eq!(parse("char *argv[]"), expected("argv", "char", false, Shape::PointerPointer));
        assert_eq!(parse("const int level"), expected("level", "int", true, Shape::Value));
        assert_eq!(parse("const void *buf"), expected("buf", "void", true, Shape::Pointer));
        let statuses = expected("array_of_statuses", "MPI_Status", false, Shape::Array);
        assert_eq!(parse("MPI_Status *array_of_statuses"), statuses);
    }
}
