//! The shared library `libcombray_mqs.so`, which a parallel debugger loads to see the message
//! queues of a process that it has stopped. The process names it in `MPIR_dll_name`.
//!
//! The debugger gives functions of its own that read the process; with them `queues` finds what
//! the library of the process tells of its memory (crate `message-queues`).

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

/// What went wrong: codes of ours.
const NO_TABLE: c_int = FIRST_OWN_CODE;
const UNREADABLE: c_int = FIRST_OWN_CODE + 1;
const OTHER_VERSION: c_int = FIRST_OWN_CODE + 2;
const NOT_JOINED: c_int = FIRST_OWN_CODE + 3;
const NO_SUCH_QUEUE: c_int = FIRST_OWN_CODE + 4;

/// The functions of the debugger, from [`mqs_setup_basic_callbacks`] on.
static BASIC: AtomicPtr<BasicCallbacks> = AtomicPtr::new(ptr::null_mut());

/// What is kept with each program.
struct ImageInfo {
    callbacks: *const ImageCallbacks,
}

/// What is kept with each process, with the state of its iterations.
struct ProcessInfo {
    callbacks: *const ProcessCallbacks,
    /// Where its table lies.
    table_address: u64,
    table: QueueTableView,
    communicators: Vec<CommunicatorRow>,
    /// The one that the debugger looks at.
    communicator: usize,
    operations: std::vec::IntoIter<QueuedOperation>,
    /// Whether these are sends, receives or messages.
    queue: c_int,
}

/// The memory of a process, through the debugger.
struct DebuggedMemory {
    process: *mut DebuggerProcess,
    fetch: unsafe extern "C" fn(*mut DebuggerProcess, TargetAddress, c_int, *mut c_void) -> c_int,
}

/// So many bytes are asked for at once.
const FETCHED_MAX: usize = 1 << 20;

impl StoppedMemory for DebuggedMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let mut from = address;
        into.chunks_mut(FETCHED_MAX).all(|part| {
            let start = from;
            from = from.wrapping_add(part.len() as u64);
            let (length, place) = (part.len() as c_int, part.as_mut_ptr().cast());
            // SAFETY: the debugger vouches for its function and the process, and writes so many
            // bytes to `part`.
            unsafe { (self.fetch)(self.process, start as TargetAddress, length, place) == OK }
        })
    }
}

/// The functions that the debugger has given.
///
/// # Safety
/// The debugger has called [`mqs_setup_basic_callbacks`], whose table it keeps.
unsafe fn basic() -> &'static BasicCallbacks {
    // SAFETY: as the caller vouches.
    unsafe { &*BASIC.load(Ordering::Acquire) }
}

/// What is kept with a process.
///
/// # Safety
/// [`mqs_setup_process`] has been called with it, and no other borrow of it is left.
unsafe fn info_of<'a>(process: *mut DebuggerProcess) -> Option<&'a mut ProcessInfo> {
    // SAFETY: the debugger gives back what `mqs_setup_process` gave it, which is freed by
    // `mqs_destroy_process_info` only; nobody else has it, as one call is made at a time.
    unsafe { (basic().get_process_info)(process).cast::<ProcessInfo>().as_mut() }
}

impl ProcessInfo {
    /// Its memory.
    ///
    /// # Safety
    /// `process` is the one that this is kept with.
    unsafe fn memory(&self, process: *mut DebuggerProcess) -> DebuggedMemory {
        // SAFETY: the debugger keeps the table as long as it knows the process.
        DebuggedMemory { process, fetch: unsafe { (*self.callbacks).fetch_data } }
    }

    /// Reads table and communicators anew.
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

/// The debugger gives its functions, which stay.
///
/// # Safety
/// This and all that follow: the debugger calls as the interface says, one call at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_basic_callbacks(callbacks: *const BasicCallbacks) {
    BASIC.store(callbacks.cast_mut(), Ordering::Release);
}

/// What this library is.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_string() -> *const c_char {
    concat!("Combray message queues ", env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_version_compatibility() -> c_int {
    INTERFACE_VERSION
}

/// How many bytes an address has.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_taddr_width() -> c_int {
    size_of::<TargetAddress>() as c_int
}

/// What a code of ours means.
#[unsafe(no_mangle)]
pub extern "C" fn mqs_dll_error_string(code: c_int) -> *const c_char {
    match code {
        OK => c"no error",
        NO_INFORMATION => c"there is nothing to tell",
        END_OF_LIST => c"the end of the list",
        NO_TABLE => c"the program has no library of Combray",
        UNREADABLE => c"the memory of the process cannot be read, or is being changed",
        OTHER_VERSION => c"the process has another version of Combray than libcombray_mqs.so",
        NOT_JOINED => c"the process is not through MPI_Init",
        NO_SUCH_QUEUE => c"there is no such queue",
        _ => c"unknown error",
    }
    .as_ptr()
}

/// The debugger has loaded a program.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_image(
    image: *mut DebuggerImage,
    callbacks: *const ImageCallbacks,
) -> c_int {
    let info = Box::into_raw(Box::new(ImageInfo { callbacks }));
    // SAFETY: as the debugger vouches.
    unsafe { (basic().put_image_info)(image, info.cast()) };
    OK
}

/// Whether a program may have queues. Its libraries may not be loaded yet, so only its processes
/// tell.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_image_has_queues(
    _image: *mut DebuggerImage,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: as the debugger vouches.
    unsafe { complain(message, OK) };
    OK
}

/// Leaves a sentence for the person, if there is something to say.
///
/// # Safety
/// `message` is null or may be written.
unsafe fn complain(message: *mut *mut c_char, code: c_int) {
    let text = if code == OK { ptr::null() } else { mqs_dll_error_string(code) };
    if !message.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { message.write(text.cast_mut()) };
    }
}

/// The debugger has no more use for what is kept with a program.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_image_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: it comes from `mqs_setup_image`.
        drop(unsafe { Box::from_raw(info.cast::<ImageInfo>()) });
    }
}

/// The debugger has a process of a program.
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
    // SAFETY: as the debugger vouches.
    unsafe { (basic().put_process_info)(process, info.cast()) };
    OK
}

/// Where the table of a process lies: its libraries may lie elsewhere than in others.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
unsafe fn find_table(process: *mut DebuggerProcess, info: &ProcessInfo) -> Option<u64> {
    let name = std::ffi::CString::new(TABLE_SYMBOL).ok()?;
    let mut address = 0;
    // SAFETY: as the debugger vouches; what is kept with the image comes from `mqs_setup_image`.
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
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    // SAFETY: likewise.
    let code = match unsafe { find_table(process, info) } {
        // Programs without MPI are no reason for a complaint.
        None => return NO_TABLE,
        Some(address) => {
            info.table_address = address;
            // SAFETY: likewise.
            let memory = unsafe { info.memory(process) };
            info.update(&memory)
        }
    };
    // SAFETY: likewise.
    unsafe { complain(message, if code == NOT_JOINED { OK } else { code }) };
    code
}

/// The debugger has no more use for what is kept with a process.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_destroy_process_info(info: *mut c_void) {
    if !info.is_null() {
        // SAFETY: it comes from `mqs_setup_process`.
        drop(unsafe { Box::from_raw(info.cast::<ProcessInfo>()) });
    }
}

/// The process may have gone on since the last time.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_update_communicator_list(process: *mut DebuggerProcess) -> c_int {
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    // SAFETY: likewise.
    let memory = unsafe { info.memory(process) };
    info.update(&memory)
}

/// From here on the debugger looks at the first communicator.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_communicator_iterator(process: *mut DebuggerProcess) -> c_int {
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    info.communicator = 0;
    if info.communicators.is_empty() { NO_INFORMATION } else { OK }
}

/// It looks at the next one.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_communicator(process: *mut DebuggerProcess) -> c_int {
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    info.communicator = (info.communicator + 1).min(info.communicators.len());
    if info.communicator < info.communicators.len() { OK } else { END_OF_LIST }
}

/// What the communicator is that it looks at.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_communicator(
    process: *mut DebuggerProcess,
    description: *mut CommunicatorDescription,
) -> c_int {
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(row) = info.communicators.get(info.communicator) else { return NO_INFORMATION };
    let described = CommunicatorDescription {
        unique_id: row.id as TargetAddress,
        local_rank: TargetWord::from(row.rank),
        size: TargetWord::from(row.own.size),
        name: row.name.map(|byte| byte as c_char),
    };
    // SAFETY: likewise.
    unsafe { description.write(described) };
    OK
}

/// The ranks in the job of the members of the communicator that it looks at.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`]; there is room for all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_get_comm_group(
    process: *mut DebuggerProcess,
    ranks: *mut c_int,
) -> c_int {
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(row) = info.communicators.get(info.communicator) else { return NO_INFORMATION };
    // SAFETY: likewise.
    let memory = unsafe { info.memory(process) };
    let Some(members) = queues::members(&memory, &row.own) else { return UNREADABLE };
    for (place, member) in members.into_iter().enumerate() {
        // SAFETY: likewise.
        unsafe { ranks.add(place).write(member as c_int) };
    }
    OK
}

/// From here on the debugger looks at the operations of a queue of the communicator.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_setup_operation_iterator(
    process: *mut DebuggerProcess,
    queue: c_int,
) -> c_int {
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(communicator) = info.communicators.get(info.communicator) else {
        return NO_INFORMATION;
    };
    // SAFETY: likewise.
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

/// The next one of them.
///
/// # Safety
/// As for [`mqs_setup_basic_callbacks`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mqs_next_operation(
    process: *mut DebuggerProcess,
    description: *mut PendingOperation,
) -> c_int {
    // SAFETY: as the debugger vouches.
    let Some(info) = (unsafe { info_of(process) }) else { return NO_INFORMATION };
    let Some(operation) = info.operations.next() else { return END_OF_LIST };
    // SAFETY: likewise.
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
