#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::fmt;

use snow::{Builder, HandshakeState, TransportState};

/// The pattern, by the names of the Noise framework.
const PROTOCOL: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// The length of the message that each process sends to agree on keys, in bytes: a public key, and
/// a tag.
pub const AGREEMENT_BYTES: usize = 48;

/// The number of bytes that a record carries, at most.
pub const CONTENT_BYTES_MAX: usize = 32 << 10;

/// The number of bytes before the content of a record.
const HEAD_BYTES: usize = 2;

/// The number of bytes behind the content of a record.
const TAG_BYTES: usize = 16;

/// The number of bytes that a record has in addition to its content.
pub const RECORD_OVERHEAD: usize = HEAD_BYTES + TAG_BYTES;

/// How many records of one direction one key is used for. With full records these are 32 GiB, less
/// than the 388 GB after which TLS 1.3 replaces a key of AES-GCM (RFC 8446, section 5.5).
const RECORDS_OF_KEY: u64 = 1 << 20;

/// What the peer has sent was not made by a process with the secret, or was changed, repeated or
/// left out on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tampered;

impl fmt::Display for Tampered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("encrypted data was changed, repeated or left out on its way")
    }
}

impl std::error::Error for Tampered {}

/// Which process sends the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealingSide {
    /// It sends the offer.
    Initiator,
    /// It answers.
    Responder,
}

/// The agreement of two processes on keys.
pub struct KeyAgreement(HandshakeState);

/// One end of an encrypted stream. It needs no system and no clock.
pub struct Sealing {
    transport: TransportState,
    sealed: u64,
    opened: u64,
}

impl KeyAgreement {
    /// Begins to agree on keys. Both processes must have the secret, and name the `context`, which
    /// is what else they have agreed on before.
    ///
    /// # Panics
    /// Never: the protocol is fixed, and the secret has the length that it requires.
    pub fn new(side: SealingSide, secret: &[u8; 32], context: &[u8]) -> Self {
        let protocol = PROTOCOL.parse().expect("the name of the protocol is right");
        let builder = Builder::new(protocol).psk(0, secret).and_then(|it| it.prologue(context));
        let begun = builder.and_then(|builder| match side {
            SealingSide::Initiator => builder.build_initiator(),
            SealingSide::Responder => builder.build_responder(),
        });
        Self(begun.expect("the protocol needs a secret of 32 bytes, and nothing else"))
    }

    /// Returns the message of the initiator.
    ///
    /// # Errors
    /// The system has no random numbers, or an offer was made before.
    pub fn offer(&mut self) -> Result<[u8; AGREEMENT_BYTES], Tampered> {
        let mut offer = [0; AGREEMENT_BYTES];
        self.0.write_message(&[], &mut offer).map_err(|_| Tampered)?;
        Ok(offer)
    }

    /// Takes the offer, and returns the message of the responder with its end of the stream.
    ///
    /// # Errors
    /// The offer was not made with the secret and in this context.
    pub fn answer(
        mut self,
        offer: &[u8; AGREEMENT_BYTES],
    ) -> Result<([u8; AGREEMENT_BYTES], Sealing), Tampered> {
        self.0.read_message(offer, &mut []).map_err(|_| Tampered)?;
        let mut answer = [0; AGREEMENT_BYTES];
        self.0.write_message(&[], &mut answer).map_err(|_| Tampered)?;
        Ok((answer, self.into_sealing()?))
    }

    /// Takes the answer, and returns the end of the initiator.
    ///
    /// # Errors
    /// The answer was not made with the secret, in this context and for this offer.
    pub fn finish(mut self, answer: &[u8; AGREEMENT_BYTES]) -> Result<Sealing, Tampered> {
        self.0.read_message(answer, &mut []).map_err(|_| Tampered)?;
        self.into_sealing()
    }

    fn into_sealing(self) -> Result<Sealing, Tampered> {
        let transport = self.0.into_transport_mode().map_err(|_| Tampered)?;
        Ok(Sealing { transport, sealed: 0, opened: 0 })
    }
}

impl Sealing {
    /// Appends a record with this content to `out`.
    ///
    /// # Panics
    /// If the content is longer than [`CONTENT_BYTES_MAX`].
    pub fn seal(&mut self, content: &[u8], out: &mut Vec<u8>) {
        assert!(content.len() <= CONTENT_BYTES_MAX, "a record of {} bytes", content.len());
        let (start, length) = (out.len(), content.len() + TAG_BYTES);
        out.resize(start + HEAD_BYTES + length, 0);
        let (head, rest) = out[start..].split_at_mut(HEAD_BYTES);
        head.copy_from_slice(&(length as u16).to_le_bytes());
        // Fails after 2^64 records only.
        self.transport.write_message(content, rest).expect("a record can be sealed");
        self.sealed += 1;
        if self.sealed.is_multiple_of(RECORDS_OF_KEY) {
            self.transport.rekey_outgoing();
        }
    }

    /// Opens a record, with its head, into `content`, which has the
    /// [right length](content_bytes) or is longer.
    ///
    /// # Errors
    /// It is not the next record of the other end.
    pub fn open(&mut self, record: &[u8], content: &mut [u8]) -> Result<(), Tampered> {
        if record_bytes(record)? != Some(record.len()) {
            return Err(Tampered);
        }
        let room = content.get_mut(..content_bytes(record.len())).ok_or(Tampered)?;
        self.transport.read_message(&record[HEAD_BYTES..], room).map_err(|_| Tampered)?;
        self.opened += 1;
        if self.opened.is_multiple_of(RECORDS_OF_KEY) {
            self.transport.rekey_incoming();
        }
        Ok(())
    }
}

/// Returns the length of the record that begins with these bytes, with its head; `None` if it is
/// not here completely.
///
/// # Errors
/// No record has this length.
pub fn record_bytes(bytes: &[u8]) -> Result<Option<usize>, Tampered> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let sealed = usize::from(u16::from_le_bytes(*head));
    if !(TAG_BYTES..=CONTENT_BYTES_MAX + TAG_BYTES).contains(&sealed) {
        return Err(Tampered);
    }
    let length = HEAD_BYTES + sealed;
    Ok((length <= bytes.len()).then_some(length))
}

/// Returns the number of bytes that a record of this length carries.
pub fn content_bytes(record: usize) -> usize {
    record.saturating_sub(RECORD_OVERHEAD)
}

impl fmt::Debug for KeyAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyAgreement")
    }
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealing({} records sealed, {} opened)", self.sealed, self.opened)
    }
}

#[cfg(test)]
mod tests;
