//! Split collective operations: begun by one call, ended by another (section 14.4.5).

use base::{Error, ErrorClass, Result};
use mpi::{MessageStatus, Process, Request};

use crate::representation::FileData;
use crate::storage::Direction;
use crate::{File, FilePlace};

/// A split operation that was begun.
#[derive(Debug)]
pub(crate) struct SplitOperation {
    direction: Direction,
    place: FilePlace,
    /// The address of the buffer.
    address: usize,
    request: Request,
}

impl File {
    /// Begins a collective transfer; a file has one at a time.
    ///
    /// # Errors
    /// `Other` if one was begun already; those of [`File::transfer`].
    pub fn begin_split(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        data: FileData,
    ) -> Result<()> {
        self.check_no_split()?;
        let address = data.address;
        let request = self.begin_all(process, direction, place, data)?;
        self.split.replace(Some(SplitOperation { direction, place, address, request }));
        Ok(())
    }

    /// Ends the transfer; direction, kind of place and buffer must be those of its begin.
    ///
    /// # Errors
    /// `Other` if no such transfer was begun.
    pub fn end_split(
        &self,
        process: &Process,
        direction: Direction,
        place: FilePlace,
        address: usize,
    ) -> Result<MessageStatus> {
        let is_same_place =
            |begun: FilePlace| std::mem::discriminant(&begun) == std::mem::discriminant(&place);
        let begun = self.split.borrow_mut().take_if(|begun| {
            begun.direction == direction && is_same_place(begun.place) && begun.address == address
        });
        let Some(mut begun) = begun else {
            let what = match self.split.borrow().is_some() {
                true => {
                    "the split collective operation that was begun is of another kind, or has \
                         another buffer"
                }
                false => "no split collective operation was begun",
            };
            return Err(Error::new(ErrorClass::Other, what));
        };
        Ok(begun.request.wait(process))
    }

    /// Checks that another collective operation may be called.
    ///
    /// # Errors
    /// `Other` while a split one is not ended (section 14.4.5).
    pub(crate) fn check_no_split(&self) -> Result<()> {
        if self.split.borrow().is_none() {
            return Ok(());
        }
        let what = "a split collective operation on this file was begun and is not ended";
        Err(Error::new(ErrorClass::Other, what))
    }
}
