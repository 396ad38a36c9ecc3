//! The implementations behind the entry points, by chapter: each takes checked arguments, hands
//! over to `mpi` or `datatype`, and puts the results where the program wants them.

pub mod communicators;
pub mod conversions;
pub mod environment;
pub mod infos;
pub mod point_to_point;
pub mod requests;
pub mod statuses;
