//! The name of this command in its own texts: the one that the user typed.

use std::sync::OnceLock;

/// The name in the source of texts, and where no other one was typed.
const OWN_NAME: &str = "combray run";

static TYPED: OnceLock<&str> = OnceLock::new();

/// Sets the name that the user typed.
pub fn set(name: &'static str) {
    // A process runs one command.
    let _ = TYPED.set(name);
}

/// Returns the name that the user typed.
pub fn name() -> &'static str {
    TYPED.get().unwrap_or(&OWN_NAME)
}

/// Puts the name that the user typed into a text of this program. Words of the user, which may
/// contain our name, are added afterwards.
pub fn named(text: &str) -> String {
    text.replace(OWN_NAME, name())
}
