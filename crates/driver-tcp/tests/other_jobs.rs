//! Processes of different jobs, which identify each other by gates that differ from their ranks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base::GateId;
use driver::conformance::{self, RecordingSink};
use driver::{Directory, Driver, DriverError, JobPair, PairSecret, Secret, SharedBytesMut};
use driver_tcp::{NetworkSelection, Options, Tcp};

/// The cards of all processes, by the number of the process in the test.
type Cards = Arc<Mutex<Vec<String>>>;

/// A directory of a process that has no peers but those of other jobs.
struct Strangers {
    cards: Cards,
    /// Each peer: the gate, the number of its card, and how both identify each other.
    peers: Vec<(GateId, usize, JobPair)>,
}

impl Directory for Strangers {
    fn card(&mut self, gate: GateId) -> Result<String, DriverError> {
        let found = self.peers.iter().find(|peer| peer.0 == gate);
        let (_, card, _) = found.ok_or(DriverError { message: "no such peer".into() })?;
        Ok(self.cards.lock().unwrap()[*card].clone())
    }

    fn secret(&mut self) -> Result<Secret, DriverError> {
        Ok([9; 32])
    }

    fn between_jobs(&mut self, gate: GateId) -> Option<JobPair> {
        self.peers.iter().find(|peer| peer.0 == gate).map(|peer| peer.2)
    }

    fn other_secrets(&mut self) -> Vec<PairSecret> {
        self.peers.iter().map(|peer| peer.2.secret).collect()
    }
}

/// Between processes with secrets from this number on, everything is encrypted.
const ENCRYPTED: u8 = 100;

fn pair_of(own_gate: u32, peer_rank: u32, secret: u8, comes_first: bool) -> JobPair {
    let secret = PairSecret { secret: [secret; 32], is_encrypted: secret >= ENCRYPTED };
    JobPair { own_gate: GateId(own_gate), peer_rank, secret, comes_first }
}

fn process(cards: &Cards, rank: u32, peers: Vec<(GateId, usize, JobPair)>) -> Tcp {
    let options = Options {
        selection: NetworkSelection::parse("lo").unwrap(),
        records: 1,
        silence: Duration::from_secs(10),
    };
    let directory = Strangers { cards: Arc::clone(cards), peers };
    let tcp = Tcp::create(GateId(rank), options, Box::new(directory)).unwrap();
    cards.lock().unwrap().push(tcp.card());
    tcp
}

#[test]
fn processes_of_two_jobs_conform() {
    conform(7);
}

#[test]
fn processes_that_encrypt_conform() {
    conform(ENCRYPTED);
}

fn conform(secret: u8) {
    let cards = Cards::default();
    // Rank 0 names the other process by gate 1; rank 3 of the other job names it by gate 0.
    let mut one = process(&cards, 0, vec![(GateId(1), 1, pair_of(0, 3, secret, true))]);
    let mut two = process(&cards, 3, vec![(GateId(0), 0, pair_of(1, 0, secret, false))]);
    one.connect(GateId(1)).unwrap();
    two.connect(GateId(0)).unwrap();
    conformance::packets(&mut one, Some(&mut two), GateId(0));
    conformance::packets(&mut two, Some(&mut one), GateId(1));
    assert_eq!((one.refused(), two.refused()), (0, 0));
}

#[test]
fn a_process_of_a_job_does_not_pass_for_one_of_another() {
    let cards = Cards::default();
    // Two jobs are connected with the victim, under secrets of their own, at gates 0 and 1.
    let peers =
        vec![(GateId(0), 1, pair_of(4, 0, 7, true)), (GateId(1), 2, pair_of(5, 0, 8, true))];
    let mut victim = process(&cards, 3, peers);
    let mut liar = process(&cards, 0, vec![(GateId(1), 0, pair_of(1, 3, 7, false))]);
    // It has the secret of gate 0, and claims to be gate 1.
    liar.connect(GateId(1)).unwrap();
    let (mut first, mut second) = (RecordingSink::default(), RecordingSink::default());
    let start = Instant::now();
    while victim.refused() == 0 {
        victim.poll(&mut first);
        liar.poll(&mut second);
        assert!(start.elapsed() < Duration::from_secs(30), "the claim was not refused");
    }
    assert!(!victim.reaches(GateId(1), 0) && !liar.reaches(GateId(1), 0));
}

/// What something between two processes does to the bytes behind a place.
#[derive(Clone, Copy, Debug)]
enum Tampering {
    Flip,
    Repeat,
    LeaveOut,
    Cut,
}

/// Passes the bytes of one direction, but for one read behind `place`.
fn pass(mut from: TcpStream, mut to: TcpStream, tampering: Option<(Tampering, usize)>) {
    let (mut passed, mut is_done) = (0, false);
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut sent = bytes[..count].to_vec();
        if let Some((what, place)) = tampering
            && !is_done
            && passed >= place
        {
            is_done = true;
            match what {
                Tampering::Flip => sent[count / 2] ^= 4,
                Tampering::Repeat => sent.extend_from_slice(&bytes[..count]),
                Tampering::LeaveOut => continue,
                Tampering::Cut => {
                    _ = to.write_all(&sent[..count / 2]);
                    _ = to.shutdown(std::net::Shutdown::Both);
                    return;
                }
            }
        }
        passed += count;
        if to.write_all(&sent).is_err() {
            return;
        }
    }
    _ = to.shutdown(std::net::Shutdown::Write);
}

/// Accepts one connection, and passes it on. One direction is tampered with.
fn stand_between(to: SocketAddr, tampering: (Tampering, usize), is_back: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    thread::spawn(move || {
        let Ok((near, _)) = listener.accept() else { return };
        let far = TcpStream::connect(to).unwrap();
        let (back, there) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        let of = |is_it: bool| is_it.then_some(tampering);
        let (first, second) = (of(!is_back), of(is_back));
        thread::spawn(move || pass(near, far, first));
        pass(back, there, second);
    });
    place
}

/// Exchanges packets through something that tampers with them. Returns whether each of the two
/// processes has noticed it.
fn exchange(tampering: (Tampering, usize), is_back: bool) -> [bool; 2] {
    let cards = Cards::default();
    let mut one = process(&cards, 0, vec![(GateId(1), 1, pair_of(0, 3, ENCRYPTED, true))]);
    let mut two = process(&cards, 3, vec![(GateId(0), 0, pair_of(1, 0, ENCRYPTED, false))]);
    let card = cards.lock().unwrap()[1].clone();
    let address = card.split([',', '/']).nth(2).unwrap();
    let between = stand_between(address.parse().unwrap(), tampering, is_back);
    cards.lock().unwrap()[1] = card.replace(address, &between.to_string());
    one.connect(GateId(1)).unwrap();
    let (mut first, mut second) = (RecordingSink::default(), RecordingSink::default());
    let (start, mut sent) = (Instant::now(), [0_u32; 2]);
    while first.lost.is_empty() && second.lost.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "{tampering:?} was not noticed");
        for (side, gate, place) in [(&mut one, GateId(1), 0), (&mut two, GateId(0), 1)] {
            // A sender whose peer reads nothing of it is not stopped by this test.
            if sent[place] < 10_000 && side.reaches(gate, 0) && side.has_room(gate, 0) {
                let word = sent[place].to_le_bytes();
                let data = word.repeat(25);
                let fill = &mut |to: SharedBytesMut<'_>| to.copy_from(&data[..]);
                sent[place] += u32::from(side.post_packet(gate, 0, 100, fill));
            }
        }
        one.poll(&mut first);
        two.poll(&mut second);
    }
    for sink in [&first, &second] {
        for (number, (_, packet)) in sink.packets.iter().enumerate() {
            let expected = (number as u32).to_le_bytes().repeat(25);
            assert!(*packet == expected, "{tampering:?} packet {number}");
        }
    }
    [one.was_tampered_with(GateId(1)), two.was_tampered_with(GateId(0))]
}

#[test]
fn tampering_with_encrypted_packets_is_noticed_by_their_receiver() {
    // The handshake has 160 bytes from the first process, and 120 back.
    for place in [200, 5000, 90_000] {
        for what in [Tampering::Flip, Tampering::Repeat, Tampering::LeaveOut] {
            assert_eq!(exchange((what, place), false), [false, true], "{what:?} {place}");
            assert_eq!(exchange((what, place), true), [true, false], "{what:?} {place}");
        }
        // A connection that is cut is one that the network has lost.
        assert_eq!(exchange((Tampering::Cut, place), false), [false, false]);
    }
}

#[test]
fn tampering_with_the_agreement_on_keys_makes_no_connection() {
    for (place, is_back) in [(64, false), (64, true)] {
        assert_eq!(exchange((Tampering::Flip, place), is_back), [false, false]);
    }
}
