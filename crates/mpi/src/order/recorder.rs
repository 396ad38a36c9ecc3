//! Writes the recording of a rank while the program runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use base::ContextId;
use engine::{IncomingMessage, MatchObserver, MatchedReceive};

use super::log::{ChoiceKind, Entry, HEAD_BYTES, NEGATIVES_AT, head};

/// The recording that a rank writes.
#[derive(Debug)]
pub(super) struct Recorder {
    file: File,
    /// Whether writing has failed, so that nothing more is recorded.
    is_broken: Cell<bool>,
    state: RefCell<RecorderState>,
}

#[derive(Debug, Default)]
struct RecorderState {
    /// The end of the file.
    end: u64,
    /// The number of the receive after the one that was matched last.
    expected: u64,
    /// The numbers of posted receives from any source, by context and posting number.
    posted: HashMap<(ContextId, u64), u64>,
    /// The number of negative choices, in all and since the last other one.
    negatives: u64,
    negatives_since: u64,
    /// The last entry with its place, if it is about requests to a window: the next one may only
    /// increase its number.
    serving: Option<(u64, Entry)>,
    encoded: Vec<u8>,
}

impl Recorder {
    /// Creates the file, and its folder if there is none.
    ///
    /// # Errors
    /// In words why that is impossible.
    pub(super) fn create(path: &Path, rank: u32, size: u32) -> Result<Self, String> {
        let create = || {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let file = File::create(path)?;
            file.write_all_at(&head(rank, size), 0)?;
            Ok(file)
        };
        let file = create().map_err(|cause: std::io::Error| {
            format!("the recording cannot be written to {}: {cause}", path.display())
        })?;
        let state = RecorderState { end: HEAD_BYTES as u64, ..RecorderState::default() };
        Ok(Self { file, is_broken: Cell::new(false), state: RefCell::new(state) })
    }

    /// Records that a receive from any source is being posted.
    pub(super) fn expect(&self, context: ContextId, order: u64, number: u64) {
        self.state.borrow_mut().posted.insert((context, order), number);
    }

    /// Records what a call has chosen; `None` if nothing.
    pub(super) fn note_choice(&self, kind: ChoiceKind, chosen: Option<&[u32]>) {
        let mut state = self.state.borrow_mut();
        match chosen {
            None => {
                state.negatives += 1;
                state.negatives_since += 1;
                self.write(&state.negatives.to_le_bytes(), NEGATIVES_AT);
            }
            Some(chosen) => {
                let negatives = std::mem::take(&mut state.negatives_since);
                let chosen = chosen.to_vec();
                self.append(&mut state, Entry::Chosen { negatives, kind, chosen });
            }
        }
    }

    /// Records that a window has served a request.
    pub(super) fn note_served(&self, window: u32, origin: u32) {
        let mut state = self.state.borrow_mut();
        let mut times = 1;
        if let Some((place, Entry::Served { window: last, origin: before, times: so_far })) =
            &state.serving
            && (*last, *before) == (window, origin)
        {
            times = so_far + 1;
            state.end = *place;
        }
        let entry = Entry::Served { window, origin, times };
        let place = state.end;
        self.append(&mut state, entry.clone());
        state.serving = Some((place, entry));
    }

    /// Records that the process finalizes MPI.
    pub(super) fn end(&self) {
        self.append(&mut self.state.borrow_mut(), Entry::Ended);
    }

    fn append(&self, state: &mut RecorderState, entry: Entry) {
        state.serving = None;
        state.encoded.clear();
        entry.write(state.expected, &mut state.encoded);
        self.write(&state.encoded, state.end);
        state.end += state.encoded.len() as u64;
    }

    fn write(&self, bytes: &[u8], place: u64) {
        if self.is_broken.get() {
            return;
        }
        if let Err(cause) = self.file.write_all_at(bytes, place) {
            self.is_broken.set(true);
            eprintln!("combray: the recording of the order ends early: {cause}");
        }
    }
}

impl MatchObserver for Recorder {
    fn message_matched(
        &self,
        context: ContextId,
        receive: MatchedReceive,
        message: &IncomingMessage,
    ) {
        if !receive.from_any_source {
            return;
        }
        let mut state = self.state.borrow_mut();
        let Some(number) = state.posted.remove(&(context, receive.order)) else { return };
        let &IncomingMessage { source, tag, .. } = message;
        self.append(&mut state, Entry::Matched { receive: number, source, tag });
        state.expected = number + 1;
    }

    fn receive_cancelled(&self, context: ContextId, receive: MatchedReceive) {
        if receive.from_any_source {
            self.state.borrow_mut().posted.remove(&(context, receive.order));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receives_that_were_cancelled_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&folder.path().join("rank0.order"), 0, 1).unwrap();
        let context = ContextId(7);
        for order in 0..1000 {
            recorder.expect(context, order, order);
            assert_eq!(recorder.state.borrow().posted.len(), 1);
            let receive = MatchedReceive { order, from_any_source: true };
            recorder.receive_cancelled(context, receive);
        }
        assert!(recorder.state.borrow().posted.is_empty());
    }
}
