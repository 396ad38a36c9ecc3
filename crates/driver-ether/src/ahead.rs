//! Opens sockets in a launcher for processes that may not open any.

use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use driver::{NetworkSelection, PassedDescriptors};
use sys::descriptor::adopt;
use sys::packets::{self, GROUP_MAX};

use crate::interfaces::{self, EtherInterface};
use crate::port::{NO_SLOT, Port, open_sockets, random};

/// Opens the sockets of `processes` processes on each interface that the configuration `networks`
/// selects. The sockets of one interface form a fanout group, in which the kernel finds the
/// receiver of a frame in constant time, however many they are. Returns nothing without the
/// capability CAP_NET_RAW.
pub fn open_ahead(networks: &str, processes: usize) -> Vec<PassedDescriptors> {
    let Ok(selection) = NetworkSelection::parse(networks) else { return Vec::new() };
    let mut all: Vec<PassedDescriptors> = Vec::new();
    all.resize_with(processes, Default::default);
    for interface in interfaces::usable(&selection) {
        if open_group(&interface, &mut all).is_err() {
            return Vec::new();
        }
    }
    all.retain(|(text, _)| !text.is_empty());
    all
}

fn open_group(interface: &EtherInterface, all: &mut [PassedDescriptors]) -> io::Result<()> {
    let mut group = None;
    for (number, (text, descriptors)) in all.iter_mut().enumerate() {
        let endpoint = random()? as u32;
        let sockets = open_sockets(interface.index, endpoint)?;
        let mut slot = NO_SLOT;
        // Sockets that get no place in the group rely on their filters alone.
        if 2 * number + 2 <= GROUP_MAX {
            slot = number as u8;
            for socket in &sockets {
                group = Some(packets::join_group(socket.as_fd(), group)?);
            }
        }
        sockets.iter().try_for_each(|socket| packets::lock(socket.as_fd()))?;
        let [urgent, bulk] = sockets.each_ref().map(|socket| socket.as_raw_fd());
        // Writing to a string cannot fail.
        let _ = write!(text, "{}:{endpoint}:{slot}:{urgent}:{bulk},", interface.name);
        descriptors.extend(sockets);
    }
    Ok(())
}

/// Returns the ports for which a launcher has opened sockets, given the text that [`open_ahead`]
/// returned. Ports of an interface that has gone down since are closed.
///
/// # Errors
/// A descriptor that the text names does not exist.
pub(crate) fn inherited(text: &str, selection: &NetworkSelection) -> io::Result<Vec<Port>> {
    let interfaces = interfaces::usable(selection);
    let mut ports = Vec::new();
    for word in text.split(',').filter(|word| !word.is_empty()) {
        let fields: Vec<&str> = word.split(':').collect();
        let wrong = || io::Error::other(format!("\"{word}\" names no sockets"));
        let [name, endpoint, slot, urgent, bulk] = fields[..] else { return Err(wrong()) };
        let (Ok(endpoint), Ok(slot)) = (endpoint.parse(), slot.parse()) else {
            return Err(wrong());
        };
        let socket = |number: &str| -> io::Result<OwnedFd> {
            Ok(adopt(number.parse().map_err(|_| wrong())?)?.into())
        };
        let sockets = [socket(urgent)?, socket(bulk)?];
        if let Some(interface) = interfaces.iter().find(|interface| interface.name == name) {
            ports.push(Port::new(interface.clone(), endpoint, slot, sockets)?);
        }
    }
    Ok(ports)
}
