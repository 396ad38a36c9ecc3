use std::fs::File;

use super::*;
use crate::{TraceRing, WaitCause};

const PLACE: &str = "main (a.c:3)";

fn begun(bytes: usize) -> (TraceRing, TraceMemory) {
    let (words, file) =
        SharedMemory::create(TraceMemory::WORDS, TraceMemory::bytes_for(bytes)).unwrap();
    let ring = TraceRing::new(TraceMemory::of(words).unwrap(), 100);
    ring.memory().note(&TraceNote::Begun(3, 1, "one".to_owned(), (100, 1000)));
    (ring, opened(&file))
}

fn opened(file: &File) -> TraceMemory {
    TraceMemory::of(SharedMemory::open(file, TraceMemory::WORDS).unwrap()).unwrap()
}

fn end(thread: u64) -> TraceEvent {
    TraceEvent::CallEnded { thread }
}

#[test]
#[cfg_attr(miri, ignore = "asks the system")]
fn what_a_rank_has_recorded_is_read_without_it() {
    let (mut ring, other) = begun(1000);
    let memory = ring.memory();
    let place = TracedPlace { function: "MPI_Recv".to_owned(), caller: "a.out+0x1".to_owned() };
    memory.note(&TraceNote::Place(place));
    memory.note(&TraceNote::Name("assembly".to_owned()));
    memory.note(&TraceNote::Caller(0, PLACE.to_owned()));
    memory.note(&TraceNote::Caller(7, "nowhere".to_owned()));
    let offsets = vec![ClockOffset { error_ns: 2, ahead_ns: -7 }];
    memory.note(&TraceNote::Offsets(offsets.clone()));
    ring.note(110, &end(1));
    ring.note(130, &end(2));
    let seen = other.recorded(|begun| (begun.0 + 50, begun.1 + 500)).unwrap();
    assert_eq!((seen.is_written, seen.node, &seen.offsets), (false, 1, &offsets));
    let trace = &seen.trace;
    assert_eq!((trace.rank, trace.host.as_str(), trace.dropped), (3, "one", 0));
    assert_eq!(trace.clock, TraceClock { first: 100, first_ns: 1000, last: 150, last_ns: 1500 });
    assert_eq!((trace.places.len(), trace.places[0].caller.as_str()), (1, PLACE));
    assert_eq!(trace.names, ["assembly"]);
    assert_eq!(trace.events(), [(110, end(1)), (130, end(2))]);
    assert_eq!(RecordedTrace::from_bytes(&seen.to_bytes()), Some(seen));
    ring.memory().set_written();
    assert!(other.recorded(|begun| begun).unwrap().is_written);
}

#[test]
#[cfg_attr(miri, ignore = "asks the system")]
fn nothing_is_read_where_nothing_was_recorded() {
    let memory = TraceMemory::own(1000);
    assert_eq!((memory.recorded(|begun| begun), memory.state()), (None, TraceState::Empty));
    let (short, _) = SharedMemory::create(TraceMemory::WORDS, 1000).unwrap();
    assert!(TraceMemory::of(short).is_none());
}

#[test]
#[cfg_attr(miri, ignore = "asks the system")]
fn a_wait_that_goes_on_lasts_until_the_end() {
    let (mut ring, other) = begun(1000);
    let (cause, peer) = (WaitCause::LateSender, Some(4));
    let waiting = |thread, lasted| TraceEvent::Waiting { thread, cause, peer, lasted };
    let waited = |thread, lasted| TraceEvent::Waited { thread, cause, peer, lasted };
    ring.note(110, &waiting(1, 10));
    ring.note(120, &waiting(1, 20));
    ring.note(121, &waiting(2, 5));
    ring.note(122, &waited(2, 6));
    // A unit is ten nanoseconds.
    let seen = other.recorded(|begun| (begun.0 + 100, begun.1 + 1000)).unwrap();
    let last = seen.trace.events().pop();
    assert_eq!(last, Some((200, waited(1, 20 + 800))));
    assert_eq!(seen.trace.events().len(), 5);
}

#[test]
#[cfg_attr(miri, ignore = "asks the system")]
fn a_running_rank_is_read_without_torn_events() {
    let length = TraceMemory::bytes_for(200 << 10);
    let (words, file) = SharedMemory::create(TraceMemory::WORDS, length).unwrap();
    let mut ring = TraceRing::new(TraceMemory::of(words).unwrap(), 100);
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        // A thread that maps the memory itself stands for another process.
        let reader = scope.spawn(|| {
            let other = opened(&file);
            for _ in 0..40 {
                let (chunks, dropped) = other.kept();
                let trace = RankTrace { chunks, ..RankTrace::default() };
                // Events are numbered, and each happens one unit after the one before.
                for (place, (time, event)) in trace.events().into_iter().enumerate() {
                    let number = dropped + place as u64;
                    assert_eq!((time, event), (101 + number, end(number)));
                }
            }
            done.store(1, Ordering::Relaxed);
        });
        let mut number = 0;
        while done.load(Ordering::Relaxed) == 0 && !reader.is_finished() {
            ring.note(101 + number, &end(number));
            number += 1;
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "asks the system")]
fn names_keep_their_numbers_when_the_memory_is_full() {
    let (ring, other) = begun(1000);
    let long = "n".repeat(NOTES_BYTES - 200);
    let names = [long.as_str(), "second", &"t".repeat(500), "fourth"];
    names.iter().for_each(|name| ring.memory().note(&TraceNote::Name((*name).to_owned())));
    // The last one would fit, but would have the number of the one before.
    let seen = other.recorded(|begun| begun).unwrap();
    assert_eq!(seen.trace.names, [long.as_str(), "second"]);
}
