//! Tests of the client with scripted servers.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;

/// Joins a job of two processes whose server sends the scripted answers, one for each line that it
/// receives; an empty one is not sent.
fn job(answers: &'static [&'static str]) -> Result<Job, JoinError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        let mut writer = theirs.try_clone().unwrap();
        let mut lines = BufReader::new(theirs).lines();
        for answer in answers {
            let has_line = lines.next().is_some();
            if !has_line || !answer.is_empty() && writeln!(writer, "{answer}").is_err() {
                return;
            }
        }
    });
    let wire = Wire::new(File::from(OwnedFd::from(ours)))?;
    join_greeted(wire, 1, 2, "", [Version::One, Version::Two])
}

const GREETING: [&str; 5] = [
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=20",
    "cmd=my_kvsname kvsname=kvs_0",
    "cmd=appnum appnum=0",
    "cmd=universe_size size=-1",
];

#[test]
fn a_conversation() {
    static ANSWERS: [&str; 15] = [
        GREETING[0],
        GREETING[1],
        GREETING[2],
        GREETING[3],
        GREETING[4],
        "cmd=put_result rc=0 msg=success",
        "cmd=barrier_out",
        "cmd=get_result rc=0 msg=success value=card",
        "cmd=get_result rc=-1 msg=key_not_found",
        "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))",
        "cmd=get_result rc=-1 msg=key_not_found value=unknown",
        "cmd=get_result rc=0 msg=success value=(vector,)",
        "cmd=get_result rc=0 msg=success value=one",
        "cmd=get_result rc=0 msg=success value=two",
        "cmd=finalize_ack",
    ];
    let job = job(&ANSWERS).unwrap();
    assert_eq!((job.rank(), job.size()), (1, 2));
    assert_eq!((job.application_number(), job.universe_size()), (Some(0), None));
    job.put("a", "card").unwrap();
    assert!(job.put("a", "two words").is_err());
    assert!(job.put("a", &"x".repeat(20)).is_err());
    assert!(job.put(&"k".repeat(62), "1").unwrap_err().to_string().contains("the key"));
    job.barrier().unwrap();
    assert_eq!(job.get(0, "a").unwrap(), "card");
    assert!(job.get(0, "b").is_err());
    assert_eq!(job.process_mapping(), Ok(Some(vec![0, 1])));
    assert_eq!(job.process_mapping(), Ok(None));
    assert!(job.process_mapping().unwrap_err().to_string().contains("(vector,)"));
    job.cache("a", 0..2);
    job.finalize().unwrap();
    assert_eq!(job.get(1, "a").unwrap(), "two");
    let error = job.get(1, "b").unwrap_err().to_string();
    assert!(error.contains("disconnected") && error.contains("session"), "{error}");
    assert!(job.barrier().unwrap_err().to_string().contains("no longer answers"));
}

#[test]
fn our_own_launcher_is_asked_once_for_the_values_of_all_and_nothing_at_the_end() {
    static ANSWERS: [&str; 8] = [
        GREETING[0],
        GREETING[1],
        "cmd=my_kvsname kvsname=combray",
        GREETING[3],
        GREETING[4],
        "cmd=get_result rc=0 msg=success value=one\u{1f}two",
        // To the end of the exchange.
        "",
        "cmd=get_result rc=0 msg=success value=two",
    ];
    let job = job(&ANSWERS).unwrap();
    assert_eq!(job.get_all("a").unwrap(), ["one", "two"]);
    job.cache("a", 0..2);
    job.finalize().unwrap();
    assert_eq!(job.get(1, "a").unwrap(), "two");
}

#[test]
fn a_process_of_our_own_launcher_sends_two_requests_until_it_has_joined() {
    static ANSWERS: [&str; 4] = [
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0 kvsname=combray keylen_max=64 \
         vallen_max=65537 appnum=3 size=8 PMI_process_mapping=(vector,(0,2,1))",
        "cmd=put_result rc=0 msg=success",
        "cmd=get_result rc=0 msg=success value=first",
        "cmd=get_result rc=-1 msg=key_not_found",
    ];
    let job = job(&ANSWERS).unwrap();
    assert_eq!((job.application_number(), job.universe_size()), (Some(3), Some(8)));
    assert_eq!(job.process_mapping(), Ok(Some(vec![0, 1])));
    let key = |name: &str| name.to_owned();
    job.publish(&[(key("a"), key("one"))], &[(0, key("b")), (1, key("c"))]).unwrap();
    assert_eq!(job.get(0, "b").unwrap(), "first");
    assert!(job.get(1, "c").is_err());
    assert!(job.waits_for_values());
}

#[test]
fn a_launcher_that_cannot_send_the_values_of_all_is_asked_for_each() {
    static ANSWERS: [&str; 8] = [
        GREETING[0],
        GREETING[1],
        "cmd=my_kvsname kvsname=combray",
        GREETING[3],
        GREETING[4],
        "cmd=get_result rc=-1 msg=key_not_found",
        "cmd=get_result rc=0 msg=success value=one",
        "cmd=get_result rc=0 msg=success value=two",
    ];
    assert_eq!(job(&ANSWERS).unwrap().get_all("a").unwrap(), ["one", "two"]);
}

#[test]
fn the_processes_that_have_ended_are_one_answer() {
    static ANSWERS: [&str; 8] = [
        GREETING[0],
        GREETING[1],
        "cmd=my_kvsname kvsname=combray",
        GREETING[3],
        GREETING[4],
        "cmd=get_result rc=0 msg=success value=0",
        "cmd=get_result rc=-1 msg=key_not_found",
        "cmd=get_result rc=-1 msg=key_not_found",
    ];
    let job = job(&ANSWERS).unwrap();
    assert_eq!(job.ended_ranks(), [0]);
    assert!(job.ended_ranks().is_empty());
}

#[test]
fn nonsense_is_an_error() {
    assert!(job(&["hello"]).err().unwrap().to_string().contains("hello"));
    assert!(job(&[]).is_err());
    assert!(job(&["cmd=response_to_init rc=-1"]).is_err());
}

#[test]
fn an_answer_without_end_is_an_error() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let flood = thread::spawn(move || {
        let mut writer = theirs;
        while writer.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let mut wire = Wire::new(File::from(OwnedFd::from(ours))).unwrap();
    let error = wire.greet(Version::One).unwrap_err().to_string();
    assert!(error.contains("incomplete"), "{error}");
    drop(wire);
    flood.join().unwrap();
}

#[test]
fn what_this_process_opened_is_left_alone() {
    let file = File::open("/dev/null").unwrap();
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    let error = connection(descriptor).unwrap_err().to_string();
    assert!(error.contains("not inherited"), "{error}");
    assert!(file.metadata().is_ok());
    assert!(connection(-1).is_err());
}

#[test]
fn alone_one_finds_what_one_put() {
    let job = Job::new(Singleton::PLACE, Singleton::default());
    job.put("a", "1").unwrap();
    assert_eq!(job.get(0, "a").unwrap(), "1");
    assert!(job.get(0, "b").is_err());
    assert_eq!(job.process_mapping(), Ok(Some(vec![0])));
    job.barrier().unwrap();
    job.finalize().unwrap();
}
