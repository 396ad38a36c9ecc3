//! Tests connections from outside of the job, and their effect on its processes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use base::GateId;
use driver::Driver;
use driver::conformance::{self, RecordingSink, SharedCards};
use driver_tcp::{AddressCard, NetworkSelection, Options, Tcp};

/// The processes of a job, by the cards that they have published.
#[derive(Default)]
struct Job(SharedCards);

impl Job {
    fn driver(&self, own: u32) -> Tcp {
        let selection = NetworkSelection::parse("lo").unwrap();
        let options = Options { selection, records: 1, silence: Duration::from_secs(10) };
        let tcp = Tcp::create(GateId(own), options, Box::new(self.0.clone())).unwrap();
        self.0.0.lock().unwrap().push(tcp.card());
        tcp
    }

    fn address(&self, of: usize) -> SocketAddr {
        self.0.0.lock().unwrap()[of].parse::<AddressCard>().unwrap().ends[0].address
    }

    /// From now on, the card of a process has another address.
    fn move_to(&self, of: usize, address: SocketAddr) {
        let mut cards = self.0.0.lock().unwrap();
        let mut card: AddressCard = cards[of].parse().unwrap();
        card.ends[0].address = address;
        cards[of] = card.to_string();
    }
}

/// More connections than a process keeps unauthenticated.
const MANY: usize = 200;
/// The maximal number that it keeps.
const UNAUTHENTICATED_MAX: usize = 32;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Whether the other side has ended a connection without having sent anything.
fn is_ended(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

fn poll_until(driver: &mut Tcp, what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        driver.poll(&mut RecordingSink::default());
        assert!(start.elapsed() < TIMEOUT, "{what}");
    }
}

#[test]
fn silent_connections_are_few_and_keep_no_peer_out() {
    let job = Job::default();
    let (mut one, mut two) = (job.driver(0), job.driver(1));
    let silent: Vec<_> = (0..MANY).map(|_| TcpStream::connect(job.address(0)).unwrap()).collect();
    poll_until(&mut one, "too many are kept", || {
        silent.iter().filter(|stream| !is_ended(stream)).count() <= UNAUTHENTICATED_MAX
    });
    assert!(!is_ended(silent.last().unwrap()), "the youngest stay");
    two.connect(GateId(0)).unwrap();
    conformance::packets(&mut two, Some(&mut one), GateId(1));
}

#[test]
fn a_peer_connects_during_a_flood_of_connections() {
    let job = Job::default();
    let (mut one, mut two) = (job.driver(0), job.driver(1));
    let address = job.address(0);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let flood = thread::spawn(move || {
        let mut kept = std::collections::VecDeque::new();
        let mut count = 0;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let Ok(mut stream) = TcpStream::connect(address) else { continue };
            if count % 2 == 0 {
                let _ = stream.write_all(&[b'x'; 100]);
            }
            kept.push_back(stream);
            if kept.len() > MANY {
                kept.pop_front();
            }
            count += 1;
        }
        count
    });
    two.connect(GateId(0)).unwrap();
    for _ in 0..5 {
        conformance::packets(&mut two, Some(&mut one), GateId(1));
    }
    stop.send(()).unwrap();
    assert!(flood.join().unwrap() > 0);
}

/// Records the first message of a process to another one.
fn recorded_opening(job: &Job, to: usize) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let real = job.address(to);
    job.move_to(to, listener.local_addr().unwrap());
    let mut peer = job.driver(1);
    peer.connect(GateId(to as u32)).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut opening = [0; 64];
    let mut heard = 0;
    poll_until(&mut peer, "it says nothing", || {
        heard += stream.read(&mut opening[heard..]).unwrap_or(0);
        heard == opening.len()
    });
    job.move_to(to, real);
    opening.to_vec()
}

#[test]
fn an_opening_that_has_arrived_is_read_before_its_connection_is_closed() {
    let job = Job::default();
    let mut one = job.driver(0);
    let opening = recorded_opening(&job, 0);
    let mut late = TcpStream::connect(job.address(0)).unwrap();
    let mut garbage = TcpStream::connect(job.address(0)).unwrap();
    garbage.write_all(&[b'x'; 100]).unwrap();
    poll_until(&mut one, "both are accepted", || is_ended(&garbage));
    assert!(!is_ended(&late));
    // The process sees the connections first, and then what the old one has sent.
    let _strangers: Vec<_> =
        (0..MANY).map(|_| TcpStream::connect(job.address(0)).unwrap()).collect();
    late.write_all(&opening).unwrap();
    let mut answer = [0; 64];
    poll_until(&mut one, "no answer", || match late.read(&mut answer) {
        Ok(count) => {
            assert!(count > 0, "it is closed");
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    });
}

#[test]
fn what_was_recorded_of_a_handshake_is_answered_once() {
    let job = Job::default();
    let mut one = job.driver(0);
    let opening = recorded_opening(&job, 0);
    let mut answers = 0;
    for _ in 0..5 {
        let mut stream = TcpStream::connect(job.address(0)).unwrap();
        stream.write_all(&opening).unwrap();
        stream.set_nonblocking(true).unwrap();
        poll_until(&mut one, "neither answer nor end", || match stream.read(&mut [0; 64]) {
            Ok(count) => {
                answers += usize::from(count > 0);
                true
            }
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        });
    }
    assert_eq!(answers, 1);
}

/// Forwards what arrives until one side has ended.
fn relay(one: TcpStream, other: TcpStream) {
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        })
    };
    pass(one.try_clone().unwrap(), other.try_clone().unwrap());
    pass(other, one);
}

#[test]
fn a_handshake_that_was_ended_begins_again() {
    let job = Job::default();
    let mut one = job.driver(0);
    let (listener, real) = (TcpListener::bind("127.0.0.1:0").unwrap(), job.address(0));
    job.move_to(0, listener.local_addr().unwrap());
    let mut two = job.driver(1);
    let listening = thread::spawn(move || {
        for _ in 0..6 {
            drop(listener.accept().unwrap());
        }
        relay(listener.accept().unwrap().0, TcpStream::connect(real).unwrap());
    });
    two.connect(GateId(0)).unwrap();
    conformance::packets(&mut two, Some(&mut one), GateId(1));
    listening.join().unwrap();
}
