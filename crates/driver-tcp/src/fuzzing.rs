//! The fuzz targets of connections.

use std::io::ErrorKind;

use base::GateId;
use driver::conformance::{BoundedSink, check_card};

use crate::card::AddressCard;
use crate::connection::{INBOX_BYTES, ReadOutcome, TcpConnection};
use crate::faulty;
use crate::handshake::{
    self, CLAIM_BYTES, GREETING_BYTES, HandshakeReply, PROOF_BYTES, REPLY_BYTES,
};
use crate::sealed::{SealedStream, sealing_pair};
use crate::stream::ByteStream;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Receives these bytes over a connection, split at the position in the first byte.
pub fn frames(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let (near, far) = faulty::pair(usize::MAX);
    near.write(bytes).expect("there is room");
    far.deliver_in_pieces(&[usize::from(cut)]);
    drop(near);
    let mut connection = TcpConnection::new(far, GateId(0), 0);
    let mut inbox = vec![0; INBOX_BYTES];
    loop {
        match connection.receive(&mut inbox, &mut BoundedSink) {
            Ok(ReadOutcome::Nothing | ReadOutcome::Something) => {}
            Ok(ReadOutcome::Instead(_)) => unreachable!("nothing was arriving on another rail"),
            Err(error) => {
                let known = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof];
                assert!(known.contains(&error.kind()), "{error}");
                return;
            }
        }
    }
}

/// Receives over an encrypted stream what these bytes describe: whole records of the other end, and
/// bytes of nobody. Each step has a byte with its kind and length, and what is sealed or sent.
/// Nothing arrives but what came before the first byte of nobody.
pub fn records(bytes: &[u8]) {
    let Some((&cut, mut rest)) = bytes.split_first() else { return };
    let (near, far) = faulty::pair(usize::MAX);
    let [mut own, other] = sealing_pair();
    let (mut expected, mut is_changed) = (Vec::new(), false);
    while let Some((&step, after)) = rest.split_first() {
        let (content, after) = after.split_at(after.len().min(usize::from(step >> 1)));
        rest = after;
        if step & 1 == 0 {
            let mut record = Vec::new();
            own.seal(content, &mut record);
            near.write(&record).expect("there is room");
            expected.extend_from_slice(if is_changed { &[] } else { content });
        } else if !content.is_empty() {
            near.write(content).expect("there is room");
            is_changed = true;
        }
    }
    far.deliver_in_pieces(&[usize::from(cut)]);
    drop(near);
    let stream = SealedStream::new(far, other);
    let (mut received, mut into) = (Vec::new(), vec![0; 1 + usize::from(cut)]);
    let error = loop {
        match stream.read(&mut into) {
            Ok(count) => received.extend_from_slice(&into[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => break error,
        }
    };
    assert!(expected.starts_with(&received), "{received:?} in place of {expected:?}");
    let has_all = received.len() == expected.len() && error.kind() == ErrorKind::UnexpectedEof;
    assert!(has_all || is_changed, "{} of {} bytes, {error}", received.len(), expected.len());
}

/// Reads greeting, claim, reply and card. No sender without the secret may be accepted.
pub fn handshake(bytes: &[u8]) {
    if let Some(greeting) = bytes.first_chunk::<GREETING_BYTES>() {
        let nonce = handshake::nonce_of(greeting, 1);
        assert!(nonce.is_err() || handshake::greeting(1, &nonce.unwrap_or_default()) == *greeting);
    }
    if let Some(claim) = bytes.first_chunk::<CLAIM_BYTES>() {
        let (secret, first, second) = ([3; 32], [1; 16], [2; 16]);
        assert_eq!(handshake::introduction_of(&secret, &first, &second, claim), None);
        assert!(!handshake::is_answer(&secret, &first, &second, &claim[..PROOF_BYTES]));
    }
    if let Some(reply) = bytes.first_chunk::<REPLY_BYTES>() {
        let parsed = HandshakeReply::parse(reply);
        assert!(parsed.is_none_or(|parsed| parsed.emit() == *reply));
    }
    check_card::<AddressCard>(bytes);
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("tcp_frames", frames);
    replay::replay("tcp_handshake", handshake);
    replay::replay("tcp_records", records);
}
