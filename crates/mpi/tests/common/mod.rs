//! A process without a launcher, and memory for its messages.

use memory::Buffer;
use mpi::{Process, ThreadLevel};

pub fn process() -> Process {
    let process = Process::default();
    process.initialize(ThreadLevel::Single).expect("a process alone needs nobody");
    process
}

pub fn bytes(content: &[u8]) -> Buffer {
    let buffer = Buffer::zeroed(content.len());
    buffer.write(0, content);
    buffer
}

pub fn content(buffer: &Buffer) -> Vec<u8> {
    let mut content = vec![0; buffer.len()];
    buffer.read(0, &mut content);
    content
}
