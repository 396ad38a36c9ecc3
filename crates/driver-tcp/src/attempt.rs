//! A connection that is being established.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use base::GateId;

use driver::PairSecret;
use sealing::{AGREEMENT_BYTES, KeyAgreement, Sealing, SealingSide, Tampered};

use crate::handshake::{
    self, ANSWER_BYTES, CLAIM_BYTES, ConnectionClaim, GREETING_BYTES, HandshakeReply, Nonce,
    OPENING_BYTES, PROOF_BYTES, REPLY_BYTES,
};
use crate::peers::Retry;

/// Why a peer without the right secret, or with another claim than it may make, is refused.
const STRANGER: &str = "it is not a process of this job, or of a job that is connected with it";

/// A connection that is being established, by this process or by another one.
pub(crate) struct Attempt {
    pub stream: TcpStream,
    /// When the attempt is given up.
    pub deadline: Instant,
    pub side: AttemptSide,
    /// Set if earlier attempts of this process failed.
    pub retry: Option<Retry>,
    stage: HandshakeStage,
    nonce: Nonce,
    /// The secret that the initiator has proved to have.
    pub secret: Option<PairSecret>,
    /// How the connection is encrypted, once both sides have agreed on keys.
    pub sealing: Option<Sealing>,
    /// The offer of this side to agree on keys.
    agreement: Option<KeyAgreement>,
    /// The answer to the offer of the initiator, for the reply.
    key_answer: Vec<u8>,
    received: Vec<u8>,
}

fn refused_keys(tampered: Tampered) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, tampered)
}

/// Which side initiated the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptSide {
    /// This process, to the process behind `gate`, from its own rail `rail`, for a link.
    Here { gate: GateId, rail: usize, link: u32 },
    /// Another process, which may be any process.
    There,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeStage {
    Connecting,
    AwaitsOpening,
    /// The opening was accepted, and must be answered.
    Opened {
        other: Nonce,
    },
    AwaitsAnswer,
    AwaitsClaim {
        other: Nonce,
    },
    AwaitsReply,
}

/// What the two processes of a connection must agree on.
pub(crate) struct HandshakeTerms {
    /// The number of this process: its rank; in a claim to a process of another job, the gate by
    /// which that process names it.
    pub own: u32,
    /// The rank of the other process, if this process has initiated the connection.
    pub to: u32,
    /// The secret that is used if this process has initiated the connection; else the secret of
    /// the job.
    pub secret: PairSecret,
    /// Further secrets that the initiator may have: those of connected jobs.
    pub others: Vec<PairSecret>,
    /// The version of the contents.
    pub records: u32,
}

/// What one step of an attempt has achieved.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AttemptProgress {
    Waits,
    /// Initiated here: the other side agreed, or will establish this connection itself.
    Decided(HandshakeReply),
    /// Initiated there: a process of the job opened it with this nonce, or an outsider replays a
    /// recorded opening.
    Opened(Nonce),
    /// Initiated there: a process of the job makes this claim.
    Introduced(ConnectionClaim),
}

impl Attempt {
    pub(crate) fn new(stream: TcpStream, side: AttemptSide, deadline: Instant) -> io::Result<Self> {
        let mut nonce = Nonce::default();
        sys::random::fill(&mut nonce)?;
        let stage = match side {
            AttemptSide::Here { .. } => HandshakeStage::Connecting,
            AttemptSide::There => HandshakeStage::AwaitsOpening,
        };
        Ok(Self {
            stream,
            deadline,
            side,
            retry: None,
            stage,
            nonce,
            secret: None,
            sealing: None,
            agreement: None,
            key_answer: Vec::new(),
            received: Vec::new(),
        })
    }

    /// Whether it has waited too long. Once the other machine has accepted, its process may take as
    /// long as it needs: it may compute, and poll its sockets much later.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let waits_for_machine = self.stage == HandshakeStage::Connecting;
        self.deadline < now && (waits_for_machine || matches!(self.side, AttemptSide::There))
    }

    /// Whether it was initiated here, and the other side must decide whether it becomes a
    /// connection. It may already be one on the other side.
    pub(crate) fn awaits_reply(&self) -> bool {
        self.stage == HandshakeStage::AwaitsReply
    }

    /// Whether it is not yet proven that a process of the job is at the other end.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.stage == HandshakeStage::AwaitsOpening
    }

    /// Advances the attempt, as data may have arrived.
    ///
    /// # Errors
    /// The connection cannot be established, or the other side is not of the job.
    pub(crate) fn go_on(&mut self, agreement: &HandshakeTerms) -> io::Result<AttemptProgress> {
        if self.stage == HandshakeStage::Connecting {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            if self.stream.peer_addr().is_err() {
                return Ok(AttemptProgress::Waits);
            }
            if let AttemptSide::Here { .. } = self.side {
                let HandshakeTerms { secret, to, records, .. } = agreement;
                self.send(&handshake::opening(&secret.secret, *to, *records, &self.nonce))?;
            }
            self.stage = HandshakeStage::AwaitsAnswer;
        }
        if let HandshakeStage::Opened { other } = self.stage {
            let secret = self.secret.unwrap_or(agreement.secret).secret;
            let proof = handshake::answer(&secret, &other, &self.nonce);
            self.answer(agreement, &proof)?;
            self.stage = HandshakeStage::AwaitsClaim { other };
        }
        let of_keys = if self.is_encrypted(agreement) { AGREEMENT_BYTES } else { 0 };
        let wanted = match self.stage {
            HandshakeStage::Connecting
            | HandshakeStage::Opened { .. }
            | HandshakeStage::AwaitsOpening => OPENING_BYTES,
            HandshakeStage::AwaitsAnswer => ANSWER_BYTES,
            HandshakeStage::AwaitsClaim { .. } => CLAIM_BYTES + of_keys,
            HandshakeStage::AwaitsReply => REPLY_BYTES + of_keys,
        };
        if !self.receive(wanted)? {
            return Ok(AttemptProgress::Waits);
        }
        let heard = std::mem::take(&mut self.received);
        self.take(agreement, &heard)
    }

    fn take(&mut self, agreement: &HandshakeTerms, heard: &[u8]) -> io::Result<AttemptProgress> {
        let refused = |why: &str| io::Error::new(ErrorKind::PermissionDenied, why.to_owned());
        let HandshakeTerms { own, to, secret, others, records } = agreement;
        match self.stage {
            HandshakeStage::Connecting | HandshakeStage::Opened { .. } => {}
            HandshakeStage::AwaitsOpening => {
                let (greeting, proof) = heard.split_at(GREETING_BYTES);
                let other = handshake::nonce_of(greeting, *records);
                let opened = other.ok().and_then(|other| {
                    let is_used = |pair: &&PairSecret| {
                        handshake::is_opening(&pair.secret, *own, &other, proof)
                    };
                    Some((other, *[secret].into_iter().chain(others).find(is_used)?))
                });
                let Some((other, secret)) = opened else {
                    if handshake::is_greeting(greeting) {
                        // The other side learns that it has found another job, or another version.
                        let _ = self.answer(agreement, &[0; PROOF_BYTES]);
                    }
                    return Err(refused(STRANGER));
                };
                self.secret = Some(secret);
                self.stage = HandshakeStage::Opened { other };
                return Ok(AttemptProgress::Opened(other));
            }
            HandshakeStage::AwaitsAnswer => {
                let (greeting, proof) = heard.split_at(GREETING_BYTES);
                let other = handshake::nonce_of(greeting, *records).map_err(refused)?;
                if !handshake::is_answer(&secret.secret, &self.nonce, &other, proof) {
                    return Err(refused(STRANGER));
                }
                let AttemptSide::Here { link, .. } = self.side else {
                    return Ok(AttemptProgress::Waits);
                };
                let introduction = ConnectionClaim { from: *own, to: *to, link };
                let claim = handshake::claim(&secret.secret, &self.nonce, &other, introduction);
                let offer = self.key_offer(secret, &other)?;
                self.send(&[&claim[..], &offer].concat())?;
                self.stage = HandshakeStage::AwaitsReply;
            }
            HandshakeStage::AwaitsClaim { other } => {
                let secret = self.secret.unwrap_or(*secret);
                let (claim, offer) = heard.split_at(CLAIM_BYTES);
                let claim = handshake::introduction_of(&secret.secret, &other, &self.nonce, claim);
                let claim = claim.filter(|claim| claim.to == *own);
                let claim = claim.ok_or_else(|| refused(STRANGER))?;
                self.answer_offer(&secret, &other, offer)?;
                return Ok(AttemptProgress::Introduced(claim));
            }
            HandshakeStage::AwaitsReply => {
                let (reply, keys) = heard.split_at(REPLY_BYTES);
                let reply = HandshakeReply::parse(reply);
                let reply = reply.ok_or_else(|| refused("its answer is invalid"))?;
                if reply == HandshakeReply::Welcome {
                    self.finish_agreement(keys)?;
                }
                return Ok(AttemptProgress::Decided(reply));
            }
        }
        Ok(AttemptProgress::Waits)
    }

    /// Whether the connection is encrypted, as far as that is known.
    fn is_encrypted(&self, terms: &HandshakeTerms) -> bool {
        match self.side {
            AttemptSide::Here { .. } => terms.secret.is_encrypted,
            AttemptSide::There => self.secret.is_some_and(|pair| pair.is_encrypted),
        }
    }

    /// Returns the message by which the initiator begins to agree on keys; none for a connection
    /// that is not encrypted.
    fn key_offer(&mut self, pair: &PairSecret, other: &Nonce) -> io::Result<Vec<u8>> {
        if !pair.is_encrypted {
            return Ok(Vec::new());
        }
        let context = [&self.nonce[..], other].concat();
        let mut agreement = KeyAgreement::new(SealingSide::Initiator, &pair.secret, &context);
        let offer = agreement.offer().map_err(refused_keys)?;
        self.agreement = Some(agreement);
        Ok(offer.to_vec())
    }

    fn answer_offer(&mut self, pair: &PairSecret, other: &Nonce, offer: &[u8]) -> io::Result<()> {
        if let Ok(offer) = offer.try_into() {
            let context = [&other[..], &self.nonce].concat();
            let agreement = KeyAgreement::new(SealingSide::Responder, &pair.secret, &context);
            let (answer, sealing) = agreement.answer(offer).map_err(refused_keys)?;
            (self.sealing, self.key_answer) = (Some(sealing), answer.to_vec());
        }
        Ok(())
    }

    fn finish_agreement(&mut self, answer: &[u8]) -> io::Result<()> {
        if let (Some(agreement), Ok(answer)) = (self.agreement.take(), answer.try_into()) {
            self.sealing = Some(agreement.finish(answer).map_err(refused_keys)?);
        }
        Ok(())
    }

    /// Sends the decision about a connection that another process has begun.
    pub(crate) fn reply(&mut self, reply: HandshakeReply) -> io::Result<()> {
        let keys = std::mem::take(&mut self.key_answer);
        self.send(&[&reply.emit()[..], &keys].concat())
    }

    fn answer(&mut self, terms: &HandshakeTerms, proof: &[u8; PROOF_BYTES]) -> io::Result<()> {
        let greeting = handshake::greeting(terms.records, &self.nonce);
        self.send(&[&greeting[..], proof].concat())
    }

    /// Sends bytes that fit into the buffer of a new connection.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads until `wanted` bytes have been received, and no more. False: they have not all
    /// arrived.
    fn receive(&mut self, wanted: usize) -> io::Result<bool> {
        while self.received.len() < wanted {
            let start = self.received.len();
            self.received.resize(wanted, 0);
            let result = self.stream.read(&mut self.received[start..]);
            self.received.truncate(start + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
