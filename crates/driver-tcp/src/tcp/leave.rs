//! Leaving the peers at the end.

use std::thread;
use std::time::{Duration, Instant};

use driver::{Driver, Sink};

use super::{Tcp, WatchedSocket};
use crate::frame::{self, FrameKind};
use crate::peers::Slot;

/// How often a process that has left checks whether the other machines have received what it sent.
const DELIVERY_PERIOD: Duration = Duration::from_millis(1);

impl Tcp {
    /// Leaves all peers: they learn that no more data will arrive, and that the end of this process
    /// is no failure. Posting later cancels that. Waits until they have left too, or for `limit`.
    /// Peers that have not left must have received what was sent, however late they poll: what the
    /// kernel still holds is lost when they answer a process that has ended. Attempts that are in
    /// progress are not needed any more; but if the other side has a connection already, it must
    /// receive the goodbye, too.
    pub(super) fn close(&mut self, sink: &mut dyn Sink, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.is_flushed() && Instant::now() < deadline {
            self.poll(sink);
        }
        self.is_leaving = true;
        for slot in 0..self.sockets.len() {
            self.say_goodbye(slot);
        }
        let mut awaited = Vec::new();
        while !self.none_left(&mut awaited, has_not_left) && Instant::now() < deadline {
            if !self.poll(sink) {
                thread::yield_now();
            }
        }
        awaited.clear();
        while !self.none_left(&mut awaited, lacks_data) {
            self.poll(sink);
            thread::sleep(DELIVERY_PERIOD);
        }
        self.is_leaving = false;
    }

    /// Says goodbye on a connection.
    pub(super) fn say_goodbye(&mut self, slot: Slot) {
        let Some(WatchedSocket::Connection(connection)) = &mut self.sockets[slot] else { return };
        let result = connection.post(&frame::head(FrameKind::Goodbye, 0));
        self.after_posting(slot, result);
    }

    /// Whether no socket fulfils a condition.
    fn none_left(&self, awaited: &mut Vec<Slot>, is_so: impl Fn(&WatchedSocket) -> bool) -> bool {
        let fulfils = |slot: Slot| self.sockets[slot].as_ref().is_some_and(&is_so);
        none_left(awaited, self.sockets.len(), fulfils)
    }
}

/// Whether a process that leaves waits for the peer behind a socket: the peer has not left, or must
/// still decide about an attempt of this process.
fn has_not_left(socket: &WatchedSocket) -> bool {
    match socket {
        WatchedSocket::Connection(connection) => !connection.departed,
        WatchedSocket::Attempt(attempt) => attempt.awaits_reply(),
        WatchedSocket::Listener(_) => false,
    }
}

/// Whether the peer behind a socket has neither left nor received all that was sent.
fn lacks_data(socket: &WatchedSocket) -> bool {
    matches!(socket, WatchedSocket::Connection(one) if !one.departed && !one.has_delivered())
}

/// Whether none of `count` places fulfils a condition. `awaited` has the places that fulfilled it
/// when all were examined last: as long as one of these still does, the others need not be
/// examined, so that a process with many peers examines each only a few times while it leaves.
fn none_left(awaited: &mut Vec<Slot>, count: usize, fulfils: impl Fn(Slot) -> bool) -> bool {
    let drop_ended = |awaited: &mut Vec<Slot>| {
        while awaited.pop_if(|slot| !fulfils(*slot)).is_some() {}
        awaited.is_empty()
    };
    if drop_ended(awaited) {
        awaited.extend((0..count).filter(|slot| fulfils(*slot)));
    }
    awaited.is_empty()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The number of examined places while peers leave one by one, and the process checks after
    /// each.
    fn examined(count: usize, order: impl Fn(usize) -> usize) -> usize {
        let (mut has_left, examined) = (vec![false; count], Cell::new(0));
        let mut awaited = Vec::new();
        for turn in 0..count {
            let fulfils = |slot: Slot| {
                examined.set(examined.get() + 1);
                !has_left[slot]
            };
            assert!(!none_left(&mut awaited, count, fulfils), "{turn} of {count} have left");
            has_left[order(turn)] = true;
        }
        assert!(none_left(&mut awaited, count, |slot| !has_left[slot]));
        examined.get()
    }

    #[test]
    fn a_process_that_leaves_examines_each_peer_a_few_times_however_many_there_are() {
        for count in [10, 1000] {
            assert!(examined(count, |turn| turn) <= 4 * count);
            assert!(examined(count, |turn| count - 1 - turn) <= 4 * count);
            assert!(examined(count, |turn| (turn * 7 + 3) % count) <= 4 * count);
        }
    }

    /// A peer may come back, or connect, after it was examined.
    #[test]
    fn a_peer_that_comes_back_is_waited_for() {
        let mut awaited = Vec::new();
        assert!(!none_left(&mut awaited, 3, |slot| slot == 2));
        assert!(!none_left(&mut awaited, 3, |slot| slot == 0), "0 has come back");
        assert!(!none_left(&mut awaited, 4, |slot| slot == 3), "3 is new");
        assert!(none_left(&mut awaited, 4, |_| false));
    }
}
