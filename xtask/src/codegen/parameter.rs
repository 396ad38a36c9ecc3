//! Parsing of C parameters.

/// A parsed parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// The C type without `const` and stars: `int`, `MPI_Comm`, `void`…
    pub base: String,
    pub constant: bool,
    /// The number of pointer levels; an array counts as a pointer.
    pub stars: usize,
    /// Whether it is written as an array.
    pub is_array: bool,
    /// `int name[][3]`: a pointer to triplets.
    pub triplets: bool,
}

impl Parameter {
    /// Parses the parameters of a C function, without `...`, which no implementation reads.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        if text == "void" {
            return Ok(Vec::new());
        }
        text.split(", ").filter(|part| *part != "...").map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let constant = text.starts_with("const ");
        let plain = text.trim_start_matches("const ");
        let (triplets, plain) = match plain.strip_suffix("[3]") {
            Some(rest) => (true, rest),
            None => (false, plain),
        };
        let (brackets, plain) = match plain.strip_suffix("[]") {
            Some(rest) => (1, rest),
            None => (0, plain),
        };
        let (kind, name) = plain.rsplit_once(' ').ok_or(format!("odd parameter: {text}"))?;
        let plain = name.trim_start_matches('*');
        let stars = brackets + name.len() - plain.len();
        let is_array = brackets > 0;
        let (name, base) = (plain.to_owned(), kind.to_owned());
        Ok(Self { name, base, constant, stars, is_array, triplets })
    }

    /// Whether it is a function of the program.
    pub fn is_callback(&self) -> bool {
        ["_function", "_function_c", "_function_x"].iter().any(|end| self.base.ends_with(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_declarations_are_understood() {
        let parse = |text: &str| {
            let one = Parameter::parse(text).unwrap();
            (one.name, one.base, one.constant, one.stars, one.triplets)
        };
        let expected = |name: &str, base: &str, constant, stars, triplets| {
            (name.to_owned(), base.to_owned(), constant, stars, triplets)
        };
        assert_eq!(parse("int ranges[][3]"), expected("ranges", "int", false, 1, true));
        assert_eq!(parse("char ***argv"), expected("argv", "char", false, 3, false));
        assert_eq!(parse("char *argv[]"), expected("argv", "char", false, 2, false));
        assert_eq!(parse("const int level"), expected("level", "int", true, 0, false));
        assert_eq!(parse("const void *buf"), expected("buf", "void", true, 1, false));
        let statuses = expected("array_of_statuses", "MPI_Status", false, 1, false);
        assert_eq!(parse("MPI_Status *array_of_statuses"), statuses);
    }
}
