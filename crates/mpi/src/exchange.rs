//! The exchange of values between the processes of a team, inside the library.

use std::rc::Rc;

use base::{Error, ErrorClass, Result};
use memory::Buffer;
use wire::Codec;

use crate::collective::allgather_bytes;
use crate::{Process, Team};

/// Exchanges values, one of each process, whose encodings have equal lengths; returns them by rank.
/// Collective.
///
/// # Errors
/// Those of collective operations; `Intern` if a process encodes its value in another way.
pub fn exchange<T: Codec>(process: &Process, team: &Rc<Team>, mine: &T) -> Result<Vec<T>> {
    decoded(&allgather_bytes(process, team, &mine.to_bytes())?)
}

/// Returns a message that consists of values.
pub(crate) fn packed<'a, T: Codec + 'a>(values: impl IntoIterator<Item = &'a T>) -> Buffer {
    let mut bytes = Vec::new();
    values.into_iter().for_each(|value| value.write(&mut bytes));
    let message = Buffer::zeroed(bytes.len());
    message.write(0, &bytes);
    message
}

/// Returns the values of a message.
///
/// # Errors
/// `Intern` if no process encodes values like this.
pub fn unpacked<T: Codec>(message: &Buffer) -> Result<Vec<T>> {
    let mut bytes = vec![0; message.len()];
    message.read(0, &mut bytes);
    decoded(&bytes)
}

fn decoded<T: Codec>(mut bytes: &[u8]) -> Result<Vec<T>> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let value = T::read(&mut bytes).ok_or_else(|| {
            let what = "another process sent a value in a form that this one does not understand";
            Error::new(ErrorClass::Intern, what)
        })?;
        values.push(value);
    }
    Ok(values)
}
