//! Messages about connections, and batches, that arrive slowly. What the same process has sent
//! after such a message depends on it, and waits; the messages of other processes do not.

use std::collections::VecDeque;

use base::GateId;
use engine::{IncomingMessage, MessageId, RequestId};
use memory::Buffer;

use crate::advance::discard;
use crate::batches::BATCH_BYTES_MAX;
use crate::host::EndpointHost;
use crate::message::{BATCH, CONTROL, CONTROL_BYTES_MAX};
use crate::service::ServiceState;

/// The messages of one process that must not be taken yet, because an earlier message of it about a
/// connection, or a batch, is still arriving.
#[derive(Debug, Default)]
pub(crate) struct BlockedGate {
    /// The message that is arriving. `None` if it was taken, but the limit of that call was reached
    /// before `behind` was empty.
    control: Option<ControlArrival>,
    /// The messages behind it, which the engine holds.
    behind: VecDeque<(MessageId, IncomingMessage)>,
}

/// A message about connections, or a batch, that is arriving.
#[derive(Debug)]
struct ControlArrival {
    tag: i32,
    request: RequestId,
    buffer: Buffer,
}

impl BlockedGate {
    /// Lets a message wait.
    pub fn add(&mut self, message: MessageId, incoming: IncomingMessage) {
        self.behind.push_back((message, incoming));
    }

    /// Drops all messages of a process that has failed.
    pub fn discard(self, process: &impl EndpointHost) {
        self.control.into_iter().for_each(|one| process.detach(one.request));
        self.behind.into_iter().for_each(|(message, _)| discard(process, message));
    }
}

impl<Process: EndpointHost> ServiceState<Process> {
    /// Takes messages of the processes whose earlier messages have arrived meanwhile, about `max`
    /// of each. Returns how many there were.
    pub fn take_blocked(&mut self, process: &Process, max: usize) -> usize {
        let is_free = |(_, one): &(&GateId, &BlockedGate)| {
            one.control.as_ref().is_none_or(|control| process.is_complete(control.request))
        };
        let free: Vec<GateId> =
            self.blocked.iter().filter(is_free).map(|(gate, _)| *gate).collect();
        free.into_iter().map(|gate| self.take_freed(process, gate, max)).sum()
    }

    fn take_freed(&mut self, process: &Process, from: GateId, max: usize) -> usize {
        let Some(BlockedGate { control, mut behind }) = self.blocked.remove(&from) else {
            return 0;
        };
        let mut taken = 0;
        if let Some(ControlArrival { tag, request, buffer }) = control {
            if process.finish(request).is_err() {
                // The peer has failed. What has arrived behind the message must not be delivered.
                BlockedGate { control: None, behind }.discard(process);
                self.lose_peer(process, from);
                return 1;
            }
            taken = 1 + self.take_arrived_buffer(process, (from, tag), &buffer);
        }
        while taken < max
            && let Some((message, incoming)) = behind.pop_front()
        {
            taken += self.take_next(process, message, &incoming);
            if let Some(blocked) = self.blocked.get_mut(&from) {
                blocked.behind = behind;
                return taken;
            }
        }
        if !behind.is_empty() {
            self.blocked.insert(from, BlockedGate { control: None, behind });
        }
        taken
    }

    /// Takes the next message of a process that is not blocked. Returns 1, plus the number of
    /// messages in it if it is a batch.
    pub fn take_next(
        &mut self,
        process: &Process,
        message: MessageId,
        incoming: &IncomingMessage,
    ) -> usize {
        if incoming.tag == CONTROL || incoming.tag == BATCH {
            return 1 + self.take_control(process, message, incoming);
        }
        self.take_message(process, message, incoming);
        1
    }

    /// Takes a message about connections, or a batch; if it has not arrived completely, its sender
    /// is blocked until then. Returns how many messages it had.
    fn take_control(
        &mut self,
        process: &Process,
        message: MessageId,
        incoming: &IncomingMessage,
    ) -> usize {
        let (from, tag) = (incoming.gate, incoming.tag);
        if let Some(bytes) = process.take_message(message) {
            return self.take_arrived_control(process, (from, tag), bytes.shared());
        }
        let length_max = if tag == BATCH { BATCH_BYTES_MAX as u64 } else { CONTROL_BYTES_MAX };
        let buffer = Buffer::zeroed(incoming.bytes.min(length_max) as usize);
        let received = process.receive_message(message, buffer.clone());
        let Some(request) = received else { return 0 };
        if !process.is_complete(request) {
            let control = Some(ControlArrival { tag, request, buffer });
            self.blocked.insert(from, BlockedGate { control, ..BlockedGate::default() });
            return 0;
        }
        match process.finish(request) {
            Ok(()) => self.take_arrived_buffer(process, (from, tag), &buffer),
            Err(_) => {
                self.lose_peer(process, from);
                0
            }
        }
    }

    fn take_arrived_buffer(
        &mut self,
        process: &Process,
        (from, tag): (GateId, i32),
        buffer: &Buffer,
    ) -> usize {
        let mut bytes = vec![0; buffer.len()];
        buffer.read(0, &mut bytes);
        self.take_arrived_control(process, (from, tag), (&*bytes).into())
    }
}
