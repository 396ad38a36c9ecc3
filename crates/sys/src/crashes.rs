//! Reports about a process that is killed by a fault of its program.
//!
//! The handler of the signal must not use locks, and the memory of the program may be damaged. So
//! the process only makes a copy of itself, as `fork` does, and waits for it: the copy has the same
//! stack and may use everything, because its damage stays its own. If the copy does not end in
//! time, it is killed. Then the signal takes its usual effect, with its usual core file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::callers::{Caller, callers};
use crate::process::signal;

/// A fault that kills the process.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// The signal.
    pub signal: i32,
    /// The cause of the signal, as the kernel's `si_code`.
    pub code: i32,
    /// The address that was used, or that of the instruction, as the signal defines it.
    pub address: usize,
    /// The limit of the size of core files, in bytes.
    pub core_bytes_max: u64,
}

/// Reports a crash. It runs in a copy of the process, on the stack of the signal.
pub type Report = fn(&Crash);

/// The signals that faults of a program cause.
const SIGNALS: [i32; 5] =
    [signal::SIGSEGV, signal::SIGBUS, signal::SIGFPE, signal::SIGILL, signal::SIGABRT];

/// How long a report may take. Reading the debug information of large programs takes seconds on a
/// busy machine.
const REPORT_TIME_MAX: Duration = Duration::from_secs(10);

/// The number of calls after which the stack is cut off before it is read, because after a stack
/// overflow there are a hundred thousand.
const DEPTH_MAX: usize = crate::callers::CALLERS_MAX;

/// What to report with, and the process that installed the handlers.
static REPORT: OnceLock<(Report, u32)> = OnceLock::new();
/// Whether a thread has crashed.
static HAS_CRASHED: AtomicBool = AtomicBool::new(false);

/// Makes the signals of faults call `report` in a copy of this process, before they take their
/// usual effect. Signals for which the program has installed a handler, or which it ignores, stay
/// as they are. Only the first call has an effect.
///
/// # Errors
/// The system's.
pub fn report_crashes(report: Report) -> io::Result<()> {
    if REPORT.set((report, std::process::id())).is_err() {
        return Ok(());
    }
    use_signal_stack()?;
    for signal in SIGNALS {
        // SAFETY: sigaction structures are plain data, for which zero is a valid value.
        let mut before: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: points to a structure; without a new action nothing changes.
        let done = unsafe { libc::sigaction(signal, ptr::null(), &raw mut before) };
        crate::check(libc::c_long::from(done))?;
        if before.sa_sigaction != libc::SIG_DFL {
            continue;
        }
        let new = action();
        // SAFETY: points to a structure; the handler stays as long as the library, which is never
        // unloaded (-z nodelete).
        let done = unsafe { libc::sigaction(signal, &raw const new, ptr::null_mut()) };
        crate::check(libc::c_long::from(done))?;
    }
    Ok(())
}

/// Returns what happens at the signals. No other signal of the program interrupts a report.
fn action() -> libc::sigaction {
    // SAFETY: sigaction structures are plain data, for which zero is a valid value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = combray_on_crash as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: writes a set.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    action
}

/// Gives the calling thread a signal stack, unless it has one: the stack of a thread may be full.
fn use_signal_stack() -> io::Result<()> {
    const BYTES: usize = 512 << 10;
    // SAFETY: stack_t is plain data.
    let mut before: libc::stack_t = unsafe { mem::zeroed() };
    // SAFETY: points to a structure; without a new stack nothing changes.
    let done = unsafe { libc::sigaltstack(ptr::null(), &raw mut before) };
    crate::check(libc::c_long::from(done))?;
    if before.ss_flags & libc::SS_DISABLE == 0 {
        return Ok(());
    }
    // SAFETY: requests fresh addresses, which are never unmapped. Its pages take memory only if
    // they are used.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: BYTES };
    // SAFETY: the memory stays mapped.
    crate::check(libc::c_long::from(unsafe {
        libc::sigaltstack(&raw const stack, ptr::null_mut())
    }))?;
    Ok(())
}

/// The handler. Its name is how reports recognize where the stack of the program begins.
extern "C" fn combray_on_crash(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid structures.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let Some((report, process)) = REPORT.get() else { return };
    // A child of the program has inherited the handler.
    if std::process::id() == *process {
        if HAS_CRASHED.swap(true, Ordering::AcqRel) {
            // The thread that crashed first ends the process.
            pause(REPORT_TIME_MAX * 2);
        }
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: writes a structure.
        unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
        let crash = Crash { signal, code, address, core_bytes_max: limit.rlim_cur };
        report_in_copy(*report, &crash, context);
    }
    // SAFETY: sigaction structures are plain data, for which zero is a valid value: the usual
    // effect.
    let usual: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: points to a structure.
    unsafe { libc::sigaction(signal, &raw const usual, ptr::null_mut()) };
    // A fault occurs again when the handler returns; abort() sends its signal again; a signal that
    // a process sent does not come back by itself.
    if code <= 0 {
        // SAFETY: sends a signal to this thread, which gets it when the handler returns.
        unsafe {
            libc::syscall(
                libc::SYS_tgkill,
                libc::getpid(),
                libc::syscall(libc::SYS_gettid) as libc::pid_t,
                signal,
            );
        }
    }
}

/// Makes a copy of the process, in which `report` runs, and waits for its end.
fn report_in_copy(report: Report, crash: &Crash, context: *mut libc::c_void) {
    // The system call itself, as fork() would take the locks of the C library. The copy sends no
    // signal when it ends, so the program does not notice it.
    // SAFETY: without the flags that share memory, the child has its own copy of this stack.
    let copy = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    match copy {
        0 => {
            prepare_copy(context);
            report(crash);
            // SAFETY: ends the copy without running functions of the program.
            unsafe { libc::_exit(0) }
        }
        copy if copy > 0 => await_end(copy as libc::pid_t),
        // There is no memory, or no room for a process.
        _ => {}
    }
}

fn await_end(copy: libc::pid_t) {
    const STEP: Duration = Duration::from_millis(2);
    for _ in 0..REPORT_TIME_MAX.as_millis() / STEP.as_millis() {
        // SAFETY: asks for the state of a child, without a place for it.
        let ended = unsafe { libc::waitpid(copy, ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
        if ended != 0 {
            return;
        }
        pause(STEP);
    }
    // SAFETY: ends a child that was not waited for, and waits for it.
    unsafe {
        libc::kill(copy, libc::SIGKILL);
        libc::waitpid(copy, ptr::null_mut(), libc::__WALL);
    }
}

/// Sleeps for this time, even if signals arrive meanwhile.
fn pause(time: Duration) {
    let mut time = libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: reads a structure, and writes the rest of the time there if a signal arrives.
    while unsafe { libc::nanosleep(&raw const time, &raw mut time) } != 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Prepares the copy for code that allocates memory and reads the stack, and bounds its life.
fn prepare_copy(context: *mut libc::c_void) {
    IS_COPY.store(true, Ordering::Relaxed);
    // SAFETY: these calls concern this process only, and read structures.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        let usual: libc::sigaction = mem::zeroed();
        for signal in SIGNALS.into_iter().chain([libc::SIGALRM]) {
            libc::sigaction(signal, &raw const usual, ptr::null_mut());
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::alarm(REPORT_TIME_MAX.as_secs() as libc::c_uint);
    }
    correct_place(context);
    if let Some(last) = callers().get(DEPTH_MAX - 1) {
        end_stack_at(*last);
    }
}

/// Makes the stack readable from the instruction that crashed. After a call of an address where no
/// code is, the call is taken back. Otherwise the place becomes one inside of the instruction:
/// places on stacks are those after calls, so their names are looked up a byte before.
#[cfg(target_arch = "x86_64")]
fn correct_place(context: *mut libc::c_void) {
    // SAFETY: the kernel has passed this structure to the handler. It is changed in the copy of the
    // process, which never returns to it.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let place = registers[libc::REG_RIP as usize] as usize;
    if crate::callers::object_of(place).is_some() {
        // SAFETY: the place is in a loaded object, and the processor has read the instruction.
        let instruction = unsafe { ptr::with_exposed_provenance::<u8>(place).read_volatile() };
        // These have one byte and change the stack: after the byte it has another form.
        let is_short = matches!(instruction, 0x50..=0x5f | 0xc3 | 0xc9);
        registers[libc::REG_RIP as usize] += i64::from(!is_short);
        return;
    }
    let stack = registers[libc::REG_RSP as usize] as usize;
    // SAFETY: the word is the return address if the address was called. If the stack pointer is
    // wrong, the copy dies without a report.
    let back = unsafe { ptr::with_exposed_provenance::<usize>(stack).read_volatile() };
    registers[libc::REG_RIP as usize] = back as i64;
    registers[libc::REG_RSP as usize] += size_of::<usize>() as i64;
}

/// Makes the stack readable from the instruction that crashed, as on x86-64.
#[cfg(target_arch = "aarch64")]
fn correct_place(context: *mut libc::c_void) {
    // SAFETY: as for x86-64.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    match crate::callers::object_of(registers.pc as usize) {
        Some(_) => registers.pc += 1,
        None => registers.pc = registers.regs[30],
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn correct_place(_context: *mut libc::c_void) {}

/// Makes a frame the last one that can be found, in the copy of the process.
fn end_stack_at(last: Caller) {
    // On other processors the return address has no fixed place; there, a report of a very deep
    // stack is cut off by its time limit.
    if cfg!(target_arch = "x86_64") {
        let place = last.frame_end.wrapping_sub(size_of::<usize>());
        // SAFETY: the word before the end of a frame is its return address, which the copy of the
        // process never uses to return.
        unsafe { ptr::with_exposed_provenance_mut::<usize>(place).write_volatile(0) };
    }
}

/// Whether this process is a copy that reports a crash.
static IS_COPY: AtomicBool = AtomicBool::new(false);

/// The allocator of the library: that of the system, but in the copy of a crashed process new
/// memory of the kernel, because the heap may be damaged or locked there.
#[derive(Debug)]
pub struct CrashSafeAllocator;

// SAFETY: all requests go to the system's allocator, or get memory that is given to no other.
unsafe impl GlobalAlloc for CrashSafeAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_COPY.load(Ordering::Relaxed) {
            return FRESH.take(layout);
        }
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if IS_COPY.load(Ordering::Relaxed) {
            return FRESH.take(layout);
        }
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !IS_COPY.load(Ordering::Relaxed) {
            // SAFETY: passed on.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !IS_COPY.load(Ordering::Relaxed) {
            // SAFETY: passed on.
            return unsafe { System.realloc(memory, layout, size) };
        }
        let Ok(new) = Layout::from_size_align(size, layout.align()) else {
            return ptr::null_mut();
        };
        let fresh = FRESH.take(new);
        if !fresh.is_null() {
            // SAFETY: both have as many bytes, and the new memory is given to no other.
            unsafe { ptr::copy_nonoverlapping(memory, fresh, layout.size().min(size)) };
        }
        fresh
    }
}

/// The memory from which a copy of the process takes what it needs, and returns nothing.
struct FreshMemory {
    /// The next free byte, and how many follow.
    rest: UnsafeCell<(usize, usize)>,
}

// SAFETY: a copy of a process has one thread, and no other process uses this.
unsafe impl Sync for FreshMemory {}

static FRESH: FreshMemory = FreshMemory { rest: UnsafeCell::new((0, 0)) };

impl FreshMemory {
    /// Returns zeroed memory; null if there is none.
    fn take(&self, layout: Layout) -> *mut u8 {
        const CHUNK: usize = 1 << 20;
        // SAFETY: only the one thread of the copy gets here, and allocating does not call itself.
        let rest = unsafe { &mut *self.rest.get() };
        let start = |rest: &(usize, usize)| rest.0.next_multiple_of(layout.align());
        if start(rest) + layout.size() > rest.0 + rest.1 {
            let bytes = (layout.size() + layout.align()).next_multiple_of(CHUNK);
            // SAFETY: requests fresh addresses.
            let chunk = unsafe {
                libc::mmap(
                    ptr::null_mut(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            if chunk == libc::MAP_FAILED {
                return ptr::null_mut();
            }
            *rest = (chunk.expose_provenance(), bytes);
        }
        let first = start(rest);
        let end = first + layout.size();
        *rest = (end, rest.0 + rest.1 - end);
        ptr::with_exposed_provenance_mut(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::thread::JoinHandleExt;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn no_signal_interrupts_a_report() {
        let action = action();
        for signal in SIGNALS.into_iter().chain([libc::SIGTERM, libc::SIGINT, libc::SIGALRM]) {
            // SAFETY: reads a set.
            let is_blocked = unsafe { libc::sigismember(&raw const action.sa_mask, signal) };
            assert_eq!(is_blocked, 1, "signal {signal}");
        }
    }

    #[test]
    fn a_pause_lasts_although_signals_arrive() {
        const TIME: Duration = Duration::from_millis(200);
        extern "C" fn ignore(_signal: libc::c_int) {}
        // SAFETY: sigaction structures are plain data, for which zero is a valid value; system
        // calls are not restarted.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = ignore as *const () as usize;
        // SAFETY: points to a structure; no other test uses this signal.
        let done = unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()) };
        assert_eq!(done, 0);
        let sleeper = thread::spawn(|| {
            let begun = Instant::now();
            pause(TIME);
            begun.elapsed()
        });
        while !sleeper.is_finished() {
            // SAFETY: the thread was not joined yet.
            unsafe { libc::pthread_kill(sleeper.as_pthread_t(), libc::SIGUSR2) };
            thread::sleep(TIME / 20);
        }
        let slept = sleeper.join().expect("it does not panic");
        assert!(slept >= TIME, "{slept:?}");
    }
}
