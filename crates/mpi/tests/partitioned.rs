//! Partitions from a process to itself, in every pair of divisions.

mod common;

use std::borrow::Cow;

use base::ErrorClass;
use common::{bytes, content, process};
use datatype::{Datatype, Predefined};
use memory::Buffer;
use mpi::collective::EqualBlocks;
use mpi::{MessageSource, Partitions, Process, Request};

const BYTES: usize = 60;

fn divided(buffer: &Buffer, count: usize) -> Partitions {
    let datatype = Cow::Borrowed(Datatype::named(Predefined::Byte));
    let blocks = EqualBlocks { buffer: buffer.clone(), datatype, count: buffer.len() / count };
    Partitions { blocks, count: count as u32 }
}

fn pair(process: &Process, send: Partitions, receive: Partitions) -> (Request, Request) {
    let world = process.world();
    let send = process.partitioned_send_init(world, Some(0), 5, send).unwrap();
    let receive = process.partitioned_receive_init(world, Some(0), 5, receive).unwrap();
    (send, receive)
}

#[test]
fn a_partition_arrives_when_all_that_it_overlaps_are_ready() {
    let process = process();
    for parts in [1, 2, 3, 4, 5, 12, 60] {
        for others in [1, 2, 3, 5, 20] {
            let (out, into) = (bytes(&[0; BYTES]), bytes(&[0; BYTES]));
            let (mut send, mut receive) =
                pair(&process, divided(&out, parts), divided(&into, others));
            for round in 1..4 {
                let data: Vec<u8> = (0..BYTES as u8).map(|byte| byte ^ (round * 64)).collect();
                out.write(0, &data);
                process.start(&mut receive).unwrap();
                process.start(&mut send).unwrap();
                let (sending, receiving) =
                    (send.partitioned().unwrap(), receive.partitioned().unwrap());
                for part in 0..parts {
                    process.mark_ready(sending, part as i32).unwrap();
                    let ready = (part + 1) * BYTES / parts;
                    for other in 0..others {
                        let arrived = process.has_arrived(receiving, other as i32).unwrap();
                        assert_eq!(arrived, (other + 1) * BYTES / others <= ready);
                    }
                }
                process.wait(&mut send);
                let status = process.wait(&mut receive);
                assert_eq!((status.source, status.tag), (MessageSource::Rank(0), Some(5)));
                assert_eq!((status.bytes, status.error), (BYTES as u64, None));
                assert_eq!(content(&into), data);
            }
            process.free_request(send);
            process.free_request(receive);
        }
    }
}

#[test]
fn amounts_that_differ_are_told() {
    let process = process();
    let (out, into) = (bytes(&[7; BYTES]), bytes(&[0; BYTES - 15]));
    let (mut send, mut receive) = pair(&process, divided(&out, 4), divided(&into, 3));
    process.start(&mut receive).unwrap();
    assert!(process.check_free(&receive).is_err());
    process.start(&mut send).unwrap();
    for part in 0..4 {
        process.mark_ready(send.partitioned().unwrap(), part).unwrap();
    }
    process.wait(&mut send);
    let status = process.wait(&mut receive);
    assert_eq!(status.error.map(|error| error.class), Some(ErrorClass::Truncate));
    assert_eq!(content(&into), [7; BYTES - 15]);
}

#[test]
fn nobody_is_always_ready_and_there() {
    let process = process();
    let buffer = bytes(&[0; BYTES]);
    let world = process.world();
    let partitions = || divided(&buffer, 2);
    let mut send = process.partitioned_send_init(world, None, 0, partitions()).unwrap();
    let mut receive = process.partitioned_receive_init(world, None, 0, partitions()).unwrap();
    process.start(&mut send).unwrap();
    process.start(&mut receive).unwrap();
    for part in 0..2 {
        process.mark_ready(send.partitioned().unwrap(), part).unwrap();
        assert!(process.has_arrived(receive.partitioned().unwrap(), part).unwrap());
    }
    process.wait(&mut send);
    assert_eq!(process.wait(&mut receive).source, MessageSource::Null);
    assert!(process.partitioned_send_init(world, Some(1), 0, partitions()).is_err());
}
