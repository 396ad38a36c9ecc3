//! A process connects while strangers do, in virtual time.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;

/// The time in microseconds.
type Clock = Rc<Cell<u64>>;

/// What the other side of a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Silent,
    /// It closes the connection, or sends garbage.
    Garbage,
    /// It replays an opening.
    Replays(Nonce),
    /// It has the key. It sends its opening at the first moment, and its proof at the second one.
    HasKey {
        nonce: Nonce,
        opens: u64,
        proves: u64,
    },
}

struct ModelLink {
    other: Other,
    clock: Clock,
    /// Whether the port keeps it.
    is_kept: Rc<Cell<bool>>,
}

impl UnprovedLink for ModelLink {
    fn go_on(&mut self) -> bool {
        self.other != Other::Garbage
    }

    fn opening_nonce(&self) -> Option<Nonce> {
        match self.other {
            Other::Replays(nonce) => Some(nonce),
            Other::HasKey { nonce, opens, .. } => (self.clock.get() >= opens).then_some(nonce),
            Other::Silent | Other::Garbage => None,
        }
    }

    fn is_proved(&self) -> bool {
        matches!(self.other, Other::HasKey { proves, .. } if self.clock.get() >= proves)
    }
}

impl Drop for ModelLink {
    fn drop(&mut self) {
        self.is_kept.set(false);
    }
}

/// A machine on which a service, strangers and a process with the key run.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// Connections of strangers in a millisecond.
    strangers: u64,
    /// How long the process and the service wait for a core at most, in microseconds.
    delay: u64,
    /// How many of 16 times the process loses its core between connecting and sending.
    interrupted: u64,
    seed: u64,
}

impl Machine {
    /// Returns how many times the process connects until it is accepted.
    fn attempts(self, max: usize) -> u64 {
        let clock = Clock::default();
        let mut links = UnprovedLinks::new(max, self.seed);
        let (mut state, mut attempts) = (self.seed, 0_u64);
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below.max(1)
        };
        let is_kept = |kept: bool| Rc::new(Cell::new(kept));
        let mut own = is_kept(false);
        let mut again = 0;
        loop {
            // The service gets a core, and finds what came meanwhile in any order.
            let before = clock.get();
            clock.set(before + 1000 + random(self.delay));
            let count = (clock.get() - before) * self.strangers / 1000;
            let mut arrivals: Vec<Other> = (0..count)
                .map(|_| match random(4) {
                    0 => Other::Garbage,
                    1 => Other::Replays([7; 16]),
                    _ => Other::Silent,
                })
                .collect();
            if !own.get() && clock.get() >= again {
                attempts += 1;
                let pause = if random(16) < self.interrupted { random(self.delay) } else { 0 };
                let opens = clock.get() + pause;
                let proves = opens + 1000 + random(self.delay);
                let mut nonce = [0; 16];
                nonce[..8].copy_from_slice(&attempts.to_le_bytes());
                let place = random(count + 1) as usize;
                arrivals.insert(place, Other::HasKey { nonce, opens, proves });
            }
            for other in arrivals {
                let link = ModelLink { other, clock: Rc::clone(&clock), is_kept: is_kept(true) };
                if let Other::HasKey { .. } = other {
                    own = Rc::clone(&link.is_kept);
                }
                links.add(link);
                assert!(links.links.len() <= max);
            }
            if let Some(link) = links.take_proved() {
                assert!(matches!(link.other, Other::HasKey { .. }));
                return attempts;
            }
            if !own.get() && again <= clock.get() {
                again = clock.get() + 10_000;
            }
            assert!(attempts < 1000, "{self:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_process_with_the_key_gets_in_at_any_rate_of_strangers(
        strangers in 0..100_u64, delay in 0..100_000_u64, seed in any::<u64>(),
    ) {
        // Between connecting and sending it is never interrupted: one attempt is enough.
        let machine = Machine { strangers, delay, interrupted: 0, seed };
        prop_assert_eq!(machine.attempts(16), 1);
        // In half of the attempts it is.
        let machine = Machine { interrupted: 8, ..machine };
        prop_assert!(machine.attempts(16) <= 30);
    }
}

fn link(clock: &Clock, other: Other) -> ModelLink {
    ModelLink { other, clock: Rc::clone(clock), is_kept: Rc::new(Cell::new(true)) }
}

#[test]
fn replays_take_no_place_of_processes_with_the_key() {
    let clock = Clock::default();
    let mut links = UnprovedLinks::new(4, 1);
    let has_key = |number| Other::HasKey { nonce: [number; 16], opens: 0, proves: 9 };
    (0..4).for_each(|number| links.add(link(&clock, has_key(number))));
    for number in 0..4 {
        links.add(link(&clock, Other::Replays([number; 16])));
        links.add(link(&clock, Other::Silent));
    }
    assert_eq!((links.links.len(), links.refused()), (4, 8));
    // Another process with the key takes the place of one of them, which tries again.
    links.add(link(&clock, has_key(9)));
    assert_eq!((links.links.len(), links.refused()), (4, 9));
    clock.set(9);
    assert!((0..4).all(|_| links.take_proved().is_some()) && links.is_empty());
}

#[test]
fn an_opening_that_has_arrived_is_read_before_its_connection_is_closed() {
    let clock = Clock::default();
    let mut links = UnprovedLinks::new(2, 1);
    let late = |number| Other::HasKey { nonce: [number; 16], opens: 5, proves: 9 };
    (0..2).for_each(|number| links.add(link(&clock, late(number))));
    clock.set(5);
    links.add(link(&clock, Other::Silent));
    assert!(links.links.iter().all(|one| one.is_opened) && links.refused() == 1);
}
