//! The sockets of one interface, and how frames are sent through them.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use driver::LifePort;
use sys::forks;
use sys::packets::{self, ETHERNET_BYTES, FRAMES_AT_ONCE_MAX, FrameClass, FrameFilter};

use crate::frame::{COVERED_BYTES, ETHER_TYPE, FrameHeader, HEAD_BYTES};
use crate::interfaces::{EtherInterface, MacAddress};
use crate::link::LinkRoom;
use crate::seal::Seal;
use crate::transmitter::{PieceBytes, Transmitter};

/// The sockets of a process on an interface.
#[derive(Debug)]
pub(crate) struct Port {
    pub interface: EtherInterface,
    pub endpoint: u32,
    pub slot: u8,
    /// The sockets for urgent frames, which wake a sleeping process, and for bulk frames.
    pub urgent: OwnedFd,
    pub bulk: OwnedFd,
    /// How many bytes of frames may wait at each socket, as the kernel counts.
    pub urgent_room: usize,
    pub bulk_room: usize,
    /// The UDP port by which the kernel shows peers that this process exists. It is kept when the
    /// interface is replaced, as peers have its number.
    pub life: Option<LifePort>,
    /// Whether the interface has gone down, or may have another address, and was not seen up since.
    pub is_down: bool,
}

/// The capacity of the sockets in bytes: twice the maximal number of pieces in flight, of maximal
/// length.
pub(crate) const BULK_ROOM: usize = 8 << 20;
pub(crate) const URGENT_ROOM: usize = 2 << 20;

/// The slot where none are assigned, as each process opens its own sockets.
pub(crate) const NO_SLOT: u8 = 0;

/// Opens the sockets for an endpoint of an interface: for urgent frames, and for bulk frames.
///
/// # Errors
/// The system's; `PermissionDenied` without the capability CAP_NET_RAW.
pub(crate) fn open_sockets(interface: u32, endpoint: u32) -> io::Result<[OwnedFd; 2]> {
    let open = |class, room| -> io::Result<OwnedFd> {
        let filter = FrameFilter { endpoint: endpoint.to_le_bytes(), class };
        let socket = packets::open(interface, ETHER_TYPE, filter)?;
        packets::set_room(socket.as_fd(), room)?;
        Ok(socket)
    };
    Ok([open(FrameClass::Urgent, URGENT_ROOM)?, open(FrameClass::Bulk, BULK_ROOM)?])
}

pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    sys::random::fill(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

impl Port {
    pub(crate) fn new(
        interface: EtherInterface,
        endpoint: u32,
        slot: u8,
        sockets: [OwnedFd; 2],
    ) -> io::Result<Self> {
        let [urgent, bulk] = sockets;
        let (urgent_room, bulk_room) =
            (packets::room(urgent.as_fd())?, packets::room(bulk.as_fd())?);
        forks::keep_from_children(&urgent);
        forks::keep_from_children(&bulk);
        let life = interface.address.and_then(|(address, _)| LifePort::hold(address));
        let is_down = false;
        Ok(Self { interface, endpoint, slot, urgent, bulk, urgent_room, bulk_room, life, is_down })
    }

    /// Opens new sockets on the interface that has its name now.
    ///
    /// # Errors
    /// The system's; `PermissionDenied` without the capability CAP_NET_RAW.
    pub(crate) fn renew(&mut self, index: u32, mac: MacAddress) -> io::Result<()> {
        let interface = EtherInterface { index, mac, ..self.interface.clone() };
        let sockets = open_sockets(index, self.endpoint)?;
        let mut renewed = Self::new(interface, self.endpoint, self.slot, sockets)?;
        std::mem::swap(&mut renewed.life, &mut self.life);
        *self = renewed;
        Ok(())
    }

    /// Returns the maximal length of a frame, behind the Ethernet header.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.interface.mtu
    }

    /// Returns the room of each of `links` links.
    pub(crate) fn room(&self, links: usize) -> LinkRoom {
        let each = counted_bytes(self.interface.mtu) * links.max(1);
        LinkRoom { urgent: (self.urgent_room / each).max(1), bulk: (self.bulk_room / each).max(1) }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        forks::release(&self.urgent);
        forks::release(&self.bulk);
    }
}

/// Returns what the kernel counts at most for a frame of `frame` bytes that waits at a socket: its
/// memory is a power of two, and has a descriptor.
pub(crate) fn counted_bytes(frame: usize) -> usize {
    (frame + 512).next_power_of_two() + 1024
}

/// Sends the frames of a link through a port.
pub(crate) struct PortTransmitter<'a> {
    pub socket: BorrowedFd<'a>,
    pub from: MacAddress,
    pub to: MacAddress,
    /// A buffer for the data of pieces in short runs.
    pub scratch: &'a mut Vec<u8>,
}

/// The length of Ethernet header and head.
const START_BYTES: usize = ETHERNET_BYTES + HEAD_BYTES;

type FrameStart = [u8; START_BYTES];

impl Transmitter for PortTransmitter<'_> {
    fn frames(&mut self, seal: &Seal, frames: &[(FrameHeader, &[u8])]) -> usize {
        if let [(header, data)] = frames {
            let mut start = [0; START_BYTES];
            self.begin(&mut start, header, seal, std::iter::once(*data));
            return send_all(self.socket, &[[IoSlice::new(&start), IoSlice::new(data)]]);
        }
        let mut sent = 0;
        for frames in frames.chunks(FRAMES_AT_ONCE_MAX) {
            let mut starts = [[0; START_BYTES]; FRAMES_AT_ONCE_MAX];
            let mut slices = [[IoSlice::new(&[]); 2]; FRAMES_AT_ONCE_MAX];
            for (start, (header, data)) in starts.iter_mut().zip(frames) {
                self.begin(start, header, seal, std::iter::once(*data));
            }
            for ((slices, start), (_, data)) in slices.iter_mut().zip(&starts).zip(frames) {
                *slices = [IoSlice::new(start), IoSlice::new(data)];
            }
            let now = send_all(self.socket, &slices[..frames.len()]);
            sent += now;
            if now < frames.len() {
                break;
            }
        }
        sent
    }

    fn pieces(&mut self, seal: &Seal, heads: &[FrameHeader], run: PieceBytes<'_>) -> usize {
        let PieceBytes { buffer, offset, length, each } = run;
        if buffer.is_worth_lending() {
            let lent = buffer.lend(&[], offset, length, |slices| match slices {
                [data] => Some(self.send_pieces(seal, heads, data, each)),
                _ => None,
            });
            if let Some(sent) = lent {
                return sent;
            }
        }
        let mut data = std::mem::take(self.scratch);
        data.resize(length, 0);
        buffer.read(offset, &mut data);
        let sent = self.send_pieces(seal, heads, &data, each);
        *self.scratch = data;
        sent
    }
}

impl PortTransmitter<'_> {
    fn begin<'a>(
        &self,
        start: &mut FrameStart,
        header: &FrameHeader,
        seal: &Seal,
        data: impl Iterator<Item = &'a [u8]>,
    ) {
        let (ethernet, head) = start.split_at_mut(ETHERNET_BYTES);
        ethernet[..6].copy_from_slice(&self.to);
        ethernet[6..12].copy_from_slice(&self.from);
        ethernet[12..].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        if let Some((covered, tag)) = head.split_first_chunk_mut::<COVERED_BYTES>() {
            header.emit(covered);
            tag.copy_from_slice(&seal.tag(covered, data));
        }
    }

    fn send_pieces(&self, seal: &Seal, heads: &[FrameHeader], data: &[u8], each: usize) -> usize {
        let mut starts = [[0; START_BYTES]; FRAMES_AT_ONCE_MAX];
        let mut slices = [[IoSlice::new(&[]); 2]; FRAMES_AT_ONCE_MAX];
        let pieces = || data.chunks(each).take(heads.len());
        for ((start, header), data) in starts.iter_mut().zip(heads).zip(pieces()) {
            self.begin(start, header, seal, std::iter::once(data));
        }
        for ((slices, start), data) in slices.iter_mut().zip(&starts).zip(pieces()) {
            *slices = [IoSlice::new(start), IoSlice::new(data)];
        }
        send_all(self.socket, &slices[..heads.len()])
    }
}

/// Passes frames to the kernel, and returns how many it accepted. Frames that it refuses for
/// another reason than lack of room, such as that the interface is down, count as sent: they are
/// lost.
fn send_all(socket: BorrowedFd<'_>, frames: &[[IoSlice<'_>; 2]]) -> usize {
    let mut sent = 0;
    while sent < frames.len() {
        match packets::send(socket, &frames[sent..]) {
            Ok(count) => sent += count.max(1),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return sent,
            Err(error) if error.raw_os_error() == Some(ENOBUFS) => return sent,
            // Later frames may be shorter.
            Err(error) if error.raw_os_error() == Some(EMSGSIZE) => sent += 1,
            Err(_) => return frames.len(),
        }
    }
    sent
}

/// The errors for a full queue of the interface, and for a frame longer than it carries.
const ENOBUFS: i32 = 105;
const EMSGSIZE: i32 = 90;
