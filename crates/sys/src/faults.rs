//! Messages for programs that are killed by an invalid memory access.

use std::cell::Cell;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::OnceLock;

/// Writes a message if an address belongs to a known guard page. Returns whether it does.
pub type Explain = fn(address: usize) -> bool;

static EXPLAIN: OnceLock<(Explain, libc::sigaction)> = OnceLock::new();

/// Makes every invalid memory access (SIGSEGV) call `explain`, on the stack of [`AlternateStack`].
/// If `explain` recognises the address, the program aborts; else the previously installed action
/// applies. `explain` may only do what a signal handler may do.
///
/// # Errors
/// The system's.
pub fn explain_faults(explain: Explain) -> io::Result<()> {
    let mut failed = None;
    EXPLAIN.get_or_init(|| {
        // SAFETY: sigaction structures are plain data, for which zero is a valid value.
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
    // The access is repeated, under the previous action.
    // SAFETY: points to the action that the system returned when the handler was installed.
    unsafe { libc::sigaction(libc::SIGSEGV, before, ptr::null_mut()) };
}

/// Writes to standard error; may be called from a signal handler.
pub fn write_error(text: &[u8]) {
    // SAFETY: the bytes are valid for the call.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

/// A signal stack for the calling thread, in use until it is dropped in that thread.
#[derive(Debug)]
pub struct AlternateStack {
    memory: Box<[MaybeUninit<u8>]>,
    /// The stack belongs to the thread that made it.
    _not_send: std::marker::PhantomData<Cell<*const u8>>,
}

impl AlternateStack {
    /// Makes a signal stack. It also unblocks SIGSEGV in the calling thread, in case the thread was
    /// started with all signals blocked.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        let mut memory = vec![MaybeUninit::uninit(); SIZE].into_boxed_slice();
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIZE };
        // SAFETY: the memory lives until it is released in `drop`, in this thread.
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
