//! Checks the tables of Open MPI's and MPICH's options against the command: each option is run.

use std::fs;
use std::process::Command;

use super::common::{combray, outcome_of, run};

/// A script that stands in for ssh.
const RSH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rsh");

const PAGES: [&str; 2] = [
    include_str!("../../../../docs/user/from-open-mpi.md"),
    include_str!("../../../../docs/user/from-mpich.md"),
];

/// Options with values that work on any machine. `COUNT` is the number of processes, `HOSTS` a list
/// of hosts, `FILE` a file of hosts, `RANKS` a rankfile and `FOLDER` an empty folder.
const VALUES: &[(&[&str], &[&str])] = &[
    (&["-n", "-np", "-c"], &["COUNT"]),
    (&["-N", "--npernode", "-ppn", "-perhost", "-grr"], &["1"]),
    (&["--hosts", "--host", "-H", "-hosts", "-host"], &["HOSTS"]),
    (&["--hostfile", "--machinefile", "--default-hostfile"], &["FILE"]),
    (&["-f", "-machinefile", "-machine"], &["FILE"]),
    (&["--rankfile", "-rf"], &["RANKS"]),
    (&["--map-by", "--rank-by", "-map-by"], &["slot"]),
    (&["--bind-to", "-bind-to"], &["none"]),
    (&["--prefix"], &["FOLDER"]),
    (&["--cpus-per-proc", "--cpus-per-rank", "--npersocket"], &["1"]),
    (&["--display"], &["map"]),
    (&["-x", "-envlist", "-genvlist"], &["PATH"]),
    (&["-genv", "-env"], &["NAME", "value"]),
    (&["--wdir", "--wd", "-wdir", "-wd"], &["/"]),
    (&["--needs"], &["0: memory"]),
    (&["--record"], &["FOLDER/record"]),
    (&["--trace"], &["FOLDER/trace"]),
    (&["--trace-last"], &["30"]),
    (&["--record-order", "--replay-order"], &["FOLDER/order"]),
    (&["--stall"], &["60"]),
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

/// The output of a job of one process with these options, where it is not just `here`.
const EFFECTS: &[(&[&str], &str)] = &[
    (&["--wdir", "--wd", "-wdir", "-wd"], "here /\n"),
    (&["-genv", "-env"], " value"),
    (&["--tag-output", "--output"], "[0]<stdout>: "),
    (&["-l", "-prepend-rank"], "[0] "),
    (&["--timestamp-output"], "Z "),
    (&["--report-bindings", "--display-map", "--display-devel-map", "--display"], "rank 0"),
    (&["--display-map-devel"], "rank 0"),
    (&["--display-diffable-map", "-print-rank-map"], "rank 0"),
    (&["--display-allocation", "--display-devel-allocation", "--verbose"], "no allocation"),
    (&["-v", "-verbose"], "no allocation"),
    (&["--version", "-V", "-version"], env!("CARGO_PKG_VERSION")),
    (&["--help", "-h", "-help"], "how many processes on each host"),
];

/// The row of an option in one of these lists.
fn of<T>(list: &'static [(&[&str], T)], option: &str) -> Option<&'static T> {
    list.iter().find(|(names, _)| names.contains(&option)).map(|(_, what)| what)
}

/// The rows of the table of options on a page.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let table = page.split("<!-- options -->").nth(1).unwrap();
    let table = table.split("<!-- end of options -->").next().unwrap();
    table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | "))
        .collect()
}

/// A folder with the files that the values of options name, for jobs with one process on each host.
struct Files {
    folder: tempfile::TempDir,
    hosts: &'static [&'static str],
}

impl Files {
    fn new(hosts: &'static [&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lines: String = hosts.iter().map(|host| format!("{host} slots=1\n")).collect();
        fs::write(folder.path().join("hosts"), lines).unwrap();
        let places = (0..).zip(hosts).map(|(rank, host)| format!("rank {rank}={host}\n"));
        fs::write(folder.path().join("ranks"), places.collect::<String>()).unwrap();
        Self { folder, hosts }
    }

    /// The option with its values.
    fn words_of(&self, option: &str) -> Vec<String> {
        let place = self.folder.path().to_str().unwrap();
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{host}:1")).collect();
        let real = |word: &&str| {
            let word = word.replace("FOLDER", place).replace("HOSTS", &hosts.join(","));
            let word = word.replace("FILE", &format!("{place}/hosts"));
            let word = word.replace("COUNT", &self.hosts.len().to_string());
            word.replace("RANKS", &format!("{place}/ranks"))
        };
        let values = of(VALUES, option).copied().unwrap_or_default().iter().map(real);
        std::iter::once(option.to_owned()).chain(values).collect()
    }

    /// The output of a rank in the file that `-outfile-pattern` names.
    fn output_of(&self, option: &str, rank: &str) -> Option<String> {
        let text = fs::read_to_string(self.folder.path().join(rank)).ok();
        text.filter(|_| option == "-outfile-pattern")
    }
}

#[test]
fn options_of_other_launchers_do_what_the_tables_say() {
    let files = Files::new(&["localhost"]);
    let mut faults = Vec::new();
    for (option, effect) in PAGES.iter().flat_map(|page| rows(page)) {
        let mut words = files.words_of(option);
        if !["-n", "-np", "-c"].contains(&option) && !option.starts_with("-N") {
            words.extend(["-n", "1"].map(String::from));
        }
        words.extend(["sh", "-c", "echo here $PWD $NAME"].map(String::from));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (code, out, err) = run(&words);
        let is_right = match effect.strip_prefix("an error: ") {
            Some(instead) => code == Some(2) && err.contains(instead) && out.is_empty(),
            None => {
                let reported = of(EFFECTS, option).copied().unwrap_or("here");
                let is_quiet = !err.contains("without effect");
                code == Some(0) && is_quiet && (out.contains(reported) || err.contains(reported))
            }
        };
        let is_in_file = || files.output_of(option, "0").is_some_and(|t| t.starts_with("here"));
        if !is_right && !is_in_file() {
            faults.push(format!("{words:?} is said to be \"{effect}\": {code:?} {out}{err}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn messages_and_help_have_the_name_that_was_typed() {
    for name in ["mpirun", "mpiexec"] {
        let called = |words: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
            outcome_of(command.arg(name).args(words).output().unwrap())
        };
        let (code, _, err) = called(&["--tune", "x", "true"]);
        assert_eq!(code, Some(2));
        assert!(err.starts_with(&format!("combray: {name} has no --tune: ")), "{err}");
        let (_, _, err) = called(&["--rankfile", "/nowhere/combray run/ranks", "true"]);
        assert!(err.contains("/nowhere/combray run/ranks"), "{err}");
        let (_, help, _) = called(&["--help"]);
        assert!(help.contains(&format!("  {name} -n 4 ./program  ")), "{help}");
        assert!(!help.contains("combray run"), "{help}");
    }
}

#[test]
fn the_line_about_hosts_names_their_source() {
    let files = Files::new(&["localhost"]);
    for words in [&["--hosts", "localhost:1"][..], &["--hostfile", &files.words_of("-f")[1]]] {
        let (code, _, err) = run(&[words, &["--display-allocation", "true"]].concat());
        assert_eq!(code, Some(0), "{err}");
        assert!(err.starts_with("combray: hosts given: localhost:1 ("), "{err}");
    }
    let (_, _, err) = run(&["-n", "1", "-x", "NO_SUCH", "true"]);
    let expected = "combray: without effect here: -x NO_SUCH (there is no such variable here)\n";
    assert_eq!(err, expected);
}

#[test]
fn a_host_outside_of_the_allocation_is_named() {
    let files = Files::new(&["node1", "node2"]);
    let nodes = files.folder.path().join("nodes");
    fs::write(&nodes, "node1\nnode2\n").unwrap();
    let hostfile = files.folder.path().join("others");
    fs::write(&hostfile, "node1.example.org\nnode9\n").unwrap();
    let hostfile = ["--hostfile", hostfile.to_str().unwrap(), "true"];
    let pbs = ("PBS_NODEFILE", nodes.to_str().unwrap(), "PBS job");
    let lsf = ("LSB_HOSTS", "node1 node2", "LSF job");
    let slurm = ("SLURM_JOB_NODELIST", "node[1-2]", "Slurm job");
    for (name, value, system) in [pbs, lsf, slurm] {
        for words in [&["--hosts", "node1,node9", "true"], &hostfile] {
            let (code, _, err) = outcome_of(combray(words).env(name, value).output().unwrap());
            let expected = format!("node9 is none of the hosts of {system}");
            assert!(code == Some(2) && err.contains(&expected), "{words:?}: {code:?}\n{err}");
            assert!(err.contains(": node1, node2;"), "{err}");
            // Also if only a variable of another launcher names the way.
            for agent in ["COMBRAY_LAUNCH_AGENT", "HYDRA_LAUNCHER_EXEC", "OMPI_MCA_plm_rsh_agent"] {
                let mut command = combray(words);
                let output = command.env(name, value).env(agent, "/nowhere/agent").output();
                let (_, _, err) = outcome_of(output.unwrap());
                assert!(err.contains("/nowhere/agent") && !err.contains(&expected), "{err}");
            }
        }
        for own in ["localhost", "127.0.0.1", &format!("{}.example.org", name_of_this_machine())] {
            let mut command = combray(&["-n", "1", "--hosts", own, "true"]);
            let (code, _, err) = outcome_of(command.env(name, value).output().unwrap());
            assert_eq!(code, Some(0), "{own}: {err}");
        }
    }
}

/// The name of this machine.
fn name_of_this_machine() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// Options that start nothing or print something else, and options for how hosts are reached.
const NOT_BETWEEN_HOSTS: &[&str] = &[
    "--help",
    "-h",
    "-help",
    "--version",
    "-V",
    "-version",
    "--dry-run",
    "--topology",
    "--launch-agent",
    "-launcher-exec",
    "-bootstrap-exec",
    "-launcher",
    "-bootstrap",
];

/// The options of the help, and the options of the tables that are no error.
fn all_options(help: &str) -> Vec<String> {
    let of_help = help.lines().filter_map(|line| line.strip_prefix("  -"));
    let of_help = of_help.map(|line| {
        let name = line.split([' ', ',']).next().unwrap_or_default();
        format!("-{name}")
    });
    let of_tables = PAGES.iter().flat_map(|page| rows(page));
    let of_tables = of_tables.filter(|(_, effect)| !effect.starts_with("an error: "));
    let mut all: Vec<String> = of_help.chain(of_tables.map(|row| row.0.to_owned())).collect();
    all.sort_unstable();
    all.dedup();
    all.retain(|name| !NOT_BETWEEN_HOSTS.contains(&name.as_str()));
    all
}

/// Runs each option of the launcher in a job whose two ranks have a host each.
#[test]
fn options_work_between_hosts() {
    let help = String::from_utf8(combray(&["--help"]).output().unwrap().stdout).unwrap();
    let mut faults = Vec::new();
    for option in all_options(&help) {
        let files = Files::new(&["a", "b"]);
        let values = of(VALUES, &option).copied().unwrap_or_default();
        let names_hosts = values.iter().any(|value| ["HOSTS", "FILE", "RANKS"].contains(value));
        let hosts: &[&str] = if names_hosts { &[] } else { &["--hosts", "a:1,b:1"] };
        let mut command = combray(&["--launch-agent", RSH]);
        command.args(hosts).args(files.words_of(&option));
        command.args(["sh", "-c", "echo here $HOST $NAME; echo error $HOST >&2"]);
        let (code, out, err) = outcome_of(command.output().unwrap());
        let effect = of(EFFECTS, &option).copied().filter(|reported| !reported.contains('/'));
        let effect = effect.filter(|reported| *reported != "no allocation").unwrap_or("here");
        let output = |rank| files.output_of(&option, rank).unwrap_or_default();
        let text = [out, err, output("0"), output("1")].concat();
        let is_right = ["here a", "here b", effect].iter().all(|part| text.contains(part));
        if code != Some(0) || !is_right {
            faults.push(format!("{option}: {code:?} {text}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each option of the tables that has an equivalent is in the help.
#[test]
fn the_tables_have_every_option_of_the_help_that_others_have() {
    let out = combray(&["--help"]).output().unwrap();
    let help = String::from_utf8(out.stdout).unwrap();
    for (option, effect) in PAGES.iter().flat_map(|page| rows(page)) {
        // If the table refers to another spelling, the help must contain that spelling.
        let named = effect.strip_prefix('`').and_then(|rest| rest.split(['`', ' ']).next());
        let is_reported = effect.starts_with("an error: ") || effect.starts_with("accepted");
        if let Some(name) = named.filter(|name| name.starts_with('-') && !is_reported) {
            assert!(help.contains(name), "{option}: the help does not tell {name}");
        }
    }
}
