//! Memory that a process lets its peers read and write.

use std::fmt;

use base::{GateId, RegionToken};
use memory::Buffer;

/// What peers may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionAccess {
    /// Read it.
    Read,
    /// Read and write it.
    ReadAndWrite,
}

/// A driver through which processes access each other's memory, with one copy and without the
/// owner's help.
///
/// A process declares a region and gives its token to peers, in a packet or in shared memory. A
/// peer that has the token reads or writes the region, wholly or in part, as often as it needs,
/// with a buffer that may have another layout. The layer above decides when and by which process a
/// copy is made, and how both processes learn that it is complete.
pub trait Regions {
    /// Lets peers access `buffer`, which stays in use until the region is revoked. `None`: there
    /// are too many regions already.
    fn declare(&mut self, buffer: &Buffer, access: RegionAccess) -> Option<RegionToken>;

    /// Ends a region that this process declared. After this returns, no peer writes the region any
    /// more, and reads that peers have begun are refused.
    ///
    /// # Errors
    /// [`RegionError::Unknown`]: the region is not one of this process, or was revoked before.
    fn revoke(&mut self, region: RegionToken) -> Result<(), RegionError>;

    /// Copies the bytes `offset .. offset + length` of a peer's region to `at` in `into`.
    ///
    /// # Errors
    /// The region was revoked, never existed, or is shorter; or the system refuses. Then the
    /// content of that range of `into` is undefined.
    fn read_region(
        &mut self,
        peer: GateId,
        region: RegionToken,
        offset: usize,
        length: usize,
        into: &Buffer,
        at: usize,
    ) -> Result<(), RegionError>;

    /// Copies the bytes `at .. at + length` of `from` to `offset` in a peer's region.
    ///
    /// # Errors
    /// The errors of [`read_region`](Self::read_region), and [`RegionError::ReadOnly`]. Some bytes
    /// may have been written only if the system refused in the middle.
    fn write_region(
        &mut self,
        peer: GateId,
        region: RegionToken,
        offset: usize,
        length: usize,
        from: &Buffer,
        at: usize,
    ) -> Result<(), RegionError>;
}

/// Why a region could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// The token names no region of that process: it was revoked, or never existed.
    Unknown,
    /// The region is shorter.
    OutOfRange {
        /// The end of the requested range, in bytes.
        end: usize,
        /// The length of the region in bytes.
        length: usize,
    },
    /// The region may only be read.
    ReadOnly,
    /// The region can only be fetched as a whole, with its owner's help.
    NotReadable,
    /// The memory of that process cannot be reached; the text gives the reason.
    Unreachable(String),
    /// Processors do not address the region, and this buffer cannot reach it, for that reason.
    OtherMemory(String),
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str(
                "the token names no region of that process: the region was revoked, or the \
                 token is invalid",
            ),
            Self::OutOfRange { end, length } => {
                write!(f, "byte {end} of a region of {length} bytes was requested")
            }
            Self::ReadOnly => f.write_str("the region was declared for reading only"),
            Self::NotReadable => {
                f.write_str("the region's runs are too short to be read one by one")
            }
            Self::Unreachable(why) => {
                write!(f, "the memory of that process cannot be reached: {why}")
            }
            Self::OtherMemory(why) => write!(f, "this buffer cannot reach it: {why}"),
        }
    }
}

impl std::error::Error for RegionError {}
