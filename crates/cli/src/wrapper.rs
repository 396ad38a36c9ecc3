//! `mpicc` and `mpicxx`: the real compiler with what Combray needs.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::prefix;

/// Which compiler is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
}

/// Variables that name the real compiler, ours first, then those that users of MPICH and Open MPI
/// know, and the default.
const C_COMPILERS: (&[&str], &str) = (&["COMBRAY_CC", "MPICH_CC", "OMPI_CC"], "cc");
const CXX_COMPILERS: (&[&str], &str) = (&["COMBRAY_CXX", "MPICH_CXX", "OMPI_CXX"], "c++");

/// Compiles, or tells how it would.
pub fn run(language: Language, words: &[String]) -> Result<i32, String> {
    let prefix = prefix::find()?;
    let flags = Flags::of(&prefix);
    let compiler = compiler(language);
    if let Some((question, rest)) = words.split_first()
        && let Some(answer) = flags.answer(question, &compiler, rest)
    {
        println!("{answer}");
        return Ok(0);
    }
    let arguments = flags.arguments(words);
    let status = Command::new(&compiler).args(&arguments).status();
    let status = status.map_err(|cause| {
        format!("the compiler {compiler} cannot be run: {cause}; COMBRAY_CC names another one")
    })?;
    Ok(status.code().unwrap_or(1))
}

fn compiler(language: Language) -> String {
    let (variables, default) = match language {
        Language::C => C_COMPILERS,
        Language::Cxx => CXX_COMPILERS,
    };
    let set = variables.iter().find_map(|name| env::var(name).ok().filter(|v| !v.is_empty()));
    set.unwrap_or_else(|| default.to_owned())
}

/// What is added to the compiler's arguments.
struct Flags {
    include: String,
    library: String,
}

impl Flags {
    fn of(prefix: &Path) -> Self {
        let folder = |name: &str| prefix.join(name).to_string_lossy().into_owned();
        Self { include: folder("include"), library: folder("lib") }
    }

    fn compile(&self) -> Vec<String> {
        vec![format!("-I{}", self.include)]
    }

    fn link(&self) -> Vec<String> {
        let library = &self.library;
        vec![format!("-L{library}"), format!("-Wl,-rpath,{library}"), "-lmpi_abi".to_owned()]
    }

    /// The arguments for the compiler: the library only where something is linked.
    fn arguments(&self, words: &[String]) -> Vec<String> {
        let links =
            !words.iter().any(|word| matches!(word.as_str(), "-c" | "-E" | "-S" | "-M" | "-MM"));
        let only_asks = words.iter().all(|word| {
            matches!(word.as_str(), "-v" | "-V" | "--version" | "-dumpversion" | "-dumpmachine")
        });
        let mut all = words.to_vec();
        if !only_asks {
            all.splice(0..0, self.compile());
            if links {
                all.extend(self.link());
            }
        }
        all
    }

    /// The answer to a question about the wrapper itself, in the words that users and build
    /// systems know from MPICH and Open MPI.
    fn answer(&self, question: &str, compiler: &str, rest: &[String]) -> Option<String> {
        let line = |parts: Vec<String>| {
            std::iter::once(compiler.to_owned()).chain(parts).collect::<Vec<_>>().join(" ")
        };
        Some(match question {
            "-show" | "-showme" | "--showme" | "--show" if rest.is_empty() => {
                line([self.compile(), self.link()].concat())
            }
            "-show" | "-showme" | "--showme" | "--show" => line(self.arguments(rest)),
            "-showme:command" | "--showme:command" => compiler.to_owned(),
            "-showme:compile" | "--showme:compile" => self.compile().join(" "),
            "-showme:link" | "--showme:link" => self.link().join(" "),
            "-showme:incdirs" | "--showme:incdirs" => self.include.clone(),
            "-showme:libdirs" | "--showme:libdirs" => self.library.clone(),
            "-showme:libs" | "--showme:libs" => "mpi_abi".to_owned(),
            "-showme:version" | "--showme:version" => {
                format!("Combray {}", env!("CARGO_PKG_VERSION"))
            }
            "-compile_info" | "-compile-info" => line(self.compile()),
            "-link_info" | "-link-info" => line([self.compile(), self.link()].concat()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> Flags {
        Flags::of(Path::new("/opt/combray"))
    }

    fn arguments(words: &str) -> String {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        flags().arguments(&words).join(" ")
    }

    #[test]
    fn links_only_where_something_is_linked() {
        let link = "-L/opt/combray/lib -Wl,-rpath,/opt/combray/lib -lmpi_abi";
        assert_eq!(arguments("a.c -o a"), format!("-I/opt/combray/include a.c -o a {link}"));
        assert_eq!(arguments("-c a.c"), "-I/opt/combray/include -c a.c");
        assert_eq!(arguments("--version"), "--version");
    }

    #[test]
    fn answers_build_systems() {
        let answer = |question| flags().answer(question, "cc", &[]).unwrap();
        assert_eq!(answer("-showme:compile"), "-I/opt/combray/include");
        assert!(answer("-showme:link").contains("-lmpi_abi"));
        assert!(answer("-show").starts_with("cc -I/opt/combray/include"));
        assert_eq!(answer("-showme:incdirs"), "/opt/combray/include");
        assert!(flags().answer("-O2", "cc", &[]).is_none());
    }
}
