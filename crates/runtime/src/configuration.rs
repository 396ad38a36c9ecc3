//! Configuration: environment variables with the prefix `COMBRAY_`, all in one table.

use std::env;
use std::ffi::OsString;

/// One variable: its name, the values it takes with the default first, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The name, with the prefix.
    pub name: &'static str,
    /// The values that it takes; the first is the default.
    pub values: &'static [&'static str],
    /// What it does, for people.
    pub help: &'static str,
}

/// The variables that a person may set.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "COMBRAY_SINGLE_COPY",
        values: &["auto", "never"],
        help: "whether large messages inside a machine are copied once, by reading the sender's \
               memory, where the system allows it",
    },
    Variable {
        name: "COMBRAY_STRATEGY",
        values: &["aggregate", "direct"],
        help: "how packets are formed from the messages that wait",
    },
];

/// Variables that the launcher and the compiler wrappers set or read.
const OTHERS: &[&str] = &[
    "COMBRAY_RANK",
    "COMBRAY_SIZE",
    "COMBRAY_LOCAL_RANK",
    "COMBRAY_LOCAL_SIZE",
    "COMBRAY_JOB",
    "COMBRAY_CC",
    "COMBRAY_CXX",
];

/// What the environment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// `COMBRAY_SINGLE_COPY` is not `never`.
    pub single_copy: bool,
    /// `COMBRAY_STRATEGY` is `aggregate`.
    pub aggregate: bool,
}

impl Configuration {
    /// Reads the environment; the sentences tell what in it was not understood.
    pub fn read() -> (Self, Vec<String>) {
        Self::from_variables(env::vars_os())
    }

    fn from_variables(
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> (Self, Vec<String>) {
        let mut configuration = Self { single_copy: true, aggregate: true };
        let mut complaints = Vec::new();
        for (name, value) in variables {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            if !name.starts_with("COMBRAY_") || OTHERS.contains(&&*name) {
                continue;
            }
            let Some(variable) = VARIABLES.iter().find(|variable| variable.name == name) else {
                complaints.push(unknown(&name));
                continue;
            };
            if !variable.values.contains(&&*value) {
                let values = variable.values.join(" or ");
                complaints.push(format!("{name} is \"{value}\", but must be {values}; ignored"));
                continue;
            }
            match variable.name {
                "COMBRAY_SINGLE_COPY" => configuration.single_copy = value != "never",
                _ => configuration.aggregate = value == "aggregate",
            }
        }
        (configuration, complaints)
    }
}

fn unknown(name: &str) -> String {
    let known = VARIABLES.iter().map(|variable| variable.name).chain(OTHERS.iter().copied());
    let nearest = known.min_by_key(|known| distance(known, name)).unwrap_or_default();
    format!("{name} is no variable of Combray; did you mean {nearest}?")
}

/// How many letters must be inserted, removed or changed to make `b` of `a` (Levenshtein).
pub fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Configuration, Vec<String>) {
        let owned = pairs.iter().map(|(name, value)| (name.into(), value.into()));
        Configuration::from_variables(owned)
    }

    #[test]
    fn defaults_and_values() {
        let (configuration, complaints) = read(&[("PATH", "x"), ("COMBRAY_RANK", "3")]);
        assert_eq!(configuration, Configuration { single_copy: true, aggregate: true });
        assert!(complaints.is_empty());
        let (configuration, _) =
            read(&[("COMBRAY_SINGLE_COPY", "never"), ("COMBRAY_STRATEGY", "direct")]);
        assert_eq!(configuration, Configuration { single_copy: false, aggregate: false });
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let (_, complaints) = read(&[("COMBRAY_STRATEGI", "direct")]);
        assert!(complaints[0].contains("did you mean COMBRAY_STRATEGY?"), "{complaints:?}");
    }

    #[test]
    fn a_wrong_value_is_reported() {
        let (configuration, complaints) = read(&[("COMBRAY_STRATEGY", "magic")]);
        assert!(configuration.aggregate);
        assert!(complaints[0].contains("aggregate or direct"), "{complaints:?}");
    }
}
