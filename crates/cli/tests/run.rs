//! The real command with shell commands as programs.

#[path = "run/calibration.rs"]
mod calibration;
mod common;
#[path = "run/others.rs"]
mod others;
#[path = "run/output.rs"]
mod output;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::terminal::Terminal;
use common::{
    combray, eventually, expect_end_without_reader, expect_flood_to_stop_nothing,
    expect_many_lines, expect_second_interrupt_to_kill, expect_signals_to_reach_all,
    guard_and_supervisor_of, is_running, many_lines, mark, outcome_of, run, signal, sorted,
    trapping,
};

#[test]
fn ranks_know_themselves() {
    let (code, out, err) = run(&["-n", "3", "sh", "-c", "echo $COMBRAY_RANK/$PMI_SIZE"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["0/3", "1/3", "2/3"]);
}

#[test]
fn lines_stay_whole() {
    let script = "for i in 1 2 3 4 5 6 7 8; do printf 'aaaaaaaa'; sleep 0.01; echo bbbbbbbb; done";
    let (_, out, _) = run(&["-n", "4", "-l", "sh", "-c", script]);
    assert_eq!(out.lines().count(), 32);
    for line in out.lines() {
        let (tag, rest) = line.split_at(4);
        assert!(tag.starts_with('[') && tag.ends_with("] "), "{line}");
        assert_eq!(rest, "aaaaaaaabbbbbbbb");
    }
}

#[test]
fn input_goes_to_rank_0() {
    let mut command = combray(&["-n", "2", "sh", "-c", "wc -c"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hello").unwrap();
    let (code, out, _) = outcome_of(child.wait_with_output().unwrap());
    assert_eq!((code, sorted(&out)), (Some(0), vec!["0", "5"]));
}

#[test]
fn a_failure_ends_all_with_one_message() {
    let script = "if [ $PMI_RANK = 1 ]; then echo last words >&2; exit 7; fi; sleep 600";
    let (code, _, err) = run(&["-n", "3", "sh", "-c", script]);
    assert_eq!(code, Some(7));
    assert!(err.contains("rank 1 ") && err.contains("exit code 7"), "{err}");
    assert!(err.contains("the other 2 processes") && err.contains("last words"), "{err}");
    assert_eq!(err.matches("combray:").count(), 1, "{err}");
}

#[test]
fn a_signal_is_named() {
    let (code, _, err) = run(&["-n", "1", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(code, Some(128 + 11));
    assert!(err.contains("signal 11 (SIGSEGV: it used an invalid address"), "{err}");
}

#[test]
fn a_time_limit_names_the_ranks_that_still_run() {
    let (code, _, err) =
        run(&["-n", "2", "--timeout", "0.5", "sh", "-c", "sleep $((PMI_RANK*600))"]);
    assert_eq!(code, Some(124));
    assert!(err.contains("still running: rank 1 "), "{err}");
}

#[test]
fn a_file_that_grows_too_large_is_named_as_the_reason() {
    let script = "ulimit -f 1; exec head -c 100000 /dev/zero >$0";
    let private = tempfile::tempdir().unwrap();
    let file = private.path().join("large");
    let (code, _, err) = run(&["-n", "1", "sh", "-c", script, file.to_str().unwrap()]);
    std::fs::remove_file(file).unwrap();
    assert_eq!(code, Some(128 + 25), "{err}");
    assert!(err.contains("SIGXFSZ: a file would have become larger"), "{err}");
}

#[test]
fn the_job_goes_on_where_that_is_asked_for() {
    let script = "echo $COMBRAY_KEEP_GOING; case $PMI_RANK in
                  1) while ! [ -e $0.2 ]; do sleep 0.05; done; sleep 0.5; exit 7;;
                  2) touch $0.2; kill -9 $$;; esac
                  while ! [ -e $0 ]; do sleep 0.05; done; echo done; [ $PMI_RANK = 0 ] || exit 5";
    for option in ["--keep-going", "--enable-recovery", "--continuous", "-disable-auto-cleanup"] {
        let private = tempfile::tempdir().unwrap();
        let file = private.path().join("go");
        let name = file.to_str().unwrap();
        let mut command = combray(&["-n", "4", option, "sh", "-c", script, name]);
        let job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Both processes that fail have ended by then; the others wait for the file.
        std::thread::sleep(Duration::from_millis(1500));
        std::fs::write(&file, "").unwrap();
        let (code, out, err) = outcome_of(job.wait_with_output().unwrap());
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(format!("{name}.2")).unwrap();
        assert_eq!(code, Some(128 + 9), "{err}");
        assert_eq!(sorted(&out), ["1", "1", "1", "1", "done", "done"]);
        let last = err.lines().last().unwrap();
        assert!(last.contains("the job ends with exit code 137, because rank 2 "), "{err}");
        assert!(last.ends_with("2 more failed later"), "{err}");
    }
}

#[test]
fn a_barrier_without_a_process_fails_where_the_job_goes_on() {
    let script = "say init pmi_version=1; hear; [ $PMI_RANK = 2 ] && kill -9 $$
                  say barrier_in; hear; echo $line; say finalize; hear";
    let words = "say() { echo \"cmd=$*\" >&$PMI_FD; }; hear() { read -r line <&$PMI_FD; }; ";
    let script = format!("{words}{script}");
    let (code, out, err) =
        run(&["-n", "3", "--keep-going", "--timeout", "60", "bash", "-c", &script]);
    assert_eq!(code, Some(128 + 9), "{err}");
    // One of the two may have ended before the other reaches the barrier.
    let lines = sorted(&out);
    let failed = "cmd=barrier_out rc=-1 msg=missing_process_";
    assert!(lines.len() == 2 && lines.iter().all(|line| line.starts_with(failed)), "{lines:?}");
    assert!(lines.contains(&format!("{failed}2").as_str()), "{lines:?}\n{err}");
}

#[test]
fn a_process_that_sends_nonsense_loses_the_connection() {
    for nonsense in ["echo sweet nothings", "head -c 200000 /dev/zero"] {
        let script = format!(
            "if [ $PMI_RANK = 1 ]; then {nonsense} >&$PMI_FD; read -r line <&$PMI_FD || echo closed; fi"
        );
        let (code, out, err) = run(&["-n", "2", "--timeout", "60", "bash", "-c", &script]);
        assert_eq!((code, out.as_str()), (Some(0), "closed\n"), "{err}");
        assert!(err.contains("rank 1 sent its launcher data that is not PMI-1"), "{err}");
        assert!(err.len() < 1000, "{err}");
    }
}

#[test]
fn the_time_limit_of_other_launchers_holds() {
    let timed =
        |words: &[&str]| outcome_of(combray(words).env("MPIEXEC_TIMEOUT", "0.5").output().unwrap());
    let (code, _, err) = timed(&["-n", "1", "sleep", "600"]);
    assert_eq!(code, Some(124), "{err}");
    assert!(err.contains("time limit of 0.5 s"), "{err}");
    assert_eq!(timed(&["-n", "1", "--timeout", "60", "sleep", "1"]).0, Some(0));
    let mut wrong = combray(&["-n", "1", "true"]);
    let (code, _, err) = outcome_of(wrong.env("MPIEXEC_TIMEOUT", "soon").output().unwrap());
    assert!(code == Some(2) && err.contains("MPIEXEC_TIMEOUT needs"), "{err}");
}

#[test]
fn what_a_limit_of_open_files_allows_is_reported() {
    let script = "ulimit -n 60; exec \"$0\" run -n 100 --oversubscribe true";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_combray")]).output();
    let (code, _, err) = outcome_of(output.unwrap());
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("(ulimit -n): 60 are enough for ") && err.contains("processes here"),
        "{err}"
    );
}

#[test]
fn more_processes_than_hardware_threads_can_be_refused() {
    for words in [&["--nooversubscribe"][..], &["--map-by", ":NOOVERSUBSCRIBE"]] {
        let (code, _, err) = run(&[words, &["-n", "4000", "true"]].concat());
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains("4000 processes must run on a machine with"), "{err}");
        assert_eq!(run(&[words, &["-n", "1", "true"]].concat()).0, Some(0));
    }
}

#[test]
fn what_processes_leave_behind_ends_with_the_job() {
    let mark = mark();
    let script = format!("setsid sleep {mark} & (sleep {mark} >/dev/null 2>&1 &) ; exit 0");
    let (code, ..) = run(&["-n", "2", "sh", "-c", &script]);
    assert_eq!(code, Some(0));
    assert!(eventually(|| !is_running(&mark)));
}

#[test]
fn nothing_survives_the_launcher() {
    let mark = mark();
    let script = format!("setsid sleep {mark} & sleep {mark}");
    let mut child = combray(&["-n", "2", "sh", "-c", &script]).spawn().unwrap();
    assert!(eventually(|| is_running(&mark)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| !is_running(&mark)));
}

#[test]
fn programs_have_their_own_options() {
    let words = ["-n", "1", "sh", "-c", "echo a $A", ":", "-n", "2", "-x", "A=1", "sh", "-c"];
    let (code, out, _) = run(&[&words[..], &["echo b $A"]].concat());
    assert_eq!((code, sorted(&out)), (Some(0), vec!["a", "b 1", "b 1"]));
}

#[test]
fn what_cannot_be_started_is_reported_before_anything_starts() {
    let (code, out, err) =
        run(&["-n", "1", "sh", "-c", "echo started", ":", "-n", "1", "./no-such-program"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("./no-such-program"), "{err}");
    let (_, _, err) = run(&["--tag-outptu", "true"]);
    assert!(err.contains("did you mean --tag-output"), "{err}");
}

#[test]
fn a_nested_launch_sets_its_own_variables() {
    let inner =
        format!("{} run -n 2 sh -c 'echo $PMI_RANK of $PMI_SIZE'", env!("CARGO_BIN_EXE_combray"));
    let (code, out, err) = run(&["-n", "1", "sh", "-c", &inner]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(sorted(&out), ["0 of 2", "1 of 2"]);
}

/// Runs a script whose processes use PMI: `say WORDS` sends, and `hear` receives into `$line`.
fn run_speakers(count: &str, script: &str) -> (Option<i32>, String, String) {
    let words = "say() { echo \"cmd=$*\" >&$PMI_FD; }; hear() { read -r line <&$PMI_FD; }; ";
    run(&["-n", count, "--timeout", "60", "bash", "-c", &format!("{words}{script}")])
}

#[test]
fn processes_find_each_other() {
    let script = "say init pmi_version=1; hear; say put kvsname=combray key=$PMI_RANK value=v; hear
                  say barrier_in; hear; say get kvsname=combray key=$((1-PMI_RANK)); hear
                  echo $line; say finalize; hear; echo $line";
    let (code, out, err) = run_speakers("2", script);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out.matches("rc=0 msg=success value=v").count(), 2, "{out}");
    assert_eq!(out.matches("cmd=finalize_ack").count(), 2, "{out}");
}

#[test]
fn a_process_that_asks_much_before_hearing_loses_no_answer() {
    let script = "(for i in $(seq 20000); do say get key=PMI_process_mapping; done) &
                  sleep 0.5; for i in $(seq 20000); do hear || exit 3; done; echo $line";
    let (code, out, err) = run_speakers("1", script);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.ends_with("value=(vector,(0,1,1))\n"), "{out}");
}

#[test]
fn a_rank_is_one_process_of_mpi_at_a_time() {
    let join = "say init pmi_version=1; hear";
    let leave = "say finalize; hear";
    let (code, _, err) = run_speakers("1", &format!("{join}; ({join}); {leave}"));
    let reported =
        err.contains("has called MPI_Init while process") && err.contains("of the same rank");
    assert!(code == Some(1) && reported, "{code:?} {err}");
    // Several processes in succession, also if one has failed, or continues after MPI_Finalize.
    for script in [
        format!("({join}; {leave}); ({join}; {leave})"),
        format!("({join}); {join}; {leave}"),
        format!("{join}; {leave}; ({join}; {leave})"),
    ] {
        let (code, _, err) = run_speakers("1", &script);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{script}");
    }
}

#[test]
fn an_abort_ends_all_with_its_code() {
    let script = "say init pmi_version=1; hear
                  if [ $PMI_RANK = 1 ]; then say abort exitcode=9; exit 3; fi; sleep 600";
    let (code, _, err) = run_speakers("3", script);
    assert_eq!((code, err.as_str()), (Some(9), "combray: rank 1 ended the job with exit code 9\n"));
}

/// The process prints a message when SIGTERM ends it; it could not if it were killed.
#[test]
fn a_stopped_process_is_continued_so_that_it_can_end() {
    let private = tempfile::tempdir().unwrap();
    let number = private.path().join("stopped");
    let script = format!(
        "number={}
         if [ $PMI_RANK = 0 ]; then
             trap 'echo ended; exit 1' TERM; echo $$ > $number.new; mv $number.new $number
             kill -STOP $$; exit 5
         fi
         until grep -qs '^State:.T' /proc/$(cat $number 2> /dev/null)/status; do sleep 0.02; done
         rm $number; exit 7",
        number.display()
    );
    let (code, out, _) = run(&["-n", "2", "--timeout", "60", "bash", "-c", &script]);
    assert_eq!((code, out.as_str()), (Some(7), "ended\n"));
}

#[test]
fn leaving_without_finalize_is_a_failure() {
    let script = "say init pmi_version=1; hear; [ $PMI_RANK = 1 ] || sleep 600";
    let (code, _, err) = run_speakers("2", script);
    assert_eq!(code, Some(1));
    assert!(err.contains("rank 1 ") && err.contains("left without MPI_Finalize"), "{err}");
}

#[test]
fn nobody_waits_for_a_process_that_has_ended() {
    let script = "[ $PMI_RANK = 0 ] && exit 0
                  say init pmi_version=1; hear; say barrier_in; hear";
    let (code, _, err) = run_speakers("2", script);
    assert_eq!(code, Some(1));
    assert!(err.contains("rank 1 waits") && err.contains("rank 0 has ended"), "{err}");
}

#[test]
fn a_flood_of_output_stops_nothing() {
    expect_flood_to_stop_nothing(combray(&["-n", "2", "--timeout", "60", "sh", "-c", "yes"]));
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    expect_end_without_reader(combray(&["-n", "2", "--timeout", "60", "yes"]));
}

#[test]
fn much_output_arrives_whole_at_a_slow_reader() {
    expect_many_lines(combray(&["-n", "3", "sh", "-c", &many_lines(20_000)]), 3, 20_000);
}

#[test]
fn output_of_one_process_is_not_changed() {
    let (code, out, _) = run(&["-n", "1", "printf", "a\\n\\nb"]);
    assert_eq!((code, out.as_str()), (Some(0), "a\n\nb"));
}

/// Runs a job at a terminal of its own and types `words` there once the job has printed the
/// question.
fn typed(script: &str, question: &str, words: &str) -> String {
    let command = format!("{} run -n 2 sh -c '{script}'", env!("CARGO_BIN_EXE_combray"));
    let mut terminal = Terminal::begin(&command);
    terminal.await_text(question, 0);
    terminal.write(words);
    terminal.end().1
}

#[test]
fn a_person_at_a_terminal_is_asked_and_heard() {
    let script = "if [ $PMI_RANK = 0 ]; then printf \"how many? \"; read x; echo got $x; fi";
    assert!(typed(script, "how many? ", "42\n").contains("got 42"));
}

/// A single process has the terminal for input, output and errors; the shell has it afterwards.
#[test]
fn a_single_process_has_the_terminal_itself() {
    let combray = env!("CARGO_BIN_EXE_combray");
    let test = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && printf \"first? \" && read x && echo got $x";
    let after = "printf \"second? \"; read y; echo then $y";
    let command = format!("sh -c '{combray} run -n 1 sh -c '\\''{test}'\\''; {after}'");
    let mut terminal = Terminal::begin(&command);
    for (question, answer) in [("first? ", "4\n"), ("second? ", "2\n")] {
        terminal.await_text(question, 0);
        terminal.write(answer);
    }
    let (succeeded, text) = terminal.end();
    assert!(succeeded, "{text}");
    assert!(text.contains("got 4") && text.contains("then 2"), "{text}");
}

/// Ctrl-Z stops a single process and its launcher, and the shell gets the terminal; `fg` gives it
/// back, also to a process that ran in the background meanwhile.
#[test]
fn a_single_process_is_stopped_from_the_keyboard_and_continued() {
    let combray = env!("CARGO_BIN_EXE_combray");
    let mut terminal =
        Terminal::begin("timeout --foreground 120 bash --norc --noprofile --noediting -i");
    let script =
        "read -p \"one\"? x; read -p \"two\"? y; read -p \"three\"? z; echo \"all\": $x $y $z";
    let start = format!("PS1=here\\>; {combray} run -n 1 --timeout 60 bash -c '{script}'\n");
    // What is typed, and what the terminal shows then.
    let steps = [
        (start.as_str(), "one?"),
        ("\u{1a}", "Stopped"),
        ("echo sh\"el\"l\n", "shell"),
        ("fg\n", "run -n 1"),
        ("4\n", "two?"),
        ("\u{1a}", "Stopped"),
        // It is stopped again because it reads.
        ("bg; sleep 1; jobs; echo ag\"ai\"n\n", "again"),
        ("fg\n", "run -n 1"),
        ("5\n", "three?"),
        ("6\n", "all: 4 5 6"),
        ("exit\n", "exit"),
    ];
    for (words, expected) in steps {
        terminal.write(words);
        let begun = terminal.shown.len();
        terminal.await_text(expected, begun);
    }
    let (succeeded, text) = terminal.end();
    assert!(succeeded, "{text}");
}

/// No shell could continue a job that is all that runs at its terminal.
#[test]
fn a_job_that_nobody_could_continue_is_not_stopped_from_the_keyboard() {
    let script = "if [ $PMI_RANK = 0 ]; then printf \"how many? \"; read x; echo got $x; fi";
    assert!(typed(script, "how many? ", "\u{1a}42\n").contains("got 42"));
}

/// Lines that stand just before the message, at the same place, are not repeated.
#[test]
fn last_lines_are_repeated_only_elsewhere() {
    let script = "echo last words >&2; exit 3";
    let (code, _, err) = run(&["-n", "2", "sh", "-c", script]);
    assert_eq!(code, Some(3));
    assert!(err.contains("last words") && !err.contains("its last lines"), "{err}");
    let folder = tempfile::tempdir().unwrap();
    let pattern = format!("{}/%r", folder.path().display());
    let (_, _, err) = run(&["-n", "2", "-errfile-pattern", &pattern, "sh", "-c", script]);
    assert!(err.contains("its last lines:\n    last words"), "{err}");
    let (_, _, err) = run(&["-n", "2", "sh", "-c", "echo last words; exit 3"]);
    assert!(err.contains("its last lines:\n    last words"), "{err}");
    let many = ["-n", "20", "--oversubscribe", "sh", "-c", script];
    assert!(run(&many).2.contains("its last lines:\n    last words"));
}

#[test]
fn an_interrupt_typed_once_counts_once() {
    let script =
        "trap \"sleep 0.5; echo saved; exit 0\" INT; echo ready; while :; do sleep 0.05; done";
    let out = typed(script, "ready\r\nready", "\u{3}");
    assert_eq!(out.matches("saved").count(), 2, "{out}");
}

/// Like a shell that should be interactive, which is stopped when it reads from the terminal.
#[test]
fn a_process_that_was_stopped_is_told_how_to_get_a_terminal() {
    let out = typed("(sleep 0.3; echo ready) & kill -TTIN $$; wait", "ready", "\u{3}");
    assert!(out.contains("ended by SIGINT") && out.contains("script -qc PROGRAM"), "{out}");
}

#[test]
fn signals_reach_all() {
    let script = trapping("exit 0");
    expect_signals_to_reach_all(combray(&["-n", "2", "--timeout", "60", "bash", "-c", &script]));
}

#[test]
fn a_second_interrupt_kills() {
    let script = trapping("exit 0");
    expect_second_interrupt_to_kill(combray(&[
        "-n",
        "2",
        "--timeout",
        "60",
        "bash",
        "-c",
        &script,
    ]));
}

#[test]
fn the_whole_group_may_be_killed() {
    use std::os::unix::process::CommandExt;
    let mark = mark();
    let script = format!("setsid sleep {mark} & sleep {mark}");
    let mut child = combray(&["-n", "2", "sh", "-c", &script]).process_group(0).spawn().unwrap();
    assert!(eventually(|| is_running(&mark)));
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-s", "KILL", "--", &group]).status().unwrap().success());
    child.wait().unwrap();
    assert!(eventually(|| !is_running(&mark)));
}

#[test]
fn nothing_survives_the_supervisor() {
    let mark = mark();
    let script = format!("setsid sleep {mark} & sleep {mark}");
    let mut command = combray(&["-n", "2", "sh", "-c", &script]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let (_, supervisor) = guard_and_supervisor_of(child.id());
    assert!(eventually(|| is_running(&mark)));
    signal(supervisor, "KILL");
    let (code, _, err) = outcome_of(child.wait_with_output().unwrap());
    assert_eq!(code, Some(128 + 9));
    assert!(err.contains("SIGKILL") && err.contains("supervisor"), "{err}");
    assert!(eventually(|| !is_running(&mark)));
}

#[test]
fn nothing_survives_any_two_that_watch_over_the_job() {
    // A shell is in between, and its child has a session of its own.
    for pair in [[0, 1], [0, 2], [1, 2]] {
        let mark = mark();
        let script = format!("setsid sleep {mark} & sleep {mark}; true");
        let mut command = combray(&["-n", "2", "sh", "-c", &script]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (guard, supervisor) = guard_and_supervisor_of(child.id());
        let all = [child.id(), guard, supervisor];
        assert!(eventually(|| is_running(&mark)));
        let [first, second] = pair.map(|index| all[index].to_string());
        // Both at once: neither sees the other's end.
        let stop = Command::new("kill").args(["-s", "STOP", &first, &second]).status();
        let kill = Command::new("kill").args(["-s", "KILL", &first, &second]).status();
        assert!(stop.unwrap().success() && kill.unwrap().success());
        assert!(eventually(|| !is_running(&mark)), "{pair:?}");
        child.wait().unwrap();
    }
}

#[test]
fn a_process_that_is_killed_while_it_ends_the_job_leaves_that_to_the_others() {
    for step in 0..32_u64 {
        let mark = mark();
        let script = format!("setsid sleep {mark} & echo ready; sleep {mark}; true");
        let mut command = combray(&["-n", "2", "sh", "-c", &script]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (guard, _) = guard_and_supervisor_of(child.id());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        let pair = if step % 2 == 0 { [child.id(), guard] } else { [guard, child.id()] };
        signal(pair[0], "KILL");
        std::thread::sleep(Duration::from_micros(step * 150));
        // The process may have ended in the meantime.
        let [_, second] = pair.map(|process| process.to_string());
        Command::new("kill").args(["-s", "KILL", &second]).stderr(Stdio::null()).status().unwrap();
        child.wait().unwrap();
        assert!(eventually(|| !is_running(&mark)), "step {step}");
    }
}

#[test]
fn a_process_that_ends_processes_by_command_line_leaves_those_that_clean_up() {
    let mark = mark();
    let mut child = combray(&["-n", "1", "sleep", &mark]).spawn().unwrap();
    let (guard, supervisor) = guard_and_supervisor_of(child.id());
    assert!(eventually(|| is_running(&mark)));
    for (process, name) in [(guard, "job-guard"), (supervisor, "job-supervisor")] {
        let line = || std::fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap();
        assert!(eventually(|| line().trim_end_matches('\0') == name), "{}", line());
        let short = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
        assert_eq!(short.trim(), name);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| !is_running(&mark)));
}

#[test]
fn many_processes_need_no_higher_limits() {
    let words = ["-n", "150", "sh", "-c", "ulimit -Sn"];
    let limited = r#"ulimit -Sn 64 && exec "$0" run "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_combray")]).args(words);
    let (code, out, err) = outcome_of(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "64\n".repeat(150));
}

#[test]
fn an_idle_launcher_uses_no_time() {
    let mut child = combray(&["-n", "2", "sh", "-c", "echo; exec sleep 600"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let ticks = || -> u64 {
        // The user and system time of the launcher, the guard and the supervisor.
        let (guard, supervisor) = guard_and_supervisor_of(child.id());
        let all = [child.id(), guard, supervisor].into_iter().map(|process| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
            let after_name = stat.rsplit_once(')').unwrap().1;
            let fields: Vec<&str> = after_name.split_whitespace().collect();
            fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
        });
        all.sum()
    };
    let before = ticks();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(ticks() - before <= 1);
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn variables_of_an_outer_launcher_are_cleared() {
    let script =
        "echo ${PMIX_RANK-none} ${PMI_PORT-none} ${OMPI_COMM_WORLD_NODE_RANK-none} $PMI_RANK";
    let mut command = combray(&["-n", "1", "-x", "PMI_RANK=7", "sh", "-c", script]);
    for name in ["PMIX_RANK", "PMI_PORT", "OMPI_COMM_WORLD_NODE_RANK"] {
        command.env(name, "5");
    }
    let (_, out, _) = outcome_of(command.output().unwrap());
    assert_eq!(out, "none none none 0\n");
}

#[test]
fn words_that_are_no_text_reach_the_program() {
    use std::os::unix::ffi::OsStrExt;
    let mut command = combray(&["-n", "1", "printf", "%s"]);
    let output = command.arg(std::ffi::OsStr::from_bytes(b"\xff\xfe")).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"\xff\xfe"[..]));
}

/// Messages have the system's words without the numbers of its errors.
#[test]
fn messages_name_causes_in_words() {
    for words in [
        &["./no-such-program"][..],
        &["--hostfile", "/nonexistent/hosts", "true"],
        &["--rankfile", "/nonexistent/ranks", "true"],
        &["-wdir", "/nonexistent", "true"],
        &["--hosts", "a", "--launch-agent", "/nonexistent/agent", "true"],
    ] {
        let (code, _, err) = run(words);
        assert_eq!(code, Some(2), "{err}");
        assert!(!err.contains("os error") && err.contains("combray: "), "{err}");
    }
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (words, cause) in [
        (&["trace", "/nonexistent"][..], "No such file"),
        (&["info", "/nonexistent"], "No such file"),
        (&["info", text], "is neither a program nor a library"),
        (&["ps", "abc"], "invalid value 'abc'"),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_combray"));
        let (code, _, err) = outcome_of(command.args(words).output().unwrap());
        assert!(code == Some(2) && err.contains(cause) && err.starts_with("combray: "), "{err}");
        assert!(!err.contains("os error"), "{err}");
    }
}

/// A build whose sources have changes after the last release says so.
#[test]
fn builds_for_development_say_so() {
    let (code, out, _) = run(&["--version"]);
    let is_release = option_env!("RELEASED_COMBRAY").is_some();
    assert_eq!((code, out.contains("development")), (Some(0), !is_release), "{out}");
}
