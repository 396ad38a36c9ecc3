//! The tables of what Open MPI's and MPICH's options do here, held against the command: each option
//! is run.

use std::fs;

use super::common::{combray, run};

const PAGES: [&str; 2] = [
    include_str!("../../../../docs/user/from-open-mpi.md"),
    include_str!("../../../../docs/user/from-mpich.md"),
];

/// Options that take words, with such as can be tried on any machine; `FILE` is a list of hosts,
/// `RANKS` a rankfile and `FOLDER` an empty folder.
const VALUES: &[(&[&str], &[&str])] = &[
    (&["-n", "-np", "-c", "-N", "--npernode", "-ppn", "-perhost", "-grr"], &["1"]),
    (&["--host", "-H", "-hosts", "-host"], &["localhost"]),
    (&["--hostfile", "--machinefile", "--default-hostfile"], &["FILE"]),
    (&["-f", "-machinefile", "-machine"], &["FILE"]),
    (&["--rankfile", "-rf"], &["RANKS"]),
    (&["--map-by", "--rank-by", "-map-by"], &["slot"]),
    (&["--bind-to", "-bind-to"], &["none"]),
    (&["--cpus-per-proc", "--cpus-per-rank", "--npersocket"], &["1"]),
    (&["--display"], &["map"]),
    (&["-x", "-envlist", "-genvlist"], &["PATH"]),
    (&["-genv", "-env"], &["NAME", "value"]),
    (&["--wdir", "--wd", "-wdir", "-wd"], &["/"]),
    (&["--output"], &["tag"]),
    (&["--output-filename"], &["FOLDER"]),
    (&["-outfile-pattern", "-errfile-pattern"], &["FOLDER/%r"]),
    (&["--stdin", "-s"], &["0"]),
    (&["--timeout", "-timeout"], &["60"]),
    (&["--with-ft"], &["ulfm"]),
    (&["--initial-errhandler", "-initial-errhandler"], &["mpi_errors_return"]),
    (&["--mca", "--gmca", "--omca", "--prtemca", "--gprtemca"], &["btl_tcp_if_include", "lo"]),
    (&["--pmixmca", "--gpmixmca"], &["btl_tcp_if_include", "lo"]),
    (&["--launch-agent", "-launcher-exec", "-bootstrap-exec"], &["ssh"]),
    (&["-launcher", "-bootstrap"], &["ssh"]),
    (&["-rmk"], &["user"]),
    (&["-iface"], &["lo"]),
];

/// What options let a job of one process print, where that is not `here` alone.
const EFFECTS: &[(&[&str], &str)] = &[
    (&["--wdir", "--wd", "-wdir", "-wd"], "here /\n"),
    (&["-genv", "-env"], " value"),
    (&["--tag-output", "--output"], "[0]<stdout>: "),
    (&["-l", "-prepend-rank"], "[0] "),
    (&["--timestamp-output"], "Z "),
    (&["--report-bindings", "--display-map", "--display-devel-map", "--display"], "rank 0"),
    (&["--display-diffable-map", "-print-rank-map"], "rank 0"),
    (&["--display-allocation", "--display-devel-allocation", "--verbose"], "no allocation"),
    (&["-v", "-verbose"], "no allocation"),
    (&["--version", "-V", "-version"], env!("CARGO_PKG_VERSION")),
    (&["--help", "-h", "-help"], "how many processes on each host"),
];

/// The row of an option in one of the lists above.
fn of<T>(list: &'static [(&[&str], T)], option: &str) -> Option<&'static T> {
    list.iter().find(|(names, _)| names.contains(&option)).map(|(_, what)| what)
}

/// Rows of the table of options in a page.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let table = page.split("<!-- options -->").nth(1).unwrap();
    let table = table.split("<!-- end of options -->").next().unwrap();
    table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "))
        .collect()
}

#[test]
fn options_of_other_launchers_do_what_the_tables_say() {
    let folder = std::env::temp_dir().join(format!("combray-others-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let place = folder.to_str().unwrap();
    fs::write(folder.join("hosts"), "localhost slots=2\n").unwrap();
    fs::write(folder.join("ranks"), "rank 0=localhost\n").unwrap();
    let real = |word: &&str| {
        let word = word.replace("FOLDER", place);
        word.replace("FILE", &format!("{place}/hosts")).replace("RANKS", &format!("{place}/ranks"))
    };
    let mut faults = Vec::new();
    for (option, effect) in PAGES.iter().flat_map(|page| rows(page)) {
        let values = of(VALUES, option).copied().unwrap_or_default().iter().map(real);
        let mut words = vec![option.to_owned()];
        words.extend(values);
        if !["-n", "-np", "-c"].contains(&option) && !option.starts_with("-N") {
            words.extend(["-n", "1"].map(String::from));
        }
        words.extend(["sh", "-c", "echo here $PWD $NAME"].map(String::from));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, out, err) = run(&words);
        let is_right = match effect.strip_prefix("an error: ") {
            Some(instead) => code == Some(2) && err.contains(instead) && out.is_empty(),
            None => {
                let told = of(EFFECTS, option).copied().unwrap_or("here");
                let is_quiet = !err.contains("without effect");
                code == Some(0) && is_quiet && (out.contains(told) || err.contains(told))
            }
        };
        if !is_right && !is_in_file(option, &folder) {
            faults.push(format!("{words:?} is said to be \"{effect}\": {code:?} {out}{err}"));
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether the output went where `-outfile-pattern` says.
fn is_in_file(option: &str, folder: &std::path::Path) -> bool {
    let text = fs::read_to_string(folder.join("0"));
    option == "-outfile-pattern" && text.is_ok_and(|text| text.starts_with("here"))
}

/// The options that `--help` lists are those of the tables or our own.
#[test]
fn the_tables_have_every_option_of_the_help_that_others_have() {
    let out = combray(&["--help"]).output().unwrap();
    let help = String::from_utf8(out.stdout).unwrap();
    for (option, effect) in PAGES.iter().flat_map(|page| rows(page)) {
        // What a table calls by another spelling is in the help under that one.
        let named = effect.strip_prefix('`').and_then(|rest| rest.split(['`', ' ']).next());
        let is_told = effect.starts_with("an error: ") || effect.starts_with("accepted");
        if let Some(name) = named.filter(|name| name.starts_with('-') && !is_told) {
            assert!(help.contains(name), "{option}: the help does not tell {name}");
        }
    }
}
