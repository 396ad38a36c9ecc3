//! Internal messages between any two processes of the job, separate from those of the program.
//! Most jobs do not use them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

use base::GateId;
use engine::{ContextSlot, RequestId};
use memory::Buffer;

use crate::Process;
use crate::contexts::{ContextBlock, SpacePurpose};

/// A message space for internal messages, in which each process has its rank in the job. Messages
/// wait in the engine until [`next`](Self::next) takes them.
pub struct SideChannel {
    context: ContextSlot,
    /// Matched messages that have arrived or are arriving, in order.
    arriving: RefCell<VecDeque<(u32, RequestId, Buffer)>>,
}

impl SideChannel {
    /// Opens the side channel of checks. Called once, on every process that takes part.
    pub fn of_checks(process: &Process) -> Self {
        Self::open(process, ContextBlock::CHECKS)
    }

    /// Opens a side channel. Called once for a block, on every process that takes part.
    pub(crate) fn open(process: &Process, block: ContextBlock) -> Self {
        let id = block.id(SpacePurpose::PointToPoint);
        let context = process.open_context(id, process.rank());
        Self { context, arriving: RefCell::default() }
    }

    /// Begins to send to the process with rank `to` in the job, unless it has failed. Does not
    /// wait. Does nothing if `to` is the gate of a process of another job, which may not take part.
    pub fn send(&self, process: &Process, to: u32, bytes: &[u8]) {
        let gate = GateId(to);
        if to >= process.size() || process.runtime().failed().contains(&gate) {
            return;
        }
        let buffer = Buffer::zeroed(bytes.len());
        buffer.write(0, bytes);
        if let Some(request) = process.post_send(gate, self.context, to, 0, buffer) {
            process.runtime().detach(request);
        }
    }

    /// Takes the next message that has arrived completely, with the rank in the job of its
    /// sender. Makes no progress.
    pub fn next(&self, process: &Process) -> Option<(u32, Vec<u8>)> {
        loop {
            let found = process.runtime().matched_probe(self.context, None, None);
            let Some((message, incoming)) = found else { break };
            let buffer = Buffer::zeroed(incoming.bytes as usize);
            let request = process.runtime().receive_message(message, buffer.clone());
            let coming = request.map(|request| (incoming.source, request, buffer));
            self.arriving.borrow_mut().extend(coming);
        }
        let first = self.arriving.borrow().front().map(|(_, request, _)| *request)?;
        if !process.is_complete(first) {
            return None;
        }
        let (from, request, buffer) = self.arriving.borrow_mut().pop_front()?;
        let mut bytes = vec![0; buffer.len()];
        buffer.read(0, &mut bytes);
        process.finish(request).is_ok().then_some((from, bytes))
    }
}

impl fmt::Debug for SideChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SideChannel({} arriving)", self.arriving.borrow().len())
    }
}
