//! Error handlers, and the error classes, codes and strings that the program adds
//! (chapter 9 of the MPI standard).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use base::{Error, ErrorClass, Result};

/// What happens when an operation on a communicator, window, file or session fails.
///
/// Shared: an object keeps its handler even after the program has freed the handler.
#[derive(Clone)]
pub enum ErrorHandler {
    /// Ends all processes of the job (`MPI_ERRORS_ARE_FATAL`).
    Fatal,
    /// Ends the processes of the object only (`MPI_ERRORS_ABORT`).
    Abort,
    /// Returns the error code to the caller (`MPI_ERRORS_RETURN`).
    Return,
    /// Calls a function of the program.
    User {
        /// The kind of object that the function can be attached to.
        kind: HandlerKind,
        /// The function; it may call the library again.
        function: HandlerFunction,
    },
}

/// The current error handler of an object, which the program can change.
#[derive(Debug)]
pub struct InstalledHandler(RefCell<Rc<ErrorHandler>>);

impl InstalledHandler {
    /// Installs `handler` as the first error handler.
    pub fn new(handler: Rc<ErrorHandler>) -> Self {
        Self(RefCell::new(handler))
    }

    /// The current error handler.
    pub fn get(&self) -> Rc<ErrorHandler> {
        Rc::clone(&self.0.borrow())
    }

    /// Replaces the error handler.
    pub fn set(&self, handler: Rc<ErrorHandler>) {
        // The old handler is dropped after the borrow has ended, because its closure belongs to
        // the program.
        let old = self.0.replace(handler);
        drop(old);
    }
}

/// A function of the program that handles errors. It gets the interface's handle of the object
/// and the error code, and returns the code that the failed call returns.
pub type HandlerFunction = Rc<dyn Fn(u64, i32) -> i32>;

/// The kinds of objects that have error handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerKind {
    /// Communicators.
    Communicator,
    /// Windows of one-sided communication.
    Window,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// The error classes, codes and strings that the program added to those of the standard (section
/// 9.5). Numbers are assigned in increasing order and never used again.
#[derive(Debug)]
pub struct AddedErrors {
    first: i32,
    state: RefCell<HandlerState>,
}

#[derive(Debug)]
struct HandlerState {
    last_used: i32,
    codes: HashMap<i32, Added>,
}

#[derive(Debug)]
struct Added {
    /// The class of a code; of a class, its own number.
    class: i32,
    text: Option<Rc<[u8]>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AddedKind {
    Class,
    Code,
}

impl Added {
    /// Whether the entry with this number is a class or a code.
    fn kind(&self, code: i32) -> AddedKind {
        if self.class == code { AddedKind::Class } else { AddedKind::Code }
    }
}

impl ErrorHandler {
    /// Checks that the handler can be attached to an object of this kind.
    ///
    /// # Errors
    /// `Arg` if it is a function made for another kind.
    pub fn check_kind(&self, wanted: HandlerKind) -> Result<()> {
        match self {
            ErrorHandler::User { kind, .. } if *kind != wanted => Err(Error::new(
                ErrorClass::Arg,
                format!(
                    "the error handler was made for {}, not for {}",
                    kind.plural(),
                    wanted.plural()
                ),
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for ErrorHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorHandler::Fatal => f.write_str("Fatal"),
            ErrorHandler::Abort => f.write_str("Abort"),
            ErrorHandler::Return => f.write_str("Return"),
            ErrorHandler::User { kind, .. } => write!(f, "User({kind:?})"),
        }
    }
}

impl HandlerKind {
    fn plural(self) -> &'static str {
        match self {
            HandlerKind::Communicator => "communicators",
            HandlerKind::Window => "windows",
            HandlerKind::File => "files",
            HandlerKind::Session => "sessions",
        }
    }
}

impl AddedErrors {
    /// Makes an empty set; `last_of_standard` is the value of `MPI_ERR_LASTCODE`.
    pub fn after(last_of_standard: i32) -> Self {
        let state = HandlerState { last_used: last_of_standard, codes: HashMap::new() };
        Self { first: last_of_standard + 1, state: RefCell::new(state) }
    }

    /// The highest number in use so far (`MPI_LASTUSEDCODE`).
    pub fn last_used(&self) -> i32 {
        self.state.borrow().last_used
    }

    /// Adds an error class. Returns its number.
    ///
    /// # Errors
    /// `NoSpace` if all numbers have been used.
    pub fn add_class(&self) -> Result<i32> {
        self.add(None)
    }

    /// Adds an error code of `class`, which may be one of the standard or an added one. Returns
    /// its number.
    ///
    /// # Errors
    /// `Arg` if there is no such class; `NoSpace` if all numbers have been used.
    pub fn add_code(&self, class: i32) -> Result<i32> {
        if class >= self.first && self.class_of(class) != Some(class) {
            let sentence = format!("{class} is not an error class");
            return Err(Error::new(ErrorClass::Arg, sentence));
        }
        self.add(Some(class))
    }

    /// Sets the text of an added class or code, and replaces the text that it may have.
    ///
    /// # Errors
    /// `Arg` if the program has added no such class or code.
    pub fn add_string(&self, code: i32, text: &[u8]) -> Result<()> {
        self.change(code, |added| {
            added.text = Some(text.into());
            Ok(())
        })
    }

    /// Removes an added class.
    ///
    /// # Errors
    /// `Arg` if there is no such class, or while it has a text or codes.
    pub fn remove_class(&self, class: i32) -> Result<()> {
        self.remove(class, AddedKind::Class)
    }

    /// Removes an added code.
    ///
    /// # Errors
    /// `Arg` if there is no such code, or while it has a text.
    pub fn remove_code(&self, code: i32) -> Result<()> {
        self.remove(code, AddedKind::Code)
    }

    /// Removes the text of an added class or code.
    ///
    /// # Errors
    /// `Arg` if there is no such class or code, or it has no text.
    pub fn remove_string(&self, code: i32) -> Result<()> {
        self.change(code, |added| match added.text.take() {
            Some(_) => Ok(()),
            None => Err(wrong_code(code, "has no text to remove")),
        })
    }

    /// Returns the class of an added code, or the class itself; `None` for other numbers.
    pub fn class_of(&self, code: i32) -> Option<i32> {
        self.state.borrow().codes.get(&code).map(|added| added.class)
    }

    /// Returns the text of an added class or code, empty if it has none yet; `None` for other
    /// numbers.
    pub fn text_of(&self, code: i32) -> Option<Rc<[u8]>> {
        let state = self.state.borrow();
        state.codes.get(&code).map(|added| added.text.clone().unwrap_or_default())
    }

    fn add(&self, class: Option<i32>) -> Result<i32> {
        let mut state = self.state.borrow_mut();
        let code = state.last_used.checked_add(1).ok_or_else(|| {
            Error::new(ErrorClass::NoSpace, "no more error classes and codes can be added")
        })?;
        state.last_used = code;
        state.codes.insert(code, Added { class: class.unwrap_or(code), text: None });
        Ok(code)
    }

    fn remove(&self, code: i32, kind: AddedKind) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let what = match kind {
            AddedKind::Class => "error class",
            AddedKind::Code => "error code",
        };
        let found = state.codes.get(&code).filter(|added| added.kind(code) == kind);
        let Some(added) = found else {
            return Err(wrong_code(code, &format!("is not an {what} added by the program")));
        };
        if added.text.is_some() {
            return Err(wrong_code(code, "still has a text; remove that first"));
        }
        if kind == AddedKind::Class
            && state.codes.iter().any(|(other, added)| added.class == code && *other != code)
        {
            return Err(wrong_code(code, "still has error codes; remove these first"));
        }
        state.codes.remove(&code);
        Ok(())
    }

    fn change(&self, code: i32, act: impl FnOnce(&mut Added) -> Result<()>) -> Result<()> {
        match self.state.borrow_mut().codes.get_mut(&code) {
            Some(added) => act(added),
            None => Err(wrong_code(code, "is not an error class or code added by the program")),
        }
    }
}

fn wrong_code(code: i32, why: &str) -> Error {
    Error::new(ErrorClass::Arg, format!("{code} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_codes_share_one_sequence_of_numbers() {
        let errors = AddedErrors::after(100);
        assert_eq!(errors.last_used(), 100);
        let class = errors.add_class().unwrap();
        let code = errors.add_code(class).unwrap();
        let standard = errors.add_code(16).unwrap();
        assert_eq!((class, code, standard, errors.last_used()), (101, 102, 103, 103));
        assert_eq!(errors.class_of(class), Some(class));
        assert_eq!(errors.class_of(code), Some(class));
        assert_eq!(errors.class_of(standard), Some(16));
        assert_eq!(errors.class_of(16), None);
        assert_eq!(errors.add_code(code).unwrap_err().class, ErrorClass::Arg);
        assert_eq!(errors.add_code(999).unwrap_err().class, ErrorClass::Arg);
    }

    #[test]
    fn what_is_in_use_cannot_be_removed() {
        let errors = AddedErrors::after(100);
        let class = errors.add_class().unwrap();
        let code = errors.add_code(class).unwrap();
        assert_eq!(errors.text_of(code).as_deref(), Some(&b""[..]));
        errors.add_string(code, b"the pump is dry").unwrap();
        assert_eq!(errors.text_of(code).as_deref(), Some(&b"the pump is dry"[..]));
        assert!(errors.remove_class(class).is_err(), "a code refers to it");
        assert!(errors.remove_class(code).is_err(), "it is a code");
        assert!(errors.remove_code(class).is_err(), "it is a class");
        assert!(errors.remove_code(code).is_err(), "it has a text");
        errors.remove_string(code).unwrap();
        assert!(errors.remove_string(code).is_err());
        errors.remove_code(code).unwrap();
        assert!(errors.remove_code(code).is_err());
        errors.remove_class(class).unwrap();
        assert!(errors.remove_class(0).is_err() && errors.add_string(0, b"").is_err());
        assert_eq!(errors.add_class(), Ok(103), "numbers are not used again");
    }

    #[test]
    fn a_function_serves_one_kind_of_object() {
        let kind = HandlerKind::Window;
        let handler = ErrorHandler::User { kind, function: Rc::new(|_, code| code) };
        assert!(handler.check_kind(HandlerKind::Window).is_ok());
        let error = handler.check_kind(HandlerKind::Communicator).unwrap_err();
        assert!(error.detail.contains("windows") && error.detail.contains("communicators"));
        assert!(ErrorHandler::Return.check_kind(HandlerKind::File).is_ok());
    }
}
