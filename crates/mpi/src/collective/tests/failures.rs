//! Wrong arguments: processes that can see the error report it, and no process waits for ever.

use std::borrow::Cow;

use base::{ErrorClass, Result};
use datatype::reduction::Operator;
use datatype::{Datatype, Predefined};
use memory::Buffer;

use super::world::World;
use crate::collective::{EqualBlocks, Root, movement};
use crate::operation::Operation;

fn bytes(length: usize) -> Buffer {
    Buffer::zeroed(length)
}

fn class(outcome: &Result<()>) -> Option<ErrorClass> {
    outcome.as_ref().err().map(|error| error.class)
}

#[test]
fn a_contribution_that_is_too_long_is_an_error_at_the_root_only() {
    for world in [World::new(3, false), World::new(3, false).with_board()] {
        let outcomes = world.run(|rank, communicator| {
            let datatype = Cow::Borrowed(Datatype::named(Predefined::Byte));
            let receive = || EqualBlocks { buffer: bytes(30), datatype, count: 10 };
            let send = bytes(if rank == 2 { 20 } else { 10 });
            movement::gather(communicator, Root::Rank(0), Some(send), (rank == 0).then(receive))
                .unwrap()
        });
        let classes: Vec<_> = outcomes.iter().map(class).collect();
        assert_eq!(classes, [Some(ErrorClass::Truncate), None, None]);
        let outcomes = world.run(|rank, communicator| {
            let receive = || vec![bytes(10), bytes(10), bytes(10)];
            let send = bytes(if rank == 1 { 11 } else { 10 });
            movement::gatherv(communicator, Root::Rank(0), Some(send), (rank == 0).then(receive))
                .unwrap()
        });
        let classes: Vec<_> = outcomes.iter().map(class).collect();
        assert_eq!(classes, [Some(ErrorClass::Truncate), None, None]);
    }
}

#[test]
fn on_a_board_a_broadcast_that_is_too_short_leaves_the_rest_as_it_was() {
    let buffers: Vec<Buffer> = (0..3).map(|rank| bytes(if rank == 1 { 10 } else { 30 })).collect();
    buffers[1].write(0, &[7; 10]);
    let outcomes = World::new(3, false).with_board().run(|rank, communicator| {
        movement::bcast(communicator, Root::Rank(1), buffers[rank].clone()).unwrap()
    });
    assert!(outcomes.iter().all(Result::is_ok));
    let mut seen = [0; 30];
    buffers[2].read(0, &mut seen);
    assert_eq!(seen, std::array::from_fn(|index| if index < 10 { 7 } else { 0 }));
}

#[test]
fn the_own_block_is_checked_like_those_of_others() {
    let outcomes = World::new(1, false).run(|_, communicator| {
        movement::gatherv(communicator, Root::Rank(0), Some(bytes(9)), Some(vec![bytes(8)]))
            .unwrap()
    });
    assert_eq!(class(&outcomes[0]), Some(ErrorClass::Truncate));
    assert!(outcomes[0].as_ref().unwrap_err().detail.contains('9'));
}

#[test]
fn an_error_on_the_way_down_a_tree_holds_nobody_up() {
    let outcomes = World::new(8, false).run(|rank, communicator| {
        movement::bcast(communicator, Root::Rank(0), bytes(if rank == 4 { 100 } else { 200 }))
            .unwrap()
    });
    assert_eq!(class(&outcomes[4]), Some(ErrorClass::Truncate));
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1);
}

#[test]
fn operations_are_refused_for_datatypes_they_are_not_defined_for() {
    let double = Datatype::named(Predefined::Double);
    let derived = &Datatype::contiguous(2, double).unwrap();
    let cases = [
        (Operator::BitwiseAnd, double, "MPI_BAND"),
        (Operator::Sum, derived, "derived"),
        (Operator::Replace, double, "one-sided"),
    ];
    for (operator, datatype, word) in cases {
        let error = Operation::Predefined(operator).on(datatype).unwrap_err();
        assert_eq!(error.class, ErrorClass::Op);
        assert!(error.detail.contains(word), "{error}");
    }
}

#[test]
fn nothing_comes_into_memory_of_an_operation_that_was_given_up() {
    const LENGTH: usize = 6000;
    let text = |buffer: &Buffer| {
        let mut bytes = vec![0; LENGTH];
        buffer.read(0, &mut bytes);
        bytes
    };
    let mut were_underway = 0;
    for packets in 0..20 {
        let world = World::new(3, false);
        let buffers: Vec<Buffer> = (0..2).map(|_| bytes(LENGTH)).collect();
        buffers[1].write(0, &[7; LENGTH]);
        let mut kept = vec![None; 2];
        let outcomes = world.run_while_the_last_fails(
            packets,
            |rank, communicator| {
                movement::bcast(communicator, Root::Rank(1), buffers[rank].clone()).unwrap()
            },
            |rank| kept[rank] = Some(text(&buffers[rank])),
        );
        assert_eq!(class(&outcomes[1]), Some(ErrorClass::ProcFailed), "after {packets} packets");
        assert_eq!(kept[0].as_ref(), Some(&text(&buffers[0])), "after {packets} packets");
        were_underway += u32::from(outcomes[0].is_err() && text(&buffers[0]).contains(&7));
    }
    assert!(were_underway > 0, "no message was underway when the process failed");
}
