//! Encrypted streams over a network that tears, changes, repeats and leaves out bytes.

use super::*;
use crate::faulty::{Faulty, pair};

/// One process, something between, and the other process.
struct Way {
    here: SealedStream<Faulty>,
    middle: [Faulty; 2],
    there: SealedStream<Faulty>,
}

fn way() -> Way {
    let ((here, from), (to, there)) = (pair(1 << 20), pair(1 << 20));
    let [one, other] = sealing_pair();
    let (here, there) = (SealedStream::new(here, one), SealedStream::new(there, other));
    Way { here, middle: [from, to], there }
}

impl Way {
    /// Takes what has been sent, for the middle.
    fn taken(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let count = self.middle[0].read(&mut bytes).unwrap_or(0);
        bytes.truncate(count);
        bytes
    }
}

/// Reads until nothing is left; returns what was read, and the error if there was one.
fn read_all(from: &SealedStream<Faulty>, rng: &mut fastrand::Rng) -> (Vec<u8>, Option<io::Error>) {
    let mut all = Vec::new();
    loop {
        let mut pieces = [vec![0; rng.usize(1..5000)], vec![0; rng.usize(..40)]];
        let asked: usize = pieces.iter().map(Vec::len).sum();
        let [one, two] = &mut pieces;
        let read = from.read_vectored(&mut [IoSliceMut::new(one), IoSliceMut::new(two)]);
        match read {
            Ok(count) => {
                assert!(count == asked || !from.holds_bytes(), "it is not reported again");
                all.extend(pieces.concat().iter().take(count));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

/// Writes bytes as a connection does: what was not taken is offered again.
fn write(to: &SealedStream<Faulty>, mut bytes: &[u8], mut between: impl FnMut()) {
    while !bytes.is_empty() {
        let (one, two) = bytes.split_at(bytes.len().min(32));
        match to.write_vectored(&[IoSlice::new(one), IoSlice::new(two)]) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        between();
    }
}

#[test]
fn bytes_arrive_in_order_through_little_room_and_in_pieces() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (near, far) = pair([50, 3000, 100_000][rng.usize(..3)]);
        let most = [9, 700, 200_000][rng.usize(..3)];
        near.tear([(); 2].map(|()| -> Box<dyn FnMut() -> usize + Send> {
            let mut own = rng.fork();
            Box::new(move || own.usize(0..=most))
        }));
        let [one, other] = sealing_pair();
        let (near, far) = (SealedStream::new(near, one), SealedStream::new(far, other));
        let longest = [100, 3000, 300_000][rng.usize(..3)];
        let length = rng.usize(1..longest);
        let sent: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        let mut received = Vec::new();
        let mut readers = rng.fork();
        write(&near, &sent, || received.extend(read_all(&far, &mut readers).0));
        while far.stream.has_more() {
            received.extend(read_all(&far, &mut readers).0);
        }
        assert!(received == sent, "seed {seed}");
        let state = far.state.lock();
        let kept = state.incoming.capacity() + state.content.capacity();
        let kept = kept + near.state.lock().out.capacity();
        assert!(kept <= 3 * KEPT_BYTES_MAX, "an idle stream keeps {kept} bytes");
    }
}

/// Something between flips a bit, repeats, leaves out, exchanges or cuts what was sent, at a random
/// place: the other process gets what was sent before that place, then an error or nothing.
#[test]
fn what_is_changed_on_the_way_never_arrives() {
    let (mut errors, mut cases) = (0, 0);
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let way = way();
        let messages: Vec<Vec<u8>> = (0..6).map(|at| vec![at; rng.usize(1..2000)]).collect();
        let mut records: Vec<Vec<u8>> = Vec::new();
        for message in &messages {
            write(&way.here, message, || {});
            records.push(way.taken());
        }
        let place = rng.usize(..records.len() - 1);
        match rng.u8(..5) {
            0 => {
                let (byte, bit) = (rng.usize(..records[place].len()), rng.u8(..8));
                records[place][byte] ^= 1 << bit;
            }
            1 => records.insert(place + 1, records[place].clone()),
            2 => drop(records.remove(place)),
            3 => records.swap(place, place + 1),
            _ => records[place].truncate(rng.usize(..30).min(messages[place].len())),
        }
        for record in &records {
            way.middle[1].write(record).unwrap_or(0);
        }
        let (received, error) = read_all(&way.there, &mut rng);
        let sent = messages.concat();
        assert!(received.len() < sent.len() && sent.starts_with(&received), "seed {seed}");
        // A changed length makes the stream wait for more bytes.
        if let Some(error) = error {
            assert!(is_tampering(&error), "{error}");
            assert!(way.there.holds_bytes(), "it stays noticed");
            errors += 1;
        }
        cases += 1;
    }
    assert!(errors * 10 >= cases * 9, "{errors} of {cases}");
}

/// The end of a connection that something between has closed is no orderly end: that is a message
/// inside of the stream.
#[test]
fn a_stream_that_is_cut_ends_without_the_last_bytes() {
    let way = way();
    write(&way.here, b"whole", || {});
    way.middle[1].write(&way.taken()).unwrap();
    write(&way.here, b"cut", || {});
    let cut = way.taken();
    way.middle[1].write(&cut[..cut.len() - 1]).unwrap();
    drop(way.middle);
    let mut into = [0; 100];
    assert_eq!(way.there.read(&mut into).unwrap(), 5);
    assert_eq!(way.there.read(&mut into).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}
