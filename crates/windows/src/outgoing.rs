//! The requests that an origin sends to the targets of a window.
//!
//! A short request without an answer waits for the next one to its target. It must be done only
//! when the program synchronizes, and the synchronization sends a request itself. But no request
//! waits longer than until the next round of progress, as the process may wait for its effect.
//! Partitions that are held back obey this rule, too.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use engine::RequestId;
use mpi::{ActiveOperation, Process, Step, Team};

use super::message::{REQUEST_BYTES_MAX, REQUEST_TAG, buffer_of};

/// The outgoing requests of one window.
#[derive(Debug)]
pub(super) struct OutgoingRequests {
    /// The communicator of the window.
    communicator: Rc<Team>,
    /// By target: a message with requests that wait to be sent with the next one.
    waiting: RefCell<BTreeMap<u32, Vec<u8>>>,
    /// Whether the next round of progress sends them.
    is_in_progress: Cell<bool>,
    /// Messages whose sends are not complete.
    sending: RefCell<VecDeque<RequestId>>,
}

/// The largest number of messages whose sends are not complete.
const SENDING_MAX: usize = 1024;

impl OutgoingRequests {
    pub(super) fn new(communicator: Rc<Team>) -> Rc<Self> {
        let (waiting, is_in_progress, sending) = Default::default();
        Rc::new(Self { communicator, waiting, is_in_progress, sending })
    }

    /// Sends a request, together with the waiting requests to its target.
    pub(super) fn send(&self, process: &Process, target: u32, add: impl FnOnce(&mut Vec<u8>)) {
        let mut message = self.take_waiting(target);
        let before = message.len();
        add(&mut message);
        if message.len() > REQUEST_BYTES_MAX {
            self.post(process, target, &message[..before]);
            self.post(process, target, &message[before..]);
        } else {
            self.post(process, target, &message);
        }
        self.keep_room(target, message);
    }

    /// Lets a request wait for the next one.
    pub(super) fn let_wait(
        self: &Rc<Self>,
        process: &Process,
        target: u32,
        add: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut message = self.take_waiting(target);
        let before = message.len();
        add(&mut message);
        if message.len() > REQUEST_BYTES_MAX {
            self.post(process, target, &message[..before]);
            message.drain(..before);
        }
        self.waiting.borrow_mut().insert(target, message);
        if !self.is_in_progress.replace(true) {
            process.advance_in_progress(self.clone());
        }
    }

    /// Records a message that was submitted to the engine.
    pub(super) fn note_sending(&self, process: &Process, id: RequestId) {
        let mut sending = self.sending.borrow_mut();
        while sending.front().is_some_and(|oldest| process.runtime().take(*oldest).is_some()) {
            sending.pop_front();
        }
        sending.push_back(id);
    }

    /// While the sends of too many messages are not complete, waits for the oldest one.
    pub(super) fn wait_for_room(&self, process: &Process) {
        let oldest_of_too_many = || {
            let mut sending = self.sending.borrow_mut();
            if sending.len() < SENDING_MAX { None } else { sending.pop_front() }
        };
        while let Some(oldest) = oldest_of_too_many() {
            process.wait_for(oldest);
        }
    }

    fn post(&self, process: &Process, target: u32, message: &[u8]) {
        let gate = self.communicator.gate(target).expect("the target was checked");
        let context = self.communicator.point_to_point_context();
        let message = buffer_of(message);
        if let Some(id) = process.post_send(gate, context, target, REQUEST_TAG, message) {
            self.note_sending(process, id);
        }
    }

    /// Removes and returns the waiting requests to a target.
    fn take_waiting(&self, target: u32) -> Vec<u8> {
        self.waiting.borrow_mut().get_mut(&target).map(std::mem::take).unwrap_or_default()
    }

    /// Keeps the memory of a sent message for the next requests.
    fn keep_room(&self, target: u32, mut sent: Vec<u8>) {
        if let Some(place) = self.waiting.borrow_mut().get_mut(&target) {
            sent.clear();
            *place = sent;
        }
    }
}

impl ActiveOperation for OutgoingRequests {
    fn noun(&self) -> &'static str {
        "the requests of a window"
    }

    /// Sends the waiting requests. The process may end before: the end of the window's epoch sends
    /// them anyway.
    fn advance(&self, process: &Process) -> Step {
        self.is_in_progress.set(false);
        let waiting = self.waiting.borrow();
        let some = waiting.iter().filter(|(_, requests)| !requests.is_empty());
        let targets: Vec<u32> = some.map(|(target, _)| *target).collect();
        drop(waiting);
        for target in targets {
            let message = self.take_waiting(target);
            self.post(process, target, &message);
            self.keep_room(target, message);
        }
        Step::Over
    }
}
