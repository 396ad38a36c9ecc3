//! Duplicates of communicators (section 7.4.2 of the MPI standard), made by blocking or
//! nonblocking calls.

use std::rc::Rc;

use base::Result;
use datatype::reduction::Operator;
use datatype::{BorrowedDatatype, Datatype, Predefined};
use memory::Buffer;

use super::Communicator;
use super::creation::Origin;
use crate::Process;
use crate::attribute::{Attributes, ObjectName};
use crate::collective::{self, Collective, Invocation, Reduction};
use crate::contexts::ContextBlock;
use crate::info::Info;
use crate::operation::Operation;
use crate::request::Request;

impl Process {
    /// Returns the collective operation in which all processes get contexts for another
    /// communicator of these processes, and the buffer that receives the contexts. The operation
    /// completes on no process before all have called it (decision 0080): it sums the contexts of
    /// rank 0 and zeros from every other process.
    pub(super) fn agreement(&self, invocation: &Invocation<'_>) -> Result<(Collective, Buffer)> {
        let leads = invocation.rank() == 0;
        let own = Buffer::zeroed(ContextBlock::BYTES);
        if leads {
            own.write(0, &self.contexts().take().to_bytes());
        }
        Ok(match invocation.remote() {
            None => {
                let received = Buffer::zeroed(ContextBlock::BYTES);
                let datatype = BorrowedDatatype::Borrowed(Datatype::named(Predefined::Uint64));
                let combination = Operation::Predefined(Operator::Sum).on(&datatype)?;
                let (send, receive) = (Some(own), Some(received.clone()));
                let reduction = Reduction { send, receive, datatype, combination };
                (collective::allreduce(invocation, 1, reduction)?, received)
            }
            Some(remote) => {
                // The contexts of the side that comes first in the numbering come first in the
                // buffer.
                let received = Buffer::zeroed(2 * ContextBlock::BYTES);
                (collective::leaders_send_all(invocation, remote, own, received.clone()), received)
            }
        })
    }
}

impl Communicator {
    /// Returns a duplicate that has no contexts yet.
    fn copy_of(self: &Rc<Self>, process: &Process, attributes: Attributes) -> Rc<Communicator> {
        let (group, remote) = (Rc::clone(self.group()), self.remote().cloned());
        let copy = process.build_closed(group, remote, Origin::of(self, attributes));
        copy.share_topology(self);
        copy
    }

    /// Duplicates the communicator (`MPI_Comm_dup`): its groups and copied attributes, but no
    /// hints. `object` is the communicator's handle that the interface passes to the copy
    /// functions of the attributes.
    ///
    /// # Errors
    /// The code of the first copy function that fails; the errors of [`Collective::complete`].
    pub fn duplicate(
        self: &Rc<Self>,
        process: &Process,
        object: ObjectName,
    ) -> Result<Rc<Communicator>> {
        let (agreement, received) = process.agreement(&Invocation::blocking(self))?;
        agreement.complete(process)?;
        let attributes = self.attributes().copied(object)?;
        let copy = self.copy_of(process, attributes);
        process.open_communicator(&copy, contexts_in(&received)?);
        Ok(copy)
    }

    /// Duplicates the communicator for the library, without attributes and hints.
    ///
    /// # Errors
    /// Those of [`Collective::complete`].
    pub(crate) fn duplicate_for_library(
        self: &Rc<Self>,
        process: &Process,
    ) -> Result<Rc<Communicator>> {
        let (agreement, received) = process.agreement(&Invocation::blocking(self))?;
        agreement.complete(process)?;
        let (group, remote) = (Rc::clone(self.group()), self.remote().cloned());
        let origin = Origin { session: None, ..Origin::of(self, Attributes::default()) };
        let copy = process.build_closed(group, remote, origin);
        process.open_communicator(&copy, contexts_in(&received)?);
        Ok(copy)
    }

    /// Duplicates the communicator as [`Communicator::duplicate`] does, with the hints of `info`
    /// (`MPI_Comm_dup_with_info`).
    ///
    /// # Errors
    /// Those of [`Communicator::duplicate`].
    pub fn duplicate_with_info(
        self: &Rc<Self>,
        process: &Process,
        object: ObjectName,
        info: &Info,
    ) -> Result<Rc<Communicator>> {
        let copy = self.duplicate(process, object)?;
        copy.set_info(process, info);
        Ok(copy)
    }

    /// Begins to duplicate the communicator (`MPI_Comm_idup`). The duplicate may be used when the
    /// request is complete. Its attributes are copied during this call.
    ///
    /// # Errors
    /// The code of the first copy function that fails; the other processes get their duplicates.
    pub fn begin_duplicate(
        self: &Rc<Self>,
        process: &Process,
        object: ObjectName,
    ) -> Result<(Rc<Communicator>, Request)> {
        let (agreement, received) = process.agreement(&Invocation::nonblocking(self))?;
        let attributes = match self.attributes().copied(object) {
            Ok(attributes) => attributes,
            Err(error) => {
                agreement.into_request(process);
                return Err(error);
            }
        };
        let copy = self.copy_of(process, attributes);
        let made = Rc::clone(&copy);
        let agreement = agreement.finally(Box::new(move |process| {
            process.open_communicator(&made, contexts_in(&received)?);
            Ok(())
        }));
        Ok((copy, agreement.into_request(process)))
    }
}

/// Returns the contexts that an agreement left in `received`.
///
/// # Errors
/// `NoSpace` if the process that assigns the contexts has none left.
pub(super) fn contexts_in(received: &Buffer) -> Result<ContextBlock> {
    let mut bytes = [0; ContextBlock::BYTES];
    received.read(0, &mut bytes);
    ContextBlock::from_bytes(bytes).checked()
}
