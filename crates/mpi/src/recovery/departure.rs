//! When the processes of a communicator have stopped using a shared object, such as a window,
//! although processes have failed.
//!
//! Without failures a barrier ends the use. If a member fails, the barrier may end with an error
//! on some processes after it has ended without one on others. Each process on which the barrier
//! failed therefore sends a message to all others that it has stopped using the object, and waits
//! until all of them have sent such a message or failed. A process answers if it no longer uses
//! the object, never will, or has learnt that the object was revoked.

use base::{Error, ErrorClass, GateId, Result};

use super::DEPARTURE;
use crate::Process;
use crate::contexts::ContextBlock;
use crate::team::Team;

/// The last byte of a message: with `ASKS` the sender waits for an answer from the receiver when
/// the receiver has stopped using the object.
const TELLS: u8 = 0;
const ASKS: u8 = 1;

impl Team {
    /// Marks the object with this communicator as used by this process, until the process
    /// departs.
    ///
    /// # Errors
    /// `ProcFailed` if this process has answered already that it does not use the object: another
    /// process had asked, because it has departed.
    pub fn begin_use(&self, process: &Process) -> Result<()> {
        let Some(block) = self.context_block() else { return Ok(()) };
        let recovery = process.recovery();
        if recovery.unused.borrow().contains(&block) {
            return Err(departed());
        }
        recovery.departed.borrow_mut().insert(block, Vec::new());
        Ok(())
    }

    /// Ends the use of the object after a barrier that succeeded on this process.
    pub fn end_use(&self, process: &Process) {
        let Some(block) = self.context_block() else { return };
        let departed = process.recovery().departed.borrow_mut().remove(&block);
        // On the processes in this list the barrier failed.
        for gate in departed.into_iter().flatten() {
            process.send_recovery_message(gate, DEPARTURE, block, &[TELLS]);
        }
    }

    /// Ends the use of the object after a barrier that failed on this process: waits until each
    /// other process has stopped using the object, has learnt that it was revoked, or has failed.
    pub fn depart(&self, process: &Process) {
        let Some(block) = self.context_block() else { return };
        for gate in self.all_members().gates() {
            process.send_recovery_message(gate, DEPARTURE, block, &[ASKS]);
        }
        process.wait_until(&mut |process| {
            let departed = process.recovery().departed.borrow();
            let received = departed.get(&block).map_or(&[][..], Vec::as_slice);
            let runtime = process.runtime();
            let is_done = |gate| received.contains(&gate) || runtime.failed().contains(&gate);
            self.all_members().gates().all(|gate| gate == process.myself() || is_done(gate))
        });
        process.recovery().departed.borrow_mut().remove(&block);
    }
}

impl Process {
    /// Answers the processes that wait until this one stops using an object that was revoked.
    /// From now on each access of this process to the memory of others fails, so those processes
    /// need not wait longer.
    pub(super) fn end_use_of_revoked(&self, block: ContextBlock) {
        let departed = self.recovery().departed.borrow().get(&block).cloned();
        for gate in departed.into_iter().flatten() {
            self.send_recovery_message(gate, DEPARTURE, block, &[TELLS]);
        }
    }

    /// Handles a message that another process has stopped using the object of a communicator.
    pub(super) fn note_departed(&self, from: GateId, block: ContextBlock, rest: &[u8]) {
        let recovery = self.recovery();
        if let Some(departed) = recovery.departed.borrow_mut().get_mut(&block) {
            departed.push(from);
            let is_revoked = recovery.revoked.borrow().contains_key(&block);
            if rest == [ASKS] && is_revoked {
                self.send_recovery_message(from, DEPARTURE, block, &[TELLS]);
            }
        } else if rest == [ASKS] {
            // This process has departed, or could not create the object. It must not begin to use
            // it later.
            recovery.unused.borrow_mut().insert(block);
            self.send_recovery_message(from, DEPARTURE, block, &[TELLS]);
        }
    }
}

#[cold]
fn departed() -> Error {
    let what = "a process of the communicator has failed, and another process has already \
                abandoned the operation";
    Error::new(ErrorClass::ProcFailed, what)
}
