//! Memory that processes of one machine let each other use.

use base::{GateId, RegionToken};
use driver::{Access, RegionError, Regions};
use memory::Buffer;

use crate::runtime::Runtime;

impl Runtime {
    /// Whether this process can read and write regions of `gate`, and the other way round; connects
    /// it if it is not connected. Where not, messages must do.
    pub fn reaches_regions_of(&mut self, gate: GateId) -> bool {
        self.connect(gate);
        self.shm().reaches(gate)
    }

    /// Lets peers use `buffer` until the region is revoked; `None`: there are too many regions already.
    #[inline]
    pub fn declare(&mut self, buffer: &Buffer, access: Access) -> Option<RegionToken> {
        self.shm().declare(buffer, access)
    }

    /// Ends a region. When this returns, no peer writes it any more.
    ///
    /// # Errors
    /// [`RegionError::Unknown`]: it was revoked before, or is none of this process.
    #[inline]
    pub fn revoke(&mut self, region: RegionToken) -> Result<(), RegionError> {
        self.shm().revoke(region)
    }

    /// Copies the bytes `offset .. offset + length` of a region of `gate` to `at` in `into`.
    ///
    /// # Errors
    /// As [`Regions::read_region`].
    pub fn read_region(
        &mut self,
        gate: GateId,
        region: RegionToken,
        offset: usize,
        length: usize,
        into: &Buffer,
        at: usize,
    ) -> Result<(), RegionError> {
        self.shm().read_region(gate, region, offset, length, into, at)
    }

    /// Copies the bytes `at .. at + length` of `from` to `offset` in a region of `gate`.
    ///
    /// # Errors
    /// As [`Regions::write_region`].
    pub fn write_region(
        &mut self,
        gate: GateId,
        region: RegionToken,
        offset: usize,
        length: usize,
        from: &Buffer,
        at: usize,
    ) -> Result<(), RegionError> {
        self.shm().write_region(gate, region, offset, length, from, at)
    }
}
