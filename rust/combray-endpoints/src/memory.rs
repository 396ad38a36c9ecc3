//! Registered memory: memory that the other ends of connections read and write.

use std::fmt;
use std::mem;
use std::ops::BitOr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::endpoint::{Endpoint, Shared};
use crate::error::Result;

/// What the other ends of connections may do with registered memory. `READ | WRITE` is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions(i32);

impl Permissions {
    /// They may read it.
    pub const READ: Self = Self(1);
    /// They may write to it.
    pub const WRITE: Self = Self(2);
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The name of registered memory, which other programs need to read or write it. Pass its bytes to
/// them in any way, for example in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct MemoryName {
    bytes: [u8; Self::BYTES],
}

impl MemoryName {
    /// How many bytes a name has.
    pub const BYTES: usize = 40;

    /// Returns the bytes of the name.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.bytes
    }

    /// Makes a name of bytes that another program has sent. Any bytes are allowed: whether they
    /// name memory is checked when it is used.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self { bytes }
    }
}

/// Memory of this program that the other ends of all connections of an endpoint, now and later, may
/// read or write, if they have its name. The registration ends on drop.
///
/// Other programs may read and write at any time, so what this program reads while another one
/// writes is a mixture of old and new bytes. Coordinate that by messages, or check what was read.
pub struct Registered {
    shared: Arc<Shared>,
    name: MemoryName,
    bytes: Box<[AtomicU8]>,
}

impl Registered {
    /// Returns the name.
    pub fn name(&self) -> MemoryName {
        self.name
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes, which is never so.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Copies the bytes from `offset` on to `into`.
    ///
    /// # Panics
    /// If the memory ends before.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let from = &self.bytes[offset..][..into.len()];
        for (into, from) in into.iter_mut().zip(from) {
            *into = from.load(Ordering::Relaxed);
        }
    }

    /// Copies bytes to `offset` and following.
    ///
    /// # Panics
    /// If the memory ends before.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let into = &self.bytes[offset..][..from.len()];
        for (into, from) in into.iter().zip(from) {
            into.store(*from, Ordering::Relaxed);
        }
    }
}

impl Endpoint {
    /// Registers so many bytes of new memory, which are 0.
    ///
    /// # Errors
    /// [`TooLong`](crate::ErrorKind::TooLong) for 0 bytes;
    /// [`NoSpace`](crate::ErrorKind::NoSpace) if the endpoint has 2^20 registered memories.
    pub fn register(&self, bytes: usize, permissions: Permissions) -> Result<Registered> {
        let shared = Arc::clone(&self.shared);
        let bytes: Box<[AtomicU8]> = (0..bytes).map(|_| AtomicU8::new(0)).collect();
        let mut name = MemoryName { bytes: [0; MemoryName::BYTES] };
        // SAFETY: there are so many bytes, which others may change because they are atomic; they
        // stay until they are deregistered. The last pointer leads to a name.
        let code = unsafe {
            let address = bytes.as_ptr().cast_mut().cast();
            let register = shared.library.memory_register;
            register(shared.handle, address, bytes.len(), permissions.0, &mut name)
        };
        shared.library.check(code)?;
        Ok(Registered { shared, name, bytes })
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({} bytes)", self.len())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Shared { library, handle, .. } = &*self.shared;
        // SAFETY: the pointer leads to a name.
        if unsafe { (library.memory_deregister)(*handle, &self.name) } != 0 {
            // The memory must stay, as others may use it.
            mem::forget(mem::take(&mut self.bytes));
        }
    }
}
