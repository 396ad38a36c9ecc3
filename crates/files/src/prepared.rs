//! A transfer between the check of its arguments and its status.

use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use memory::LentBuffer;
use mpi::MessageStatus;

use crate::FileView;
use crate::representation::FileData;
use crate::storage::Direction;
use crate::transfer::{FileAccess, Progress};

/// A transfer whose arguments were checked.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub direction: Direction,
    pub view: FileView,
    /// The position in the stream, in bytes.
    pub position: u64,
    /// The data that the program passed.
    pub data: FileData,
    /// The data in the representation of the file, if it differs.
    pub converted: Option<LentBuffer>,
}

impl Prepared {
    pub fn memory(&self) -> &LentBuffer {
        self.converted.as_ref().unwrap_or(&self.data.memory)
    }

    /// Returns how many bytes of the file it transfers.
    pub fn bytes(&self) -> u64 {
        self.memory().len() as u64
    }

    pub fn check_end(&self) -> Result<()> {
        let (bytes, position) = (self.bytes(), self.position);
        let end = position.checked_add(bytes).filter(|end| *end <= i64::MAX as u64);
        end.map(|_| ()).ok_or_else(|| {
            let detail = format!("{bytes} bytes from {position} on in the view exceed 2^63-1");
            Error::new(ErrorClass::Arg, detail)
        })
    }

    /// Removes and returns the memory to transfer from or to, until it is given back.
    pub fn take_memory(&mut self) -> LentBuffer {
        let memory = self.converted.as_mut().unwrap_or(&mut self.data.memory);
        std::mem::replace(memory, LentBuffer::zeroed(0))
    }

    /// Gives that memory back.
    pub fn return_memory(&mut self, memory: LentBuffer) {
        *self.converted.as_mut().unwrap_or(&mut self.data.memory) = memory;
    }

    /// Returns the transfer as a job for any thread; the memory comes back with its outcome.
    pub fn take_work(
        &mut self,
        access: FileAccess,
    ) -> impl FnOnce() -> (LentBuffer, Progress) + Send + use<> {
        let (memory, view) = (self.take_memory(), Arc::clone(&self.view.bytes));
        let (position, direction) = (self.position, self.direction);
        move || {
            let progress = access.transfer(&view, position, &memory, direction);
            (memory, progress)
        }
    }

    /// Whether its end calls functions of the program.
    pub fn calls_program(&self) -> bool {
        self.direction == Direction::Read && self.view.representation.calls_program()
    }

    /// Returns the status of the transfer, which is complete.
    pub fn conclude(&self, name: &str, progress: Progress) -> MessageStatus {
        let Prepared { direction, view, data, converted, .. } = self;
        let mut status = MessageStatus { bytes: progress.bytes, ..MessageStatus::EMPTY };
        if let (Some(converted), Direction::Read) = (converted, direction) {
            match view.representation.decode(converted, progress.bytes, data) {
                Ok(bytes) => status.bytes = bytes,
                Err(error) => status.error = Some(Box::new(error)),
            }
        } else if converted.is_some() && progress.bytes == self.bytes() {
            status.bytes = data.memory.len() as u64;
        }
        if let Some(fault) = progress.fault {
            let error = fault.error(direction.verb(), name, progress.bytes);
            status.error = Some(Box::new(error));
        }
        status
    }
}
