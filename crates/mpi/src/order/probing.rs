//! Probes whose results are recorded or enforced.

use base::Result;

use super::{ChoiceKind, RecordedResult};
use crate::Process;
use crate::communicator::Communicator;
use crate::status::{MessageSource, MessageStatus};

impl Communicator {
    /// Waits for a message of any source, or for the one that the recorded run has found.
    ///
    /// # Errors
    /// Those of [`probe`](Communicator::probe).
    pub(crate) fn probe_in_order(
        &self,
        process: &Process,
        tag: Option<i32>,
    ) -> Result<MessageStatus> {
        let recorded = self.recorded_message(process, ChoiceKind::Probe, (MessageSource::Any, tag));
        let selected = match recorded {
            RecordedMessage::One(source, tag) => (source, tag),
            RecordedMessage::None | RecordedMessage::Free => (MessageSource::Any, tag),
        };
        let status = self.await_message(process, selected)?;
        if let RecordedMessage::Free = recorded {
            note(process, ChoiceKind::Probe, Some(&status));
        }
        Ok(status)
    }

    /// Makes a round of progress, and returns the source and tag of a message that has arrived, if
    /// there is one, or if the recorded run has found one.
    ///
    /// # Errors
    /// Those of [`iprobe`](Communicator::iprobe).
    pub(crate) fn try_in_order(
        &self,
        process: &Process,
        selected: (MessageSource, Option<i32>),
    ) -> Result<Option<(MessageSource, Option<i32>)>> {
        let recorded = self.recorded_message(process, ChoiceKind::TryProbe, selected);
        process.progress();
        match recorded {
            RecordedMessage::None => Ok(None),
            RecordedMessage::One(source, tag) => {
                self.await_message(process, (source, tag)).map(|_| Some((source, tag)))
            }
            RecordedMessage::Free => {
                let found = self.peek(process, selected.0, selected.1)?;
                note(process, ChoiceKind::TryProbe, found.as_ref());
                Ok(found.map(|status| (status.source, status.tag)))
            }
        }
    }

    /// Waits for a message, without receiving it.
    fn await_message(
        &self,
        process: &Process,
        (source, tag): (MessageSource, Option<i32>),
    ) -> Result<MessageStatus> {
        let mut found = self.peek(process, source, tag);
        if let Ok(None) = found {
            process.await_recorded("a message", &mut |process| {
                found = self.peek(process, source, tag);
                !matches!(found, Ok(None))
            });
        }
        found.map(|status| status.unwrap_or(MessageStatus::EMPTY))
    }

    /// Returns the message that the recorded run has found where this run probes now.
    fn recorded_message(
        &self,
        process: &Process,
        kind: ChoiceKind,
        (source, tag): (MessageSource, Option<i32>),
    ) -> RecordedMessage {
        let chosen = match process.recorded_choice(kind) {
            RecordedResult::Free => return RecordedMessage::Free,
            RecordedResult::Negative => return RecordedMessage::None,
            RecordedResult::Chosen(chosen) => chosen,
        };
        let [from, with] = chosen[..] else { process.diverge("the recording is damaged") };
        let found = (MessageSource::Rank(from), Some(with as i32));
        let is_wrong_tag = tag.is_some() && tag != found.1;
        if is_wrong_tag || source != MessageSource::Any && source != found.0 {
            let with = with as i32;
            let what = "which this probe does not accept";
            process.diverge(&format!(
                "the recorded run found a message of rank {from} with tag {with}, {what}"
            ));
        }
        RecordedMessage::One(found.0, found.1)
    }
}

/// What was recorded about a probe.
enum RecordedMessage {
    /// Nothing.
    Free,
    /// There was no message.
    None,
    One(MessageSource, Option<i32>),
}

fn note(process: &Process, kind: ChoiceKind, found: Option<&MessageStatus>) {
    let Some(order) = process.order() else { return };
    match found {
        Some(MessageStatus { source: MessageSource::Rank(source), tag, .. }) => {
            order.note(kind, Some(&[*source, tag.unwrap_or_default() as u32]));
        }
        _ => order.note(kind, None),
    }
}
