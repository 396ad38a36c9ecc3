//! Sends what is due over a link: hellos and answers, sequenced frames, requests, pieces, and
//! acknowledgements.

use super::{
    Acknowledging, HELLO_AFTER_MAX, HELLO_AFTER_MIN, HelloRepetition, Link, LinkTerms, time_field,
};
use crate::fragments::{SentFrames, send_frames};
use crate::frame::{FrameHeader, FrameKind, HEAD_BYTES};
use crate::seal::Seal;
use crate::serving::PieceRun;
use crate::timing::Time;
use crate::transmitter::{PieceBytes, Transmitter};

/// After this many unanswered long frames, the network is considered not to carry them.
const LONG_TRIES_MAX: u32 = 10;

/// After this many frames an acknowledgement is sent immediately, as their sender may wait for it.
const ACKNOWLEDGED_TOGETHER: usize = 16;

/// How many frames are passed to the kernel at once.
const TOGETHER_MAX: usize = 64;

impl Link {
    /// Sends what is due. False: there was no room for some of it.
    pub(crate) fn transmit(&mut self, now: Time, to: &mut impl Transmitter) -> bool {
        self.outgoing.handle_time(now);
        let sent = self.send_greetings(now, to)
            && self.send_sequenced(now, to)
            && self.send_requests(now, to)
            && self.send_pieces(now, to);
        if sent && self.acknowledging.count > 0 {
            let is_due = self.acknowledging.by.is_some_and(|by| now >= by);
            if is_due || self.acknowledging.count >= ACKNOWLEDGED_TOGETHER {
                return self.send_control(FrameKind::Acknowledgement, |_| {}, &[], now, to);
            }
        }
        sent
    }

    fn send_greetings(&mut self, now: Time, to: &mut impl Transmitter) -> bool {
        while let Some(length) = self.to_answer.pop() {
            let set = |header: &mut FrameHeader| header.index = length;
            if !self.send_control(FrameKind::Answer, set, &[], now, to) {
                self.to_answer.push(length);
                return false;
            }
        }
        // While hellos wait for room, no more are planned.
        if self.hellos.is_empty() {
            self.plan_hellos(now);
        }
        if self.hellos.is_empty() {
            return true;
        }
        let mut padding = [&self.terms.introduction[..], &self.terms.mac].concat();
        let turn = self.terms.turn;
        let set_turn = |header: &mut FrameHeader| header.first = turn;
        while let Some(&length) = self.hellos.front() {
            padding.resize(length - HEAD_BYTES, 0);
            if !self.send_control(FrameKind::Hello, set_turn, &padding, now, to) {
                return false;
            }
            self.hellos.pop_front();
        }
        true
    }

    /// Determines which hellos are due.
    fn plan_hellos(&mut self, now: Time) {
        if self.outgoing.is_empty() && !self.services.is_active() {
            self.path.confirm();
        }
        self.hellos.extend(self.path.lengths_to_try(now));
        if self.stands() && self.path.is_time_to_grow(now) {
            self.hellos.extend(self.path.longer());
        }
        if self.greeting.at.is_none_or(|at| now < at) {
            return;
        }
        match self.stands() {
            true => self.hellos.extend(self.path.longer()),
            false => self.hellos.extend(self.path.lengths_to_begin(self.greeting.tries)),
        }
        self.greeting.tries += 1;
        let pause = (HELLO_AFTER_MIN << (self.greeting.tries - 1).min(16)).min(HELLO_AFTER_MAX);
        let is_over = match self.stands() {
            true => self.greeting.tries >= LONG_TRIES_MAX,
            false => self.greeting.repetition == HelloRepetition::ByDriver,
        };
        self.greeting.at = (!is_over).then_some(now + pause);
    }

    /// Sends a frame that is not sequenced.
    fn send_control(
        &mut self,
        kind: FrameKind,
        set: impl FnOnce(&mut FrameHeader),
        data: &[u8],
        now: Time,
        to: &mut impl Transmitter,
    ) -> bool {
        let mut header = self.header(kind, now);
        set(&mut header);
        let sent = to.frames(&self.seal, &[(header, data)]) == 1;
        self.note_sent(u64::from(sent));
        sent
    }

    /// Returns the head of the next frame.
    fn header(&self, kind: FrameKind, now: Time) -> FrameHeader {
        let (acknowledged, early) = self.incoming.acknowledgement();
        let LinkTerms { own, endpoint, slot, room, .. } = self.terms;
        FrameHeader {
            endpoint,
            slot,
            is_bulk: false,
            kind,
            is_last: true,
            asks: false,
            number: self.number,
            source: own,
            acknowledged,
            early,
            room: room.urgent as u32,
            time: time_field(now),
            echo: self.echo,
            first: 0,
            index: 0,
            request: 0,
            mask: 0,
        }
    }

    /// Records that `count` frames were sent, which all contained the acknowledgement and the echo.
    fn note_sent(&mut self, count: u64) {
        if count > 0 {
            self.number += count;
            self.acknowledging = Acknowledging::default();
            self.echo = 0;
        }
    }

    fn send_sequenced(&mut self, now: Time, to: &mut impl Transmitter) -> bool {
        let header = self.header(FrameKind::Packet, now);
        let (mut sent, mut wanted, mut longest) = (SentFrames::default(), 0, 0);
        let (seal, data_bytes, count) = (&self.seal, self.data_bytes(), &mut self.fragmented);
        self.outgoing.send_ready(now, &self.trips, |ready, is_window_full| {
            let frames: Vec<(FrameHeader, &[u8])> = (0..)
                .zip(ready)
                .map(|(behind, frame)| {
                    let echo = if behind == 0 { header.echo } else { 0 };
                    let header = FrameHeader {
                        kind: frame.kind,
                        is_last: frame.is_last,
                        asks: is_window_full && behind + 1 == ready.len() as u64,
                        // A repeated frame, or the last one that may be sent now, may be all that
                        // its receiver waits for.
                        is_bulk: !frame.is_last
                            && !frame.is_again
                            && behind + 1 < ready.len() as u64,
                        number: header.number + behind,
                        first: frame.place,
                        echo,
                        ..header
                    };
                    (header, frame.data)
                })
                .collect();
            wanted = frames.len();
            longest = frames.iter().map(|(_, data)| data.len()).max().unwrap_or_default();
            sent = send_frames(&frames, (data_bytes, count), seal, to);
            sent.frames
        });
        self.path.note_sent(HEAD_BYTES + longest.min(data_bytes), now);
        self.note_sent(sent.numbers);
        sent.frames == wanted
    }

    fn send_requests(&mut self, now: Time, to: &mut impl Transmitter) -> bool {
        loop {
            let wanted = self.wanted.take().or_else(|| self.pulls.next_wanted(now, &self.trips));
            let Some(wanted) = wanted else { return true };
            let set = |header: &mut FrameHeader| {
                (header.first, header.index) = (wanted.part, wanted.first);
                (header.mask, header.request) = (wanted.mask, wanted.number);
            };
            if !self.send_control(FrameKind::Request, set, &[], now, to) {
                self.wanted = Some(wanted);
                return false;
            }
        }
    }

    fn send_pieces(&mut self, now: Time, to: &mut impl Transmitter) -> bool {
        while self.services.has_requests() {
            let header = self.header(FrameKind::Piece, now);
            let (seal, data_bytes, count) = (&self.seal, self.data_bytes(), &mut self.fragmented);
            let (mut sent, mut longest) = (SentFrames::default(), 0);
            let goes_on = self.services.send_next(|run| {
                longest = run.announced.piece_bytes as usize;
                sent = send_run((data_bytes, count), seal, header, &run, to);
                sent.frames
            });
            self.path.note_sent(HEAD_BYTES + longest.min(data_bytes), now);
            self.note_sent(sent.numbers);
            if !goes_on {
                return false;
            }
        }
        true
    }
}

fn send_run(
    (data_bytes, count): (usize, &mut u32),
    seal: &Seal,
    header: FrameHeader,
    run: &PieceRun<'_>,
    to: &mut impl Transmitter,
) -> SentFrames {
    let each = run.announced.piece_bytes as usize;
    let heads = (0..run.count).take(TOGETHER_MAX).map(|behind| {
        let is_last = behind + 1 == run.count && run.ends_block;
        FrameHeader {
            is_bulk: !is_last,
            is_last,
            number: header.number + u64::from(behind),
            // Later frames waited for their turn.
            echo: if behind == 0 { run.echo } else { 0 },
            first: run.announced.number,
            index: run.first + behind,
            request: run.request,
            ..header
        }
    });
    let heads: Vec<FrameHeader> = heads.collect();
    let start = run.first as usize * each;
    let length = (heads.len() * each).min(run.part.length - start);
    let (buffer, offset) = (&run.part.buffer, run.part.offset + start);
    if each <= data_bytes {
        let sent = to.pieces(seal, &heads, PieceBytes { buffer, offset, length, each });
        return SentFrames { frames: sent, numbers: sent as u64 };
    }
    let mut data = vec![0; length];
    buffer.read(offset, &mut data);
    let frames: Vec<(FrameHeader, &[u8])> = heads.into_iter().zip(data.chunks(each)).collect();
    send_frames(&frames, (data_bytes, count), seal, to)
}
