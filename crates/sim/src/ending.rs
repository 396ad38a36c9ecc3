//! The end of an episode: everything left over is cancelled or received, and nothing may remain.

use base::limits::EAGER_CREDIT_BYTES;

use crate::world::{MessageFate, Promise, ReceivedMessage, World, WorldOutcome};

impl World {
    pub(crate) fn end_episode(&mut self) -> WorldOutcome {
        self.settle()?;
        for process in 0..self.setting.processes {
            for context in self.episode.0..self.slots[0].len() {
                self.slot(process, context);
            }
        }
        for index in self.episode.2..self.receives.len() {
            if self.is_undecided(index) {
                self.withdraw_receive(index)?;
            }
        }
        for index in self.episode.1..self.messages.len() {
            if self.setting.cancels && self.rng.bool() {
                self.withdraw_send(index);
            }
        }
        self.settle()?;
        self.satisfy_given_up()?;
        for process in 0..self.setting.processes {
            self.empty(process)?;
        }
        self.settle()?;
        self.close()
    }

    fn is_undecided(&self, index: usize) -> bool {
        let receive = &self.receives[index];
        receive.message.is_none() && !receive.withdrawn
    }

    /// Sends a message to each receive whose request was freed, because such a receive can no
    /// longer be cancelled.
    fn satisfy_given_up(&mut self) -> WorldOutcome {
        while let Some(index) =
            (self.episode.2..self.receives.len()).find(|&index| self.is_undecided(index))
        {
            let ReceivedMessage { process, context, selector: (source, tag), .. } =
                self.receives[index];
            let from = (0..self.setting.processes)
                .find(|&from| source.is_none_or(|source| source == self.rank(context, from)));
            let from = from.expect("every rank is that of some process");
            self.send((from, process, context), tag.unwrap_or(0), 5);
            self.settle()?;
        }
        Ok(())
    }

    /// Receives every message that is still there, and closes the contexts: at once, although
    /// requests are active, or later.
    fn empty(&mut self, process: u32) -> WorldOutcome {
        for context in self.episode.0..self.slots[0].len() {
            let any = (None, None);
            while let Some(label) = self.spaces[process as usize][context].find(any) {
                if self.rng.u8(..4) == 0 {
                    self.matched_probe(process, context, any)?;
                } else {
                    let length = self.messages[label.message].length;
                    self.receive(process, context, any, length)?;
                }
            }
            if self.rng.bool() {
                self.close_one(process, context);
            }
        }
        Ok(())
    }

    fn close_one(&mut self, process: u32, context: usize) {
        if let Some(slot) = self.slots[process as usize][context].take() {
            self.engine(process).close_context(slot);
        }
    }

    fn close(&mut self) -> WorldOutcome {
        for process in 0..self.setting.processes {
            for context in self.episode.0..self.slots[0].len() {
                self.close_one(process, context);
            }
            let holdings = self.engine(process).holdings();
            if holdings != (0, 0, 0) {
                return Err(format!("process {process} keeps {holdings:?}: {}", self.unfinished()));
            }
        }
        self.check_credit()?;
        self.check_promises()?;
        match self.messages.iter().position(|message| message.fate == MessageFate::Waiting) {
            Some(lost) => Err(format!("message {lost} is lost")),
            None => Ok(()),
        }
    }

    /// Checks that each receive got the message that it was promised, unless receive or message was
    /// withdrawn.
    fn check_promises(&mut self) -> WorldOutcome {
        for promise in &self.promises {
            let Promise { receive, from, tag, sequence } = *promise;
            let ReceivedMessage { process, context, message: got, withdrawn, .. } =
                self.receives[receive];
            let key = (from, process, context, sequence);
            let Some(&promised) = self.message_at.get(&key) else { continue };
            let message = &self.messages[promised];
            if message.tag != tag || message.fate == MessageFate::Withdrawn || withdrawn {
                continue;
            }
            if got != Some(promised) {
                return Err(format!(
                    "receive {receive} was promised message {promised} and got {got:?}"
                ));
            }
            self.report.promised += 1;
        }
        Ok(())
    }

    /// Checks that all credit has returned, or will be reported.
    fn check_credit(&self) -> WorldOutcome {
        for (sender, receiver) in (0..self.setting.processes)
            .flat_map(|a| (0..self.setting.processes).map(move |b| (a, b)))
        {
            let (left, _) = self.engines[sender as usize].credit(Self::gate(receiver));
            let (_, owed) = self.engines[receiver as usize].credit(Self::gate(sender));
            if left + owed != EAGER_CREDIT_BYTES {
                return Err(format!(
                    "process {sender} may send {left} bytes to {receiver}, which owes it {owed}"
                ));
            }
        }
        Ok(())
    }
}
