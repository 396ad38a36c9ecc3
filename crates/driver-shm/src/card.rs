//! The card by which peers find a process's segment.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use driver::DriverError;

/// Where a process's segment is, and what proves that it is the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentCard {
    /// Which machine, and which space of process ids on it.
    pub host: String,
    /// The process.
    pub pid: i32,
    /// Its descriptor of the memory file.
    pub descriptor: i32,
    /// Random bytes that the segment holds too.
    pub nonce: [u8; 16],
}

const VERSION: &str = "shm1";

static NODE: OnceLock<String> = OnceLock::new();

/// Gives this machine a name beside its own: processes that name it otherwise are taken for those
/// of other machines. To be called before anything else, and not twice.
pub(crate) fn name_node(node: &str) {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    // A second name comes too late: cards with the first one are published.
    let _ = NODE.set(node.chars().map(plain).collect());
}

/// The name of this machine and of this process's space of process ids: two processes that agree
/// in it can open each other's segment.
pub fn host() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    let node = NODE.get().map(|node| format!(".{node}")).unwrap_or_default();
    format!("{}.{digits}{node}", read("/proc/sys/kernel/random/boot_id"))
}

impl SegmentCard {
    /// Opens the memory file that the card tells of.
    ///
    /// # Errors
    /// Its process is not of this machine, has ended, or may not be looked into.
    pub(crate) fn open(&self) -> Result<File, DriverError> {
        let error = |message: String| DriverError { message };
        let own_host = host();
        if self.host != own_host {
            return Err(error(format!(
                "it runs on another machine or in another container (there {}, here {own_host}): \
                 memory is shared between processes that see each other's process ids",
                self.host
            )));
        }
        let path = self.path();
        // Memory has no name in any folder.
        let is_memory = |told: &Metadata| told.is_file() && told.nlink() == 0;
        sys::files::open_as_expected(Path::new(&path), is_memory).map_err(|cause| {
            let pid = self.pid;
            error(match cause.kind() {
                io::ErrorKind::NotFound if !Path::new("/proc/self/fd").exists() => format!(
                    "its shared segment {path} cannot be opened, as /proc is not mounted here"
                ),
                io::ErrorKind::NotFound => format!("its process {pid} has ended ({path} is gone)"),
                _ => format!(
                    "its shared segment {path} cannot be opened: {cause}. Both processes must be \
                     of the same user, and /proc must be mounted without hidepid"
                ),
            })
        })
    }

    /// Where peers find the file.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.descriptor)
    }
}

impl fmt::Display for SegmentCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nonce = u128::from_be_bytes(self.nonce);
        write!(f, "{VERSION}:{}:{}:{}:{nonce:032x}", self.host, self.pid, self.descriptor)
    }
}

impl FromStr for SegmentCard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split(':').collect();
        let wrong = || format!("\"{text}\" is no card of this version of Combray");
        let [VERSION, host, pid, descriptor, nonce] = fields[..] else { return Err(wrong()) };
        let nonce = u128::from_str_radix(nonce, 16).map_err(|_| wrong())?;
        Ok(Self {
            host: host.to_owned(),
            pid: pid.parse().map_err(|_| wrong())?,
            descriptor: descriptor.parse().map_err(|_| wrong())?,
            nonce: nonce.to_be_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_survives_its_text() {
        let card = SegmentCard { host: host(), pid: 12, descriptor: 3, nonce: [7; 16] };
        assert_eq!(card.to_string().parse(), Ok(card.clone()));
        assert!(!card.to_string().contains(' '));
        assert!("shm0:a:1:2:3".parse::<SegmentCard>().is_err());
        assert!("".parse::<SegmentCard>().is_err());
    }
}
