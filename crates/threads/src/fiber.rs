//! Reports stack switches to ThreadSanitizer when the library is compiled for it (`--cfg tsan`).
//! Without these reports the tool would attribute a thread's accesses to its worker.

/// The fiber by which ThreadSanitizer identifies a thread.
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

    /// Resumes the thread until it switches back to the worker.
    #[inline]
    pub fn run<R>(&self, resume: impl FnOnce() -> R) -> R {
        resume()
    }
}

#[cfg(tsan)]
impl Fiber {
    pub fn new() -> Self {
        // SAFETY: the function has no preconditions.
        Self(unsafe { __tsan_create_fiber(0) })
    }

    /// Resumes the thread until it switches back to the worker. The functions that `resume` enters
    /// before the switch of stacks and leaves after it are both counted for this fiber, so that the
    /// tool's shadow stacks keep the right height.
    pub fn run<R>(&self, resume: impl FnOnce() -> R) -> R {
        // SAFETY: `resume` switches to the stack of this fiber and back; the worker waits here
        // meanwhile.
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
        // SAFETY: `new` created the fiber, and it no longer runs.
        unsafe { __tsan_destroy_fiber(self.0) };
    }
}
