//! Tests of partitions that a process sends to itself, in every pair of divisions.

mod common;

use std::borrow::Cow;
use std::iter;

use base::ErrorClass;
use common::{bytes, content, process};
use datatype::{Datatype, Predefined};
use memory::Buffer;
use mpi::collective::EqualBlocks;
use mpi::{MessageSource, Partitioned, Partitions, Process, Request};

const BYTES: usize = 60;

fn divided(buffer: &Buffer, count: usize) -> Partitions {
    let datatype = Cow::Borrowed(Datatype::named(Predefined::Byte));
    let blocks = EqualBlocks { buffer: buffer.clone(), datatype, count: buffer.len() / count };
    Partitions { blocks, count: count as u32 }
}

fn pair(process: &Process, send: Partitions, receive: Partitions) -> (Request, Request) {
    let world = process.world();
    let send = world.partitioned_send_init(process, Some(0), 5, send).unwrap();
    let receive = world.partitioned_receive_init(process, Some(0), 5, receive).unwrap();
    (send, receive)
}

/// Whether a partition arrives within a few rounds of progress. A partition that is held back is
/// sent in the first round.
fn arrives(process: &Process, receiving: &Partitioned, partition: i32) -> bool {
    (0..4).any(|_| receiving.has_arrived(process, partition).unwrap())
}

#[test]
fn a_partition_arrives_when_all_that_it_overlaps_are_ready() {
    let process = &process();
    for parts in [1, 2, 3, 4, 5, 12, 60] {
        for others in [1, 2, 3, 5, 20] {
            let (out, into) = (bytes(&[0; BYTES]), bytes(&[0; BYTES]));
            let (mut send, mut receive) =
                pair(process, divided(&out, parts), divided(&into, others));
            for round in (1..4).cycle().take(70) {
                let data: Vec<u8> = (0..BYTES as u8).map(|byte| byte ^ (round * 64)).collect();
                out.write(0, &data);
                receive.start(process).unwrap();
                send.start(process).unwrap();
                let (sending, receiving) =
                    (Partitioned::of(&send).unwrap(), Partitioned::of(&receive).unwrap());
                for part in 0..parts {
                    sending.mark_ready(process, iter::once(part as i32)).unwrap();
                    let ready = (part + 1) * BYTES / parts;
                    for other in 0..others {
                        let arrived = arrives(process, &receiving, other as i32);
                        assert_eq!(arrived, (other + 1) * BYTES / others <= ready);
                    }
                }
                send.wait(process);
                let status = receive.wait(process);
                assert_eq!((status.source, status.tag), (MessageSource::Rank(0), Some(5)));
                assert_eq!((status.bytes, status.error), (BYTES as u64, None));
                assert_eq!(content(&into), data);
            }
            send.free(process);
            receive.free(process);
        }
    }
}

#[test]
fn short_partitions_that_are_ready_together_arrive_together() {
    let process = &process();
    let (out, into) = (bytes(&[3; BYTES]), bytes(&[0; BYTES]));
    let (mut send, mut receive) = pair(process, divided(&out, 4), divided(&into, 5));
    for _ in 0..3 {
        receive.start(process).unwrap();
        send.start(process).unwrap();
        let (sending, receiving) =
            (Partitioned::of(&send).unwrap(), Partitioned::of(&receive).unwrap());
        sending.mark_ready(process, [2, 0].into_iter()).unwrap();
        assert!(sending.mark_ready(process, [1, 0].into_iter()).is_err());
        sending.mark_ready(process, iter::once(3)).unwrap();
        assert!(arrives(process, &receiving, 4));
        assert!(receiving.has_arrived(process, 0).unwrap());
        send.wait(process);
        assert_eq!(receive.wait(process).bytes, BYTES as u64);
        assert_eq!(content(&into), [3; BYTES]);
        into.write(0, &[0; BYTES]);
    }
}

#[test]
fn amounts_that_differ_are_reported() {
    let process = &process();
    let (out, into) = (bytes(&[7; BYTES]), bytes(&[0; BYTES - 15]));
    let (mut send, mut receive) = pair(process, divided(&out, 4), divided(&into, 3));
    receive.start(process).unwrap();
    assert!(receive.check_free(process).is_err());
    send.start(process).unwrap();
    for part in 0..4 {
        Partitioned::of(&send).unwrap().mark_ready(process, iter::once(part)).unwrap();
    }
    send.wait(process);
    let status = receive.wait(process);
    assert_eq!(status.error.map(|error| error.class), Some(ErrorClass::Truncate));
    assert_eq!(content(&into), [7; BYTES - 15]);
}

#[test]
fn nobody_is_always_ready_and_there() {
    let process = &process();
    let buffer = bytes(&[0; BYTES]);
    let world = process.world();
    let partitions = || divided(&buffer, 2);
    let mut send = world.partitioned_send_init(process, None, 0, partitions()).unwrap();
    let mut receive = world.partitioned_receive_init(process, None, 0, partitions()).unwrap();
    send.start(process).unwrap();
    receive.start(process).unwrap();
    for part in 0..2 {
        Partitioned::of(&send).unwrap().mark_ready(process, iter::once(part)).unwrap();
        assert!(Partitioned::of(&receive).unwrap().has_arrived(process, part).unwrap());
    }
    send.wait(process);
    assert_eq!(receive.wait(process).source, MessageSource::Null);
    assert!(world.partitioned_send_init(process, Some(1), 0, partitions()).is_err());
}
