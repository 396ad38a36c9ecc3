//! Man pages in troff.

use base::variables::{CONTROL_VARIABLES, TEXT_VARIABLES};
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::examples;
use crate::run::help::{EXIT_CODE, Section, USAGE};
use crate::wrapper::{Language, OWN_OPTIONS};

/// The man pages: path below `share`, and text.
pub fn all(command: &Command) -> Vec<(String, Vec<u8>)> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let guide = ("man/man7/combray.7".to_owned(), guide(&command).into_bytes());
    let mut pages = vec![page("combray", &overview(&command)), guide];
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    for one in shown {
        let name = format!("combray-{}", one.get_name());
        let text = match one.get_name() {
            "run" => launcher(&name),
            _ => subcommand(one, &name),
        };
        pages.push(page(&name, &text));
    }
    // Each name gets a complete page. `man` would follow a page that only refers to another, but
    // other tools that read the file would not.
    for name in ["mpirun", "mpiexec"] {
        pages.push(page(name, &launcher(name)));
    }
    for name in ["mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif90", "mpif77"] {
        pages.push(page(name, &wrapper(name)));
    }
    pages
}

fn page(name: &str, text: &str) -> (String, Vec<u8>) {
    (format!("man/man1/{name}.1"), text.into())
}

/// The head of a page about a command, with a one-line description.
fn head(name: &str, about: &str) -> Roff {
    head_in("1", name, about)
}

fn head_in(section: &str, name: &str, about: &str) -> Roff {
    let mut roff = Roff::new();
    let version = format!("Combray {}", env!("CARGO_PKG_VERSION"));
    // There is no date, so that equal sources give equal bytes; the quotes keep its position.
    roff.control("TH", [name, section, "\"\"", version.as_str(), "Combray"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {about}"))]);
    roff
}

/// An option or a variable, with its effect.
fn item(roff: &mut Roff, words: &str, value: &str, effect: &str) {
    roff.control("TP", []);
    let value = if value.is_empty() { Vec::new() } else { vec![roman(" "), italic(value)] };
    roff.text([vec![bold(words)], value].concat());
    roff.text([roman(effect)]);
}

/// Captures output as text.
fn rendered(render: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    render(&mut bytes).expect("memory can be written");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn overview(command: &Command) -> String {
    let mut roff = head("combray", "message passing for clusters of hierarchical machines");
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold("combray"), roman(" "), italic("SUBCOMMAND"), roman(" [OPTIONS]")]);
    roff.control("SH", ["SUBCOMMANDS"]);
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        item(&mut roff, &format!("combray-{}(1)", one.get_name()), "", &about);
    }
    roff.control("SH", ["VARIABLES"]);
    for variable in CONTROL_VARIABLES.iter().chain(TEXT_VARIABLES) {
        item(&mut roff, variable.name, &variable.values.join("|"), variable.help);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([
        bold("mpirun"),
        roman("(1), "),
        bold("mpicc"),
        roman("(1), "),
        bold("combray"),
        roman("(7)"),
    ]);
    roff.render()
}

/// The parts of the overview in section 7: titles, and command lines with their effects.
const GUIDE: &[(&str, &[(&str, &str)])] = &[
    (
        "FIRST STEPS",
        &[
            ("combray doctor", "reports whether the machine is fit for jobs, and what to change"),
            ("mpicc -O2 program.c -o program", "compiles; mpicxx for C++, mpifort for Fortran"),
            ("mpirun -n 4 ./program", "starts four processes on this machine"),
            ("mpirun --hosts a:4,b:4 ./program", "starts four on each of two hosts, by ssh"),
            ("mpirun ./program", "in a job of Slurm, PBS or LSF: uses all that was allocated"),
            ("mpirun -n 4 python program.py", "runs a program with mpi4py, as pip installs it"),
        ],
    ),
    (
        "PROGRAMS OF OTHER LIBRARIES",
        &[
            ("combray info ./program", "reports for which MPI library a program was built"),
            ("mpirun -n 4 ./program", "runs programs for MPICH, Intel MPI and Open MPI unchanged"),
            ("combray compare ./program", "runs it with another installed library, too, in turn"),
        ],
    ),
    (
        "WHEN SOMETHING IS WRONG",
        &[
            ("combray ps", "shows what the ranks of a running job wait for, and why it hangs"),
            ("mpirun --timeout 60 -n 4 ./program", "ends a job after a minute, with that report"),
            ("mpirun --check -n 4 ./program", "finds mistakes in the calls of MPI"),
            ("mpirun -n 1 xterm -e gdb ./program", "starts a process in a debugger"),
        ],
    ),
    (
        "WHEN IT IS SLOW",
        &[
            ("mpirun --profile -n 4 ./program", "reports where the time went, and what would help"),
            (
                "mpirun --trace run.pftrace -n 4 ./program",
                "records calls and messages for Perfetto",
            ),
            ("mpirun --report-bindings -n 4 ./program", "reports on which cores processes run"),
        ],
    ),
];

/// The overview in section 7: what there is, by tasks.
fn guide(command: &Command) -> String {
    let mut roff = head_in("7", "combray", "overview of the MPI library and launcher Combray");
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "Combray is an MPI library with the standard C interface of MPI 5.0 (libmpi_abi.so.1), and a launcher. \
         Programs in C, C++, Fortran, Python and Rust use it. Programs that were built for MPICH, Intel MPI or Open MPI run \
         on its libraries libmpi.so.12 and libmpi.so.40.",
    )]);
    for (title, items) in GUIDE {
        roff.control("SH", [*title]);
        for (line, effect) in *items {
            item(&mut roff, line, "", effect);
        }
    }
    roff.control("SH", ["COMMANDS"]);
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        let about = one.get_about().map(ToString::to_string).unwrap_or_default();
        item(&mut roff, &format!("combray-{}(1)", one.get_name()), "", &phrase(&about));
    }
    roff.control("SH", ["DOCUMENTATION"]);
    roff.text([
        roman("The folder "),
        italic("share/doc/combray"),
        roman(" of the installation has all pages for users, by tasks in "),
        italic("docs/user/README.md"),
        roman("; each function of MPI has a page in section 3, and "),
        bold("combray"),
        roman("(1) lists the variables of the environment."),
    ]);
    roff.control("SH", ["SEE ALSO"]);
    let pages = ["combray", "mpirun", "mpicc", "combray-doctor", "combray-ps"];
    for name in pages {
        roff.text([bold(name), roman("(1), ")]);
    }
    roff.text([bold("MPI_Init"), roman("(3)")]);
    roff.render()
}

/// The page of a subcommand that clap describes, with examples.
fn subcommand(command: &Command, name: &str) -> String {
    let about = phrase(&command.get_about().map(ToString::to_string).unwrap_or_default());
    let command = command.clone().display_name(name).after_help("");
    let command = command.bin_name(name.replacen('-', " ", 1));
    let man = Man::new(command.clone());
    let mut text = head(name, &about).render();
    text += &rendered(|into| man.render_synopsis_section(into));
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        text += &rendered(|into| man.render_options_section(into));
    }
    let mut end = Roff::new();
    shown_examples(&mut end, name.trim_start_matches("combray-"), name);
    end.control("SH", ["SEE ALSO"]);
    end.text([bold("combray"), roman("(1)")]);
    text + &end.to_roff()
}

/// The description of a subcommand as a list of pages shows it: without what follows a colon, and
/// without a capital at the beginning.
fn phrase(about: &str) -> String {
    let about = about.split(": ").next().unwrap_or_default();
    let mut letters = about.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// The examples of a subcommand, which is called by the name of the page.
fn shown_examples(roff: &mut Roff, subcommand: &str, page: &str) {
    roff.control("SH", ["EXAMPLES"]);
    let (own, called) = (format!("combray {subcommand}"), page.replacen('-', " ", 1));
    for (line, effect) in examples::of(subcommand) {
        item(roff, &line.replace(&own, &called), "", effect);
    }
}

/// The page of `combray run` under one of its names, from its own table of options.
fn launcher(name: &str) -> String {
    let about = "starts the processes of a program, on this machine or on several";
    let mut roff = head(name, about);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([roman(USAGE.replacen("combray run", &name.replace('-', " "), 1))]);
    roff.control("PP", []);
    roff.text([
        bold("mpirun"),
        roman(" and "),
        bold("mpiexec"),
        roman(
            " are other names of combray run. Spellings of options by the launchers of Open MPI and \
             MPICH are accepted, too.",
        ),
    ]);
    shown_examples(&mut roff, "run", name);
    roff.control("SH", ["OPTIONS"]);
    for section in Section::ALL {
        roff.control("SS", [section.title()]);
        for option in section.options() {
            item(&mut roff, &option.names.join(", "), option.values, option.effect);
        }
    }
    roff.control("SH", ["EXIT STATUS"]);
    roff.text([roman(EXIT_CODE)]);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("combray"), roman("(1), "), bold("combray-doctor"), roman("(1)")]);
    roff.render()
}

/// The page of a compiler wrapper.
fn wrapper(name: &str) -> String {
    let language = Language::of_wrapper(name).unwrap_or(Language::C);
    let about = format!("compiles and links programs in {} that use MPI", language.name());
    let mut roff = head(name, &about);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(name), roman(" [OPTIONS OF THE COMPILER] "), italic("FILES")]);
    roff.control("PP", []);
    roff.text([roman(
        "mpicc calls the C compiler with the options that MPI programs need; mpicxx (mpic++, mpiCC) the C++ compiler, \
         mpifort (mpif90, mpif77) the Fortran compiler. All other arguments are passed to the compiler.",
    )]);
    roff.control("SH", ["OPTIONS"]);
    for (words, effect) in OWN_OPTIONS {
        item(&mut roff, words, "", effect);
    }
    roff.control("SH", ["VARIABLES"]);
    let variables = language.variables();
    let default = language.default_compiler();
    item(
        &mut roff,
        &variables.join(", "),
        "",
        &format!("name the compiler (default: {default}); the first that is set is used"),
    );
    roff.control("SH", ["EXAMPLES"]);
    let source = ["hello.c", "hello.cpp", "hello.f90"][language as usize];
    item(&mut roff, &format!("{name} -O2 {source} -o hello"), "", "compiles and links");
    let other = format!("{}=COMPILER {name} -c {source}", variables[0]);
    item(&mut roff, &other, "", "calls another compiler");
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("combray"), roman("(1), "), bold("mpirun"), roman("(1)")]);
    roff.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::options;

    #[test]
    fn options_in_the_overview_exist() {
        let lines = GUIDE.iter().flat_map(|(_, items)| *items).map(|(line, _)| *line);
        let mut counted = 0;
        for line in lines.filter(|line| line.starts_with("mpirun")) {
            let words = line.split(' ').skip(1).take_while(|word| !word.starts_with("./"));
            for word in words.filter(|word| word.starts_with('-') && *word != "-e") {
                assert!(options::find(word).is_some(), "{word} in {line}");
                counted += 1;
            }
        }
        assert!(counted > 5, "{counted}");
        for line in GUIDE.iter().flat_map(|(_, items)| *items).map(|(line, _)| *line) {
            let mut words = line.split(' ');
            if words.next() == Some("combray") {
                let name = words.next().unwrap();
                assert!(crate::command_line().find_subcommand(name).is_some(), "{line}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = all(&crate::command_line());
        let text = |name: &str| {
            let page = pages.iter().find(|(path, _)| *path == format!("man/man1/{name}.1"));
            String::from_utf8(page.unwrap_or_else(|| panic!("{name}")).1.clone()).unwrap()
        };
        for one in crate::command_line().get_subcommands().filter(|one| !one.is_hide_set()) {
            let page = text(&format!("combray-{}", one.get_name()));
            assert!(page.contains("EXAMPLES") && page.contains(".TH combray"), "{page}");
            for argument in one.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let Some(name) = argument.get_long() else { continue };
                assert!(page.contains(&name.replace('-', "\\-")), "{name} in\n{page}");
            }
        }
        let run = text("combray-run");
        for section in Section::ALL {
            for option in section.options() {
                let name = option.names[0].replace('-', "\\-");
                assert!(run.contains(&name), "{name} in\n{run}");
            }
        }
        assert!(text("mpicc").contains("COMBRAY_CC") && text("mpif90").contains("COMBRAY_FC"));
        assert!(text("mpiexec").contains("mpiexec [OPTIONS] PROGRAM"), "{}", text("mpiexec"));
        // The fields are name, section, date, version, title.
        for (path, page) in &pages {
            let (name, section) = path.rsplit('/').next().unwrap().rsplit_once('.').unwrap();
            assert_eq!(*path, format!("man/man{section}/{name}.{section}"));
            let version = env!("CARGO_PKG_VERSION");
            let head = format!(".TH {name} {section} \"\" \"Combray {version}\" Combray\n");
            assert!(String::from_utf8_lossy(page).contains(&head), "{path}");
        }
    }
}
