//! Threads, their bodies, and the entries of queues.

pub(crate) mod bubble;
pub(crate) mod wait;

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::fiber::Fiber;
use crate::home::ANYWHERE;
use crate::label::Label;
use crate::stack::GuardedStack;
use crate::token::Token;
use crate::usage::UsedMemory;
use bubble::Bubble;
use wait::Cancellation;

/// Why a thread gives its worker back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The thread is ready, but lets others run.
    Yield,
    /// The thread waits for a token.
    Park,
}

/// The code that a thread runs.
pub(crate) trait Body: Send + Sync {
    /// Runs the body, if no thread has begun it.
    fn run(&self);
    /// Whether a thread has begun the body.
    fn is_claimed(&self) -> bool;
}

/// A thread.
pub(crate) struct Thread {
    pub name: Option<Box<str>>,
    pub label: Label,
    pub bubble: Option<Bubble>,
    pub token: Token,
    pub cancellation: Cancellation,
    /// The vertex in whose queue the thread stands when it is ready. [`ANYWHERE`]: the queue of the
    /// worker that made it ready.
    pub home: AtomicU32,
    pub memory: UsedMemory,
    /// Whether the thread has waited for messages.
    pub communicates: AtomicBool,
    inner: UnsafeCell<ThreadInner>,
}

struct ThreadInner {
    body: Option<Arc<dyn Body>>,
    coroutine: Option<(Fiber, Coroutine<(), Pause, (), GuardedStack>)>,
    yielder: *const Yielder<(), Pause>,
    guard: usize,
    keys: Vec<Option<Box<dyn Any>>>,
}

// SAFETY: only the worker that runs the thread and, on that worker, the thread itself use `inner`.
// A thread passes from one worker to the next through a queue or its token, both of which order the
// accesses. The contents of its stack move along. Bodies are `Send`; values of other types that
// they create stay on this one stack, as with kernel threads. The documentation describes the case
// of types that use thread-local storage.
unsafe impl Send for Thread {}
// SAFETY: only one worker at a time uses `inner`, as described for `Send`; the other fields are
// Sync.
unsafe impl Sync for Thread {}

impl Thread {
    pub fn new(body: Arc<dyn Body>, name: Option<Box<str>>, bubble: Option<Bubble>) -> Arc<Self> {
        Arc::new(Self {
            label: Label::of(name.as_deref()),
            name,
            bubble,
            token: Token::new(),
            cancellation: Cancellation::default(),
            home: AtomicU32::new(ANYWHERE),
            memory: UsedMemory::default(),
            communicates: AtomicBool::new(false),
            inner: UnsafeCell::new(ThreadInner {
                body: Some(body),
                coroutine: None,
                yielder: std::ptr::null(),
                guard: 0,
                keys: Vec::new(),
            }),
        })
    }

    /// Runs the thread until it pauses or ends. `stack` supplies a stack if the thread has none
    /// yet. Returns why the thread paused, or the stack of a thread that has ended.
    ///
    /// # Safety
    /// - The caller took the thread out of a queue, or its token made the caller responsible for
    ///   waking it, and no other worker has the thread.
    /// - The caller does not run on the stack of a thread.
    #[inline]
    pub unsafe fn resume(
        &self,
        stack: impl FnOnce() -> GuardedStack,
    ) -> Result<Pause, GuardedStack> {
        let inner = self.inner.get();
        // SAFETY: the caller has exclusive use of the thread. While it runs, the thread's own
        // functions use other fields of `inner` than the coroutine, and no reference to the whole
        // is held.
        let coroutine = unsafe { &mut (*inner).coroutine };
        let (fiber, coroutine) = coroutine.get_or_insert_with(|| {
            // SAFETY: the caller has exclusive use of the thread.
            let body = unsafe { (*inner).body.take() }.expect("a thread begins once");
            let stack = stack();
            // SAFETY: the caller has exclusive use of the thread.
            unsafe { (*inner).guard = stack.bounds().0 };
            let inner = SendPointer(inner);
            let body = move |yielder: &Yielder<(), Pause>, ()| {
                let inner = inner;
                // SAFETY: this runs inside `resume`, so the thread exists, and no other code uses
                // `yielder`.
                unsafe { (*inner.0).yielder = yielder };
                body.run();
            };
            (Fiber::new(), Coroutine::with_stack(stack, body))
        });
        match fiber.run(|| coroutine.resume(())) {
            CoroutineResult::Yield(pause) => Ok(pause),
            CoroutineResult::Return(()) => {
                // SAFETY: the caller has exclusive use of the thread, which has ended.
                let ended = unsafe { (*inner).coroutine.take() };
                Err(ended.expect("it just ran").1.into_stack())
            }
        }
    }

    /// Gives the worker back until a worker resumes the thread.
    ///
    /// # Safety
    /// The caller is the thread itself.
    #[inline]
    pub unsafe fn pause(&self, why: Pause) {
        // SAFETY: the thread runs, so it has begun and its yielder lives; only the thread reads
        // this field.
        let yielder = unsafe { &*(*self.inner.get()).yielder };
        let errno = sys::errno::last();
        yielder.suspend(why);
        sys::errno::set_last(errno);
    }

    /// The value that this thread has for a key.
    ///
    /// # Safety
    /// The caller is the thread itself, and uses the reference only until it next calls this.
    #[expect(clippy::mut_from_ref, reason = "the thread is alone with its values")]
    pub unsafe fn key(&self, index: usize) -> &mut Option<Box<dyn Any>> {
        // SAFETY: only the thread itself uses this field.
        let keys = unsafe { &mut (*self.inner.get()).keys };
        if keys.len() <= index {
            keys.resize_with(index + 1, || None);
        }
        &mut keys[index]
    }

    /// Drops the values of the thread's keys, on the thread's stack.
    ///
    /// # Safety
    /// The caller is the thread itself, and holds no reference to a value.
    pub unsafe fn end_values(&self) {
        loop {
            // SAFETY: only the thread itself uses this field.
            let values = unsafe { std::mem::take(&mut (*self.inner.get()).keys) };
            if values.is_empty() {
                return;
            }
            // Values that destructors create are dropped in the next round.
            drop(values);
        }
    }

    /// The address where the guard page below the thread's stack begins.
    ///
    /// # Safety
    /// The caller is the thread itself, perhaps in a signal handler.
    pub unsafe fn guard(&self) -> usize {
        // SAFETY: the thread runs, so no other code uses its fields.
        unsafe { (*self.inner.get()).guard }
    }

    /// The place where the thread is queued when it is ready, as the scheduler decided for it or
    /// for its bubble.
    #[inline]
    pub fn home(&self) -> u32 {
        match (self.home.load(Ordering::Relaxed), &self.bubble) {
            (ANYWHERE, Some(bubble)) => bubble.home(),
            (home, _) => home,
        }
    }
}

struct SendPointer(*mut ThreadInner);

// SAFETY: the pointer goes into the thread's own coroutine, which uses it as `resume` describes.
unsafe impl Send for SendPointer {}

/// An entry of a queue.
pub(crate) enum Ready {
    Thread(Arc<Thread>),
    /// A closure that gets a thread only when a worker takes it.
    Seed(Arc<dyn Body>),
}

impl Ready {
    /// A value that identifies the entry as long as it is in the queue.
    pub fn address(&self) -> usize {
        match self {
            Ready::Thread(thread) => Arc::as_ptr(thread).addr(),
            Ready::Seed(body) => Arc::as_ptr(body).cast::<()>().addr(),
        }
    }

    pub fn bubble(&self) -> Option<&Bubble> {
        match self {
            Ready::Thread(thread) => thread.bubble.as_ref(),
            Ready::Seed(_) => None,
        }
    }
}
