//! Calls of collective functions: their arguments, which with the communicator determine a
//! schedule.

use crate::member::InputPlace;
use crate::operands::Operands;
use crate::operation::CollectiveOperation;

/// The form in which a program calls a collective function (sections 6.12 and 6.13 of the
/// standard).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallForm {
    /// The call returns when this process has completed its part.
    Blocking,
    /// The call begins the operation and returns; the process may compute until it waits for the
    /// end.
    Nonblocking,
    /// The call prepares the operation, which is started any number of times, in no order that
    /// processes agree on.
    Persistent,
}

/// A member's call of a collective function on an intracommunicator. The calls of all members must
/// agree; only `input` may differ between members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the arguments of the functions")]
pub enum CollectiveCall {
    Barrier,
    Bcast {
        root: u32,
        bytes: usize,
    },
    Gather {
        root: u32,
        block_bytes: usize,
        input: InputPlace,
    },
    Gatherv {
        root: u32,
        input: InputPlace,
    },
    Scatter {
        root: u32,
        block_bytes: usize,
        input: InputPlace,
    },
    Scatterv {
        root: u32,
        input: InputPlace,
    },
    Allgather {
        block_bytes: usize,
        input: InputPlace,
    },
    Allgatherv {
        total_bytes: usize,
        input: InputPlace,
    },
    Alltoall {
        block_bytes: usize,
        input: InputPlace,
    },
    Alltoallv {
        input: InputPlace,
    },
    Reduce {
        root: u32,
        operands: Operands,
        input: InputPlace,
    },
    Allreduce {
        operands: Operands,
        input: InputPlace,
    },
    ReduceScatterBlock {
        operands: Operands,
        input: InputPlace,
    },
    /// The operands for all processes in total.
    ReduceScatter {
        counts: Box<[usize]>,
        operands: Operands,
        input: InputPlace,
    },
    Scan {
        operands: Operands,
        input: InputPlace,
    },
    Exscan {
        operands: Operands,
        input: InputPlace,
    },
}

/// Makes the table of [`Function`]: each with its name in the standard, the meaning of its bytes,
/// and the operation that it calls, if there are several algorithms for it.
macro_rules! functions {
    ($($function:ident: $name:literal, $bytes:literal, $operation:expr;)*) => {
        /// A collective function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "their names describe them")]
        pub enum Function {
            $($function,)*
        }

        impl Function {
            /// All functions. Processes send each other functions as indices in this list.
            pub const ALL: &[Self] = &[$(Self::$function,)*];

            /// Returns its name in the standard.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$function => $name,)*
                }
            }

            /// Returns a description of the bytes of a call, with `{}` for their number; empty if
            /// members need not agree in a number of bytes.
            pub fn bytes(self) -> &'static str {
                match self {
                    $(Self::$function => $bytes,)*
                }
            }

            /// Returns the operation that it calls, if there are several algorithms for it.
            pub fn operation(self) -> Option<CollectiveOperation> {
                use CollectiveOperation::*;

                match self {
                    $(Self::$function => $operation,)*
                }
            }
        }

        impl CollectiveCall {
            /// Returns the function that is called.
            pub fn function(&self) -> Function {
                match self {
                    $(Self::$function { .. } => Function::$function,)*
                }
            }
        }
    };
}

functions! {
    Barrier: "MPI_Barrier", "", Some(Barrier);
    Bcast: "MPI_Bcast", "of {} bytes", Some(Bcast);
    Gather: "MPI_Gather", "of blocks of {} bytes", Some(Gather);
    Gatherv: "MPI_Gatherv", "", None;
    Scatter: "MPI_Scatter", "of blocks of {} bytes", Some(Scatter);
    Scatterv: "MPI_Scatterv", "", None;
    Allgather: "MPI_Allgather", "of blocks of {} bytes", Some(Allgather);
    Allgatherv: "MPI_Allgatherv", "of {} bytes in all", Some(Allgatherv);
    Alltoall: "MPI_Alltoall", "of blocks of {} bytes", Some(Alltoall);
    Alltoallv: "MPI_Alltoallv or MPI_Alltoallw", "", None;
    Reduce: "MPI_Reduce", "of {} bytes", Some(Reduce);
    Allreduce: "MPI_Allreduce", "of {} bytes", Some(Allreduce);
    ReduceScatterBlock: "MPI_Reduce_scatter_block", "of blocks of {} bytes", Some(ReduceScatter);
    ReduceScatter: "MPI_Reduce_scatter", "of {} bytes in all", Some(ReduceScatter);
    Scan: "MPI_Scan", "of {} bytes", None;
    Exscan: "MPI_Exscan", "of {} bytes", None;
}

impl CollectiveCall {
    /// Makes a call of an operation in which each process contributes or gets so many bytes. A
    /// reduction has elements of eight bytes; other lengths are one element. The operation
    /// commutes.
    pub fn of(operation: CollectiveOperation, size: u32, bytes: usize) -> Self {
        let (root, input) = (0, InputPlace::SendBuffer);
        let operands = match bytes % 8 {
            0 => Operands { count: bytes / 8, element_bytes: 8, commutative: true },
            _ => Operands { count: 1, element_bytes: bytes, commutative: true },
        };
        let total_bytes = bytes.saturating_mul(size as usize);
        match operation {
            CollectiveOperation::Barrier => Self::Barrier,
            CollectiveOperation::Bcast => Self::Bcast { root, bytes },
            CollectiveOperation::Gather => Self::Gather { root, block_bytes: bytes, input },
            CollectiveOperation::Scatter => Self::Scatter { root, block_bytes: bytes, input },
            CollectiveOperation::Allgather => Self::Allgather { block_bytes: bytes, input },
            CollectiveOperation::Allgatherv => Self::Allgatherv { total_bytes, input },
            CollectiveOperation::Alltoall => Self::Alltoall { block_bytes: bytes, input },
            CollectiveOperation::Reduce => Self::Reduce { root, operands, input },
            CollectiveOperation::Allreduce => Self::Allreduce { operands, input },
            CollectiveOperation::ReduceScatter => Self::ReduceScatterBlock { operands, input },
        }
    }

    /// Whether it combines elements.
    pub fn reduces(&self) -> bool {
        self.operands().is_some()
    }

    /// Returns the elements that a reduction combines.
    fn operands(&self) -> Option<Operands> {
        match *self {
            Self::Reduce { operands, .. }
            | Self::Allreduce { operands, .. }
            | Self::ReduceScatterBlock { operands, .. }
            | Self::ReduceScatter { operands, .. }
            | Self::Scan { operands, .. }
            | Self::Exscan { operands, .. } => Some(operands),
            _ => None,
        }
    }

    /// Returns the number of bytes in each block of an operation that only moves blocks of one
    /// length.
    fn block_bytes(&self) -> Option<usize> {
        match *self {
            Self::Bcast { bytes: block_bytes, .. }
            | Self::Gather { block_bytes, .. }
            | Self::Scatter { block_bytes, .. }
            | Self::Allgather { block_bytes, .. }
            | Self::Alltoall { block_bytes, .. } => Some(block_bytes),
            _ => None,
        }
    }

    /// Returns the root of an operation that has one.
    pub fn root(&self) -> Option<u32> {
        match *self {
            Self::Bcast { root, .. }
            | Self::Gather { root, .. }
            | Self::Gatherv { root, .. }
            | Self::Scatter { root, .. }
            | Self::Scatterv { root, .. }
            | Self::Reduce { root, .. } => Some(root),
            _ => None,
        }
    }

    /// Returns the number of bytes that [`Function::bytes`] describes; 0 if members need not agree
    /// in one.
    pub fn bytes(&self) -> usize {
        match *self {
            Self::Allgatherv { total_bytes, .. } => total_bytes,
            _ => self.operands().map(Operands::bytes).or(self.block_bytes()).unwrap_or(0),
        }
    }

    /// Returns the data that one process contributes or gets on average. If nothing is combined, an
    /// element is a byte.
    pub(crate) fn data_of_each(&self, size: u32) -> Operands {
        let mean = |total: usize| total.div_ceil(size as usize);
        match *self {
            Self::ReduceScatter { operands, .. } => {
                Operands { count: mean(operands.count), ..operands }
            }
            Self::Allgatherv { total_bytes, .. } => Operands::bytes_only(mean(total_bytes)),
            _ => self.operands().unwrap_or_else(|| Operands::bytes_only(self.bytes())),
        }
    }

    /// Returns how many bytes or elements a block has; `None` if blocks cannot be divided.
    pub(crate) fn units(&self) -> Option<usize> {
        match self {
            Self::ReduceScatter { .. } => None,
            _ => self.operands().map(|operands| operands.count).or(self.block_bytes()),
        }
    }

    /// Returns this call with blocks of so many bytes or elements ([`CollectiveCall::units`]).
    pub(crate) fn with_units(&self, units: usize) -> Self {
        let mut call = self.clone();
        match &mut call {
            Self::Bcast { bytes, .. } => *bytes = units,
            Self::Gather { block_bytes, .. }
            | Self::Scatter { block_bytes, .. }
            | Self::Allgather { block_bytes, .. }
            | Self::Alltoall { block_bytes, .. } => *block_bytes = units,
            Self::Reduce { operands, .. }
            | Self::Allreduce { operands, .. }
            | Self::ReduceScatterBlock { operands, .. }
            | Self::Scan { operands, .. }
            | Self::Exscan { operands, .. } => operands.count = units,
            _ => {}
        }
        call
    }
}
