//! Thread-local values of threads.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::worker;

/// A key under which each thread of [`Workers`](crate::Workers) has a value of its own, on
/// whichever worker it runs. Variables of `thread_local!` belong to the worker instead.
pub struct Key<T> {
    number: AtomicUsize,
    make: fn() -> T,
    _value: PhantomData<fn() -> T>,
}

impl<T: 'static> Key<T> {
    /// Creates a key. The value of a thread is created at its first access, and dropped when the
    /// thread ends.
    pub const fn new(make: fn() -> T) -> Self {
        Self { number: AtomicUsize::new(0), make, _value: PhantomData }
    }

    fn number(&self) -> usize {
        let number = self.number.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        let new = NUMBERS.fetch_add(1, Ordering::Relaxed);
        match self.number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(other) => other,
        }
    }

    /// Calls `inspect` with the calling thread's value. While `inspect` runs, the value is taken
    /// out: a nested access by the same thread creates a new value.
    ///
    /// # Panics
    /// The caller is not a thread of [`Workers`](crate::Workers).
    pub fn with<R>(&self, inspect: impl FnOnce(&mut T) -> R) -> R {
        let number = self.number();
        let thread = worker::current_shared().expect("only threads of Workers have keys");
        // SAFETY: the caller is this thread; the value is taken out while the program uses it.
        let value: Option<Box<dyn Any>> = unsafe { thread.key(number).take() };
        let mut value = match value.map(|value| value.downcast::<T>()) {
            Some(Ok(value)) => value,
            _ => Box::new((self.make)()),
        };
        let result = inspect(&mut value);
        // SAFETY: the caller is this thread, and `inspect` has returned.
        unsafe { *thread.key(number) = Some(value) };
        result
    }
}

/// The next number. The number 0 means that a key has no number yet.
static NUMBERS: AtomicUsize = AtomicUsize::new(1);
