//! The card by which peers find a process's segment.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use driver::DriverError;

use crate::passing;

/// Where a process's segment is, and what proves that it is the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCard {
    /// The machine, and the PID namespace on it.
    pub host: String,
    /// The id of the process.
    pub pid: i32,
    /// Its descriptor of the memory file.
    pub descriptor: i32,
    /// Random bytes that the segment contains, too.
    pub nonce: [u8; 16],
    /// How peers can get the descriptors of the process.
    pub access: DescriptorAccess,
}

/// What a process keeps of the card of a peer whose segment it has opened.
#[derive(Debug)]
pub(crate) struct SegmentOwner {
    pub pid: i32,
    pub nonce: [u8; 16],
    /// The name of its socket; empty: it has none.
    socket: Box<str>,
}

/// How peers can get the descriptors of a process. An empty text means that this way is closed to
/// all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DescriptorAccess {
    /// Its user namespace and user id. Processes with equal ones can open its `/proc/PID/fd`.
    pub user: String,
    /// Its network namespace, in which peers can connect to its socket.
    pub network: String,
    /// The name of the socket over which it passes descriptors.
    pub socket: String,
}

const VERSION: &str = "shm4";

static NODE: OnceLock<String> = OnceLock::new();

/// Adds a name to that of this machine: processes with another added name are treated as processes
/// of other machines. To be called first of all, and once.
pub(crate) fn name_node(node: &str) {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    // A second name would come too late: cards with the first one are published.
    let _ = NODE.set(node.chars().map(plain).collect());
}

/// Returns the name of this machine and of this process's PID namespace. Processes can open each
/// other's segments only if these names are equal.
fn host() -> String {
    static MACHINE: OnceLock<String> = OnceLock::new();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let machine = MACHINE.get_or_init(|| {
        format!("{}.{}", read("/proc/sys/kernel/random/boot_id"), namespace("pid"))
    });
    let node = NODE.get().map(|node| format!(".{node}")).unwrap_or_default();
    format!("{machine}{node}")
}

/// Returns the number of a namespace of this process; empty if the system does not show it.
fn namespace(kind: &str) -> String {
    let link = fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// Returns the name by which processes find out whether they can share memory; see [`machines`].
pub fn machine_name() -> String {
    let DescriptorAccess { user, network, .. } = DescriptorAccess::own();
    format!("{}:{user}:{network}", host())
}

/// Returns for each process the index of the first process with which it can share memory, computed
/// from the [names](machine_name) of all. All processes without a name are treated as being on one
/// further machine.
pub fn machines<'a>(names: impl Iterator<Item = Option<&'a str>>) -> Vec<u32> {
    let names: Vec<Vec<&str>> =
        names.map(|name| name.unwrap_or_default().split(':').collect()).collect();
    let field = |name: &[&'a str], place: usize| name.get(place).copied().unwrap_or_default();
    let mut networks: HashMap<&str, Option<&str>> = HashMap::new();
    for name in &names {
        let network = field(name, 2);
        let common = networks.entry(field(name, 0)).or_insert(Some(network));
        *common = common.filter(|common| *common == network && !network.is_empty());
    }
    let mut first = HashMap::new();
    let all = (0..).zip(&names).map(|(place, name)| {
        let (host, user) = (field(name, 0), field(name, 1));
        let key = match (networks[host], user) {
            (Some(_), _) => (host, "", 0),
            // No other process can open its memory.
            (None, "") if name.len() > 1 => (host, "", place + 1),
            (None, user) => (host, user, 0),
        };
        *first.entry(key).or_insert(place)
    });
    all.collect()
}

impl DescriptorAccess {
    /// The ways to the descriptors of this process.
    pub(crate) fn own() -> Self {
        let (user, network) = (namespace("user"), namespace("net"));
        let is_open = sys::process::is_traceable() && !user.is_empty();
        let socket = passing::socket_name().filter(|_| !network.is_empty());
        Self {
            user: if is_open { format!("{user}.{}", sys::process::user()) } else { String::new() },
            network: if socket.is_some() { network } else { String::new() },
            socket: socket.unwrap_or_default().to_owned(),
        }
    }

    /// Whether two processes can open each other's `/proc/PID/fd`.
    pub(crate) fn is_open_to(&self, other: &Self) -> bool {
        !self.user.is_empty() && self.user == other.user
    }

    /// Whether two processes can pass each other descriptors.
    fn passes_to(&self, other: &Self) -> bool {
        !self.network.is_empty() && self.network == other.network
    }
}

impl SegmentCard {
    /// Returns the card of the memory file that this process has under `descriptor`.
    pub(crate) fn own(descriptor: i32, nonce: [u8; 16]) -> Self {
        let pid = std::process::id() as i32;
        Self { host: host(), pid, descriptor, nonce, access: DescriptorAccess::own() }
    }

    /// Whether this process and the process of the card can open each other's memory. Both
    /// processes get equal results.
    ///
    /// # Errors
    /// They cannot; the message gives the reason.
    pub(crate) fn check_access(&self, own: &Self) -> Result<(), DriverError> {
        let error = |message: String| Err(DriverError { message });
        if self.host != own.host {
            return error(format!(
                "it runs on another machine or in another container (there {}, here {}): only \
                 processes that see each other's process IDs can share memory",
                self.host, own.host
            ));
        }
        if self.access.is_open_to(&own.access) || self.access.passes_to(&own.access) {
            return Ok(());
        }
        error(
            "/proc/PID/fd is closed between the two processes (they are in different user \
             namespaces, or one may not be traced), and no descriptors can be passed over a Unix \
             socket, because they are in different network namespaces"
                .to_owned(),
        )
    }

    /// Opens the memory file of the card. Further descriptors that the process passes together with
    /// it may be returned, too.
    ///
    /// # Errors
    /// The process has ended, or does not allow access.
    pub(crate) fn open(&self) -> Result<(File, Vec<OwnedFd>), DriverError> {
        let refusal = match self.open_memory_in_proc() {
            Ok(file) => return Ok((file, Vec::new())),
            Err(refusal) => refusal,
        };
        let socket = match self.request() {
            Ok(mut passed) if !passed.is_empty() => {
                return Ok((passed.remove(0).into(), passed));
            }
            Ok(_) => "it passes no descriptors".to_owned(),
            Err(cause) => cause.to_string(),
        };
        let (pid, path) = (self.pid, self.path());
        let message = match refusal.kind() {
            io::ErrorKind::NotFound if Path::new("/proc/self/fd").exists() => {
                format!("its process {pid} has ended ({path} is gone)")
            }
            io::ErrorKind::NotFound => format!(
                "its shared memory {path} cannot be opened, because /proc is not mounted here; and \
                 it could not be passed over a Unix socket: {socket}"
            ),
            _ => format!(
                "its shared memory {path} cannot be opened: {refusal}. This happens if the two \
                 processes belong to different users or user namespaces, if one of them may not be \
                 traced (PR_SET_DUMPABLE, an executable without read permission or with \
                 capabilities), or if /proc is mounted with hidepid. It could not be passed either \
                 over a Unix socket: {socket}"
            ),
        };
        Err(DriverError { message })
    }

    /// Opens the memory file through /proc.
    pub(crate) fn open_memory_in_proc(&self) -> io::Result<File> {
        // A memory file has no name in any folder.
        let is_expected = |metadata: &Metadata| metadata.is_file() && metadata.nlink() == 0;
        open_in_proc(self.pid, self.descriptor, is_expected)
    }

    /// Requests from the process what it passes together with this memory.
    pub(crate) fn request(&self) -> io::Result<Vec<OwnedFd>> {
        request(self.pid, &self.access.socket, &self.nonce)
    }

    /// Returns the path under which peers find the file.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.descriptor)
    }
}

impl SegmentOwner {
    pub(crate) fn of(card: &SegmentCard) -> Self {
        Self { pid: card.pid, nonce: card.nonce, socket: card.access.socket.as_str().into() }
    }

    /// Opens one of the process's descriptors through /proc, if it is of the expected kind.
    pub(crate) fn open_in_proc(
        &self,
        descriptor: i32,
        is_expected: impl Fn(&Metadata) -> bool,
    ) -> io::Result<File> {
        open_in_proc(self.pid, descriptor, is_expected)
    }

    /// Requests from the process what it passes together with its segment.
    pub(crate) fn request(&self) -> io::Result<Vec<OwnedFd>> {
        request(self.pid, &self.socket, &self.nonce)
    }
}

fn open_in_proc(
    process: i32,
    descriptor: i32,
    is_expected: impl Fn(&Metadata) -> bool,
) -> io::Result<File> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    sys::files::open_as_expected(Path::new(&path), is_expected)
}

/// Requests from a process what it passes together with the memory of this nonce.
fn request(process: i32, socket: &str, nonce: &[u8; 16]) -> io::Result<Vec<OwnedFd>> {
    if socket.is_empty() {
        return Err(io::Error::other("it has no such socket"));
    }
    passing::request(process, socket, nonce)
}

impl fmt::Display for SegmentCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, pid, descriptor, nonce, access } = self;
        let DescriptorAccess { user, network, socket } = access;
        let nonce = u128::from_be_bytes(*nonce);
        write!(f, "{VERSION}:{host}:{pid}:{descriptor}:{nonce:032x}:{user}:{network}:{socket}")
    }
}

impl FromStr for SegmentCard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split(':').collect();
        let wrong = || {
            format!(
                "\"{text}\" is not the contact information of a process of this version of Combray"
            )
        };
        let [VERSION, host, pid, descriptor, nonce, user, network, socket] = fields[..] else {
            return Err(wrong());
        };
        let nonce = u128::from_str_radix(nonce, 16).map_err(|_| wrong())?;
        Ok(Self {
            host: host.to_owned(),
            pid: pid.parse().map_err(|_| wrong())?,
            descriptor: descriptor.parse().map_err(|_| wrong())?,
            nonce: nonce.to_be_bytes(),
            access: DescriptorAccess {
                user: user.to_owned(),
                network: network.to_owned(),
                socket: socket.to_owned(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_survives_its_text() {
        let access = DescriptorAccess::own();
        let card = SegmentCard { host: host(), pid: 12, descriptor: 3, nonce: [7; 16], access };
        assert_eq!(card.to_string().parse(), Ok(card.clone()));
        assert!(!card.to_string().contains(' '));
        assert!("shm4:a:1:2:3".parse::<SegmentCard>().is_err());
        assert!("".parse::<SegmentCard>().is_err());
    }

    fn grouped(names: &[&str]) -> Vec<u32> {
        machines(names.iter().map(|name| Some(*name)))
    }

    #[test]
    fn processes_are_on_one_machine_if_each_comes_to_the_memory_of_each() {
        assert_eq!(grouped(&["a:1:9", "b:1:9", "a:1:9"]), [0, 1, 0]);
        // Processes of one network namespace pass descriptors.
        assert_eq!(grouped(&["a:1:9", "a::9", "a:2:9"]), [0, 0, 0]);
        // In several, only processes of one user namespace open each other's memory.
        assert_eq!(grouped(&["a:1:8", "a:1:9", "a:2:9", "a:2:9"]), [0, 0, 2, 2]);
        assert_eq!(grouped(&["a::8", "a::9", "a:1:", "a:1:"]), [0, 1, 2, 2]);
        assert_eq!(machines([None, Some("a:1:9"), None].into_iter()), [0, 1, 0]);
    }

    #[test]
    fn both_processes_come_to_the_same_answer_about_access() {
        let card = |user: &str, network: &str| {
            let access =
                DescriptorAccess { user: user.into(), network: network.into(), socket: "x".into() };
            SegmentCard { host: "a".into(), pid: 1, descriptor: 3, nonce: [7; 16], access }
        };
        let cases = [
            (card("1", "8"), card("1", "9"), true),
            (card("1", "9"), card("2", "9"), true),
            (card("", "9"), card("1", "9"), true),
            (card("1", "8"), card("2", "9"), false),
            (card("", ""), card("", ""), false),
        ];
        for (one, other, can) in cases {
            assert_eq!(one.check_access(&other).is_ok(), can, "{one} and {other}");
            assert_eq!(other.check_access(&one).is_ok(), can, "{other} and {one}");
        }
    }
}
