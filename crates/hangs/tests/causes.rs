//! Diagnoses of jobs that make no progress, and properties that hold for any job.

use hangs::{
    Awaited, CollectiveWait, CommunicatorName, JobReport, MessageWait, Outside, PortWait, Queue,
    RankAnswer, RankReport, ReturnedError, SpawnedReport, SpawnedStage, Stage, StagedData,
    WaitingCall, causes, stands_still, table,
};
use proptest::prelude::*;

fn world(size: u32) -> CommunicatorName {
    CommunicatorName { id: 0, name: "MPI_COMM_WORLD".into(), size }
}

fn message(peer: u32, tag: i32) -> MessageWait {
    MessageWait {
        communicator: world(4),
        peer: Some(peer),
        peers: vec![peer],
        tag: Some(tag),
        bytes: Some(4),
    }
}

fn rank(rank: u32, answer: Option<RankAnswer>) -> RankReport {
    RankReport {
        rank,
        host: "here".into(),
        process: 100 + rank as i32,
        stage: Stage::Inside,
        state: Some("running".into()),
        system_call: None,
        answer,
    }
}

fn waits(number: u32, function: &str, awaits: Awaited) -> RankReport {
    let call = WaitingCall { function: Some(function.into()), caller: None, seconds: 3.0, awaits };
    rank(number, Some(RankAnswer { calls: vec![call], ..RankAnswer::default() }))
}

fn receives(number: u32, peer: u32, tag: i32) -> RankReport {
    waits(number, "MPI_Recv", Awaited::Message(message(peer, tag)))
}

fn collective(number: u32, function: &str, sequence: i32, missing: &[u32]) -> RankReport {
    let wait = CollectiveWait {
        communicator: world(4),
        operation: function.into(),
        sequence,
        missing: missing.to_vec(),
    };
    waits(number, function, Awaited::Members(wait))
}

fn computes(number: u32) -> RankReport {
    let answer = RankAnswer { outside: Some(Outside::Computes(12.0)), ..RankAnswer::default() };
    rank(number, Some(answer))
}

fn first(ranks: &[RankReport]) -> String {
    causes(ranks).remove(0)
}

#[test]
fn two_that_receive_from_each_other() {
    let reported = first(&[receives(0, 1, 5), receives(1, 0, 6), computes(2)]);
    assert_eq!(
        reported,
        "ranks 0 and 1 wait for each other: rank 0 in MPI_Recv for tag 5 from rank 1, rank 1 in \
         MPI_Recv for tag 6 from rank 0"
    );
}

#[test]
fn a_message_of_another_tag_or_communicator() {
    let mut waiting = receives(0, 1, 5);
    let answer = waiting.answer.as_mut().unwrap();
    answer.unexpected = Queue { length: 1, first: vec![message(1, 6)] };
    let barrier = collective(1, "MPI_Barrier", 3, &[0]);
    let reported = first(&[waiting.clone(), barrier.clone()]);
    assert_eq!(
        reported,
        "rank 0 waits in MPI_Recv for tag 5 from rank 1; a message with tag 6 from it has arrived, \
         which no receive matches"
    );
    let other = CommunicatorName { id: 8, name: "library".into(), size: 2 };
    waiting.answer.as_mut().unwrap().unexpected.first[0].communicator = other;
    let reported = first(&[waiting.clone(), barrier]);
    assert!(reported.contains("with tag 6 on library (not MPI_COMM_WORLD) from it"), "{reported}");
    // A rank that computes may still send it.
    let reported = first(&[waiting, computes(1)]);
    assert_eq!(reported, "rank 0 waits for rank 1: it computes (no call of MPI for 12 s)");
}

fn returned(function: &str, unsent: Option<MessageWait>) -> ReturnedError {
    ReturnedError {
        function: function.into(),
        caller: Some("main (halo.c:7)".into()),
        class: "MPI_ERR_BUFFER".into(),
        detail: "no room".into(),
        times: 1,
        seconds: 4.0,
        communicator: Some(world(4)),
        unsent,
    }
}

#[test]
fn a_message_whose_send_failed() {
    let mut sender = collective(1, "MPI_Barrier", 3, &[0]);
    let failed = |sender: &mut RankReport, error| {
        sender.answer.as_mut().unwrap().errors = vec![error];
    };
    failed(&mut sender, returned("MPI_Bsend", Some(message(0, 5))));
    let reported = first(&[receives(0, 1, 5), sender.clone()]);
    assert_eq!(
        reported,
        "rank 0 waits in MPI_Recv for tag 5 from rank 1, and rank 1's MPI_Bsend of it returned \
         MPI_ERR_BUFFER 4.0 s ago (no room)"
    );
    let report = JobReport {
        job: 7,
        name: String::new(),
        program: "./halo".into(),
        seconds: 9.0,
        causes: vec![reported],
        ranks: vec![receives(0, 1, 5), sender.clone()],
        spawned: Vec::new(),
    };
    let row = "rank 1, MPI_Bsend with tag 5 to rank 0 on MPI_COMM_WORLD, 4 bytes: returned \
               MPI_ERR_BUFFER 4.0 s ago (no room); called by main (halo.c:7)\n";
    assert!(table(&report).contains(row), "{}", table(&report));
    // Another message, or one to another rank; or the error of a call that does not determine its
    // message.
    for other in [message(0, 6), message(2, 5)] {
        failed(&mut sender, returned("MPI_Bsend", Some(other)));
        let reported = first(&[receives(0, 1, 5), sender.clone()]);
        assert!(!reported.contains("MPI_Bsend"), "{reported}");
    }
    failed(&mut sender, returned("MPI_Isend", None));
    let reported = first(&[receives(0, 1, 5), sender.clone()]);
    assert!(
        reported.ends_with("and rank 1's MPI_Isend returned MPI_ERR_BUFFER 4.0 s ago (no room)")
    );
    failed(&mut sender, returned("MPI_Irecv", None));
    let reported = first(&[receives(0, 1, 5), sender]);
    assert!(!reported.contains("MPI_ERR_BUFFER"), "{reported}");
}

#[test]
fn a_member_whose_call_failed() {
    let mut other = computes(1);
    other.answer.as_mut().unwrap().errors = vec![returned("MPI_Bcast", None)];
    let reported = first(&[collective(0, "MPI_Bcast", 3, &[1]), other]);
    assert_eq!(
        reported,
        "rank 1 has not entered MPI_Bcast on MPI_COMM_WORLD, in which rank 0 waits: it computes (no \
         call of MPI for 12 s); its call returned MPI_ERR_BUFFER 4.0 s ago (no room)"
    );
}

#[test]
fn ranks_that_have_ended_or_are_about_to() {
    let ended = |how: &str| RankReport { stage: Stage::Ended(how.into()), ..rank(1, None) };
    let reported = first(&[receives(0, 1, 5), ended("was killed by SIGKILL")]);
    assert_eq!(
        reported,
        "rank 0 waits in MPI_Recv for tag 5 from rank 1, but rank 1 was killed by SIGKILL"
    );
    let reported = first(&[receives(0, 1, 5), collective(1, "MPI_Finalize", 0, &[0])]);
    assert_eq!(
        reported,
        "rank 0 waits in MPI_Recv for tag 5 from rank 1, but rank 1 is in MPI_Finalize"
    );
}

#[test]
fn members_that_have_not_entered() {
    let reported = first(&[
        collective(0, "MPI_Barrier", 3, &[1]),
        receives(1, 0, 9),
        collective(2, "MPI_Barrier", 3, &[0, 1]),
    ]);
    assert_eq!(
        reported,
        "rank 1 has not entered MPI_Barrier on MPI_COMM_WORLD, in which ranks 0 and 2 wait: it \
         waits in MPI_Recv for tag 9 from rank 0"
    );
    let reported =
        first(&[collective(0, "MPI_Bcast", 3, &[1]), collective(1, "MPI_Reduce", 4, &[0])]);
    assert!(reported.starts_with("different collective operations are called on MPI_COMM_WORLD"));
    let reported = first(&[collective(0, "MPI_Barrier", 3, &[1]), computes(1)]);
    assert!(reported.ends_with("in which rank 0 waits: it computes (no call of MPI for 12 s)"));
    // The wait of that rank itself is reported first.
    let reported = first(&[collective(0, "MPI_Barrier", 3, &[1]), receives(1, 2, 9), computes(2)]);
    assert_eq!(reported, "rank 1 waits for rank 2: it computes (no call of MPI for 12 s)");
}

#[test]
fn two_libraries_in_another_order() {
    let place = |name: &str, id| CommunicatorName { id, name: name.into(), size: 3 };
    let inside = |number, communicator, missing: &[u32]| {
        let (operation, missing) = ("MPI_Barrier".to_owned(), missing.to_vec());
        let wait = CollectiveWait { communicator, operation, sequence: 0, missing };
        waits(number, "MPI_Barrier", Awaited::Members(wait))
    };
    let ranks = [
        inside(0, place("solver", 8), &[1, 2]),
        inside(1, place("output", 16), &[0]),
        inside(2, place("output", 16), &[0]),
    ];
    assert_eq!(
        causes(&ranks),
        ["collective operations of two communicators are called in different order: rank 0 waits \
          in MPI_Barrier on solver, ranks 1 and 2 in MPI_Barrier on output"]
    );
}

#[test]
fn receives_from_anybody_and_locks() {
    let any = MessageWait { peer: None, peers: vec![0, 1], ..message(0, 5) };
    let waiting = |number| waits(number, "MPI_Recv", Awaited::Message(any.clone()));
    assert_eq!(
        first(&[waiting(0), waiting(1)]),
        "ranks 0 and 1 wait for a message from any rank (rank 0 in MPI_Recv for tag 5 from any \
         rank), and all ranks that could send one wait or have ended"
    );
    assert!(first(&[waiting(0), computes(1)]).starts_with("rank 0 waits for rank 1: it computes"));
    let locks = |number| waits(number, "MPI_Win_lock", Awaited::Window(0));
    assert_eq!(
        first(&[locks(0), locks(1), collective(2, "MPI_Barrier", 1, &[0])]),
        "ranks 0 and 1 wait in MPI_Win_lock for access to memory of rank 0, whose lock other ranks \
         hold"
    );
}

#[test]
fn an_operation_that_was_begun_is_named() {
    let begun = |number, missing: &[u32]| {
        let mut waiting = collective(number, "MPI_Barrier", 3, missing);
        waiting.answer.as_mut().unwrap().calls[0].function = Some("MPI_Wait".into());
        waiting
    };
    let reported = first(&[begun(0, &[1]), receives(1, 0, 9)]);
    let start = "rank 1 has not entered MPI_Barrier (begun before MPI_Wait) on MPI_COMM_WORLD";
    assert!(reported.starts_with(start), "{reported}");
}

#[test]
fn a_stopped_rank_is_reported_first() {
    let stopped = RankReport { state: Some("stopped".into()), ..rank(1, None) };
    let reported = first(&[receives(0, 1, 5), stopped]);
    assert_eq!(
        reported,
        "rank 1 (process 101 on here) was stopped by a signal; rank 0 waits for it; kill -CONT 101 \
         lets it go on"
    );
}

#[test]
fn a_process_that_does_not_answer_is_reported_by_what_the_system_says() {
    let silent = RankReport {
        state: Some("sleeping".into()),
        system_call: Some("do_nanosleep".into()),
        ..rank(1, None)
    };
    let reported = first(&[receives(0, 1, 5), silent]);
    assert_eq!(
        reported,
        "rank 0 waits for rank 1: it did not answer; its state in the kernel: sleeping in do_nanosleep"
    );
}

#[test]
fn a_job_stands_still_when_no_rank_goes_on() {
    let stopped = RankReport { state: Some("stopped".into()), ..rank(1, None) };
    let ended = RankReport { stage: Stage::Ended("has ended".into()), ..rank(2, None) };
    let both = [receives(0, 1, 5), stopped, ended.clone()];
    assert!(stands_still(&both, 3.0) && !stands_still(&both, 3.5));
    assert!(!stands_still(&[receives(0, 1, 5), computes(1)], 1.0));
    assert!(!stands_still(&[receives(0, 1, 5), rank(1, None)], 1.0));
    assert!(!stands_still(&[ended], 1.0));
}

#[test]
fn jobs_that_go_on_have_no_cause() {
    assert_eq!(first(&[computes(0), computes(1)]), "no rank has waited for long");
    assert_eq!(first(&[]), "no rank has waited for long");
}

#[test]
fn waits_for_other_jobs() {
    let first_of = |function: &str, wait| {
        // The other members wait for the root, in a step of the same call.
        first(&[waits(0, function, Awaited::OtherJob(wait)), collective(1, function, 2, &[0])])
    };
    let start = |count| PortWait::Start(count, "./child".to_owned());
    let cases = [
        ("MPI_Comm_accept", PortWait::Connection, "no process of another job has connected"),
        ("MPI_Comm_connect", PortWait::Acceptance, "that has opened the port does not accept"),
        ("MPI_Comm_spawn", start(1), "the process of ./child has not called MPI_Init"),
        ("MPI_Comm_spawn", start(3), "not all 3 processes of ./child have called MPI_Init"),
    ];
    for (function, wait, expected) in cases {
        let reported = first_of(function, wait);
        let begin = format!("rank 0 waits in {function}: ");
        assert!(reported.starts_with(&begin) && reported.contains(expected), "{reported}");
    }
}

#[test]
fn the_table_ends_with_spawned_jobs() {
    let spawned = |job, stage, spawned| SpawnedReport {
        job,
        host: "n2".into(),
        program: "./child".into(),
        ranks: 2,
        hosts: vec!["n2".into(), "n3".into()],
        seconds: 3.0,
        stage,
        spawned,
    };
    let inner = spawned(9, SpawnedStage::BeforeInit, Vec::new());
    let report = JobReport {
        job: 7,
        name: String::new(),
        program: "./a".into(),
        seconds: 3.0,
        causes: Vec::new(),
        ranks: vec![computes(0)],
        spawned: vec![spawned(8, SpawnedStage::Independent, vec![inner])],
    };
    let expected = "spawned job 8 on n2: ./child, 2 ranks on n2, n3, independent, for 3.0 s\n  \
                    spawned job 9 on n2: ./child, 2 ranks on n2, n3, not all have called \
                    MPI_Init, for 3.0 s\n";
    assert!(table(&report).ends_with(expected), "{}", table(&report));
}

#[test]
fn the_table_has_a_row_for_each_rank_and_the_queues() {
    let mut waiting = receives(0, 1, 5);
    waiting.answer.as_mut().unwrap().unexpected = Queue { length: 9, first: vec![message(1, 6)] };
    let ranks = vec![waiting, computes(1)];
    let report = JobReport {
        job: 7,
        name: String::new(),
        program: "./a".into(),
        seconds: 3.0,
        causes: causes(&ranks),
        ranks,
        spawned: Vec::new(),
    };
    let text = table(&report);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], report.causes[0]);
    assert_eq!(lines[1], "job 7: ./a, 2 ranks, for 3.0 s");
    assert!(lines[3].contains("MPI_Recv") && lines[3].contains("tag 5 from rank 1"), "{text}");
    assert!(lines[4].contains("computes (running)"), "{text}");
    assert_eq!(
        lines[5],
        "rank 0, arrived, not received: tag 6 from rank 1 on MPI_COMM_WORLD, 4 bytes; and 8 more"
    );
    let same: JobReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(same, report);
}

/// Generates a rank of any kind in a job of `size`.
fn any_rank(number: u32, size: u32) -> impl Strategy<Value = RankReport> {
    (0..8u32, 0..size, 0..4i32, prop::collection::vec(0..size + 2, 0..4)).prop_map(
        move |(kind, peer, tag, missing)| match kind {
            0 | 1 => receives(number, peer, tag),
            2 => collective(number, "MPI_Barrier", tag, &missing),
            3 => computes(number),
            4 => rank(number, None),
            5 => RankReport { stage: Stage::Ended("has ended".into()), ..rank(number, None) },
            6 => waits(number, "MPI_Send", Awaited::Taken(message(peer, tag))),
            _ => waits(number, "MPI_Win_lock", Awaited::Unknown),
        },
    )
}

fn any_job() -> impl Strategy<Value = Vec<RankReport>> {
    (1..12u32).prop_flat_map(|size| {
        (0..size).map(|number| any_rank(number, size).boxed()).collect::<Vec<_>>()
    })
}

proptest! {
    /// For any reports the diagnosis is not empty, and it is deterministic.
    #[test]
    fn something_is_said_of_any_job(ranks in any_job()) {
        let reported = causes(&ranks);
        prop_assert!(!reported.is_empty() && reported.iter().all(|sentence| !sentence.is_empty()));
        prop_assert_eq!(&reported, &causes(&ranks));
        let report = JobReport { job: 1, name: String::new(), program: "a".into(), seconds: 1.0, causes: reported, ranks, spawned: Vec::new() };
        prop_assert!(table(&report).lines().count() > report.ranks.len());
    }

    /// A cycle is found in any position, and all named ranks belong to it.
    #[test]
    fn a_cycle_is_found(order in Just((0..12u32).collect::<Vec<_>>()).prop_shuffle(), length in 2..12usize) {
        let cycle = &order[..length];
        let next = |number: u32| {
            let place = cycle.iter().position(|&one| one == number)?;
            Some(cycle[(place + 1) % length])
        };
        let ranks: Vec<RankReport> = (0..12)
            .map(|number| match next(number) {
                Some(next) => receives(number, next, 1),
                // The others wait for a rank of the cycle.
                None => receives(number, cycle[0], 2),
            })
            .collect();
        let reported = first(&ranks);
        if length == 2 {
            prop_assert!(reported.contains("wait for each other"), "{}", reported);
        } else {
            let start = format!("{length} ranks wait for each other in a cycle");
            prop_assert!(reported.starts_with(&start), "{}", reported);
        }
        let names = reported.split([';']).next().unwrap_or_default();
        let named = names.split(|letter: char| !letter.is_ascii_digit()).skip(1);
        for number in named.filter_map(|word| word.parse::<u32>().ok()).take(length) {
            prop_assert!(cycle.contains(&number) || number as usize == length, "{}", reported);
        }
    }

    /// If all ranks wait, directly or not, for one that computes, no cycle is reported.
    #[test]
    fn a_process_that_computes_may_go_on(size in 2..12u32, offset in 0..11u32) {
        let last = offset % size;
        let ranks: Vec<RankReport> = (0..size)
            .map(|number| match number == last {
                true => computes(number),
                false => receives(number, (number + 1) % size, 1),
            })
            .collect();
        let reported = first(&ranks);
        let start = format!("rank {} waits for rank {last}", (last + size - 1) % size);
        prop_assert!(reported.starts_with(&start), "{}", reported);
    }
}

#[test]
fn the_table_shows_device_memory_that_went_through_the_processor() {
    let staged = StagedData { messages: 3, reason: "cuIpcGetMemHandle returned X".to_owned() };
    let answer = RankAnswer { staged: Some(staged), ..RankAnswer::default() };
    let report = JobReport {
        job: 7,
        name: String::new(),
        program: "./a".into(),
        seconds: 3.0,
        causes: Vec::new(),
        ranks: vec![rank(0, Some(answer)), computes(1)],
        spawned: Vec::new(),
    };
    let text = table(&report);
    let line = "rank 0, device memory of 3 messages went through memory of the processor: \
                cuIpcGetMemHandle returned X";
    assert!(text.contains(line) && !text.contains("rank 1, device"), "{text}");
}
