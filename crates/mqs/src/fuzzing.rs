//! What the fuzz target for stopped processes does with arbitrary bytes.

use crate::queues::{self, Queues, StoppedMemory};

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

/// Memory that begins at address 0.
struct Bytes<'a>(&'a [u8]);

impl StoppedMemory for Bytes<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let found = usize::try_from(address).ok().and_then(|address| self.0.get(address..));
        match found.and_then(|rest| rest.get(..into.len())) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => return false,
        }
        true
    }
}

/// Reads all queues of a process whose memory consists of these bytes, with its table at address 0.
pub fn memory(bytes: &[u8]) {
    let memory = Bytes(bytes);
    let Ok(table) = queues::table(&memory, 0) else { return };
    let Some(communicators) = queues::communicators(&memory, &table) else { return };
    for communicator in communicators.iter().take(4) {
        let peers = queues::members(&memory, &communicator.peers).unwrap_or_default();
        let found = Queues { memory: &memory, table: &table, communicator, peers: &peers };
        for operations in [found.sends(), found.receives(), found.messages()].into_iter().flatten()
        {
            assert!(operations.iter().all(|one| !one.text.is_empty()));
        }
    }
}

#[cfg(test)]
#[test]
fn the_corpus_is_read() {
    replay::replay("message_queues", memory);
}
