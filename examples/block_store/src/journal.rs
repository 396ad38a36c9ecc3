//! The journal of a client: its writes, before they are sent and when they are answered.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Result;
use crate::protocol::mixed;

/// What has become of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is about to be sent.
    Begun,
    /// The server has confirmed it.
    Done,
    /// The server has refused it, because the block had a newer version.
    Failed,
}

/// A note of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub state: State,
    pub block: u64,
    /// The version that the block has after the write.
    pub version: u64,
    pub writer: u64,
}

const NOTE_BYTES: usize = 40;

/// A journal that is being written. What is in it survives a kill of the process.
pub struct Journal(File);

impl Journal {
    pub fn open(folder: &Path, client: u64) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path(folder, client))?;
        Ok(Self(file))
    }

    pub fn add(&mut self, note: Note) -> io::Result<()> {
        let state = match note.state {
            State::Begun => 0,
            State::Done => 1,
            State::Failed => 2,
        };
        let words = [state, note.block, note.version, note.writer];
        let check = words.iter().fold(1, |sum, word| mixed(sum ^ word));
        let mut bytes = [0; NOTE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words.into_iter().chain([check])) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.0.write_all(&bytes)
    }
}

/// Reads the journal of a client; it is empty if there is none.
pub fn read(folder: &Path, client: u64) -> Result<Vec<Note>> {
    let bytes = match fs::read(path(folder, client)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        bytes => bytes?,
    };
    let notes = bytes.chunks(NOTE_BYTES).map(|bytes| parse(bytes).ok_or("a journal is damaged"));
    Ok(notes.collect::<std::result::Result<_, _>>()?)
}

fn parse(bytes: &[u8]) -> Option<Note> {
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or_default())
        .collect();
    let [state, block, version, writer, check] = words[..] else { return None };
    let state = *[State::Begun, State::Done, State::Failed].get(state as usize)?;
    let sum = words[..4].iter().fold(1, |sum, word| mixed(sum ^ word));
    (sum == check).then_some(Note { state, block, version, writer })
}

fn path(folder: &Path, client: u64) -> PathBuf {
    folder.join(format!("journal-{client}"))
}
