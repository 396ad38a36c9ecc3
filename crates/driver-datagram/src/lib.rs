//! The example driver that docs/internals/writing-a-driver.md explains: datagrams over Unix
//! sockets.
//!
//! It connects processes of one machine as if they were on several, so that all layers above can be
//! tested without a network. It is used when the user names it (`COMBRAY_NET=datagram`), between
//! processes with different names of their machine (`COMBRAY_NODE`). Messages of any length go as
//! packets: the driver has no bulk track and no rendezvous.

#![forbid(unsafe_code)]

use std::fmt::Write;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use base::{GateId, PeerTable, RailProfile};
use driver::{Directory, Driver, DriverError, Fill, PeerReach, Secret, Settings, Sink};
use memory::placing::{addresses_of, keep_on_node};

/// The rail to all peers: one socket.
pub struct Datagram {
    own: GateId,
    rails: [RailProfile; 1],
    directory: Box<dyn Directory>,
    socket: UnixDatagram,
    /// Random digits: the name of the socket in the abstract namespace, which ends with the socket.
    card: String,
    /// Indexed by gate.
    peers: PeerTable<DatagramPeer, 8>,
    inbox: Box<[u8]>,
    outbox: Box<[u8]>,
    /// The receiver and the length of the datagram in the outbox, if the kernel has not accepted it
    /// yet.
    held: Option<(GateId, usize)>,
    /// Peers that were found to have ended since the last poll.
    lost: Vec<GateId>,
}

/// The state of a peer.
#[derive(Clone, Default)]
enum DatagramPeer {
    #[default]
    Unknown,
    Connected(SocketAddr),
    /// The peer's socket does not exist any more.
    Gone,
}

/// The driver's name in `COMBRAY_NET`, and the name of its rail.
const NAME: &str = "datagram";

/// The longest packet, in bytes.
const PACKET_BYTES_MAX: usize = 32 << 10;

/// The length of the header of each packet: the secret of the job, and the sender's rank in it.
const HEAD_BYTES: usize = size_of::<Secret>() + size_of::<u32>();

/// The maximal number of datagrams received in one poll, so that all rails get their turn.
const DATAGRAMS_PER_POLL_MAX: usize = 32;

/// Creates the driver of a process, as the table of drivers requires; none if the settings do not
/// name it.
///
/// # Errors
/// The system refuses the socket.
pub fn open(
    own: GateId,
    settings: &Settings,
    directory: Box<dyn Directory>,
) -> Result<Option<Box<dyn Driver>>, DriverError> {
    if !settings.networks.split(',').any(|network| network.trim() == NAME) {
        return Ok(None);
    }
    let error =
        |cause| DriverError { message: format!("no datagram socket can be created: {cause}") };
    Ok(Some(Box::new(Datagram::create(own, directory).map_err(error)?)))
}

impl Datagram {
    fn create(own: GateId, directory: Box<dyn Directory>) -> io::Result<Self> {
        let mut digits = [0; 16];
        sys::random::fill(&mut digits)?;
        let card = digits.iter().fold(String::new(), |mut card, byte| {
            // Writing to a string cannot fail.
            let _ = write!(card, "{byte:02x}");
            card
        });
        let socket = UnixDatagram::bind_addr(&address(&card)?)?;
        socket.set_nonblocking(true)?;
        let profile = RailProfile {
            name: NAME.into(),
            packet_bytes_max: PACKET_BYTES_MAX,
            eager_bytes_max: PACKET_BYTES_MAX / 2,
            fetch_segment_bytes_min: 0,
            latency_ns: 3_000,
            bandwidth_bytes_per_us: 1_000,
            packet_ns: 2_000,
            bulk: false,
            pushed_bytes: 0..0,
        };
        Ok(Self {
            own,
            rails: [profile],
            directory,
            socket,
            card,
            peers: PeerTable::default(),
            inbox: vec![0; HEAD_BYTES + PACKET_BYTES_MAX].into(),
            outbox: vec![0; HEAD_BYTES + PACKET_BYTES_MAX].into(),
            held: None,
            lost: Vec::new(),
        })
    }

    fn peer(&mut self, gate: GateId) -> &mut DatagramPeer {
        self.peers.entry(gate.0, || DatagramPeer::Unknown)
    }

    /// Sends the held datagram, if the kernel accepts it now.
    fn send_held(&mut self) {
        let Some((gate, length)) = self.held else { return };
        let Some(DatagramPeer::Connected(address)) = self.peers.get(gate.0) else {
            self.held = None;
            return;
        };
        match self.socket.send_to_addr(&self.outbox[..length], address) {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => {
                self.held = None;
                *self.peer(gate) = DatagramPeer::Gone;
                self.lost.push(gate);
            }
            Ok(_) => self.held = None,
        }
    }

    /// Receives the next datagram; returns whether there was one. Datagrams that are not of the job
    /// are dropped.
    fn receive(&mut self, sink: &mut dyn Sink) -> bool {
        let Ok(length) = self.socket.recv(&mut self.inbox) else { return false };
        // The secret proves that the datagram comes from the job.
        let Ok(secret) = self.directory.secret() else { return true };
        let datagram = &self.inbox[..length];
        let Some((head, packet)) = datagram.split_at_checked(HEAD_BYTES) else { return true };
        let (proof, sender) = head.split_at(secret.len());
        if proof == secret
            && let Ok(sender) = sender.try_into()
        {
            sink.packet(GateId(u32::from_le_bytes(sender)), 0, packet.into());
        }
        true
    }
}

impl Driver for Datagram {
    fn rails(&self) -> &[RailProfile] {
        &self.rails
    }

    fn card(&self) -> String {
        self.card.clone()
    }

    fn keep_buffers_on(&mut self, node: u32) {
        for buffer in [&self.inbox, &self.outbox] {
            keep_on_node(addresses_of(buffer), node);
        }
    }

    fn connect(&mut self, gate: GateId) -> Result<PeerReach, DriverError> {
        self.directory.secret()?;
        let card = self.directory.card(gate)?;
        let error = |cause| DriverError {
            message: format!("\"{card}\" is not the address of a socket: {cause}"),
        };
        *self.peer(gate) = DatagramPeer::Connected(address(&card).map_err(error)?);
        Ok(PeerReach { rails: vec![0], fetches: false })
    }

    fn has_room(&self, _gate: GateId, _rail: usize) -> bool {
        self.held.is_none()
    }

    fn post_packet(&mut self, gate: GateId, _rail: usize, length: usize, fill: Fill<'_>) -> bool {
        match self.peer(gate) {
            DatagramPeer::Connected(_) => {}
            DatagramPeer::Unknown => return false,
            DatagramPeer::Gone => {
                self.lost.push(gate);
                return false;
            }
        }
        if self.held.is_some() {
            return false;
        }
        let Ok(secret) = self.directory.secret() else { return false };
        let (head, rest) = self.outbox.split_at_mut(HEAD_BYTES);
        let (proof, sender) = head.split_at_mut(size_of::<Secret>());
        proof.copy_from_slice(&secret);
        sender.copy_from_slice(&self.own.0.to_le_bytes());
        fill((&mut rest[..length]).into());
        self.held = Some((gate, HEAD_BYTES + length));
        self.send_held();
        true
    }

    fn poll(&mut self, sink: &mut dyn Sink) -> bool {
        let before = self.held;
        self.send_held();
        let mut active = self.held != before;
        for gate in self.lost.drain(..) {
            let message = "over datagrams: the socket of the other process is closed".to_owned();
            sink.lost(gate, 0, DriverError { message });
            active = true;
        }
        let received = (0..DATAGRAMS_PER_POLL_MAX).take_while(|_| self.receive(sink)).count();
        active || received > 0
    }

    fn is_flushed(&self) -> bool {
        self.held.is_none()
    }

    fn give_up(&mut self, gate: GateId, _rail: usize) {
        *self.peer(gate) = DatagramPeer::Gone;
        self.held = self.held.filter(|(to, _)| *to != gate);
        self.lost.retain(|lost| *lost != gate);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn has_departed(&self, gate: GateId) -> bool {
        matches!(self.peers.get(gate.0), Some(DatagramPeer::Gone))
    }
}

/// Returns the address of the process that published this card.
fn address(card: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("combray-{card}"))
}
