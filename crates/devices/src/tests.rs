//! Copies and shared memory with a vendor's library that only counts.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use memory::{Blocks, DistantMemory, ForeignCopy, ForeignMemory};
use parking_lot::Mutex;

use crate::DeviceDescription;
use crate::api::{Api, ApiError, HostFunction, Rows};
use crate::copies::{ScopedMemory, Vendor};
use crate::failure;
use crate::record::{Allocation, Exported, HANDLE_BYTES, Handle};
use crate::streams::ProgramStream;

const INVALID_HANDLE: i32 = 400;

/// A library in which all memory is that of scope 4096.
#[derive(Default)]
struct Counting {
    /// The last stream that was made; all others are invalid.
    stream: AtomicUsize,
    copies: AtomicUsize,
    /// The addresses of the last copy: to and from.
    last: Mutex<(usize, usize)>,
    entered: AtomicI64,
    events: AtomicI64,
    imports: AtomicI64,
    opened: AtomicUsize,
    /// The number of the allocation that lies at all addresses.
    allocation: AtomicUsize,
    refuses_import: bool,
    refuses_question: bool,
    /// How many queries of an event say that it has not happened.
    unhappened: AtomicI64,
    refuses_query: bool,
    /// How many times a thread has waited for an event.
    waits: AtomicUsize,
    /// The values that streams of the program wait for.
    awaited: Mutex<Vec<u32>>,
    refuses_waits: bool,
    refuses_leave: AtomicBool,
    /// How many registrations of memory have not ended.
    registered: AtomicI64,
    refuses_address: bool,
}

/// Held by tests that look at failures, which are common to all threads.
static FAILURES: Mutex<()> = Mutex::new(());

fn error(outcome: i32) -> ApiError {
    ApiError { library: "library", function: "function", outcome, name: "ERROR_NAME".to_owned() }
}

impl Counting {
    fn on(&self, stream: usize) -> Result<(), ApiError> {
        assert!(self.entered.load(Ordering::Relaxed) > 0, "the scope is entered");
        let is_valid = stream == self.stream.load(Ordering::Relaxed);
        if is_valid { Ok(()) } else { Err(error(INVALID_HANDLE)) }
    }
}

impl Api for Counting {
    fn scope_of(&self, _address: usize) -> Result<Option<usize>, ApiError> {
        if self.refuses_question { Err(error(700)) } else { Ok(Some(4096)) }
    }

    fn enter(&self, scope: usize) -> Result<usize, ApiError> {
        assert_eq!(scope, 4096);
        self.entered.fetch_add(1, Ordering::Relaxed);
        Ok(7)
    }

    fn leave(&self, before: usize) -> Result<(), ApiError> {
        assert_eq!(before, 7);
        self.entered.fetch_sub(1, Ordering::Relaxed);
        if self.refuses_leave.load(Ordering::Relaxed) { Err(error(201)) } else { Ok(()) }
    }

    fn create_stream(&self) -> Result<usize, ApiError> {
        Ok(self.stream.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn wait_for_stream(&self, stream: usize) -> Result<(), ApiError> {
        self.on(stream)
    }

    unsafe fn queue(&self, rows: &Rows, stream: usize) -> Result<(), ApiError> {
        *self.last.lock() = (rows.to.address, rows.from.address);
        self.copies.fetch_add(1, Ordering::Relaxed);
        self.on(stream)
    }

    fn create_event(&self) -> Result<usize, ApiError> {
        Ok(self.events.fetch_add(1, Ordering::Relaxed) as usize + 1)
    }

    fn record(&self, _event: usize, stream: usize) -> Result<(), ApiError> {
        self.on(stream)
    }

    fn has_happened(&self, _event: usize) -> Result<bool, ApiError> {
        if self.refuses_query {
            return Err(error(700));
        }
        Ok(self.unhappened.fetch_sub(1, Ordering::Relaxed) <= 0)
    }

    fn wait_for(&self, _event: usize) -> Result<(), ApiError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        Err(error(700))
    }

    fn destroy_event(&self, _event: usize) {
        self.events.fetch_sub(1, Ordering::Relaxed);
    }

    fn allocation_of(&self, _address: usize) -> Result<Allocation, ApiError> {
        let id = self.allocation.load(Ordering::Relaxed) as u64;
        Ok(Allocation { id, base: 1 << 20, bytes: 1 << 20 })
    }

    fn export(&self, allocation: &Allocation) -> Result<Handle, ApiError> {
        if allocation.id == 13 {
            return Err(error(801));
        }
        Ok(Handle::Bytes([allocation.id as u8; HANDLE_BYTES]))
    }

    fn import(&self, allocation: &Allocation, _handle: &Handle) -> Result<usize, ApiError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        if self.refuses_import {
            return Err(error(217));
        }
        self.imports.fetch_add(1, Ordering::Relaxed);
        Ok(allocation.base)
    }

    fn close(&self, _address: usize, _allocation: &Allocation, _handle: &Handle) {
        assert!(self.entered.load(Ordering::Relaxed) > 0, "the scope is entered");
        self.imports.fetch_sub(1, Ordering::Relaxed);
    }

    unsafe fn register(&self, _address: usize, _bytes: usize) -> Result<(), ApiError> {
        self.registered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn unregister(&self, _address: usize) {
        self.registered.fetch_sub(1, Ordering::Relaxed);
    }

    fn scope_of_stream(&self, _stream: usize) -> Result<usize, ApiError> {
        Ok(4096)
    }

    unsafe fn queue_call(
        &self,
        _stream: usize,
        function: HostFunction,
        data: *mut c_void,
    ) -> Result<(), ApiError> {
        // SAFETY: passed on to the caller.
        unsafe { function(data) };
        Ok(())
    }

    fn queue_wait(&self, _stream: usize, _address: usize, value: u32) -> Result<(), ApiError> {
        self.awaited.lock().push(value);
        if self.refuses_waits { Err(error(801)) } else { Ok(()) }
    }

    fn address_on_device(&self, address: usize) -> Result<usize, ApiError> {
        if self.refuses_address { Err(error(801)) } else { Ok(address) }
    }

    fn describe(&self) -> Result<Vec<DeviceDescription>, ApiError> {
        Ok(Vec::new())
    }
}

fn memory_of(api: Counting) -> (Arc<Counting>, ScopedMemory) {
    let api = Arc::new(api);
    let vendor = Arc::new(Vendor::new(Arc::clone(&api) as Arc<dyn Api>));
    let memory = Vendor::memory_of(&vendor, 8192).expect("all memory is that of a device");
    (api, memory)
}

fn count(of: &AtomicI64) -> i64 {
    of.load(Ordering::Relaxed)
}

const PART: Blocks = Blocks { address: 8192, block: 4, stride: 0, count: 1, offset: 0, pitch: 4 };

#[test]
fn copies_go_on_after_the_program_has_reset_the_device() {
    let _alone = FAILURES.lock();
    let (api, memory) = memory_of(Counting::default());
    let copy = || memory.read(&[PART], (&mut [0; 4][..]).into());
    copy();
    // The stream ends with the state of the context.
    api.stream.fetch_add(1, Ordering::Relaxed);
    copy();
    copy();
    assert_eq!((failure::take_failure(), api.copies.load(Ordering::Relaxed)), (None, 4));
    assert_eq!(count(&api.entered), 0);
}

#[test]
fn events_are_used_again() {
    let (api, memory) = memory_of(Counting::default());
    for _ in 0..1000 {
        let mut bytes = [0; 4];
        api.unhappened.store(1, Ordering::Relaxed);
        // SAFETY: the bytes exist until the copy is dropped.
        let copy = unsafe { memory.begin_read(&[PART], (&mut bytes[..]).into()) };
        let mut copy = copy.expect("it goes on");
        assert!(!copy.is_over());
        assert!(copy.is_over() && copy.is_over());
    }
    assert_eq!((count(&api.events), count(&api.entered)), (1, 0));
}

#[test]
fn a_copy_that_is_dropped_is_waited_for_and_its_error_is_noted() {
    let _alone = FAILURES.lock();
    let (api, memory) = memory_of(Counting::default());
    // SAFETY: nothing is copied.
    let copy = unsafe { memory.begin_read(&[PART], (&mut [0; 4][..]).into()) };
    drop(copy);
    let noted = failure::take_failure().expect("it failed");
    assert!(noted.contains("function of library returned ERROR_NAME"), "{noted}");
    assert_eq!(count(&api.events), 0, "the event is not used again");
}

#[test]
fn a_copy_whose_event_cannot_be_asked_is_waited_for() {
    let _alone = FAILURES.lock();
    let (api, memory) = memory_of(Counting { refuses_query: true, ..Counting::default() });
    let mut bytes = [0; 4];
    // SAFETY: the bytes exist until the copy is over.
    let copy = unsafe { memory.begin_read(&[PART], (&mut bytes[..]).into()) };
    assert!(copy.expect("it goes on").is_over());
    assert_eq!(api.waits.load(Ordering::Relaxed), 1, "the bytes are the caller's again");
    assert!(failure::take_failure().is_some());
    assert_eq!((count(&api.events), count(&api.entered)), (0, 0));
}

/// Imports the allocation with a number, of process 1, at an address that is common to all.
fn import(memory: &ScopedMemory, id: u64, base: usize) -> bool {
    let allocation = Allocation { id, base, bytes: 4096 };
    let record = Exported::of(allocation, &Handle::Bytes([1; HANDLE_BYTES])).record(base);
    let from = ForeignMemory { process: 1, record: &record, offset: 0, length: 4 };
    let begun = memory.begin_foreign(ForeignCopy::Get, &from, &[PART]);
    begun.is_ok_and(|mut copy| copy.is_over())
}

#[test]
fn memory_of_others_stays_open_until_it_is_freed_or_there_is_too_much() {
    let (api, memory) = memory_of(Counting::default());
    for _ in 0..10 {
        assert!(import(&memory, 1, 1 << 20));
    }
    assert_eq!(api.opened.load(Ordering::Relaxed), 1);
    // Another allocation lies where it was.
    assert!(import(&memory, 2, (1 << 20) + 4095));
    assert_eq!((api.opened.load(Ordering::Relaxed), count(&api.imports)), (2, 1));
    for id in 3..100_003 {
        assert!(import(&memory, id, (id as usize) << 20));
        assert!(count(&api.imports) <= 64);
    }
    assert_eq!(count(&api.events), 1);
}

#[test]
fn what_cannot_be_opened_is_tried_once() {
    let _alone = FAILURES.lock();
    let (api, memory) = memory_of(Counting { refuses_import: true, ..Counting::default() });
    for _ in 0..10 {
        assert!(!import(&memory, 1, 1 << 20));
    }
    assert_eq!(api.opened.load(Ordering::Relaxed), 1);
    assert_eq!(failure::take_failure(), None, "the data goes another way");
}

#[test]
fn memory_is_exported_by_the_number_of_its_allocation() {
    let (api, memory) = memory_of(Counting::default());
    let first = |export: Result<Box<memory::MemoryExport>, String>| export.map(|one| one.record);
    let start = (1 << 20) + 64;
    let one = first(memory.export(start, 100));
    assert!(one.is_ok() && one == first(memory.export(start, 100)));
    api.allocation.store(2, Ordering::Relaxed);
    assert_ne!(one, first(memory.export(start, 100)), "another allocation");
    assert!(memory.export(start, 1 << 20).is_err(), "it exceeds the allocation");
    api.allocation.store(13, Ordering::Relaxed);
    assert!(memory.export(start, 100).is_err(), "the driver refuses");
}

#[test]
fn memory_of_unknown_kind_is_not_taken_for_that_of_the_processor() {
    let _alone = FAILURES.lock();
    let (api, _memory) = memory_of(Counting { refuses_question: true, ..Counting::default() });
    let noted = failure::take_failure().expect("the question failed");
    assert!(noted.contains("function of library returned ERROR_NAME"), "{noted}");
    assert_eq!(count(&api.entered), 0);
}

/// The names of functions in the tables of a source.
fn functions_of(source: &str) -> impl Iterator<Item = &str> {
    let quoted = source.split("c\"").skip(1).filter_map(|rest| rest.split_once('"'));
    quoted.map(|(name, _)| name).filter(|name| name.starts_with("cu") || name.starts_with("hip"))
}

#[test]
fn each_function_of_a_driver_fails_in_a_test() {
    let tables = [include_str!("cuda/driver.rs"), include_str!("hip.rs")];
    let programs = [
        include_str!("../../../tests/c/devices_errors.c"),
        include_str!("../../../tests/c/devices_hip_errors.c"),
        include_str!("../../../tests/scenarios/doctor.py"),
    ];
    let is_tested = |name: &&str| programs.iter().any(|text| text.contains(name));
    let all: Vec<&str> = tables.into_iter().flat_map(functions_of).collect();
    let untested: Vec<_> = all.iter().filter(|name| !is_tested(name)).collect();
    assert!(all.len() > 70, "the tables have {} functions", all.len());
    assert!(untested.is_empty(), "{untested:?}");
}

#[test]
fn parts_of_memory_of_others_are_copied_both_ways() {
    let (api, memory) = memory_of(Counting::default());
    let allocation = Allocation { id: 1, base: 1 << 20, bytes: 4096 };
    let exported = Exported::of(allocation, &Handle::Bytes([1; HANDLE_BYTES]));
    let record = exported.record((1 << 20) + 1000);
    let foreign = |offset, length| ForeignMemory { process: 1, record: &record, offset, length };
    let (here, there) = (8192, (1 << 20) + 1000 + 90);
    for (way, sides) in [(ForeignCopy::Get, (here, there)), (ForeignCopy::Put, (there, here))] {
        memory.begin_foreign(way, &foreign(90, 4), &[PART]).expect("it is reached").is_over();
        assert_eq!(*api.last.lock(), sides);
    }
    for (offset, length) in [(3093, 4), (usize::MAX, 4), (4, usize::MAX)] {
        let begun = memory.begin_foreign(ForeignCopy::Put, &foreign(offset, length), &[PART]);
        assert!(begun.is_err(), "{length} bytes from {offset} on exceed the allocation");
    }
}

#[test]
fn a_stream_waits_for_one_number_after_the_other() {
    let api = Arc::new(Counting::default());
    let vendor = Arc::new(Vendor::new(Arc::clone(&api) as Arc<dyn Api>));
    let stream = ProgramStream::new(&vendor, 7, Some(|| ())).expect("it can wait");
    assert!(stream.takes_turns() && !stream.has_reached(1));
    assert_eq!(stream.queue_turn(), Ok(1));
    assert!(stream.has_reached(1) && !stream.has_reached(2), "the library calls at once");
    assert_eq!([stream.queue_wait(), stream.queue_wait()], [Ok(1), Ok(2)]);
    stream.release(2);
    drop(stream);
    // Another stream gets the word as it is.
    let other = ProgramStream::new(&vendor, 8, Some(|| ())).expect("it can wait");
    assert_eq!(other.queue_wait(), Ok(3));
    assert_eq!(*api.awaited.lock(), [0, 1, 2, 2, 3]);
}

#[test]
fn what_was_queued_counts_if_the_scope_cannot_be_left() {
    let api = Arc::new(Counting::default());
    let vendor = Arc::new(Vendor::new(Arc::clone(&api) as Arc<dyn Api>));
    let stream = ProgramStream::new(&vendor, 7, Some(|| ())).expect("it can wait");
    api.refuses_leave.store(true, Ordering::Relaxed);
    assert!(stream.queue_turn().is_err() && stream.queue_wait().is_err());
    api.refuses_leave.store(false, Ordering::Relaxed);
    assert_eq!([stream.queue_turn(), stream.queue_wait()], [Ok(2), Ok(2)]);
    assert!(stream.has_reached(2) && !stream.has_reached(3));
}

#[test]
fn memory_that_devices_cannot_read_is_not_left_registered() {
    let api = Arc::new(Counting { refuses_address: true, ..Counting::default() });
    let vendor = Arc::new(Vendor::new(Arc::clone(&api) as Arc<dyn Api>));
    for _ in 0..3 {
        let stream = ProgramStream::new(&vendor, 7, Some(|| ())).expect("it can be used");
        assert!(!stream.takes_turns());
    }
    assert_eq!((count(&api.registered), count(&api.entered)), (0, 0));
}

#[test]
fn without_waits_a_stream_takes_no_turns() {
    let vendor = |refuses_waits| {
        let api = Counting { refuses_waits, ..Counting::default() };
        Arc::new(Vendor::new(Arc::new(api) as Arc<dyn Api>))
    };
    for (refuses, wake) in [(true, Some((|| ()) as fn())), (false, None)] {
        let stream = ProgramStream::new(&vendor(refuses), 7, wake).expect("it can be used");
        assert!(!stream.takes_turns() && stream.has_reached(1));
        assert_eq!([stream.queue_turn(), stream.queue_wait()], [Ok(0), Ok(0)]);
    }
}
