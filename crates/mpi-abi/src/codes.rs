//! Error codes: the class is in the low bits, and the number of the message in the upper ones.
//!
//! There are three kinds of codes, which their values distinguish:
//! - a class of the standard, with as many bits as the dialect defines;
//! - a class or code that the program added, above `MPI_ERR_LASTCODE`;
//! - a mark bit, a sequence number of 16 bits that counts the errors of the process, and a class.
//!   The messages of the last errors are kept, so that `MPI_Error_string` can return exactly what
//!   was wrong.

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

use base::ErrorClass;

use crate::dialect::{CLASS_BITS, SEQUENCE_BITS};
use crate::generated::classes::code_of_class;

/// The number of messages that are kept.
const MESSAGES_MAX: usize = 256;

const DETAILED_SHIFT: u32 = CLASS_BITS + SEQUENCE_BITS;
const DETAILED: c_int = 1 << DETAILED_SHIFT;
const CLASS_MASK: c_int = (1 << CLASS_BITS) - 1;

/// The messages of the last errors.
#[derive(Debug, Default)]
pub struct Messages {
    state: RefCell<CodeState>,
}

#[derive(Debug, Default)]
struct CodeState {
    sequence: u16,
    /// Codes and messages, at the positions that the codes' sequence numbers determine.
    kept: Vec<Option<(c_int, Rc<str>)>>,
}

impl Messages {
    /// Stores a message, and returns the code that identifies it.
    pub fn keep(&self, class: ErrorClass, message: &str) -> c_int {
        if let ErrorClass::Added(code) = class {
            return code;
        }
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let sequence = state.sequence;
        state.sequence = sequence.wrapping_add(1);
        state.kept.resize(MESSAGES_MAX, None);
        let code = DETAILED | c_int::from(sequence) << CLASS_BITS | code_of_class(class);
        state.kept[position(code)] = Some((code, message.into()));
        code
    }

    /// Returns the message of a code, unless too many others were stored after it.
    pub fn message(&self, code: c_int) -> Option<Rc<str>> {
        if !is_detailed(code) {
            return None;
        }
        let state = self.state.borrow();
        let kept = state.kept.get(position(code))?.as_ref();
        kept.filter(|(of, _)| *of == code).map(|(_, message)| Rc::clone(message))
    }
}

/// Returns the class of a code that the program has not added.
pub fn class_of(code: c_int) -> c_int {
    if is_detailed(code) { code & CLASS_MASK } else { code }
}

fn is_detailed(code: c_int) -> bool {
    code >> DETAILED_SHIFT == 1
}

fn position(code: c_int) -> usize {
    (code >> CLASS_BITS) as usize % MESSAGES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::classes::{class_of_code, text_of_class};
    use crate::generated::constants::MPI_ERR_LASTCODE;

    /// The first code that the program adds.
    const ADDED: c_int = MPI_ERR_LASTCODE + 1;

    #[test]
    fn every_class_survives_the_way_to_a_code_and_back() {
        let messages = Messages::default();
        for &class in ErrorClass::ALL {
            let number = code_of_class(class);
            assert_eq!(class_of_code(number), Some(class));
            assert!(text_of_class(number).unwrap().starts_with(class.name()));
            assert_eq!(class_of(number), number);
            let code = messages.keep(class, class.name());
            assert!(code > CLASS_MASK);
            assert_eq!(class_of(code), number);
            assert_eq!(messages.message(code).as_deref(), Some(class.name()));
        }
        assert_eq!(messages.keep(ErrorClass::Added(ADDED), "x"), ADDED);
        assert_eq!(class_of(ADDED), ADDED);
    }

    #[test]
    fn only_the_last_messages_are_kept() {
        let messages = Messages::default();
        let first = messages.keep(ErrorClass::Rank, "first");
        for _ in 0..MESSAGES_MAX - 1 {
            messages.keep(ErrorClass::Tag, "later");
        }
        assert_eq!(messages.message(first).as_deref(), Some("first"));
        let last = messages.keep(ErrorClass::Rank, "last");
        assert_eq!(messages.message(first), None);
        assert_eq!(messages.message(last).as_deref(), Some("last"));
        for _ in 0..1 << SEQUENCE_BITS {
            assert!(messages.keep(ErrorClass::Count, "many") > 0);
        }
    }
}
