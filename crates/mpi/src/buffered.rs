//! Buffered sends (section 3.6 of the MPI standard).
//!
//! The attached buffer only limits how much may be underway. The messages themselves are copied
//! to internal memory.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use engine::Send;
use memory::Buffer;

use crate::Process;
use crate::communicator::Communicator;

pub use crate::buffer_place::{BufferPlace, ProgramBuffer};

/// The bytes that each message takes from the attached buffer in addition to its data. It is at
/// most the `MPI_BSEND_OVERHEAD` of each ABI, which programs add to the size of the buffer.
pub const OVERHEAD_BYTES: u64 = 64;

impl Process {
    /// The place where the process's own buffer is attached.
    pub fn buffer(&self) -> &Rc<BufferPlace> {
        &self.buffer
    }
}

impl BufferPlace {
    fn forget_sent(&self, process: &Process) {
        if let Some(attached) = &mut *self.0.borrow_mut()
            && !attached.underway.is_empty()
        {
            let mut runtime = process.runtime();
            attached.underway.retain(|&(id, _)| runtime.take(id).is_none());
        }
    }
}

impl Communicator {
    fn paying_place(&self, process: &Process, length: usize) -> Result<Rc<BufferPlace>> {
        let of_session = self.session().map(|session| session.buffer());
        let places = [self.attached_place(), of_session, Some(&process.buffer)];
        let paying = places.into_iter().flatten().find(|place| place.is_attached());
        paying.cloned().ok_or_else(|| {
            let what = format!(
                "no buffer is attached for the {length} bytes of the message: call \
                 MPI_Buffer_attach first"
            );
            Error::new(ErrorClass::Buffer, what)
        })
    }
}

impl BufferPlace {
    /// Waits until all messages of a place have been sent, and detaches its buffer; `None` if
    /// there is none.
    pub fn detach(&self, process: &Process) -> Option<ProgramBuffer> {
        self.flush(process);
        self.0.take().map(|attached| attached.buffer)
    }

    /// Waits until all messages of a place have been sent.
    pub fn flush(&self, process: &Process) {
        if self.is_attached() {
            process.wait_until(&mut |process| self.is_empty(process));
        }
    }

    /// Whether all messages of a place have been sent; makes no progress.
    pub fn is_empty(&self, process: &Process) -> bool {
        self.forget_sent(process);
        self.0.borrow().as_ref().is_none_or(|attached| attached.underway.is_empty())
    }
}

impl Communicator {
    /// Sends in buffered mode: data that cannot be sent immediately is copied, so that the call
    /// returns immediately. The message takes room in the communicator's buffer, else in that of
    /// its session, else in that of the process.
    ///
    /// # Errors
    /// `Buffer` if no buffer is attached or it has too little room; `Rank` if the communicator
    /// has no such process.
    pub(crate) fn send_buffered(
        self: &Rc<Self>,
        process: &Process,
        peer: u32,
        tag: i32,
        buffer: Buffer,
    ) -> Result<()> {
        let gate = self.checked_gate(peer)?;
        let cost = buffer.len() as u64 + OVERHEAD_BYTES;
        let place = self.paying_place(process, buffer.len()).inspect_err(|_| {
            process.note_unsent(self, peer, tag, buffer.len());
        })?;
        if place.has_underway() {
            process.progress();
            place.forget_sent(process);
        }
        if place.room() < cost {
            process.note_unsent(self, peer, tag, buffer.len());
            let what = format!(
                "the attached buffer has too little room for {} bytes and {OVERHEAD_BYTES} of \
                 overhead; attach a larger one",
                buffer.len()
            );
            return Err(Error::new(ErrorClass::Buffer, what));
        }
        let context = self.point_to_point_context();
        let mut send = Send { gate, peer, context, tag, synchronous: false, buffer };
        if process.runtime().try_send(&send) {
            return Ok(());
        }
        let copy = Buffer::zeroed(send.buffer.len());
        send.buffer.copy_to(&copy);
        send.buffer = copy;
        let submitted = process.runtime().send(send);
        if let (Some(id), Some(attached)) = (submitted, &mut *place.0.borrow_mut()) {
            attached.underway.push((id, cost));
        }
        Ok(())
    }
}
