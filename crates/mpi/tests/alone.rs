//! A process without a launcher is a job of one process: tests of its communicators and
//! collectives.

mod common;

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use base::ErrorClass;
use common::{bytes, content, process};
use datatype::reduction::Operator;
use datatype::{Datatype, Predefined};
use memory::Buffer;
use mpi::attribute::{AttributeKind, CopyRule, Keyvals};
use mpi::collective::{self, CallForm, EqualBlocks, Invocation, Reduction, Root};
use mpi::communicator::{CommunicatorComparison, SplitKind};
use mpi::error_handler::ErrorHandler;
use mpi::group::Group;
use mpi::info::{Info, InfoLimits};
use mpi::operation::Operation;

#[test]
fn every_way_of_creation_works_for_one_process() {
    let process = &process();
    let world = process.world();
    let limits = InfoLimits { key_bytes_max: 30, value_bytes_max: 10 };
    let (info, key) = (Info::new(), b"mpi_assert_no_any_tag");
    info.set(key, b"true", limits).unwrap();
    world.set_error_handler(Rc::new(ErrorHandler::Return));
    world.set_info(process, &info);
    world.set_name(b"everybody");

    let copy = world.duplicate(process, 0).unwrap();
    assert_eq!(world.compare(&copy), CommunicatorComparison::Congruent);
    assert_eq!(world.compare(world), CommunicatorComparison::Identical);
    assert!(matches!(*copy.error_handler(), ErrorHandler::Return));
    assert!(
        copy.name().is_empty() && copy.info(process).hint(key).as_deref() != Some(&b"true"[..])
    );
    let copy = world.duplicate_with_info(process, 0, &info).unwrap();
    assert_eq!(copy.info(process).hint(key).as_deref(), Some(&b"true"[..]));

    let group = Rc::clone(world.group());
    assert!(world.create(process, &group).unwrap().is_some());
    assert!(world.create(process, &Group::empty()).unwrap().is_none());
    assert!(world.create_of_group(process, &group, i32::MAX).unwrap().is_some());
    let stranger = Group::single(base::GateId(9));
    let error = world.create(process, &stranger).unwrap_err();
    assert_eq!(error.class, ErrorClass::Group);
    assert!(error.detail.contains('9'), "{error}");

    assert!(world.split(process, Some(3), -1).unwrap().is_some());
    assert!(world.split(process, None, 0).unwrap().is_none());
    let shared = SplitKind::SharedMemory;
    let shared = world.split_by_kind(process, shared, 0, Some(&info)).unwrap().0;
    assert!(shared.unwrap().info(process).hint(key).is_some());
    let none = SplitKind::None;
    assert!(world.split_by_kind(process, none, 0, None).unwrap().0.is_none());
    process.finalize().unwrap();
}

#[test]
fn attributes_go_with_their_communicator() {
    let process = &process();
    let keyvals = Keyvals::starting_at(100);
    let deleted = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&deleted);
    let delete = Rc::new(move |object, _, value| {
        log.borrow_mut().push((object, value));
        Ok(())
    });
    let kind = AttributeKind::Communicator;
    let number = keyvals.create(kind, CopyRule::Share, Some(delete)).unwrap();
    let keyval = keyvals.find(kind, number).unwrap();

    process.world().attributes().set(1, &keyval, 5).unwrap();
    let copy = process.world().duplicate(process, 1).unwrap();
    assert_eq!(copy.attributes().value(&keyval), Some(5));
    copy.free(2).unwrap();
    assert_eq!(*deleted.borrow(), [(2, 5)]);
    assert_eq!(process.world().attributes().value(&keyval), Some(5));
}

#[test]
fn many_communicators_come_and_go() {
    let process = &process();
    for _ in 0..1_000_000 {
        let copy = process.world().duplicate(process, 0).unwrap();
        copy.free(0).unwrap();
    }
    let barrier = Invocation::new(process, process.world(), CallForm::Blocking);
    collective::barrier(&barrier).unwrap().complete(process).unwrap();
}

#[test]
fn collectives_of_one_process_move_its_own_data() {
    let process = &process();
    let world = &Invocation::new(process, process.world(), CallForm::Blocking);
    let datatype = Datatype::named(Predefined::Int32);
    let blocks = |buffer: &Buffer| EqualBlocks {
        buffer: buffer.clone(),
        datatype: Cow::Borrowed(datatype),
        count: 2,
    };
    let sent = bytes(&[1, 0, 0, 0, 2, 0, 0, 0]);
    let fresh = || bytes(&[0; 8]);

    collective::barrier(world).unwrap().complete(process).unwrap();
    collective::bcast(world, Root::Rank(0), sent.clone()).unwrap().complete(process).unwrap();
    let received = fresh();
    collective::gather(world, Root::Rank(0), Some(sent.clone()), Some(blocks(&received)))
        .unwrap()
        .complete(process)
        .unwrap();
    assert_eq!(content(&received), content(&sent));
    let received = fresh();
    collective::scatter(world, Root::Rank(0), Some(blocks(&sent)), Some(received.clone()))
        .unwrap()
        .complete(process)
        .unwrap();
    assert_eq!(content(&received), content(&sent));
    let received = fresh();
    collective::alltoallv(world, Some(vec![sent.clone()]), vec![received.clone()])
        .unwrap()
        .complete(process)
        .unwrap();
    assert_eq!(content(&received), content(&sent));
    let received = fresh();
    let reduction = Reduction {
        send: Some(sent.clone()),
        receive: Some(received.clone()),
        datatype: Cow::Borrowed(datatype),
        combination: Operation::Predefined(Operator::Sum).on(datatype).unwrap(),
    };
    collective::allreduce(world, 2, reduction).unwrap().complete(process).unwrap();
    assert_eq!(content(&received), content(&sent));

    let sum = Operation::Predefined(Operator::Sum);
    sum.on(datatype).unwrap().combine(&sent, &received, 2);
    assert_eq!(content(&received), [2, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(collective::bcast(world, Root::Rank(1), sent).unwrap_err().class, ErrorClass::Root);
}
