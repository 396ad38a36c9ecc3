//! A file in memory for tests of transfers. Its calls transfer less than requested, are
//! interrupted, and fail, depending on a seed.

use std::io;
use std::ops::Range;

use base::limits::CACHE_LINE;
use memory::LentBuffer;
use parking_lot::Mutex;
use sys::files::RangeLock;

use crate::storage::{Direction, Storage};

/// A file in memory.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    state: Mutex<MemoryFileState>,
    /// The number of bytes whose transfer costs as much as a call.
    call_bytes: u64,
}

#[derive(Debug)]
struct MemoryFileState {
    bytes: Vec<u8>,
    seed: u64,
    /// The largest size of the file, in bytes.
    size_max: u64,
    /// Calls that touch this byte fail.
    broken: Option<u64>,
    locked: Vec<Range<u64>>,
    /// Whether each call is made completely, unless a limit or the broken byte prevents it.
    is_steady: bool,
    /// The number of calls so far.
    calls: usize,
    /// For each read and write, how far the place of the memory in a cache line lies behind that of
    /// the bytes of the file.
    places: Vec<usize>,
}

impl MemoryFile {
    pub fn new(seed: u64, bytes: Vec<u8>) -> Self {
        let state = MemoryFileState {
            bytes,
            seed,
            size_max: u64::MAX,
            broken: None,
            locked: Vec::new(),
            is_steady: false,
            calls: 0,
            places: Vec::new(),
        };
        let call_bytes = [0, 3, 20, 300][(seed % 4) as usize];
        Self { state: Mutex::new(state), call_bytes }
    }

    /// Adds a limit of its size, and a byte that cannot be read or written.
    pub fn limited(self, size_max: u64, broken: Option<u64>) -> Self {
        let Self { state, call_bytes } = self;
        let mut state = state.into_inner();
        (state.size_max, state.broken) = (size_max, broken);
        Self { state: Mutex::new(state), call_bytes }
    }

    /// Lets calls be complete, and sets their cost in bytes.
    pub fn steady(self, call_bytes: u64) -> Self {
        let mut state = self.state.into_inner();
        state.is_steady = true;
        Self { state: Mutex::new(state), call_bytes }
    }

    /// Returns the number of calls so far, those that failed included.
    pub fn calls(&self) -> usize {
        self.state.lock().calls
    }

    /// Returns how far the place of the memory in a cache line lay behind that of the bytes of the
    /// file, for each read and write.
    pub fn places(&self) -> Vec<usize> {
        self.state.lock().places.clone()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.state.lock().bytes.clone()
    }

    /// Whether every lock was released.
    pub fn is_unlocked(&self) -> bool {
        self.state.lock().locked.is_empty()
    }
}

impl MemoryFileState {
    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)) % below
    }

    fn note_place(&mut self, memory: &[u8], offset: u64) {
        let behind = memory.as_ptr().addr().wrapping_sub(offset as usize);
        self.places.push(behind % CACHE_LINE);
    }

    /// Counts a call; some calls are interrupted.
    fn begin_call(&mut self) -> io::Result<()> {
        self.calls += 1;
        if !self.is_steady && self.random(4) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(())
    }

    /// Returns how many bytes of a call for `length` bytes are transferred. Some calls are
    /// interrupted instead, and a call that begins at the broken byte fails.
    fn admit(&mut self, length: usize, offset: u64) -> io::Result<usize> {
        self.begin_call()?;
        let broken = self.broken.filter(|at| (offset..offset + length as u64).contains(at));
        match broken {
            Some(at) if at == offset => Err(sys::files::device_error()),
            Some(at) => Ok((at - offset) as usize),
            None if length > 1 && !self.is_steady && self.random(3) == 0 => {
                Ok(1 + self.random(length as u64 - 1) as usize)
            }
            None => Ok(length),
        }
    }
}

impl Storage for MemoryFile {
    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.note_place(into, offset);
        let length = state.admit(into.len(), offset)?;
        let start = (offset as usize).min(state.bytes.len());
        let length = length.min(state.bytes.len() - start);
        into[..length].copy_from_slice(&state.bytes[start..start + length]);
        Ok(length)
    }

    fn write(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.note_place(from, offset);
        let length = state.admit(from.len(), offset)?;
        let room = state.size_max.saturating_sub(offset) as usize;
        if room == 0 {
            return Err(sys::files::no_space());
        }
        let (start, length) = (offset as usize, length.min(room));
        let end = (start + length).max(state.bytes.len());
        state.bytes.resize(end, 0);
        state.bytes[start..start + length].copy_from_slice(&from[..length]);
        Ok(length)
    }

    fn move_memory(
        &self,
        direction: Direction,
        memory: &LentBuffer,
        at: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize> {
        let mut bytes = vec![0; length];
        match direction {
            Direction::Read => {
                let read = self.read(&mut bytes, offset)?;
                memory.write(at, &bytes[..read]);
                Ok(read)
            }
            Direction::Write => {
                memory.read(at, &mut bytes);
                self.write(&bytes, offset)
            }
        }
    }

    fn call_bytes(&self, _direction: Direction, _offset: u64) -> u64 {
        self.call_bytes
    }

    fn sent_bytes(&self, _direction: Direction, _offset: u64) -> u64 {
        self.call_bytes
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.state.lock().bytes.len() as u64)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.state.lock().bytes.resize(size as usize, 0);
        Ok(())
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let size = state.bytes.len().max(size as usize);
        state.bytes.resize(size, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, range: Range<u64>, kind: RangeLock) -> io::Result<()> {
        let mut state = self.state.lock();
        state.begin_call()?;
        match kind {
            RangeLock::Released => state.locked.retain(|locked| *locked != range),
            _ => state.locked.push(range),
        }
        Ok(())
    }
}
