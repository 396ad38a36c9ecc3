//! `mpicc`, `mpicxx` and `mpifort`: they call the real compiler with the options that Combray
//! needs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base::variables;

use crate::fortran::{self, FortranCompiler};
use crate::prefix;

/// The language of a wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
    /// Fortran.
    Fortran,
}

impl Language {
    /// The language of the wrapper with this command name.
    pub fn of_wrapper(name: &str) -> Option<Self> {
        match name {
            "mpicc" => Some(Self::C),
            "mpicxx" | "mpic++" | "mpiCC" => Some(Self::Cxx),
            "mpifort" | "mpif77" | "mpif90" => Some(Self::Fortran),
            _ => None,
        }
    }

    /// The name of the language.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cxx => "C++",
            Self::Fortran => "Fortran",
        }
    }

    /// Debian's packages of the default compiler.
    fn packages(self) -> &'static str {
        match self {
            Self::C => "gcc and libc6-dev",
            Self::Cxx => "g++",
            Self::Fortran => "gfortran",
        }
    }

    /// Variables that name the real compiler: ours first, then those of MPICH and Open MPI.
    pub fn variables(self) -> [&'static str; 3] {
        match self {
            Self::C => [variables::CC, "MPICH_CC", "OMPI_CC"],
            Self::Cxx => [variables::CXX, "MPICH_CXX", "OMPI_CXX"],
            Self::Fortran => [variables::FC, "MPICH_FC", "OMPI_FC"],
        }
    }

    /// Options that name the real compiler.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::C => &["-cc="],
            Self::Cxx => &["-cxx=", "-CC="],
            Self::Fortran => &["-fc=", "-f90=", "-f77="],
        }
    }

    /// The default compiler.
    pub fn default_compiler(self) -> &'static str {
        match self {
            Self::C => "cc",
            Self::Cxx => "c++",
            Self::Fortran => fortran::DEFAULT_COMPILER,
        }
    }
}

/// The option that makes a program report its loads and stores.
const CHECK_ACCESSES: &str = "--check-accesses";

/// A folder below the library folder. It contains files with the names of GCC's sanitizer run-time
/// libraries. They link an object file whose functions call ours.
const ACCESSES: &str = "combray/accesses";

/// The wrappers' own options, with their descriptions.
pub const OWN_OPTIONS: &[(&str, &str)] = &[
    ("-show, -showme", "show the compiler's command line, and compile nothing"),
    ("-showme:compile, -showme:link", "show only what is added to compile, or to link"),
    ("-showme:command", "show the compiler"),
    (
        "-showme:incdirs, -showme:libdirs, -showme:libs",
        "show folders and libraries, without options",
    ),
    ("-compile_info, -link_info", "show the compiler's command line as MPICH writes it"),
    ("-cc_version, -show_version", "show the version of the compiler, or of Combray"),
    ("-echo", "show the compiler's command line, and carry it out"),
    ("-showme:version", "show the version of Combray"),
    ("-cc=COMPILER, -cxx=COMPILER, -fc=COMPILER", "use this compiler"),
    (
        CHECK_ACCESSES,
        "let run --check see loads and stores as well (GCC only; to compile and to link)",
    ),
    ("--help", "this text, then the compiler's help"),
];

/// The texts that `-showme:help` prints.
fn own_help() -> String {
    let lines = OWN_OPTIONS.iter().map(|(words, effect)| format!("  {words:<48} {effect}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text that `--help` prints before the compiler's own help.
fn help(language: Language) -> String {
    let mut text = format!(
        "Calls the compiler with the options that MPI programs need; {} names another compiler.\n\n",
        language.variables()[0]
    );
    text += &own_help();
    text + "\n\nAll other arguments are passed to the compiler, whose help follows:\n"
}

/// Calls the compiler, or shows its command line.
pub fn run(language: Language, words: &[OsString]) -> Result<i32, String> {
    let prefix = prefix::find()?;
    let (chosen, words) = choose_compiler(language, words, |name| env::var(name).ok());
    let mut flags = Flags::of(&prefix);
    let (checks, words): (Vec<_>, Vec<_>) =
        words.into_iter().partition(|word| word == CHECK_ACCESSES);
    flags.tells_accesses = !checks.is_empty();
    if language == Language::Fortran {
        flags.fortran = Some(FortranCompiler::of(&chosen)?.installed(&prefix)?);
    }
    let (ignored, words): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| is_ignored(word));
    let (echo, words): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| is_echo(word));
    flags.links_mpi = !ignored.iter().any(|word| word == "-nolinkmpi");
    let (question, words): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| is_question(word));
    if let Some(question) = question.first() {
        println!("{}", flags.answer(&question.to_string_lossy(), &chosen, &words));
        return Ok(0);
    }
    if words.len() == 1 && words[0] == "--help" {
        println!("{}", help(language));
    }
    if !echo.is_empty() {
        println!("{}", flags.command_line(&chosen, &words));
    }
    let (compiler, own) = chosen.split_first().ok_or("no compiler is named")?;
    if flags.tells_accesses && !is_gcc(compiler, own) {
        return Err(format!(
            "{CHECK_ACCESSES} needs GCC, and {compiler} is another compiler: in its programs \
             ThreadSanitizer would see the accesses instead of Combray; name GCC by the variable \
             {}",
            language.variables()[0]
        ));
    }
    // `exec` returns only on failure.
    let cause = Command::new(compiler).args(own).args(flags.arguments(&words)).exec();
    let install = match cause.kind() {
        io::ErrorKind::NotFound => format!(" (in Debian: {})", language.packages()),
        _ => String::new(),
    };
    Err(format!(
        "the compiler {compiler} cannot be run: {cause}; install it{install}, or name another one by \
         the variable {}",
        language.variables()[0]
    ))
}

/// Whether a compiler is GCC, by its version text. A compiler that cannot be run counts as GCC
/// here; the error is reported when it is called.
fn is_gcc(compiler: &str, own: &[String]) -> bool {
    let answer = Command::new(compiler).args(own).arg("--version").output();
    answer.map_or(true, |answer| {
        String::from_utf8_lossy(&answer.stdout).contains("Free Software Foundation")
    })
}

/// Chooses the compiler, perhaps with options of its own ("ccache gcc"). Returns it and the
/// remaining words.
fn choose_compiler(
    language: Language,
    words: &[OsString],
    variable: impl Fn(&str) -> Option<String>,
) -> (Vec<String>, Vec<OsString>) {
    let option = |word: &OsString| {
        let text = word.to_str()?;
        language.options().iter().find_map(|option| text.strip_prefix(option)).map(str::to_owned)
    };
    let by_option = words.iter().find_map(option);
    let by_variable = || language.variables().into_iter().find_map(&variable);
    let named = by_option.or_else(by_variable).unwrap_or_default();
    let mut compiler: Vec<String> = named.split_whitespace().map(str::to_owned).collect();
    if compiler.is_empty() {
        compiler.push(language.default_compiler().to_owned());
    }
    (compiler, words.iter().filter(|word| option(word).is_none()).cloned().collect())
}

/// Whether a word asks to see the command line beside carrying it out.
fn is_echo(word: &OsStr) -> bool {
    word == "-echo" || word == "--echo"
}

/// Whether a word has no effect on the command line, or only that nothing is linked: options of
/// the wrappers of MPICH and Intel MPI that choose among variants of the library; here is one.
fn is_ignored(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    ["-nolinkmpi", "-static_mpi", "-static-mpi", "-mt_mpi"].contains(&&*word)
        || ["-profile=", "-config=", "-link_mpi="].iter().any(|name| word.starts_with(name))
}

/// Whether a word queries the wrapper itself, in the spellings of MPICH and Open MPI.
fn is_question(word: &OsStr) -> bool {
    let word = word.to_string_lossy();
    let word = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or_default();
    let names = [
        "show",
        "showme",
        "compile_info",
        "compile-info",
        "link_info",
        "link-info",
        "cc_version",
        "cxx_version",
        "fc_version",
        "show_version",
        "info",
    ];
    names.contains(&word) || word.starts_with("showme:")
}

/// Options with which nothing is linked.
const WITHOUT_LINKING: [&str; 6] = ["-c", "-E", "-S", "-M", "-MM", "-fsyntax-only"];

/// Options that query the compiler.
const QUESTIONS: [&str; 7] =
    ["-v", "-V", "--help", "--version", "-dumpversion", "-dumpfullversion", "-dumpmachine"];

/// The additions to the compiler's arguments.
struct Flags {
    include: String,
    library: String,
    /// The folder of the Fortran interfaces for this compiler.
    fortran: Option<PathBuf>,
    /// Whether the program reports its loads and stores.
    tells_accesses: bool,
    /// Whether the libraries are added where the compiler links.
    links_mpi: bool,
    /// Whether compilers search `include` and `library` anyway; naming them would change the order.
    is_standard: bool,
}

impl Flags {
    fn of(prefix: &Path) -> Self {
        let folder = |name: &str| prefix.join(name).to_string_lossy().into_owned();
        let is_standard = prefix == Path::new("/usr");
        let (include, library) = (folder("include"), folder("lib"));
        Self {
            include,
            library,
            fortran: None,
            tells_accesses: false,
            links_mpi: true,
            is_standard,
        }
    }

    /// The folders of headers and modules, as options.
    fn includes(&self) -> Vec<String> {
        let fortran = self.fortran.iter().map(|folder| folder.to_string_lossy().into_owned());
        [self.include.clone()].into_iter().chain(fortran).collect()
    }

    /// The folders of libraries, and their names.
    fn libraries(&self) -> (Vec<String>, Vec<&'static str>) {
        let fortran = self.fortran.iter().map(|folder| folder.to_string_lossy().into_owned());
        let names = if self.fortran.is_some() { vec![fortran::LIBRARY] } else { Vec::new() };
        let folders = fortran.chain([self.library.clone()]).collect();
        (folders, names.into_iter().chain(["mpi_abi"]).collect())
    }

    fn compile(&self) -> Vec<String> {
        let includes = self.includes().into_iter().skip(usize::from(self.is_standard));
        let accesses = self.tells_accesses.then(|| self.accesses()).into_iter().flatten();
        includes.map(|folder| format!("-I{folder}")).chain(accesses).collect()
    }

    /// The options with which the compiler adds a call before each load and store.
    fn accesses(&self) -> [String; 3] {
        let folder = format!("{}/{ACCESSES}", self.library);
        ["-fsanitize=thread".to_owned(), format!("-B{folder}"), format!("-L{folder}")]
    }

    fn link(&self) -> Vec<String> {
        let (mut folders, names) = self.libraries();
        if self.is_standard {
            folders.pop();
        }
        let folders = folders
            .iter()
            .flat_map(|folder| [format!("-L{folder}"), format!("-Wl,-rpath,{folder}")]);
        folders.chain(names.into_iter().map(|name| format!("-l{name}"))).collect()
    }

    /// The arguments for the compiler. The library is added only if the compiler links.
    fn arguments(&self, words: &[OsString]) -> Vec<OsString> {
        let is_any_of = |word: &OsString, list: &[&str]| list.iter().any(|known| word == known);
        let links = !words.iter().any(|word| is_any_of(word, &WITHOUT_LINKING));
        let only_asks = words.iter().all(|word| is_any_of(word, &QUESTIONS));
        let mut all = words.to_vec();
        if !only_asks {
            all.splice(0..0, self.compile().into_iter().map(OsString::from));
            if links && self.links_mpi {
                all.extend(self.link().into_iter().map(OsString::from));
            }
        }
        all
    }

    /// The compiler's command line.
    fn command_line(&self, compiler: &[String], words: &[OsString]) -> String {
        let arguments = self.arguments(words);
        let compiler = compiler.iter().map(|word| quoted(OsStr::new(word)));
        let arguments = arguments.iter().map(|word| quoted(word));
        compiler.chain(arguments).collect::<Vec<_>>().join(" ")
    }

    /// The answer to a query; `rest` are the other words of the command.
    fn answer(&self, question: &str, compiler: &[String], rest: &[OsString]) -> String {
        let line = |parts: Vec<String>| {
            let words = compiler.iter().chain(&parts);
            words.map(|word| quoted(OsStr::new(word))).collect::<Vec<_>>().join(" ")
        };
        let words = |parts: Vec<String>| {
            parts.iter().map(|word| quoted(OsStr::new(word))).collect::<Vec<_>>().join(" ")
        };
        match question.trim_start_matches('-') {
            "showme:command" => words(compiler.to_vec()),
            "showme:compile" => words(self.compile()),
            "showme:link" => words(self.link()),
            "showme:incdirs" => self.includes().join(" "),
            "showme:libdirs" => self.libraries().0.join(" "),
            "showme:libs" => self.libraries().1.join(" "),
            "showme:version" | "show_version" | "info" => {
                format!("Combray {}", base::VERSION)
            }
            "showme:help" => own_help(),
            "cc_version" | "cxx_version" | "fc_version" => version_of(compiler),
            "compile_info" | "compile-info" => line(self.compile()),
            "show" | "showme" if !rest.is_empty() => self.command_line(compiler, rest),
            _ => line([self.compile(), self.link()].concat()),
        }
    }
}

/// The first line with which a compiler describes itself; the cause if it cannot be run.
fn version_of(compiler: &[String]) -> String {
    let Some((program, own)) = compiler.split_first() else { return String::new() };
    match Command::new(program).args(own).arg("--version").output() {
        Ok(answer) => {
            String::from_utf8_lossy(&answer.stdout).lines().next().unwrap_or_default().to_owned()
        }
        Err(cause) => format!("the compiler {program} cannot be run: {cause}"),
    }
}

/// Quotes a word for a shell.
fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./=,+:@%".contains(byte);
    if !word.is_empty() && word.as_bytes().iter().all(is_plain) {
        return word.to_string_lossy().into_owned();
    }
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> Flags {
        Flags::of(Path::new("/opt/combray"))
    }

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn arguments(text: &str) -> String {
        let all = flags().arguments(&words(text));
        all.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn answer(question: &str, rest: &str) -> String {
        assert!(is_question(OsStr::new(question)));
        flags().answer(question, &["cc".to_owned()], &words(rest))
    }

    #[test]
    fn links_only_where_something_is_linked() {
        let link = "-L/opt/combray/lib -Wl,-rpath,/opt/combray/lib -lmpi_abi";
        assert_eq!(arguments("a.c -o a"), format!("-I/opt/combray/include a.c -o a {link}"));
        assert_eq!(arguments("-c a.c"), "-I/opt/combray/include -c a.c");
        assert_eq!(arguments("-E a.c"), "-I/opt/combray/include -E a.c");
        assert_eq!(arguments("--version"), "--version");
        assert_eq!(arguments("-v"), "-v");
        assert_eq!(arguments(""), "");
    }

    #[test]
    fn answers_build_systems() {
        assert_eq!(answer("-showme:compile", ""), "-I/opt/combray/include");
        let link = "-L/opt/combray/lib -Wl,-rpath,/opt/combray/lib -lmpi_abi";
        assert_eq!(answer("--showme:link", ""), link);
        assert_eq!(answer("-show", ""), format!("cc -I/opt/combray/include {link}"));
        assert_eq!(answer("-link_info", ""), answer("-show", ""));
        assert_eq!(answer("-compile_info", ""), "cc -I/opt/combray/include");
        assert_eq!(answer("-show", "-c a.c"), "cc -I/opt/combray/include -c a.c");
        assert_eq!(answer("-showme:incdirs", ""), "/opt/combray/include");
        assert_eq!(answer("-showme:libdirs", ""), "/opt/combray/lib");
        assert_eq!(answer("-showme:libs", ""), "mpi_abi");
        assert_eq!(answer("-show_version", ""), answer("-showme:version", ""));
        assert!(answer("-showme:help", "").contains("-echo"));
        assert!(answer("-cc_version", "").contains("cc"));
        assert!(!is_question(OsStr::new("-O2")) && !is_question(OsStr::new("show.c")));
    }

    #[test]
    fn options_that_choose_among_variants_do_not_reach_the_compiler() {
        for word in ["-profile=vt", "-config=x", "-nolinkmpi", "-static_mpi", "-link_mpi=dbg"] {
            assert!(is_ignored(OsStr::new(word)), "{word}");
        }
        assert!(!is_ignored(OsStr::new("-profile")) && is_echo(OsStr::new("-echo")));
        let flags = Flags { links_mpi: false, ..flags() };
        let line = flags.command_line(&["cc".to_owned()], &words("a.c"));
        assert_eq!(line, "cc -I/opt/combray/include a.c");
    }

    #[test]
    fn fortran_has_a_folder_for_each_compiler() {
        let mut flags = Flags::of(Path::new("/opt/combray"));
        flags.fortran = Some(PathBuf::from("/opt/combray/lib/combray/fortran/gfortran-12"));
        let compiler = ["gfortran".to_owned()];
        let own = "/opt/combray/lib/combray/fortran/gfortran-12";
        assert_eq!(
            flags.answer("-show", &compiler, &[]),
            format!(
                "gfortran -I/opt/combray/include -I{own} -L{own} -Wl,-rpath,{own} \
                 -L/opt/combray/lib -Wl,-rpath,/opt/combray/lib -lcombray_fortran -lmpi_abi"
            )
        );
        assert_eq!(flags.answer("-showme:libs", &compiler, &[]), "combray_fortran mpi_abi");
        assert_eq!(
            flags.answer("-showme:incdirs", &[], &[]),
            format!("/opt/combray/include {own}")
        );
    }

    #[test]
    fn programs_tell_of_their_accesses_without_another_library() {
        let flags = Flags { tells_accesses: true, ..flags() };
        let folder = "/opt/combray/lib/combray/accesses";
        assert_eq!(
            flags.answer("-showme:compile", &[], &[]),
            format!("-I/opt/combray/include -fsanitize=thread -B{folder} -L{folder}")
        );
    }

    #[test]
    fn folders_with_blanks_are_quoted() {
        let flags = Flags::of(Path::new("/my programs"));
        assert_eq!(flags.answer("-showme:compile", &[], &[]), "'-I/my programs/include'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
    }

    #[test]
    fn standard_folders_are_not_named() {
        let flags = Flags::of(Path::new("/usr"));
        assert_eq!(flags.answer("-show", &["cc".to_owned()], &[]), "cc -lmpi_abi");
    }

    #[test]
    fn people_choose_the_compiler() {
        let set = |name: &str| (name == "OMPI_CC").then(|| "ccache gcc".to_owned());
        let choose = |text: &str| choose_compiler(Language::C, &words(text), set);
        assert_eq!(choose("a.c").0, ["ccache", "gcc"]);
        let (compiler, rest) = choose("-cc=clang a.c");
        assert_eq!((compiler.as_slice(), rest), (["clang".to_owned()].as_slice(), words("a.c")));
        assert_eq!(choose_compiler(Language::Cxx, &[], set).0, ["c++"]);
    }
}
