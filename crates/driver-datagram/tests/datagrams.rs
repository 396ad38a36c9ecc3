//! Tests of the drivers of several processes within this process.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex};

use base::GateId;
use driver::conformance::{self, RecordingSink, SharedCards};
use driver::{Driver, Settings};

/// Creates two connected drivers with these secrets.
fn pair(secrets: [u8; 2]) -> [Box<dyn Driver>; 2] {
    let cards: Arc<Mutex<Vec<String>>> = Arc::default();
    let settings = Settings { networks: "eth9, datagram".into(), ..Settings::default() };
    let mut gate = 0;
    let mut drivers = secrets.map(|secret| {
        let directory = Box::new(SharedCards(Arc::clone(&cards), [secret; 32]));
        gate += 1;
        driver_datagram::open(GateId(gate - 1), &settings, directory).unwrap().unwrap()
    });
    *cards.lock().unwrap() = drivers.iter().map(|driver| driver.card()).collect();
    for (gate, driver) in drivers.iter_mut().enumerate() {
        assert_eq!(driver.connect(GateId(1 - gate as u32)).unwrap().rails, [0]);
    }
    drivers
}

#[test]
fn conforms() {
    let [mut one, mut two] = pair([1, 1]);
    conformance::keeps_buffers(|node| one.keep_buffers_on(node));
    conformance::packets(&mut *one, Some(&mut *two), GateId(0));
    conformance::packets(&mut *two, Some(&mut *one), GateId(1));
    conformance::unsteady(&mut *one, &mut *two);
}

#[test]
fn it_is_used_only_if_it_is_named() {
    for networks in ["", "eth0", "datagrams"] {
        let settings = Settings { networks: networks.into(), ..Settings::default() };
        let directory = Box::new(SharedCards::default());
        assert!(driver_datagram::open(GateId(0), &settings, directory).unwrap().is_none());
    }
}

#[test]
fn strangers_are_not_heard() {
    let [mut one, mut two] = pair([1, 2]);
    assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
    let name = SocketAddr::from_abstract_name(format!("combray-{}", two.card())).unwrap();
    let stranger = UnixDatagram::unbound().unwrap();
    stranger.send_to_addr(b"x", &name).unwrap();
    stranger.send_to_addr(&[2; 35], &name).unwrap();
    let mut record = RecordingSink::default();
    two.poll(&mut record);
    assert!(record.packets.is_empty());
}

#[test]
fn a_peer_that_has_gone_is_lost() {
    let [mut one, two] = pair([1, 1]);
    drop(two);
    assert!(one.post_packet(GateId(1), 0, 8, &mut |out| out.fill(1)));
    let mut record = RecordingSink::default();
    assert!(one.poll(&mut record));
    assert_eq!((record.lost.len(), one.has_departed(GateId(1))), (1, true));
    assert!(!one.post_packet(GateId(1), 0, 8, &mut |_| panic!("there is no room")));
    one.give_up(GateId(1), 0);
    assert!(!one.poll(&mut record));
}
