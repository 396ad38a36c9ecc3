//! Frames of one EtherType on one network interface, through packet sockets.
//!
//! A socket gets frames only once its filter is there. When it is [locked](lock), who inherits it
//! hears nothing but what the filter lets in.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::check;

/// Bytes of an Ethernet header: destination, source, EtherType.
pub const ETHERNET_BYTES: usize = 14;

/// Which frames a socket gets, and what a [group](join_group) decides by: all fields lie behind the
/// Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFilter {
    /// The four bytes with which the frame begins.
    pub endpoint: [u8; 4],
    /// What stands in the byte at [`CLASS_AT`].
    pub class: FrameClass,
}

/// Two kinds of frames, by the highest bit of the byte at [`CLASS_AT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameClass {
    /// It is not set.
    Urgent,
    /// It is set.
    Bulk,
}

/// Where in a frame, behind the Ethernet header, the number of the process on its machine stands.
pub const SLOT_AT: usize = 4;

/// Where in a frame, behind the Ethernet header, the byte stands whose highest bit is the class.
pub const CLASS_AT: usize = 5;

/// A socket on the interface with this index for the frames of `ether_type` that `filter` lets in;
/// it never blocks.
///
/// # Errors
/// The system's; `EPERM` without the capability CAP_NET_RAW.
pub fn open(interface: u32, ether_type: u16, filter: FrameFilter) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes plain numbers. The protocol 0 receives nothing.
    let socket = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }.into())?;
    // SAFETY: the descriptor was just created and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket as i32) };
    let endpoint = u32::from_be_bytes(filter.endpoint);
    let (bulk, urgent) = match filter.class {
        FrameClass::Bulk => (0, 1),
        FrameClass::Urgent => (1, 0),
    };
    let program = [
        step(LOAD_WORD, 0, 0, ETHERNET_BYTES as u32),
        step(JUMP_IF_EQUAL, 0, 3, endpoint),
        step(LOAD_BYTE, 0, 0, (ETHERNET_BYTES + CLASS_AT) as u32),
        // Over the next step, which takes the frame, or not.
        step(JUMP_IF_SET, bulk, urgent, 0x80),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    set_program(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    // SAFETY: all fields of the structure are integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ether_type.to_be();
    address.sll_ifindex = interface as i32;
    // SAFETY: the structure is initialized, and as long as said.
    let bound = unsafe {
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    check(bound.into())?;
    Ok(socket)
}

/// Nobody can change any more which frames a socket gets, whoever inherits it.
///
/// # Errors
/// The system's.
pub fn lock(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)
}

/// Lets a socket hold `bytes` of frames that were not read, or as much of it as this process may
/// ask for; returns what it holds, in which the system counts its own bookkeeping.
///
/// # Errors
/// The system's.
pub fn set_room(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX);
    // Beyond the limit of the machine only who may configure networks gets it.
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, wanted).is_err() {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, wanted)?;
    }
    room(socket)
}

/// How much a socket holds of frames that were not read, in bytes.
///
/// # Errors
/// The system's.
pub fn room(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int, whose length is told.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUF,
            (&raw mut bytes).cast(),
            &raw mut length,
        )
    };
    check(result.into())?;
    Ok(bytes.max(0) as usize)
}

/// How many frames sent at once at most.
pub const FRAMES_AT_ONCE_MAX: usize = 64;

/// Sends frames with one call of the system, each its head (which begins with the Ethernet header)
/// and its data; returns how many it took, of the first [`FRAMES_AT_ONCE_MAX`].
///
/// # Errors
/// The system's, if it took none.
pub fn send(socket: BorrowedFd<'_>, frames: &[[IoSlice<'_>; 2]]) -> io::Result<usize> {
    // A lone frame, as most are, needs no large array to be cleared.
    match frames.len() {
        0 | 1 => send_up_to::<1>(socket, frames),
        _ => send_up_to::<FRAMES_AT_ONCE_MAX>(socket, frames),
    }
}

fn send_up_to<const COUNT: usize>(
    socket: BorrowedFd<'_>,
    frames: &[[IoSlice<'_>; 2]],
) -> io::Result<usize> {
    // SAFETY: all fields of the structure are integers and pointers, for which zero is a value.
    let mut messages: [libc::mmsghdr; COUNT] = unsafe { std::mem::zeroed() };
    let frames = &frames[..frames.len().min(COUNT)];
    for (message, frame) in messages.iter_mut().zip(frames) {
        message.msg_hdr.msg_iov = frame.as_ptr().cast::<libc::iovec>().cast_mut();
        message.msg_hdr.msg_iovlen = frame.len() as _;
    }
    let count = frames.len() as libc::c_uint;
    // SAFETY: an IoSlice has the form of an iovec; the kernel only reads what they describe, and
    // writes to as many structures as there are.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
    };
    check(sent.into()).map(|sent| sent as usize)
}

/// So many frames are looked for where none, or hardly any, came before.
const FEW: usize = 4;

/// Room for frames that are received together.
#[derive(Debug)]
pub struct FrameBatch {
    bytes: Box<[u8]>,
    /// Bytes for each frame.
    stride: usize,
    lengths: Vec<usize>,
    looked_for: usize,
}

impl FrameBatch {
    /// Room for `count` frames of `stride` bytes; what is longer is cut off.
    pub fn new(count: usize, stride: usize) -> Self {
        let bytes = vec![0; count.min(FRAMES_AT_ONCE_MAX) * stride].into();
        Self { bytes, stride, lengths: Vec::with_capacity(count), looked_for: 0 }
    }

    /// Takes frames that have come with one call of the system, instead of those that are here, and
    /// returns how many. After a call that found few, it looks for few.
    ///
    /// # Errors
    /// The system's, if there are none: `WouldBlock` when none has come.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        match self.lengths.len() < FEW {
            true => self.receive_up_to::<FEW>(socket),
            false => self.receive_up_to::<FRAMES_AT_ONCE_MAX>(socket),
        }
    }

    /// Takes one frame that has come, instead of those that are here, and returns whether there was
    /// one: the cheapest look, for who expects none.
    ///
    /// # Errors
    /// The system's, if there is none: `WouldBlock` when none has come.
    pub fn receive_one(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.lengths.clear();
        self.looked_for = 1;
        let place = &mut self.bytes[..self.stride];
        // SAFETY: the kernel writes at most as many bytes as there are.
        let received = unsafe {
            let (bytes, length) = (place.as_mut_ptr().cast(), place.len());
            libc::recv(socket.as_raw_fd(), bytes, length, libc::MSG_DONTWAIT)
        };
        let length = check(received as libc::c_long)?;
        self.lengths.push(length as usize);
        Ok(())
    }

    fn receive_up_to<const COUNT: usize>(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.lengths.clear();
        const NONE: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        let mut slices = [NONE; COUNT];
        // SAFETY: all fields of the structure are integers and pointers, for which zero is a value.
        let mut messages: [libc::mmsghdr; COUNT] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        for place in self.bytes.chunks_exact_mut(self.stride).take(COUNT) {
            slices[count] =
                libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
            messages[count].msg_hdr.msg_iov = &raw mut slices[count];
            messages[count].msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        self.looked_for = count;
        // SAFETY: each of the `count` structures describes a part of `bytes` of its own, which may
        // be written.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let received = check(received.into())? as usize;
        self.lengths.extend(messages[..received].iter().map(|message| message.msg_len as usize));
        Ok(received)
    }

    /// How many frames the last look could have found.
    pub fn looked_for(&self) -> usize {
        self.looked_for
    }

    /// How many frames are here.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether none is here.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// A frame, with its Ethernet header.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn frame(&self, index: usize) -> &[u8] {
        let length = self.lengths[index].min(self.stride);
        &self.bytes[index * self.stride..][..length]
    }
}

/// Puts a socket into a group of those on the same interface, among which the kernel finds the one
/// for a frame by its slot and class, whatever their number: the first that joins has the slot 0
/// and takes urgent frames, the second has the same slot and takes bulk, and so on. None: the group
/// is new, and what is returned names it.
///
/// # Errors
/// The system's.
pub fn join_group(socket: BorrowedFd<'_>, group: Option<u16>) -> io::Result<u16> {
    let (name, flags) = match group {
        Some(name) => (name, 0),
        None => (0, libc::PACKET_FANOUT_FLAG_UNIQUEID as i32),
    };
    let value = i32::from(name) | ((PACKET_FANOUT_CBPF | flags) << 16);
    set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, value)?;
    if let Some(name) = group {
        return Ok(name);
    }
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int, whose length is told.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_FANOUT,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    check(result.into())?;
    // Here the frame begins behind the Ethernet header.
    let program = [
        step(LOAD_BYTE, 0, 0, CLASS_AT as u32),
        step(SHIFT_RIGHT, 0, 0, 7),
        step(TO_INDEX, 0, 0, 0),
        step(LOAD_BYTE, 0, 0, SLOT_AT as u32),
        step(SHIFT_LEFT, 0, 0, 1),
        step(ADD_INDEX, 0, 0, 0),
        step(RETURN_ACCUMULATOR, 0, 0, 0),
    ];
    set_program(socket, libc::SOL_PACKET, PACKET_FANOUT_DATA, &program)?;
    Ok(value as u16)
}

const PACKET_FANOUT_CBPF: i32 = 6;
const PACKET_FANOUT_DATA: i32 = 22;

/// Sockets in a group at most.
pub const GROUP_MAX: usize = 256;

// Classic BPF, as linux/filter.h has it.
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
const RETURN_ACCUMULATOR: u16 = 0x16;
const SHIFT_LEFT: u16 = 0x64;
const SHIFT_RIGHT: u16 = 0x74;
const ADD_INDEX: u16 = 0x0c;
const TO_INDEX: u16 = 0x07;

fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn set_program(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, whose length is told.
    let result = unsafe {
        let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const program).cast(), length)
    };
    check(result.into()).map(drop)
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads one int, whose length is told.
    let result = unsafe {
        let length = size_of::<i32>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    check(result.into()).map(drop)
}
