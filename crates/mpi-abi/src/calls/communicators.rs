//! Communicators (chapter 7 of the standard).

use std::ffi::c_int;

use crate::arguments::{KnownCommunicator, Out};
use crate::entry::Call;
use crate::failure::Outcome;

pub fn comm_rank(_call: &Call, comm: KnownCommunicator, rank: Out<c_int>) -> Outcome<()> {
    rank.set(comm.rank() as c_int);
    Ok(())
}

pub fn comm_size(_call: &Call, comm: KnownCommunicator, size: Out<c_int>) -> Outcome<()> {
    size.set(comm.size() as c_int);
    Ok(())
}
