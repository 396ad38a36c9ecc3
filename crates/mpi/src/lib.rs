//! What MPI means.
