//! The options of Open MPI's and MPICH's launchers, with their effects here. The pages for users of
//! these launchers contain the tables.

use super::options::{self, Meaning};
use super::refused;

/// The options of Open MPI's `mpirun` (versions 4 and 5).
pub const OPEN_MPI: &[&str] = &[
    "-n",
    "-np",
    "-c",
    "-N",
    "--npernode",
    "--npersocket",
    "--pernode",
    "--host",
    "-H",
    "--hostfile",
    "--machinefile",
    "--default-hostfile",
    "--add-host",
    "--add-hostfile",
    "--nolocal",
    "--rankfile",
    "-rf",
    "--map-by",
    "--rank-by",
    "--bind-to",
    "--bynode",
    "--byslot",
    "--bycore",
    "--bysocket",
    "--bind-to-core",
    "--bind-to-socket",
    "--bind-to-none",
    "--ppr",
    "--cpus-per-proc",
    "--cpus-per-rank",
    "--cpu-set",
    "--cpu-list",
    "--use-hwthread-cpus",
    "--oversubscribe",
    "--nooversubscribe",
    "--report-bindings",
    "--display",
    "--display-map",
    "--display-devel-map",
    "--display-diffable-map",
    "--display-allocation",
    "--display-devel-allocation",
    "--display-topo",
    "--do-not-launch",
    "--do-not-resolve",
    "-x",
    "--set-env",
    "--unset-env",
    "--prepend-env",
    "--append-env",
    "--wdir",
    "--wd",
    "--path",
    "--preload-binary",
    "--preload-files",
    "--app",
    "--output",
    "--output-filename",
    "--tag-output",
    "--timestamp-output",
    "--merge-stderr-to-stdout",
    "--stream-buffering",
    "--xml",
    "--parsable",
    "--xterm",
    "--stdin",
    "--timeout",
    "--report-state-on-timeout",
    "--get-stack-traces",
    "--spawn-timeout",
    "--enable-recovery",
    "--continuous",
    "--with-ft",
    "--max-restarts",
    "--max-vm-size",
    "--disable-recovery",
    "--forward-signals",
    "--initial-errhandler",
    "--mca",
    "--gmca",
    "--omca",
    "--prtemca",
    "--gprtemca",
    "--pmixmca",
    "--gpmixmca",
    "--tune",
    "--runtime-options",
    "--am",
    "--prefix",
    "--noprefix",
    "--no-app-prefix",
    "--app-pmix-prefix",
    "--pmix-prefix",
    "--personality",
    "--tmpdir",
    "--set-cwd-to-session-dir",
    "--launch-agent",
    "--report-pid",
    "--report-uri",
    "--report-child-jobs-separately",
    "--index-argv-by-rank",
    "--dvm",
    "--dvm-uri",
    "--prte-server",
    "--system-server",
    "--ompi-server",
    "--pid",
    "--namespace",
    "--pset",
    "--singleton",
    "--keepalive",
    "--debug",
    "--tv",
    "--output-proctable",
    "--stop-on-exec",
    "--stop-in-init",
    "--stop-in-app",
    "--debug-daemons",
    "--daemonize",
    "--set-sid",
    "--no-ready-msg",
    "--show-progress",
    "--leave-session-attached",
    "--novm",
    "--hetero-nodes",
    "--gpu-support",
    "--memory-alloc-kinds",
    "--allow-run-as-root",
    "--verbose",
    "-v",
    "--quiet",
    "-q",
    "--version",
    "-V",
    "--help",
    "-h",
];

/// The options of Hydra, MPICH's `mpiexec`, and of Intel MPI's.
pub const MPICH: &[&str] = &[
    "-n",
    "-np",
    "-ppn",
    "-perhost",
    "-grr",
    "-hosts",
    "-host",
    "-f",
    "-machinefile",
    "-machine",
    "-rankmap",
    "-genv",
    "-genvlist",
    "-genvnone",
    "-genvexcl",
    "-genvall",
    "-env",
    "-envlist",
    "-envnone",
    "-envall",
    "-wdir",
    "-wd",
    "-configfile",
    "-launcher",
    "-launcher-exec",
    "-bootstrap",
    "-bootstrap-exec",
    "-bootstrap-exec-args",
    "-enable-x",
    "-disable-x",
    "-hybrid-hosts",
    "-nameserver",
    "-branch-count",
    "-rmk",
    "-bind-to",
    "-map-by",
    "-membind",
    "-topolib",
    "-prepend-rank",
    "-l",
    "-prepend-pattern",
    "-outfile-pattern",
    "-errfile-pattern",
    "-ordered-output",
    "-s",
    "-timeout",
    "-print-all-exitcodes",
    "-print-rank-map",
    "-disable-auto-cleanup",
    "-disable-hostname-propagation",
    "-iface",
    "-localhost",
    "-usize",
    "-nolocal",
    "-order-nodes",
    "-ranks-per-proc",
    "-skip-launch-node",
    "-gpus-per-proc",
    "-demux",
    "-pmi-port",
    "-pmi-args",
    "-initial-errhandler",
    "-profile",
    "-memory-alloc-kinds",
    "-trace",
    "-aps",
    "-check-mpi",
    "-gtool",
    "-gtoolfile",
    "-tune",
    "-prot",
    "-use-app-topology",
    "-hosts-group",
    "-umask",
    "-tmpdir",
    "-localroot",
    "-silent-abort",
    "-cleanup",
    "-gdb",
    "-dbg",
    "-tv",
    "-ckpointlib",
    "-ckpoint-interval",
    "-ckpoint-prefix",
    "-soft",
    "-arch",
    "-path",
    "-file",
    "-rr",
    "-verbose",
    "-info",
    "-version",
    "-help",
];

/// A Markdown table of options and their effects here.
pub fn table(names: &[&str]) -> String {
    let mut text = String::from("| option | here |\n|---|---|\n");
    for name in names {
        text += &format!("| `{name}` | {} |\n", effect(name).unwrap_or_default());
    }
    text
}

/// The effect of a spelling here; `None` if it is unknown.
fn effect(name: &str) -> Option<String> {
    if let Some(instead) = refused::instead_of(name) {
        return Some(format!("an error: {instead}"));
    }
    let option = options::find(name)?;
    let first = option.names[0];
    let (values, effect) = option.help.split_once("    ").unwrap_or(("", option.help));
    let words = match option.meaning {
        Meaning::Accepted if first == "--prefix" => {
            return Some(
                "accepted without effect: on other hosts the path of this launcher is used"
                    .to_owned(),
            );
        }
        Meaning::Accepted => {
            return Some("accepted without effect, because it is the default".to_owned());
        }
        Meaning::BindingAs(option, words) => {
            return Some(format!("`{} {words}`", option_name(option)));
        }
        Meaning::InTurn => "`--map-by node`",
        Meaning::CoresEach => "`--map-by slot:PE=N`",
        Meaning::EachPackage => "`--map-by ppr:N:package`",
        Meaning::OnePerMachine => "`-N 1`",
        Meaning::AllVariables => "all variables also go to other hosts",
        Meaning::VariableList => "`-x` for each of them",
        Meaning::Variable if option.help.is_empty() => "`-x NAME=VALUE`",
        Meaning::TagRank => "each line begins with the rank, as `[3] `",
        Meaning::ShowAllocation if option.help.is_empty() => "`--display-allocation`",
        Meaning::Verbose => {
            "`--display-allocation`, and the variables that are set for pools of threads"
        }
        Meaning::Launcher => {
            "`fork` (the default), `ssh`, `rsh`, `slurm` and `lsf`; others are errors that name `--launch-agent`"
        }
        Meaning::Interface => "`-x COMBRAY_NET=NAME` for all programs",
        Meaning::FaultTolerance => "`ulfm`: `--keep-going`; `none`: nothing",
        Meaning::StandardInput => "`0` is the default; others are errors that state what to do",
        Meaning::Parameter => {
            "`btl_tcp_if_include` and `btl_tcp_if_exclude` set `COMBRAY_NET`; `orte_default_hostfile`, `plm_ssh_agent`, \
             `orte_tag_output` and `rmaps_base_oversubscribe` hold; others are named as without effect"
        }
        _ if first == name => return Some(effect.trim().to_owned()),
        _ => return Some(format!("`{}`: {}", format!("{first} {values}").trim(), effect.trim())),
    };
    Some(words.to_owned())
}

fn option_name(option: launcher::binding::PolicyOption) -> &'static str {
    match option {
        launcher::binding::PolicyOption::MapBy => "--map-by",
        launcher::binding::PolicyOption::BindTo => "--bind-to",
        launcher::binding::PolicyOption::RankBy => "--rank-by",
        launcher::binding::PolicyOption::Needs => "--needs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: [(&str, &[&str]); 2] = [("from-open-mpi.md", OPEN_MPI), ("from-mpich.md", MPICH)];

    #[test]
    fn every_option_of_others_has_an_effect_or_a_remedy() {
        for name in OPEN_MPI.iter().chain(MPICH) {
            let effect = effect(name).unwrap_or_default();
            assert!(!effect.is_empty(), "nothing is said of {name}");
        }
    }

    #[test]
    fn no_spelling_is_both_known_and_refused() {
        for name in refused::REFUSED.iter().flat_map(|option| option.names) {
            assert!(options::find(name).is_none(), "{name}");
            assert!(!refused::instead_of(name).unwrap().ends_with('.'), "{name}");
        }
    }

    /// If the variable BLESS is set, the pages are rewritten instead.
    #[test]
    fn the_pages_have_these_tables() {
        for (name, names) in PAGES {
            let path = format!("{}/../../docs/user/{name}", env!("CARGO_MANIFEST_DIR"));
            let page = std::fs::read_to_string(&path).unwrap();
            let (before, rest) = page.split_once("<!-- options -->\n").unwrap();
            let (old, after) = rest.split_once("<!-- end of options -->").unwrap();
            let new = table(names);
            if std::env::var_os("BLESS").is_some() {
                let text = format!("{before}<!-- options -->\n{new}<!-- end of options -->{after}");
                std::fs::write(&path, text).unwrap();
            } else {
                assert_eq!(
                    old, new,
                    "write docs/user/{name} anew: BLESS=1 cargo test -p cli pages"
                );
            }
        }
    }
}
