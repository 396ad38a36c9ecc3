//! Jobs on several hosts, which a script in place of ssh emulates on this machine.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::terminal::Terminal;
use common::{
    combray, eventually, expect_end_without_reader, expect_flood_to_stop_nothing,
    expect_many_lines, expect_second_interrupt_to_kill, expect_signals_to_reach_all, is_running,
    many_lines, mark, outcome_of, run, signal, sorted, trapping,
};

const RSH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rsh");

/// A job on these hosts.
fn on(hosts: &str, words: &[&str]) -> Command {
    let mut command = combray(&["--hosts", hosts, "--launch-agent", RSH, "--timeout", "60"]);
    command.args(words);
    command
}

fn run_on(hosts: &str, words: &[&str]) -> (Option<i32>, String, String) {
    outcome_of(on(hosts, words).output().unwrap())
}

#[test]
fn ranks_know_their_place() {
    let script = "echo $HOST $COMBRAY_RANK/$PMI_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/$MPI_LOCALNRANKS";
    let (code, out, err) = run_on("a:2,b:3", &["sh", "-c", script]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["a 0/5 0/2", "a 1/5 1/2", "b 2/5 0/3", "b 3/5 1/3", "b 4/5 2/3"]);
    let here = "localhost:1,b:1,127.0.0.1:1";
    let (code, out, err) = run_on(here, &["sh", "-c", "echo ${HOST-here} $COMBRAY_LOCAL_RANK"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["b 0", "here 0", "here 1"]);
}

#[test]
fn too_few_slots_are_reported() {
    let (code, _, err) = run_on("a:2,b:1", &["-n", "4", "true"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("slots for 3") && err.contains("--oversubscribe"), "{err}");
    let words = ["-n", "4", "--oversubscribe", "sh", "-c", "echo $HOST"];
    assert_eq!(sorted(&run_on("a:2,b:1", &words).1), ["a", "a", "a", "b"]);
}

#[test]
fn processes_get_the_network_between_their_hosts() {
    let private = tempfile::tempdir().unwrap();
    let file = private.path().join("network");
    let run = |network: &str, hosts: &str| {
        std::fs::write(&file, network).unwrap();
        let mut command = on(hosts, &["sh", "-c", "echo $COMBRAY_NETWORK_OF_JOB"]);
        outcome_of(command.env("COMBRAY_NETWORK", &file).output().unwrap())
    };
    let (code, out, err) = run("torus 4x2: n[0-7]", "n6,n2,n3");
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (Some(0), &*"grid 4p1x2p1 6,2-3\n".repeat(3), "")
    );
    let tree = "switch s: a b\nswitch t: c\nlink u cost=3: s t";
    assert_eq!(run(tree, "c,a").1, "switches 1:1,0:1 0,6,6,0\n".repeat(2));
    let (code, _, err) = run("torus 4: n[0-3]", "n1,other");
    assert!(
        code == Some(2) && err.contains("does not contain all hosts of the job: other"),
        "{err}"
    );
    let (code, _, err) = run("switch s: a b", "a");
    assert!(code == Some(2) && err.contains("describes no network"), "{err}");
}

/// Runs in an allocation with these variables, whose hosts are reached by the script in place of
/// ssh.
fn in_allocation(variables: &[(&str, &str)], words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = combray(&["--launch-agent", RSH, "--timeout", "60"]);
    command.args(words).envs(variables.iter().copied());
    outcome_of(command.output().unwrap())
}

#[test]
fn all_that_a_batch_system_gave_is_used() {
    let private = tempfile::tempdir().unwrap();
    let nodes = private.path().join("nodefile");
    std::fs::write(&nodes, "a\na\nb\n").unwrap();
    let where_am_i = ["sh", "-c", "echo $PMI_RANK $HOST"];
    let expected = ["0 a", "1 a", "2 b"];
    let slurm = [("SLURM_JOB_NODELIST", "a,b"), ("SLURM_TASKS_PER_NODE", "2,1")];
    let (pbs, lsf) = ([("PBS_NODEFILE", nodes.to_str().unwrap())], [("LSB_MCPU_HOSTS", "a 2 b 1")]);
    for variables in [&slurm[..], &pbs, &lsf] {
        let (code, out, err) = in_allocation(variables, &where_am_i);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{variables:?}");
        assert_eq!(sorted(&out), expected, "{variables:?}");
        let words = [&["--hosts", "localhost:1"], &where_am_i[..]].concat();
        assert_eq!(in_allocation(variables, &words).1, "0\n");
    }
    std::fs::remove_file(nodes).unwrap();
    let reported = in_allocation(&lsf, &["--display-allocation", "true"]).2;
    assert!(reported.contains("LSF job: a:2,b:1 (other hosts are reached by"), "{reported}");
}

/// The variables that Kubernetes' MPI operator sets, in the dialects of all launchers.
#[test]
fn host_files_of_other_launchers_are_used() {
    let private = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = private.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let (slots, numbers) = (path("slots", "a slots=2\nb slots=1\n"), path("numbers", "a:2\nb:1\n"));
    let bare = path("bare", "a\nb\n");
    let ask = ["--timeout", "60", "sh", "-c", "echo $PMI_RANK $HOST"];
    let both = ["0 a", "1 a", "2 b"];
    for (variables, expected) in [
        (&[("OMPI_MCA_orte_default_hostfile", &*slots), ("OMPI_MCA_plm_rsh_agent", RSH)][..], both),
        (&[("PRTE_MCA_prte_default_hostfile", &*slots), ("PRTE_MCA_plm_ssh_agent", RSH)], both),
        (&[("PRTE_MCA_default_hostfile", &*slots), ("PRTE_MCA_plm_ssh_agent", RSH)], both),
        (&[("I_MPI_HYDRA_HOST_FILE", &*numbers), ("I_MPI_HYDRA_BOOTSTRAP_EXEC", RSH)], both),
        (&[("HYDRA_HOST_FILE", &*numbers), ("HYDRA_LAUNCHER_EXEC", RSH)], both),
    ] {
        let mut command = combray(&ask);
        let (code, out, err) =
            outcome_of(command.envs(variables.iter().copied()).output().unwrap());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{variables:?}");
        assert_eq!(sorted(&out), expected, "{variables:?}");
        // Options go before variables.
        let mut command = combray(&[&["--hosts", "localhost:1"], &ask[..]].concat());
        let (code, out, err) =
            outcome_of(command.envs(variables.iter().copied()).output().unwrap());
        assert_eq!((code, out.trim(), err.as_str()), (Some(0), "0", ""), "{variables:?}");
    }
    for (file, agent, arguments) in [
        ("OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_plm_rsh_args"),
        ("PRTE_MCA_default_hostfile", "PRTE_MCA_plm_ssh_agent", "PRTE_MCA_plm_ssh_args"),
        (
            "I_MPI_HYDRA_HOST_FILE",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
        ),
        ("HYDRA_HOST_FILE", "HYDRA_LAUNCHER_EXEC", "HYDRA_LAUNCH_EXTRA_ARGS"),
    ] {
        // The arguments are before the host: "env OF=x rsh HOST WORD...".
        let arguments = (arguments, format!("OF=x {RSH}"));
        let variables = [(file, slots.clone()), (agent, "env".to_owned()), arguments];
        let (code, out, err) = outcome_of(combray(&ask).envs(variables).output().unwrap());
        assert_eq!((code, err.as_str(), sorted(&out)), (Some(0), "", both.to_vec()), "{agent}");
    }
    for (file, each) in [
        ("OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_set_default_slots"),
        ("I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST"),
    ] {
        let variables = [(file, &*bare), (each, "1"), ("COMBRAY_LAUNCH_AGENT", RSH)];
        let mut command = combray(&[&["-n", "2"], &ask[..]].concat());
        let (code, out, err) = outcome_of(command.envs(variables).output().unwrap());
        assert_eq!((code, err.as_str(), sorted(&out)), (Some(0), "", vec!["0 a", "1 b"]), "{each}");
    }
}

/// Four pods of Kubernetes' MPI operator, whose launcher starts before the name of one has an
/// address. The variables are those of the operator for each of the three libraries.
#[test]
fn pods_are_waited_for() {
    let private = tempfile::tempdir().unwrap();
    let path = |name: &str| private.path().join(name).into_os_string().into_string().unwrap();
    let (hosts, late) = (path("hostfile"), path("late"));
    let ask = ["sh", "-c", "echo $PMI_RANK $HOST"];
    let dialects = [
        ("OMPI_MCA_orte_default_hostfile", "OMPI_MCA_orte_keep_fqdn_hostnames", " slots=1"),
        ("I_MPI_HYDRA_HOST_FILE", "I_MPI_HYDRA_BOOTSTRAP", ":1"),
        ("HYDRA_HOST_FILE", "HYDRA_LAUNCHER", ":1"),
    ];
    for (file, other, slots) in dialects {
        let start = |last: &str, words: &[&str], wait: Option<&str>| {
            let lines = ["pi-worker-0.pi", "pi-worker-1.pi", "pi-worker-2.pi", last];
            std::fs::write(&hosts, lines.map(|name| format!("{name}{slots}\n")).concat()).unwrap();
            let mut command = combray(words);
            command.envs([(file, &*hosts), (other, "true"), ("K_MPI_JOB_ROLE", "launcher")]);
            command.envs([("COMBRAY_LAUNCH_AGENT", RSH), ("LATE_FILE", &*late)]);
            command.envs(wait.map(|seconds| ("COMBRAY_HOST_WAIT", seconds)));
            outcome_of(command.output().unwrap())
        };
        let (code, out, err) = start("late-worker-3.pi", &ask, None);
        std::fs::remove_file(&late).unwrap();
        assert_eq!(code, Some(0), "{file}: {err}");
        let expected =
            ["0 pi-worker-0.pi", "1 pi-worker-1.pi", "2 pi-worker-2.pi", "3 late-worker-3.pi"];
        assert_eq!(sorted(&out), expected, "{file}");
        assert!(err.contains("up to 120 s") && err.contains("Could not resolve"), "{file}: {err}");
        // One that never comes is named, and nothing has started. How often it is tried within 2 s
        // depends on the load of the machine; a unit test of the launcher counts attempts.
        let (code, out, err) = start("unreachable", &ask, Some("2"));
        assert_eq!((code, &*out), (Some(2), ""), "{file}: {err}");
        assert!(err.contains("unreachable cannot be reached"), "{file}: {err}");
    }
    // Pods that are reached by `kubectl exec`, for which a script stands in.
    let kubectl = path("kubectl");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2 $4 $5 $6\" = \"exec --stdin -- /bin/sh -c\" ] || exit 3\n\
         pod=$3; shift 6; exec {RSH} \"$pod\" \"$@\"\n"
    );
    std::fs::write(&kubectl, script).unwrap();
    std::fs::set_permissions(&kubectl, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(&hosts, "pi-worker-0.pi.jobs.svc\npi-worker-1.pi.jobs.svc\n").unwrap();
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/container/kubectl-agent");
    let mut command = combray(&ask);
    command.envs([("HYDRA_HOST_FILE", &*hosts), ("HYDRA_LAUNCHER_EXEC", agent)]);
    command.env("PATH", format!("{}:/usr/bin:/bin", private.path().display()));
    let (code, out, err) = outcome_of(command.output().unwrap());
    assert_eq!((code, sorted(&out)), (Some(0), vec!["0 pi-worker-0", "1 pi-worker-1"]), "{err}");
    // Without the operator, a host that cannot be reached is an error immediately.
    let (code, _, err) = run_on("unreachable", &["true"]);
    assert!(code == Some(2) && err.contains("unreachable cannot be reached ("), "{err}");
    let mut wrong = on("a", &["true"]);
    let (code, _, err) = outcome_of(wrong.env("COMBRAY_HOST_WAIT", "soon").output().unwrap());
    assert!(code == Some(2) && err.contains("COMBRAY_HOST_WAIT needs"), "{err}");
}

/// Rankfiles of Open MPI may refer to hosts by their positions.
#[test]
fn a_rankfile_names_hosts_by_their_positions() {
    let private = tempfile::tempdir().unwrap();
    let file = private.path().join("ranks");
    std::fs::write(&file, "rank 0=+n1\nrank 1=+n0\nrank 2=+n1\n").unwrap();
    let words = ["--rankfile", file.to_str().unwrap(), "sh", "-c", "echo $PMI_RANK ${HOST-here}"];
    let (code, out, err) = run_on("a,b", &words);
    assert_eq!((code, sorted(&out)), (Some(0), vec!["0 b", "1 a", "2 b"]), "{err}");
    let slurm = [("SLURM_JOB_NODELIST", "a,b"), ("SLURM_TASKS_PER_NODE", "2,1")];
    let (code, out, err) = in_allocation(&slurm, &words);
    assert_eq!((code, sorted(&out)), (Some(0), vec!["0 b", "1 a", "2 b"]), "{err}");
    let (code, _, err) = run_on("a", &words);
    assert!(
        code == Some(2) && err.contains("+n1 for rank 0") && err.contains("only 1: a"),
        "{err}"
    );
    std::fs::write(&file, "rank 0=+n0\n").unwrap();
    let (code, out, err) = run(&["-n", "1", words[0], words[1], "echo", "here"]);
    assert_eq!((code, &*out), (Some(0), "here\n"), "{err}");
}

#[test]
fn variables_of_other_launchers_without_effect_are_listed() {
    let with = |name: &str, value: &str, words: &[&str]| {
        outcome_of(combray(words).env(name, value).output().unwrap())
    };
    let (code, _, err) = with("I_MPI_PIN_DOMAIN", "omp", &["-v", "-n", "1", "true"]);
    assert_eq!(code, Some(0));
    assert!(err.contains("without effect here: I_MPI_PIN_DOMAIN"), "{err}");
    let quiet = with("I_MPI_PIN_DOMAIN", "omp", &["-n", "1", "true"]);
    assert_eq!(quiet, (Some(0), String::new(), String::new()));
    let words = ["-n", "1", "echo", "started"];
    let (code, out, err) = with("PRTE_MCA_rmaps_rank_file_path", "ranks", &words);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("PRTE_MCA_rmaps_rank_file_path") && err.contains("--rankfile"), "{err}");
}

#[test]
fn variables_that_are_not_known_here_and_interfaces_that_are_absent_are_reported() {
    let with = |name: &str, words: &[&str]| {
        outcome_of(combray(words).env(name, "nosuch0").output().unwrap())
    };
    let (_, _, err) = with("I_MPI_UNKNOWN", &["-v", "-n", "1", "true"]);
    assert!(err.contains("without effect here: I_MPI_UNKNOWN"), "{err}");
    let (code, _, err) = run(&["-n", "1", "-genv", "I_MPI_PIN", "0", "true"]);
    assert!(code == Some(0) && err.contains("I_MPI_PIN for the processes"), "{err}");
    for (code, _, err) in [
        with("COMBRAY_NET", &["-n", "2", "true"]),
        with("OMPI_MCA_btl_tcp_if_include", &["-n", "2", "true"]),
        run(&["-n", "2", "-iface", "nosuch0", "true"]),
    ] {
        assert_eq!(code, Some(0));
        assert!(err.contains("COMBRAY_NET is \"nosuch0\", which selects no network"), "{err}");
    }
    // The interfaces of other machines are not known here.
    let (_, _, err) = run_on("a,b", &["-n", "2", "-iface", "nosuch0", "true"]);
    assert_eq!(err, "");
}

#[test]
fn bindings_are_reported_with_the_hosts_where_there_are_several() {
    let (code, _, err) = run_on("a,b", &["-n", "2", "--report-bindings", "true"]);
    assert_eq!(code, Some(0));
    assert!(err.contains("combray: rank 0 on ") && err.contains("combray: rank 1 on "), "{err}");
    let (_, _, err) = run(&["-n", "1", "--report-bindings", "true"]);
    assert!(err.contains("combray: rank 0: "), "{err}");
}

#[test]
fn an_allocation_that_cannot_be_used_is_an_error() {
    let slurm = [("SLURM_JOB_NUM_NODES", "3")];
    let (code, out, err) = in_allocation(&slurm, &["-n", "2", "echo", "started"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("3 nodes") && err.contains("--hosts localhost"), "{err}");
    assert_eq!(in_allocation(&slurm, &["-n", "2", "--hosts", "localhost", "true"]).0, Some(0));
    assert_eq!(in_allocation(&[("SLURM_JOB_NUM_NODES", "1")], &["-n", "2", "true"]).0, Some(0));
}

/// LSF's own command is used if it is installed.
#[test]
fn blaunch_starts_agents() {
    let private = tempfile::tempdir().unwrap();
    let folder = private.path().join("blaunch");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(RSH, folder.join("blaunch")).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = combray(&["--timeout", "60", "sh", "-c", "echo $HOST"]);
    let (code, out, err) =
        outcome_of(command.env("LSB_HOSTS", "a b").env("PATH", path).output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["a", "b"]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_environment_is_that_of_the_host_and_what_is_given() {
    let script = "echo $HOME/$KEPT/$LOST/$COMBRAY_STRATEGY/$COMBRAY_NODE/$PATH; pwd";
    let mut command = on("a", &["-x", "KEPT", "-x", "HOST=x y", "sh", "-c", script]);
    command.env("KEPT", "kept").env("LOST", "lost").env("PATH", "/bin:/own");
    command.env("COMBRAY_STRATEGY", "direct").env("COMBRAY_NODE", "n");
    let (code, out, err) = outcome_of(command.current_dir("/var").output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "//kept//direct///bin:/own\n/var\n");
    let mut command = on("a", &["-genvall", "sh", "-c", "echo $LOST"]);
    assert_eq!(outcome_of(command.env("LOST", "found").output().unwrap()).1, "found\n");
}

#[test]
fn programs_may_have_their_own_hosts() {
    let words = ["-n", "1", "-H", "b", "sh", "-c", "echo $HOST 1 $1", "sh", "it's \"quoted\" $x"];
    let (code, out, err) =
        run_on("a:4", &[&["-n", "2", "sh", "-c", "echo $HOST 0", ":"], &words[..]].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["a 0", "a 0", "b 1 it's \"quoted\" $x"]);
}

#[test]
fn a_failure_elsewhere_ends_all_with_one_message() {
    let script = "if [ $PMI_RANK = 1 ]; then echo last words >&2; exit 7; fi; sleep 600";
    let (code, _, err) = run_on("a,b,localhost", &["sh", "-c", script]);
    assert_eq!(code, Some(7));
    assert!(err.contains("on b) ended with exit code 7; the other 2 processes"), "{err}");
    assert!(err.contains("last words") && err.matches("combray:").count() == 1, "{err}");
    let (code, _, err) =
        run_on("a,b", &["sh", "-c", "[ $PMI_RANK = 0 ] || kill -SEGV $$; sleep 9"]);
    assert_eq!(code, Some(139));
    assert!(err.contains("on b) was killed by signal 11 (SIGSEGV: "), "{err}");
}

#[test]
fn an_abort_elsewhere_ends_all_with_its_code() {
    let script = "echo cmd=init pmi_version=1 >&$PMI_FD; read -r line <&$PMI_FD
                  if [ $PMI_RANK = 1 ]; then echo cmd=abort exitcode=9 >&$PMI_FD; fi; sleep 600";
    let (code, _, err) = run_on("a,b", &["bash", "-c", script]);
    assert_eq!((code, err.as_str()), (Some(9), "combray: rank 1 ended the job with exit code 9\n"));
}

/// Four ranks on each of ten hosts: each puts a value of 64 KiB and gets that of the next rank.
#[test]
fn many_processes_find_each_other() {
    let script = "say() { printf 'cmd=%s\\n' \"$*\" >&$PMI_FD; }
                  hear() { read -r line <&$PMI_FD; }
                  next=$(((PMI_RANK + 1) % PMI_SIZE))
                  say init pmi_version=1; hear
                  say put key=$PMI_RANK value=$PMI_RANK-$(head -c 65500 /dev/zero | tr '\\0' x); hear
                  say barrier_in; hear
                  say get key=$next; hear; value=${line#*value=}
                  echo ${#value} ${value%%-*} $((${value%%-*} == next))
                  say get key=PMI_process_mapping; hear; echo $line
                  say finalize; hear";
    let hosts: Vec<String> = (0..10).map(|number| format!("h{number}:4")).collect();
    let (code, out, err) = run_on(&hosts.join(","), &["bash", "-c", script]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let expected = "cmd=get_result rc=0 msg=success value=(vector,(0,10,4))";
    assert_eq!(out.lines().filter(|line| *line == expected).count(), 40, "{out}");
    let values: Vec<_> = out.lines().filter(|line| line.ends_with(" 1")).collect();
    assert_eq!(values.len(), 40, "{out}");
    assert!(values.iter().all(|line| line.starts_with("6550")), "{out}");
}

#[test]
fn much_output_arrives_whole_at_a_slow_reader() {
    expect_many_lines(on("a:2,b:2", &["sh", "-c", &many_lines(30_000)]), 4, 30_000);
}

#[test]
fn a_flood_of_output_stops_nothing() {
    expect_flood_to_stop_nothing(on("a,b", &["yes"]));
}

#[test]
fn input_goes_to_rank_0() {
    let script = "if [ $PMI_RANK = 0 ]; then read -r line; echo $line; sleep 0.3; fi; wc -c";
    let mut command = on("a,b", &["sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        input.write_all(b"first\n").unwrap();
        input.write_all(&vec![b'x'; 3 << 20]).unwrap();
    });
    let (code, out, _) = outcome_of(child.wait_with_output().unwrap());
    writer.join().unwrap();
    assert_eq!((code, sorted(&out)), (Some(0), vec!["0", "3145728", "first"]));
    // The launcher does not wait for a process that does not read its input.
    let mut command = on("a", &["true"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn hosts_that_cannot_be_used_are_reported() {
    let cases: &[(&str, &[&str])] = &[
        ("unreachable", &["unreachable cannot be reached", "code 255", "    rsh: connect to host"]),
        ("bare", &["bare cannot be reached", "same path as here", "not found"]),
        ("old", &["old cannot be used", "version 0.0.1", "install one version"]),
    ];
    for (host, words) in cases {
        let hosts = format!("a:1,{host}:1,localhost:1");
        let (code, out, err) = run_on(&hosts, &["sh", "-c", "echo started"]);
        assert_ne!(code, Some(0));
        assert_eq!(out, "", "nothing starts before all hosts are there");
        assert!(words.iter().all(|word| err.contains(word)), "{err}");
    }
    let (code, _, err) = run_on("mad,a", &["sleep", "600"]);
    assert!(matches!(code, Some(1 | 2)));
    assert!(err.contains("mad") && err.contains("the data from it is not a report"), "{err}");
    let (code, out, err) = run_on("noisy,a", &["sh", "-c", "echo $HOST"]);
    assert_eq!((code, err.as_str(), sorted(&out)), (Some(0), "", vec!["a", "noisy"]));
    let (code, _, err) = run_on("a", &["./no-such-program"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("combray: on a: ./no-such-program"), "{err}");
    let (code, _, err) = run_on("a,b", &["-wdir", "/no/such/folder", "true"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("/no/such/folder") && err.contains("combray: on "), "{err}");
    let (code, _, err) = run(&["-H", "a", "--launch-agent", "no-such-ssh", "true"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("a cannot be reached") && err.contains("no-such-ssh"), "{err}");
}

#[test]
fn a_process_that_waits_for_a_host_can_interrupt() {
    let mut child = on("mute,a", &["true"]).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let start = Instant::now();
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(5));
    let (code, _, err) = run(&["-H", "mute", "--launch-agent", RSH, "--timeout", "0.5", "true"]);
    assert_eq!(code, Some(124));
    assert!(err.contains("time limit"), "{err}");
}

/// A job on three hosts, one of them this machine. Its processes and their children have the mark
/// in their command lines.
fn marked(mark: &str) -> Child {
    let script = format!("setsid sleep {mark} & sleep {mark}");
    let mut command = on("a,b,localhost", &["sh", "-c", &script]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| is_running(mark)));
    std::thread::sleep(Duration::from_millis(100));
    child
}

#[test]
fn nothing_survives_the_launcher() {
    for name in ["KILL", "TERM", "INT"] {
        let mark = mark();
        let mut child = marked(&mark);
        signal(child.id(), name);
        child.wait().unwrap();
        assert!(eventually(|| !is_running(&mark)), "{name}");
    }
}

#[test]
fn nothing_survives_the_supervisor() {
    let mark = mark();
    let child = marked(&mark);
    signal(common::guard_and_supervisor_of(child.id()).1, "KILL");
    assert_eq!(outcome_of(child.wait_with_output().unwrap()).0, Some(128 + 9));
    assert!(eventually(|| !is_running(&mark)));
}

/// The three processes of the agent above the process with `mark`, innermost first.
fn agent_above(mark: &str) -> Vec<u32> {
    let mut found = None;
    assert!(eventually(|| {
        found = find_agent_above(mark);
        found.is_some()
    }));
    found.unwrap()
}

fn find_agent_above(mark: &str) -> Option<Vec<u32>> {
    let listing = Command::new("ps").args(["-eo", "pid=,ppid=,args="]).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let parse = |line: &str| -> (u32, u32, String) {
        let mut words = line.split_whitespace();
        let mut number = || words.next().unwrap().parse().unwrap();
        let (process, parent) = (number(), number());
        (process, parent, words.collect::<Vec<_>>().join(" "))
    };
    let all: Vec<_> = listing.lines().map(parse).collect();
    let find = |process: u32| all.iter().find(|known| known.0 == process);
    let above = |process: &(u32, u32, String)| find(process.1);
    for leaf in all.iter().filter(|process| process.2.contains(mark)) {
        let chain: Vec<_> = std::iter::successors(above(leaf), |process| above(process)).collect();
        // Another agent may have started the leaf.
        let first = chain.iter().position(|process| process.2 == "job-supervisor");
        let Some(first) = first else { continue };
        if chain.get(first + 2).is_some_and(|process| process.2.contains("combray agent")) {
            return Some(chain[first..first + 3].iter().map(|process| process.0).collect());
        }
    }
    None
}

#[test]
fn an_agent_that_is_killed_ends_the_job() {
    // Each agent consists of three processes, which watch each other.
    for which in 0..3 {
        let mark = mark();
        let child = marked(&mark);
        signal(agent_above(&mark)[which], "KILL");
        let (code, _, err) = outcome_of(child.wait_with_output().unwrap());
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("the connection to ") && err.contains(" was lost"), "{err}");
        assert_eq!(err.matches("combray: the connection").count(), 1, "{err}");
        assert!(eventually(|| !is_running(&mark)));
    }
}

#[test]
fn an_agent_that_is_stopped_is_noticed() {
    // Stops the supervisor only, whose processes the rest of the agent then ends; and stops all
    // three.
    for count in [1, 3] {
        let mark = mark();
        let script = format!("echo started; setsid sleep {mark} & sleep {mark}");
        let mut command = on("a,localhost", &["sh", "-c", &script]);
        command.env("COMBRAY_HOST_TIMEOUT", "4").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The launcher learns that both have started before it receives their output.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let both = [lines.next(), lines.next()].map(|line| line.unwrap().unwrap());
        assert_eq!(both, ["started"; 2]);
        assert!(eventually(|| is_running(&mark)));
        let stopped = agent_above(&mark);
        stopped[..count].iter().for_each(|process| signal(*process, "STOP"));
        let (code, _, err) = outcome_of(child.wait_with_output().unwrap());
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("a was lost: nothing was received from it for 4 s"), "{err}");
        assert!(eventually(|| !is_running(&mark)), "{count}");
    }
}

#[test]
fn what_processes_leave_behind_ends_with_the_job() {
    let mark = mark();
    let script =
        format!("setsid sleep {mark} & (sleep {mark} >/dev/null 2>&1 &) ; echo done; exit 0");
    let (code, out, err) = run_on("a,b", &["sh", "-c", &script]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "done\ndone\n", ""));
    assert!(!is_running(&mark), "it is gone before the launcher ends");
}

#[test]
fn signals_reach_all() {
    expect_signals_to_reach_all(on("a,b", &["bash", "-c", &trapping("exit 0")]));
}

#[test]
fn a_second_interrupt_kills() {
    expect_second_interrupt_to_kill(on("a,b", &["bash", "-c", &trapping("")]));
}

#[test]
fn a_process_that_does_not_end_is_killed() {
    let script = "trap '' TERM; [ $PMI_RANK = 0 ] && exit 3; while :; do sleep 0.05; done";
    let start = Instant::now();
    let (code, _, err) = run_on("a,b", &["bash", "-c", script]);
    assert_eq!(code, Some(3), "{err}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    expect_end_without_reader(on("a,b", &["yes"]));
}

/// Runs an agent that receives this input, and then nothing.
fn agent(input: &[u8]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_combray"));
    command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The agent may exit before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    outcome_of(child.wait_with_output().unwrap())
}

#[test]
fn an_agent_without_a_launcher_ends() {
    let (code, out, err) = agent(b"");
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("combray-agent/"), "{out}");
    for nonsense in [&b"hello, is there anybody?\n"[..], &[0xff; 100_000], &[0; 100_000]] {
        let (code, _, err) = agent(nonsense);
        assert_eq!(code, Some(2));
        assert!(err.contains("received an invalid message from its launcher"), "{err}");
    }
}

#[test]
fn a_hostfile_and_a_variable_say_the_same() {
    let private = tempfile::tempdir().unwrap();
    let path = private.path().join("hostfile");
    std::fs::write(&path, "# two\na:1\nb slots=2 max_slots=2\n").unwrap();
    let file = path.to_str().unwrap();
    let mut command = combray(&["--hostfile", file, "sh", "-c", "echo $HOST"]);
    command.env("COMBRAY_LAUNCH_AGENT", RSH);
    let (code, out, err) = outcome_of(command.output().unwrap());
    assert_eq!((code, err.as_str(), sorted(&out)), (Some(0), "", vec!["a", "b", "b"]));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_person_is_asked_by_a_rank_elsewhere() {
    let script = "if [ $PMI_RANK = 0 ]; then printf \"how many? \"; read x; echo got $x; fi";
    let command = format!(
        "{} run --hosts a,b --launch-agent {RSH} sh -c '{script}'",
        env!("CARGO_BIN_EXE_combray")
    );
    let mut terminal = Terminal::begin(&command);
    terminal.await_text("how many? ", 0);
    terminal.write("42\n");
    let (_, text) = terminal.end();
    assert!(text.contains("got 42"), "{text}");
}

/// A job with a rank on each of 13 hosts, whose agents are started in a binary tree.
fn in_tree(words: &[&str]) -> Command {
    let hosts: Vec<String> = (1..=13).map(|number| format!("h{number}")).collect();
    let mut command = on(&hosts.join(","), words);
    command.env("COMBRAY_LAUNCH_WIDTH", "2");
    command
}

#[test]
fn a_tree_of_agents_carries_output_and_exit_codes() {
    let script = "echo $HOST $PMI_RANK; echo error $PMI_RANK >&2; exit $((PMI_RANK == 12 ? 7 : 0))";
    let (code, out, err) = outcome_of(in_tree(&["sh", "-c", script]).output().unwrap());
    assert_eq!(code, Some(7), "{err}");
    assert!(err.contains("rank 12 (process ") && err.contains(" on h13) ended with exit code 7"));
    let script = "echo $HOST $PMI_RANK; echo error $PMI_RANK >&2";
    let (code, all, errors) = outcome_of(in_tree(&["sh", "-c", script]).output().unwrap());
    let expected: Vec<String> = (0..13).map(|rank| format!("h{} {rank}", rank + 1)).collect();
    assert_eq!(sorted(&all), sorted(&expected.join("\n")), "{errors}");
    assert_eq!((code, errors.lines().count()), (Some(0), 13), "{errors}");
    assert!(out.lines().all(|line| expected.contains(&line.to_owned())), "{out}");
}

#[test]
fn a_tree_of_agents_ends_with_the_agent_of_an_inner_host() {
    let mark = mark();
    let script = format!("echo $HOST $PPID; setsid sleep {mark} & sleep {mark}");
    let mut command = in_tree(&["sh", "-c", &script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<String> = lines.take(13).collect();
    // The parent of a rank is the supervisor of its agent. Below that of h1 are five others.
    let supervisor = lines.iter().find_map(|line| line.strip_prefix("h1 ")).unwrap();
    signal(supervisor.parse().unwrap(), "KILL");
    let (code, _, err) = outcome_of(child.wait_with_output().unwrap());
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("the connection to h1 was lost"), "{err}");
    assert!(err.contains("5 more hosts were reached through it"), "{err}");
    assert_eq!(err.matches("combray: the connection").count(), 1, "{err}");
    assert!(eventually(|| !is_running(&mark)));
}

#[test]
fn a_host_that_another_host_cannot_reach_is_reached_by_the_launcher() {
    let mut command = on("near1,near2,near3,near4", &["sh", "-c", "echo $HOST"]);
    command.env("COMBRAY_LAUNCH_WIDTH", "1").env_remove("HOST");
    let (code, out, err) = outcome_of(command.output().unwrap());
    let expected = vec!["near1", "near2", "near3", "near4"];
    assert_eq!((code, sorted(&out), err.as_str()), (Some(0), expected, ""));
}
