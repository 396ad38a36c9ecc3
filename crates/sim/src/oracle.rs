//! What MPI promises of a program that has run.

use crate::program::{ProgramMessage, Program, ProgramReceive};

/// The bytes of message number `id`: the number itself, then a pattern of it.
pub(crate) fn pattern(id: usize, length: usize) -> Vec<u8> {
    let number = (id as u64 + 1).to_le_bytes();
    let byte = |i: usize| if i < 8 { number[i] } else { (id * 31 + i * 7 + i / 251) as u8 };
    (0..length).map(byte).collect()
}

/// What a receive got.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub source: u32,
    pub tag: i32,
    pub bytes: u64,
    pub truncated: Option<u64>,
    pub data: Vec<u8>,
}

/// Which message each receive got, once its data, source and tag have been found right.
pub(crate) fn identify(program: &Program, wanted: &ProgramReceive, got: &Got) -> Result<usize, String> {
    let whole = got.truncated.unwrap_or(got.bytes) as usize;
    let fits = |message: &ProgramMessage| {
        wanted.accepts(message)
            && !message.unwanted
            && (message.source, message.tag) == (got.source, got.tag)
            && message.length == whole
    };
    let expected_bytes = whole.min(wanted.capacity) as u64;
    if got.bytes != expected_bytes || got.truncated.is_some() != (whole > wanted.capacity) {
        return Err(format!("{wanted:?} got {} bytes of {whole}", got.bytes));
    }
    let mut candidates = (0..).zip(&program.messages).filter(|(_, message)| fits(message));
    let found = candidates.find(|(id, _)| pattern(*id, whole)[..got.data.len()] == got.data[..]);
    found.map(|(id, _)| id).ok_or_else(|| {
        let head = &got.data[..got.data.len().min(16)];
        format!("{wanted:?} got what nobody sent it: {whole} bytes, {head:?}")
    })
}

/// Whether messages of at least 8 bytes arrived once and did not overtake each other: if a receive
/// got a message although it also accepts an earlier one from the same process, the earlier one
/// went to a receive that was posted before (MPI 5.0, section 3.5).
pub(crate) fn check_order(
    program: &Program,
    received: &[(usize, Option<usize>)],
) -> Result<(), String> {
    let mut taken_by = vec![None; program.messages.len()];
    for (posting, (receive, message)) in received.iter().enumerate() {
        let Some(message) = *message else { continue };
        if program.messages[message].length < 8 || program.receives[*receive].capacity < 8 {
            continue;
        }
        if let Some((_, other)) = taken_by[message].replace((posting, *receive)) {
            return Err(format!("message {message} went to receives {other} and {receive}"));
        }
    }
    for (id, later) in program.messages.iter().enumerate() {
        let Some((posting, receive)) = taken_by[id] else { continue };
        for (earlier_id, earlier) in program.messages[..id].iter().enumerate() {
            let same = (earlier.source, earlier.destination, earlier.context)
                == (later.source, later.destination, later.context);
            let Some((earlier_posting, _)) = taken_by[earlier_id].filter(|_| same) else {
                continue;
            };
            if program.receives[receive].accepts(earlier) && earlier_posting > posting {
                return Err(format!("message {id} overtook message {earlier_id}"));
            }
        }
    }
    Ok(())
}
