//! Checks a driver whose rails are lost and restored.

use std::time::{Duration, Instant};

use base::GateId;

use super::{RecordingSink, packets};
use crate::Driver;

/// How often the rail is lost.
const LOSSES: u32 = 4;

/// How long it may take until a loss is noticed, or a rail works again.
const LIMIT: Duration = Duration::from_secs(30);

/// Gives up the first rail between two connected processes, alternately from either side, while
/// packets are in flight in both directions. Checks that
///
/// - the other process learns of it,
/// - the rail works again once the other process has given it up, too, and not before,
/// - nothing arrives then of what was posted before,
/// - both processes report correctly whether the rail reaches the other.
///
/// # Panics
/// If the driver does not conform.
pub fn restoring(mut both: [&mut dyn Driver; 2]) {
    for turn in 0..LOSSES {
        let (first, second) = (GateId(turn % 2), GateId(1 - turn % 2));
        for (from, to) in [(first, second), (second, first)] {
            for length in [8, 3000] {
                both[from.0 as usize].post_packet(to, 0, length, &mut |out| out.fill(0xee));
            }
        }
        let (here, there) = (first.0 as usize, second.0 as usize);
        both[here].give_up(second, 0);
        assert!(!both[here].reaches(second, 0), "it was given up");
        both[here].restore(second, 0);
        let sinks = poll_until(&mut both, |sinks| !sinks[there].lost.is_empty());
        assert!(sinks.iter().all(|sink| sink.restored.is_empty()), "one has not given it up");
        both[there].give_up(first, 0);
        both[there].restore(first, 0);
        let sinks =
            poll_until(&mut both, |sinks| sinks.iter().all(|sink| !sink.restored.is_empty()));
        assert_eq!(sinks[here].restored, [(second, 0)]);
        assert_eq!(sinks[there].restored, [(first, 0)]);
        for sink in &sinks {
            assert!(sink.lost.is_empty(), "{:?}", sink.lost);
            assert!(sink.packets.is_empty(), "they were posted before: {:?}", sink.packets);
        }
        let [one, other] = &mut both;
        packets(&mut **one, Some(&mut **other), GateId(0));
        packets(&mut **other, Some(&mut **one), GateId(1));
        assert!(one.reaches(GateId(1), 0) && other.reaches(GateId(0), 0), "packets have come");
    }
}

fn poll_until<'a>(
    both: &mut [&mut (dyn Driver + 'a); 2],
    is_over: impl Fn(&[RecordingSink; 2]) -> bool,
) -> [RecordingSink; 2] {
    let (mut sinks, start) = (<[RecordingSink; 2]>::default(), Instant::now());
    while !is_over(&sinks) {
        for (driver, sink) in both.iter_mut().zip(&mut sinks) {
            driver.poll(sink);
        }
        assert!(start.elapsed() < LIMIT, "{sinks:?}");
    }
    sinks
}
