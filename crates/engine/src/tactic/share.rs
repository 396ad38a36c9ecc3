//! Divides a large message between rails so that all of them finish at one moment.
//!
//! Rail i can begin with new bytes when it has carried its backlog, and they arrive a latency
//! later: `ready(i) = backlog(i) / speed(i) + latency(i)`. If all finish at T, rail i carries
//! `speed(i) * (T - ready(i))`, or nothing if it is not ready by then. T is the time at which these
//! shares add up to the whole message. A rail whose share would not be worth its packet gets none,
//! and T is computed anew.

use base::limits::RAILS_MAX;

use crate::strategy::{ChunkView, RailView};
use crate::tactic;

/// The minimum duration of a share, as a multiple of the cost of a packet.
const WORTH_PACKETS: f64 = 4.0;
/// The minimum length of a share, in bytes.
const WORTH_BYTES: f64 = 16384.0;

/// Returns how many bytes of a large message `rails[rail]` sends next so that all rails finish
/// together; 0 if the other rails are faster without it.
pub fn next_part(offer: &ChunkView, rails: &[RailView<'_>], rail: usize) -> usize {
    let share = share(offer, rails, rail);
    let longest = tactic::part_bytes_max(rails[rail].model);
    // Rounding must not leave a remainder.
    if share + 0.5 >= offer.payload as f64 {
        return offer.payload.min(longest);
    }
    // Whole pages, if the share is longer than one.
    let share = share as usize;
    let whole = if share > 4096 { share / 4096 * 4096 } else { share };
    whole.min(longest)
}

/// One rail's part in the division.
#[derive(Clone, Copy)]
struct Carrier {
    index: usize,
    speed: f64,
    ready: f64,
    /// The smallest share that is worthwhile.
    worth: f64,
}

/// Returns the share of `rails[rail]`, in bytes.
fn share(offer: &ChunkView, rails: &[RailView<'_>], rail: usize) -> f64 {
    let mut carriers = [Carrier { index: 0, speed: 1.0, ready: 0.0, worth: 0.0 }; RAILS_MAX];
    let mut count = 0;
    for (index, view) in rails.iter().enumerate() {
        if count == RAILS_MAX || !offer.rails.contains(view.id) {
            continue;
        }
        let (model, speed) = (view.model, view.model.speed());
        let ready = view.backlog_bytes as f64 / speed + model.latency_ns() as f64;
        let worth = (model.packet_ns() as f64 * WORTH_PACKETS * speed).max(WORTH_BYTES);
        carriers[count] = Carrier { index, speed, ready, worth };
        count += 1;
    }
    let bytes = offer.payload as f64;
    let carriers = &mut carriers[..count];
    // The rail that would finish first with the whole message comes first: it keeps even a small
    // share.
    carriers.sort_unstable_by(|a, b| {
        let end = |carrier: &Carrier| carrier.ready + bytes / carrier.speed;
        end(a).total_cmp(&end(b)).then(a.index.cmp(&b.index))
    });
    let mut carrying = count;
    while carrying > 1 {
        let end = finish(bytes, &carriers[..carrying]);
        let Some(worst) = least_worthy(end, &carriers[..carrying]) else { break };
        carriers[worst..carrying].rotate_left(1);
        carrying -= 1;
    }
    let carrying = &carriers[..carrying];
    let own = carrying.iter().find(|carrier| carrier.index == rail);
    own.map_or(0.0, |carrier| carrier.share(finish(bytes, carrying)))
}

impl Carrier {
    /// Returns the bytes that the carrier transfers if it finishes at `end`.
    fn share(&self, end: f64) -> f64 {
        self.speed * (end - self.ready)
    }
}

/// Returns the carrier with the smallest share, of those whose share is not worthwhile.
fn least_worthy(end: f64, carriers: &[Carrier]) -> Option<usize> {
    let worth = |place: usize| if place == 0 { 0.0 } else { carriers[place].worth };
    let shares = carriers.iter().map(|carrier| carrier.share(end)).enumerate();
    let unworthy = shares.filter(|&(place, share)| share < worth(place));
    unworthy.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(place, _)| place)
}

/// Returns when all carriers finish if together they carry `bytes` and each is busy to the end.
fn finish(bytes: f64, carriers: &[Carrier]) -> f64 {
    let speed: f64 = carriers.iter().map(|carrier| carrier.speed).sum();
    let held: f64 = carriers.iter().map(|carrier| carrier.speed * carrier.ready).sum();
    (bytes + held) / speed
}

#[cfg(test)]
mod tests {
    use base::RailId;

    use super::*;

    use crate::strategy::tests::{Rail, views};

    fn large(bytes: usize) -> ChunkView {
        ChunkView { divisible: true, ..ChunkView::new(24, bytes) }
    }

    #[test]
    fn rounding_leaves_no_byte_over() {
        for speed in [1, 117, 1000, 1250, 12_345] {
            let rails = [Rail::new(speed)];
            for bytes in (1..5000).step_by(if cfg!(miri) { 701 } else { 7 }) {
                assert_eq!(next_part(&large(bytes), &views(&rails), 0), bytes);
            }
        }
    }

    /// Lets rails pull until the message is sent. Returns when each finishes, in nanoseconds.
    fn pulled(bytes: usize, rails: &[Rail]) -> Vec<f64> {
        let mut ends = vec![0.0; rails.len()];
        let (mut left, mut now) = (bytes, 0.0);
        while left > 0 {
            let mut views = views(rails);
            for (view, end) in views.iter_mut().zip(&ends) {
                view.backlog_bytes += ((end - now) * view.model.speed()).max(0.0) as u64;
            }
            let mut any = false;
            for rail in 0..rails.len() {
                // One part is underway, and one prepared.
                let busy = ends[rail] - now > views[rail].model.transfer_ns(65_536) as f64;
                let part = next_part(&large(left), &views, rail);
                if busy || part == 0 || left == 0 {
                    continue;
                }
                any = true;
                left -= part;
                ends[rail] = ends[rail].max(now) + part as f64 / views[rail].model.speed();
                views[rail].backlog_bytes += part as u64;
            }
            if !any {
                now += 10_000.0;
            }
        }
        ends
    }

    #[test]
    fn all_rails_finish_together() {
        let all = [vec![1000, 1000], vec![146, 106], vec![1200, 300, 100], vec![5, 50, 500]];
        // Under the interpreter, the slow ones take minutes.
        for speeds in &all[..if cfg!(miri) { 1 } else { all.len() }] {
            let rails: Vec<_> = speeds.iter().map(|&speed| Rail::new(speed)).collect();
            let total: u64 = speeds.iter().sum();
            let bytes = 16 << 20;
            let ideal = f64::from(bytes) * 1000.0 / total as f64;
            let ends = pulled(bytes as usize, &rails);
            let last = ends.iter().copied().fold(0.0, f64::max);
            assert!(last < ideal * 1.02, "{speeds:?}: {ends:?} instead of {ideal}");
        }
    }

    #[test]
    fn what_is_underway_counts() {
        let mut rails = [Rail::new(100), Rail::new(100)];
        rails[0].backlog = 1 << 20;
        let offer = large(1 << 20);
        assert!(next_part(&offer, &views(&rails), 0) < 20_000);
        let whole: Vec<_> = (0..2).map(|rail| share(&offer, &views(&rails), rail)).collect();
        assert!(whole[0] < 1.0 && whole[1] > f64::from(1 << 20) - 1.0, "{whole:?}");
    }

    #[test]
    fn somebody_takes_what_is_worth_nobodys_packet() {
        for bytes in [1, 100, 4097, 20_000, 30_000, 70_000] {
            for (a, b) in [(100, 100), (1000, 10), (10, 1000)] {
                let rails = [Rail::new(a), Rail::new(b)];
                let parts = [0, 1].map(|rail| next_part(&large(bytes), &views(&rails), rail));
                assert!(parts.iter().any(|part| *part > 0), "{bytes} over {a} and {b}: {parts:?}");
                if bytes < 20_000 {
                    assert!(parts.contains(&0) && parts.contains(&bytes), "{parts:?}");
                }
            }
        }
    }

    #[test]
    fn a_rail_that_would_carry_next_to_nothing_carries_nothing() {
        let rails = [Rail::new(1), Rail::new(1000)];
        let shares = [0, 1].map(|rail| share(&large(1 << 20), &views(&rails), rail));
        assert_eq!(shares[0], 0.0);
        assert!((shares[1] - f64::from(1 << 20)).abs() < 1.0, "{shares:?}");
    }

    #[test]
    fn only_rails_that_may_carry_it_do() {
        let rails = [Rail::new(100), Rail::new(100), Rail::new(100)];
        let offer =
            ChunkView { rails: crate::strategy::RailSet::only(RailId(2)), ..large(1 << 20) };
        let parts = [0, 1, 2].map(|rail| next_part(&offer, &views(&rails), rail));
        assert_eq!((parts[0], parts[1]), (0, 0));
        assert!(parts[2] >= 65_536);
    }
}
