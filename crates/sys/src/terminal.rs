//! Terminals: opening one, its size, and which processes have its input.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::{io, mem, ptr};

use crate::process::call;

/// Opens a pseudo-terminal for the output of a process, as large as the terminal of standard
/// output. Returns the end to read from, and the end that the process writes to. Output is passed
/// on unchanged.
///
/// # Errors
/// The system's.
pub fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: takes plain integers.
    let reader = unsafe { libc::posix_openpt(flags) };
    call(reader)?;
    // SAFETY: the descriptor is open, and no other code owns it.
    let reader = unsafe { OwnedFd::from_raw_fd(reader) };
    let number = reader.as_raw_fd();
    // SAFETY: these take the descriptor, which is open.
    call(unsafe { libc::grantpt(number) })?;
    // SAFETY: takes the descriptor, which is open.
    call(unsafe { libc::unlockpt(number) })?;
    // SAFETY: takes the descriptor, which is open, and flags; returns a new descriptor.
    let writer = unsafe { libc::ioctl(number, libc::TIOCGPTPEER, flags) };
    call(writer)?;
    // SAFETY: the descriptor is open, and no other code owns it.
    let writer = unsafe { OwnedFd::from_raw_fd(writer) };
    let mut form = mem::MaybeUninit::<libc::termios>::uninit();
    // SAFETY: `form` may be written.
    call(unsafe { libc::tcgetattr(writer.as_raw_fd(), form.as_mut_ptr()) })?;
    // SAFETY: the call has filled it.
    let mut form = unsafe { form.assume_init() };
    form.c_oflag &= !libc::OPOST;
    // SAFETY: `form` is initialized.
    call(unsafe { libc::tcsetattr(writer.as_raw_fd(), libc::TCSANOW, &form) })?;
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` may be written.
    if unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) } == 0 {
        // SAFETY: `size` is initialized.
        call(unsafe { libc::ioctl(number, libc::TIOCSWINSZ, &size) })?;
    }
    Ok((reader, writer))
}

/// Returns the number of columns of the terminal at `descriptor`; `None` if it is no terminal, or
/// its size is not known.
pub fn columns(descriptor: RawFd) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: `size` may be written.
    let known = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &mut size) };
    (known == 0 && size.ws_col > 0).then_some(size.ws_col.into())
}

/// Whether this process is in the foreground of the terminal at `descriptor`, and so may read its
/// input.
pub fn is_foreground(descriptor: RawFd) -> bool {
    // SAFETY: takes nothing.
    is_foreground_group(descriptor, unsafe { libc::getpgrp() })
}

/// Whether this process group is in the foreground of the terminal at `descriptor`.
pub fn is_foreground_group(descriptor: RawFd, group: i32) -> bool {
    // SAFETY: takes a number; one that is no terminal is an error.
    unsafe { libc::tcgetpgrp(descriptor) == group }
}

/// Brings a process group of this session to the foreground of the terminal at `descriptor`.
///
/// # Errors
/// The system's: it is not the terminal of this session.
pub fn bring_to_foreground(descriptor: RawFd, group: i32) -> io::Result<()> {
    // SAFETY: `sigemptyset` writes the whole set, which the calls after it read; the others take
    // plain numbers. No memory is allocated, so this may run between fork and exec.
    unsafe {
        let (mut set, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&mut set);
        // Otherwise the system stops a background process that does this.
        libc::sigaddset(&mut set, libc::SIGTTOU);
        call(libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before))?;
        let taken = call(libc::tcsetpgrp(descriptor, group));
        call(libc::sigprocmask(libc::SIG_SETMASK, &before, ptr::null_mut()))?;
        taken
    }
}

/// Stops this process as a signal from its terminal does, although it takes [`Signals`]: until it
/// is continued, or not at all where nobody could continue it. Its `Signals` do not report that
/// it was continued.
///
/// # Errors
/// The system's.
///
/// [`Signals`]: crate::process::Signals
pub fn stop_as_terminal_does() -> io::Result<()> {
    // SAFETY: the sets are initialized before they are read, and outlive the calls.
    unsafe {
        let (mut stops, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&mut stops);
        libc::sigaddset(&mut stops, libc::SIGTSTP);
        call(libc::raise(libc::SIGTSTP))?;
        call(libc::sigprocmask(libc::SIG_UNBLOCK, &stops, &mut before))?;
        call(libc::sigprocmask(libc::SIG_SETMASK, &before, ptr::null_mut()))?;
        let mut continues = mem::zeroed();
        libc::sigemptyset(&mut continues);
        libc::sigaddset(&mut continues, libc::SIGCONT);
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::sigtimedwait(&continues, ptr::null_mut(), &none);
    }
    Ok(())
}
