//! Frames of one EtherType on one network interface, through packet sockets.
//!
//! A socket receives frames only after its filter is installed. After [`lock`], a process that
//! inherits the socket receives only the frames that the filter accepts.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::check;

/// The length of an Ethernet header: destination, source, EtherType.
pub const ETHERNET_BYTES: usize = 14;

/// The frames that a socket receives; also the criteria of a [group](join_group). All fields follow
/// the Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFilter {
    /// The four bytes with which the frame begins.
    pub endpoint: [u8; 4],
    /// The class in the byte at [`CLASS_AT`].
    pub class: FrameClass,
}

/// The class of a frame, in the highest bit of the byte at [`CLASS_AT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameClass {
    /// The bit is clear.
    Urgent,
    /// The bit is set.
    Bulk,
}

/// The offset, behind the Ethernet header, of the number of the process on its machine.
pub const SLOT_AT: usize = 4;

/// The offset, behind the Ethernet header, of the byte whose highest bit is the class.
pub const CLASS_AT: usize = 5;

/// Opens a non-blocking socket on the interface with this index, for the frames of `ether_type`
/// that `filter` accepts.
///
/// # Errors
/// The system's; `EPERM` without the capability CAP_NET_RAW.
pub fn open(interface: u32, ether_type: u16, filter: FrameFilter) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes plain numbers. The protocol 0 receives nothing.
    let socket = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }.into())?;
    // SAFETY: the descriptor was just created and no other code owns it.
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
        // Skips the next step, which accepts the frame, or does not skip it.
        step(JUMP_IF_SET, bulk, urgent, 0x80),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    set_program(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
    // SAFETY: all fields of the structure are integers, for which zero is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ether_type.to_be();
    address.sll_ifindex = interface as i32;
    // SAFETY: the structure is initialized, and has the given length.
    let bound = unsafe {
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    check(bound.into())?;
    Ok(socket)
}

/// Locks the filter of a socket: no process, including those that inherit it, can change it any
/// more.
///
/// # Errors
/// The system's.
pub fn lock(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)
}

/// Sets the receive buffer of a socket to `bytes`, or to the maximum that this process may request.
/// Returns the actual size, in which the system includes its own bookkeeping.
///
/// # Errors
/// The system's.
pub fn set_room(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    let wanted = i32::try_from(bytes).unwrap_or(i32::MAX);
    // Only a process with the right to configure networks may exceed the machine's limit.
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, wanted).is_err() {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, wanted)?;
    }
    room(socket)
}

/// Returns the size of a socket's receive buffer, in bytes.
///
/// # Errors
/// The system's.
pub fn room(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int, whose length is given.
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

/// The maximum number of frames sent or received at once.
pub const FRAMES_AT_ONCE_MAX: usize = 64;

/// Sends frames with one system call. Each has a head (which begins with the Ethernet header) and
/// data. Returns how many frames the system accepted, of the first [`FRAMES_AT_ONCE_MAX`].
///
/// # Errors
/// The system's, if it accepted none.
pub fn send(socket: BorrowedFd<'_>, frames: &[[IoSlice<'_>; 2]]) -> io::Result<usize> {
    // A lone frame, the most frequent case, needs no large array to be cleared.
    match frames.len() {
        0 | 1 => send_up_to::<1>(socket, frames),
        _ => send_up_to::<FRAMES_AT_ONCE_MAX>(socket, frames),
    }
}

fn send_up_to<const COUNT: usize>(
    socket: BorrowedFd<'_>,
    frames: &[[IoSlice<'_>; 2]],
) -> io::Result<usize> {
    // SAFETY: all fields of the structure are integers and pointers, for which zero is a valid
    // value.
    let mut messages: [libc::mmsghdr; COUNT] = unsafe { std::mem::zeroed() };
    let frames = &frames[..frames.len().min(COUNT)];
    for (message, frame) in messages.iter_mut().zip(frames) {
        message.msg_hdr.msg_iov = frame.as_ptr().cast::<libc::iovec>().cast_mut();
        message.msg_hdr.msg_iovlen = frame.len() as _;
    }
    let count = frames.len() as libc::c_uint;
    // SAFETY: an IoSlice has the layout of an iovec; the kernel only reads the memory that they
    // describe, and writes to as many structures as there are.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT)
    };
    check(sent.into()).map(|sent| sent as usize)
}

/// The number of frames to poll for after a poll that returned none, or hardly any.
const FEW: usize = 4;

/// A buffer for frames that are received together.
#[derive(Debug)]
pub struct FrameBatch {
    bytes: Box<[u8]>,
    /// The number of bytes for each frame.
    stride: usize,
    lengths: Vec<usize>,
    looked_for: usize,
}

impl FrameBatch {
    /// Makes room for `count` frames of `stride` bytes; longer frames are truncated.
    pub fn new(count: usize, stride: usize) -> Self {
        let bytes = vec![0; count.min(FRAMES_AT_ONCE_MAX) * stride].into();
        Self { bytes, stride, lengths: Vec::with_capacity(count), looked_for: 0 }
    }

    /// Returns the addresses of the room.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.bytes.as_ptr() as usize;
        start..start + self.bytes.len()
    }

    /// Receives the frames that have arrived, with one system call. They replace the frames in the
    /// batch. Returns how many were received. After a call that returned few, it polls for few.
    ///
    /// # Errors
    /// The system's, if there are none: `WouldBlock` if none has arrived.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        match self.lengths.len() < FEW {
            true => self.receive_up_to::<FEW>(socket),
            false => self.receive_up_to::<FRAMES_AT_ONCE_MAX>(socket),
        }
    }

    /// Receives one frame that has arrived, which replaces the frames in the batch: the cheapest
    /// poll when no frame is expected.
    ///
    /// # Errors
    /// The system's, if there is none: `WouldBlock` if none has arrived.
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
        // SAFETY: all fields of the structure are integers and pointers, for which zero is a valid
        // value.
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
        // SAFETY: each of the `count` structures describes a separate part of `bytes`, which may be
        // written.
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

    /// Returns how many frames the last poll could have returned.
    pub fn looked_for(&self) -> usize {
        self.looked_for
    }

    /// Returns how many frames are in the batch.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns a frame, with its Ethernet header.
    ///
    /// # Panics
    /// If there are not so many frames.
    pub fn frame(&self, index: usize) -> &[u8] {
        let length = self.lengths[index].min(self.stride);
        &self.bytes[index * self.stride..][..length]
    }
}

/// Adds a socket to a fanout group on its interface. The kernel selects the socket of a group for a
/// frame by the frame's slot and class, independently of the number of sockets. The first socket
/// that joins has slot 0 and receives urgent frames, the second has slot 0 and receives bulk
/// frames, and so on. `None` makes a new group. Returns the group's name.
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
    // SAFETY: the kernel writes one int, whose length is given.
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
    // In this program, the frame begins behind the Ethernet header.
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

/// The maximum number of sockets in a group.
pub const GROUP_MAX: usize = 256;

// Classic BPF, as in linux/filter.h.
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
    // SAFETY: the kernel copies the program, whose length is given.
    let result = unsafe {
        let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const program).cast(), length)
    };
    check(result.into()).map(drop)
}

fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads one int, whose length is given.
    let result = unsafe {
        let length = size_of::<i32>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length)
    };
    check(result.into()).map(drop)
}
