//! Buffers that another thread uses, and that are written to files and read from them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use sys::files::{self, MemoryRun, RUNS_MAX};

use crate::buffer::Buffer;

/// A buffer that is passed from thread to thread; each of them has exclusive use of it.
#[derive(Debug)]
pub struct LentBuffer(Buffer);

// SAFETY: one thread at a time accesses the memory:
// - Memory of this library has no other buffer, as `alone` made sure, and no other buffer of it can
//   be made before it is taken back by value.
// - For memory of the program, `new`'s caller guarantees it. Such a buffer has no owner, whose
//   counter would belong to one thread; its layout is `Send`.
unsafe impl Send for LentBuffer {}

/// If runs are shorter than this on average, they are gathered before they are written.
const LISTED_RUN_BYTES_MIN: usize = 512;

/// The largest number of bytes gathered at once.
const GATHERED_BYTES_MAX: usize = 1 << 20;

impl LentBuffer {
    /// Wraps memory of the program.
    ///
    /// # Safety
    /// As long as this value or a part of it exists:
    /// - The program does not touch the memory, except that it may read memory that is only read
    ///   here.
    /// - The users of this value let one thread at a time use it and its parts.
    ///
    /// # Panics
    /// If it is memory of this library.
    pub unsafe fn new(buffer: Buffer) -> Self {
        assert!(!buffer.is_owned(), "memory of our own is lent by `alone`");
        Self(buffer)
    }

    /// Wraps memory of this library, if no clone or part of the buffer is left; otherwise returns
    /// the buffer as the error.
    pub fn alone(buffer: Buffer) -> Result<Self, Buffer> {
        if buffer.is_sole_owner() { Ok(Self(buffer)) } else { Err(buffer) }
    }

    /// Allocates `length` zero bytes.
    pub fn zeroed(length: usize) -> Self {
        Self(Buffer::zeroed(length))
    }

    /// Returns the buffer, for the thread that uses it now.
    pub fn into_buffer(self) -> Buffer {
        self.0
    }

    /// Returns a buffer of the packed bytes `offset .. offset + length`, if they are one run in
    /// memory of the program.
    pub fn program_part(&self, offset: usize, length: usize) -> Option<Buffer> {
        let may = !self.0.is_owned() && self.0.is_contiguous();
        may.then(|| self.0.contiguous_part(offset as isize, length))
    }

    /// Returns the buffer, if it is memory of the program.
    pub fn program_buffer(&self) -> Option<&Buffer> {
        (!self.0.is_owned()).then_some(&self.0)
    }

    /// Returns the address of its first byte, if it is one run.
    pub fn address(&self) -> usize {
        self.0.base_address()
    }

    /// Returns the number of bytes of data.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Copies the packed bytes `offset .. offset + out.len()` to `out`.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.0.read(offset, out);
    }

    /// Copies `data` to the packed bytes `offset .. offset + data.len()`.
    pub fn write(&self, offset: usize, data: &[u8]) {
        self.0.write(offset, data);
    }

    /// Reads bytes of a file from `position` on into the packed bytes `offset .. offset + length`,
    /// as many as the system reads in one call; returns their number, 0 at the end of the file.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Panics
    /// If the buffer has fewer bytes.
    pub fn read_file(
        &self,
        offset: usize,
        length: usize,
        file: &File,
        position: u64,
    ) -> io::Result<usize> {
        self.check(offset, length);
        if self.is_gathered() {
            let mut gathered = vec![0; length.min(GATHERED_BYTES_MAX)];
            let run = MemoryRun::new(gathered.as_mut_ptr(), gathered.len());
            // SAFETY: the vector lives during the call, and nothing else uses it.
            let read = unsafe { files::read_at(file.as_fd(), &[run], position) }?;
            self.0.write(offset, &gathered[..read]);
            return Ok(read);
        }
        // SAFETY: the buffer's memory may be written, and no other thread uses it.
        self.with_runs(offset, length, |runs| unsafe {
            files::read_at(file.as_fd(), runs, position)
        })
    }

    /// Writes the packed bytes `offset .. offset + length` to a file from `position` on, as many as
    /// the system writes in one call; returns their number.
    ///
    /// # Errors
    /// The system's.
    ///
    /// # Panics
    /// If the buffer has fewer bytes.
    pub fn write_file(
        &self,
        offset: usize,
        length: usize,
        file: &File,
        position: u64,
    ) -> io::Result<usize> {
        self.check(offset, length);
        if self.is_gathered() {
            let mut gathered = vec![0; length.min(GATHERED_BYTES_MAX)];
            self.0.read(offset, &mut gathered);
            let run = MemoryRun::new(gathered.as_mut_ptr(), gathered.len());
            // SAFETY: the vector lives during the call, and nothing else uses it.
            return unsafe { files::write_at(file.as_fd(), &[run], position) };
        }
        // SAFETY: the buffer's memory may be read, and nothing writes it meanwhile.
        self.with_runs(offset, length, |runs| unsafe {
            files::write_at(file.as_fd(), runs, position)
        })
    }

    fn check(&self, offset: usize, length: usize) {
        let fits = offset <= self.len() && length <= self.len() - offset;
        assert!(fits, "{length} bytes from {offset} on leave a buffer of {} bytes", self.len());
    }

    /// Whether bytes go to a file through other memory: runs are short, or neither the processor
    /// nor the system addresses them.
    fn is_gathered(&self) -> bool {
        let count = self.0.segment_count();
        !self.0.is_addressable() || count > 1 && self.len() / count < LISTED_RUN_BYTES_MIN
    }

    fn with_runs<T>(
        &self,
        offset: usize,
        length: usize,
        use_them: impl FnOnce(&[MemoryRun]) -> T,
    ) -> T {
        if self.0.is_contiguous() {
            let mut run = None;
            self.0.pointers(offset, length, &mut |at, length| {
                run = Some(MemoryRun::new(at, length));
                true
            });
            return use_them(run.as_slice());
        }
        let mut runs = Vec::new();
        self.0.pointers(offset, length, &mut |run, length| {
            runs.push(MemoryRun::new(run, length));
            runs.len() < RUNS_MAX
        });
        use_them(&runs)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Blocks, DistantMemory, SharedBytes, SharedBytesMut};

    #[test]
    fn what_others_have_too_is_not_lent() {
        let buffer = Buffer::zeroed(10);
        let part = buffer.contiguous_part(2, 3);
        let buffer = LentBuffer::alone(buffer).unwrap_err();
        drop(part);
        let lent = LentBuffer::alone(buffer).unwrap();
        let lent = std::thread::spawn(move || {
            lent.write(4, b"other");
            lent
        });
        let mut seen = [0; 6];
        lent.join().unwrap().into_buffer().read(4, &mut seen);
        assert_eq!(&seen, b"other\0");
    }

    /// Memory at addresses that do not exist, whose bytes are here.
    #[derive(Debug)]
    struct Elsewhere(std::sync::Mutex<Vec<u8>>);

    impl DistantMemory for Elsewhere {
        fn read(&self, parts: &[Blocks], out: SharedBytesMut<'_>) {
            let bytes = self.0.lock().unwrap();
            for part in parts {
                out.part(part.offset, part.block)
                    .copy_from(&bytes[part.address - 4096..][..part.block]);
            }
        }

        fn write(&self, parts: &[Blocks], data: SharedBytes<'_>) {
            let mut bytes = self.0.lock().unwrap();
            for part in parts {
                let into = &mut bytes[part.address - 4096..][..part.block];
                data.part(part.offset, part.block).copy_to(into);
            }
        }
    }

    #[test]
    fn distant_bytes_of_any_number_go_to_a_file_and_come_back() {
        crate::expect_distant();
        for length in [1, 2, 5000] {
            let private = tempfile::tempdir().unwrap();
            let path = private.path().join("distant");
            let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
            let data: Vec<u8> = (0..length).map(|byte| (byte % 251) as u8 + 1).collect();
            let memory = Arc::new(Elsewhere(std::sync::Mutex::new(data.clone())));
            // SAFETY: nothing accesses these addresses.
            let buffer =
                unsafe { Buffer::contiguous(std::ptr::without_provenance_mut(4096), length) };
            // SAFETY: one thread uses the value.
            let lent = unsafe { LentBuffer::new(buffer.in_distant(memory.clone())) };
            assert_eq!(lent.write_file(0, length, &file, 3).unwrap(), length);
            lent.write(0, &vec![0; length]);
            assert_eq!(lent.read_file(0, length, &file, 3).unwrap(), length);
            assert_eq!(*memory.0.lock().unwrap(), data);
        }
    }

    /// Moves all bytes from the second one on; the system may move fewer at once.
    fn in_steps(end: usize, step: impl Fn(usize, usize) -> io::Result<usize>) {
        let mut at = 1;
        while at < end {
            let moved = step(at, end - at).unwrap();
            assert!(moved > 0 && at + moved <= end);
            at += moved;
        }
    }

    #[test]
    fn laid_out_bytes_go_to_a_file_and_come_back() {
        for (runs, length) in [(3, 700), (40, 5)] {
            let private = tempfile::tempdir().unwrap();
            let path = private.path().join("lent");
            let file =
                File::options().read(true).write(true).create(true).truncate(true).open(&path);
            let file = file.unwrap();
            let mut memory = vec![0_u8; runs * 1000];
            let list: Vec<_> = (0..runs)
                .map(|run| (memory.as_mut_ptr().wrapping_add(run * 1000), length))
                .collect();
            // SAFETY: the vector lives during the call, and nothing else uses it.
            let lent = unsafe { LentBuffer::new(Buffer::gathered(&list)) };
            let data: Vec<u8> = (0..lent.len()).map(|byte| (byte % 251) as u8).collect();
            lent.write(0, &data);
            in_steps(lent.len(), |at, left| lent.write_file(at, left, &file, 7 + at as u64));
            lent.write(0, &vec![0; data.len()]);
            in_steps(lent.len(), |at, left| lent.read_file(at, left, &file, 7 + at as u64));
            let mut back = vec![0; data.len()];
            lent.read(0, &mut back);
            assert_eq!(back, data);
            drop(lent);
            drop(memory);
            std::fs::remove_file(path).unwrap();
        }
    }
}
