//! The shared library `libcombray_mqs.so`, which a parallel debugger loads to show the message
//! queues of a process that it has stopped. The process names this library in `MPIR_dll_name`.
//!
//! The debugger provides functions that read the memory of the process. With them, module `queues`
//! reads the table that the library of the process keeps in its memory (crate `message-queues`).

#[cfg(test)]
mod fuzzing;
mod interface;
mod queues;

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use interface::{
    BasicCallbacks, CommunicatorDescription, DebuggerImage, DebuggerProcess, END_OF_LIST,
    FIRST_OWN_CODE, INTERFACE_VERSION, INVALID_PROCESS, ImageCallbacks, NO_INFORMATION, OK,
    PENDING_RECEIVES, PENDING_SENDS, PendingOperation, ProcessCallbacks, STATUS_MATCHED,
    STATUS_PENDING, TargetAddress, TargetWord, UNEXPECTED_MESSAGES,
};
use message_queues::{CommunicatorRow, QueueTableView, TABLE_SYMBOL};
use queues::{QueuedOperation, Queues, StoppedMemory, TableProblem};

/// Error codes of this library.
const NO_TABLE: c_int = FIRST_OWN_CODE;
const UNREADABLE: c_int = FIRST_OWN_CODE + 1;
const OTHER_VERSION: c_int = FIRST_OWN_CODE + 2;
const NOT_JOINED: c_int = FIRST_OWN_CODE + 3;
const NO_SUCH_QUEUE: c_int = FIRST_OWN_CODE + 4;

/// The functions of the debugger, set by [`mqs_setup_basic_callbacks`].
static BASIC: AtomicPtr<BasicCallbacks> = AtomicPtr::new(ptr::null_mut());

/// What this library stores with each program.
struct ImageInfo {
    callbacks: *const ImageCallbacks,
}

/// What this library stores with each process, with the state of its iterations.
struct ProcessInfo {
    callbacks: *const ProcessCallbacks,
    /// The address of the table in the process.
    table_address: u64,
    table: QueueTableView,
    communicators: Vec<CommunicatorRow>,
    /// The index of the communicator that the debugger currently looks at.
    communicator: usize,
    operations: std::vec::IntoIter<QueuedOperation>,
    /// Which queue `operations` comes from: sends, receives or messages.
    queue: c_int,
}

/// The memory of a process, read by functions of the debugger.
struct DebuggedMemory {
    process: *mut DebuggerProcess,
    fetch: unsafe extern "C" fn(*mut DebuggerProcess, TargetAddress, c_int, *mut c_void) -> c_int,
}

/// The largest number of bytes that one call of the debugger fetches.
const FETCHED_MAX: usize = 1 << 20;

impl StoppedMemory for DebuggedMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let mut from = address;
        into.chunks_mut(FETCHED_MAX).all(|part| {
            let start = from;
            from = from.wrapping_add(part.len() as u64);
            let (length, place) = (part.len() as c_int, part.as_mut_ptr().cast());
            // SAFETY: the debugger guarantees that its function and the process are valid, and
            // writes `length` bytes to `part`.
            unsafe { (self.fetch)(self.process, start as TargetAddress, length, place) == OK }
        })
    }
}

/// Returns the functions that the debugger has provided.
///
/// # Safety
/// The debugger has called [`mqs_setup_basic_callbacks`] and keeps the table that it passed valid.
unsafe fn basic() -> &'static BasicCallbacks {
    // SAFETY: the caller guarantees that the pointer is set and valid.
    unsafe { &*BASIC.load(Ordering::Acquire) }
}

/// Returns what this library stores with a process.
///
/// # Safety
/// [`mqs_setup_process`] has been called for the process, and no other borrow of the result exists.
unsafe fn info_of<'a>(process: *mut DebuggerProcess) -> Option<&'a mut ProcessInfo> {
    // SAFETY: the debugger returns the pointer that `mqs_setup_process` gave it, which only
    // `mqs_destroy_process_info` frees. No other borrow exists, because the debugger makes one call
    // at a time.
    unsafe { (basic().get_process_info)(process).cast::<ProcessInfo>().as_mut() }
}

impl ProcessInfo {
    /// Returns access to the memory of the process.
    ///
    /// # Safety
    /// `process` is the process that this is stored with.
    unsafe fn memory(&self, process: *mut DebuggerProcess) -> DebuggedMemory {
        // SAFETY: the debugger keeps the table of callbacks as long as the process.
        DebuggedMemory { process, fetch: unsafe { (*self.callbacks).fetch_data } }
    }

    /// Reads the table and the communicators again.
    fn update(&mut self, memory: &DebuggedMemory) -> c_int {
        self.table = match queues::table(memory, self.table_address) {
            Ok(table) => table,
            Err(TableProblem::OtherVersion) => return OTHER_VERSION,
            Err(TableProblem::Unreadable) => return UNREADABLE,
        };
        if self.table.engine == 0 {
            return NOT_JOINED;
        }
        self.communicator = 0;
        self.operations = Vec::new().into_iter();
        match queues::communicators(memory, &self.table) {
            Some(rows) => self.communicators = rows,
            None => return UNREADABLE,
        }
        OK
    }
}

/// Receives the functions of the debugger, which remain valid.
///
/// # Safety
/// For this function and all that follow: the debugger calls as the interface requires, one call at
/// a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_basic_callbacks(callbacks: *const BasicCallbacks) {
    BASIC.store(callbacks.cast_mut(), Ordering::Release);
}

/// Returns the name and the version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_string() -> *const c_char {
    concat!("Combray message queues ", env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns the version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_compatibility() -> c_int {
    INTERFACE_VERSION
}

/// Returns the number of bytes of an address.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_taddr_width() -> c_int {
    size_of::<TargetAddress>() as c_int
}

/// Returns the meaning of an error code of this library.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_error_string(code: c_int) -> *const c_char {
    match code {
        OK => c"no error",
        NO_INFORMATION => c"there is no data",
        END_OF_LIST => c"the end of the list",
        NO_TABLE => c"the program has no library of Combray",
        UNREADABLE => c"the memory of the process cannot be read, or is being changed",
        OTHER_VERSION => c"the process has another version of Combray than libcombray_mqs.so",
        NOT_JOINED => c"the process has not completed MPI_Init",
        NO_SUCH_QUEUE => c"there is no such queue",
        _ => c"unknown error",
    }
    .as_ptr()
}

/// Called when the debugger has loaded a program.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_image(
    image: *mut DebuggerImage,
    callbacks: *const ImageCallbacks,
) -> c_int {
    let info = Box::into_raw(Box::new(ImageInfo { callbacks }));
    // SAFETY: the debugger guarantees that `image` is valid.
    unsafe { (basic().put_image_info)(image, info.cast()) };
    OK
}

/// Whether a program may have queues. Its libraries may not be loaded yet, so this can only be
/// decided for its processes.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_image_has_queues(
    _image: *mut DebuggerImage,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: the debugger guarantees that `message` is null or may be written.
    unsafe { complain(message, OK) };
    OK
}

/// Stores the sentence for an error code in `message`, or null if there is no error.
///
/// # Safety
/// `message` is null or may be written.
unsafe fn complain(message: *mut *mut c_char, code: c_int) {
    let text = if code == OK { ptr::null() } else { mqs_dll_error_string(code) };
    if !message.is_null() {
        // SAFETY: the caller guarantees that `message` may be written.
        unsafe { message.write(text.cast_mut()) };
    }
}

/// Frees what is stored with a program, which the debugger no longer needs.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_image_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: the pointer comes from `mqs_setup_image`.
        drop(unsafe { Box::from_raw(info.cast::<ImageInfo>()) });
    }
}

/// Called when the debugger has a new process of a program.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_process(
    process: *mut DebuggerProcess,
    callbacks: *const ProcessCallbacks,
) -> c_int {
    let info = Box::into_raw(Box::new(ProcessInfo {
        callbacks,
        table_address: 0,
        table: QueueTableView::default(),
        communicators: Vec::new(),
        communicator: 0,
        operations: Vec::new().into_iter(),
        queue: PENDING_SENDS,
    }));
    // SAFETY: the debugger guarantees that `process` is valid.
    unsafe { (basic().put_process_info)(process, info.cast()) };
    OK
}

/// Returns the address of the table of a process. Each process is searched, because its libraries
/// may be loaded at other addresses than those of other processes.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
unsafe fn find_table(process: *mut DebuggerProcess, info: &ProcessInfo) -> Option<u64> {
    let name = std::ffi::CString::new(TABLE_SYMBOL).ok()?;
    let mut address = 0;
    // SAFETY: the debugger guarantees that the process and its callbacks are valid; what is stored
    // with the image comes from `mqs_setup_image`.
    let code = unsafe {
        let image = ((*info.callbacks).get_image)(process);
        let kept = (basic().get_image_info)(image).cast::<ImageInfo>().as_ref()?;
        ((*kept.callbacks).find_symbol)(image, name.as_ptr(), &raw mut address)
    };
    (code == OK).then_some(address)
}

/// Whether a process has queues.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_process_has_queues(
    process: *mut DebuggerProcess,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    // SAFETY: the debugger guarantees that the process is valid.
    let code = match unsafe { find_table(process, info) } {
        // A program without MPI gives no reason for an error message.
        None => return NO_TABLE,
        Some(address) => {
            info.table_address = address;
            // SAFETY: `info` is stored with this process.
            let memory = unsafe { info.memory(process) };
            info.update(&memory)
        }
    };
    // SAFETY: the debugger guarantees that `message` is null or may be written.
    unsafe { complain(message, if code == NOT_JOINED { OK } else { code }) };
    code
}

/// Frees what is stored with a process, which the debugger no longer needs.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_process_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: the pointer comes from `mqs_setup_process`.
        drop(unsafe { Box::from_raw(info.cast::<ProcessInfo>()) });
    }
}

/// Reads the list of communicators again, because the process may have run since the last call.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_update_communicator_list(process: *mut DebuggerProcess) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    // SAFETY: `info` is stored with this process.
    let memory = unsafe { info.memory(process) };
    info.update(&memory)
}

/// Starts the iteration over the communicators at the first one.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_communicator_iterator(process: *mut DebuggerProcess) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    info.communicator = 0;
    if info.communicators.is_empty() { NO_INFORMATION } else { OK }
}

/// Moves the iteration to the next communicator.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_communicator(process: *mut DebuggerProcess) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    info.communicator = (info.communicator + 1).min(info.communicators.len());
    if info.communicator < info.communicators.len() { OK } else { END_OF_LIST }
}

/// Describes the current communicator of the iteration.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_communicator(
    process: *mut DebuggerProcess,
    description: *mut CommunicatorDescription,
) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(row) = info.communicators.get(info.communicator) else { return NO_INFORMATION };
    let described = CommunicatorDescription {
        unique_id: row.id as TargetAddress,
        local_rank: TargetWord::from(row.rank),
        size: TargetWord::from(row.own.size),
        name: row.name.map(|byte| byte as c_char),
    };
    // SAFETY: the debugger guarantees that `description` may be written.
    unsafe { description.write(described) };
    OK
}

/// Writes the ranks in the job of the members of the current communicator to `ranks`.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`]; `ranks` has room for all members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_comm_group(
    process: *mut DebuggerProcess,
    ranks: *mut c_int,
) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(row) = info.communicators.get(info.communicator) else { return NO_INFORMATION };
    // SAFETY: `info` is stored with this process.
    let memory = unsafe { info.memory(process) };
    let Some(members) = queues::members(&memory, &row.own) else { return UNREADABLE };
    for (place, member) in members.into_iter().enumerate() {
        // SAFETY: the debugger guarantees that `ranks` has room for all members.
        unsafe { ranks.add(place).write(member as c_int) };
    }
    OK
}

/// Starts the iteration over the operations of a queue of the current communicator.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_operation_iterator(
    process: *mut DebuggerProcess,
    queue: c_int,
) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(communicator) = info.communicators.get(info.communicator) else {
        return NO_INFORMATION;
    };
    // SAFETY: `info` is stored with this process.
    let memory = &unsafe { info.memory(process) };
    let Some(peers) = queues::members(memory, &communicator.peers) else { return UNREADABLE };
    let queues = Queues { memory, table: &info.table, communicator, peers: &peers };
    let operations = match queue {
        PENDING_SENDS => queues.sends(),
        PENDING_RECEIVES => queues.receives(),
        UNEXPECTED_MESSAGES => queues.messages(),
        _ => return NO_SUCH_QUEUE,
    };
    let Some(operations) = operations else { return UNREADABLE };
    info.operations = operations.into_iter();
    info.queue = queue;
    if info.operations.len() == 0 { NO_INFORMATION } else { OK }
}

/// Describes the next operation of the iteration.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_operation(
    process: *mut DebuggerProcess,
    description: *mut PendingOperation,
) -> c_int {
    // SAFETY: the debugger has called `mqs_setup_process` for the process, and makes one call at a
    // time.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(operation) = info.operations.next() else { return END_OF_LIST };
    // SAFETY: the debugger guarantees that `description` may be written.
    unsafe { description.write(described(&operation, info.queue)) };
    OK
}

fn described(operation: &QueuedOperation, queue: c_int) -> PendingOperation {
    let rank = |rank: Option<u32>| rank.map_or(INVALID_PROCESS, TargetWord::from);
    let is_unexpected = queue == UNEXPECTED_MESSAGES;
    let is_matched = is_unexpected || operation.message_bytes.is_some();
    let actual_length = operation.message_bytes.unwrap_or(operation.bytes);
    let tag = TargetWord::from(operation.tag.unwrap_or_default());
    let mut extra_text = [[0; 64]; 5];
    for (place, byte) in extra_text[0][..63].iter_mut().zip(operation.text.bytes()) {
        *place = byte as c_char;
    }
    PendingOperation {
        status: if is_matched { STATUS_MATCHED } else { STATUS_PENDING },
        desired_local_rank: rank(operation.peer),
        desired_global_rank: rank(operation.process),
        tag_wild: c_int::from(operation.tag.is_none()),
        desired_tag: tag,
        desired_length: operation.bytes as TargetWord,
        system_buffer: c_int::from(is_unexpected),
        buffer: operation.address as TargetAddress,
        actual_local_rank: rank(operation.peer),
        actual_global_rank: rank(operation.process),
        actual_tag: tag,
        actual_length: actual_length as TargetWord,
        extra_text,
    }
}
