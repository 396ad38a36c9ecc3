//! Who is done with what several processes use together, as a window, where processes have failed.
//!
//! Elsewhere a barrier tells. It ends with an error where a member fails, at some perhaps and not
//! at others, for which it had ended already. So those for which it did not end well tell each
//! other that they are done, and wait until all have said so or failed; who does not use the object
//! any more, never will, or knows that it was revoked, answers.

use base::{Error, ErrorClass, GateId, Result};

use super::DEPARTURE;
use crate::Process;
use crate::communicator::{Communicator, ContextBlock};

/// What a message says besides: whether its sender wants to be told when the receiver is done.
const TELLS: u8 = 0;
const ASKS: u8 = 1;

impl Communicator {
    /// This process uses an object of which this is the own communicator, until it departs.
    ///
    /// # Errors
    /// `ProcFailed` if another process was told that this one does not, as it has departed already.
    pub fn begin_use(&self, process: &Process) -> Result<()> {
        let Some(block) = self.context_block() else { return Ok(()) };
        let recovery = process.recovery();
        if recovery.unused.borrow().contains(&block) {
            return Err(departed());
        }
        recovery.departed.borrow_mut().insert(block, Vec::new());
        Ok(())
    }

    /// This process does not use it any more, and a barrier has told that all are done.
    pub fn end_use(&self, process: &Process) {
        let Some(block) = self.context_block() else { return };
        let departed = process.recovery().departed.borrow_mut().remove(&block);
        // For these the barrier did not end well.
        for gate in departed.into_iter().flatten() {
            process.send_recovery_message(gate, DEPARTURE, block, &[TELLS]);
        }
    }

    /// This process does not use it any more, and no barrier can tell who else does: waits until
    /// all others are done, know that it was revoked, or have failed.
    pub fn depart(&self, process: &Process) {
        let Some(block) = self.context_block() else { return };
        for gate in self.everyone().gates() {
            process.send_recovery_message(gate, DEPARTURE, block, &[ASKS]);
        }
        process.wait_until(&mut |process| {
            let departed = process.recovery().departed.borrow();
            let said = departed.get(&block).map_or(&[][..], Vec::as_slice);
            let runtime = process.runtime();
            let is_done = |gate| said.contains(&gate) || runtime.failed().contains(&gate);
            self.everyone().gates().all(|gate| gate == process.myself() || is_done(gate))
        });
        process.recovery().departed.borrow_mut().remove(&block);
    }
}

impl Process {
    /// An object was revoked: what this process would do with the parts of others ends with an
    /// error from now on, so that those that are done need not wait for it.
    pub(super) fn end_use_of_revoked(&self, block: ContextBlock) {
        let departed = self.recovery().departed.borrow().get(&block).cloned();
        for gate in departed.into_iter().flatten() {
            self.send_recovery_message(gate, DEPARTURE, block, &[TELLS]);
        }
    }

    /// Another process is done with the object of a communicator.
    pub(super) fn note_departed(&self, from: GateId, block: ContextBlock, rest: &[u8]) {
        let recovery = self.recovery();
        if let Some(departed) = recovery.departed.borrow_mut().get_mut(&block) {
            departed.push(from);
            let is_revoked = recovery.revoked.borrow().contains_key(&block);
            if rest == [ASKS] && is_revoked {
                self.send_recovery_message(from, DEPARTURE, block, &[TELLS]);
            }
        } else if rest == [ASKS] {
            // This one has departed, or could not make the object, and shall not from now on.
            recovery.unused.borrow_mut().insert(block);
            self.send_recovery_message(from, DEPARTURE, block, &[TELLS]);
        }
    }
}

#[cold]
fn departed() -> Error {
    let what = "a process of the communicator has failed, and another one has given up already what \
                was to be made on it";
    Error::new(ErrorClass::ProcFailed, what)
}
