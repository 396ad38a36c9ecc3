//! PMIx, the library through which processes communicate with the manager that started them (PRRTE,
//! Open MPI's mpirun, Slurm). It is loaded at run time, so that a program needs it only where it is
//! used.
//!
//! The declarations match versions 3 to 5 of the library, all of which are called `libpmix.so.2`
//! (PMIx Standard, chapters "Data Structures and Types" and "Client Initialization").

mod declarations;

use std::ffi::{CStr, CString, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use declarations::{CallOption, PmixFunctions, ProcessName, SUCCESS, Value, ValueScope};

/// The file name of the library in all its versions.
pub const LIBRARY: &str = "libpmix.so.2";

/// The keys that every manager provides.
pub mod keys {
    /// The number of processes of the job; a value of the job.
    pub const JOB_SIZE: &str = "pmix.job.size";
    /// How many processes could run; a value of the job.
    pub const UNIVERSE_SIZE: &str = "pmix.univ.size";
    /// The number of the program in the job; a value of a process.
    pub const APPLICATION_NUMBER: &str = "pmix.appnum";
    /// The number of the machine; a value of a process.
    pub const NODE_NUMBER: &str = "pmix.nodeid";
    /// The name of the machine; a value of a process.
    pub const HOST_NAME: &str = "pmix.hname";
}

/// An option of `PMIx_Get`: the manager must not wait until a process publishes the value.
const AT_ONCE: &CStr = c"pmix.immediate";

/// An option of `PMIx_Get`: the time limit in seconds.
const TIMEOUT: &CStr = c"pmix.timeout";

/// Far longer than a working manager needs, even with many thousands of processes.
const SECONDS_MAX: i32 = 30;

/// A PMIx library that is loaded.
pub struct PmixLibrary {
    functions: PmixFunctions,
}

/// A connection to the manager that started this process.
pub struct Client {
    functions: PmixFunctions,
    own: ProcessName,
}

/// Why the library cannot be loaded, or the error that it returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmixError {
    message: String,
}

impl PmixError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for PmixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PmixError {}

/// The job or process that a value describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOwner {
    /// The job as a whole.
    Job,
    /// The process with this rank.
    Rank(u32),
}

/// What happens in a fence to the values that processes have published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceData {
    /// All of them are brought to each machine.
    Fetched,
    /// They stay where they are until a process asks for them.
    Left,
}

impl PmixLibrary {
    /// Loads the library at this path, or of this name where the dynamic loader finds it.
    ///
    /// # Errors
    /// The library does not exist, or is no PMIx library.
    pub fn load(path: &Path) -> Result<Self, PmixError> {
        // SAFETY: libpmix does nothing when it is loaded. A user that can choose the path by
        // variables can also choose the program.
        let library = unsafe { sys::library::LoadedLibrary::open(path) };
        let library = library.map_err(|cause| PmixError::new(cause.to_string()))?;
        // SAFETY: a library of this name has these functions with these types.
        match unsafe { PmixFunctions::of(&library) } {
            Ok(functions) => Ok(Self { functions }),
            Err(name) => Err(PmixError::new(format!("{}: has no {name}", path.display()))),
        }
    }

    /// Returns the version that the library reports.
    pub fn version(&self) -> String {
        // SAFETY: takes nothing and returns a constant text.
        unsafe { text((self.functions.get_version)()) }
    }

    /// Connects to the manager that the library finds in the environment.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn connect(self) -> Result<Client, PmixError> {
        let mut own = ProcessName::EMPTY;
        // SAFETY: `own` may be written; without options their number is 0.
        let status = unsafe { (self.functions.init)(&mut own, ptr::null(), 0) };
        self.functions.check("PMIx_Init", status)?;
        Ok(Client { functions: self.functions, own })
    }
}

/// The function that is called when the manager is gone.
static WHEN_LOST: OnceLock<fn()> = OnceLock::new();

/// `pmix_notification_fn_t`: handles the event that the manager is gone.
///
/// # Safety
/// Called by the library, with the arguments of that type.
unsafe extern "C" fn lost(
    _number: usize,
    _status: c_int,
    _source: *const ProcessName,
    _infos: *const CallOption,
    _info_count: usize,
    _results: *const CallOption,
    _result_count: usize,
    done: Option<declarations::EventDone>,
    data: *mut c_void,
) {
    WHEN_LOST.get().into_iter().for_each(|gone| gone());
    if let Some(done) = done {
        // SAFETY: the library requires this call, with the pointer that it passed, when the event
        // has been handled.
        unsafe { done(SUCCESS, ptr::null(), 0, None, ptr::null_mut(), data) };
    }
}

impl PmixFunctions {
    fn check(&self, call: &str, status: i32) -> Result<(), PmixError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be given; the text is constant.
        let name = unsafe { text((self.error_string)(status)) };
        Err(PmixError::new(format!("{call} returned {name} ({status})")))
    }
}

impl Client {
    /// Returns the rank of this process in its job.
    pub fn rank(&self) -> u32 {
        self.own.rank
    }

    /// Returns a number that the manager provides, if it does.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn number(&self, whom: ValueOwner, key: &str) -> Result<Option<u32>, PmixError> {
        self.ask(whom, key, &CallOption::flag(AT_ONCE), Value::number)
    }

    /// Returns a text that the manager provides, if it does.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn text(&self, whom: ValueOwner, key: &str) -> Result<Option<String>, PmixError> {
        self.ask(whom, key, &CallOption::flag(AT_ONCE), Value::text)
    }

    /// Returns the text that the process `rank` published before the last fence, if it did.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn get(&self, rank: u32, key: &str) -> Result<Option<String>, PmixError> {
        // With the option to answer at once, the library does not find values of other machines,
        // although they are here.
        let option = CallOption::number(TIMEOUT, SECONDS_MAX);
        self.ask(ValueOwner::Rank(rank), key, &option, Value::text)
    }

    fn ask<T>(
        &self,
        whom: ValueOwner,
        key: &str,
        option: &CallOption,
        read: fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, PmixError> {
        let whom = match whom {
            ValueOwner::Job => self.own.whole_job(),
            ValueOwner::Rank(rank) => self.own.with_rank(rank),
        };
        let key = c_string(key)?;
        let mut answer: *mut Value = ptr::null_mut();
        // SAFETY: all pointers are valid for the call; there is one option.
        let status = unsafe { (self.functions.get)(&whom, key.as_ptr(), option, 1, &mut answer) };
        if declarations::is_absent(status) {
            return Ok(None);
        }
        self.functions.check("PMIx_Get", status)?;
        if answer.is_null() {
            return Ok(None);
        }
        // SAFETY: on success it points to a value that belongs to the caller.
        let found = read(unsafe { &*answer });
        // SAFETY: the value and the text in it came from malloc, and are not used any more.
        unsafe { Value::give_back(answer) };
        Ok(found)
    }

    /// Publishes a text, which other processes see after the next fence.
    ///
    /// # Errors
    /// The library refuses it.
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmixError> {
        let (key, text) = (c_string(key)?, c_string(value)?);
        let mut value = Value::of_text(&text);
        // SAFETY: the key and the value, which the library copies, are valid for the call.
        let status =
            unsafe { (self.functions.put)(ValueScope::Global as u8, key.as_ptr(), &mut value) };
        self.functions.check("PMIx_Put", status)
    }

    /// Waits for all processes of the job, all of which pass an equal `data`.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn fence(&mut self, data: FenceData) -> Result<(), PmixError> {
        // SAFETY: takes nothing.
        let status = unsafe { (self.functions.commit)() };
        self.functions.check("PMIx_Commit", status)?;
        let collect = CallOption::flag(c"pmix.collect");
        let options = usize::from(data == FenceData::Fetched);
        // SAFETY: no processes means all of the job; there is one option, or none is read.
        let status = unsafe { (self.functions.fence)(ptr::null(), 0, &collect, options) };
        self.functions.check("PMIx_Fence", status)
    }

    /// Requests the manager to end the job with an exit code.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn abort(&mut self, code: i32, message: &str) -> Result<(), PmixError> {
        let message = c_string(message)?;
        // SAFETY: the message is valid for the call; no processes means all of the job.
        let status = unsafe { (self.functions.abort)(code, message.as_ptr(), ptr::null(), 0) };
        self.functions.check("PMIx_Abort", status)
    }

    /// Calls `gone` on a thread of the library when the manager is gone. Only the first function
    /// that is passed is called.
    pub fn when_lost(&self, gone: fn()) {
        WHEN_LOST.get_or_init(|| gone);
        let statuses = declarations::LOST_CONNECTIONS;
        let (register, count) = (self.functions.register_event_handler, statuses.len());
        // SAFETY: the statuses are copied, there are no options, the handler is a function of that
        // type, and no callback reports the registration.
        unsafe { register(statuses.as_ptr(), count, ptr::null(), 0, lost, None, ptr::null_mut()) };
    }

    /// Disconnects from the manager.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn finalize(&mut self) -> Result<(), PmixError> {
        // SAFETY: without options their number is 0.
        let status = unsafe { (self.functions.finalize)(ptr::null(), 0) };
        self.functions.check("PMIx_Finalize", status)
    }
}

fn c_string(text: &str) -> Result<CString, PmixError> {
    let refused = || PmixError::new(format!("a zero byte in \"{}\"", text.escape_debug()));
    CString::new(text).map_err(|_| refused())
}

/// Converts a text of the library.
///
/// # Safety
/// `text` is null, or ends with a zero byte and lives long enough.
unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return "nothing".to_owned();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
