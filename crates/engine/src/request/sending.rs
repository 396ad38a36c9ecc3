//! The transitions of sends.

use base::RegionToken;

use super::{
    AnnouncedReader, GrantedSend, OutgoingSend, Refused, Request, RequestEnding, RequestState,
    Revoked, SendCompletion, Transition, Withdrawal,
};

impl Request {
    /// Lets the receiver read the data from a region.
    pub(crate) fn expose(&mut self, region: RegionToken) {
        self.set_exposure(AnnouncedReader::Region(region));
    }

    /// Lets the rail take the data from a region before the receiver requests it.
    pub(crate) fn expose_ahead(&mut self, region: RegionToken) {
        debug_assert_eq!(
            self.queued().mode,
            SendCompletion::Standard,
            "no event would report the match"
        );
        self.set_exposure(match self.buffer.len() {
            0 => AnnouncedReader::TakenAhead(region),
            _ => AnnouncedReader::Ahead(region),
        });
    }

    fn set_exposure(&mut self, exposure: AnnouncedReader) {
        match &mut self.state {
            RequestState::Queued(outgoing) => {
                debug_assert_eq!(outgoing.exposure, AnnouncedReader::None, "it is declared once");
                outgoing.exposure = exposure;
            }
            _ => unreachable!("a region is declared before the announcement goes"),
        }
    }

    /// Handles that the whole message was sent.
    pub(crate) fn sent(&mut self) -> Transition {
        match self.state {
            RequestState::Queued(outgoing) if outgoing.mode == SendCompletion::Synchronous => {
                self.state = RequestState::AwaitingMatch(outgoing);
                Transition::Underway
            }
            RequestState::Queued(outgoing) => {
                debug_assert_eq!(
                    outgoing.exposure,
                    AnnouncedReader::None,
                    "what is exposed is announced"
                );
                self.end_sent()
            }
            _ => unreachable!("what waits in an outbox is queued"),
        }
    }

    /// Notes that the whole message was posted on a bulk track as one part.
    pub(crate) fn pushed(&mut self) {
        let OutgoingSend { mode, exposure, .. } = *self.queued();
        debug_assert_eq!(mode, SendCompletion::Standard, "no reply would come");
        debug_assert_eq!(exposure, AnnouncedReader::None, "what is exposed is announced");
        let granted = self.buffer.len() as u64;
        self.state = RequestState::Streaming(GrantedSend { granted, handed: granted, parts: 1 });
    }

    /// Handles that the announcement was sent.
    pub(crate) fn announced(&mut self) -> Transition {
        match self.state {
            RequestState::Queued(OutgoingSend {
                exposure: AnnouncedReader::TakenAhead(_), ..
            }) => self.end_sent(),
            RequestState::Queued(outgoing) => {
                self.state = RequestState::Announced(outgoing);
                Transition::Underway
            }
            _ => unreachable!("what waits in an outbox is queued"),
        }
    }

    /// Handles that the rail has taken the data ahead, or has written it to its destination.
    pub(crate) fn taken(&mut self) -> Result<(Transition, Revoked), Refused> {
        match &mut self.state {
            RequestState::Queued(OutgoingSend { exposure, .. }) => {
                let AnnouncedReader::Ahead(region) = *exposure else { return Err(Refused) };
                *exposure = AnnouncedReader::TakenAhead(region);
                Ok((Transition::Underway, None))
            }
            RequestState::Announced(outgoing) if outgoing.exposure != AnnouncedReader::None => {
                let revoked = outgoing.region();
                Ok((self.end_sent(), revoked))
            }
            _ => Err(Refused),
        }
    }

    /// Handles the receiver's report that it has matched the message, and needs nothing more of it.
    pub(crate) fn finished(&mut self) -> Result<Revoked, Refused> {
        let revoked = self.answered()?.region();
        let _ = self.end_sent();
        Ok(revoked)
    }

    /// Handles the receiver's report that it has dropped the message.
    pub(crate) fn withdrawn(&mut self) -> Result<Revoked, Refused> {
        let outgoing = self.answered()?;
        if outgoing.withdrawal != Withdrawal::Asked {
            return Err(Refused);
        }
        let revoked = outgoing.region();
        let _ = self.end(RequestEnding::Cancelled);
        Ok(revoked)
    }

    /// Handles the receiver's request for the first `length` bytes.
    pub(crate) fn granted(&mut self, length: u64) -> Result<Revoked, Refused> {
        let is_possible = length > 0 && length <= self.buffer.len() as u64;
        let RequestState::Announced(outgoing) = self.state else { return Err(Refused) };
        if !is_possible || outgoing.is_ahead() {
            return Err(Refused);
        }
        self.state = RequestState::Streaming(GrantedSend { granted: length, handed: 0, parts: 0 });
        Ok(outgoing.region())
    }

    /// Notes that the next `length` bytes of a granted message were sent in a packet.
    pub(crate) fn packet_sent(&mut self, length: u64) -> Transition {
        self.hand(length);
        self.end_stream_if_over()
    }

    /// Notes that the next `length` bytes of a granted message were posted on a bulk track.
    pub(crate) fn part_begun(&mut self, length: u64) {
        self.hand(length).parts += 1;
    }

    /// Notes that one part less is underway on bulk tracks.
    pub(crate) fn part_ended(&mut self) -> Result<Transition, Refused> {
        match &mut self.state {
            RequestState::Streaming(stream) if stream.parts > 0 => {
                stream.parts -= 1;
                Ok(self.end_stream_if_over())
            }
            _ => Err(Refused),
        }
    }

    /// Counts so many bytes of a granted message as passed to a rail.
    fn hand(&mut self, length: u64) -> &mut GrantedSend {
        match &mut self.state {
            RequestState::Streaming(stream) => {
                debug_assert!(length <= stream.waiting(), "no more than was granted");
                stream.handed += length;
                stream
            }
            _ => unreachable!("what waits in an outbox to be streamed is granted"),
        }
    }

    fn end_stream_if_over(&mut self) -> Transition {
        let GrantedSend { granted, handed, parts } = *self.stream();
        // The buffer may be shorter than the message. For the send, all of it counts as sent.
        if handed == granted && parts == 0 { self.end_sent() } else { Transition::Underway }
    }

    /// Returns the state of a send that waits for a reply of the receiver, which knows the request.
    fn answered(&self) -> Result<&OutgoingSend, Refused> {
        match &self.state {
            RequestState::AwaitingMatch(outgoing) => Ok(outgoing),
            RequestState::Announced(outgoing) if !outgoing.is_ahead() => Ok(outgoing),
            _ => Err(Refused),
        }
    }

    #[inline]
    fn end_sent(&mut self) -> Transition {
        self.end(RequestEnding::Done { bytes: self.buffer.len() as u64 })
    }
}

impl OutgoingSend {
    /// Returns the region that an announcement carries.
    pub(crate) fn announced_region(&self) -> Option<RegionToken> {
        match self.exposure {
            AnnouncedReader::None => None,
            AnnouncedReader::Region(region)
            | AnnouncedReader::Ahead(region)
            | AnnouncedReader::TakenAhead(region) => Some(region),
        }
    }

    /// Returns the region that the receiver may read, and that must be revoked afterwards.
    pub(crate) fn region(&self) -> Option<RegionToken> {
        match self.exposure {
            AnnouncedReader::Region(region) => Some(region),
            _ => None,
        }
    }

    /// Whether the rail takes the data before the receiver requests it: there is then no reply.
    pub(crate) fn is_ahead(&self) -> bool {
        matches!(self.exposure, AnnouncedReader::Ahead(_) | AnnouncedReader::TakenAhead(_))
    }
}

impl GrantedSend {
    /// Returns how many granted bytes were not passed to rails yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.granted - self.handed
    }
}
