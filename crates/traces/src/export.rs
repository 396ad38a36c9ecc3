//! Traces in the formats of other programs.

mod events;
mod html;
mod otf2;

use crate::Findings;
use crate::alignment::AlignedTrace;
use crate::skeleton::{self, Action, Skeleton, Work};

pub use otf2::{Otf2Archive, Otf2Communicator, Otf2Event, Otf2Location, Otf2Region};

/// A file of an export: its name, relative to the folder of the export, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedFile {
    /// The name.
    pub name: String,
    /// The content.
    pub text: String,
}

/// Returns all events as JSON: an object for each rank with its host, and its events with their
/// times in nanoseconds.
pub fn json(traces: &[AlignedTrace]) -> String {
    events::json(traces)
}

/// Returns the trace as an archive of OTF2.
pub fn otf2(traces: &[AlignedTrace]) -> Otf2Archive {
    otf2::archive(traces)
}

/// Returns the findings and the timeline as a page that needs nothing else.
pub fn html(findings: &Findings) -> String {
    html::page(findings)
}

/// Returns the messages and computations of the job as a schedule in the language GOAL of
/// LogGOPSim: times in nanoseconds, lengths in bytes.
pub fn goal(traces: &[AlignedTrace]) -> String {
    let Skeleton { ranks } = Skeleton::of(traces, Work::All);
    let mut text = format!("num_ranks {}\n", ranks.len());
    for (rank, actions) in ranks.iter().enumerate() {
        text += &format!("\nrank {rank} {{\n");
        for (number, action) in actions.iter().enumerate() {
            let line = match action {
                Action::Compute { ns } => format!("calc {ns}"),
                Action::Send { peer, tag, bytes } => format!("send {bytes}b to {peer} tag {tag}"),
                Action::Receive { peer, tag, bytes } => {
                    format!("recv {bytes}b from {peer} tag {tag}")
                }
            };
            text += &format!("l{number}: {line}\n");
        }
        for number in 1..actions.len() {
            text += &format!("l{number} requires l{}\n", number - 1);
        }
        text += "}\n";
    }
    text
}

/// Returns how long a message for which a rank waited took until it was matched, in nanoseconds and
/// as the median: the latency of the network for a simulation of [`goal`] or [`tit`]. `None` if
/// no rank waited for a message.
pub fn latency_ns(traces: &[AlignedTrace]) -> Option<u64> {
    skeleton::latency_ns(traces)
}

/// Returns the messages and computations of the job as a time-independent trace of SimGrid: a list
/// of the files, and a file for each rank. A nanosecond of computing is one unit, so the speed of a
/// host is 1 Gf for a machine that is as fast as the traced one.
pub fn tit(traces: &[AlignedTrace]) -> Vec<ExportedFile> {
    /// The number by which SimGrid's replay names bytes.
    const BYTES: u32 = 6;
    let Skeleton { ranks } = Skeleton::of(traces, Work::All);
    let name = |rank: usize| format!("rank{rank}.txt");
    let list = (0..ranks.len()).map(|rank| name(rank) + "\n").collect();
    let mut files = vec![ExportedFile { name: "ranks.txt".to_owned(), text: list }];
    for (rank, actions) in ranks.iter().enumerate() {
        let mut text = format!("{rank} init\n");
        for action in actions {
            // Sends end when the receiver has what they carry; only receives are waited for.
            text += &match action {
                Action::Compute { ns } => format!("{rank} compute {ns}\n"),
                Action::Send { peer, tag, bytes } => {
                    format!("{rank} isend {peer} {tag} {bytes} {BYTES}\n")
                }
                Action::Receive { peer, tag, bytes } => {
                    format!("{rank} recv {peer} {tag} {bytes} {BYTES}\n")
                }
            };
        }
        text += &format!("{rank} waitall\n{rank} finalize\n");
        files.push(ExportedFile { name: name(rank), text });
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        TraceCounter, TraceEvent, TraceTrack, TracedContent, TracedExchange, TracedMessage,
        TracedOperation, TracedPacket, TracedPlace, TracedSpan, WaitCause,
    };

    fn rank(rank: u32, events: Vec<(u64, TraceEvent)>) -> AlignedTrace {
        let place = |function: &str| TracedPlace {
            function: function.to_owned(),
            caller: "main <&> (a.c:1)".to_owned(),
        };
        AlignedTrace {
            rank,
            host: "a \"host\"".to_owned(),
            places: vec![place("MPI_Send"), place("MPI_Recv"), place("MPI_Barrier")],
            names: vec!["one".to_owned()],
            dropped: 0,
            clock_error_ns: 0,
            events,
        }
    }

    /// Rank 0 computes 100 ns, sends, and enters a barrier; rank 1 waits 60 ns for the message.
    pub(super) fn job() -> [AlignedTrace; 2] {
        let message =
            |peer| TracedMessage { thread: 1, context: 7, peer, tag: -3, bytes: 8, number: 0 };
        let operation = Some(TracedOperation { communicator: 4, number: 0 });
        let began = |place| TraceEvent::CallBegan { thread: 1, place, operation: None };
        let barrier = TraceEvent::CallBegan { thread: 1, place: 2, operation };
        let ended = TraceEvent::CallEnded { thread: 1 };
        let lost = TracedMessage { number: 1, ..message(1) };
        let (cause, peer) = (WaitCause::LateSender, Some(0));
        let waited = TraceEvent::Waited { thread: 1, cause, peer, lasted: 60 };
        [
            rank(
                0,
                vec![
                    (0, TraceEvent::PhaseBegan { name: 0 }),
                    (100, began(0)),
                    (100, TraceEvent::Sent(message(1))),
                    (105, TraceEvent::Sent(lost)),
                    (110, ended),
                    (120, barrier),
                    (150, ended),
                ],
            ),
            rank(
                1,
                vec![
                    (40, began(1)),
                    (101, TraceEvent::Matched(message(0))),
                    (101, waited),
                    (110, ended),
                    (130, barrier),
                    (150, ended),
                ],
            ),
        ]
    }

    #[test]
    fn a_schedule_has_what_ranks_do_but_not_their_waits() {
        let text = goal(&job());
        let expected = "num_ranks 2\n\nrank 0 {\nl0: calc 100\nl1: send 8b to 1 tag 0\nl2: calc 39\n\
                        l3: recv 0b from 1 tag 1\n\
                        l1 requires l0\nl2 requires l1\nl3 requires l2\n}\n\n\
                        rank 1 {\nl0: calc 40\nl1: recv 8b from 0 tag 0\n\
                        l2: calc 29\nl3: send 0b to 0 tag 1\nl4: calc 20\n\
                        l1 requires l0\nl2 requires l1\nl3 requires l2\nl4 requires l3\n}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_time_independent_trace_has_a_file_for_each_rank() {
        let files = tit(&job());
        assert_eq!(files[0].text, "rank0.txt\nrank1.txt\n");
        assert_eq!(
            files[2].text,
            "1 init\n1 compute 40\n1 recv 0 0 8 6\n1 compute 29\n1 isend 0 1 0 6\n\
             1 compute 20\n1 waitall\n1 finalize\n"
        );
    }

    #[test]
    fn the_latency_is_that_of_messages_for_which_a_rank_waited() {
        assert_eq!(latency_ns(&job()), Some(1));
        let mut early = job();
        // The message was sent before its receiver waited for it.
        early[0].events[2].0 = 20;
        assert_eq!(latency_ns(&early), None);
    }

    #[test]
    fn every_event_is_in_the_json() {
        let (traces, text) = (job(), json(&job()));
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (rank, trace) in traces.iter().enumerate() {
            let found = &all["ranks"][rank];
            assert_eq!(found["host"], "a \"host\"");
            assert_eq!(found["events"].as_array().unwrap().len(), trace.events.len());
        }
        let wait = &all["ranks"][1]["events"][2];
        assert_eq!(wait["kind"], "wait");
        assert_eq!((&wait["lasted_ns"], &wait["peer"]), (&60.into(), &0.into()));
        assert_eq!(all["ranks"][0]["events"][2]["bytes"], 8);
    }

    #[test]
    fn a_page_contains_no_text_of_the_program_as_markup() {
        let page = html(&Findings::of(&job()));
        assert!(
            page.contains("main &lt;&amp;&gt; (a.c:1)") && !page.contains("main <&>"),
            "{page}"
        );
        // It loads nothing: the only address is the name of the language of the picture.
        let addresses = page.matches("://").count();
        assert!(page.contains("<svg") && !page.contains("<script"), "{page}");
        assert_eq!(addresses, page.matches("\"http://www.w3.org/2000/svg\"").count(), "{page}");
    }

    #[test]
    fn a_sender_that_goes_on_after_the_end_of_its_receiver_is_answered() {
        let message =
            |peer| TracedMessage { thread: 1, context: 7, peer, tag: 3, bytes: 8, number: 0 };
        let began = |place| TraceEvent::CallBegan { thread: 1, place, operation: None };
        let ended = TraceEvent::CallEnded { thread: 1 };
        let (cause, peer) = (WaitCause::LateReceiver, Some(1));
        let waited = TraceEvent::Waited { thread: 1, cause, peer, lasted: 480 };
        let sender =
            vec![(0, began(0)), (10, TraceEvent::Sent(message(1))), (500, waited), (500, ended)];
        let receiver = vec![(40, began(1)), (50, TraceEvent::Matched(message(0))), (100, ended)];
        let text = goal(&[rank(0, sender), rank(1, receiver)]);
        let count = |action: &str| text.matches(action).count();
        assert_eq!((count("send 0b to 0 tag 0"), count("recv 0b from 1 tag 0")), (1, 1), "{text}");
    }

    /// All that is made from a trace, with times and numbers that no program has.
    #[test]
    fn damaged_traces_are_reported_and_exported() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut read = 0;
        for _ in 0..300 {
            let mut traces = job();
            traces.iter_mut().for_each(|trace| add_all_kinds(trace, random.usize(0..6)));
            for (time, _) in traces.iter_mut().flat_map(|trace| &mut trace.events) {
                if random.u8(..) < 16 {
                    *time = random.u64(..) >> random.u32(0..64);
                }
            }
            let mut file = crate::perfetto::trace_of(&traces);
            for _ in 0..random.usize(0..3) {
                let place = random.usize(0..file.len());
                file[place] = random.u8(..);
            }
            let Ok(traces) = crate::perfetto::read(&file) else { continue };
            // Exports have a list for each rank before the last one.
            if traces.iter().any(|trace| trace.rank > 100) {
                continue;
            }
            read += 1;
            let findings = Findings::of(&traces);
            let made = [json(&traces), goal(&traces), html(&findings), findings.page()];
            assert!(made.iter().all(|text| !text.is_empty()));
            assert!(!tit(&traces).is_empty() && !otf2(&traces).locations.is_empty());
        }
        assert!(read > 100, "{read}");
    }

    /// Adds an event of each kind that [`job`] has not, behind the first `place` ones.
    fn add_all_kinds(trace: &mut AlignedTrace, place: usize) {
        let (thread, peer, name) = (1, 1 - trace.rank, 0);
        let (time, _) = trace.events[place];
        let exchange = TracedExchange { thread, root: Some(0), sent: 5, received: 6 };
        let (track, bytes, lasted, ago) = (TraceTrack::Files, 9, 30, 0);
        let span = TracedSpan { track, name, peer: Some(peer), bytes, lasted, ago };
        let packet = TracedPacket { rail: 0, peer, bytes, content: TracedContent::Part(4) };
        let (cause, counter) = (WaitCause::LateReceiver, TraceCounter::Outbox);
        let more = [
            TraceEvent::Exchanged(exchange),
            TraceEvent::Ran(span),
            TraceEvent::Posted(packet),
            TraceEvent::Counted { counter, value: 3 },
            TraceEvent::PhaseBegan { name },
            TraceEvent::Waited { thread, cause, peer: Some(peer), lasted: 40 },
        ];
        trace.events.splice(place + 1..place + 1, more.map(|event| (time, event)));
    }
}
