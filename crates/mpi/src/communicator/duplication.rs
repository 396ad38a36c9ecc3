//! Duplicates of communicators (section 7.4.2 of the MPI standard), made at once or in passing.

use std::rc::Rc;

use base::Result;
use datatype::reduction::Operator;
use datatype::{BorrowedDatatype, Datatype, Predefined};
use memory::Buffer;

use super::creation::Origin;
use super::{Communicator, ContextBlock};
use crate::Process;
use crate::attribute::{Attributes, ObjectName};
use crate::collective::{self, Collective, Invocation, Reduction};
use crate::info::Info;
use crate::operation::Operation;
use crate::request::Request;

impl Process {
    /// The exchange in which all processes get contexts for another communicator with the same
    /// processes, and where it leaves them. It completes nowhere before all have come (decision
    /// 0080): the contexts of rank 0 are added to nothing from every other process.
    pub(super) fn agreement(&self, invocation: &Invocation<'_>) -> Result<(Collective, Buffer)> {
        let leads = invocation.rank() == 0;
        let own = packed(ContextBlock::BYTES);
        if leads {
            own.write(0, &self.contexts().take().to_bytes());
        }
        Ok(match invocation.remote() {
            None => {
                let told = packed(ContextBlock::BYTES);
                let datatype = BorrowedDatatype::Borrowed(Datatype::named(Predefined::Uint64));
                let combination = Operation::Predefined(Operator::Sum).on(&datatype)?;
                let (send, receive) = (Some(own), Some(told.clone()));
                let reduction = Reduction { send, receive, datatype, combination };
                (collective::allreduce(invocation, 1, reduction)?, told)
            }
            Some(remote) => {
                // Those of the side that comes first in the numbers come first.
                let told = packed(2 * ContextBlock::BYTES);
                (collective::leaders_tell_all(invocation, remote, own, told.clone()), told)
            }
        })
    }
}

impl Communicator {
    /// A duplicate that is not ready.
    fn copy_of(self: &Rc<Self>, process: &Process, attributes: Attributes) -> Rc<Communicator> {
        let (group, remote) = (Rc::clone(self.group()), self.remote().cloned());
        let copy = process.build_closed(group, remote, Origin::of(self, attributes));
        copy.share_topology(self);
        copy
    }

    /// `MPI_Comm_dup`: the same groups, copied attributes, no hints. `object` is how the interface
    /// names the communicator to the copy functions of its attributes.
    ///
    /// # Errors
    /// The code of the first copy function that fails; what [`Collective::complete`] may return.
    pub fn duplicate(
        self: &Rc<Self>,
        process: &Process,
        object: ObjectName,
    ) -> Result<Rc<Communicator>> {
        let (agreement, told) = process.agreement(&Invocation::blocking(self))?;
        agreement.complete(process)?;
        let attributes = self.attributes().copied(object)?;
        let copy = self.copy_of(process, attributes);
        process.open_communicator(&copy, contexts_in(&told)?);
        Ok(copy)
    }

    /// `MPI_Comm_dup_with_info`: as [`Communicator::duplicate`], with these hints.
    ///
    /// # Errors
    /// As there.
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

    /// `MPI_Comm_idup`: as [`Communicator::duplicate`], but the duplicate is ready only
    /// when the request is complete. Attributes are those of the call.
    ///
    /// # Errors
    /// The code of the first copy function that fails; the others get their duplicates.
    pub fn begin_duplicate(
        self: &Rc<Self>,
        process: &Process,
        object: ObjectName,
    ) -> Result<(Rc<Communicator>, Request)> {
        let (agreement, told) = process.agreement(&Invocation::nonblocking(self))?;
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
            process.open_communicator(&made, contexts_in(&told)?);
            Ok(())
        }));
        Ok((copy, agreement.into_request(process)))
    }
}

/// The contexts that an agreement left in `told`.
///
/// # Errors
/// `NoSpace` if whoever named them has none left.
pub(super) fn contexts_in(told: &Buffer) -> Result<ContextBlock> {
    let mut bytes = [0; ContextBlock::BYTES];
    told.read(0, &mut bytes);
    ContextBlock::from_bytes(bytes).checked()
}

/// Memory for a message of our own.
pub(super) fn packed(bytes: usize) -> Buffer {
    Buffer::zeroed(bytes)
}
