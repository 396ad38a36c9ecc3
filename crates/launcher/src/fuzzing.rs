//! What the fuzz targets of the launcher do with any bytes.

use crate::pmi_server::PmiServer;
use crate::protocol::{OrderParser, ReportParser};
use crate::rankfile;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// The processes of a job speak PMI-1: each line to the rank that its first byte names.
pub fn pmi_server(bytes: &[u8]) {
    const SIZE: u32 = 3;
    let mut server = PmiServer::new(&[0; SIZE as usize], SIZE);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (first, rest) = line.split_first().expect("a line has its end");
        let _ = server.receive(u32::from(*first) % SIZE, rest);
    }
    for rank in 0..SIZE {
        let _ = server.close(rank);
    }
}

/// An agent parses orders, and a launcher what an agent answers: cut or in one, they mean the same.
pub fn protocol(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let (one, two) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    let result = OrderParser::default().receive(bytes, &mut whole);
    let mut orders = OrderParser::default();
    let cut = orders.receive(one, &mut pieces).and_then(|()| orders.receive(two, &mut pieces));
    assert_eq!((result, whole), (cut, pieces));
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    let result = ReportParser::new(&[0, 3]).receive(bytes, &mut whole);
    let mut conversation = ReportParser::new(&[0, 3]);
    let cut = conversation.receive(one, &mut pieces);
    let cut = cut.and_then(|()| conversation.receive(two, &mut pieces));
    assert_eq!((result, whole), (cut, pieces));
}

/// A file that says where each rank runs.
pub fn rank_file(bytes: &[u8]) {
    let _ = rankfile::read(&String::from_utf8_lossy(bytes));
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("pmi_server", pmi_server);
    replay::replay("launcher_protocol", protocol);
    replay::replay("rank_file", rank_file);
}
