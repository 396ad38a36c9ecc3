//! The events that programs get, compared with the model.

use base::ErrorClass;
use endpoints::{EndpointEvent, EndpointEventKind, EndpointHost, EventBody};

use super::model::{ModelMessage, ModelStage, content_of, overwrite};
use super::program::refused;
use super::{ConnectionWorld, Outcome};

impl ConnectionWorld {
    /// Takes events. Returns how many there were.
    pub(super) fn take_events(&mut self, place: usize, max: usize) -> Result<usize, String> {
        for taken in 0..max {
            let program = &self.programs[place];
            if !program.is_open {
                program.process.progress();
                return Ok(taken);
            }
            let event = program
                .endpoints
                .poll(&program.process, program.endpoint)
                .map_err(|error| refused("a poll", &error))?;
            let Some(event) = event else { return Ok(taken) };
            let what = format!("{event:?} at program {place}");
            self.take_event(place, event).map_err(|why| format!("{what}: {why}"))?;
        }
        Ok(max)
    }

    /// Returns the data that an event has lent, and returns it to the library now or later.
    fn lent_data(&mut self, place: usize, body: &EventBody) -> Result<Vec<u8>, String> {
        let EventBody::Lent(lent) = body else { return Ok(Vec::new()) };
        let program = &mut self.programs[place];
        let data = program.endpoints.copy_of_lent(program.endpoint, lent.key);
        let data = data.ok_or("it has lent nothing")?;
        if data.len() != lent.bytes {
            return Err(format!("{} bytes were lent", data.len()));
        }
        program.held.push(lent.key);
        if self.nodes.rng().bool() {
            self.give_back(place, 1)?;
        }
        Ok(data)
    }

    fn take_event(&mut self, place: usize, event: EndpointEvent) -> Outcome {
        let EndpointEvent { kind, connection: key, context, body } = event;
        if kind == EndpointEventKind::ConnectRequest {
            return self.take_request(place, key, &body);
        }
        let found = self.programs[place].connections.get(&key).copied();
        let (number, end) = found.ok_or("it is of no connection")?;
        let has_context = !matches!(kind, EndpointEventKind::Sent | EndpointEventKind::Completed);
        let is_unanswered = self.connections[number].ends[end].stage == ModelStage::Waiting;
        if has_context && context != number && !(end == 1 && is_unanswered) {
            return Err(format!("it has the context {context}, not {number}"));
        }
        match kind {
            EndpointEventKind::Connected => self.take_connected(number, end),
            EndpointEventKind::Received => {
                let data = self.lent_data(place, &body)?;
                self.take_message(place, (number, end), &data)
            }
            EndpointEventKind::Sent => {
                let lent = self.connections[number].ends[end].lent.remove(&context);
                overwrite(&lent.ok_or("nothing was lent for it")?);
                self.report.sent += 1;
                Ok(())
            }
            EndpointEventKind::Writable => {
                let model = &mut self.connections[number].ends[end];
                model.is_refused = false;
                // The program may have tried again before it has taken the event.
                let left = model.refusals.checked_sub(1);
                model.refusals = left.ok_or("nothing was refused")?;
                self.report.writable += 1;
                Ok(())
            }
            EndpointEventKind::Completed => self.take_completed((number, end), context, &body),
            EndpointEventKind::Silent => self.take_silent((number, end)),
            EndpointEventKind::Rejected => {
                let data = self.lent_data(place, &body)?;
                self.take_rejected((number, end), &data, &body)?;
                self.end_at(place, (number, end));
                Ok(())
            }
            EndpointEventKind::Closed | EndpointEventKind::Lost => {
                self.take_end((number, end), kind, &body)?;
                self.end_at(place, (number, end));
                Ok(())
            }
            EndpointEventKind::ConnectRequest | EndpointEventKind::Woken => {
                Err("it cannot happen".to_owned())
            }
        }
    }

    /// Ends a connection for a program.
    fn end_at(&mut self, place: usize, (number, end): (usize, usize)) {
        let model = &mut self.connections[number].ends[end];
        model.end();
        // Reads that have not ended write nothing into this memory any more.
        for (_, operation) in model.operations.drain() {
            if let Some(into) = operation.into {
                overwrite(&into);
                self.abandoned.push(into);
            }
        }
        self.programs[place].connections.retain(|_, which| *which != (number, end));
    }

    fn take_request(&mut self, place: usize, key: u32, body: &EventBody) -> Outcome {
        let data = self.lent_data(place, body)?;
        let bytes = data.get(..8).and_then(|bytes| bytes.try_into().ok());
        let number = bytes.map(u64::from_le_bytes).ok_or("its data is too short")? as usize;
        let own = self.programs[place].number;
        let connection = self.connections.get_mut(number).ok_or("it was never made")?;
        if connection.request != data || connection.target != own {
            return Err("it has other data, or was made to another endpoint".to_owned());
        }
        let end = &mut connection.ends[1];
        if end.stage != ModelStage::Unknown {
            return Err("it came before".to_owned());
        }
        (end.key, end.stage) = (Some(key), ModelStage::Waiting);
        self.programs[place].connections.insert(key, (number, 1));
        self.report.requests += 1;
        match self.nodes.rng().u8(..3) {
            0 => Ok(()),
            _ => self.answer(place, number),
        }
    }

    fn take_connected(&mut self, number: usize, end: usize) -> Outcome {
        let [first, second] = &mut self.connections[number].ends;
        if end != 0 || first.stage != ModelStage::Waiting {
            return Err(format!("end {end} is {:?}", first.stage));
        }
        if !matches!(second.stage, ModelStage::Open | ModelStage::Ended) {
            return Err("the other program has not accepted it".to_owned());
        }
        first.stage = ModelStage::Open;
        self.report.connected += 1;
        Ok(())
    }

    fn take_message(
        &mut self,
        place: usize,
        (number, end): (usize, usize),
        data: &[u8],
    ) -> Outcome {
        let sender = &mut self.connections[number].ends[1 - end];
        let of_unordered = data.get(..8).and_then(|bytes| bytes.try_into().ok());
        let of_unordered = of_unordered.map(u64::from_le_bytes);
        let unordered = of_unordered.and_then(|number| sender.unordered.remove(&number));
        let is_ordered = unordered.is_none();
        let message = match unordered {
            Some(message) => message,
            None => {
                // What follows a write that was refused is not delivered.
                let (memories, is_closed) = (&self.memories, &self.is_closed);
                let may_lack = |one: &ModelMessage| {
                    one.after.as_ref().is_some_and(|(memory, ..)| {
                        let memory = &memories[*memory];
                        memory.frozen.is_some() || is_closed[memory.endpoint]
                    })
                };
                while let Some(front) = sender.ordered.front()
                    && may_lack(front)
                    && front.bytes() != data
                {
                    sender.ordered.pop_front();
                }
                sender.ordered.pop_front().ok_or("nothing was sent")?
            }
        };
        if message.bytes() != data {
            let follows = message.after.as_ref().map(|(memory, ..)| *memory);
            let waiting: Vec<_> =
                sender.ordered.iter().map(|one| (one.number, one.length)).collect();
            return Err(format!(
                "{} bytes came in place of message {} of {} bytes, which follows {follows:?}; \
                 then {waiting:?}; unordered {:?}",
                data.len(),
                message.number,
                message.length,
                sender.unordered.keys(),
            ));
        }
        sender.unreliable.1 += u64::from(message.is_unreliable);
        self.report.received += 1;
        let is_late = |(sent, one): (&u64, &ModelMessage)| {
            is_ordered && !one.is_unreliable && *sent < message.number
        };
        self.report.overtaken += u64::from(sender.unordered.iter().any(is_late));
        if let Some((memory, offset, content)) = message.after {
            let memory = &self.memories[memory];
            if memory.endpoint != self.programs[place].number {
                return Err("it follows a write of other memory".to_owned());
            }
            let now = content_of(&memory.buffer);
            if memory.frozen.is_none() && now[offset..][..content.len()] != content {
                return Err("it has come before the bytes that it follows".to_owned());
            }
        }
        Ok(())
    }

    fn take_completed(
        &mut self,
        (number, end): (usize, usize),
        context: usize,
        body: &EventBody,
    ) -> Outcome {
        let connection = &mut self.connections[number];
        let operation = connection.ends[end].operations.remove(&context);
        let operation = operation.ok_or("no operation is underway")?;
        let memory = &self.memories[operation.memory];
        match body {
            EventBody::Nothing => {
                let is_read = operation.into.is_some();
                let found = match operation.into {
                    Some(into) => content_of(&into),
                    None => content_of(&memory.buffer)[operation.offset..]
                        [..operation.content.len()]
                        .to_vec(),
                };
                self.report.completed += 1;
                // What was written before it was deregistered, or not, is not known.
                if found != operation.content && (memory.frozen.is_none() || is_read) {
                    return Err("the range has another content".to_owned());
                }
                Ok(())
            }
            EventBody::Error(error) if error.class == ErrorClass::Base => {
                // The message that should have followed is not delivered.
                let range = (operation.memory, operation.offset);
                if operation.into.is_none() {
                    connection.ends[end].ordered.retain(|message| {
                        message.after.as_ref().is_none_or(|after| (after.0, after.1) != range)
                    });
                }
                let is_known = memory.frozen.is_some() || self.is_closed[memory.endpoint];
                if is_known { Ok(()) } else { Err("the memory is registered".to_owned()) }
            }
            body => Err(format!("it has failed: {body:?}")),
        }
    }

    fn take_silent(&mut self, (number, end): (usize, usize)) -> Outcome {
        self.report.silent += 1;
        let connection = &self.connections[number];
        // The program may have ended it before it has taken the event.
        let Some(limit) = connection.ends[end].keepalive else { return Ok(()) };
        // A round trip, and the time that both processes take to look.
        let setting = &self.nodes.setting;
        let is_slow = setting.is_slow() || limit < 500;
        let may_be = setting.stops || setting.kills || setting.cuts || is_slow;
        if may_be { Ok(()) } else { Err(format!("the other process has answered; {limit} ms")) }
    }

    fn take_rejected(
        &mut self,
        (number, end): (usize, usize),
        data: &[u8],
        body: &EventBody,
    ) -> Outcome {
        let connection = &self.connections[number];
        if end != 0 || connection.ends[0].stage != ModelStage::Waiting {
            return Err(format!("end {end} is {:?}", connection.ends[end].stage));
        }
        match (&connection.rejection, body) {
            (Some(own), EventBody::Lent(_) | EventBody::Nothing) if own == data => {
                self.report.rejected += 1;
                Ok(())
            }
            (_, EventBody::Error(_)) => Ok(()),
            // Its endpoint was closed before it has answered.
            (None, EventBody::Nothing)
                if connection.ends[1].has_closed || self.is_closed[connection.target] =>
            {
                Ok(())
            }
            _ => Err(format!("the other program has sent {:?}", connection.rejection)),
        }
    }

    fn take_end(
        &mut self,
        (number, end): (usize, usize),
        kind: EndpointEventKind,
        body: &EventBody,
    ) -> Outcome {
        let is_calm = self.nodes.setting.is_calm();
        let connection = &self.connections[number];
        let [own, other] = [&connection.ends[end], &connection.ends[1 - end]];
        if !matches!(own.stage, ModelStage::Open | ModelStage::Waiting) {
            return Err(format!("it is {:?}", own.stage));
        }
        self.report.closed += u64::from(kind == EndpointEventKind::Closed);
        self.report.lost += u64::from(kind == EndpointEventKind::Lost);
        if kind == EndpointEventKind::Lost {
            let is_unanswered = own.stage == ModelStage::Waiting;
            return match is_calm && !is_unanswered {
                true => Err(format!("nothing has failed: {body:?}")),
                false => Ok(()),
            };
        }
        if own.has_closed {
            return Ok(());
        }
        // The program that has connected may have given up.
        let may_give_up = end == 1 && other.stage == ModelStage::Waiting;
        if !other.has_closed && other.stage != ModelStage::Ended && !may_give_up {
            return Err("no program has closed it".to_owned());
        }
        let left = other.unordered.values().filter(|one| !one.is_unreliable).count();
        // A write that had not ended may not have taken place, nor has what follows it.
        let waiting = other.ordered.iter().filter(|one| one.after.is_none()).count();
        if waiting + left > 0 {
            return Err(format!(
                "{waiting} ordered and {left} unordered messages were not received"
            ));
        }
        Ok(())
    }
}
