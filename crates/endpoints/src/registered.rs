//! Memory of the program that the other ends of connections read and write.

use base::{Error, ErrorClass, RegionToken, Result};
use memory::Buffer;
use mpi::RegionAccess;
use wire::Codec;

use crate::host::EndpointHost;
use crate::message::MemoryAccess;

/// What the other ends of the connections of an endpoint may do with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPermissions {
    /// Read it.
    pub read: bool,
    /// Write it.
    pub write: bool,
}

/// The name of registered memory, which its owner passes to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryName {
    pub(crate) key: u32,
    permissions: u32,
    pub(crate) secret: u64,
    length: u64,
    /// How processes of the machine reach it without its owner.
    pub(crate) region: RegionToken,
}

wire::codec!(MemoryName { key, permissions, secret, length, region });

const MAY_READ: u32 = 1;
const MAY_WRITE: u32 = 2;

impl MemoryName {
    /// The length of a name in bytes.
    pub const BYTES: usize = 40;

    /// Returns the bytes of the name.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(&Codec::to_bytes(self));
        bytes
    }

    /// Returns the name of these bytes. Whether it names memory is found out by the first access.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        Codec::from_bytes(bytes)
    }

    /// Checks an access of the range that begins at `offset` and has `bytes` bytes.
    pub(crate) fn check(&self, writes: bool, offset: u64, bytes: u64) -> Result<()> {
        let needed = if writes { MAY_WRITE } else { MAY_READ };
        if self.permissions & needed == 0 {
            return Err(refusal(ErrorClass::Access));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.length) {
            let detail = format!(
                "names memory of {} bytes, but bytes {offset} to {} were requested",
                self.length,
                offset.saturating_add(bytes)
            );
            return Err(Error::new(ErrorClass::RmaRange, detail));
        }
        Ok(())
    }
}

/// Memory that was registered at an endpoint.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    buffer: Buffer,
    permissions: MemoryPermissions,
    secret: u64,
    region: Option<RegionToken>,
}

impl RegisteredMemory {
    /// Declares memory to the processes of this machine, too.
    ///
    /// # Errors
    /// `Other` if the system has no random numbers.
    pub fn new(
        process: &impl EndpointHost,
        buffer: Buffer,
        permissions: MemoryPermissions,
    ) -> Result<Self> {
        let mut secret = [0; 8];
        sys::random::fill(&mut secret)
            .map_err(|cause| Error::new(ErrorClass::Other, cause.to_string()))?;
        let access = match permissions {
            MemoryPermissions { read: true, write: true } => Some(RegionAccess::ReadAndWrite),
            MemoryPermissions { read: true, write: false } => Some(RegionAccess::Read),
            // Regions are readable.
            MemoryPermissions { read: false, .. } => None,
        };
        let region = access.and_then(|access| process.declare_region(&buffer, access));
        Ok(Self { buffer, permissions, secret: u64::from_le_bytes(secret), region })
    }

    /// Returns the name of the memory, whose key is given.
    pub fn name(&self, key: u32) -> MemoryName {
        let MemoryPermissions { read, write } = self.permissions;
        MemoryName {
            key,
            permissions: u32::from(read) * MAY_READ + u32::from(write) * MAY_WRITE,
            secret: self.secret,
            length: self.buffer.len() as u64,
            region: self.region.unwrap_or(RegionToken::NONE),
        }
    }

    /// Ends the accesses of other processes: when this returns, none of them writes any more.
    pub fn revoke(self, process: &impl EndpointHost) {
        if let Some(region) = self.region {
            process.revoke_region(region);
        }
    }

    /// Whether the memory has this secret.
    pub fn has_secret(&self, secret: u64) -> bool {
        self.secret == secret
    }

    /// Returns the range of an access of a peer.
    ///
    /// # Errors
    /// The class of the refusal.
    pub fn range(
        &self,
        access: &MemoryAccess,
        writes: bool,
    ) -> std::result::Result<Buffer, ErrorClass> {
        if !self.has_secret(access.secret) {
            return Err(ErrorClass::Base);
        }
        if !(if writes { self.permissions.write } else { self.permissions.read }) {
            return Err(ErrorClass::Access);
        }
        let end = access.offset.checked_add(access.bytes);
        if end.is_none_or(|end| end > self.buffer.len() as u64) {
            return Err(ErrorClass::RmaRange);
        }
        Ok(match access.bytes {
            0 => Buffer::empty(),
            bytes => self.buffer.contiguous_part(access.offset as isize, bytes as usize),
        })
    }
}

/// Why the owner of memory has refused an access.
#[cold]
pub(crate) fn refusal(class: ErrorClass) -> Error {
    let detail = match class {
        ErrorClass::Base => {
            "the name names no memory of the endpoint at the other end: the memory was \
             deregistered, or is of another endpoint"
        }
        ErrorClass::Access => "the memory was registered without the permission for this access",
        ErrorClass::RmaRange => "the memory is shorter than the range that was requested",
        _ => "the other process has refused the access",
    };
    Error::new(class, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(read: bool, write: bool) -> RegisteredMemory {
        let permissions = MemoryPermissions { read, write };
        RegisteredMemory { buffer: Buffer::zeroed(100), permissions, secret: 7, region: None }
    }

    #[test]
    fn names_survive_their_bytes() {
        let region = RegionToken { place: u64::MAX, secret: 3 };
        let memory = RegisteredMemory { region: Some(region), ..registered(true, false) };
        let name = memory.name(9);
        assert_eq!(MemoryName::from_bytes(&name.to_bytes()), Some(name));
        assert_eq!(name.check(false, 0, 100), Ok(()));
        assert_eq!(name.check(false, 100, 0), Ok(()));
        assert_eq!(name.check(false, 1, 100).unwrap_err().class, ErrorClass::RmaRange);
        assert_eq!(name.check(false, u64::MAX, 2).unwrap_err().class, ErrorClass::RmaRange);
        assert_eq!(name.check(true, 0, 1).unwrap_err().class, ErrorClass::Access);
    }

    #[test]
    fn the_owner_checks_what_peers_request() {
        let access = MemoryAccess { secret: 7, offset: 90, bytes: 10, ..MemoryAccess::default() };
        let (readable, writable) = (registered(true, false), registered(false, true));
        assert_eq!(readable.range(&access, false).map(|range| range.len()), Ok(10));
        assert_eq!(writable.range(&access, true).map(|range| range.len()), Ok(10));
        let class = |memory: &RegisteredMemory, access: &MemoryAccess, writes| {
            memory.range(access, writes).unwrap_err()
        };
        assert_eq!(class(&readable, &access, true), ErrorClass::Access);
        assert_eq!(class(&writable, &access, false), ErrorClass::Access);
        let longer = MemoryAccess { bytes: 11, ..access };
        assert_eq!(class(&readable, &longer, false), ErrorClass::RmaRange);
        let endless = MemoryAccess { bytes: u64::MAX, ..access };
        assert_eq!(class(&readable, &endless, false), ErrorClass::RmaRange);
        let guessed = MemoryAccess { secret: 8, ..access };
        assert_eq!(class(&readable, &guessed, false), ErrorClass::Base);
    }
}
