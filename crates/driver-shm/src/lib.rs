//! The driver between processes of one machine.
