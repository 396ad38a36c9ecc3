//! Access to the memory of another process (process_vm_readv(2), process_vm_writev).

use std::io;

use crate::environment;

/// A range of bytes in some process: address and length.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first byte's address.
    pub address: usize,
    /// The number of bytes.
    pub length: usize,
}

/// The maximum number of ranges of one call on each side.
pub const RUNS_MAX: usize = 1024;

/// Copies bytes from the `remote` ranges of process `pid` to the `local` ranges of this process, in
/// order, until either list is used up. Returns how many bytes were copied, which may be fewer.
///
/// # Errors
/// The system's: EPERM if reading that process is not allowed or this program is
/// [privileged](environment::is_privileged), EFAULT if no byte of the first remote range can be
/// read, ESRCH if the process has ended.
///
/// # Safety
/// Every byte of the `local` ranges may be written, and no other code accesses them during the
/// call.
pub unsafe fn read(pid: i32, local: &[Run], remote: &[Run]) -> io::Result<usize> {
    // SAFETY: the caller guarantees that the local ranges may be written.
    unsafe { copy(libc::process_vm_readv, pid, local, remote) }
}

/// Returns the 32-bit word at an address of process `pid`.
///
/// # Errors
/// The errors of [`read`]; also if only a part of the word could be read.
pub fn word_of(pid: i32, address: usize) -> io::Result<u32> {
    let mut word = [0; size_of::<u32>()];
    let local = Run { address: word.as_mut_ptr() as usize, length: word.len() };
    // SAFETY: `word` is exclusively borrowed and has the length of the range.
    let copied = unsafe { read(pid, &[local], &[Run { address, length: word.len() }]) }?;
    match copied == word.len() {
        true => Ok(u32::from_ne_bytes(word)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Copies bytes from the `local` ranges of this process to the `remote` ranges of process `pid`, in
/// order, until either list is used up. Returns how many bytes were copied, which may be fewer.
///
/// # Errors
/// The errors of [`read`]; EFAULT if no byte of the first remote range can be written.
///
/// # Safety
/// Every byte of the `local` ranges may be read, and no other code writes them during the call.
pub unsafe fn write(pid: i32, local: &[Run], remote: &[Run]) -> io::Result<usize> {
    // SAFETY: the caller guarantees that the local ranges may be read.
    unsafe { copy(libc::process_vm_writev, pid, local, remote) }
}

/// process_vm_readv or process_vm_writev.
type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

/// # Safety
/// `call` may access the local ranges.
unsafe fn copy(call: Call, pid: i32, local: &[Run], remote: &[Run]) -> io::Result<usize> {
    // The process number comes from another process. For a privileged program the kernel would
    // grant the call by rights that the user does not have.
    if environment::is_privileged() {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    debug_assert!(local.len() <= RUNS_MAX && remote.len() <= RUNS_MAX);
    let runs = |runs: &[Run]| (runs.as_ptr().cast::<libc::iovec>(), runs.len() as libc::c_ulong);
    let ((local, local_count), (remote, remote_count)) = (runs(local), runs(remote));
    // SAFETY:
    // - `Run` has the layout of `iovec`: an address and a length, both of the size of a pointer.
    // - The caller guarantees the local ranges. The kernel checks the remote ones against the other
    //   process's own access rights.
    let copied = unsafe { call(pid, local, local_count, remote, remote_count, 0) };
    crate::check(copied as libc::c_long).map(|n| n as usize)
}

const _: () = assert!(size_of::<Run>() == size_of::<libc::iovec>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_own_memory_in_runs() {
        let source = *b"abcdefgh";
        let mut target = [0_u8; 6];
        let base = source.as_ptr() as usize;
        let remote = [Run { address: base, length: 2 }, Run { address: base + 4, length: 4 }];
        let local = [Run { address: target.as_mut_ptr() as usize, length: 6 }];
        // SAFETY: `target` is exclusively borrowed and six bytes long.
        let copied = unsafe { read(std::process::id() as i32, &local, &remote) };
        // If a container forbids the call, the error is the expected one.
        match copied {
            Ok(n) => assert_eq!((n, &target), (6, b"abefgh")),
            Err(error) => assert!(matches!(error.raw_os_error(), Some(1 | 38))),
        }
    }

    #[test]
    fn reads_a_word() {
        let word = 0x0102_0304_u32;
        match word_of(std::process::id() as i32, (&raw const word).addr()) {
            Ok(found) => assert_eq!(found, word),
            Err(error) => assert!(matches!(error.raw_os_error(), Some(1 | 38))),
        }
        assert!(word_of(std::process::id() as i32, 8).is_err());
    }

    #[test]
    fn writes_own_memory_in_runs() {
        let source = *b"abcdef";
        let mut target = *b"--------";
        let base = target.as_mut_ptr() as usize;
        let remote = [Run { address: base, length: 2 }, Run { address: base + 4, length: 4 }];
        let local = [Run { address: source.as_ptr() as usize, length: 6 }];
        // SAFETY: `source` is six bytes long.
        let copied = unsafe { write(std::process::id() as i32, &local, &remote) };
        match copied {
            Ok(n) => assert_eq!((n, &target), (6, b"ab--cdef")),
            Err(error) => assert!(matches!(error.raw_os_error(), Some(1 | 38))),
        }
    }
}
