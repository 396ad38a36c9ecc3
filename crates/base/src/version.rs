//! The version of Combray.

/// The version as `--version` shows it. `scripts/install.sh` sets the variable `RELEASED_COMBRAY`
/// when it compiles sources whose changelog has no unreleased changes; other builds say that they
/// are for development.
pub const VERSION: &str = match option_env!("RELEASED_COMBRAY") {
    Some(_) => env!("CARGO_PKG_VERSION"),
    None => concat!(env!("CARGO_PKG_VERSION"), " (development version, with later changes)"),
};
