//! Jobs that are slow for one reason, which the advice must name.

use profiles::{
    Advice, CallProfile, JobProfile, LentCores, PeerTotals, RankProfile, StagingProfile, WaitCause,
    WaitTotals,
};

/// Makes a rank that ran for 10 s, of which it spent `inside` in calls of one function, with these
/// waits.
fn rank(
    rank: u32,
    function: &str,
    inside: f64,
    waits: &[(WaitCause, Option<u32>, f64)],
) -> RankProfile {
    let waits = waits
        .iter()
        .map(|&(cause, peer, seconds)| WaitTotals { cause, peer, waits: 5, seconds })
        .collect();
    let call = CallProfile {
        function: function.to_owned(),
        caller: Some("step (model.c:40)".to_owned()),
        calls: 100,
        seconds: inside,
        waits,
        ..CallProfile::default()
    };
    RankProfile {
        rank,
        host: "n1".to_owned(),
        seconds: 10.0,
        processor_seconds: 10.0,
        calls: vec![call],
        ..RankProfile::default()
    }
}

fn causes(ranks: Vec<RankProfile>) -> Vec<String> {
    let job = JobProfile::of("./model".to_owned(), ranks);
    job.advice.iter().map(|one| one.cause.clone()).collect()
}

#[test]
fn one_rank_that_computes_longer_is_slow() {
    let others = |waited| [(WaitCause::Members, None, waited)];
    let slow = rank(2, "MPI_Allreduce", 0.1, &[]);
    let mut ranks: Vec<RankProfile> =
        [0, 1, 3].map(|number| rank(number, "MPI_Allreduce", 6.0, &others(5.9))).into();
    ranks.insert(2, slow);
    let job = JobProfile::of("./model".to_owned(), ranks);
    let first = &job.advice[0];
    assert_eq!(first.cause, "slow_rank");
    assert!(first.reason.starts_with("rank 2 computes 9.90 s, the others 4.00 s"), "{first:?}");
    assert!((first.seconds - 17.7).abs() < 1e-6, "{first:?}");
    let late = &job.late[0];
    assert_eq!((late.late, late.cause), (2, WaitCause::Members));
    assert!(
        job.page().contains("comes late, MPI_Allreduce in step (model.c:40)"),
        "{}",
        job.page()
    );
}

#[test]
fn a_process_that_had_no_processor_is_reported() {
    let mut slow = rank(1, "MPI_Barrier", 0.0, &[]);
    slow.processor_seconds = 4.0;
    let other = rank(0, "MPI_Barrier", 6.0, &[(WaitCause::Members, None, 6.0)]);
    let job = JobProfile::of("./model".to_owned(), vec![other, slow]);
    assert!(job.advice[0].reason.contains("it had a processor for only 40 %"), "{:?}", job.advice);
    assert!(job.advice[0].remedy.contains("the core of rank 1 (n1"), "{:?}", job.advice);
}

#[test]
fn too_few_cores_are_reported_before_their_consequences() {
    let others = |waited| [(WaitCause::Members, None, waited)];
    let mut ranks = vec![rank(0, "MPI_Allreduce", 0.1, &[])];
    ranks.extend((1..4).map(|number| rank(number, "MPI_Allreduce", 6.0, &others(5.9))));
    assert_eq!(causes(ranks.clone())[0], "slow_rank");
    for one in &mut ranks {
        (one.is_oversubscribed, one.processor_seconds) = (true, 5.0);
    }
    let job = JobProfile::of("./model".to_owned(), ranks);
    let first = &job.advice[0];
    assert_eq!(first.cause, "too_few_cores");
    assert!(first.reason.contains("more processes than cores on n1"), "{first:?}");
    assert!((first.seconds - 20.0).abs() < 1e-6, "{first:?}");
    assert_eq!(job.advice[1].cause, "slow_rank", "{:?}", job.advice);
}

/// Both forms of the report have the same causes, columns of times, and paragraphs.
#[test]
fn the_html_page_has_what_the_text_has() {
    let mut ranks: Vec<RankProfile> = (0..2)
        .map(|number| rank(number, "MPI_Barrier", 6.0, &[(WaitCause::Members, None, 3.0)]))
        .collect();
    ranks[0].sent = vec![PeerTotals { peer: 1, bytes: 4096, messages: 2 }];
    ranks[1].is_oversubscribed = true;
    ranks[1].lent = LentCores { lent_seconds: 5.0, times: 123, borrowed_seconds: 2.5 };
    let job = JobProfile::of("./model".to_owned(), ranks);
    let (text, html) = (job.page(), job.to_html());
    for both in [
        "more processes than cores on n1",
        "communicating",
        "on a core",
        "mostly for",
        "Messages: 2, 4096 bytes in all",
        "most from rank 0 to 1 4096 bytes in 2",
        "Inside the library: ",
        "the helper had a processor for",
        "Cores lent, in time of one core",
        "borrowed",
        "123",
        "25 %",
    ] {
        assert!(text.replace("\n  ", " ").contains(both), "{both}: {text}");
        assert!(html.replace("<br>  ", " ").contains(both), "{both}: {html}");
    }
    assert!(html.contains(&format!("Combray {}, on n1<", base::VERSION)), "{html}");
}

#[test]
fn ranks_that_work_one_after_the_other_are_a_chain() {
    let waits = |before: u32| [(WaitCause::LateSender, Some(before), 7.0)];
    let mut ranks = vec![rank(0, "MPI_Barrier", 7.5, &[(WaitCause::Members, None, 7.0)])];
    ranks.extend((1..4).map(|number| rank(number, "MPI_Recv", 7.5, &waits(number - 1))));
    let job = JobProfile::of("./model".to_owned(), ranks);
    assert_eq!(job.advice[0].cause, "chain", "{:?}", job.advice);
    assert!(job.advice[0].reason.starts_with("ranks 0, 1, 2 and 3 work one after the other"));
}

#[test]
fn late_ends_of_messages_are_distinguished() {
    let pair = |cause| {
        let waits = [(cause, Some(1), 4.0)];
        vec![rank(0, "MPI_Wait", 5.0, &waits), rank(1, "MPI_Wait", 5.0, &[])]
    };
    assert_eq!(causes(pair(WaitCause::LateReceiver)), ["late_receives"]);
    assert_eq!(causes(pair(WaitCause::LateSender)), ["late_sends"]);
}

#[test]
fn ranks_that_come_last_in_turn_are_no_slow_ones() {
    let ranks = (0..4)
        .map(|number| rank(number, "MPI_Barrier", 3.0, &[(WaitCause::Members, None, 2.9)]))
        .collect();
    assert_eq!(causes(ranks), ["imbalance"]);
}

#[test]
fn many_small_messages_are_reported_with_their_length() {
    let mut sender = rank(0, "MPI_Send", 4.0, &[]);
    sender.calls[0].messages = 4_000_000;
    sender.calls[0].bytes = 32_000_000;
    sender.sent = vec![PeerTotals { peer: 1, bytes: 32_000_000, messages: 4_000_000 }];
    sender.sizes = vec![0, 0, 0, 0, 4_000_000];
    let seconds = 1.0;
    let (cause, peer, waits) = (WaitCause::LateReceiver, Some(1), 100);
    sender.calls[0].waits = vec![WaitTotals { cause, peer, waits, seconds }];
    let job = JobProfile::of("./model".to_owned(), vec![sender, rank(1, "MPI_Recv", 4.0, &[])]);
    let first = &job.advice[0];
    assert_eq!(first.cause, "small_messages");
    assert!(first.reason.starts_with("4 000 000 messages of 8 bytes"), "{first:?}");
    assert!(job.advice.iter().all(|one| one.cause != "late_receives"), "{:?}", job.advice);
}

#[test]
fn a_process_that_ends_first_waits_for_the_last() {
    let mut early = rank(0, "MPI_Barrier", 0.0, &[]);
    early.seconds = 4.0;
    let job = JobProfile::of("./model".to_owned(), vec![early, rank(1, "MPI_Barrier", 0.0, &[])]);
    assert!((job.times[0].waiting - 6.0).abs() < 1e-9);
    assert_eq!(job.calls[0].function, "MPI_Finalize");
}

#[test]
fn nothing_is_reported_of_a_job_that_computes() {
    assert!(
        causes(vec![rank(0, "MPI_Barrier", 0.1, &[]), rank(1, "MPI_Barrier", 0.1, &[])]).is_empty()
    );
    assert!(causes(Vec::new()).is_empty());
}

#[test]
fn the_page_for_a_browser_holds_no_text_of_the_program_as_elements() {
    let mut one = rank(0, "MPI_Send", 1.0, &[(WaitCause::LateReceiver, Some(0), 0.5)]);
    one.calls[0].caller = Some("std::vector<int>::</script>".to_owned());
    one.sent = vec![PeerTotals { peer: 0, bytes: 5, messages: 1 }];
    let html = JobProfile::of("./a <b>".to_owned(), vec![one]).to_html();
    assert_eq!(html.matches("</script>").count(), 1);
    assert!(html.contains("Profile of ./a &lt;b&gt;") && !html.contains("http"), "{html}");
    let (_, data) = html.split_once("id=\"profile\">").unwrap();
    let data = data.split_once("</script>").unwrap().0;
    assert!(serde_json::from_str::<JobProfile>(data).is_ok());
}

#[test]
fn ranks_that_share_a_core_while_others_are_free_are_reported() {
    let on = |cores: [u32; 1], of: u32| -> Vec<String> {
        let ranks = (0..2).map(|number| RankProfile {
            cores: if number == 0 { vec![0] } else { cores.to_vec() },
            machine_cores: of,
            busy_threads: 1,
            ..rank(number, "MPI_Barrier", 3.0, &[(WaitCause::Members, None, 2.0)])
        });
        causes(ranks.collect())
    };
    assert_eq!(on([0], 4).first().map(String::as_str), Some("shared_core"));
    assert!(!on([0], 1).contains(&"shared_core".to_owned()), "no other core is there");
    assert!(!on([1], 4).contains(&"shared_core".to_owned()), "each has its own");
}

#[test]
fn pools_with_more_busy_threads_than_cores_are_named() {
    let using = |processor_seconds, threads: u32, machine_cores: u32, pools: &[(&str, &str)]| {
        let ranks = (0..2_u32).map(|number| RankProfile {
            cores: vec![2 * number, 2 * number + 1],
            machine_cores,
            busy_threads: threads,
            processor_seconds,
            helper_seconds: 0.5,
            pools: pools.iter().map(|(of, by)| ((*of).to_owned(), (*by).to_owned())).collect(),
            ..rank(number, "MPI_Barrier", 3.0, &[(WaitCause::Members, None, 1.0)])
        });
        JobProfile::of("./model".to_owned(), ranks.collect()).advice
    };
    // Two cores for 10 s, less the time of the helper and a little.
    let of =
        |threads, machine_cores, pools: &[(&str, &str)]| using(18.0, threads, machine_cores, pools);
    let pools = [("OpenBLAS", "OPENBLAS_NUM_THREADS"), ("OpenMP (libgomp)", "OMP_NUM_THREADS")];
    let found = of(8, 4, &pools);
    assert_eq!(found[0].cause, "thread_pools");
    let reason = "rank 1 has 8 busy threads for 2 cores, and these pools of threads: OpenBLAS, \
                  OpenMP (libgomp)";
    assert_eq!(found[0].reason, reason);
    assert!(found[0].remedy.contains("OPENBLAS_NUM_THREADS and OMP_NUM_THREADS"));
    let is_reported = |found: Vec<Advice>| found.iter().any(|one| one.cause == "thread_pools");
    assert!(!is_reported(of(2, 4, &pools)), "each thread has a core");
    assert!(!is_reported(of(8, 4, &[])), "the program's own threads");
    assert!(!is_reported(of(8, 8, &pools)), "other cores are free");
    // The library keeps one thread computing, and others at 2 % of the time.
    assert!(!is_reported(using(10.2, 3, 4, &pools)), "the cores have time left");
}

#[test]
fn staged_messages_are_reported_with_their_reason() {
    let mut one = rank(0, "MPI_Barrier", 3.0, &[]);
    let other = rank(1, "MPI_Barrier", 3.0, &[]);
    assert!(!causes(vec![one.clone(), other.clone()]).contains(&"staged_memory".to_owned()));
    one.staged = StagingProfile { count: 7, reason: "the driver refuses".to_owned() };
    let job = JobProfile::of("./model".to_owned(), vec![one, other]);
    let last = job.advice.last().unwrap();
    assert!(last.reason.contains("7 messages of rank 0") && last.reason.ends_with("refuses"));
    assert!(job.page().contains("the driver refuses.\n"), "its cost is not known");
}

#[test]
fn neighbours_on_different_hosts_are_reported_if_another_order_is_better() {
    let with = |hosts: [&str; 4]| -> Vec<String> {
        let ranks = (0..4_u32).map(|number| RankProfile {
            host: hosts[number as usize].to_owned(),
            sent: vec![PeerTotals { peer: number ^ 1, bytes: 1 << 30, messages: 9 }],
            ..rank(number, "MPI_Recv", 5.0, &[(WaitCause::LateSender, Some(number ^ 1), 4.0)])
        });
        causes(ranks.collect())
    };
    assert_eq!(with(["a", "b", "a", "b"]).first().map(String::as_str), Some("far_neighbours"));
    for good in [["a", "a", "b", "b"], ["a", "a", "a", "a"]] {
        assert!(!with(good).contains(&"far_neighbours".to_owned()), "{good:?}");
    }
}
