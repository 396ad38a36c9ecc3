//! What ranks have recorded, collected for the file and for clients.

use ::traces::RecordedTrace;
use wire::Codec;

use super::*;
use crate::protocol::TracePart;

/// To which client or, if none, to the file; and what each rank has recorded, if that is not too
/// long.
pub(super) type Delivered = (Option<ClientId>, Option<Vec<Vec<u8>>>);

fn traced() -> JobPlan {
    let target = crate::TraceTarget { file: "trace".into(), bytes: 1 << 20, last: None };
    JobPlan { trace: Some(target), ..plan(true) }
}

impl TestJob<'_> {
    fn ask_for_traces(&mut self, client: ClientId) {
        self.handle(JobEvent::TraceRequest(client));
    }

    /// The rank of a host sends a part of what it has recorded.
    fn send_part(&mut self, rank: usize, (offset, total): (u32, u32), bytes: &[u8]) {
        let part = TracePart { offset, total, bytes: bytes.to_vec() };
        self.report(rank, AgentReport::TracePart(rank as u32, part));
    }

    /// The rank of a host sends all that it has recorded.
    fn send_trace(&mut self, rank: usize, bytes: &[u8]) {
        self.send_part(rank, (0, bytes.len() as u32), bytes);
    }

    /// How many parts were requested of the rank of a host.
    fn requested(&self, rank: usize) -> usize {
        let is_request = |order: &&AgentOrder| matches!(order, AgentOrder::SendTrace(..));
        self.received[rank].iter().filter(is_request).count()
    }

    fn end_all(&mut self) {
        (0..2).for_each(|host| self.end(host, End::Code(0)));
    }
}

fn written() -> Vec<u8> {
    RecordedTrace { is_written: true, ..RecordedTrace::default() }.to_bytes()
}

fn both(first: &[u8], second: &[u8]) -> Option<Vec<Vec<u8>>> {
    Some(vec![first.to_vec(), second.to_vec()])
}

#[test]
fn a_complete_trace_is_not_overwritten_when_a_client_asks_during_the_end() {
    let plan = traced();
    let mut test = TestJob::started(&plan, 2);
    // The client asks before the end: rank 0 has not written the trace by then.
    test.ask_for_traces(1);
    test.send_trace(0, b"before");
    test.end_all();
    test.send_trace(1, b"end");
    assert_eq!(std::mem::take(&mut test.traces), [(Some(1), both(b"before", b"end"))]);
    // The file gets a collection of its own, which finds that rank 0 has written the trace.
    test.send_trace(0, &written());
    assert_eq!((&test.traces[..], test.requested(1)), (&[][..], 1));
    assert!(matches!(test.job.phase, JobPhase::ClosingAgents));
}

#[test]
fn a_complete_trace_is_not_overwritten_when_a_client_asks_after_the_end() {
    let plan = traced();
    let mut test = TestJob::started(&plan, 2);
    test.end_all();
    test.ask_for_traces(1);
    test.send_trace(0, &written());
    test.send_trace(1, b"end");
    assert_eq!(test.traces, [(Some(1), both(&written(), b"end"))]);
}

#[test]
fn clients_join_the_collection_for_the_file_and_leave_its_deadline() {
    let plan = traced();
    let mut test = TestJob::started(&plan, 2);
    test.end_all();
    test.send_trace(0, b"first");
    test.ask_for_traces(1);
    test.ask_for_traces(2);
    assert_eq!((test.requested(0), test.requested(1)), (1, 1));
    (0..5).for_each(|_| {
        test.pass(9);
        test.report(1, AgentReport::Heartbeat);
    });
    assert_eq!(test.traces, []);
    test.send_trace(1, b"second");
    let all = || both(b"first", b"second");
    assert_eq!(test.traces, [(None, all()), (Some(1), all()), (Some(2), all())]);
}

#[test]
fn a_part_of_an_earlier_collection_is_not_mixed_with_the_next() {
    let plan = traced();
    let mut test = TestJob::started(&plan, 2);
    test.ask_for_traces(1);
    test.pass(9);
    test.report(1, AgentReport::Heartbeat);
    test.pass(1);
    assert_eq!(std::mem::take(&mut test.traces), [(Some(1), Some(Vec::new()))]);
    test.ask_for_traces(2);
    test.send_part(0, (0, 6), b"old");
    assert_eq!(test.requested(0), 2);
    test.send_part(0, (0, 6), b"new");
    test.send_part(0, (3, 6), b"est");
    test.send_trace(1, b"");
    assert_eq!(test.traces, [(Some(2), both(b"newest", b""))]);
}

#[test]
fn clients_are_refused_early_what_no_answer_can_carry() {
    let plan = traced();
    let mut test = TestJob::started(&plan, 2);
    test.job.traces.reply_bytes_max = 1 << 20;
    test.ask_for_traces(1);
    test.send_part(0, (0, 1 << 20), b"first");
    assert_eq!(std::mem::take(&mut test.traces), [(Some(1), None)]);
    assert_eq!(test.requested(0), 1);
    // The file is written nevertheless.
    test.end_all();
    test.ask_for_traces(2);
    test.send_part(0, (0, 1 << 20), b"first");
    assert_eq!(std::mem::take(&mut test.traces), [(Some(2), None)]);
    test.send_part(0, (5, 1 << 20), b"");
    test.send_trace(1, b"second");
    assert_eq!(test.traces, [(None, both(b"first", b"second"))]);
}

#[test]
fn the_file_follows_a_collection_whose_clients_are_refused() {
    let plan = traced();
    let mut test = TestJob::started(&plan, 2);
    test.job.traces.reply_bytes_max = 1 << 20;
    test.ask_for_traces(1);
    test.end_all();
    test.send_trace(0, &[7; 1 << 20]);
    assert_eq!(std::mem::take(&mut test.traces), [(Some(1), None)]);
    test.send_trace(0, b"first");
    test.send_trace(1, b"second");
    assert_eq!(test.traces, [(None, both(b"first", b"second"))]);
    assert!(matches!(test.job.phase, JobPhase::ClosingAgents));
}
