//! What is told before a program ends that touched memory which it must not.

use std::cell::Cell;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::OnceLock;

/// Says whose guard an address is: writes a message and returns whether it was any.
pub type Explain = fn(address: usize) -> bool;

static EXPLAIN: OnceLock<(Explain, libc::sigaction)> = OnceLock::new();

/// From now on `explain` is asked about each invalid access to memory (SIGSEGV), on the stack of
/// [`AlternateStack`]. If it knows the address, the program aborts; else what was installed before
/// decides. It may do only what a signal handler may.
///
/// # Errors
/// The system's.
pub fn explain_faults(explain: Explain) -> io::Result<()> {
    let mut failed = None;
    EXPLAIN.get_or_init(|| {
        // SAFETY: sigaction structures are plain data, for which zero is a value.
        let (mut new, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        new.sa_sigaction = on_fault as *const () as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both point to structures; the handler stays as long as the program.
        let done = unsafe { libc::sigaction(libc::SIGSEGV, &raw const new, &raw mut before) };
        failed = crate::check(libc::c_long::from(done)).err();
        (explain, before)
    });
    failed.map_or(Ok(()), Err)
}

extern "C" fn on_fault(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid structure.
    let address = unsafe { (*info).si_addr() }.addr();
    let Some((explain, before)) = EXPLAIN.get() else { return };
    if explain(address) {
        std::process::abort();
    }
    // The access is made again, under the action that was there before.
    // SAFETY: points to what the system gave when the handler was installed.
    unsafe { libc::sigaction(libc::SIGSEGV, before, ptr::null_mut()) };
}

/// Writes to the standard error output, as a signal handler may.
pub fn write_error(text: &[u8]) {
    // SAFETY: the bytes are valid for the call.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// A stack for signal handlers of the calling thread, until it is dropped there.
#[derive(Debug)]
pub struct AlternateStack {
    memory: Box<[MaybeUninit<u8>]>,
    /// It belongs to the thread that made it.
    _not_send: std::marker::PhantomData<Cell<*const u8>>,
}

impl AlternateStack {
    /// Makes one, and lets the calling thread tell of faults also if it was started with all
    /// signals blocked.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        let mut memory = vec![MaybeUninit::uninit(); SIZE].into_boxed_slice();
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIZE };
        // SAFETY: the memory lives until it is given up in `drop`, in the same thread.
        let done = unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
        crate::check(libc::c_long::from(done))?;
        let mut faults = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` writes the whole set, which the calls after it use; changing the
        // mask of the calling thread touches no other memory.
        unsafe {
            libc::sigemptyset(faults.as_mut_ptr());
            libc::sigaddset(faults.as_mut_ptr(), libc::SIGSEGV);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, faults.as_ptr(), ptr::null_mut());
        }
        Ok(Self { memory, _not_send: std::marker::PhantomData })
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let none = libc::stack_t {
            ss_sp: ptr::null_mut(),
            ss_flags: libc::SS_DISABLE,
            ss_size: self.memory.len(),
        };
        // SAFETY: takes a structure that lives as long as the call.
        unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
    }
}

const SIZE: usize = 64 << 10;
