//! A thread, what it runs, and what stands in queues.

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::bubble::Bubble;
use crate::cancel::Cancellation;
use crate::fiber::Fiber;
use crate::home::ANYWHERE;
use crate::label::Label;
use crate::stack::GuardedStack;
use crate::token::Token;
use crate::usage::UsedMemory;

/// Why a thread gives its worker back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Others shall run; it is ready.
    Yield,
    /// It waits for a token.
    Park,
}

/// What a thread runs.
pub(crate) trait Body: Send + Sync {
    /// Runs it, if nobody has begun to.
    fn run(&self);
    /// Whether somebody has begun to.
    fn is_claimed(&self) -> bool;
}

/// One thread.
pub(crate) struct Thread {
    pub name: Option<Box<str>>,
    pub label: Label,
    pub bubble: Option<Bubble>,
    pub token: Token,
    pub cancellation: Cancellation,
    /// The vertex where it stands when it is ready, or [`ANYWHERE`]: with the worker that made it
    /// so.
    pub home: AtomicU32,
    pub memory: UsedMemory,
    /// Whether it has waited for messages.
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

// SAFETY: `inner` is used only by the worker that runs the thread and by the thread itself on that
// worker; a thread passes from one worker to the next through a queue or its token, both of which
// order what the one did before what the other does. What lies on its stack goes along: bodies are
// `Send`, and what they make of types that are not stays on the one stack, as with kernel threads;
// that a type looks at thread-local storage is told in the documentation.
unsafe impl Send for Thread {}
// SAFETY: as above; the other fields are Sync.
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

    /// Runs the thread until it pauses or ends; `stack` gives one if it has none yet. Returns why
    /// it paused, or the stack of one that has ended.
    ///
    /// # Safety
    /// - The caller took the thread out of a queue, or has its wakening from the token, and nobody
    ///   else has it.
    /// - It is not on the stack of a thread itself.
    #[inline]
    pub unsafe fn resume(
        &self,
        stack: impl FnOnce() -> GuardedStack,
    ) -> Result<Pause, GuardedStack> {
        let inner = self.inner.get();
        // SAFETY: the caller has the thread for itself; while it runs, the thread's own functions
        // use other fields of `inner` than the coroutine, and no reference to the whole is held.
        let coroutine = unsafe { &mut (*inner).coroutine };
        let (fiber, coroutine) = coroutine.get_or_insert_with(|| {
            // SAFETY: as above.
            let body = unsafe { (*inner).body.take() }.expect("a thread begins once");
            let stack = stack();
            // SAFETY: as above.
            unsafe { (*inner).guard = stack.bounds().0 };
            let inner = SendPointer(inner);
            let body = move |yielder: &Yielder<(), Pause>, ()| {
                let inner = inner;
                // SAFETY: this runs inside `resume`, so the thread is there, and nobody else uses
                // it.
                unsafe { (*inner.0).yielder = yielder };
                body.run();
            };
            (Fiber::new(), Coroutine::with_stack(stack, body))
        });
        match fiber.run(|| coroutine.resume(())) {
            CoroutineResult::Yield(pause) => Ok(pause),
            CoroutineResult::Return(()) => {
                // SAFETY: as above; it has ended.
                let ended = unsafe { (*inner).coroutine.take() };
                Err(ended.expect("it just ran").1.into_stack())
            }
        }
    }

    /// Gives the worker back until somebody resumes the thread.
    ///
    /// # Safety
    /// The caller is the thread itself.
    #[inline]
    pub unsafe fn pause(&self, why: Pause) {
        // SAFETY: the thread runs, so it has begun and its yielder lives; only it reads this field.
        let yielder = unsafe { &*(*self.inner.get()).yielder };
        let errno = sys::errno::last();
        yielder.suspend(why);
        sys::errno::set_last(errno);
    }

    /// The value of a key.
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

    /// Ends the values of its keys, on its stack.
    ///
    /// # Safety
    /// The caller is the thread itself, and uses none of them.
    pub unsafe fn end_values(&self) {
        loop {
            // SAFETY: only the thread itself uses this field.
            let values = unsafe { std::mem::take(&mut (*self.inner.get()).keys) };
            if values.is_empty() {
                return;
            }
            // What is made meanwhile ends as well.
            drop(values);
        }
    }

    /// Where the guard below its stack begins.
    ///
    /// # Safety
    /// The caller is the thread itself, perhaps in a signal handler.
    pub unsafe fn guard(&self) -> usize {
        // SAFETY: the thread runs, so nobody else uses its fields.
        unsafe { (*self.inner.get()).guard }
    }

    /// Where it stands when it is ready: as the scheduler has said of it, or of its bubble.
    #[inline]
    pub fn home(&self) -> u32 {
        match (self.home.load(Ordering::Relaxed), &self.bubble) {
            (ANYWHERE, Some(bubble)) => bubble.home(),
            (home, _) => home,
        }
    }
}

struct SendPointer(*mut ThreadInner);

// SAFETY: the pointer goes into the thread's own coroutine, which uses it as `resume` says.
unsafe impl Send for SendPointer {}

/// What stands in a queue.
pub(crate) enum Ready {
    Thread(Arc<Thread>),
    /// A closure that gets a thread only when a worker comes to it.
    Seed(Arc<dyn Body>),
}

impl Ready {
    /// What tells it from others as long as it stands there.
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
