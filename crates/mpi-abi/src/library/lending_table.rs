//! The table of communicators, which are lent to calls without being counted.
//!
//! Why: docs/internals/decisions/0084-communicators-are-lent-for-a-visit.md

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::c_int;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr;
use std::rc::Rc;

use progress::entry_lock::ProgramInside;

use crate::c::Handle;
use crate::handles::Table;

/// An object that a call uses until `'c`. Counting such references takes longer than most of the
/// uses, so an object that exists longer than the call is not counted.
pub struct Lent<'c, T> {
    /// A reference that is not counted unless `is_counted` is set.
    object: ManuallyDrop<Rc<T>>,
    is_counted: bool,
    call: PhantomData<&'c Rc<T>>,
}

impl<'c, T> Lent<'c, T> {
    /// Creates a reference to an object that exists at least as long as the call.
    #[inline(always)]
    pub fn lasting(object: &'c Rc<T>) -> Self {
        // SAFETY: the original is borrowed as long as the result exists.
        unsafe { Self::uncounted(object) }
    }

    /// Creates an uncounted reference to an object that its owner keeps.
    ///
    /// # Safety
    /// The object, though not this reference to it, outlives `'c`.
    #[inline(always)]
    unsafe fn uncounted(object: &Rc<T>) -> Self {
        // SAFETY: the copy is never dropped, as it is not counted. The caller guarantees that the
        // object exists as long as it is used.
        let copy = unsafe { ptr::read(object) };
        Self { object: ManuallyDrop::new(copy), is_counted: false, call: PhantomData }
    }

    /// Creates a counted reference, which keeps the object.
    #[inline(always)]
    pub fn counted(object: Rc<T>) -> Self {
        Self { object: ManuallyDrop::new(object), is_counted: true, call: PhantomData }
    }
}

impl<T> Drop for Lent<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_counted {
            // SAFETY: the reference was counted, and is not used any more.
            unsafe { ManuallyDrop::drop(&mut self.object) };
        }
    }
}

impl<T> Clone for Lent<'_, T> {
    fn clone(&self) -> Self {
        Self::counted(Rc::clone(self))
    }
}

impl<T> Deref for Lent<'_, T> {
    type Target = Rc<T>;

    #[inline(always)]
    fn deref(&self) -> &Rc<T> {
        &self.object
    }
}

impl<T: fmt::Debug> fmt::Debug for Lent<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object.fmt(f)
    }
}

/// A part of a visit of the program to the library, in which objects are lent.
#[derive(Debug)]
pub struct LendingScope<'v>(PhantomData<&'v ProgramInside<'v>>);

impl<'v> LendingScope<'v> {
    /// Creates the scope of a visit.
    ///
    /// # Safety
    /// The visit is one to the library that has the table, and visits end in the reverse order of
    /// their beginnings.
    #[inline(always)]
    pub unsafe fn of(_visit: &'v ProgramInside<'_>) -> Self {
        Self(PhantomData)
    }
}

/// An outermost visit of the program to the library, which has just begun: no scope of an earlier
/// visit exists, and none of this one.
#[derive(Debug)]
pub struct OutermostVisit<'a>(PhantomData<&'a mut ()>);

impl<'a> OutermostVisit<'a> {
    /// Returns the visit if it is outermost.
    ///
    /// # Safety
    /// The visit is one to the library that has the table.
    #[inline(always)]
    pub unsafe fn of(visit: &'a mut ProgramInside<'_>) -> Option<Self> {
        visit.is_outermost().then_some(Self(PhantomData))
    }
}

/// The number of objects that are found without a lookup in their table.
const RECENT: usize = 8;

/// Objects by handle. Below the level at which several threads make calls, an object that was used
/// recently is lent without a lookup in the table and without counting. If a function of the
/// program that a call runs frees the object, it is kept until no call is in progress.
pub struct LendingTable<H, T> {
    table: Table<H, Rc<T>>,
    /// The objects that were used most recently, by the last bits of their handles. Each of them is
    /// in the table, too, or exists as long as the program.
    recent: [RecentObject<T>; RECENT],
    /// Removed objects that calls may still use.
    removed: RefCell<Vec<Rc<T>>>,
    /// Whether objects are lent.
    lends: Cell<bool>,
}

struct RecentObject<T> {
    /// The value of the object's handle; 0 if there is no object.
    handle: Cell<usize>,
    object: UnsafeCell<Option<Rc<T>>>,
}

impl<T> Default for RecentObject<T> {
    fn default() -> Self {
        Self { handle: Cell::new(0), object: UnsafeCell::new(None) }
    }
}

impl<T> RecentObject<T> {
    /// Replaces the entry, and drops its previous reference.
    fn replace(&self, handle: usize, object: Option<Rc<T>>) {
        self.handle.set(handle);
        // SAFETY: `lend` and `with_object` borrow the object only while they copy a reference or
        // read it, so there is no borrow now. The previous reference is dropped afterwards, when it
        // is out of its place.
        let former = unsafe { ptr::replace(self.object.get(), object) };
        drop(former);
    }
}

impl<H: Handle, T> Default for LendingTable<H, T> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            recent: Default::default(),
            removed: RefCell::default(),
            lends: Cell::new(true),
        }
    }
}

impl<H: Handle, T> LendingTable<H, T> {
    #[inline(always)]
    fn place(&self, handle: H) -> &RecentObject<T> {
        &self.recent[handle.raw() % RECENT]
    }

    /// Returns the object with this handle, if it was used recently.
    #[inline(always)]
    pub fn lend<'c>(&'c self, handle: H, _scope: &'c LendingScope<'_>) -> Option<Lent<'c, T>> {
        let place = self.place(handle);
        if place.handle.get() != handle.raw() {
            return None;
        }
        // SAFETY: the entry changes only in `replace`, which is not called here.
        let found = unsafe { &*place.object.get() }.as_ref()?;
        // SAFETY: the object is in the table while it has an entry here, unless it exists as long
        // as the program. What leaves the table is in `removed` until an outermost visit begins.
        // Visits end in the reverse order of their beginnings, so that of the scope, and with it
        // `'c`, has ended then.
        Some(unsafe { Lent::uncounted(found) })
    }

    /// Returns what `inspect` returns for the object with this handle, if it was used recently. The
    /// caller need not be in a visit, so `inspect` must read what is constant for the life of the
    /// object.
    ///
    /// # Safety
    /// `inspect` does not use the table.
    #[inline(always)]
    pub unsafe fn with_object<R>(&self, handle: H, inspect: fn(&T) -> R) -> Option<R> {
        let place = self.place(handle);
        if place.handle.get() != handle.raw() {
            return None;
        }
        // SAFETY: the entry changes only in `replace`, which `inspect` does not call.
        let found = unsafe { &*place.object.get() };
        found.as_deref().map(inspect)
    }

    /// Returns the handle as an integer that Fortran can hold.
    pub fn to_int(&self, handle: H) -> c_int {
        self.table.to_int(handle)
    }

    /// Returns the handle that [`to_int`](Self::to_int) converted to `integer`.
    pub fn of_int(&self, integer: c_int) -> H {
        self.table.of_int(integer)
    }

    /// Adds an object, and returns its handle.
    pub fn insert(&self, object: Rc<T>) -> H {
        self.table.insert(object)
    }

    /// Returns the object with this handle; `None` if the handle names none.
    pub fn get(&self, handle: H) -> Option<Rc<T>> {
        self.table.get(handle)
    }

    /// Like [`get`](Self::get), for an object that may be lent from now on if `is_ready` returns
    /// true.
    pub fn get_to_lend(&self, handle: H, is_ready: fn(&T) -> bool) -> Option<Rc<T>> {
        let found = self.table.get(handle)?;
        if self.lends.get() && is_ready(&found) {
            self.place(handle).replace(handle.raw(), Some(Rc::clone(&found)));
        }
        Some(found)
    }

    /// Lends an object that is not in the table from now on, if `is_ready` returns true.
    pub fn lend_lasting(&self, handle: H, object: &'static Rc<T>, is_ready: fn(&T) -> bool) {
        if self.lends.get() && is_ready(object) {
            self.place(handle).replace(handle.raw(), Some(Rc::clone(object)));
        }
    }

    /// Lends the object with this handle only after the next lookup.
    pub fn lend_no_more(&self, handle: H) {
        if self.place(handle).handle.get() == handle.raw() {
            self.place(handle).replace(0, None);
        }
    }

    /// Shows all objects, with their handles.
    pub fn each(&self, mut show: impl FnMut(H, &T)) {
        self.table.each(|handle, object| show(handle, object));
    }

    /// Puts another object in the place of the one with this handle.
    pub fn replace(&self, handle: H, object: Rc<T>) {
        let former = self.table.with(handle, |place| std::mem::replace(place, object));
        former.into_iter().for_each(|former| self.keep(handle, former));
    }

    /// Removes an object; calls in progress may still use it. `None` if the handle names none.
    pub fn remove(&self, handle: H) -> Option<()> {
        let removed = self.table.forget(handle)?;
        self.keep(handle, removed);
        Some(())
    }

    /// Keeps an object that has left the table, if calls may use it, and lends it no more.
    fn keep(&self, handle: H, object: Rc<T>) {
        self.lend_no_more(handle);
        if self.lends.get() {
            self.removed.borrow_mut().push(object);
        }
    }

    /// Drops the removed objects, as no call uses them at the beginning of an outermost visit.
    pub fn drop_removed(&self, _visit: OutermostVisit<'_>) {
        if self.lends.get() {
            let removed = self.removed.take();
            drop(removed);
        }
    }

    /// Lends no more objects. Calls in progress may use those that the table has now, which are
    /// therefore kept as long as the table.
    pub fn stop_lending(&self) {
        if !self.lends.replace(false) {
            return;
        }
        let mut kept = self.removed.borrow_mut();
        self.table.each(|_, object| kept.push(Rc::clone(object)));
        self.recent.iter().for_each(|place| place.replace(0, None));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use progress::entry_lock::{EntryLock, Threads};

    use super::*;
    use crate::c::Comm;

    /// Threads without a helper, which the program never waits for.
    struct Alone;

    impl Threads for Alone {
        fn pass_barrier(&self) {}
        fn sleep(&self, _: &AtomicU32, _: u32) {}
        fn wake(&self, _: &AtomicU32) {}
        fn wake_one(&self, _: &AtomicU32) {}
        fn pass_core(&self) {}
    }

    type Texts = LendingTable<Comm, String>;

    /// Runs a call in a visit, as `entry` does.
    fn call<R>(
        texts: &Texts,
        entry_lock: &EntryLock,
        body: impl FnOnce(&LendingScope<'_>) -> R,
    ) -> R {
        let mut visit = entry_lock.enter(&Alone);
        // SAFETY: the entry lock is that of the table.
        if let Some(outermost) = unsafe { OutermostVisit::of(&mut visit) } {
            texts.drop_removed(outermost);
        }
        // SAFETY: the visit ends with this call.
        let scope = unsafe { LendingScope::of(&visit) };
        body(&scope)
    }

    fn used(texts: &Texts, text: &str) -> Comm {
        let handle = texts.insert(Rc::new(text.to_owned()));
        assert!(texts.get_to_lend(handle, |_| true).is_some());
        handle
    }

    #[test]
    fn an_object_that_an_inner_call_frees_exists_until_the_outer_call_ends() {
        let (texts, entry_lock) = (Texts::default(), EntryLock::default());
        let handle = used(&texts, "outer");
        let object = Rc::downgrade(&texts.get(handle).unwrap());
        call(&texts, &entry_lock, |scope| {
            let lent = texts.lend(handle, scope).unwrap();
            call(&texts, &entry_lock, |_| texts.remove(handle).unwrap());
            call(&texts, &entry_lock, |scope| assert!(texts.lend(handle, scope).is_none()));
            assert_eq!(**lent, "outer");
        });
        assert!(object.upgrade().is_some());
        call(&texts, &entry_lock, |_| ());
        assert!(object.upgrade().is_none());
    }

    #[test]
    fn a_lent_object_outlives_its_entry_among_the_recent_ones() {
        let (texts, entry_lock) = (Texts::default(), EntryLock::default());
        let first = used(&texts, "first");
        call(&texts, &entry_lock, |scope| {
            let lent = texts.lend(first, scope).unwrap();
            (0..2 * RECENT).for_each(|number| {
                used(&texts, &number.to_string());
            });
            assert!(texts.lend(first, scope).is_none());
            texts.replace(first, Rc::new("second".to_owned()));
            assert_eq!(**lent, "first");
            assert_eq!(*texts.get(first).unwrap(), "second");
        });
    }

    #[test]
    fn a_lasting_object_is_lent_although_it_is_not_in_the_table() {
        let (texts, entry_lock) = (Texts::default(), EntryLock::default());
        let place = Box::into_raw(Box::new(Rc::new("lasting".to_owned())));
        // SAFETY: it is freed at the end of the test, after its last use.
        let lasting: &'static Rc<String> = unsafe { &*place };
        let handle = texts.insert(Rc::clone(lasting));
        texts.remove(handle).unwrap();
        texts.lend_lasting(handle, lasting, |_| false);
        call(&texts, &entry_lock, |scope| assert!(texts.lend(handle, scope).is_none()));
        texts.lend_lasting(handle, lasting, |_| true);
        call(&texts, &entry_lock, |scope| {
            let lent = texts.lend(handle, scope).unwrap();
            texts.lend_no_more(handle);
            assert!(texts.lend(handle, scope).is_none());
            assert_eq!(**lent, "lasting");
        });
        // SAFETY: nothing refers to it any more.
        drop(unsafe { Box::from_raw(place) });
    }

    #[test]
    fn a_counted_copy_outlives_the_call() {
        let (texts, entry_lock) = (Texts::default(), EntryLock::default());
        let handle = used(&texts, "kept");
        let kept =
            call(&texts, &entry_lock, |scope| Rc::clone(&texts.lend(handle, scope).unwrap()));
        texts.remove(handle).unwrap();
        call(&texts, &entry_lock, |_| ());
        assert_eq!(*kept, "kept");
    }

    #[test]
    fn objects_that_were_lent_exist_on_when_lending_stops() {
        let (texts, entry_lock) = (Texts::default(), EntryLock::default());
        let handle = used(&texts, "lasting");
        call(&texts, &entry_lock, |scope| {
            let lent = texts.lend(handle, scope).unwrap();
            texts.stop_lending();
            texts.remove(handle).unwrap();
            assert_eq!(**lent, "lasting");
            let later = used(&texts, "later");
            assert!(texts.lend(later, scope).is_none());
        });
    }
}
