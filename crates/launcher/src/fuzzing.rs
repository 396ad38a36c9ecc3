//! The fuzz targets of the launcher.

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use launch::questions::ProcessIdentity;

use crate::binary::Binary;
use crate::jobs;
use crate::pmi_server::PmiServer;
use crate::protocol::{OrderParser, ReportParser};
use crate::rankfile;

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// The processes of a job send PMI-1: each line comes from the rank in its first byte.
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

/// An agent parses orders, and a launcher parses reports. Bytes that arrive in two parts must give
/// equal results.
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

/// Reads a rankfile.
pub fn rank_file(bytes: &[u8]) {
    let _ = rankfile::read(&String::from_utf8_lossy(bytes));
}

/// Reads what any process may offer in place of a job, or as the identity of a process. The results
/// must be printable on a terminal.
pub fn job_reports(bytes: &[u8]) {
    let is_plain = |text: &str| text.chars().all(|letter| letter == '\n' || !letter.is_control());
    if let Some(identity) = ProcessIdentity::parse(bytes) {
        assert!(is_plain(&identity.program) && identity.rank < identity.size);
    }
    let Ok(mut report) = jobs::read_report(bytes) else { return };
    report.causes.extend(hangs::causes(&report.ranks));
    hangs::stands_still(&report.ranks, report.seconds);
    assert!(is_plain(&jobs::table(&report)));
    assert!(is_plain(&jobs::picture(&report)));
}

/// Reads a program, or a library that it needs.
pub fn program_files(bytes: &[u8]) {
    let file = sys::mapping::create_memory_file(c"combray-fuzzed", 0);
    let mut file = file.expect("there is memory for a file");
    file.write_all(bytes).expect("it has room");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if let Ok(Some(binary)) = Binary::read(&path) {
        assert!(!binary.machine_name().is_empty());
    }
}

#[cfg(test)]
#[test]
fn the_corpora_are_read() {
    replay::replay("pmi_server", pmi_server);
    replay::replay("launcher_protocol", protocol);
    replay::replay("rank_file", rank_file);
    replay::replay("job_reports", job_reports);
    replay::replay("program_files", program_files);
}
