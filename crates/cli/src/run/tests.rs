use std::path::Path;

use super::*;

use launcher::binding::{Bind, ProcessMapping};
use topology::Kind;

fn plan(line: &str) -> (JobPlan, Vec<String>) {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    match parse(&words).unwrap() {
        RunRequest::Job { plan, ignored, .. } => (*plan, ignored),
        other => panic!("{other:?}"),
    }
}

fn error(line: &str) -> String {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    parse(&words).unwrap_err()
}

#[test]
fn programs_and_their_arguments() {
    let (plan, _) = plan("-n 2 -x A=1 ./a -n 5 : -np 3 -wdir /tmp ./b");
    let [a, b] = &plan.applications[..] else { panic!("{plan:?}") };
    assert_eq!((a.processes, a.program.as_os_str()), (2, OsStr::new("./a")));
    assert_eq!(a.arguments, ["-n", "5"]);
    assert_eq!(a.variables[OsStr::new("A")], "1");
    assert_eq!((b.processes, b.folder.as_deref()), (3, Some("/tmp".as_ref())));
    assert!(b.variables.is_empty());
}

#[test]
fn spellings_of_other_launchers() {
    let (job, ignored) = plan(
        "--allow-run-as-root --oversubscribe --bind-to none --bind-to core -genv C=3 -genv B 2 --mca btl self,sm \
         -hosts localhost --timeout 5 -l -n 4 hostname",
    );
    assert_eq!(job.applications[0].processes, 4);
    assert_eq!(job.applications[0].variables[OsStr::new("B")], "2");
    assert_eq!(job.applications[0].variables[OsStr::new("C")], "3");
    assert_eq!(job.output.tag, LineTag::Rank);
    assert_eq!(job.timeout, Some(Duration::from_secs(5)));
    assert_eq!(job.policy.bind, Bind::To(Kind::Core));
    assert_eq!(ignored, ["--mca btl"]);
}

#[test]
fn numbers_of_processes() {
    let processes = |line| plan(line).0.applications[0].processes;
    assert_eq!(processes("-n 8 -N 4 a"), 8);
    assert_eq!(processes("-N 4 a"), 4);
    assert_eq!(processes("-np=3 a"), 3);
    assert_eq!(processes("a"), sys::cores::usable() as u32);
    assert_eq!(plan("a : b").0.applications[1].processes, 1);
}

#[test]
fn both_ways_to_share_slots_are_the_same() {
    for line in ["--oversubscribe", "--map-by :oversubscribe", "--oversubscribe --map-by slot"] {
        let (job, _) = plan(&format!("{line} --bind-to core -n 9 a"));
        assert!(job.oversubscribe && job.policy.overload.by_mapping, "{line}");
    }
    let (job, _) = plan("--bind-to core -n 9 a");
    assert!(!job.oversubscribe && !job.policy.overload.by_mapping);
}

#[test]
fn hosts_and_their_slots() {
    let of = |line| plan(line).0.applications;
    assert_eq!(of("--hosts a:2,b:3 p")[0].processes, 5);
    assert_eq!(of("--hosts a,b -N 3 p")[0].processes, 6);
    assert_eq!(of("-H localhost p")[0].processes, sys::cores::usable() as u32);
    assert_eq!(of("-H far p")[0].processes, 1);
    let shared = of("-n 1 p : -n 1 -H a q : -n 2 -H b r : -n 1 s");
    let names: Vec<_> =
        shared.iter().map(|app| app.hosts.first().map_or("-", |h| &h.name)).collect();
    assert_eq!(names, ["-", "a", "b", "a"]);
    let (job, _) = plan("--hosts a:2 --oversubscribe -ppn 4 p");
    assert!(job.oversubscribe && job.applications[0].per_host == Some(4));
    let (job, ignored) = plan("--map-by node:oversubscribe --hosts a,b p");
    assert!(job.in_turn && job.oversubscribe && ignored.is_empty());
    let (job, _) = plan("--map-by ppr:3:node --map-by core --hosts a,b p");
    assert_eq!(job.applications[0].processes, 6);
    assert_eq!(job.policy.mapping, ProcessMapping::Levels(vec![Kind::Core]));
    let words: Vec<OsString> = ["--launch-agent", "a  b", "p"].map(OsString::from).into();
    let Ok(RunRequest::Job { plan, .. }) = parse(&words) else { panic!() };
    assert_eq!(plan.access, HostAccess::Shell(vec!["a".into(), "b".into()]));
}

#[test]
fn words_of_the_program_are_not_touched() {
    let (plan, _) = plan("-n 1 -- -odd -n 2 --timeout");
    assert_eq!(plan.applications[0].program, "-odd");
    assert_eq!(plan.applications[0].arguments, ["-n", "2", "--timeout"]);
    let broken = OsString::from_vec(vec![0xff, b'=']);
    let words = ["-x".into(), "A=".into(), "p".into(), broken.clone()];
    let Ok(RunRequest::Job { plan, .. }) = parse(&words) else { panic!() };
    assert_eq!(plan.applications[0].arguments, [broken]);
    assert_eq!(plan.applications[0].variables[OsStr::new("A")], "");
}

#[test]
fn a_word_is_the_file_of_a_profile_by_its_ending() {
    let target = |line| {
        let application = plan(line).0.applications.remove(0);
        let target = application.variables[OsStr::new(variables::PROFILE)].clone();
        (target.to_string_lossy().into_owned(), application.program)
    };
    assert_eq!(target("--profile ./a b.json"), ("page".to_owned(), "./a".into()));
    assert_eq!(target("--profile /b.json ./a"), ("/b.json".to_owned(), "./a".into()));
    assert_eq!(target("--profile=/b.html ./a"), ("/b.html".to_owned(), "./a".into()));
    assert!(error("--profile=b.txt a").contains("ends in .json or .html"));
}

#[test]
fn a_spawned_job_has_files_of_its_own() {
    for (file, own) in [
        ("/a/run.pftrace", "/a/run.job7.pftrace"),
        ("/a.b/run", "/a.b/run.job7"),
        ("run.of.json", "run.of.job7.json"),
    ] {
        assert_eq!(reports::own_file(Path::new(file), 7), Path::new(own));
    }
}

#[test]
fn faults_are_told() {
    assert!(error("-n 0 a").contains("number of processes"));
    assert!(error("-n").contains("needs a value"));
    assert!(error("-x =1 a").contains("name of a variable"));
    assert!(error("--timeout -1 a").contains("seconds"));
    assert!(error("--timeout 1w a").contains("with a unit (90s, 5m, 2h, 1d)"));
    assert!(error("--timeout s a").contains("with a unit"));
    assert!(error("--mca orte_default_hostfile /none a").contains("/none"));
    assert!(error("-n 2 a : -n 2").contains("no program"));
    assert!(error("").contains("no program"));
    assert!(error("--").contains("no program"));
    assert!(error("--timout 3 a").contains("did you mean --timeout"));
    assert!(error("-n 2").contains("no program"));
    assert!(error("-host a:x p").contains("number of slots"));
    assert!(error("-host a -H b p").contains("named before"));
    assert!(error("--launch-agent= p").contains("needs a command"));
    assert!(error("--hosts a:0 p").contains("with -n"));
    assert!(error("--map-by moon p").contains("does not accept the level \"moon\""));
    assert!(error("--bind-to moon p").contains("does not accept \"moon\""));
    assert!(error("-bind-to user:0,x p").contains("but got \"x\""));
    assert!(error("-bind-to user:0:1 p").contains("as in user:0+1,2+3"));
    assert!(error("--topology core:2 p").contains("--dry-run"));
    assert!(error("--rankfile /nonexistent p").contains("cannot be read"));
}

#[test]
fn a_width_of_the_launch_tree_is_a_number_of_hosts() {
    assert_eq!(launch_width(" 3 "), Ok(NonZeroUsize::new(3).unwrap()));
    for wrong in ["", "0", "-1", "x", "1.5"] {
        let message = launch_width(wrong).unwrap_err();
        assert!(message.contains("COMBRAY_LAUNCH_WIDTH needs a number of hosts"), "{message}");
    }
}

#[test]
fn options_that_scripts_of_other_launchers_have_are_accepted() {
    for (limit, seconds) in [("60s", 60), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("7", 7)] {
        let (plan, _) = plan(&format!("--timeout {limit} a"));
        assert_eq!(plan.timeout, Some(Duration::from_secs(seconds)), "{limit}");
    }
    let (plan, _) = plan("-launcher fork --prefix /opt/openmpi -n 2 -bind-to rr a");
    assert_eq!(plan.access, HostAccess::Ssh);
    assert_eq!(plan.policy.bind, launcher::binding::Bind::To(topology::Kind::Thread));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "left slots=2\nright slots=3\n").unwrap();
    let (plan, _) =
        self::plan(&format!("--mca orte_default_hostfile {} -n 4 a", file.path().display()));
    assert_eq!(plan.applications[0].hosts.len(), 2);
}

#[test]
fn processes_are_bound_to_listed_hardware_threads() {
    let slots = |words: &str| {
        let (plan, _) = plan(words);
        plan.listed_slots.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(slots("-n 4 -bind-to user:0+2,1+4,3 a"), ["0,2", "1,4", "3"]);
    assert!(slots("-n 4 -bind-to user:0 --bind-to core a").is_empty(), "the last option wins");
    let machine = topology::Topology::described("package:2 core:2 pu:1").unwrap();
    let (plan, _) = plan("-n 4 -bind-to user:1+3,0 a");
    let places = launcher::preview(&plan, &machine).unwrap();
    let shown = places.iter().map(|one| one.cpuset.as_ref().unwrap().to_string());
    assert_eq!(shown.collect::<Vec<_>>(), ["1,3", "0", "1,3", "0"]);
    let (wrong, _) = self::plan("-n 1 -bind-to user:9 a");
    let message = launcher::preview(&wrong, &machine).unwrap_err().to_string();
    assert!(message.contains("rank 0 is to run on the hardware threads 9, but this"), "{message}");
}
