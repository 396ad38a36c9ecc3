//! Tests both sides of the protocol on bytes.

use proptest::prelude::*;
use topology::Kind;

use super::*;
use crate::access::{HostAccess, OwnHost};
use crate::binding::Bind;

fn start() -> Start {
    let program = ProgramStart {
        path: "./a".into(),
        arguments: vec!["-n".into(), OsString::new()],
        variables: vec![("A".into(), "1=2".into())],
        folder: Some("/home".into()),
    };
    let bare = ProgramStart { path: "b".into(), ..ProgramStart::default() };
    Start {
        job: "f00".to_owned(),
        size: 7,
        programs: vec![program, bare],
        ranks: vec![(0, 0), (3, 1)],
        policy: Policy { bind: Bind::To(Kind::Core), ..Policy::default() },
        reports_bindings: true,
        reports_pools: true,
        has_terminal: true,
        slots: vec![RankSlots::parse("0-3"), None, RankSlots::parse("1:0-2,4,0:*")],
        trace_bytes: 1 << 20,
    }
}

fn open(access: HostAccess) -> ConnectionOrder {
    let timeout = Duration::from_millis(2500);
    ConnectionOrder::Open(AgentStart { host: "far".to_owned(), access, timeout })
}

fn orders() -> Vec<AgentOrder> {
    vec![
        AgentOrder::Start(start()),
        AgentOrder::Input(b"text".to_vec()),
        AgentOrder::Input(Vec::new()),
        AgentOrder::Answer(3, "cmd=barrier_out".to_owned()),
        AgentOrder::ClosePmi(3),
        AgentOrder::Signal(None, 15),
        AgentOrder::Signal(Some(0), 9),
        AgentOrder::OutputCredit(OutputStream::Errors, 4096),
        AgentOrder::Heartbeat,
        AgentOrder::Ask,
        AgentOrder::PublishFailures(2),
        AgentOrder::SendTrace(3, 70),
        AgentOrder::Connection(4, open(HostAccess::Ssh)),
        AgentOrder::Connection(4, open(HostAccess::Shell(vec!["ssh".into(), "-p 9".into()]))),
        AgentOrder::Connection(4, open(HostAccess::Srun(OwnHost::Directly))),
        AgentOrder::Connection(4, ConnectionOrder::BeginHeartbeats),
        AgentOrder::Connection(4, ConnectionOrder::Send(b"order".to_vec())),
        AgentOrder::Connection(4, ConnectionOrder::Disconnect),
        AgentOrder::Connection(4, ConnectionOrder::KillCommand),
        AgentOrder::ToSpawned(2, b"{}".to_vec()),
        AgentOrder::Close,
    ]
}

fn reports() -> Vec<AgentReport> {
    vec![
        AgentReport::Heartbeat,
        AgentReport::Started(vec![70, 71]),
        AgentReport::Output(0, OutputStream::Errors, b"oh".to_vec()),
        AgentReport::PmiData(3, b"cmd=init\n".to_vec()),
        AgentReport::InputTaken(17),
        AgentReport::OutputClosed(3, OutputStream::Output),
        AgentReport::PmiClosed(3),
        AgentReport::Answer(0, LocalAnswer { process: 70, ..LocalAnswer::default() }),
        AgentReport::Answer(
            3,
            LocalAnswer {
                process: 71,
                state: Some("sleeping".to_owned()),
                kernel: Some("do_nanosleep".to_owned()),
                answer: Some(b"{}".to_vec()),
            },
        ),
        AgentReport::TracePart(3, TracePart { offset: 70, total: 74, bytes: b"part".to_vec() }),
        AgentReport::Connection(4, ConnectionEvent::Received(b"report".to_vec())),
        AgentReport::Connection(4, ConnectionEvent::ErrorOutput(b"no".to_vec())),
        AgentReport::Connection(4, ConnectionEvent::Silent),
        AgentReport::Connection(4, ConnectionEvent::Disconnected),
        AgentReport::Connection(4, ConnectionEvent::CommandEnded(End::Signal(9))),
        AgentReport::FromSpawned(2, b"{}".to_vec()),
        AgentReport::SpawnedClosed(2),
        AgentReport::Crashed(3, "in main".to_owned()),
        AgentReport::Ended(3, End::Signal(11)),
        AgentReport::Ended(0, End::Code(-1)),
    ]
}

fn bytes_of(orders: &[AgentOrder]) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(orders.iter().all(|order| order.emit(&mut bytes)));
    bytes
}

fn encoded(reports: &[AgentReport]) -> Vec<u8> {
    let mut bytes = greeting().into_bytes();
    assert!(reports.iter().all(|report| report.emit(&mut bytes)));
    bytes
}

/// Returns the parser for an agent to which 17 bytes of input were sent.
fn parser(ranks: &[u32]) -> ReportParser {
    let mut parser = ReportParser::new(ranks);
    parser.note_order(&AgentOrder::Input(vec![0; 17]));
    parser
}

fn decoded(ranks: &[u32], bytes: &[u8]) -> Result<Vec<AgentReport>, String> {
    let mut out = Vec::new();
    parser(ranks).receive(bytes, &mut out).map(|()| out)
}

fn obey(bytes: &[u8]) -> Result<Vec<AgentOrder>, String> {
    let mut out = Vec::new();
    OrderParser::default().receive(bytes, &mut out).map(|()| out)
}

#[test]
fn all_orders_and_reports_arrive() {
    assert_eq!(obey(&bytes_of(&orders())), Ok(orders()));
    assert_eq!(decoded(&[0, 3], &encoded(&reports())), Ok(reports()));
    let refused = [AgentReport::StartFailed("no".to_owned())];
    assert_eq!(decoded(&[0], &encoded(&refused)), Ok(refused.to_vec()));
}

#[test]
fn what_a_shell_prints_before_is_skipped() {
    let mut bytes = b"Welcome to the cluster!\n\x1b[0m".to_vec();
    let mut conversation = ReportParser::new(&[0]);
    conversation.receive(&bytes, &mut Vec::new()).unwrap();
    assert!(!conversation.has_greeted());
    assert!(conversation.foreign_output().starts_with(b"Welcome"));
    bytes.extend(encoded(&[AgentReport::Started(vec![9])]));
    assert_eq!(decoded(&[0], &bytes), Ok(vec![AgentReport::Started(vec![9])]));
    assert!(decoded(&[0], &[b'x'; 1 << 17]).unwrap_err().contains("a program other than"));
}

#[test]
fn another_version_is_reported() {
    let error = decoded(&[0], b"combray-agent/99 7.5.0\n").unwrap_err();
    assert!(error.contains("7.5.0") && error.contains("install one version"), "{error}");
    assert!(decoded(&[0], b"combray-agent/x\n").is_err());
}

#[test]
fn reports_that_make_no_sense_are_refused() {
    let ended = AgentReport::Ended(3, End::Code(0));
    let started = AgentReport::Started(vec![70, 71]);
    for wrong in [
        vec![AgentReport::InputTaken(1)],
        vec![ended.clone()],
        vec![AgentReport::Started(vec![70])],
        vec![AgentReport::Started(vec![70, 1])],
        vec![started.clone(), started.clone()],
        vec![started.clone(), AgentReport::StartFailed(String::new())],
        vec![started.clone(), AgentReport::PmiData(1, Vec::new())],
        vec![started.clone(), AgentReport::Output(4, OutputStream::Output, Vec::new())],
        vec![started.clone(), ended.clone(), ended.clone()],
        vec![started.clone(), AgentReport::InputTaken(18)],
        vec![started.clone(), AgentReport::InputTaken(10), AgentReport::InputTaken(8)],
        vec![AgentReport::StartFailed(String::new()), started],
    ] {
        assert!(decoded(&[0, 3], &encoded(&wrong)).is_err(), "{wrong:?}");
    }
}

#[test]
fn orders_that_make_no_sense_are_refused() {
    let first = AgentOrder::Start(start());
    for wrong in [
        vec![AgentOrder::Close],
        vec![first.clone(), first.clone()],
        vec![first.clone(), AgentOrder::Answer(1, String::new())],
        vec![first.clone(), AgentOrder::Signal(Some(2), 9)],
        vec![first.clone(), AgentOrder::Signal(None, 0)],
        vec![first, AgentOrder::Signal(None, -1)],
        vec![AgentOrder::Start(Start { ranks: vec![(7, 0)], ..start() })],
        vec![AgentOrder::Start(Start { ranks: vec![(0, 2)], ..start() })],
    ] {
        assert!(obey(&bytes_of(&wrong)).is_err(), "{wrong:?}");
    }
}

#[test]
fn what_may_not_be_sent_is_named_in_words() {
    let early = AgentReport::Output(0, OutputStream::Errors, b"rank 0: core 0".to_vec());
    let error = decoded(&[0], &encoded(&[early])).unwrap_err();
    assert_eq!(error, "output of a rank was sent before the processes were started");
    let error = obey(&bytes_of(&[AgentOrder::Close])).unwrap_err();
    assert_eq!(error, "the order to end was sent before the order to start processes");
}

#[test]
fn text_of_another_program_between_frames_is_shown() {
    let cancelled = "slurmstepd: error: *** STEP 4.0 ON box2 CANCELLED ***";
    for (text, expected) in [
        (format!("{cancelled}\n"), format!("another program wrote to it: {cancelled}")),
        (format!("\n{cancelled}\n"), format!("another program wrote to it: {cancelled}")),
        (
            "\u{1b}[31mred".into(),
            "the data is not a frame, or is a frame of 825449243 bytes".into(),
        ),
    ] {
        let mut bytes = encoded(&[]);
        bytes.extend_from_slice(text.as_bytes());
        assert_eq!(decoded(&[0], &bytes).unwrap_err(), expected);
    }
}

#[test]
fn what_is_too_long_is_not_sent() {
    let mut bytes = Vec::new();
    assert!(!AgentOrder::Input(vec![0; FRAME_BYTES_MAX]).emit(&mut bytes));
    assert!(bytes.is_empty());
}

proptest! {
    #[test]
    fn how_bytes_are_cut_does_not_matter(cuts in proptest::collection::vec(1_usize..40, 1..60)) {
        let mut conversation = parser(&[0, 3]);
        let (bytes, mut received) = (encoded(&reports()), Vec::new());
        let (orders_bytes, mut receiver, mut obeyed) = (bytes_of(&orders()), OrderParser::default(), Vec::new());
        let (mut rest, mut orders_rest) = (&bytes[..], &orders_bytes[..]);
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() && orders_rest.is_empty() {
                break;
            }
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            conversation.receive(head, &mut received).unwrap();
            rest = tail;
            let (head, tail) = orders_rest.split_at(cut.min(orders_rest.len()));
            receiver.receive(head, &mut obeyed).unwrap();
            orders_rest = tail;
        }
        prop_assert_eq!(received, reports());
        prop_assert_eq!(obeyed, orders());
    }

    #[test]
    fn both_ends_agree_on_what_may_be_sent(
        kinds in proptest::collection::vec(any::<proptest::sample::Index>(), 1..12)
    ) {
        let mut all = [reports(), vec![AgentReport::StartFailed("no".to_owned())]].concat();
        all.push(AgentReport::Output(1, OutputStream::Output, Vec::new()));
        let (mut sender, mut receiver) = (ReportRules::new([0, 3]), parser(&[0, 3]));
        sender.greet();
        sender.note_order(&AgentOrder::Input(vec![0; 17]));
        receiver.receive(greeting().as_bytes(), &mut Vec::new()).unwrap();
        for kind in &kinds {
            let (report, mut bytes, mut received) = (kind.get(&all), Vec::new(), Vec::new());
            report.emit(&mut bytes);
            let sent = sender.follow(report);
            prop_assert_eq!(&sent, &receiver.receive(&bytes, &mut received));
            if sent.is_err() {
                break;
            }
        }
        let all = [orders(), vec![AgentOrder::ClosePmi(1)]].concat();
        let (mut sender, mut receiver) = (OrderRules::default(), OrderParser::default());
        for kind in &kinds {
            let (order, mut bytes, mut received) = (kind.get(&all), Vec::new(), Vec::new());
            order.emit(&mut bytes);
            let sent = sender.follow(order);
            prop_assert_eq!(&sent, &receiver.receive(&bytes, &mut received));
            if sent.is_err() {
                break;
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let _ = decoded(&[0], &bytes);
        let _ = obey(&bytes);
        let _ = decoded(&[0], &[greeting().as_bytes(), &bytes].concat());
    }

    #[test]
    fn any_change_of_a_byte_is_survived(at in any::<proptest::sample::Index>(), to in any::<u8>()) {
        let mut bytes = encoded(&reports());
        let index = at.index(bytes.len());
        bytes[index] = to;
        let _ = decoded(&[0, 3], &bytes);
        let mut bytes = bytes_of(&orders());
        let index = at.index(bytes.len());
        bytes[index] = to;
        let _ = obey(&bytes);
    }
}

#[test]
fn an_agent_passes_on_all_but_heartbeats() {
    let mut bytes = b"Welcome!\n".to_vec();
    bytes.extend(encoded(&reports()));
    let mut expected = b"Welcome!\n".to_vec();
    let passed: Vec<AgentReport> =
        reports().into_iter().filter(|report| *report != AgentReport::Heartbeat).collect();
    expected.extend(encoded(&passed));
    for size in [1, 2, 3, 7, 50, 10_000] {
        let mut forwarded = ForwardedReports::default();
        let out: Vec<u8> = bytes.chunks(size).flat_map(|part| forwarded.receive(part)).collect();
        assert!(forwarded.has_greeted() && out == expected, "in parts of {size} bytes");
    }
}

#[test]
fn an_agent_passes_on_what_it_does_not_understand() {
    let garbage = [greeting().as_bytes(), &[0xff; 300]].concat();
    for bytes in [&[b'x'; 1 << 17][..], &garbage] {
        let mut forwarded = ForwardedReports::default();
        let out: Vec<u8> = bytes.chunks(100).flat_map(|part| forwarded.receive(part)).collect();
        assert_eq!(out, bytes);
        assert!(!forwarded.has_greeted());
    }
}
