//! Places at which the program attaches buffers for buffered sends.

use std::cell::RefCell;

use base::{Error, ErrorClass, Result};
use engine::RequestId;

/// A place for an attached buffer: on a communicator, a session or the process.
#[derive(Debug, Default)]
pub struct BufferPlace(pub(crate) RefCell<Option<Attached>>);

/// A buffer of the program, as the attaching call describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramBuffer {
    /// Its address.
    pub address: usize,
    /// The maximum number of bytes of unsent messages; `None`: no limit (`MPI_BUFFER_AUTOMATIC`).
    pub bytes: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Attached {
    pub buffer: ProgramBuffer,
    /// Messages that have not been sent, each with the bytes that it takes in the buffer.
    pub underway: Vec<(RequestId, u64)>,
}

impl BufferPlace {
    /// Attaches a buffer.
    ///
    /// # Errors
    /// `Buffer` if a buffer is attached already.
    pub fn attach(&self, buffer: ProgramBuffer) -> Result<()> {
        let mut attached = self.0.borrow_mut();
        if attached.is_some() {
            let what = "a buffer is attached already: detach it first";
            return Err(Error::new(ErrorClass::Buffer, what));
        }
        *attached = Some(Attached { buffer, underway: Vec::new() });
        Ok(())
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.0.borrow().is_some()
    }

    pub(crate) fn has_underway(&self) -> bool {
        self.0.borrow().as_ref().is_some_and(|attached| !attached.underway.is_empty())
    }

    pub(crate) fn room(&self) -> u64 {
        let attached = self.0.borrow();
        let Some(Attached { buffer, underway }) = &*attached else { return 0 };
        let taken: u64 = underway.iter().map(|(_, cost)| cost).sum();
        buffer.bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(taken))
    }
}
