//! Compares the whole matrix of states and events with the reviewed one in `matrix.txt`.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

const BYTES: u64 = 10;
const REGION: RegionToken = RegionToken { place: 1, secret: 2 };

fn occupied() -> Request {
    let mut request = Request::free();
    request.occupy(ContextSlot(0), (0, 0), Buffer::zeroed(BYTES as usize));
    request
}

fn sending(mode: SendCompletion, then: impl FnOnce(&mut Request)) -> Request {
    let mut request = occupied();
    request.queue(1, 0, mode);
    then(&mut request);
    request
}

fn receiving(then: impl FnOnce(&mut Request)) -> Request {
    let mut request = occupied();
    request.post(1);
    then(&mut request);
    request
}

/// Ignores the result of an event that only prepares a state.
fn go(step: Transition) {
    let (Transition::Underway | Transition::Complete) = step;
}

fn announced(send: &mut Request) {
    go(send.announced());
}

fn streaming(send: &mut Request) {
    announced(send);
    send.granted(BYTES).unwrap();
}

fn wanted_back(send: &mut Request) {
    assert_eq!(send.cancel(), CancelOutcome::AskReceiver);
}

fn filling(receive: &mut Request, message: u64) {
    receive.take_announced((GateId(1), 1, 1), 7, message);
}

/// Returns every state, in all variants in which events behave differently.
fn states() -> Vec<(&'static str, Request)> {
    let mut all = vec![("Free", Request::free())];
    all.extend(waiting_sends());
    all.extend(announced_sends());
    all.extend(streaming_sends());
    all.extend(receives());
    all.extend(complete());
    all
}

fn waiting_sends() -> [(&'static str, Request); 8] {
    use SendCompletion::{Standard, Synchronous};
    let taken_ahead = |send: &mut Request| {
        send.expose_ahead(REGION);
        go(send.taken().unwrap().0);
    };
    let sent_and_wanted_back = |send: &mut Request| {
        go(send.sent());
        wanted_back(send);
    };
    [
        ("Queued", sending(Standard, |_| {})),
        ("Queued, synchronous", sending(Synchronous, |_| {})),
        ("Queued, region", sending(Standard, |send| send.expose(REGION))),
        ("Queued, ahead", sending(Standard, |send| send.expose_ahead(REGION))),
        ("Queued, taken ahead", sending(Standard, taken_ahead)),
        ("Queued, wanted back", sending(Standard, wanted_back)),
        ("AwaitingMatch", sending(Synchronous, |send| go(send.sent()))),
        ("AwaitingMatch, wanted back", sending(Synchronous, sent_and_wanted_back)),
    ]
}

fn announced_sends() -> [(&'static str, Request); 5] {
    let exposed = |send: &mut Request| {
        send.expose(REGION);
        announced(send);
    };
    let ahead = |send: &mut Request| {
        send.expose_ahead(REGION);
        announced(send);
    };
    let announce = |expose: fn(&mut Request), then: fn(&mut Request)| {
        sending(SendCompletion::Standard, |send| {
            expose(send);
            then(send);
        })
    };
    [
        ("Announced", announce(announced, |_| {})),
        ("Announced, region", announce(exposed, |_| {})),
        ("Announced, region, wanted back", announce(exposed, wanted_back)),
        ("Announced, ahead", announce(ahead, |_| {})),
        ("Announced, ahead, wanted back", announce(ahead, wanted_back)),
    ]
}

fn streaming_sends() -> [(&'static str, Request); 3] {
    let with_part = |length| {
        sending(SendCompletion::Standard, |send| {
            streaming(send);
            send.part_begun(length);
        })
    };
    [
        ("Streaming", sending(SendCompletion::Standard, streaming)),
        ("Streaming, a part underway", with_part(BYTES / 2)),
        ("Streaming, the last part underway", with_part(BYTES)),
    ]
}

fn receives() -> [(&'static str, Request); 5] {
    let half_there = |receive: &mut Request| {
        filling(receive, BYTES);
        go(receive.arrived(BYTES / 2).unwrap());
    };
    [
        ("Posted", receiving(|_| {})),
        ("Interrupted", receiving(Request::interrupt)),
        ("Filling", receiving(|receive| filling(receive, BYTES))),
        ("Filling, half there", receiving(half_there)),
        ("Filling, too long", receiving(|receive| filling(receive, 2 * BYTES))),
    ]
}

fn complete() -> [(&'static str, Request); 3] {
    let truncated = |receive: &mut Request| {
        receive.take_whole(GateId(1), 1, 1, (&[0; 2 * BYTES as usize]).into())
    };
    let cancelled = |receive: &mut Request| assert_eq!(receive.cancel(), CancelOutcome::Done);
    [
        ("Complete", sending(SendCompletion::Standard, |send| go(send.sent()))),
        ("Complete, truncated", receiving(truncated)),
        ("Complete, cancelled", receiving(cancelled)),
    ]
}

/// Whether an event was allowed, and its other results.
type Answer = Result<String, Refused>;
type Event = fn(&mut Request) -> Answer;

fn regained(region: Revoked) -> String {
    region.map(|_| " revoke".into()).unwrap_or_default()
}

/// Every event: first those that peers, drivers and programs cause, then those that only the engine
/// causes. The engine must not cause the latter in a state that does not allow them.
const EVENTS: [(&str, Event); 22] = [
    ("cancel", |request| match request.cancel() {
        CancelOutcome::Done => Ok(" withdraw".into()),
        CancelOutcome::Released => Ok(" release".into()),
        CancelOutcome::AskReceiver => Ok(" ask".into()),
        CancelOutcome::Nothing => Err(Refused),
    }),
    ("peer failed", |request| Ok(regained(request.fail()))),
    ("space revoked", |request| {
        request.end_revoked();
        Ok(String::new())
    }),
    ("one failed", |receive| {
        receive.interrupt();
        Ok(String::new())
    }),
    ("acknowledged", |receive| {
        receive.resume();
        Ok(String::new())
    }),
    ("finished", |send| send.finished().map(regained)),
    ("withdrawn", |send| send.withdrawn().map(regained)),
    ("granted", |send| send.granted(BYTES).map(regained)),
    ("granted too much", |send| send.granted(BYTES + 1).map(regained)),
    ("taken", |send| send.taken().map(|(_, region)| regained(region))),
    ("part ended", |send| send.part_ended().map(|_| String::new())),
    ("half arrived", |receive| receive.arrived(BYTES / 2).map(|_| String::new())),
    ("filled", |receive| receive.filled().map(|_| String::new())),
    ("expose", |send| {
        send.expose(REGION);
        Ok(String::new())
    }),
    ("sent", |send| {
        go(send.sent());
        Ok(String::new())
    }),
    ("pushed", |send| {
        send.pushed();
        Ok(String::new())
    }),
    ("announced", |send| {
        go(send.announced());
        Ok(String::new())
    }),
    ("half in packet", |send| {
        go(send.packet_sent(BYTES / 2));
        Ok(String::new())
    }),
    ("half as part", |send| {
        send.part_begun(BYTES / 2);
        Ok(String::new())
    }),
    ("take whole", |receive| {
        receive.take_whole(GateId(1), 1, 1, (&[0; BYTES as usize]).into());
        Ok(String::new())
    }),
    ("take announced", |receive| {
        receive.take_announced((GateId(1), 1, 1), 7, BYTES);
        Ok(String::new())
    }),
    ("forget", |request| {
        request.forget();
        Ok(String::new())
    }),
];

fn name(state: &RequestState) -> String {
    let debug = format!("{state:?}");
    let end = debug.find([' ', '(']).unwrap_or(debug.len());
    match state {
        RequestState::Complete(ending) => format!("Complete:{ending:?}").replace(' ', ""),
        _ => debug[..end].into(),
    }
}

/// Returns the matrix: for each state, each event with the resulting state.
fn matrix() -> String {
    let mut matrix = String::new();
    for row in 0..states().len() {
        writeln!(matrix, "{}", states()[row].0).unwrap();
        let (mut refused, mut never) = (Vec::new(), Vec::new());
        for (event, happen) in EVENTS {
            let (_, mut request) = states().swap_remove(row);
            let before = *request.state();
            let answer = catch_unwind(AssertUnwindSafe(|| happen(&mut request)));
            let after = request.state();
            match answer {
                Ok(Ok(effect)) if *after == before => {
                    writeln!(matrix, "  {event:17} stays{effect}").unwrap();
                }
                Ok(Ok(effect)) => {
                    writeln!(matrix, "  {event:17} {}{effect}", name(after)).unwrap();
                }
                Ok(Err(Refused)) => {
                    assert_eq!(*after, before, "a refusal changes nothing");
                    refused.push(event);
                }
                Err(_) => never.push(event),
            }
        }
        writeln!(matrix, "  refused: {}", refused.join(", ")).unwrap();
        writeln!(matrix, "  never:   {}\n", never.join(", ")).unwrap();
    }
    matrix
}

#[test]
#[cfg(debug_assertions)]
#[cfg_attr(miri, ignore = "states only, and too long")]
fn every_event_leads_where_the_reviewed_matrix_says() {
    let (matrix, reviewed) = (matrix(), include_str!("matrix.txt"));
    assert!(matrix == reviewed, "the matrix is now\n{matrix}");
}

#[test]
fn a_request_takes_two_cache_lines() {
    assert_eq!(size_of::<Request>(), 128);
}

#[test]
fn an_empty_message_that_goes_ahead_is_over_when_it_is_announced() {
    let mut send = Request::free();
    send.occupy(ContextSlot(0), (0, 0), Buffer::empty());
    send.queue(1, 0, SendCompletion::Standard);
    send.expose_ahead(REGION);
    assert_eq!(send.announced(), Transition::Complete, "there is nothing to take");
}

#[test]
fn memory_of_our_own_is_given_back_with_the_place() {
    let buffer = Buffer::zeroed(8);
    let mut send = Request::free();
    send.occupy(ContextSlot(0), (0, 0), buffer.clone());
    send.queue(1, 0, SendCompletion::Standard);
    assert_eq!(send.sent(), Transition::Complete);
    assert!(!buffer.is_sole_owner());
    send.forget();
    assert!(buffer.is_sole_owner());
}

#[test]
fn a_process_that_asks_for_nothing_or_for_more_than_there_is_is_refused() {
    for length in [0, BYTES + 1] {
        let mut send = sending(SendCompletion::Standard, announced);
        assert_eq!(send.granted(length), Err(Refused), "{length} of {BYTES} bytes");
    }
}
