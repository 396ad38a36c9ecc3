//! Reading and writing the memory of another process (process_vm_readv(2), process_vm_writev).

use std::io;

use crate::environment;

/// A run of bytes in some process: address and length.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first byte's address.
    pub address: usize,
    /// How many bytes.
    pub length: usize,
}

/// How many runs one call takes on each side.
pub const RUNS_MAX: usize = 1024;

/// Copies bytes from the `remote` runs of process `pid` to the `local` runs of this one, in order,
/// until either list is used up; returns how many bytes were copied, which may be fewer.
///
/// # Errors
/// The system's: EPERM where reading that process is not allowed or this program is
/// [privileged](environment::is_privileged), EFAULT where nothing of the
/// first remote run can be read, ESRCH when the process is gone.
///
/// # Safety
/// Every byte of the `local` runs may be written, and nobody else uses it during the call.
pub unsafe fn read(pid: i32, local: &[Run], remote: &[Run]) -> io::Result<usize> {
    // SAFETY: the local runs may be written, which the caller vouches for.
    unsafe { copy(libc::process_vm_readv, pid, local, remote) }
}

/// A word of process `pid`, which begins at this address there.
///
/// # Errors
/// As of [`read`]; also that only a part of it could be read.
pub fn word_of(pid: i32, address: usize) -> io::Result<u32> {
    let mut word = [0; size_of::<u32>()];
    let local = Run { address: word.as_mut_ptr() as usize, length: word.len() };
    // SAFETY: `word` is ours alone and has the length of the run.
    let copied = unsafe { read(pid, &[local], &[Run { address, length: word.len() }]) }?;
    match copied == word.len() {
        true => Ok(u32::from_ne_bytes(word)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Copies bytes from the `local` runs of this process to the `remote` runs of process `pid`, in
/// order, until either list is used up; returns how many bytes were copied, which may be fewer.
///
/// # Errors
/// As of [`read`]; EFAULT where nothing of the first remote run can be written.
///
/// # Safety
/// Every byte of the `local` runs may be read, and nobody writes it during the call.
pub unsafe fn write(pid: i32, local: &[Run], remote: &[Run]) -> io::Result<usize> {
    // SAFETY: the local runs may be read, which the caller vouches for.
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
/// `call` may do with the local runs what it does.
unsafe fn copy(call: Call, pid: i32, local: &[Run], remote: &[Run]) -> io::Result<usize> {
    // The number of the process comes from another process, and the kernel would decide by rights
    // that the user behind it does not have.
    if environment::is_privileged() {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    debug_assert!(local.len() <= RUNS_MAX && remote.len() <= RUNS_MAX);
    let runs = |runs: &[Run]| (runs.as_ptr().cast::<libc::iovec>(), runs.len() as libc::c_ulong);
    let ((local, local_count), (remote, remote_count)) = (runs(local), runs(remote));
    // SAFETY:
    // - `Run` has the layout of `iovec`: an address and a length, both of the size of a pointer.
    // - The caller vouches for the local runs; remote ones are checked by the kernel, against what
    //   the other process itself may do.
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
        // SAFETY: `target` is ours alone and six bytes long.
        let copied = unsafe { read(std::process::id() as i32, &local, &remote) };
        // Where a container forbids the call, the error is the expected one.
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
