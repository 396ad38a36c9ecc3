//! A stream in memory with the faults of networks: it has little room, delivers bytes in pieces,
//! stalls, and breaks.

#![cfg_attr(not(test), allow(dead_code, reason = "fuzz targets need less of it than tests"))]

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};

use crate::stream::ByteStream;

/// One end of a stream.
pub(crate) struct Faulty {
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
}

/// One direction.
struct Pipe {
    bytes: VecDeque<u8>,
    room: usize,
    /// How many reads were attempted.
    reads: usize,
    pieces: ReadSizes,
    /// Whether nothing can be read, although data is there.
    stalled: bool,
    /// Whether the writing or reading end is gone.
    closed: bool,
    /// Whether the network between is gone, with the data in flight.
    broken: bool,
}

/// How many bytes one read returns.
enum ReadSizes {
    /// All bytes that are there.
    Whole,
    /// This many bytes, then nothing once; all bytes when the list is empty.
    Given(VecDeque<usize>),
    /// As many bytes as the function returns each time, possibly none.
    Chosen(Box<dyn FnMut() -> usize + Send>),
}

/// Creates the two ends of a stream that holds `room` bytes in each direction.
pub(crate) fn pair(room: usize) -> (Faulty, Faulty) {
    let pipe = || {
        let (bytes, pieces) = (VecDeque::new(), ReadSizes::Whole);
        Arc::new(Mutex::new(Pipe {
            bytes,
            room,
            reads: 0,
            pieces,
            stalled: false,
            closed: false,
            broken: false,
        }))
    };
    let (there, back) = (pipe(), pipe());
    let near = Faulty { incoming: Arc::clone(&back), outgoing: Arc::clone(&there) };
    (near, Faulty { incoming: there, outgoing: back })
}

impl Faulty {
    /// Delivers what is read in pieces of these lengths, then all the rest.
    pub(crate) fn deliver_in_pieces(&self, pieces: &[usize]) {
        self.incoming.lock().unwrap().pieces = ReadSizes::Given(pieces.iter().copied().collect());
    }

    /// Limits each read and each write at this end to as many bytes as `choices` return.
    pub(crate) fn tear(&self, choices: [Box<dyn FnMut() -> usize + Send>; 2]) {
        for (pipe, choice) in [&self.incoming, &self.outgoing].into_iter().zip(choices) {
            pipe.lock().unwrap().pieces = ReadSizes::Chosen(choice);
        }
    }

    /// Stops reading at this end.
    pub(crate) fn stall(&self) {
        self.incoming.lock().unwrap().stalled = true;
    }

    /// Resumes reading at this end.
    pub(crate) fn resume(&self) {
        self.incoming.lock().unwrap().stalled = false;
    }

    /// Breaks the network, with the loss of the data in flight.
    pub(crate) fn break_off(&self) {
        for pipe in [&self.incoming, &self.outgoing] {
            pipe.lock().unwrap().broken = true;
        }
    }

    /// Returns how many reads were attempted at this end.
    pub(crate) fn reads(&self) -> usize {
        self.incoming.lock().unwrap().reads
    }

    /// Whether something was written that has not been read at this end.
    pub(crate) fn has_more(&self) -> bool {
        !self.incoming.lock().unwrap().bytes.is_empty()
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        for pipe in [&self.incoming, &self.outgoing] {
            pipe.lock().unwrap().closed = true;
        }
    }
}

impl Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken || self.closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let mut count = bytes.len().min(self.room - self.bytes.len());
        if let ReadSizes::Chosen(choose) = &mut self.pieces {
            count = count.min(choose());
        }
        if count == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.bytes.extend(&bytes[..count]);
        Ok(count)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.broken {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if self.bytes.is_empty() && self.closed {
            return Ok(0);
        }
        let here = self.bytes.len().min(into.len());
        let count = match &mut self.pieces {
            _ if self.stalled => 0,
            ReadSizes::Whole => here,
            ReadSizes::Chosen(choose) => here.min(choose()),
            ReadSizes::Given(lengths) => match lengths.front_mut() {
                None => here,
                Some(left) => {
                    let count = here.min(*left);
                    *left -= count;
                    if count == 0 {
                        lengths.pop_front();
                    }
                    count
                }
            },
        };
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into.iter_mut().zip(self.bytes.drain(..count)).for_each(|(place, byte)| *place = byte);
        Ok(count)
    }
}

impl ByteStream for Faulty {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.incoming.lock().unwrap().read(into)
    }

    fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut all = vec![0; into.iter().map(|slice| slice.len()).sum()];
        let count = self.read(&mut all)?;
        let mut rest = &all[..count];
        for slice in into {
            let (now, after) = rest.split_at(rest.len().min(slice.len()));
            slice[..now.len()].copy_from_slice(now);
            rest = after;
        }
        Ok(count)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.lock().unwrap().write(bytes)
    }

    fn write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        self.write(&all)
    }

    fn unacknowledged(&self) -> u64 {
        self.outgoing.lock().unwrap().bytes.len() as u64
    }
}
