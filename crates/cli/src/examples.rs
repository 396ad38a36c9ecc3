//! Examples of each subcommand, for `--help` and the man pages.

/// By subcommand: command lines with their descriptions.
pub const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "run",
        &[
            ("combray run -n 4 ./program", "four processes here"),
            ("combray run --hosts a:2,b:2 ./program", "two on each of two hosts"),
            ("combray run ./program", "all cores here, or all that a batch system allocated"),
            (
                "combray run -n 4 --tag-output --timeout 60 ./program",
                "with ranks, a minute at most",
            ),
            (
                "combray run -n 8 --bind-to core --report-bindings ./program",
                "one core each, and a report of it",
            ),
            ("combray run -n 1 ./master : -n 3 ./worker", "two programs in one job"),
        ],
    ),
    (
        "info",
        &[
            ("combray info", "version, folders, variables"),
            (
                "combray info --collectives --processes 64 --nodes 4",
                "which algorithm from which size on",
            ),
            ("combray info --copying", "how messages inside this machine are copied"),
        ],
    ),
    (
        "doctor",
        &[
            ("combray doctor", "this machine"),
            ("combray doctor --hosts a,b", "two hosts, and the network between them"),
        ],
    ),
    (
        "compare",
        &[
            ("combray compare -n 4 ./program 64", "beside the first other library in PATH"),
            ("combray compare --with ~/mpich ./program", "beside the one in this folder"),
        ],
    ),
    (
        "fortran",
        &[(
            "combray fortran --compiler flang-new",
            "interfaces for another compiler than gfortran",
        )],
    ),
    (
        "openmp",
        &[
            ("combray openmp ./program", "without MPI"),
            ("combray run --openmp -n 2 ./program", "with MPI, or several processes"),
        ],
    ),
    (
        "trace",
        &[
            ("combray run --trace run.pftrace ./program", "writes the trace that is read here"),
            ("combray trace run.pftrace", "the most expensive waits, and the critical path"),
        ],
    ),
    (
        "history",
        &[
            ("combray run --profile ./program", "adds a run, and compares it with earlier ones"),
            ("combray history", "all programs whose durations are kept"),
            ("combray history program", "how long its phases and calls took"),
            ("combray history --forget program", "removes its runs"),
        ],
    ),
    (
        "ps",
        &[
            ("combray ps", "the jobs on this machine; if there is only one, why it hangs"),
            ("combray ps 13235", "the ranks of the job of this launcher"),
        ],
    ),
    (
        "names",
        &[
            ("combray names", "all services, with the processes that have published them"),
            ("combray names --remove ocean", "one of them, whose process runs on another machine"),
            ("combray names --remove-ended", "those that ended processes have left"),
        ],
    ),
    (
        "resize",
        &[
            ("combray resize +2", "two processes more, in free slots of the job"),
            ("combray resize 8 --hosts c,d:2", "eight processes, new ones on these hosts"),
            ("combray resize -1 13235", "one process fewer in the job of this launcher"),
        ],
    ),
    (
        "sample",
        &[
            ("combray sample", "shared memory of this machine"),
            ("combray sample --hosts a,b", "the networks between two hosts"),
            (
                "combray sample --memory",
                "what accesses to memory cost, by the state of their lines",
            ),
        ],
    ),
    (
        "place",
        &[
            (
                "combray run -n 16 --record bytes.txt ./program",
                "records how many bytes each rank sends to each other rank",
            ),
            (
                "combray place --matrix bytes.txt --rankfile ranks.txt",
                "works out a better placement",
            ),
            ("combray run --rankfile ranks.txt ./program", "uses it"),
        ],
    ),
    (
        "topo",
        &[
            ("combray topo", "this machine as a text"),
            ("combray topo --output machine.svg", "as a picture"),
            ("combray topo --hosts a,b", "the machines of two hosts"),
        ],
    ),
    (
        "bench",
        &[
            ("combray bench pingpong", "one message there and back, between two processes"),
            ("combray bench -n 4 --sizes 8,1M allreduce", "one collective operation of four"),
            ("combray bench --hosts a,b pingpong", "between two hosts"),
            ("combray bench --help", "all benchmarks and options"),
        ],
    ),
];

/// The examples of a subcommand.
pub fn of(subcommand: &str) -> &'static [(&'static str, &'static str)] {
    EXAMPLES.iter().find(|(name, _)| *name == subcommand).map_or(&[], |(_, examples)| examples)
}

/// The examples formatted for `--help`; empty if there are none.
pub fn text(subcommand: &str) -> String {
    let examples = of(subcommand);
    let width = examples.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let lines = examples.iter().map(|(command, effect)| format!("\n  {command:<width$}  {effect}"));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("Examples{lines}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_understood() {
        for (command, _) in EXAMPLES.iter().flat_map(|(_, examples)| *examples) {
            let words: Vec<_> = command.split_whitespace().collect();
            crate::command_line().try_get_matches_from(&words).unwrap();
            if words[1] == "run" {
                let own: Vec<_> = words[2..].iter().map(Into::into).collect();
                let missing = "ranks.txt, which cannot be read";
                crate::run::check(&own)
                    .or_else(|text| text.contains(missing).then_some(()).ok_or(text))
                    .unwrap();
            }
        }
    }

    #[test]
    fn every_subcommand_has_examples() {
        for one in crate::command_line().get_subcommands().filter(|one| !one.is_hide_set()) {
            assert!(!of(one.get_name()).is_empty(), "{}", one.get_name());
        }
    }
}
