//! Processes: starting them bound to their parent, observing them, ending them.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use std::{mem, ptr};

use crate::cores::Cores;
use crate::terminal;

/// Signal numbers, as kill(2) takes them.
pub mod signal {
    pub use libc::{
        SIGABRT, SIGALRM, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL,
        SIGPIPE, SIGQUIT, SIGSEGV, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP, SIGTSTP, SIGTTIN, SIGTTOU,
        SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ,
    };

    /// Returns the name of a signal, such as `SIGSEGV`.
    pub fn name(number: i32) -> &'static str {
        const NAMES: [(i32, &str); 18] = [
            (SIGABRT, "SIGABRT"),
            (SIGALRM, "SIGALRM"),
            (SIGBUS, "SIGBUS"),
            (SIGFPE, "SIGFPE"),
            (SIGHUP, "SIGHUP"),
            (SIGILL, "SIGILL"),
            (SIGINT, "SIGINT"),
            (SIGKILL, "SIGKILL"),
            (SIGPIPE, "SIGPIPE"),
            (SIGQUIT, "SIGQUIT"),
            (SIGSEGV, "SIGSEGV"),
            (SIGSYS, "SIGSYS"),
            (SIGTERM, "SIGTERM"),
            (SIGTRAP, "SIGTRAP"),
            (SIGUSR1, "SIGUSR1"),
            (SIGUSR2, "SIGUSR2"),
            (SIGXCPU, "SIGXCPU"),
            (SIGXFSZ, "SIGXFSZ"),
        ];
        NAMES.iter().find(|known| known.0 == number).map_or("a signal", |known| known.1)
    }
}

/// The limit on open descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The present limit.
    pub soft: u64,
    /// The maximum to which the process may raise it.
    pub hard: u64,
}

impl DescriptorLimit {
    /// Returns the limit of this process.
    ///
    /// # Errors
    /// The system's.
    pub fn read() -> io::Result<Self> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` may be written.
        call(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
        Ok(Self { soft: limit.rlim_cur, hard: limit.rlim_max })
    }

    /// Sets this limit for this process.
    ///
    /// # Errors
    /// The system's.
    pub fn set(self) -> io::Result<()> {
        let limit = libc::rlimit { rlim_cur: self.soft, rlim_max: self.hard };
        // SAFETY: `limit` is initialized.
        call(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })
    }
}

/// The hardware threads on which a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessBinding {
    /// All that its parent may use.
    Free,
    /// These, if the system allows it.
    Preferred(Vec<usize>),
    /// These; otherwise the process is not started.
    Required(Vec<usize>),
}

/// Whether a process gets the terminal at its standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreground {
    /// Its group comes to the foreground.
    Comes,
    /// The foreground stays as it is.
    Stays,
}

/// Starts `command` in a process group of its own, with no signal blocked, with the descriptors
/// `kept` open, with the limit `descriptors`, and bound as `binding` says. The process is killed
/// when the calling thread ends.
///
/// # Errors
/// The system's, for example that there is no such program.
pub fn spawn_bound(
    command: &mut Command,
    kept: &[BorrowedFd<'_>],
    descriptors: DescriptorLimit,
    binding: &ProcessBinding,
    foreground: Foreground,
) -> io::Result<Child> {
    let kept: Vec<RawFd> = kept.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    let parent = std::process::id() as i32;
    let (cores, is_required) = match binding {
        ProcessBinding::Free => (None, false),
        ProcessBinding::Preferred(cores) => (Some(Cores::of(cores)?), false),
        ProcessBinding::Required(cores) => (Some(Cores::of(cores)?), true),
    };
    // SAFETY: the closure runs in the child between fork and exec and makes system calls only,
    // which are safe there; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            Step::Group.name_in(call(libc::setpgid(0, 0)))?;
            Step::End.name_in(call(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL)))?;
            if libc::getppid() != parent {
                // The parent ended before the death signal was set.
                libc::_exit(1);
            }
            if foreground == Foreground::Comes {
                Step::Foreground
                    .name_in(terminal::bring_to_foreground(libc::STDIN_FILENO, libc::getpgrp()))?;
            }
            for &kept in &kept {
                Step::Kept.name_in(call(libc::fcntl(kept, libc::F_SETFD, 0)))?;
            }
            Step::Limit.name_in(descriptors.set())?;
            if let Some(cores) = &cores {
                let bound = Step::Binding.name_in(cores.bind());
                if is_required {
                    bound?;
                }
            }
            let mut none = mem::zeroed();
            libc::sigemptyset(&mut none);
            Step::Mask.name_in(call(libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut())))
        });
    }
    command.spawn().map_err(Step::named)
}

/// The steps of a child before it becomes the program. An error of the child reaches the parent
/// only as a number, which has room for the step beside the error number.
#[derive(Clone, Copy)]
enum Step {
    Group = 1,
    End,
    Kept,
    Limit,
    Binding,
    Mask,
    Foreground,
}

impl Step {
    const NAMES: [&str; 7] =
        ["setpgid", "prctl", "fcntl", "setrlimit", "sched_setaffinity", "sigprocmask", "tcsetpgrp"];
    /// Error numbers are smaller (errno.h).
    const SHIFT: i32 = 16;

    /// Adds the step to the error number of a result.
    fn name_in(self, result: io::Result<()>) -> io::Result<()> {
        result.map_err(|error| {
            let number = error.raw_os_error().unwrap_or(libc::EINVAL);
            io::Error::from_raw_os_error(number | (self as i32) << Self::SHIFT)
        })
    }

    /// Converts an error with a step into a readable error; leaves other errors unchanged.
    fn named(error: io::Error) -> io::Error {
        let number = error.raw_os_error().unwrap_or_default();
        match Self::NAMES.get(((number >> Self::SHIFT) as usize).wrapping_sub(1)) {
            Some(name) => {
                let own = number & ((1 << Self::SHIFT) - 1);
                crate::refused(name, &io::Error::from_raw_os_error(own))
            }
            None => error,
        }
    }
}

/// Makes a pipe.
///
/// # Errors
/// The system's, with the name of the call.
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    io::pipe().map_err(|cause| crate::refused_or_lacking("pipe2", cause))
}

/// Moves this process into a process group of its own, so that signals that a terminal or a shell
/// sends to the group of its parent do not reach it.
///
/// # Errors
/// The system's.
pub fn leave_group() -> io::Result<()> {
    // SAFETY: takes plain numbers.
    call(unsafe { libc::setpgid(0, 0) }).map_err(|cause| crate::refused("setpgid", &cause))
}

/// Sets the name and command line of this process, as lists of processes show them. The command
/// line replaces the original one in place, so a longer one is truncated.
///
/// # Errors
/// The system's: the files of this process in /proc cannot be read or written.
pub fn set_name(name: &str) -> io::Result<()> {
    fs::write("/proc/self/comm", name)?;
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        stat.rsplit_once(')').map_or("", |pair| pair.1).split_whitespace().collect();
    // Fields 48 and 49 of proc(5); the first field here is field 3.
    let address = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    let (Some(start), Some(end)) = (address(48), address(49)) else {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    };
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(end.saturating_sub(start) as usize, 0);
    // The last byte stays zero: otherwise the environment would count as its continuation.
    if let Some(last) = bytes.last_mut() {
        *last = 0;
    }
    fs::OpenOptions::new().write(true).open("/proc/self/mem")?.write_all_at(&bytes, start)
}

/// Returns the name of a process, as lists of processes show it; `None` if it has ended.
pub fn name(process: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Returns the process group of a process.
///
/// # Errors
/// The system's: the process has ended.
pub fn group(process: i32) -> io::Result<i32> {
    // SAFETY: takes a number.
    let group = unsafe { libc::getpgid(process) };
    Ok(crate::check(libc::c_long::from(group))? as i32)
}

/// Returns the state of a process in words; `None` if it has ended.
pub fn state(process: i32) -> Option<&'static str> {
    Some(match ProcessStatus::read(process)?.state {
        'R' => "running",
        'S' | 'I' => "sleeping",
        'D' => "waiting for a device",
        'T' => "stopped",
        't' => "stopped by a debugger",
        'Z' | 'X' => "ended",
        _ => "there",
    })
}

/// Returns the kernel function in which a process waits, if it waits and the system reports it.
pub fn waits_in(process: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/wchan")).ok()?;
    Some(name).filter(|name| !name.is_empty() && name != "0")
}

/// Returns how often the system has taken the core from the calling thread for another one.
pub fn preemptions() -> u64 {
    let mut usage = mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes a `rusage` there. If it fails, all bits are zero, which is one, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_nivcsw).unwrap_or(0)
}

/// Returns the system's number of the calling thread; that of the main thread is the number of the
/// process.
pub fn thread_id() -> u32 {
    // SAFETY: it takes nothing and always succeeds.
    (unsafe { libc::syscall(libc::SYS_gettid) }) as u32
}

/// Returns the effective user of this process.
pub fn user() -> u32 {
    // SAFETY: it takes nothing and always succeeds.
    unsafe { libc::geteuid() }
}

/// Whether other processes of this user may trace this one, as far as this process determines that.
/// They may not if it runs an executable that its user cannot read, or one with more rights than
/// its user has, or if it has disabled tracing (PR_SET_DUMPABLE).
pub fn is_traceable() -> bool {
    // SAFETY: takes plain numbers.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE) == 1 }
}

/// Whether a process has ended with all of its threads, even if its parent has not reaped it yet.
/// False if the system does not report it.
pub fn has_ended(process: i32) -> bool {
    // SAFETY: takes plain numbers.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    match crate::check(opened) {
        Err(error) => error.raw_os_error() == Some(libc::ESRCH),
        Ok(descriptor) => {
            // SAFETY: the descriptor was just created and no other code owns it.
            let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) };
            let watched = [(descriptor.as_raw_fd(), Interest::Read)];
            poll(&watched, Some(Duration::ZERO)).is_ok_and(|ready| ready[0])
        }
    }
}

/// Returns a descriptor of another process, which the system allows if this process may trace it.
///
/// # Errors
/// The system's.
pub fn descriptor_of(process: i32, number: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes plain numbers.
    let opened = crate::check(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    // SAFETY: the descriptor was just created and no other code owns it.
    let of = unsafe { OwnedFd::from_raw_fd(opened as RawFd) };
    // SAFETY: takes plain numbers.
    let got = unsafe { libc::syscall(libc::SYS_pidfd_getfd, of.as_raw_fd(), number, 0) };
    let got = crate::check(got)?;
    // SAFETY: the descriptor was just created and no other code owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(got as RawFd) })
}

/// The first fields of /proc/PID/stat.
struct ProcessStatus {
    name: String,
    state: char,
    parent: i32,
}

/// More bytes than the first four fields have: the name of a kernel thread has at most 64 bytes,
/// that of another process 15.
const STATUS_BYTES: usize = 256;

impl ProcessStatus {
    /// Reads the status of a process, with one system call besides opening and closing the file.
    fn read(process: i32) -> Option<Self> {
        let mut bytes = [0; STATUS_BYTES];
        let length = File::open(format!("/proc/{process}/stat")).ok()?.read(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        // The name may contain any bytes; the fields after its closing parenthesis may not.
        let (start, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        Some(Self {
            name: start.split_once('(')?.1.to_owned(),
            state: fields.next()?.chars().next()?,
            parent: fields.next()?.parse().ok()?,
        })
    }
}

/// Forks the process. Returns 0 in the child and the child's id in the parent.
///
/// # Errors
/// The system's; and `Unsupported` if the process has several threads, of which only one would
/// exist in the child.
pub fn fork() -> io::Result<i32> {
    if !has_one_thread() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // SAFETY: there is only one thread, so the child has all threads that the process had.
    let child = unsafe { libc::fork() };
    crate::check(libc::c_long::from(child)).map(|id| id as i32)
}

/// Whether this process has one thread. The kernel also counts those of an emulator (QEMU), and the
/// C library may count threads that have ended.
fn has_one_thread() -> bool {
    unsafe extern "C" {
        /// In glibc 2.32 and later (sys/single_threaded.h).
        static __libc_single_threaded: AtomicU8;
    }
    // SAFETY: the C library has such a byte, which it writes before it creates the second thread.
    let is_known = unsafe { &__libc_single_threaded }.load(Ordering::SeqCst) != 0;
    is_known || fs::read_dir("/proc/self/task").map_or(1, Iterator::count) <= 1
}

/// Requests `signal` for the time when the parent (the thread that made this process) ends.
pub fn follow_parent(signal: i32) -> io::Result<()> {
    // SAFETY: takes plain numbers.
    call(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) })
        .map_err(|cause| crate::refused("prctl", &cause))
}

/// Whether the system kills this process when its parent ends.
pub fn ends_with_parent() -> bool {
    let mut signal: libc::c_int = 0;
    // SAFETY: the system writes an integer to the address, which is that of one.
    let result = unsafe { libc::prctl(libc::PR_GET_PDEATHSIG, &raw mut signal) };
    result == 0 && signal == libc::SIGKILL
}

/// Makes this process the parent of all descendants whose own parent ends.
///
/// # Errors
/// The system's, for example that it cannot do so.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: takes plain numbers.
    call(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })
        .map_err(|cause| crate::refused("prctl", &cause))
}

/// Returns the size in bytes of the stacks that threads of programs have unless they ask for
/// another: the limit of the stack (ulimit -s), or the usual one if there is none.
pub fn stack_bytes() -> usize {
    const USUAL: usize = 8 << 20;
    stack_limit().unwrap_or(USUAL)
}

/// Returns how large a stack in place of the main thread's must be: the limit, or 256 MiB if there
/// is none.
pub fn stack_bytes_of_main() -> usize {
    const UNLIMITED: usize = 256 << 20;
    stack_limit().unwrap_or(UNLIMITED)
}

/// Returns the limit of the stack in bytes (ulimit -s), if there is one.
fn stack_limit() -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the two numbers of `limit`.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    (got == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

/// Returns the name of this machine; empty if the system does not report it.
pub fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the array has room for so many bytes; the last one stays zero.
    let reported = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    if reported == 0 {
        String::from_utf8_lossy(&name[..length]).into_owned()
    } else {
        String::new()
    }
}

/// Sends a signal to a process, or with a negative number to a process group.
pub fn kill(process: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes plain numbers.
    call(unsafe { libc::kill(process, signal) })
}

/// Ends this process immediately, without exit handlers.
pub fn end_at_once(code: i32) -> ! {
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(code) }
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
}

/// Reaps a child that has ended; `None` if none has ended yet.
///
/// # Errors
/// `ECHILD` if there are no children at all.
pub fn reap() -> io::Result<Option<(i32, End)>> {
    let mut status = 0;
    // SAFETY: `status` may be written.
    let child = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    let child = crate::check(libc::c_long::from(child))? as i32;
    if child == 0 {
        return Ok(None);
    }
    let end = if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Code(libc::WEXITSTATUS(status))
    };
    Ok(Some((child, end)))
}

/// Returns the signal that has stopped this child, once for each stop; `None` if it was not stopped
/// since the last call, or runs again.
pub fn stop_of(child: i32) -> Option<i32> {
    // SAFETY: a siginfo may contain any bytes.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    let options = libc::WSTOPPED | libc::WNOHANG;
    // SAFETY: `info` may be written.
    let found = unsafe { libc::waitid(libc::P_PID, child as libc::id_t, &mut info, options) };
    // SAFETY: the kernel has written about a child, or nothing, which leaves zeros.
    let (process, signal) = unsafe { (info.si_pid(), info.si_status()) };
    (found == 0 && process == child).then_some(signal)
}

/// Returns the descendants of `ancestor`: its children, their children, and so on.
pub fn descendants(ancestor: i32) -> Vec<i32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        if let Some(ProcessStatus { parent, .. }) = ProcessStatus::read(process) {
            parents.push((process, parent));
        }
    }
    let mut found = vec![ancestor];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|pair| pair.1 == parent).map(|pair| pair.0));
        next += 1;
    }
    found.split_off(1)
}

/// Returns the ancestors of `process`, its parent first, as far as this process can see them. Each
/// is looked up when it is needed.
pub fn ancestors(process: i32) -> impl Iterator<Item = i32> {
    let parent = |process: &i32| {
        ProcessStatus::read(*process).map(|status| status.parent).filter(|&one| one > 0)
    };
    // If a process ends meanwhile, its children get another parent, which may be no earlier
    // ancestor. So there might be more steps than there are processes.
    std::iter::successors(Some(process), parent).skip(1).take(ANCESTORS_MAX)
}

/// Returns the nearest process above this one that has this name, as lists of processes show it.
pub fn ancestor_named(name: &str) -> Option<i32> {
    let mut process = std::os::unix::process::parent_id() as i32;
    for _ in 0..ANCESTORS_MAX {
        let status = ProcessStatus::read(process)?;
        if status.name == name {
            return Some(process);
        }
        process = status.parent;
    }
    None
}

/// The maximum depth; processes are not nested deeper.
const ANCESTORS_MAX: usize = 64;

/// A descriptor from which this process reads its signals, instead of handling them.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
}

impl Signals {
    /// Blocks these signals, and makes the descriptor that reads them.
    pub fn take(signals: &[i32]) -> io::Result<Self> {
        // SAFETY: the set is initialized before it is used, and outlives the calls.
        let descriptor = unsafe {
            let mut set = mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in signals {
                libc::sigaddset(&mut set, signal);
            }
            call(libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut()))?;
            libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        crate::check(libc::c_long::from(descriptor))
            .map_err(|cause| crate::refused("signalfd", &cause))?;
        // SAFETY: the descriptor was just created and no other code owns it.
        Ok(Self { descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) } })
    }

    /// Returns the next signal that has arrived, if any.
    pub fn next(&self) -> Option<i32> {
        // SAFETY: a signalfd_siginfo may contain any bytes.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let length = mem::size_of_val(&info);
        // SAFETY: `info` may be written and has `length` bytes.
        let got = unsafe {
            libc::read(self.descriptor.as_raw_fd(), ptr::from_mut(&mut info).cast(), length)
        };
        (got == length as isize).then_some(info.ssi_signo as i32)
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

/// The condition to wait for at a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// There is data to read, or the other end is closed.
    Read,
    /// There is room to write.
    Write,
    /// The other end is closed, whether all its data was read or not.
    Hangup,
    /// The other end is closed, or the other end of a socket sends nothing any more.
    End,
}

/// Sleeps until one of the descriptors is ready, or `timeout` has passed. Returns for each
/// descriptor whether it is ready.
pub fn poll(watched: &[(RawFd, Interest)], timeout: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut entries: Vec<libc::pollfd> = watched
        .iter()
        .map(|&(fd, interest)| {
            let events = match interest {
                Interest::Read => libc::POLLIN,
                Interest::Write => libc::POLLOUT,
                // It is always reported.
                Interest::Hangup => 0,
                Interest::End => libc::POLLRDHUP,
            };
            libc::pollfd { fd, events, revents: 0 }
        })
        .collect();
    // Rounded up, so that the call does not return before the time; but zero stays zero.
    let milliseconds = |t: Duration| i32::try_from(t.as_nanos().div_ceil(1_000_000));
    let limit = timeout.map_or(-1, |t| milliseconds(t).unwrap_or(i32::MAX));
    // SAFETY: the entries may be written, and their number is correct.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, limit) };
    match crate::check(libc::c_long::from(ready)) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(entries.iter().map(|entry| entry.revents != 0).collect()),
    }
}

/// Makes a descriptor non-blocking.
pub fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: takes a number and integers; a number that is no descriptor is an error.
    call(unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) })
}

pub(crate) fn call(result: libc::c_int) -> io::Result<()> {
    crate::check(libc::c_long::from(result)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_process_with_threads_is_not_forked() {
        let forked = std::thread::spawn(fork).join().unwrap();
        assert_eq!(forked.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn ancestors_are_found_up_to_the_first_process() {
        let own: Vec<i32> = ancestors(std::process::id() as i32).collect();
        assert_eq!(own.first(), Some(&(std::os::unix::process::parent_id() as i32)));
        assert!(own.len() <= ANCESTORS_MAX && ancestors(1).next().is_none());
    }

    #[test]
    fn an_ancestor_is_found_by_its_name() {
        let parent = std::os::unix::process::parent_id() as i32;
        assert_eq!(ancestor_named(&name(parent).unwrap()), Some(parent));
        assert_eq!(ancestor_named("no such process"), None);
    }

    #[test]
    fn the_status_of_a_process_with_an_odd_name_is_read() {
        // A shell that gives itself the name, and lives until its input is closed.
        let renames = "printf ') R \\377 (' >/proc/self/comm; echo; read line";
        let mut child = Command::new("bash")
            .args(["-c", renames])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        let status = ProcessStatus::read(child.id() as i32).unwrap();
        assert_eq!(status.parent, std::process::id() as i32);
        assert_eq!(status.name, ") R \u{fffd} (");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_refused_step_before_the_program_is_named() {
        let refused = Step::Group.name_in(Err(io::Error::from_raw_os_error(libc::EPERM)));
        let reported = Step::named(refused.unwrap_err()).to_string();
        assert!(reported.starts_with("setpgid: ") && reported.contains("container"), "{reported}");
        let other = Step::named(io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(other.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn the_end_of_a_process_is_seen_though_nobody_waited_for_it() {
        let mut child = Command::new("sleep").arg("30").spawn().unwrap();
        let process = child.id() as i32;
        assert!(!has_ended(process) && !has_ended(std::process::id() as i32));
        kill(process, signal::SIGKILL).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while !has_ended(process) && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(has_ended(process));
        child.wait().unwrap();
        assert!(has_ended(process));
    }

    #[test]
    fn finds_descendants_of_descendants() {
        let mut child = Command::new("sh").args(["-c", "sleep 30 & wait"]).spawn().unwrap();
        let own = std::process::id() as i32;
        let mut below = Vec::new();
        for _ in 0..500 {
            below = descendants(child.id() as i32);
            // It runs for a moment before it sleeps.
            if below.first().is_some_and(|&process| state(process) == Some("sleeping")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(below.len(), 1);
        assert!(descendants(own).contains(&below[0]));
        assert_eq!(state(below[0]), Some("sleeping"));
        kill(below[0], signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }
}
