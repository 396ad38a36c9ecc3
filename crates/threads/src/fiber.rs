//! Which stack is whose, told to ThreadSanitizer where the library is compiled for it (`--cfg
//! tsan`): it would take what a thread does for what its worker does.

/// A thread as ThreadSanitizer sees it.
pub(crate) struct Fiber(#[cfg(tsan)] *mut std::ffi::c_void);

#[cfg(tsan)]
unsafe extern "C" {
    fn __tsan_get_current_fiber() -> *mut std::ffi::c_void;
    fn __tsan_create_fiber(flags: std::ffi::c_uint) -> *mut std::ffi::c_void;
    fn __tsan_destroy_fiber(fiber: *mut std::ffi::c_void);
    fn __tsan_switch_to_fiber(fiber: *mut std::ffi::c_void, flags: std::ffi::c_uint);
}

#[cfg(not(tsan))]
impl Fiber {
    #[inline]
    pub fn new() -> Self {
        Self()
    }

    /// Resumes the thread until it comes back.
    #[inline]
    pub fn run<R>(&self, resume: impl FnOnce() -> R) -> R {
        resume()
    }
}

#[cfg(tsan)]
impl Fiber {
    pub fn new() -> Self {
        // SAFETY: it needs nothing.
        Self(unsafe { __tsan_create_fiber(0) })
    }

    /// Resumes the thread until it comes back. What `resume` enters on one side it leaves on the
    /// other, so that the tool's stacks have the right height.
    pub fn run<R>(&self, resume: impl FnOnce() -> R) -> R {
        // SAFETY: `resume` goes to the stack of this fiber and comes back from there; the worker
        // waits here meanwhile.
        unsafe {
            let worker = __tsan_get_current_fiber();
            __tsan_switch_to_fiber(self.0, 0);
            let result = resume();
            __tsan_switch_to_fiber(worker, 0);
            result
        }
    }
}

#[cfg(tsan)]
impl Drop for Fiber {
    fn drop(&mut self) {
        // SAFETY: it was made by `new`, and no longer runs.
        unsafe { __tsan_destroy_fiber(self.0) };
    }
}
