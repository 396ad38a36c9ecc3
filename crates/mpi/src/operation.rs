//! Operations of reductions (section 6.9 of the MPI standard).

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use base::{Error, ErrorClass, Result};
use datatype::Datatype;
use datatype::reduction::{self, Operator};
use memory::{Buffer, Scratch};

use crate::collective::blocks::{Range, element_room, elements_in};

/// How two elements become one.
pub enum Operation {
    /// An operation of the standard; all of them are commutative.
    Predefined(Operator),
    /// A function of the program.
    User {
        /// The function.
        function: UserFunction,
        /// Whether the program said that it is commutative.
        commutative: bool,
    },
}

/// A function of the program: for the given number of elements, the right operand (the second
/// buffer) becomes `left op right`.
pub type UserFunction = Rc<dyn Fn(&Buffer, &Buffer, usize)>;

impl Operation {
    /// Whether the order of the two operands does not matter.
    pub fn is_commutative(&self) -> bool {
        match self {
            Operation::Predefined(_) => true,
            Operation::User { commutative, .. } => *commutative,
        }
    }

    /// Whether a reduction can combine elements of a datatype.
    ///
    /// # Errors
    /// `Op` if the standard does not define the operation for the datatype, or at all for
    /// reductions.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        let Operation::Predefined(operator) = self else { return Ok(()) };
        match datatype.predefined() {
            _ if matches!(operator, Operator::Replace | Operator::NoOperation) => {
                Err(undefined(*operator, "in reductions, only in one-sided communication"))
            }
            None => Err(undefined(
                *operator,
                "for derived datatypes; create an operation with MPI_Op_create",
            )),
            Some(predefined) if !reduction::supports(*operator, predefined) => {
                Err(undefined(*operator, &format!("for elements of {}", predefined.name())))
            }
            Some(_) => Ok(()),
        }
    }

    /// The elements of `into` become `from op into`.
    #[inline]
    pub(crate) fn combine(&self, from: &Buffer, into: &Buffer, datatype: &Datatype, count: usize) {
        match self {
            Operation::Predefined(operator) => {
                let predefined = datatype.predefined().expect("`check` let predefined types pass");
                reduction::combine(*operator, predefined, from, into);
            }
            Operation::User { function, .. } => function(from, into, count),
        }
    }

    /// The `count` elements from packed offset `offset` of `into` on become `from op into`; `part` is
    /// the memory of these.
    #[inline]
    pub(crate) fn combine_bytes(
        &self,
        from: &[u8],
        into: Range<'_>,
        part: impl FnOnce() -> Buffer,
        datatype: &Datatype,
        count: usize,
    ) {
        match self {
            Operation::Predefined(operator) => {
                let predefined = datatype.predefined().expect("`check` let predefined types pass");
                reduction::combine_bytes(*operator, predefined, from, into.buffer, into.offset);
            }
            Operation::User { function, .. } => {
                // The function may ask for elements as the datatype lays them out.
                let (bytes, origin) = element_room(datatype, count);
                let left = elements_in(&Arc::new(Scratch::zeroed(bytes)), origin, datatype, count);
                left.write(0, from);
                function(&left, &part(), count);
            }
        }
    }

    /// The elements of `into` become `into op from`.
    pub(crate) fn combine_reversed(
        &self,
        from: &Buffer,
        into: &Buffer,
        datatype: &Datatype,
        count: usize,
    ) {
        if self.is_commutative() {
            return self.combine(from, into, datatype, count);
        }
        let (bytes, origin) = element_room(datatype, count);
        let right = elements_in(&Arc::new(Scratch::zeroed(bytes)), origin, datatype, count);
        from.copy_to(&right);
        self.combine(into, &right, datatype, count);
        right.copy_to(into);
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
