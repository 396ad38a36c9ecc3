//! Tests a target with requests that no origin would send. They must change nothing but the part of
//! the window, and the requests that follow must be answered.

use datatype::Predefined;
use datatype::reduction::Operator;
use memory::{Buffer, Segment};
use mpi::{Process, ThreadLevel};
use proptest::prelude::*;

use super::Window;
use super::message::{DATA_TAG, KINDS, REQUEST_TAG, RequestKind, WindowRequest, buffer_of};

/// On both sides of the part lies memory that does not belong to it.
const AROUND: usize = 64;
const PART: usize = 256;

#[derive(Clone, Debug)]
struct Sent {
    message: Vec<u8>,
    data: Vec<u8>,
}

fn segment() -> impl Strategy<Value = Segment> {
    let displacement = prop_oneof![4 => 0..PART as isize, 1 => -80..400_isize, 1 => any::<isize>()];
    let length = prop_oneof![6 => 0..64_usize, 1 => 0..isize::MAX as usize];
    (displacement, length).prop_map(|(displacement, length)| Segment { displacement, length })
}

/// Returns a well-formed request, and data for it that may not fit.
fn understood() -> impl Strategy<Value = Sent> {
    let kind = proptest::sample::select(KINDS.to_vec());
    let operator = proptest::sample::select(Operator::ALL.to_vec());
    let element = proptest::sample::select(Predefined::ALL.to_vec());
    let runs = proptest::collection::vec(segment(), 0..6);
    let data = proptest::collection::vec(any::<u8>(), 0..200);
    (kind, operator, element, 0..3_i32, any::<bool>(), runs, data, any::<bool>()).prop_map(
        |(kind, operator, element, reply, apart, runs, mut data, fits)| {
            let length: usize = runs.iter().map(|run| run.length).fold(0, usize::saturating_add);
            if fits && length < 500 {
                data.resize(length, 7);
            }
            let reply = if reply == 0 { 0 } else { 1_000_000 + reply };
            let exclusive = false;
            let request = WindowRequest { kind, operator, element, reply, apart, exclusive, runs };
            let inline = if apart { 0 } else { data.len() };
            let mut message = Vec::new();
            request.add_to(&mut message, inline, |room| room.copy_from_slice(&data[..inline]));
            Sent { message, data }
        },
    )
}

/// Returns one request, several in one message, or any bytes.
fn sent() -> impl Strategy<Value = Sent> {
    let nonsense = proptest::collection::vec(any::<u8>(), 0..100);
    let several = proptest::collection::vec(understood(), 2..5).prop_map(|all| {
        let message = all.iter().flat_map(|one| one.message.clone()).collect();
        Sent { message, data: all[0].data.clone() }
    });
    prop_oneof![
        5 => understood(),
        3 => several,
        1 => nonsense.prop_map(|message| Sent { message, data: vec![1, 2, 3] }),
    ]
}

fn content(buffer: &Buffer) -> Vec<u8> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes);
    bytes
}

/// Whether the target expects data in a message of its own.
fn is_followed(message: &[u8]) -> bool {
    let mut rest = message;
    while let Some((request, begin)) = WindowRequest::parse(rest) {
        if request.apart && !request.synchronizes() {
            return true;
        }
        let given = if request.synchronizes() { 0 } else { request.given() };
        rest = &rest[begin.saturating_add(given).min(rest.len())..];
    }
    false
}

#[test]
fn a_target_survives_strange_requests() {
    let process = Process::default();
    process.initialize(ThreadLevel::Single).unwrap();
    let all = Buffer::zeroed(PART + 2 * AROUND);
    all.write(0, &[0xaa; PART + 2 * AROUND]);
    let part = all.contiguous_part(AROUND as isize, PART);
    let window = Window::create(&process, process.world(), part, 1, None).unwrap();
    let several = proptest::collection::vec(sent(), 1..12);
    let cases = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) };
    let mut runner = proptest::test_runner::TestRunner::new(cases);
    let outcome = runner.run(&several, |several| {
        for Sent { message, data } in several {
            window.send(&process, 0, REQUEST_TAG, buffer_of(&message));
            if is_followed(&message) {
                window.send(&process, 0, DATA_TAG, buffer_of(&data));
            }
        }
        // A refusal is reported; the answer arrives in any case.
        let _ = window.ask_all(&process, &[0], || WindowRequest::plain(RequestKind::Flush));
        let bytes = content(&all);
        prop_assert!(bytes[..AROUND].iter().all(|byte| *byte == 0xaa));
        prop_assert!(bytes[AROUND + PART..].iter().all(|byte| *byte == 0xaa));
        Ok(())
    });
    outcome.unwrap();
}
