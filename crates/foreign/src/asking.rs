//! Requests an answer at a Unix address in the abstract namespace, where any process may listen,
//! and finds out the owners of processes and files.

use std::fs::{self, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// A request, its receiver, and the limits of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The address, without the zero byte in front.
    pub name: &'a str,
    /// The user as which the process that listens there must run.
    pub user: u32,
    /// The request to send.
    pub request: &'a [u8],
    /// The maximal length of the answer in bytes.
    pub bytes_max: usize,
    /// When the complete answer must have arrived.
    pub deadline: Instant,
}

/// Sends a request, and returns all bytes until the other side closes the connection.
///
/// # Errors
/// The system's. Also, another user listens there, the answer is too long, or it takes too long.
pub fn ask(asked: &Asked<'_>) -> io::Result<Vec<u8>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // A listener that accepts no connections must not block the caller: this fails at once when the
    // listener's backlog is full.
    connect(&socket, &SocketAddrUnix::new_abstract_name(asked.name.as_bytes())?)?;
    if sys::socket::peer_user(socket.as_fd())? != asked.user {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user listens in its place",
        ));
    }
    let mut stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(left_until(asked.deadline)?))?;
    stream.write_all(asked.request)?;
    let mut answer = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        stream.set_read_timeout(Some(left_until(asked.deadline)?))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(answer),
            Ok(length) if answer.len() + length > asked.bytes_max => {
                let most = asked.bytes_max;
                return Err(io::Error::other(format!("the answer is longer than {most} bytes")));
            }
            Ok(length) => answer.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(too_late()),
            Err(error) => return Err(error),
        }
    }
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(too_late()) } else { Ok(left) }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the answer takes too long")
}

/// Returns the effective user id of a process.
///
/// # Errors
/// There is no such process, or the system does not show it.
pub fn owner_of(process: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    // The real user id stands first, then the effective one.
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let user = users.and_then(|users| users.split_whitespace().nth(1)?.parse().ok());
    user.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether a descriptor with this metadata is a memory file (memfd_create) that this user created.
/// Otherwise it is a file that only has the name of a memory file, and opening it might have side
/// effects.
pub fn is_memory_file(attributes: &Metadata, user: u32) -> bool {
    static DEVICE: OnceLock<Option<u64>> = OnceLock::new();
    let device = || {
        let own = sys::mapping::create_memory_file(c"combray-device", 1).ok()?;
        Some(own.metadata().ok()?.st_dev())
    };
    attributes.is_file()
        && attributes.st_nlink() == 0
        && attributes.st_uid() == user
        && Some(attributes.st_dev()) == *DEVICE.get_or_init(device)
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::thread;

    use super::*;

    fn listen(what: &str) -> (UnixListener, String) {
        let name = format!("combray-foreign-{what}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        (UnixListener::bind_addr(&address).unwrap(), name)
    }

    fn asked(name: &str, within: Duration) -> Asked<'_> {
        let user = sys::process::user();
        let deadline = Instant::now() + within;
        Asked { name, user, request: b"report\n", bytes_max: 1 << 20, deadline }
    }

    #[test]
    fn an_answer_comes_whole() {
        let (listener, name) = listen("whole");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 7];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&[b'x'; 100_000]).unwrap();
        });
        let answer = ask(&asked(&name, Duration::from_secs(60))).unwrap();
        assert_eq!(answer.len(), 100_000);
        server.join().unwrap();
    }

    #[test]
    fn whoever_drips_is_given_up() {
        let (listener, name) = listen("drips");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        });
        let error = ask(&asked(&name, Duration::from_millis(300))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        server.join().unwrap();
    }

    #[test]
    fn whoever_floods_is_given_up() {
        let (listener, name) = listen("floods");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
        let error = ask(&asked(&name, Duration::from_secs(60))).unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn whoever_accepts_nobody_is_given_up() {
        let (_listener, name) = listen("full");
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let connected = || {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            connect(&socket, &address).map(|()| socket)
        };
        let waiting: Vec<_> = std::iter::from_fn(|| connected().ok()).take(10_000).collect();
        assert!(waiting.len() < 10_000, "the queue of a listener is bounded");
        ask(&asked(&name, Duration::from_secs(60))).unwrap_err();
    }

    #[test]
    fn another_user_is_not_asked() {
        let (_listener, name) = listen("other");
        let asked = Asked { user: u32::MAX - 1, ..asked(&name, Duration::from_secs(60)) };
        assert_eq!(ask(&asked).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn memory_is_reported_from_files_of_its_name() {
        let user = sys::process::user();
        let memory = sys::mapping::create_memory_file(c"combray-test", 10).unwrap();
        assert!(is_memory_file(&memory.metadata().unwrap(), user));
        assert!(!is_memory_file(&memory.metadata().unwrap(), user.wrapping_add(1)));
        for path in ["/dev/null", "/proc/self/stat", "/"] {
            assert!(!is_memory_file(&fs::metadata(path).unwrap(), user), "{path}");
        }
        assert_eq!(owner_of(std::process::id()).unwrap(), user);
    }
}
