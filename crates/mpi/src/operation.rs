//! Operations of reductions (section 6.9 of the MPI standard).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use collectives::BlockRange;
use datatype::Datatype;
use datatype::reduction::{self, Operator, ReductionKernel};
use memory::{Buffer, SharedBytes};

use crate::collective::blocks::{OperationMemory, PackedRange, element_room, elements_in};

/// An operation that combines two elements.
pub enum Operation {
    /// An operation of the standard; all of them are commutative.
    Predefined(Operator),
    /// A function of the program.
    User {
        /// The function.
        function: UserFunction,
        /// Whether the program declared it commutative.
        commutative: bool,
    },
}

/// A function of the program: for the given number of elements, it replaces the right operands
/// (the second buffer) by `left op right`.
pub type UserFunction = Rc<dyn Fn(&Buffer, &Buffer, usize)>;

impl Operation {
    /// Whether the order of the two operands does not matter.
    pub fn is_commutative(&self) -> bool {
        match self {
            Operation::Predefined(_) => true,
            Operation::User { commutative, .. } => *commutative,
        }
    }

    /// Returns the operation for elements of a datatype in reductions.
    ///
    /// # Errors
    /// `Op` if the standard does not define the operation for the datatype, or for reductions at
    /// all.
    #[inline(always)]
    pub fn on(&self, datatype: &Arc<Datatype>) -> Result<OperationKernel> {
        if let (Operation::Predefined(operator), Some(predefined)) = (self, datatype.predefined())
            && !is_one_sided(*operator)
            && let Some(kernel) = reduction::kernel(*operator, predefined)
        {
            return Ok(OperationKernel::Predefined(kernel));
        }
        self.on_any(datatype)
    }

    #[cold]
    #[inline(never)]
    fn on_any(&self, datatype: &Arc<Datatype>) -> Result<OperationKernel> {
        match self {
            Operation::Predefined(operator) => Err(unsuitable(*operator, datatype)),
            Operation::User { function, commutative } => Ok(OperationKernel::User {
                function: Rc::clone(function),
                commutative: *commutative,
                datatype: Arc::clone(datatype),
            }),
        }
    }
}

fn is_one_sided(operator: Operator) -> bool {
    matches!(operator, Operator::Replace | Operator::NoOperation)
}

fn unsuitable(operator: Operator, datatype: &Datatype) -> Error {
    match datatype.predefined() {
        _ if is_one_sided(operator) => {
            undefined(operator, "in reductions, only in one-sided communication")
        }
        Some(predefined) => undefined(operator, &format!("for elements of {}", predefined.name())),
        None => {
            undefined(operator, "for derived datatypes; create an operation with MPI_Op_create")
        }
    }
}

/// An operation for elements of one datatype.
#[derive(Clone)]
pub enum OperationKernel {
    /// An operation of the standard.
    Predefined(ReductionKernel),
    /// A function of the program.
    User {
        /// The function.
        function: UserFunction,
        /// Whether the program declared it commutative.
        commutative: bool,
        /// The type of all elements.
        datatype: Arc<Datatype>,
    },
}

impl OperationKernel {
    /// Whether the order of the two operands does not matter.
    #[inline]
    pub fn is_commutative(&self) -> bool {
        match self {
            OperationKernel::Predefined(_) => true,
            OperationKernel::User { commutative, .. } => *commutative,
        }
    }

    /// The number of bytes of data in an element.
    #[inline]
    pub fn element_bytes(&self) -> usize {
        match self {
            OperationKernel::Predefined(kernel) => kernel.element_bytes(),
            OperationKernel::User { datatype, .. } => datatype.size(),
        }
    }

    /// Replaces the `count` elements of `into` by `from op into`.
    pub fn combine(&self, from: &Buffer, into: &Buffer, count: usize) {
        match self {
            OperationKernel::Predefined(kernel) => kernel.combine(from, into),
            OperationKernel::User { function, datatype, .. } => {
                apply(function, datatype, (from, into), count);
            }
        }
    }

    /// Replaces the `count` elements of `into` by `into op from`.
    pub(crate) fn combine_reversed(&self, from: &Buffer, into: &Buffer, count: usize) {
        let OperationKernel::User { commutative: false, datatype, .. } = self else {
            return self.combine(from, into, count);
        };
        let (bytes, origin) = element_room(datatype, count);
        let right = elements_in(&Buffer::zeroed(bytes), origin, datatype, count);
        from.copy_to(&right);
        self.combine(into, &right, count);
        right.copy_to(into);
    }

    /// Replaces the elements at `into` by `from op into`, where `from` contains packed elements.
    #[inline]
    pub(crate) fn combine_shared(
        &self,
        from: SharedBytes<'_>,
        memories: &OperationMemory,
        into: BlockRange,
    ) {
        match self {
            OperationKernel::Predefined(kernel) => {
                let PackedRange { buffer, offset, .. } = memories.range(into);
                kernel.combine_shared(from, buffer, offset);
            }
            OperationKernel::User { function, datatype, .. } => {
                // The function may require elements in the layout of the datatype.
                let count = into.count;
                let (bytes, origin) = element_room(datatype, count);
                let left = elements_in(&Buffer::zeroed(bytes), origin, datatype, count);
                left.write_shared(0, from);
                apply(function, datatype, (&left, &memories.part(into)), count);
            }
        }
    }
}

/// Calls a function of the program for `count` elements of a datatype. Elements that the processor
/// does not address are copied to memory that it does, and the result is copied back.
fn apply(
    function: &UserFunction,
    datatype: &Arc<Datatype>,
    (from, into): (&Buffer, &Buffer),
    count: usize,
) {
    let addressable = |elements: &Buffer| {
        if elements.is_addressable() {
            return elements.clone();
        }
        let (bytes, origin) = element_room(datatype, count);
        let copy = elements_in(&Buffer::zeroed(bytes), origin, datatype, count);
        elements.copy_to(&copy);
        copy
    };
    let (given, result) = (addressable(from), addressable(into));
    function(&given, &result, count);
    if !into.is_addressable() {
        result.copy_to(into);
    }
}

impl fmt::Debug for OperationKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperationKernel::Predefined(kernel) => write!(f, "{kernel:?}"),
            OperationKernel::User { commutative, .. } => {
                write!(f, "User(commutative: {commutative})")
            }
        }
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Predefined(operator) => f.write_str(operator.name()),
            Operation::User { commutative, .. } => write!(f, "User(commutative: {commutative})"),
        }
    }
}

#[cold]
fn undefined(operator: Operator, why: &str) -> Error {
    Error::new(ErrorClass::Op, format!("{} is not defined {why}", operator.name()))
}
