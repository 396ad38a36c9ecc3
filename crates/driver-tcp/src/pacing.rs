//! The pace at which the kernel sends what connections write.

use socket2::Socket;

/// Algorithms of congestion control that send as soon as their window permits, best first.
const UNPACED: [&[u8]; 2] = [b"cubic", b"reno"];

/// Lets a connection send without pauses, if the system's algorithm of congestion control makes
/// pauses: BBR sends at a speed that it estimates, and takes the pauses of a program for a slow
/// network.
///
/// Why: docs/internals/decisions/0143-connections-are-not-paced.md
pub(crate) fn send_without_pauses(socket: &Socket) {
    let is_paced = socket.tcp_congestion().is_ok_and(|name| name.starts_with(b"bbr"));
    if is_paced {
        // If the system permits none of them, the connection stays as it is.
        let _ = UNPACED.iter().any(|name| socket.set_tcp_congestion(name).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use socket2::{Domain, Protocol, Type};

    use super::*;

    #[test]
    fn paced_connections_become_unpaced_where_that_is_permitted() {
        let new = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP));
        let [usual, paced] = [new().unwrap(), new().unwrap()];
        let name = |socket: &Socket| -> io::Result<Vec<u8>> {
            let mut name = socket.tcp_congestion()?;
            name.retain(|&byte| byte != 0);
            Ok(name)
        };
        if paced.set_tcp_congestion(b"bbr").is_err() {
            // The kernel has no BBR, so no connection is paced by it.
            assert_ne!(name(&usual).unwrap(), b"bbr");
            return;
        }
        let permitted = UNPACED.iter().find(|name| usual.set_tcp_congestion(name).is_ok());
        let before = name(&usual).unwrap();
        send_without_pauses(&usual);
        assert_eq!(name(&usual).unwrap(), before, "an unpaced connection stays as it is");
        send_without_pauses(&paced);
        assert_eq!(name(&paced).unwrap(), permitted.copied().unwrap_or(b"bbr"));
    }
}
