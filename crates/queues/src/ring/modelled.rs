//! The memory of a ring in the model checker: each word and each line is a separate object, so that
//! the checker sees every access to it.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use memory::{SharedBytes, SharedBytesMut};

use super::{Control, HEADER_BYTES, Header, LINE_BYTES, check_lines};
use crate::primitive::{AtomicU64, Ordering};

/// Stands for the shared memory.
pub(crate) struct ModelMemory {
    control: Control,
    headers: Vec<AtomicU64>,
    bodies: Vec<UnsafeCell<[u8; LINE_BYTES]>>,
}

impl ModelMemory {
    pub(crate) fn new(lines: usize) -> Self {
        let control = Control::zeroed();
        let headers = (0..lines).map(|_| AtomicU64::new(0)).collect();
        let bodies = (0..lines).map(|_| UnsafeCell::new([0; LINE_BYTES])).collect();
        Self { control, headers, bodies }
    }
}

/// Stands for the `Place` in shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    memory: NonNull<ModelMemory>,
    mask: u64,
}

impl Place {
    /// # Safety
    /// `memory` points to a [`ModelMemory`] of so many lines, which outlives the value.
    pub(crate) unsafe fn new(memory: NonNull<u8>, lines: usize) -> Self {
        check_lines(lines);
        Self { memory: memory.cast(), mask: lines as u64 - 1 }
    }

    fn memory(&self) -> &ModelMemory {
        // SAFETY: the type's promise.
        unsafe { self.memory.as_ref() }
    }

    pub(crate) fn control(&self) -> &Control {
        &self.memory().control
    }

    pub(crate) fn lines(&self) -> u64 {
        self.mask + 1
    }

    pub(crate) fn header(&self, number: u64) -> &AtomicU64 {
        &self.memory().headers[(number & self.mask) as usize]
    }

    /// Returns the lines of a packet, each with the part of the body that lies in it.
    fn parts(first: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
        (0..)
            .map(move |line| {
                let begin = if line == 0 { 0 } else { line * LINE_BYTES - HEADER_BYTES };
                let end = ((line + 1) * LINE_BYTES - HEADER_BYTES).min(length);
                (first + line as u64, begin, end)
            })
            .take_while(move |(number, begin, _)| *number == first || *begin < length)
    }

    /// # Safety
    /// The checker reports concurrent access to the lines.
    pub(crate) unsafe fn fill(
        &self,
        first: u64,
        length: usize,
        fill: impl FnOnce(SharedBytesMut<'_>),
    ) {
        let mut body = vec![0; length];
        fill((&mut body).into());
        for (number, begin, end) in Self::parts(first, length) {
            let cell = &self.memory().bodies[(number & self.mask) as usize];
            // SAFETY: as the caller says.
            cell.with_mut(|line| unsafe {
                (&mut (*line))[..end - begin].copy_from_slice(&body[begin..end]);
            });
            if number != first {
                // Data covers the word, and looks like a packet of the next lap.
                let header = Header::new(self.lap(number + self.lines()), 0, 1, 1);
                self.header(number).store(header.0, Ordering::Relaxed);
            }
        }
    }

    /// # Safety
    /// As for [`fill`](Self::fill).
    pub(crate) unsafe fn take(
        &self,
        first: u64,
        length: usize,
        take: impl FnOnce(SharedBytes<'_>),
    ) {
        let mut body = vec![0; length];
        for (number, begin, end) in Self::parts(first, length) {
            let cell = &self.memory().bodies[(number & self.mask) as usize];
            // SAFETY: as the caller says.
            cell.with(|line| unsafe {
                body[begin..end].copy_from_slice(&(&(*line))[..end - begin]);
            });
        }
        take((&body).into());
    }

    pub(crate) fn prefetch(&self, _number: u64) {}

    pub(crate) fn hand_over(&self, _number: u64) {}

    /// The model of the variant that is no hint: it stores 0.
    pub(crate) fn take_to_write(&self, number: u64) {
        self.header(number).store(0, Ordering::Relaxed);
    }
}
