//! Buffered sends (section 3.6 of the MPI standard).
//!
//! The attached buffer is what a program pays with: its size bounds what may be underway. The
//! messages themselves are kept in memory of our own.

use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use engine::{RequestId, Send};
use memory::{Buffer, Scratch};

use crate::communicator::Communicator;
use crate::process::Process;

/// Bytes that each message takes from the attached buffer beside its data (`MPI_BSEND_OVERHEAD`).
pub const OVERHEAD_BYTES: u64 = 512;

/// The attached buffer: its size and what is underway.
#[derive(Debug)]
pub(crate) struct AttachedBuffer {
    size: u64,
    underway: Vec<(RequestId, u64)>,
}

impl Process {
    /// `MPI_Buffer_attach`: allows buffered sends to have `size` bytes underway.
    ///
    /// # Errors
    /// `Buffer` if a buffer is attached already.
    pub fn attach_buffer(&self, size: u64) -> Result<()> {
        let mut attached = self.attached.borrow_mut();
        if attached.is_some() {
            let what = "a buffer is attached already: detach it first";
            return Err(Error::new(ErrorClass::Buffer, what));
        }
        *attached = Some(AttachedBuffer { size, underway: Vec::new() });
        Ok(())
    }

    /// `MPI_Buffer_detach`: waits until all buffered messages have left. Returns whether a buffer
    /// was attached.
    pub fn detach_buffer(&self) -> bool {
        self.flush_buffer();
        self.attached.take().is_some()
    }

    /// `MPI_Buffer_flush`: waits until all buffered messages have left.
    pub fn flush_buffer(&self) {
        if self.attached.borrow().is_some() {
            self.wait_until(&mut |process| process.buffer_is_empty());
        }
    }

    /// Whether all buffered messages have left; makes no progress.
    pub fn buffer_is_empty(&self) -> bool {
        self.forget_sent();
        self.attached.borrow().as_ref().is_none_or(|attached| attached.underway.is_empty())
    }

    fn forget_sent(&self) {
        if let Some(attached) = &mut *self.attached.borrow_mut() {
            let mut runtime = self.runtime();
            attached.underway.retain(|&(id, _)| runtime.take(id).is_none());
        }
    }

    /// Sends in buffered mode: the data is copied, so that the call returns at once.
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
        self.progress();
        self.forget_sent();
        if self.room_for_buffered(buffer.len())? < cost {
            let what = format!(
                "the attached buffer has too little room for {} bytes and {OVERHEAD_BYTES} of \
                 overhead; attach a larger one",
                buffer.len()
            );
            return Err(Error::new(ErrorClass::Buffer, what));
        }
        let scratch = Arc::new(Scratch::zeroed(buffer.len()));
        let copy = Buffer::of_scratch(&scratch, 0, buffer.len());
        buffer.copy_to(&copy);
        let context = communicator.point_to_point_context();
        let send = Send { gate, peer, context, tag, synchronous: false, buffer: copy };
        let submitted = self.runtime().send(send);
        if let (Some(id), Some(attached)) = (submitted, &mut *self.attached.borrow_mut()) {
            attached.underway.push((id, cost));
        }
        Ok(())
    }

    fn room_for_buffered(&self, length: usize) -> Result<u64> {
        match &*self.attached.borrow() {
            Some(attached) => {
                let taken: u64 = attached.underway.iter().map(|(_, cost)| cost).sum();
                Ok(attached.size.saturating_sub(taken))
            }
            None => {
                let what = format!(
                    "no buffer is attached for the {length} bytes of the message: call \
                     MPI_Buffer_attach first"
                );
                Err(Error::new(ErrorClass::Buffer, what))
            }
        }
    }
}
