//! The exported functions as the library knows them.

use crate::call_sites::RecentPlaces;

/// A function of the C interface.
#[derive(Debug)]
pub struct EntryPoint {
    /// The name, such as `MPI_Send`.
    pub name: &'static str,
    /// The names of the parameters.
    pub parameters: &'static [&'static str],
    /// The call sites from which the program called it last, for profiles.
    pub recent: RecentPlaces,
}
