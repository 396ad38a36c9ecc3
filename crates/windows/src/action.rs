//! Descriptions of the operations of an origin: put, get, accumulate and their variants (section
//! 12.3), and the checks that need no window.

use base::{Error, ErrorClass, Result};
use datatype::reduction::{self, Operator};
use datatype::{Datatype, Predefined, ValueKind as ElementKind};
use memory::Buffer;

use super::TargetPlace;
use super::message::RequestKind;

/// What an operation does at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// The origin's data is written.
    Put,
    /// The target's data is read.
    Get,
    /// The target's data becomes `origin operator target`.
    Accumulate {
        /// The operation, one of the predefined ones.
        operator: Operator,
        /// The type of the elements; `None` if there are no elements, or if the operation does not
        /// change them.
        element: Option<Predefined>,
        /// Whether the target's previous data is returned.
        old: OldData,
    },
    /// If the target's value equals the value to compare with, it is replaced by the origin's. The
    /// previous value is returned.
    Swap,
}

/// One operation.
#[derive(Debug)]
pub struct WindowAccess {
    /// What is done at the target.
    pub action: AccessKind,
    /// The data that the origin provides; empty if it provides none.
    pub origin: Buffer,
    /// The value to compare with for [`AccessKind::Swap`]; otherwise empty.
    pub compare: Buffer,
    /// The buffer for returned data; empty if no data is returned.
    pub result: Buffer,
    /// Where the data is at the target.
    pub place: TargetPlace,
}

/// Whether the target's data that an accumulate replaces is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldData {
    /// It is returned to the origin.
    Fetched,
    /// It is dropped.
    Dropped,
}

impl AccessKind {
    /// Creates an accumulate, checked: both sides must have elements of one predefined datatype for
    /// which the operation is defined (section 12.3.4).
    ///
    /// # Errors
    /// `Type` if the elements are not all of one predefined datatype, or if the datatypes of the
    /// two sides differ; `Op` if the operation is not defined for it.
    pub fn accumulate(
        operator: Operator,
        origin: Option<&Datatype>,
        place: &TargetPlace,
        old: OldData,
    ) -> Result<Self> {
        if place.is_empty() {
            return Ok(AccessKind::Accumulate { operator, element: None, old });
        }
        let mixed = |side: &str| {
            let detail = format!(
                "the {side}'s datatype has elements of several predefined datatypes, but all must \
                 be of one"
            );
            Error::new(ErrorClass::Type, detail)
        };
        let element = place.element().ok_or_else(|| mixed("target"))?;
        if let Some(origin) = origin.filter(|_| operator != Operator::NoOperation) {
            let given = origin.operand().ok_or_else(|| mixed("origin"))?;
            if (given.kind(), given.size()) != (element.kind(), element.size()) {
                let (given, element) = (given.name(), element.name());
                let detail = format!("the origin's elements are {given}, the target's {element}");
                return Err(Error::new(ErrorClass::Type, detail));
            }
        }
        if !reduction::supports(operator, element) {
            let (operator, element) = (operator.name(), element.name());
            let detail = format!("{operator} is not defined for elements of {element}");
            return Err(Error::new(ErrorClass::Op, detail));
        }
        let changes = operator != Operator::NoOperation;
        Ok(AccessKind::Accumulate { operator, element: changes.then_some(element), old })
    }

    /// Creates a compare and swap, checked.
    ///
    /// # Errors
    /// `Type` if the element is not an integer, a truth value, a byte (section 12.3.4) or a
    /// character. The standard does not allow characters, but other libraries accept them.
    pub fn swap(datatype: &Datatype) -> Result<Self> {
        match datatype.predefined().map(Predefined::kind) {
            Some(
                ElementKind::Signed
                | ElementKind::Unsigned
                | ElementKind::Logical
                | ElementKind::Byte
                | ElementKind::Character
                | ElementKind::WideCharacter,
            ) => Ok(AccessKind::Swap),
            _ => Err(Error::new(
                ErrorClass::Type,
                "the datatype must be a predefined one of integers, truth values, characters or bytes",
            )),
        }
    }

    pub(super) fn kind(&self) -> RequestKind {
        match self {
            AccessKind::Put => RequestKind::Put,
            AccessKind::Get => RequestKind::Get,
            AccessKind::Accumulate { old: OldData::Dropped, .. } => RequestKind::Accumulate,
            AccessKind::Accumulate { old: OldData::Fetched, .. } => RequestKind::Fetch,
            AccessKind::Swap => RequestKind::Swap,
        }
    }
}

impl WindowAccess {
    /// Whether the operation neither reads nor changes anything.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(
            self.action,
            AccessKind::Accumulate { operator: Operator::NoOperation, old: OldData::Dropped, .. }
        )
    }

    /// Whether data is returned.
    pub(super) fn fetches(&self) -> bool {
        matches!(
            self.action,
            AccessKind::Get
                | AccessKind::Swap
                | AccessKind::Accumulate { old: OldData::Fetched, .. }
        )
    }

    /// Checks that the lengths of the buffers match.
    ///
    /// # Errors
    /// `Type` if the buffers do not have as much data as the place at the target.
    pub(super) fn check_lengths(&self) -> Result<()> {
        let target = self.place.len();
        let gives = match self.action {
            AccessKind::Get => 0,
            AccessKind::Accumulate { operator: Operator::NoOperation, .. } => self.origin.len(),
            _ => target,
        };
        let unequal = |side: &str, bytes: usize| {
            let detail = format!(
                "the {side} has {bytes} bytes of data, the target {target}: both must have the \
                 same elements"
            );
            Err(Error::new(ErrorClass::Type, detail))
        };
        if self.origin.len() != gives {
            return unequal("origin", self.origin.len());
        }
        if self.action == AccessKind::Swap && self.compare.len() != target {
            return unequal("value to compare with", self.compare.len());
        }
        if self.fetches() && self.result.len() != target {
            return unequal("result", self.result.len());
        }
        Ok(())
    }
}
