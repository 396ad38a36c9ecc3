//! The functions of the library, and the types of their parameters.

use std::ffi::{CStr, c_char, c_void};

use sys::library::LoadedLibrary;

/// `OTF2_SUCCESS`.
pub const SUCCESS: i32 = 0;

/// `OTF2_Archive`.
#[repr(C)]
pub struct Archive {
    _opaque: [u8; 0],
}

/// `OTF2_EvtWriter`.
#[repr(C)]
pub struct EventWriter {
    _opaque: [u8; 0],
}

/// `OTF2_DefWriter`.
#[repr(C)]
pub struct DefinitionWriter {
    _opaque: [u8; 0],
}

/// `OTF2_GlobalDefWriter`.
#[repr(C)]
pub struct GlobalDefinitions {
    _opaque: [u8; 0],
}

/// `OTF2_FlushCallbacks`.
#[repr(C)]
pub struct FlushCallbacks {
    pub before: extern "C" fn(*mut c_void, u8, u64, *mut c_void, bool) -> u8,
    pub after: Option<extern "C" fn(*mut c_void, u8, u64) -> u64>,
}

/// Attributes of an event, of which there are none.
type Attributes = *mut c_void;
type Text = *const c_char;
type Code = i32;

/// Declares a table of functions, each with its name in the library.
macro_rules! functions {
    ($($field:ident = $name:literal: fn($($parameter:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of a library.
        pub struct Otf2Functions {
            $(pub $field: unsafe extern "C" fn($($parameter),*) $(-> $result)?,)*
        }

        impl Otf2Functions {
            /// Finds the functions.
            ///
            /// # Errors
            /// The name of a function that the library lacks.
            ///
            /// # Safety
            /// The functions of these names must have these types.
            pub unsafe fn of(library: &LoadedLibrary) -> Result<Self, &'static str> {
                $(
                    let name = concat!($name, "\0");
                    let found = CStr::from_bytes_with_nul(name.as_bytes()).ok();
                    let found = found.and_then(|name| library.symbol(name)).ok_or($name)?;
                    // SAFETY: guaranteed by the caller.
                    let $field = unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($parameter),*) $(-> $result)?,
                        >(found.as_ptr())
                    };
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}

functions! {
    open = "OTF2_Archive_Open": fn(Text, Text, u8, u64, u64, u8, u8) -> *mut Archive;
    set_flush_callbacks = "OTF2_Archive_SetFlushCallbacks":
        fn(*mut Archive, *const FlushCallbacks, *mut c_void) -> Code;
    set_serial = "OTF2_Archive_SetSerialCollectiveCallbacks": fn(*mut Archive) -> Code;
    open_events = "OTF2_Archive_OpenEvtFiles": fn(*mut Archive) -> Code;
    close_events = "OTF2_Archive_CloseEvtFiles": fn(*mut Archive) -> Code;
    event_writer = "OTF2_Archive_GetEvtWriter": fn(*mut Archive, u64) -> *mut EventWriter;
    close_event_writer = "OTF2_Archive_CloseEvtWriter":
        fn(*mut Archive, *mut EventWriter) -> Code;
    open_definitions = "OTF2_Archive_OpenDefFiles": fn(*mut Archive) -> Code;
    close_definitions = "OTF2_Archive_CloseDefFiles": fn(*mut Archive) -> Code;
    definition_writer = "OTF2_Archive_GetDefWriter":
        fn(*mut Archive, u64) -> *mut DefinitionWriter;
    close_definition_writer = "OTF2_Archive_CloseDefWriter":
        fn(*mut Archive, *mut DefinitionWriter) -> Code;
    global_definitions = "OTF2_Archive_GetGlobalDefWriter":
        fn(*mut Archive) -> *mut GlobalDefinitions;
    close = "OTF2_Archive_Close": fn(*mut Archive) -> Code;
    enter = "OTF2_EvtWriter_Enter": fn(*mut EventWriter, Attributes, u64, u32) -> Code;
    leave = "OTF2_EvtWriter_Leave": fn(*mut EventWriter, Attributes, u64, u32) -> Code;
    send = "OTF2_EvtWriter_MpiSend":
        fn(*mut EventWriter, Attributes, u64, u32, u32, u32, u64) -> Code;
    receive = "OTF2_EvtWriter_MpiRecv":
        fn(*mut EventWriter, Attributes, u64, u32, u32, u32, u64) -> Code;
    operation_begin = "OTF2_EvtWriter_MpiCollectiveBegin":
        fn(*mut EventWriter, Attributes, u64) -> Code;
    operation_end = "OTF2_EvtWriter_MpiCollectiveEnd":
        fn(*mut EventWriter, Attributes, u64, u8, u32, u32, u64, u64) -> Code;
    metric = "OTF2_EvtWriter_Metric":
        fn(*mut EventWriter, Attributes, u64, u32, u8, *const u8, *const u64) -> Code;
    clock = "OTF2_GlobalDefWriter_WriteClockProperties":
        fn(*mut GlobalDefinitions, u64, u64, u64, u64) -> Code;
    string = "OTF2_GlobalDefWriter_WriteString": fn(*mut GlobalDefinitions, u32, Text) -> Code;
    tree_node = "OTF2_GlobalDefWriter_WriteSystemTreeNode":
        fn(*mut GlobalDefinitions, u32, u32, u32, u32) -> Code;
    location_group = "OTF2_GlobalDefWriter_WriteLocationGroup":
        fn(*mut GlobalDefinitions, u32, u32, u8, u32, u32) -> Code;
    location = "OTF2_GlobalDefWriter_WriteLocation":
        fn(*mut GlobalDefinitions, u64, u32, u8, u64, u32) -> Code;
    region = "OTF2_GlobalDefWriter_WriteRegion":
        fn(*mut GlobalDefinitions, u32, u32, u32, u32, u8, u8, u32, u32, u32, u32) -> Code;
    group = "OTF2_GlobalDefWriter_WriteGroup":
        fn(*mut GlobalDefinitions, u32, u32, u8, u8, u32, u32, *const u64) -> Code;
    communicator = "OTF2_GlobalDefWriter_WriteComm":
        fn(*mut GlobalDefinitions, u32, u32, u32, u32, u32) -> Code;
    metric_member = "OTF2_GlobalDefWriter_WriteMetricMember":
        fn(*mut GlobalDefinitions, u32, u32, u32, u8, u8, u8, u8, i64, u32) -> Code;
    metric_class = "OTF2_GlobalDefWriter_WriteMetricClass":
        fn(*mut GlobalDefinitions, u32, u8, *const u32, u8, u8) -> Code;
    describe = "OTF2_Error_GetDescription": fn(Code) -> Text;
}

impl Otf2Functions {
    /// Returns the library's description of an error.
    pub fn description(&self, code: i32) -> String {
        // SAFETY: takes a number; returns null, or a constant text that ends with a zero byte.
        let text = unsafe { (self.describe)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: not null.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
