//! Attributes: values that the program caches on objects (section 7.7 of the MPI standard).
//!
//! Copy and delete functions of the program may call the library again, even for the object at
//! hand. Nothing is borrowed while such a function runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::{Rc, Weak};

use base::{Error, ErrorClass, Result};

/// The value that the program stores: a word, usually an address.
pub type AttributeValue = usize;

/// The interface's handle of an object, which is passed to the copy and delete functions.
pub type ObjectName = u64;

/// A copy function: it gets the object, the number of the keyval and the value. It returns the
/// value of the copy, `None` if the attribute is not copied, or the program's error code.
pub type CopyFunction =
    Rc<dyn Fn(ObjectName, i32, AttributeValue) -> std::result::Result<Option<AttributeValue>, i32>>;

/// A delete function: it gets the object, the number of the keyval and the value. It may fail
/// with an error code.
pub type DeleteFunction =
    Rc<dyn Fn(ObjectName, i32, AttributeValue) -> std::result::Result<(), i32>>;

/// What happens to an attribute when its object is duplicated.
#[derive(Clone)]
pub enum CopyRule {
    /// The duplicate has no such attribute (`MPI_COMM_NULL_COPY_FN`).
    Leave,
    /// The duplicate gets a copy of the value (`MPI_COMM_DUP_FN`).
    Share,
    /// A function of the program decides.
    Ask(CopyFunction),
}

/// The kinds of objects that hold attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeKind {
    /// Communicators.
    Communicator,
    /// Datatypes.
    Datatype,
    /// Windows of one-sided communication.
    Window,
}

/// A key under which objects of one kind hold a value.
///
/// Freeing a keyval takes effect when the last attribute with it is deleted. Until then its
/// functions are called as before.
pub struct Keyval {
    number: i32,
    kind: AttributeKind,
    copy: CopyRule,
    delete: Option<DeleteFunction>,
    freed: Cell<bool>,
}

/// All keyvals of the process, by their numbers. Numbers are used once.
#[derive(Debug)]
pub struct Keyvals {
    state: RefCell<KeyvalState>,
}

#[derive(Debug)]
struct KeyvalState {
    next: i32,
    live: BTreeMap<i32, Rc<Keyval>>,
    /// Freed keyvals that attributes may still use; the program may get and delete these
    /// attributes.
    freed: BTreeMap<i32, Weak<Keyval>>,
}

/// The attributes of one object, in the order in which they were set.
#[derive(Debug, Default)]
pub struct Attributes {
    entries: RefCell<Vec<StoredAttribute>>,
}

#[derive(Clone, Debug)]
struct StoredAttribute {
    keyval: Rc<Keyval>,
    value: AttributeValue,
}

impl Keyval {
    /// The number of the keyval in the program.
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl fmt::Debug for Keyval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyval({}, {:?})", self.number, self.kind)
    }
}

impl Keyvals {
    /// Makes an empty set; the first keyval created gets the number `first`.
    pub fn starting_at(first: i32) -> Self {
        let state = KeyvalState { next: first, live: BTreeMap::new(), freed: BTreeMap::new() };
        Self { state: RefCell::new(state) }
    }

    /// Creates a keyval for objects of `kind`. Returns its number.
    ///
    /// # Errors
    /// `NoSpace` if all numbers have been used.
    pub fn create(
        &self,
        kind: AttributeKind,
        copy: CopyRule,
        delete: Option<DeleteFunction>,
    ) -> Result<i32> {
        let mut state = self.state.borrow_mut();
        let number = state.next;
        state.next = number
            .checked_add(1)
            .ok_or_else(|| Error::new(ErrorClass::NoSpace, "no more keyvals can be created"))?;
        let keyval = Keyval { number, kind, copy, delete, freed: Cell::new(false) };
        state.live.insert(number, Rc::new(keyval));
        Ok(number)
    }

    /// Returns the keyval with a number. A freed keyval is found as long as attributes use it.
    ///
    /// # Errors
    /// `Keyval` if there is none, or it is for another kind of objects.
    pub fn find(&self, kind: AttributeKind, number: i32) -> Result<Rc<Keyval>> {
        let state = self.state.borrow();
        let freed = || state.freed.get(&number).and_then(Weak::upgrade);
        let keyval = state.live.get(&number).cloned().or_else(freed).ok_or_else(|| {
            Error::new(ErrorClass::Keyval, format!("{number} is not a keyval, or was freed"))
        })?;
        if keyval.kind != kind {
            return Err(Error::new(
                ErrorClass::Keyval,
                format!(
                    "the keyval {number} was made for {}, not for {}",
                    keyval.kind.plural(),
                    kind.plural()
                ),
            ));
        }
        Ok(keyval)
    }

    /// Frees a keyval: no attribute can be set with it any more.
    ///
    /// # Errors
    /// `Keyval` if there is none, it was freed before, or it is for another kind of objects.
    pub fn free(&self, kind: AttributeKind, number: i32) -> Result<()> {
        let keyval = self.find(kind, number)?;
        if keyval.freed.replace(true) {
            return Err(freed(number));
        }
        let mut state = self.state.borrow_mut();
        state.live.remove(&number);
        state.freed.retain(|_, keyval| keyval.strong_count() > 0);
        if Rc::strong_count(&keyval) > 1 {
            state.freed.insert(number, Rc::downgrade(&keyval));
        }
        Ok(())
    }
}

impl Attributes {
    /// Returns the value stored under a keyval.
    pub fn value(&self, keyval: &Rc<Keyval>) -> Option<AttributeValue> {
        let entries = self.entries.borrow();
        entries.iter().find(|entry| Rc::ptr_eq(&entry.keyval, keyval)).map(|entry| entry.value)
    }

    /// Returns the value stored under the keyval with this number, if any.
    #[inline]
    pub fn value_of(&self, number: i32) -> Option<AttributeValue> {
        let entries = self.entries.borrow();
        entries.iter().find(|entry| entry.keyval.number == number).map(|entry| entry.value)
    }

    /// Stores a value. Before a value is replaced, the delete function is called for it.
    ///
    /// # Errors
    /// `Keyval` if the keyval was freed; the code of the delete function if it failed, and then
    /// the old value stays.
    pub fn set(
        &self,
        object: ObjectName,
        keyval: &Rc<Keyval>,
        value: AttributeValue,
    ) -> Result<()> {
        if keyval.freed.get() {
            return Err(freed(keyval.number));
        }
        if let Some(old) = self.value(keyval) {
            keyval.call_delete(object, old)?;
        }
        self.forget(keyval);
        self.entries.borrow_mut().push(StoredAttribute { keyval: Rc::clone(keyval), value });
        Ok(())
    }

    /// Deletes the value stored under a keyval, after calling its delete function.
    ///
    /// # Errors
    /// `Keyval` if there is no such attribute; the code of the delete function if it failed, and
    /// then the value stays.
    pub fn delete(&self, object: ObjectName, keyval: &Rc<Keyval>) -> Result<()> {
        let number = keyval.number;
        let value = self.value(keyval).ok_or_else(|| {
            let sentence = format!("the object has no attribute with the keyval {number}");
            Error::new(ErrorClass::Keyval, sentence)
        })?;
        keyval.call_delete(object, value)?;
        self.forget(keyval);
        Ok(())
    }

    /// Deletes all attributes, the last one set first.
    ///
    /// # Errors
    /// The code of the first delete function that fails; that attribute and those set before it
    /// stay.
    pub fn delete_all(&self, object: ObjectName) -> Result<()> {
        while let Some(last) = self.last() {
            last.keyval.call_delete(object, last.value)?;
            self.forget(&last.keyval);
        }
        Ok(())
    }

    /// Deletes all attributes of an object that is freed in any case, the last one set first:
    /// those of a datatype, and those of `MPI_COMM_SELF` in `MPI_Finalize` (section 11.4.3 of the
    /// standard).
    ///
    /// # Errors
    /// The code of the first delete function that fails; all are called, and no attribute stays.
    pub fn delete_all_despite_errors(&self, object: ObjectName) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(last) = self.last() {
            let deleted = last.keyval.call_delete(object, last.value);
            self.forget(&last.keyval);
            outcome = outcome.and(deleted);
        }
        outcome
    }

    /// Returns the attributes that a duplicate of `object` gets.
    ///
    /// # Errors
    /// The code of the first copy function that fails.
    pub fn copied(&self, object: ObjectName) -> Result<Attributes> {
        let snapshot = self.entries.borrow().clone();
        let copy = Attributes::default();
        for StoredAttribute { keyval, value } in snapshot {
            let value = match &keyval.copy {
                CopyRule::Leave => None,
                CopyRule::Share => Some(value),
                CopyRule::Ask(function) => function(object, keyval.number, value)
                    .map_err(|code| keyval.callback_failed("copy", code))?,
            };
            if let Some(value) = value {
                copy.entries.borrow_mut().push(StoredAttribute { keyval, value });
            }
        }
        Ok(copy)
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    fn last(&self) -> Option<StoredAttribute> {
        self.entries.borrow().last().cloned()
    }

    fn forget(&self, keyval: &Rc<Keyval>) {
        self.entries.borrow_mut().retain(|entry| !Rc::ptr_eq(&entry.keyval, keyval));
    }
}

impl Keyval {
    fn call_delete(&self, object: ObjectName, value: AttributeValue) -> Result<()> {
        match &self.delete {
            None => Ok(()),
            Some(function) => function(object, self.number, value)
                .map_err(|code| self.callback_failed("delete", code)),
        }
    }

    fn callback_failed(&self, which: &str, code: i32) -> Error {
        let number = self.number;
        Error::new(
            ErrorClass::Added(code),
            format!("the {which} function of the keyval {number} returned the error code {code}"),
        )
    }
}

impl AttributeKind {
    fn plural(self) -> &'static str {
        match self {
            AttributeKind::Communicator => "communicators",
            AttributeKind::Datatype => "datatypes",
            AttributeKind::Window => "windows",
        }
    }
}

fn freed(number: i32) -> Error {
    Error::new(ErrorClass::Keyval, format!("the keyval {number} was freed"))
}

#[cfg(test)]
mod tests;
