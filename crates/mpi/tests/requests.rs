//! Tests of requests: messages that a process sends to itself, and operations that are started more
//! than once.

mod common;

use std::cell::Cell;
use std::iter;
use std::rc::Rc;

use base::{Error, ErrorClass};
use common::{bytes, content, process};
use mpi::collective::{self, CallForm, EqualBlocks, Invocation, Root};
use mpi::{
    ActiveOperation, Destination, MessageSource, MessageStatus, Partitioned, Partitions, Process,
    Request, SendMode,
};

const TAG: i32 = 4;

fn receive_init(process: &Process, source: MessageSource, length: usize) -> Request {
    process.world().receive_init(process, source, Some(TAG), bytes(&vec![0; length])).unwrap()
}

fn send(process: &Process, data: &[u8]) {
    let (mode, to) = (SendMode::Standard, Destination::Rank(0));
    let mut sent = process.world().isend(process, mode, to, TAG, bytes(data)).unwrap();
    assert_eq!(sent.wait(process), MessageStatus::EMPTY);
}

/// Ends a persistent request if its status is not needed.
fn end_if_fine(process: &Process, request: &mut Request) -> bool {
    request.end_if_fine(&mut process.scan_transfers())
}

fn assert_refused(outcome: Result<(), Error>, detail: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.class, ErrorClass::Request);
    assert!(error.detail.contains(detail), "{error}");
}

#[test]
fn a_persistent_receive_is_inactive_before_each_start_and_after_each_status() {
    let process = &process();
    let into = bytes(&[0; 8]);
    let source = MessageSource::Rank(0);
    let mut receive =
        process.world().receive_init(process, source, Some(TAG), into.clone()).unwrap();
    for round in 1..4 {
        assert!(receive.is_inactive() && receive.is_ready(process));
        assert_eq!(receive.status(process), Some(MessageStatus::EMPTY));
        assert_eq!(receive.take_if_ready(process), Some(MessageStatus::EMPTY));
        assert_refused(receive.cancel(process), "not active");
        receive.start(process).unwrap();
        assert!(!receive.is_inactive() && !receive.is_ready(process));
        assert_eq!((receive.status(process), receive.test(process)), (None, None));
        assert_refused(receive.start(process), "active already");
        assert!(!receive.start_at_once(process) && !end_if_fine(process, &mut receive));
        send(process, &[round; 8]);
        assert_eq!(receive.status(process), receive.status(process));
        let status = receive.wait(process);
        assert_eq!((status.source, status.tag, status.bytes), (source, Some(TAG), 8));
        assert_eq!((status.error, content(&into)), (None, vec![round; 8]));
    }
}

#[test]
fn a_send_to_no_process_and_a_receive_from_none_are_complete_when_they_start() {
    let process = &process();
    let mut receive = receive_init(process, MessageSource::Null, 8);
    let (mode, to) = (SendMode::Standard, Destination::Null);
    let mut send = process.world().send_init(mode, to, TAG, bytes(&[1])).unwrap();
    for (request, status) in
        [(&mut receive, MessageStatus::OF_NULL), (&mut send, MessageStatus::EMPTY)]
    {
        request.start(process).unwrap();
        assert_eq!(request.status(process).as_ref(), Some(&status));
        assert_eq!(request.wait(process), status);
        request.start(process).unwrap();
        assert!(end_if_fine(process, request) && request.is_inactive());
        assert!(end_if_fine(process, request), "it is not started");
    }
}

#[test]
fn a_receive_with_an_error_is_kept_for_its_status() {
    let process = &process();
    let mut receive = receive_init(process, MessageSource::Rank(0), 4);
    receive.start(process).unwrap();
    send(process, &[1; 8]);
    process.wait_until(&mut |process| receive.is_ready(process));
    assert!(!end_if_fine(process, &mut receive));
    let error = receive.wait(process).error.expect("the message is too long");
    assert_eq!(error.class, ErrorClass::Truncate);
    receive.start(process).unwrap();
    send(process, &[1; 4]);
    process.wait_until(&mut |process| receive.is_ready(process));
    assert!(end_if_fine(process, &mut receive) && receive.is_inactive());
}

#[test]
fn a_started_receive_can_be_cancelled_and_started_again() {
    let process = &process();
    let mut receive = receive_init(process, MessageSource::Any, 4);
    receive.start(process).unwrap();
    receive.cancel(process).unwrap();
    assert!(receive.wait(process).cancelled);
    receive.start(process).unwrap();
    send(process, &[1; 4]);
    assert!(!receive.wait(process).cancelled);
}

#[test]
fn requests_of_other_calls_are_not_started() {
    let process = &process();
    let source = MessageSource::Rank(0);
    let mut receive = process.world().ireceive(process, source, Some(TAG), bytes(&[0; 4])).unwrap();
    assert_refused(receive.start(process), "not persistent");
    assert!(!receive.start_at_once(process) && receive.start_message(process).is_none());
    send(process, &[1; 4]);
    assert_eq!(receive.wait(process).bytes, 4);
    // The request is consumed.
    assert_eq!(receive.wait(process), MessageStatus::EMPTY);
}

#[test]
fn nothing_is_started_on_a_revoked_communicator() {
    let process = &process();
    let copy = process.world().duplicate(process, 0).unwrap();
    let source = MessageSource::Rank(0);
    let mut receive = copy.receive_init(process, source, Some(TAG), bytes(&[0; 4])).unwrap();
    let (mode, to) = (SendMode::Standard, Destination::Rank(0));
    let mut send = copy.send_init(mode, to, TAG, bytes(&[1; 4])).unwrap();
    copy.revoke(process);
    for request in [&mut receive, &mut send] {
        assert!(!request.start_at_once(process));
        assert_eq!(request.start(process).unwrap_err().class, ErrorClass::Revoked);
        assert!(request.is_inactive());
    }
}

#[test]
fn an_operation_has_no_status_and_is_not_freed_before_it_is_complete() {
    let process = &process();
    let (world, data) = (process.world(), bytes(&[7; 8]));
    let partitions = || {
        let datatype = datatype::Datatype::named(datatype::Predefined::Byte);
        let datatype = std::borrow::Cow::Borrowed(datatype);
        Partitions { blocks: EqualBlocks { buffer: data.clone(), datatype, count: 4 }, count: 2 }
    };
    let mut send = world.partitioned_send_init(process, Some(0), TAG, partitions()).unwrap();
    let mut receive = world.partitioned_receive_init(process, Some(0), TAG, partitions()).unwrap();
    receive.start(process).unwrap();
    send.start(process).unwrap();
    for request in [&mut send, &mut receive] {
        assert!(!request.is_ready(process) && request.status(process).is_none());
        assert!(request.take_if_ready(process).is_none() && request.test(process).is_none());
        assert_refused(request.check_free(process), "is active");
        assert_refused(request.cancel(process), "cannot be cancelled");
    }
    Partitioned::of(&send).unwrap().mark_ready(process, iter::once(0)).unwrap();
    Partitioned::of(&send).unwrap().mark_ready(process, iter::once(1)).unwrap();
    // Each test makes a round of progress.
    for request in [&mut send, &mut receive] {
        assert!((0..10).any(|_| request.test(process).is_some()));
        request.check_free(process).unwrap();
    }
}

#[test]
fn a_persistent_collective_is_freed_only_while_it_is_inactive() {
    let process = &process();
    let invocation = Invocation::new(process, process.world(), CallForm::Persistent);
    let bcast = collective::bcast(&invocation, Root::Rank(0), bytes(&[3; 4])).unwrap();
    let mut request = bcast.into_request(process);
    assert!(request.is_persistent() && request.check_free(process).is_ok());
    for _ in 0..3 {
        request.start(process).unwrap();
        assert_refused(request.check_free(process), "is active");
        assert_eq!(request.wait(process).error, None);
        assert!(request.is_inactive() && request.check_free(process).is_ok());
    }
    let operation = Rc::clone(request.operation().expect("it is one"));
    request.free(process);
    assert!(!operation.noun().is_empty());
}

/// An operation that says itself when it is complete.
#[derive(Debug, Default)]
struct Announced {
    is_complete: Cell<bool>,
}

impl ActiveOperation for Announced {
    fn noun(&self) -> &'static str {
        "an announced operation"
    }

    fn is_complete(&self, _: &Process) -> bool {
        self.is_complete.get()
    }
}

#[test]
fn by_default_an_operation_has_an_empty_status_once_it_is_complete() {
    let process = &process();
    let operation = Rc::new(Announced::default());
    let mut request = Request::Operation(operation.clone());
    assert_eq!((request.take_if_ready(process), request.status(process)), (None, None));
    assert!(!end_if_fine(process, &mut request) && request.check_free(process).is_ok());
    operation.is_complete.set(true);
    assert_eq!(request.status(process), Some(MessageStatus::EMPTY));
    assert_eq!(request.take_if_ready(process), Some(MessageStatus::EMPTY));
    assert!(matches!(request, Request::Done));
}

#[test]
fn an_internal_receive_that_is_too_short_ends_with_an_error() {
    let process = &process();
    let (context, gate) = (process.world().point_to_point_context(), base::GateId(0));
    for (room, class) in [(4, Some(ErrorClass::Truncate)), (8, None)] {
        let received = process.post_receive(context, 0, TAG, bytes(&vec![0; room]));
        let sent = process.post_send(gate, context, 0, TAG, bytes(&[1; 8]));
        process.wait_until(&mut |process| process.is_complete(received));
        assert_eq!(process.finish(received).err().map(|error| error.class), class);
        sent.into_iter().for_each(|sent| process.finish(sent).unwrap());
    }
}
