//! The interface between a debugger and this library: names, types and numbers of "MPI Message
//! Queue Dumping Interface", version 1.0 (MPI Forum, 2013).

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};

/// An address in the process that the debugger looks at.
pub type TargetAddress = c_ulong;
/// A number in that process.
pub type TargetWord = c_long;

/// The version of the interface that this library implements.
pub const INTERFACE_VERSION: c_int = 2;

/// The call succeeded; the following constants are results of calls, too.
pub const OK: c_int = 0;
/// There is no information to return.
pub const NO_INFORMATION: c_int = 1;
/// The iteration has ended.
pub const END_OF_LIST: c_int = 2;
/// The first error code that a library may define itself.
pub const FIRST_OWN_CODE: c_int = 100;

/// The queue of the sends that are not complete.
pub const PENDING_SENDS: c_int = 0;
/// The queue of the receives that are not complete, matched or not.
pub const PENDING_RECEIVES: c_int = 1;
/// The queue of the messages that are not received.
pub const UNEXPECTED_MESSAGES: c_int = 2;

/// The operation is not matched.
pub const STATUS_PENDING: c_int = 0;
/// The operation is matched.
pub const STATUS_MATCHED: c_int = 1;

/// In place of a rank: any rank, or an unknown one.
pub const INVALID_PROCESS: TargetWord = -1;

/// The debugger's handle of a program.
#[repr(C)]
pub struct DebuggerImage {
    _opaque: [u8; 0],
}

/// The debugger's handle of a process.
#[repr(C)]
pub struct DebuggerProcess {
    _opaque: [u8; 0],
}

/// A communicator (mqs_communicator).
#[repr(C)]
pub struct CommunicatorDescription {
    pub unique_id: TargetAddress,
    pub local_rank: TargetWord,
    pub size: TargetWord,
    pub name: [c_char; 64],
}

/// A send, a receive or a message (mqs_pending_operation).
#[repr(C)]
pub struct PendingOperation {
    pub status: c_int,
    pub desired_local_rank: TargetWord,
    pub desired_global_rank: TargetWord,
    pub tag_wild: c_int,
    pub desired_tag: TargetWord,
    pub desired_length: TargetWord,
    pub system_buffer: c_int,
    pub buffer: TargetAddress,
    pub actual_local_rank: TargetWord,
    pub actual_global_rank: TargetWord,
    pub actual_tag: TargetWord,
    pub actual_length: TargetWord,
    pub extra_text: [[c_char; 64]; 5],
}

/// A function of the debugger that this library does not call.
type Unused = Option<unsafe extern "C" fn()>;

/// General functions that the debugger provides (mqs_basic_callbacks).
#[repr(C)]
pub struct BasicCallbacks {
    allocate: Unused,
    free: Unused,
    print: Unused,
    error_text: Unused,
    pub put_image_info: unsafe extern "C" fn(*mut DebuggerImage, *mut c_void),
    pub get_image_info: unsafe extern "C" fn(*mut DebuggerImage) -> *mut c_void,
    pub put_process_info: unsafe extern "C" fn(*mut DebuggerProcess, *mut c_void),
    pub get_process_info: unsafe extern "C" fn(*mut DebuggerProcess) -> *mut c_void,
}

/// Functions of the debugger that return facts about a program (mqs_image_callbacks).
#[repr(C)]
pub struct ImageCallbacks {
    get_type_sizes: Unused,
    find_function: Unused,
    pub find_symbol:
        unsafe extern "C" fn(*mut DebuggerImage, *const c_char, *mut TargetAddress) -> c_int,
    find_type: Unused,
    field_offset: Unused,
    size_of: Unused,
}

/// Functions of the debugger that return facts about a process (mqs_process_callbacks).
#[repr(C)]
pub struct ProcessCallbacks {
    get_global_rank: Unused,
    pub get_image: unsafe extern "C" fn(*mut DebuggerProcess) -> *mut DebuggerImage,
    pub fetch_data:
        unsafe extern "C" fn(*mut DebuggerProcess, TargetAddress, c_int, *mut c_void) -> c_int,
    target_to_host: Unused,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_laid_out_as_debuggers_expect() {
        assert_eq!(size_of::<CommunicatorDescription>(), 88);
        assert_eq!(offset_of!(PendingOperation, desired_tag), 32);
        assert_eq!(offset_of!(PendingOperation, buffer), 56);
        assert_eq!(offset_of!(PendingOperation, actual_length), 88);
        assert_eq!(size_of::<PendingOperation>(), 96 + 5 * 64);
        assert_eq!(size_of::<BasicCallbacks>(), 64);
        assert_eq!(offset_of!(ImageCallbacks, find_symbol), 16);
        assert_eq!(offset_of!(ProcessCallbacks, fetch_data), 16);
    }
}
