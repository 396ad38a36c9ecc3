//! Buffered sends (section 3.6 of the MPI standard).
//!
//! The attached buffer is what a program pays with: its size bounds what may be underway. The
//! messages themselves are kept in memory of our own.

use std::cell::RefCell;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use engine::{RequestId, Send};
use memory::Buffer;

use crate::communicator::Communicator;
use crate::process::Process;

/// Bytes that each message takes from the attached buffer beside its data (`MPI_BSEND_OVERHEAD`).
pub const OVERHEAD_BYTES: u64 = 512;

/// Where a buffer can be attached: a communicator, a session or the process.
#[derive(Debug, Default)]
pub struct BufferPlace(RefCell<Option<Attached>>);

/// A buffer of the program, as the interface names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramBuffer {
    /// Its address.
    pub address: usize,
    /// What may be underway, in bytes; none: anything (`MPI_BUFFER_AUTOMATIC`).
    pub bytes: Option<u64>,
}

#[derive(Debug)]
struct Attached {
    buffer: ProgramBuffer,
    /// Messages that have not left, with what each takes.
    underway: Vec<(RequestId, u64)>,
}

impl BufferPlace {
    /// Attaches a buffer.
    ///
    /// # Errors
    /// `Buffer` if one is attached already.
    pub fn attach(&self, buffer: ProgramBuffer) -> Result<()> {
        let mut attached = self.0.borrow_mut();
        if attached.is_some() {
            let what = "a buffer is attached already: detach it first";
            return Err(Error::new(ErrorClass::Buffer, what));
        }
        *attached = Some(Attached { buffer, underway: Vec::new() });
        Ok(())
    }

    fn is_attached(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn room(&self) -> u64 {
        let attached = self.0.borrow();
        let Some(Attached { buffer, underway }) = &*attached else { return 0 };
        let taken: u64 = underway.iter().map(|(_, cost)| cost).sum();
        buffer.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(taken))
    }
}

impl Process {
    /// Where the process's own buffer is attached.
    pub fn buffer(&self) -> &Rc<BufferPlace> {
        &self.buffer
    }

    /// Waits until all messages of a place have left, and detaches its buffer; `None` if there is
    /// none.
    pub fn detach_buffer(&self, place: &BufferPlace) -> Option<ProgramBuffer> {
        self.flush_buffer(place);
        place.0.take().map(|attached| attached.buffer)
    }

    /// Waits until all messages of a place have left.
    pub fn flush_buffer(&self, place: &BufferPlace) {
        if place.is_attached() {
            self.wait_until(&mut |process| process.buffer_is_empty(place));
        }
    }

    /// Whether all messages of a place have left; makes no progress.
    pub fn buffer_is_empty(&self, place: &BufferPlace) -> bool {
        self.forget_sent(place);
        place.0.borrow().as_ref().is_none_or(|attached| attached.underway.is_empty())
    }

    fn forget_sent(&self, place: &BufferPlace) {
        if let Some(attached) = &mut *place.0.borrow_mut()
            && !attached.underway.is_empty()
        {
            let mut runtime = self.runtime();
            attached.underway.retain(|&(id, _)| runtime.take(id).is_none());
        }
    }

    /// Sends in buffered mode: the data is copied, so that the call returns at once. What pays is
    /// the communicator's buffer, else that of the session it comes from, else the process's.
    ///
    /// # Errors
    /// `Buffer` if no buffer is attached or it has too little room; `Rank` if the communicator has
    /// no such process.
    pub(crate) fn send_buffered(
        &self,
        communicator: &Rc<Communicator>,
        peer: u32,
        tag: i32,
        buffer: &Buffer,
    ) -> Result<()> {
        let gate = communicator.checked_gate(peer)?;
        let cost = buffer.len() as u64 + OVERHEAD_BYTES;
        let place = self.paying_place(communicator, buffer.len())?;
        self.progress();
        self.forget_sent(&place);
        if place.room() < cost {
            let what = format!(
                "the attached buffer has too little room for {} bytes and {OVERHEAD_BYTES} of \
                 overhead; attach a larger one",
                buffer.len()
            );
            return Err(Error::new(ErrorClass::Buffer, what));
        }
        let copy = Buffer::zeroed(buffer.len());
        buffer.copy_to(&copy);
        let context = communicator.point_to_point_context();
        let send = Send { gate, peer, context, tag, synchronous: false, buffer: copy };
        let submitted = self.runtime().send(send);
        if let (Some(id), Some(attached)) = (submitted, &mut *place.0.borrow_mut()) {
            attached.underway.push((id, cost));
        }
        Ok(())
    }

    fn paying_place(&self, communicator: &Communicator, length: usize) -> Result<Rc<BufferPlace>> {
        let of_session = communicator.session().map(|session| session.buffer());
        let places = [communicator.attached_place(), of_session, Some(&self.buffer)];
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
