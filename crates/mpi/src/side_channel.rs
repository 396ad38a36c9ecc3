//! Messages between any two processes of the job beside those of the program, for purposes of the
//! library that most jobs do not have.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

use base::GateId;
use engine::{ContextSlot, RequestId};
use memory::Buffer;

use crate::Process;
use crate::communicator::{ContextBlock, SpacePurpose};

/// A space for such messages, in which every process has the same rank as in the job. What comes is
/// asked for; it waits in the engine until then.
pub struct SideChannel {
    context: ContextSlot,
    /// What has come, or is coming, in order.
    arriving: RefCell<VecDeque<(u32, RequestId, Buffer)>>,
}

impl SideChannel {
    /// The one channel that there is, for checks; opened once, on every process that takes part.
    pub fn open(process: &Process) -> Self {
        let id = ContextBlock::CHECKS.id(SpacePurpose::PointToPoint);
        let context = process.open_context(id, process.rank());
        Self { context, arriving: RefCell::default() }
    }

    /// Sends to the process with this rank in the job, unless it has failed. Returns at once.
    pub fn send(&self, process: &Process, to: u32, bytes: &[u8]) {
        let gate = GateId(to);
        if process.runtime().failed().contains(&gate) {
            return;
        }
        let buffer = Buffer::zeroed(bytes.len());
        buffer.write(0, bytes);
        if let Some(request) = process.post_send(gate, self.context, to, 0, buffer) {
            process.runtime().detach(request);
        }
    }

    /// The next message that has come whole, and the rank in the job of who sent it. Makes no
    /// progress.
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
