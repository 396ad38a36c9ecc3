//! Generates a page for each function of the standard from the tables: man pages of section 3, and
//! the pages of the site.

use std::fmt::Write;

use super::conformance::{CHAPTERS, chapter};
use super::fortran::{Routine, declared};
use super::tables::{MpiFunction, Tables};

/// What a page says about a function and its form for large counts.
struct FunctionPage<'a> {
    name: &'a str,
    /// What the function does, as the predicate of a sentence.
    phrase: String,
    chapter: (u8, &'static str),
    forms: Vec<&'a MpiFunction>,
    /// The declaration in module `mpi_f08`, as lines.
    fortran: Vec<String>,
    /// The name and the meaning of each parameter.
    parameters: Vec<(&'a str, &'a str)>,
    /// Functions with the same purpose.
    relatives: Vec<String>,
}

/// The man pages: path below `share`, and text.
pub fn man_pages(tables: &Tables) -> Result<Vec<(String, String)>, String> {
    let path = |name: &str| format!("man/man3/{name}.3");
    let mut files = Vec::new();
    for page in pages(tables)? {
        files.push((path(page.name), page.troff()));
        for form in page.forms.iter().filter(|form| form.name != page.name) {
            files.push((path(&form.name), format!(".so man3/{}.3\n", page.name)));
        }
    }
    Ok(files)
}

/// The pages of the site, one for each chapter: name of the file, and Markdown.
pub fn site_pages(tables: &Tables) -> Result<Vec<(String, String)>, String> {
    let pages = pages(tables)?;
    let mut files = Vec::new();
    for &(number, title) in CHAPTERS {
        let mut text = format!("# Functions: {title}\n\nChapter {number} of MPI 5.0.\n");
        let own = pages.iter().filter(|page| page.chapter.0 == number);
        own.for_each(|page| text += &page.markdown());
        files.push((format!("chapter-{number:02}.md"), text));
    }
    Ok(files)
}

fn pages(tables: &Tables) -> Result<Vec<FunctionPage<'_>>, String> {
    let routines = Routine::all(tables)?;
    let is_twin = |function: &MpiFunction| {
        let plain = function.name.strip_suffix("_c");
        plain.is_some_and(|plain| tables.functions.iter().any(|other| other.name == plain))
    };
    let first = tables.functions.iter().filter(|function| !is_twin(function));
    first.map(|function| FunctionPage::of(function, &routines, tables)).collect()
}

impl<'a> FunctionPage<'a> {
    fn of(
        function: &'a MpiFunction,
        routines: &[Routine],
        tables: &'a Tables,
    ) -> Result<Self, String> {
        let name = function.name.as_str();
        let twin = format!("{name}_c");
        let forms: Vec<_> =
            tables.functions.iter().filter(|one| one.name == name || one.name == twin).collect();
        let mut parameters: Vec<(&str, &str)> = Vec::new();
        for parameter in forms.iter().flat_map(|form| &form.parameters) {
            let known = parameters.iter().any(|(known, _)| *known == parameter.name);
            if known || is_conversion(name) {
                continue;
            }
            let meaning = tables.parameters.get(&parameter.name).ok_or_else(|| {
                format!("parameters.tsv does not describe {} of {name}", parameter.name)
            })?;
            parameters.push((&parameter.name, meaning));
        }
        let number = chapter(function)?;
        let title = CHAPTERS.iter().find(|(known, _)| *known == number);
        let routine = routines.iter().find(|routine| routine.name == name && !routine.is_old);
        Ok(Self {
            name,
            phrase: phrase(name, tables)?,
            chapter: *title.ok_or_else(|| format!("there is no chapter {number}"))?,
            forms,
            fortran: routine.map(declared).unwrap_or_default(),
            parameters,
            relatives: relatives(name, tables),
        })
    }

    fn prototypes(&self) -> Vec<String> {
        let one = |form: &&MpiFunction| {
            format!("{} {}({});", form.returns, form.name, form.parameters_text)
        };
        self.forms.iter().map(one).collect()
    }

    /// Sentences about the result, and about the place of the function in the standard.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.forms[0].returns == "int" && !is_conversion(self.name) {
            remarks.push(match self.name.starts_with("MPI_T_") {
                true => "The function returns MPI_SUCCESS or an error code of the tools \
                         interface; errors never end the job."
                    .to_owned(),
                false => "The function returns MPI_SUCCESS or an error code. By default an error \
                          ends the job with a message (MPI_ERRORS_ARE_FATAL)."
                    .to_owned(),
            });
        }
        if self.forms.len() > 1 {
            remarks.push(format!(
                "{} takes counts of type MPI_Count, for more than 2,147,483,647 elements; in module \
                 mpi_f08 both have the name {} where their arguments differ.",
                self.forms[1].name, self.name
            ));
        }
        let note = &self.forms[0].note;
        if !note.is_empty() {
            remarks.push(format!("{}{}.", note[..1].to_uppercase(), &note[1..]));
        }
        if self.forms[0].implemented.is_none() {
            remarks.push("It returns MPI_ERR_UNSUPPORTED_OPERATION here.".to_owned());
        }
        let (number, title) = self.chapter;
        remarks.push(format!("It is defined in chapter {number} of MPI 5.0, \"{title}\"."));
        remarks
    }

    fn troff(&self) -> String {
        let version = format!("Combray {}", env!("CARGO_PKG_VERSION"));
        let mut text = format!(".TH {} 3 \"\" \"{version}\" MPI\n.SH NAME\n", self.name);
        let names: Vec<&str> = self.forms.iter().map(|form| form.name.as_str()).collect();
        _ = writeln!(text, "{} \\- {}", names.join(", "), escaped(&self.phrase));
        text += ".SH SYNOPSIS\n.nf\n#include <mpi.h>\n\n";
        self.prototypes().iter().for_each(|line| text += &format!("{}\n", escaped(line)));
        if !self.fortran.is_empty() {
            text += "\nuse mpi_f08\n\n";
            self.fortran.iter().for_each(|line| text += &format!("{}\n", escaped(line)));
        }
        text += ".fi\n";
        if !self.parameters.is_empty() {
            text += ".SH PARAMETERS\n";
        }
        for (name, meaning) in &self.parameters {
            _ = writeln!(text, ".TP\n.I {name}\n{}", escaped(meaning));
        }
        text += ".SH NOTES\n";
        self.remarks().iter().for_each(|line| text += &format!("{}\n.PP\n", escaped(line)));
        text += ".SH SEE ALSO\n";
        let also = self.relatives.iter().map(|name| format!("{name}(3), "));
        text + &also.collect::<String>() + "mpicc(1), mpirun(1)\n"
    }

    fn markdown(&self) -> String {
        let mut text = format!("\n## {}\n\n`{}` {}.\n\n```\n", self.name, self.name, self.phrase);
        self.prototypes().iter().for_each(|line| text += &format!("{line}\n"));
        if !self.fortran.is_empty() {
            text += "\nuse mpi_f08\n";
            self.fortran.iter().for_each(|line| text += &format!("{line}\n"));
        }
        text += "```\n\n";
        for (name, meaning) in &self.parameters {
            _ = writeln!(text, "- `{name}`: {meaning}");
        }
        _ = writeln!(text, "\n{}", self.remarks().join(" "));
        if !self.relatives.is_empty() {
            _ = writeln!(text, "See also {}.", self.relatives.join(", "));
        }
        text
    }
}

/// Whether a function converts between handles and integers.
fn is_conversion(name: &str) -> bool {
    name.ends_with("_toint") || name.ends_with("_fromint")
}

/// What a function does, as the predicate of a sentence.
fn phrase(name: &str, tables: &Tables) -> Result<String, String> {
    if let Some(known) = tables.summaries.get(name) {
        return Ok(known.clone());
    }
    let handle = |end| name.strip_suffix(end).map(|kind| format!("a handle of type {kind}"));
    if let Some(kind) = handle("_toint") {
        return Ok(format!("returns the integer that stands for {kind} in all languages"));
    }
    if let Some(kind) = handle("_fromint") {
        return Ok(format!("returns {kind} from the integer that stands for it"));
    }
    let of = |base: Option<String>| base.and_then(|base| tables.summaries.get(&base));
    if let Some(known) = of(blocking(name)) {
        return Ok(format!("starts an operation that {known}"));
    }
    match of(name.strip_suffix("_init").map(str::to_owned)) {
        Some(known) => Ok(format!("creates a persistent request for an operation that {known}")),
        None => Err(format!("summaries.tsv does not describe {name}")),
    }
}

/// The name of the blocking form that a nonblocking function would have.
fn blocking(name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("MPI_File_i") {
        return Some(format!("MPI_File_{rest}"));
    }
    let rest = name.strip_prefix("MPI_I")?;
    Some(format!("MPI_{}{}", rest.get(..1)?.to_uppercase(), rest.get(1..)?))
}

/// The other forms of a function: blocking, nonblocking, persistent.
fn relatives(name: &str, tables: &Tables) -> Vec<String> {
    let base = blocking(name).filter(|base| tables.summaries.contains_key(base));
    let base = base.as_deref().or(name.strip_suffix("_init")).unwrap_or(name);
    let is_relative = |other: &str| {
        other == base
            || blocking(other).as_deref() == Some(base)
            || other.strip_suffix("_init") == Some(base)
    };
    let names = tables.functions.iter().map(|function| function.name.as_str());
    names.filter(|other| *other != name && is_relative(other)).map(str::to_owned).collect()
}

/// Text as troff shows it unchanged.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::path::Path;

    fn tables() -> Tables {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mpi-abi/abi");
        Tables::read(&folder).unwrap()
    }

    #[test]
    fn every_function_has_a_page() {
        let tables = tables();
        let files = man_pages(&tables).unwrap();
        assert_eq!(files.len(), tables.functions.len());
        let text = |name: &str| {
            let path = format!("man/man3/{name}.3");
            files.iter().find(|file| file.0 == path).unwrap().1.as_str()
        };
        let send = text("MPI_Send");
        for part in [
            "MPI_Send, MPI_Send_c \\- sends a message\n",
            "int MPI_Send(const void *buf, int count,",
            "integer, intent(in) :: dest",
            ".I dest\nthe rank that receives",
            "chapter 3 of MPI 5.0",
            "MPI_Isend(3), MPI_Send_init(3)",
        ] {
            assert!(send.contains(part), "{part}\n{send}");
        }
        assert_eq!(text("MPI_Send_c"), ".so man3/MPI_Send.3\n");
        assert!(text("MPI_Isend").contains("starts an operation that sends a message"));
        assert!(text("MPI_Comm_toint").contains("a handle of type MPI_Comm"));
        // Where a page only forwards, the other page exists.
        for (_, text) in &files {
            let Some(target) = text.strip_prefix(".so ") else { continue };
            let path = format!("man/{}", target.trim_end());
            assert!(files.iter().any(|file| file.0 == path), "{path}");
        }
    }

    #[test]
    fn every_row_is_of_use() {
        let tables = tables();
        for name in tables.summaries.keys() {
            assert!(tables.functions.iter().any(|one| one.name == *name), "{name}");
        }
        for name in tables.parameters.keys() {
            let mut all = tables.functions.iter().flat_map(|one| &one.parameters);
            assert!(all.any(|one| one.name == *name), "{name}");
        }
    }

    #[test]
    fn the_pages_of_the_site_have_all_functions() {
        let tables = tables();
        let pages = site_pages(&tables).unwrap();
        let headings = pages.iter().map(|page| page.1.matches("\n## MPI_").count()).sum::<usize>();
        let twins = man_pages(&tables).unwrap();
        let twins = twins.iter().filter(|file| file.1.starts_with(".so ")).count();
        assert_eq!(headings + twins, tables.functions.len());
    }
}
