//! The processor cores that this process may use, binding to cores, and yielding one.

use std::time::Duration;
use std::{io, mem};

/// Returns how many cores this process can keep busy at once: the cores in its affinity mask (which
/// includes the cpuset), or fewer if a control group, of either version, grants less processor time
/// (rounded down). At least 1.
pub fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns how many cores the machine has, whether this process may use them or not.
pub fn configured() -> usize {
    // SAFETY: takes and returns a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(count).unwrap_or(1)
}

/// Returns the numbers of the cores in this process's affinity mask, in order.
pub fn allowed() -> Vec<usize> {
    allowed_to(0).unwrap_or_default()
}

/// Returns the numbers of the cores in the affinity mask of a process, in order. 0 is the calling
/// thread.
///
/// # Errors
/// The system's: there is no such process.
pub fn allowed_to(process: i32) -> io::Result<Vec<usize>> {
    let mut set = [0_u64; 128];
    // SAFETY: the kernel writes at most the given number of bytes, all inside `set`.
    let got = unsafe {
        libc::sched_getaffinity(
            process,
            mem::size_of_val(&set),
            set.as_mut_ptr().cast::<libc::cpu_set_t>(),
        )
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..set.len() * 64).filter(|core| set[core / 64] >> (core % 64) & 1 == 1).collect())
}

/// A set of cores (hardware threads, by the kernel's numbers) on which a thread may run.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    words: [u64; 128],
}

impl Cores {
    /// Makes the set of these cores.
    ///
    /// # Errors
    /// If a number exceeds the kernel's maximum.
    pub fn of(cores: &[usize]) -> io::Result<Self> {
        let mut words = [0_u64; 128];
        for core in cores {
            let word = words.get_mut(core / 64).ok_or(io::ErrorKind::InvalidInput)?;
            *word |= 1 << (core % 64);
        }
        Ok(Self { words })
    }

    /// Restricts the calling thread, and all threads and processes that it starts from now on, to
    /// these cores. Makes one system call and nothing else.
    ///
    /// # Errors
    /// The system's, for example that none of the cores is allowed.
    pub fn bind(&self) -> io::Result<()> {
        self.bind_thread(0)
    }

    /// Restricts a thread of this process to these cores; 0 is the calling thread. If it runs on
    /// another core, the kernel moves it before this function returns.
    ///
    /// # Errors
    /// The system's, for example that none of the cores is allowed.
    pub fn bind_thread(&self, thread: u32) -> io::Result<()> {
        let set = self.words.as_ptr().cast::<libc::cpu_set_t>();
        let length = mem::size_of_val(&self.words);
        // SAFETY: the kernel reads the given number of bytes, all inside `words`.
        let done = unsafe { libc::sched_setaffinity(thread as libc::pid_t, length, set) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Checks whether the system lets the calling thread set its affinity; the affinity does not
/// change.
///
/// # Errors
/// The system's, with the name of the call.
pub fn check_binding() -> io::Result<()> {
    let cores = allowed();
    if cores.is_empty() {
        // The system does not report the present affinity either; the planning of bindings handles
        // that.
        return Ok(());
    }
    Cores::of(&cores)?.bind().map_err(|cause| crate::refused("sched_setaffinity", &cause))
}

/// Restricts the calling thread, and all threads and processes that it starts from now on, to one
/// core.
///
/// # Errors
/// The system's, for example that the core is not allowed.
pub fn bind(core: usize) -> io::Result<()> {
    Cores::of(&[core])?.bind()
}

/// Yields the core to other threads that wait for it.
pub fn yield_now() {
    // SAFETY: takes nothing and touches no memory.
    unsafe {
        libc::sched_yield();
    }
}

/// Returns the core on which the calling thread is running, if the system reports it.
pub fn current() -> Option<usize> {
    // SAFETY: takes nothing and touches no memory.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// What `sched_getattr` and `sched_setattr` exchange.
#[repr(C)]
#[derive(Default)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For ordinary threads, the time slice in nanoseconds.
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Requests a time slice for the calling thread. A thread that wakes up gets its core at once if a
/// thread with a longer time slice has it. Kernels before 6.12 ignore the request.
///
/// # Errors
/// The system's, or `Unsupported` if the thread has a real-time or deadline policy.
pub fn request_time_slice(slice: Duration) -> io::Result<()> {
    let mut attributes = SchedulingAttributes::default();
    let size = mem::size_of::<SchedulingAttributes>();
    // SAFETY: the kernel writes at most `size` bytes, all inside `attributes`.
    crate::check(unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0)
    })?;
    let ordinary = [libc::SCHED_OTHER, libc::SCHED_BATCH];
    if !ordinary.contains(&(attributes.policy as libc::c_int)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    attributes.size = size as u32;
    // Clearing this flag needs a right.
    attributes.flags &= libc::SCHED_FLAG_RESET_ON_FORK as u64;
    attributes.runtime = slice.as_nanos() as u64;
    // SAFETY: the kernel reads `size` bytes, all inside `attributes`.
    crate::check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })?;
    Ok(())
}

/// Sets the timer slack of the calling thread to 1 microsecond, so that short sleeps last hardly
/// longer than requested. By default the system combines timers within 50 microseconds.
pub fn wake_precisely() {
    // SAFETY: takes plain integers; it cannot fail for these.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1000 as libc::c_ulong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_threads_get_time_slices() {
        let requested = std::thread::spawn(|| request_time_slice(Duration::from_millis(1)));
        assert!(requested.join().unwrap().is_ok());
    }

    #[test]
    fn at_least_one_core_is_usable() {
        assert!(usable() >= 1);
        assert!(usable() <= allowed().len().max(1));
    }
}
