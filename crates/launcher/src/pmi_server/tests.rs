//! Tests of the PMI server.

use std::time::Duration;

use super::*;

use proptest::prelude::*;

fn request(server: &mut PmiServer, rank: u32, line: &str) -> Vec<String> {
    let line = format!("{line}\n");
    let answer = |action| match action {
        PmiAction::Answer(rank, text) => format!("{rank}: {text}"),
        other => format!("{other:?}"),
    };
    server.receive(rank, line.as_bytes()).into_iter().map(answer).collect()
}

#[test]
fn a_job_of_two() {
    let mut server = PmiServer::new(&[0, 1], 2);
    assert_eq!(server.mpi_state(0), MpiState::Uninitialized);
    let hello = request(&mut server, 0, "cmd=init pmi_version=1 pmi_subversion=1");
    let all = "pmi_version=1 pmi_subversion=1 rc=0 kvsname=combray kvsname_max=64 keylen_max=64 \
               vallen_max=65537 appnum=0 size=2 PMI_process_mapping=(vector,(0,1,2))";
    assert_eq!(hello, [format!("0: cmd=response_to_init {all}")]);
    assert_eq!(request(&mut server, 1, "cmd=get_appnum"), ["1: cmd=appnum appnum=1"]);
    let put = request(&mut server, 0, "cmd=put kvsname=combray key=a value=b=c");
    assert_eq!(put, ["0: cmd=put_result rc=0 msg=success"]);
    assert!(request(&mut server, 0, "cmd=barrier_in").is_empty());
    let out = request(&mut server, 1, "cmd=barrier_in");
    assert_eq!(out, ["0: cmd=barrier_out", "1: cmd=barrier_out"]);
    let got = request(&mut server, 1, "cmd=get kvsname=combray key=a");
    assert_eq!(got, ["1: cmd=get_result rc=0 msg=success value=b=c"]);
    let missing = request(&mut server, 1, "cmd=get kvsname=combray key=z");
    assert_eq!(missing, ["1: cmd=get_result rc=-1 msg=key_not_found"]);
    assert_eq!(request(&mut server, 0, "cmd=finalize"), ["0: cmd=finalize_ack"]);
    assert_eq!(
        (server.mpi_state(0), server.mpi_state(1)),
        (MpiState::Finalized, MpiState::Uninitialized)
    );
    assert_eq!(request(&mut server, 1, "cmd=abort exitcode=7"), ["Abort(1, 7, None)"]);
    assert_eq!(
        request(&mut server, 1, "cmd=abort exitcode=7 combray_reason=no%20more"),
        ["Abort(1, 7, Some(\"no more\"))"]
    );
    let reported = request(&mut server, 1, "cmd=get kvsname=combray key=combray-reasons");
    assert_eq!(reported, ["1: cmd=get_result rc=0 msg=success value=1"]);
    assert_eq!(request(&mut server, 1, "hello"), ["ProtocolError(1, \"hello\")"]);
    assert!(request(&mut server, 1, "cmd=get_appnum").is_empty());
}

#[test]
fn the_wanted_number_of_processes_is_returned_from_when_it_is_set() {
    let mut server = PmiServer::new(&[0, 0], 2);
    let none = request(&mut server, 1, "cmd=get kvsname=combray key=combray-wanted-2");
    assert_eq!(none, ["1: cmd=get_result rc=-1 msg=key_not_found"]);
    assert_eq!(server.reported_size(), Some(2));
    server.set_wanted_size(WantedSize { processes: 4, hosts: "a:1,b".to_owned() });
    let wanted = request(&mut server, 0, "cmd=get kvsname=combray key=combray-wanted-3");
    assert_eq!(wanted, ["0: cmd=get_result rc=0 msg=success value=4@a:1,b"]);
    assert_eq!(server.reported_size(), Some(3));
}

#[test]
fn values_are_waited_for_without_a_barrier() {
    let mut server = PmiServer::new(&[0; 3], 3);
    let get = |key: &str, of: &str| format!("cmd=get kvsname=combray key={key} publisher={of}");
    let publish = |value: &str| format!("cmd=publish card={value} place=7");
    let put = |rank: u32| format!("{rank}: cmd=put_result rc=0 msg=success");
    let got =
        |rank: u32, value: &str| format!("{rank}: cmd=get_result rc=0 msg=success value={value}");
    // Requests that are sent together are answered in their order.
    let both = format!("{}\n{}\ncmd=get_appnum", publish("a"), get("card-1", "1"));
    assert_eq!(request(&mut server, 0, &both), [put(0)]);
    let all = format!("{}\n{}", publish("b"), get("combray-all-card", "all"));
    let appnum = "0: cmd=appnum appnum=0".to_owned();
    assert_eq!(request(&mut server, 1, &all), [put(1), got(0, "b"), appnum]);
    assert_eq!(
        request(&mut server, 2, &publish("c")),
        [put(2), got(1, "a\u{1f}b\u{1f}c")],
        "the last process lets all go on"
    );
    assert_eq!(request(&mut server, 2, &get("card-0", "0")), [got(2, "a")]);
    let missing = request(&mut server, 2, &get("other-0", "0"));
    assert_eq!(missing, ["2: cmd=get_result rc=-1 msg=key_not_found"]);
    // The next program of rank 0 waits for the next programs of the others.
    assert_eq!(request(&mut server, 0, &publish("d")), [put(0)]);
    assert!(request(&mut server, 0, &get("card-2", "2")).is_empty());
    assert_eq!(request(&mut server, 1, &get("card-2", "2")), [got(1, "c")]);
    assert_eq!(request(&mut server, 2, &publish("e")), [put(2), got(0, "e")]);
}

#[test]
fn nothing_is_waited_for_that_a_process_will_not_publish() {
    let get = |of: u32| format!("cmd=get kvsname=combray key=card-{of} publisher={of}\n");
    let all = "cmd=get kvsname=combray key=combray-all-card publisher=all\n";
    // A process that ends, before or after it is waited for.
    for on_missing in [OnMissing::EndJob, OnMissing::FailBarrier] {
        let mut server = PmiServer::new(&[0; 4], 4).with_missing(on_missing);
        let outcome = |waiting: u32| match on_missing {
            OnMissing::EndJob => PmiAction::MissingProcess { waiting, gone: 2 },
            OnMissing::FailBarrier => {
                PmiAction::Answer(waiting, "cmd=get_result rc=-1 msg=key_not_found".to_owned())
            }
        };
        assert!(server.receive(0, get(2).as_bytes()).is_empty());
        assert!(server.receive(1, all.as_bytes()).is_empty());
        assert_eq!(server.close(2), [outcome(0), outcome(1)]);
        assert_eq!(server.receive(3, get(2).as_bytes()), [outcome(3)]);
        assert_eq!(server.receive(3, all.as_bytes()), [outcome(3)]);
    }
    // A process that was ended alone, and one of another library.
    let mut server = PmiServer::new(&[0; 3], 3).with_missing(OnMissing::FailBarrier);
    assert!(server.receive(0, get(1).as_bytes()).is_empty());
    let abort = "cmd=abort exitcode=3 combray_ranks=1";
    assert!(request(&mut server, 1, abort)[0].contains("key_not_found"));
    assert!(server.receive(0, get(2).as_bytes()).is_empty());
    assert!(request(&mut server, 2, "cmd=barrier_in")[0].contains("key_not_found"));
}

#[test]
fn a_process_that_has_finalized_or_ended_has_left() {
    let mut server = PmiServer::new(&[0; 3], 3);
    server.receive(0, b"cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n");
    server.close(1);
    for (rank, left) in [(0, true), (1, true), (2, false), (7, false)] {
        let line = format!("cmd=get kvsname=combray key=combray-left-{rank}");
        assert_eq!(request(&mut server, 2, &line)[0].contains("rc=0"), left, "{rank}");
    }
}

#[test]
fn a_barrier_without_a_process_fails_where_the_job_goes_on() {
    let mut server = PmiServer::new(&[0; 3], 3).with_missing(OnMissing::FailBarrier);
    request(&mut server, 0, "cmd=barrier_in");
    let failed = |rank: u32, gone: u32| {
        PmiAction::Answer(rank, format!("cmd=barrier_out rc=-1 msg=missing_process_{gone}"))
    };
    assert_eq!(server.close(2), [failed(0, 2)]);
    assert_eq!(server.receive(1, b"cmd=barrier_in\n"), [failed(1, 2)]);
    assert_eq!(server.receive(1, b"cmd=barrier_in\n"), [failed(1, 2)]);
    let mut is_reported = |key: &str| {
        let line = format!("cmd=get kvsname=combray key={key}");
        request(&mut server, 0, &line)[0].contains("rc=0")
    };
    assert!(is_reported(ENDED_KEY) && is_reported(&format!("{ENDED_KEY}-2")));
    assert!(!is_reported(&format!("{ENDED_KEY}-1")));
}

#[test]
fn a_barrier_costs_the_same_for_each_process_of_a_large_job() {
    const SIZE: u32 = 1 << 16;
    let mut server = PmiServer::new(&vec![0; SIZE as usize], SIZE);
    let begun = sys::usage::processor_time();
    for _ in 0..3 {
        let enter = |rank| server.receive(rank, b"cmd=barrier_in\n").len();
        assert_eq!((0..SIZE).map(enter).sum::<usize>(), SIZE as usize);
    }
    let spent = sys::usage::processor_time() - begun;
    println!("3 barriers of {SIZE} processes: {spent:?}");
    assert!(spent < Duration::from_secs(5), "{spent:?}");
}

#[test]
fn nobody_waits_for_one_that_sent_nonsense() {
    let mut server = PmiServer::new(&[0; 2], 2);
    request(&mut server, 0, "cmd=barrier_in");
    let actions = server.receive(1, &[b'x'; LINE_BYTES_MAX + 1]);
    let error = PmiAction::ProtocolError(1, "a line without end".to_owned());
    assert_eq!(actions, [error, PmiAction::MissingProcess { waiting: 0, gone: 1 }]);
    let mut server = PmiServer::new(&[0; 2], 2);
    request(&mut server, 1, "cmd=barrier_in");
    let long = server.receive(1, &[&[b'y'; 1000][..], b"\n"].concat());
    assert_eq!(long, [PmiAction::ProtocolError(1, "y".repeat(SHOWN_LETTERS_MAX))]);
    assert!(server.receive(0, b"cmd=barrier_in\n").len() == 1);
}

#[test]
fn nobody_waits_for_one_that_has_gone() {
    let stuck = |waiting, gone| [PmiAction::MissingProcess { waiting, gone }];
    let mut server = PmiServer::new(&[0, 0, 0], 3);
    assert!(server.close(1).is_empty());
    assert_eq!(server.receive(2, b"cmd=barrier_in\n"), stuck(2, 1));
    let mut server = PmiServer::new(&[0, 0], 2);
    assert!(request(&mut server, 1, "cmd=barrier_in").is_empty());
    assert_eq!(server.close(0), stuck(1, 0));
    let mut server = PmiServer::new(&[0, 0], 2);
    request(&mut server, 0, "cmd=barrier_in");
    request(&mut server, 1, "cmd=barrier_in");
    assert!(server.close(0).is_empty() && server.close(1).is_empty());
}

#[test]
fn some_are_ended_and_the_others_go_on() {
    let mut server = PmiServer::new(&[0; 5], 5);
    request(&mut server, 3, "cmd=barrier_in");
    request(&mut server, 2, "cmd=barrier_in");
    let ended = request(&mut server, 0, "cmd=abort exitcode=7 combray_ranks=0-1,3");
    assert_eq!(ended, ["End(0, [0, 1, 3], 7)"]);
    assert!(server.close(1).is_empty());
    let got = request(&mut server, 4, "cmd=get key=combray-ended");
    assert_eq!(got, ["4: cmd=get_result rc=0 msg=success value=1"]);
    let each: Vec<_> = (0..5)
        .map(|rank| request(&mut server, 4, &format!("cmd=get key=combray-ended-{rank}")))
        .map(|answer| answer[0].contains("value=1"))
        .collect();
    assert_eq!(each, [true, true, false, true, false]);
    let list = request(&mut server, 4, "cmd=get key=combray-ended-ranks");
    assert_eq!(list, ["4: cmd=get_result rc=0 msg=success value=0-1,3"]);
    assert_eq!(server.failures(), 3);
    let out = request(&mut server, 4, "cmd=barrier_in");
    assert_eq!(out, ["2: cmd=barrier_out", "4: cmd=barrier_out"]);
    request(&mut server, 4, "cmd=barrier_in");
    let last = request(&mut server, 4, "cmd=abort exitcode=1 combray_ranks=2");
    assert_eq!(last, ["End(4, [2], 1)", "4: cmd=barrier_out"]);
    assert!(server.close(4).is_empty());
    assert!(request(&mut server, 0, "cmd=barrier_in").is_empty(), "it does not wait for rank 4");
    for nonsense in ["5", "1-9", "2-1", "x", "1,"] {
        let line = format!("cmd=abort exitcode=1 combray_ranks={nonsense}");
        assert_eq!(request(&mut server, 4, &line), ["Abort(4, 1, None)"]);
    }
}

#[test]
fn the_values_of_all_ranks_are_one_value_if_they_fit() {
    let mut server = PmiServer::new(&[0; 3], 3);
    let put = |server: &mut PmiServer, rank: u32, value: &str| {
        request(server, rank, &format!("cmd=put key=card-{rank} value={value}"));
    };
    let all = |server: &mut PmiServer| request(server, 1, "cmd=get key=combray-all-card");
    put(&mut server, 0, "a");
    put(&mut server, 2, "c=d");
    let missing = ["1: cmd=get_result rc=-1 msg=key_not_found"];
    assert_eq!(all(&mut server), missing);
    put(&mut server, 1, "b");
    let success = ["1: cmd=get_result rc=0 msg=success value=a\u{1f}b\u{1f}c=d"];
    assert_eq!(all(&mut server), success);
    put(&mut server, 2, &"c".repeat(VALUE_BYTES_MAX - 5));
    assert_eq!(all(&mut server)[0].len(), success[0].len() - 3 + VALUE_BYTES_MAX - 5);
    put(&mut server, 2, &"c".repeat(VALUE_BYTES_MAX - 4));
    assert_eq!(all(&mut server), missing);
}

#[test]
fn a_long_mapping_has_no_single_value() {
    let places: Vec<usize> = (0..20_480).map(|rank| rank * 7919 % 10_007).collect();
    let mut server = PmiServer::new(&[0; 20_480], 20_480).with_mapping(&mapping::text(&places));
    let mut get = |key: &str| {
        request(&mut server, 0, &format!("cmd=get kvsname=combray key={key}")).remove(0)
    };
    assert!(get(mapping::KEY).contains("rc=-1"));
    assert!(get("combray-mapping-parts").ends_with(" value=4"));
    let last = get("combray-mapping-parts-3");
    assert!(last.ends_with("))") && last.len() < VALUE_BYTES_MAX + 64, "{}", last.len());
}

#[test]
fn the_space_of_keys_is_bounded() {
    let mut server = PmiServer::new(&[0, 0], 2);
    let put = |number: usize| format!("cmd=put kvsname=combray key=k{number} value=v");
    let refused = ["0: cmd=put_result rc=-1 msg=too_many_keys"];
    // One key belongs to the server.
    let last = 2 * KEYS_PER_PROCESS_MAX - 1;
    (0..last).for_each(|number| assert_ne!(request(&mut server, 0, &put(number)), refused));
    assert_eq!(request(&mut server, 0, &put(last)), refused);
    assert_ne!(request(&mut server, 0, &put(0)), refused);
}

#[test]
fn the_space_of_values_is_bounded() {
    let mut server = PmiServer::new(&[0], 1);
    let value = "v".repeat(VALUE_BYTES_MAX - 1);
    let put = |number: usize| format!("cmd=put kvsname=combray key=k{number} value={value}");
    let fitting = BYTES_PER_PROCESS_MAX / VALUE_BYTES_MAX;
    let success = ["0: cmd=put_result rc=0 msg=success"];
    (0..fitting).for_each(|number| assert_eq!(request(&mut server, 0, &put(number)), success));
    let refused = request(&mut server, 0, &put(fitting));
    assert_eq!(refused, ["0: cmd=put_result rc=-1 msg=too_many_bytes"]);
    let got = request(&mut server, 0, "cmd=get key=k0");
    assert_eq!(got, [format!("0: cmd=get_result rc=0 msg=success value={value}")]);
    let too_long = request(&mut server, 0, &(put(0) + "v"));
    assert_eq!(too_long, ["0: cmd=put_result rc=-1 msg=too_long"]);
}

proptest! {
    #[test]
    fn how_bytes_are_cut_does_not_matter(cuts in proptest::collection::vec(1_usize..9, 1..60)) {
        let text = "cmd=init pmi_version=1\ncmd=put key=k value=v\ncmd=get key=k\ncmd=finalize\n";
        let mut whole = PmiServer::new(&[0], 1);
        let expected = whole.receive(0, text.as_bytes());
        let (mut server, mut got, mut rest) = (PmiServer::new(&[0], 1), Vec::new(), text.as_bytes());
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            got.extend(server.receive(0, head));
            rest = tail;
        }
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn all_see_all_values_in_any_order_of_arrival(
        size in 1_usize..6,
        turns in proptest::collection::vec(any::<proptest::sample::Index>(), 200),
    ) {
        let mut server = PmiServer::new(&vec![0; size], size as u32);
        let script = |rank: usize| {
            let gets = (0..size).map(|other| format!("cmd=get key=card-{other}\n"));
            let put = format!("cmd=put key=card-{rank} value=of-{rank}\n");
            [put, "cmd=barrier_in\n".to_owned()].into_iter().chain(gets).collect::<Vec<_>>()
        };
        let mut scripts: Vec<_> = (0..size).map(|rank| script(rank).into_iter()).collect();
        // A process sends a line only after it has received the answer to the previous one.
        let mut received: Vec<Vec<String>> = vec![Vec::new(); size];
        let mut sent_rounds = vec![0; size];
        let in_turn = turns.iter().map(|turn| turn.index(size));
        for rank in in_turn.chain((0..size).cycle().take(size * (size + 2) * 2)) {
            if sent_rounds[rank] > received[rank].len() {
                continue;
            }
            let Some(line) = scripts[rank].next() else { continue };
            sent_rounds[rank] += 1;
            for action in server.receive(rank as u32, line.as_bytes()) {
                let PmiAction::Answer(to, text) = action else { panic!("{action:?}") };
                received[to as usize].push(text);
            }
        }
        for answers in received {
            let values: Vec<_> = answers[2..].iter().filter_map(|t| t.split("value=").nth(1)).collect();
            let expected: Vec<_> = (0..size).map(|rank| format!("of-{rank}")).collect();
            prop_assert_eq!(values, expected);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..6000)) {
        PmiServer::new(&[0], 1).receive(0, &bytes);
    }
}
