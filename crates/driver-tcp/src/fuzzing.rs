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
}
