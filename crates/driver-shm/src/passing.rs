//! Passes descriptors over a Unix socket to peers that cannot open `/proc/PID/fd` of this process.
//!
//! The kernel opens `/proc/PID/fd` only for processes that may trace the process. This excludes
//! processes of another user namespace, and all processes if this one may not be traced at all
//! (PR_SET_DUMPABLE, an executable without read permission or with capabilities). Each process
//! therefore also listens on a Unix socket. It sends the descriptors of its shared memory to a
//! process that sends the nonce of that memory.
//!
//! A thread answers requests as soon as it is clear that peers need that. Until then, the thread
//! that polls, goes to sleep, or waits for an answer checks for the first request.
//!
//! Each process of the machine can connect. A peer sends its request right after it has connected,
//! so the request mostly has arrived when the connection is accepted. Connections without a request
//! wait beside the socket, in a limited number, so that they hold up no others.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, recv, recvmsg, send, sendmsg, socket_with,
};
use sys::{process, signals};

/// Identifies what a process requests: random bytes that only processes of the job receive.
pub(crate) type Nonce = [u8; 16];

/// The end of a socket's name. Every user can list it, so it proves nothing.
pub(crate) type SocketName = String;

/// Descriptors that stay open and are passed to peers until this is dropped.
pub(crate) struct KeptDescriptors {
    nonce: Nonce,
    /// Kept open also where there is no socket, as peers open them through /proc.
    _descriptors: Arc<[OwnedFd]>,
}

/// The socket of this process, and the descriptors that it passes.
struct Office {
    listener: OwnedFd,
    name: SocketName,
    passed: Mutex<Vec<(Nonce, Arc<[OwnedFd]>)>>,
    /// Connections without a request, oldest first, and until when each of them waits.
    silent: Mutex<VecDeque<(Arc<OwnedFd>, Instant)>>,
    has_thread: AtomicBool,
}

/// None if this process cannot have such a socket.
static OFFICE: OnceLock<Option<Office>> = OnceLock::new();

/// The maximal number of descriptors under one nonce.
const DESCRIPTORS_MAX: usize = 3;

/// How many peers may wait for an answer; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// A connection on which no request arrives in this time is closed.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(1);

/// How many connections without a request there are at a time; the oldest is closed for another
/// one, and a peer to which that happens repeats its request.
const SILENT_MAX: usize = 64;

/// How often a process that waits for an answer checks whether the peer still exists.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// How often a request is repeated if the peer closes the connection, having not seen it in time.
const ATTEMPTS: usize = 100;

const STACK_BYTES: usize = 64 << 10;

/// The answer to a known nonce, sent together with descriptors, and the answer to an unknown one.
const KNOWN: u8 = 1;
const UNKNOWN: u8 = 0;

fn office() -> Option<&'static Office> {
    OFFICE.get_or_init(|| Office::open().ok()).as_ref()
}

/// Returns the name under which this process passes descriptors, if it can.
pub(crate) fn socket_name() -> Option<&'static str> {
    office().map(|office| office.name.as_str())
}

fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("combray-memory/{name}").as_bytes())?)
}

impl KeptDescriptors {
    /// Passes these descriptors to peers that send the nonce.
    pub(crate) fn new(nonce: Nonce, descriptors: Vec<OwnedFd>) -> Self {
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "they fit into an answer");
        let descriptors: Arc<[OwnedFd]> = descriptors.into();
        if let Some(office) = office() {
            office.passed().push((nonce, Arc::clone(&descriptors)));
        }
        Self { nonce, _descriptors: descriptors }
    }
}

impl Drop for KeptDescriptors {
    fn drop(&mut self) {
        if let Some(office) = office() {
            office.passed().retain(|(nonce, _)| *nonce != self.nonce);
        }
    }
}

/// Starts a thread that answers peers: some of them cannot open `/proc/PID/fd` of this process.
pub(crate) fn serve() {
    let Some(office) = office() else { return };
    if office.has_thread.swap(true, Ordering::AcqRel) {
        return;
    }
    let answer = || {
        loop {
            let is_requested = office.wait_for_requests();
            office.answer_silent();
            if is_requested && !office.answer_next() {
                // The process may be out of descriptors for the moment.
                thread::sleep(CHECK_PERIOD);
            }
        }
    };
    let builder = thread::Builder::new().name("combray-memory".into()).stack_size(STACK_BYTES);
    let started = signals::without_signals(|| builder.spawn(answer));
    office.has_thread.store(started.is_ok(), Ordering::Release);
}

/// Whether a thread answers requests.
pub(crate) fn has_thread() -> bool {
    office().is_some_and(|office| office.has_thread.load(Ordering::Acquire))
}

/// Checks for a first request, if no thread answers requests yet.
#[cold]
pub(crate) fn answer_requests() {
    let Some(office) = office() else { return };
    if !office.has_thread.load(Ordering::Acquire) && office.answer_next() {
        // A peer that could not open one descriptor cannot open the next, nor can other peers.
        serve();
    }
}

/// Requests from a process what it passes under a nonce.
///
/// # Errors
/// The process has ended, does not have the nonce, or cannot be reached.
pub(crate) fn request(pid: i32, name: &str, nonce: &Nonce) -> io::Result<Vec<OwnedFd>> {
    let address = address(name)?;
    for _ in 0..ATTEMPTS {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        // The peer's backlog may be full.
        while let Err(cause) = connect(&socket, &address) {
            if !matches!(cause, Errno::AGAIN | Errno::INTR) {
                return Err(cause.into());
            }
            answer_requests();
            thread::sleep(Duration::from_millis(1));
        }
        if socket_peercred(&socket)?.pid.as_raw_nonzero().get() != pid {
            return Err(io::Error::other("another process listens in its place"));
        }
        if send(&socket, nonce, SendFlags::NOSIGNAL).is_ok()
            && let Some(answer) = await_answer(&socket, pid)?
        {
            return answer.ok_or_else(|| io::Error::other("it no longer shares this memory"));
        }
    }
    Err(io::Error::other("it does not answer"))
}

/// Receives the answer: its descriptors, or that there are none. None if the connection was closed.
fn await_answer(socket: &OwnedFd, pid: i32) -> io::Result<Option<Option<Vec<OwnedFd>>>> {
    loop {
        let mut byte = [UNKNOWN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut byte)];
        match recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            Err(cause) => return Err(cause.into()),
            Ok(received) if received.bytes == 0 => return Ok(None),
            Ok(received) => {
                if received.flags.contains(ReturnFlags::CTRUNC) {
                    return Err(Errno::MFILE.into());
                }
                let mut descriptors = Vec::new();
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        descriptors.extend(rights);
                    }
                }
                return Ok(Some((byte[0] == KNOWN).then_some(descriptors)));
            }
        }
        if process::has_ended(pid) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // The peer may wait for an answer of this process.
        answer_requests();
        match office().filter(|office| !office.has_thread.load(Ordering::Acquire)) {
            Some(office) => office.wait_beside(Some(socket), Some(CHECK_PERIOD)),
            None => wait_for(&[socket.as_fd()], Some(CHECK_PERIOD)),
        }
    }
}

/// Waits until one of these descriptors is readable, at most `limit`.
fn wait_for(descriptors: &[BorrowedFd<'_>], limit: Option<Duration>) {
    let watched = descriptors.iter().map(|one| PollFd::from_borrowed_fd(*one, PollFlags::IN));
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // Interrupted or not: the caller checks again.
    let _ = poll(&mut watched.collect::<Vec<_>>(), limit.as_ref());
}

impl Office {
    fn open() -> io::Result<Self> {
        let mut digits = [0; 8];
        sys::random::fill(&mut digits)?;
        let name = format!("{:016x}", u64::from_ne_bytes(digits));
        let listener = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        bind(&listener, &address(&name)?)?;
        listen(&listener, BACKLOG)?;
        let (passed, silent) = Default::default();
        Ok(Self { listener, name, passed, silent, has_thread: AtomicBool::new(false) })
    }

    fn passed(&self) -> MutexGuard<'_, Vec<(Nonce, Arc<[OwnedFd]>)>> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a request, or until `other` is readable.
    fn wait_beside(&self, other: Option<&OwnedFd>, limit: Option<Duration>) {
        let all: Vec<_> = std::iter::once(&self.listener).chain(other).map(AsFd::as_fd).collect();
        wait_for(&all, limit);
    }

    /// Waits until a process connects, or a request arrives on a silent connection, or one of these
    /// has waited too long. Returns whether a process has connected.
    fn wait_for_requests(&self) -> bool {
        let silent: Vec<_> = self.silent().iter().cloned().collect();
        let until = silent.first().map(|(_, until)| *until);
        let sockets = silent.iter().map(|(socket, _)| &**socket);
        let all = std::iter::once(&self.listener).chain(sockets);
        let mut watched: Vec<_> =
            all.map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN)).collect();
        let limit = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // Interrupted or not: the caller checks again.
        let _ = poll(&mut watched, limit.as_ref());
        !watched[0].revents().is_empty()
    }

    fn silent(&self) -> MutexGuard<'_, VecDeque<(Arc<OwnedFd>, Instant)>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the next process that has connected; false if there is none.
    fn answer_next(&self) -> bool {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.listener, flags) else { return false };
        if self.answer(&socket) == Err(Errno::AGAIN) {
            let mut silent = self.silent();
            if silent.len() == SILENT_MAX {
                silent.pop_front();
            }
            silent.push_back((Arc::new(socket), Instant::now() + REQUEST_TIME_MAX));
        }
        true
    }

    /// Answers the requests that have arrived on silent connections.
    fn answer_silent(&self) {
        let now = Instant::now();
        self.silent()
            .retain(|(socket, until)| *until > now && self.answer(socket) == Err(Errno::AGAIN));
    }

    /// Answers a request. A peer that gets no answer repeats the request; a process without the
    /// nonce gets none.
    ///
    /// # Errors
    /// `AGAIN` if the request has not arrived.
    fn answer(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        let mut wanted = Nonce::default();
        let (_, received) = recv(socket, &mut wanted, RecvFlags::empty())?;
        let known = self
            .passed()
            .iter()
            .find(|(nonce, _)| *nonce == wanted)
            .map(|(_, all)| Arc::clone(all));
        let known = known.filter(|_| received == wanted.len());
        let descriptors: Vec<_> =
            known.iter().flat_map(|all| all.iter()).map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if known.is_some() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let answer = [if known.is_some() { KNOWN } else { UNKNOWN }];
        sendmsg(socket, &[IoSlice::new(&answer)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};

    fn passed(nonce: Nonce, text: &str) -> KeptDescriptors {
        let mut file = sys::mapping::create_memory_file(c"test", 100).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        KeptDescriptors::new(nonce, vec![file.into()])
    }

    #[test]
    fn a_process_that_knows_the_nonce_gets_the_descriptors() {
        let own = std::process::id() as i32;
        let name = socket_name().unwrap();
        let one = passed([1; 16], "first");
        let _two = passed([2; 16], "second");
        // A process that waits also answers, so it can even send a request to itself.
        let mut got: Vec<_> = request(own, name, &[2; 16]).unwrap();
        let mut text = [0; 6];
        File::from(got.remove(0)).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"second");
        assert!(request(own, name, &[3; 16]).unwrap_err().to_string().contains("no longer"));
        assert!(request(own, "nobody", &[1; 16]).is_err());
        let other = request(1, name, &[1; 16]).unwrap_err();
        assert!(other.to_string().contains("another process"), "{other}");
        drop(one);
        assert!(request(own, name, &[1; 16]).is_err(), "it is not passed any longer");
    }

    #[test]
    fn a_stranger_that_says_nothing_keeps_nobody_waiting() {
        let own = std::process::id() as i32;
        let name = socket_name().unwrap();
        let _one = passed([4; 16], "text");
        let address = format!("combray-memory/{name}");
        let address = SocketAddr::from_abstract_name(address).unwrap();
        let _silent = UnixStream::connect_addr(&address).unwrap();
        let mut short = UnixStream::connect_addr(&address).unwrap();
        short.write_all(b"short").unwrap();
        assert_eq!(request(own, name, &[4; 16]).unwrap().len(), 1);
        assert_eq!(short.read(&mut [0]).unwrap(), 1);
    }

    #[test]
    fn a_flood_of_strangers_keeps_nobody_waiting() {
        let own = std::process::id() as i32;
        let name = socket_name().unwrap();
        let _one = passed([5; 16], "text");
        let address = SocketAddr::from_abstract_name(format!("combray-memory/{name}")).unwrap();
        let strangers: Vec<UnixStream> =
            (0..1000).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
        let begin = Instant::now();
        assert_eq!(request(own, name, &[5; 16]).unwrap().len(), 1);
        // Each of them would have been waited for.
        assert!(begin.elapsed() < Duration::from_secs(60));
        assert!(office().unwrap().silent().len() <= SILENT_MAX);
        let is_closed = |mut stranger: &UnixStream| {
            stranger.set_nonblocking(true).unwrap();
            matches!(stranger.read(&mut [0]), Ok(0))
        };
        let mut left = strangers;
        let deadline = Instant::now() + Duration::from_secs(60);
        while left.len() > SILENT_MAX {
            left.retain(|stranger| !is_closed(stranger));
            assert!(Instant::now() < deadline, "{} are kept", left.len());
            thread::sleep(Duration::from_millis(10));
        }
    }
}
