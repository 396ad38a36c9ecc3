//! What an origin remembers of the operations of one window.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use engine::RequestId;

use super::Window;
use super::message::{FIRST_REPLY_TAG, REPLY_TAGS};
use super::operation::Operation;
use crate::Process;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    next_reply: Cell<i32>,
    /// Targets that were asked for something and not yet whether it is done.
    unflushed: RefCell<BTreeSet<u32>>,
    /// Operations whose messages may be underway.
    outstanding: RefCell<Vec<Rc<Operation>>>,
    /// Requests that are not on their way yet.
    sending: RefCell<VecDeque<RequestId>>,
}

/// Requests that wait to be sent, at most.
const SENDING_MAX: usize = 1024;

/// When so many operations are remembered, those that are over are forgotten.
const OUTSTANDING_MAX: usize = 256;

impl Window {
    /// A tag for an answer.
    pub(super) fn next_reply(&self) -> i32 {
        let next = self.traffic.next_reply.get();
        self.traffic.next_reply.set((next + 1) % REPLY_TAGS);
        FIRST_REPLY_TAG + next
    }

    pub(super) fn note_unflushed(&self, target: u32) {
        self.traffic.unflushed.borrow_mut().insert(target);
    }

    /// Those of the targets that are to be asked whether all is done, which is noted.
    pub(super) fn take_unflushed(&self, target: Option<u32>) -> Vec<u32> {
        let mut unflushed = self.traffic.unflushed.borrow_mut();
        match target {
            None => std::mem::take(&mut *unflushed).into_iter().collect(),
            Some(target) => unflushed.take(&target).into_iter().collect(),
        }
    }

    pub(super) fn note_outstanding(&self, process: &Process, operation: &Rc<Operation>) {
        let mut outstanding = self.traffic.outstanding.borrow_mut();
        if outstanding.len() >= OUTSTANDING_MAX && outstanding.len().is_multiple_of(OUTSTANDING_MAX)
        {
            outstanding.retain(|one| !one.is_complete(process) || one.error().is_some());
        }
        outstanding.push(Rc::clone(operation));
    }

    /// An operation to one of the targets that may be underway; it is remembered no more.
    pub(super) fn take_outstanding(&self, target: Option<u32>) -> Option<Rc<Operation>> {
        let mut outstanding = self.traffic.outstanding.borrow_mut();
        let of_target = |one: &Rc<Operation>| target.is_none_or(|target| one.target == target);
        let index = outstanding.iter().rposition(of_target)?;
        Some(outstanding.swap_remove(index))
    }

    pub(super) fn note_sending(&self, id: RequestId) {
        self.traffic.sending.borrow_mut().push_back(id);
    }

    /// The oldest request that is not on its way, if too many are not; it is to be waited for.
    pub(super) fn oldest_of_too_many(&self, process: &Process) -> Option<RequestId> {
        let mut sending = self.traffic.sending.borrow_mut();
        while let Some(oldest) = sending.front() {
            if process.runtime().take(*oldest).is_none() {
                break;
            }
            sending.pop_front();
        }
        if sending.len() < SENDING_MAX { None } else { sending.pop_front() }
    }
}
