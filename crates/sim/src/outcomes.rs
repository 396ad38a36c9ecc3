//! Comparison of outcomes with those of the reference.

use engine::Problem;

use crate::region::pattern;
use crate::world::{MessageFate, World, WorldMessage, WorldOutcome};

impl World {
    /// Takes and checks the outcomes of some complete requests.
    pub(crate) fn check_outcomes(&mut self) -> WorldOutcome {
        for index in self.episode.1..self.messages.len() {
            if !self.messages[index].done && self.rng.u8(..4) != 0 {
                self.check_sent(index)?;
            }
        }
        for index in self.episode.2..self.receives.len() {
            if !self.receives[index].done && self.rng.u8(..4) != 0 {
                self.check_received(index)?;
            }
        }
        Ok(())
    }

    fn check_sent(&mut self, index: usize) -> WorldOutcome {
        let message = &mut self.messages[index];
        let engine = &mut self.engines[message.from as usize];
        let Some(outcome) = message.request.and_then(|request| engine.take(request)) else {
            return Ok(());
        };
        message.done = true;
        message.region.reuse();
        let cancelled = message.fate == MessageFate::Withdrawn;
        let sent = outcome.bytes == message.length as u64 && outcome.problem.is_none();
        let too_soon = message.synchronous && message.fate == MessageFate::Waiting;
        if outcome.cancelled != cancelled || !sent && !cancelled || too_soon {
            return Err(format!("message {index} ({message:?}) ended with {outcome:?}"));
        }
        self.report.withdrawn += u64::from(cancelled);
        self.report.kept += u64::from(message.cancel_asked && !cancelled);
        Ok(())
    }

    fn check_received(&mut self, index: usize) -> WorldOutcome {
        let receive = &mut self.receives[index];
        let engine = &mut self.engines[receive.process as usize];
        let Some(outcome) = receive.request.and_then(|request| engine.take(request)) else {
            return Ok(());
        };
        receive.done = true;
        let wrong = |receive: &_| Err(format!("receive {index} ({receive:?}) got {outcome:?}"));
        let Some(message) = receive.message else {
            let fine = receive.withdrawn && outcome.cancelled && outcome.problem.is_none();
            return if fine { self.check_memory(index) } else { wrong(receive) };
        };
        let (sent, capacity) = (&self.messages[message], receive.region.buffer.len());
        let source = (sent.from + receive.context as u32) % self.setting.processes;
        let problem = (sent.length > capacity)
            .then_some(Problem::Truncated { message: sent.length as u64, buffer: capacity as u64 });
        let expected = engine::Outcome {
            source,
            tag: sent.tag,
            bytes: sent.length.min(capacity) as u64,
            cancelled: false,
            problem,
        };
        self.report.truncated += u64::from(problem.is_some());
        if outcome != expected {
            return wrong(receive);
        }
        self.check_memory(index)
    }

    /// Checks every byte of a receive's memory.
    fn check_memory(&self, index: usize) -> WorldOutcome {
        let receive = &self.receives[index];
        let message = receive.message.map(|id| (id, &self.messages[id]));
        let capacity = receive.region.buffer.len();
        let data = message.map(|(id, message)| pattern(id, message.length.min(capacity)));
        match receive.region.difference(&data.unwrap_or_default()) {
            None => Ok(()),
            Some((at, should, is)) => Err(format!(
                "receive {index} ({receive:?}) of message {:?}: byte {at} of its memory is {is:#x} \
                 instead of {should:#x}",
                receive.message
            )),
        }
    }

    /// Checks, when nothing is in transit, that exactly the requests are complete that can be
    /// complete.
    pub(crate) fn check_settled(&mut self) -> WorldOutcome {
        for index in self.episode.1..self.messages.len() {
            self.check_sent(index)?;
            let message = &self.messages[index];
            if message.request.is_some() && !message.done && message.fate != MessageFate::Waiting {
                return Err(format!("message {index} ({message:?}) never ends"));
            }
            let asked = message.cancel_asked && message.cancellable && message.request.is_some();
            if asked && message.fate == MessageFate::Waiting && !self.may_wait(message) {
                return Err(format!("message {index} ({message:?}) does not come back"));
            }
        }
        for index in self.episode.2..self.receives.len() {
            self.check_received(index)?;
            let receive = &self.receives[index];
            let decided = receive.message.is_some() || receive.withdrawn;
            if receive.request.is_some() && !receive.done && decided {
                return Err(format!("receive {index} ({receive:?}) never ends"));
            }
            self.check_memory(index)?;
        }
        match self.exposed.values().find(|&&message| self.messages[message].done) {
            Some(message) => Err(format!("the region of message {message} is not revoked")),
            None => Ok(()),
        }
    }

    /// Whether the cancellation of a message may have no effect yet: message and cancellation wait
    /// until the receiver opens the context.
    fn may_wait(&self, message: &WorldMessage) -> bool {
        self.slots[message.to as usize][message.context].is_none()
    }

    pub(crate) fn unfinished(&self) -> String {
        let sends = self.messages[self.episode.1..].iter().filter(|message| !message.done);
        let receives = self.receives[self.episode.2..].iter().filter(|receive| !receive.done);
        format!("{:#?} {:#?}", sends.collect::<Vec<_>>(), receives.collect::<Vec<_>>())
    }
}
