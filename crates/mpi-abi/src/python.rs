//! The lines of a Python program that lead to the current call.
//!
//! The frames of Python are not on the stack that the processor has. The interpreter itself is
//! asked for them, by its C interface, which is looked up at run time. That needs the
//! interpreter's lock, which another thread may hold while it waits for this library. So a thread
//! of its own asks, and the caller waits for it for a bounded time.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use sys::library::global_symbol;

/// The functions of the interpreter's C interface that are used here.
#[derive(Clone, Copy)]
struct Interpreter {
    is_initialized: unsafe extern "C-unwind" fn() -> c_int,
    is_finalizing: unsafe extern "C-unwind" fn() -> c_int,
    thread_number: unsafe extern "C-unwind" fn() -> c_ulong,
    has_lock: unsafe extern "C-unwind" fn() -> c_int,
    lock: unsafe extern "C-unwind" fn() -> c_int,
    unlock: unsafe extern "C-unwind" fn(c_int),
    new_dictionary: unsafe extern "C-unwind" fn() -> *mut c_void,
    builtins: unsafe extern "C-unwind" fn() -> *mut c_void,
    set: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, *mut c_void) -> c_int,
    get: unsafe extern "C-unwind" fn(*mut c_void, *const c_char) -> *mut c_void,
    run: unsafe extern "C-unwind" fn(*const c_char, c_int, *mut c_void, *mut c_void) -> *mut c_void,
    text: unsafe extern "C-unwind" fn(*mut c_void, *mut c_long) -> *const c_char,
    release: unsafe extern "C-unwind" fn(*mut c_void),
    clear_error: unsafe extern "C-unwind" fn(),
}

/// How long a caller waits for the interpreter.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// `Py_file_input`: the text is a sequence of statements.
const STATEMENTS: c_int = 257;

/// Whether the thread that asks the interpreter is at work, perhaps waiting for the lock.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// The thread that asks the interpreter, once it was needed.
static ASKER: Mutex<Option<Asker>> = Mutex::new(None);

struct Asker {
    questions: Sender<CString>,
    answers: Receiver<Option<String>>,
}

/// Whether the process is a Python interpreter, or has loaded one.
pub fn is_loaded() -> bool {
    global_symbol(c"Py_IsInitialized").is_some()
}

/// Returns the lines of the Python program that this thread is at, innermost first and at most
/// `most`: `exchange (halo.py:41)`. `None` if it is in no Python program, or if the interpreter
/// does not answer in time.
pub fn current_lines(most: usize) -> Option<Vec<String>> {
    if !is_loaded() {
        return None;
    }
    let interpreter = Interpreter::find()?;
    // SAFETY: these functions may be called at any time and without the lock.
    let (is_usable, thread, has_lock) = unsafe {
        let is_usable = (interpreter.is_initialized)() != 0 && (interpreter.is_finalizing)() == 0;
        (is_usable, (interpreter.thread_number)(), is_usable && (interpreter.has_lock)() == 1)
    };
    if !is_usable {
        return None;
    }
    let statements = CString::new(statements(thread, has_lock, most)).ok()?;
    let answer = match has_lock {
        true => interpreter.answer(&statements),
        false => ask(interpreter, statements),
    };
    let lines: Vec<String> = answer?.lines().map(str::to_owned).collect();
    (!lines.is_empty()).then_some(lines)
}

/// Returns the statements that make the text of the lines. Collecting garbage meanwhile could run
/// functions of the program.
fn statements(thread: c_ulong, has_lock: bool, most: usize) -> String {
    // With the lock, the statements run in the thread itself and are its innermost frame.
    let has_lock = c_int::from(has_lock);
    format!(
        "import sys, gc\n\
         collects = gc.isenabled()\n\
         gc.disable()\n\
         lines, frame = [], sys._current_frames().get({thread})\n\
         if {has_lock}: frame = frame.f_back\n\
         while frame is not None and len(lines) < {most}:\n\
         \x20   code = frame.f_code\n\
         \x20   lines.append('%s (%s:%s)' % (getattr(code, 'co_qualname', code.co_name),\n\
         \x20       code.co_filename.rpartition('/')[2], frame.f_lineno))\n\
         \x20   frame = frame.f_back\n\
         frame = code = None\n\
         text = '\\n'.join(lines)\n\
         if collects: gc.enable()\n"
    )
}

/// Asks in a thread of its own.
fn ask(interpreter: Interpreter, statements: CString) -> Option<String> {
    let mut asker = ASKER.try_lock().ok()?;
    if asker.is_none() {
        *asker = Some(start(interpreter)?);
    }
    let Asker { questions, answers } = asker.as_ref()?;
    if IS_ASKED.load(Ordering::Acquire) {
        return None;
    }
    // The answer to a question that was given up.
    while answers.try_recv().is_ok() {}
    IS_ASKED.store(true, Ordering::Release);
    questions.send(statements).ok()?;
    answers.recv_timeout(WAIT_MAX).ok()?
}

fn start(interpreter: Interpreter) -> Option<Asker> {
    let (questions, asked) = mpsc::channel::<CString>();
    let (answer, answers) = mpsc::channel();
    let run = move || {
        for statements in asked {
            // SAFETY: the interpreter is initialized. If it begins to end now, it ends this thread
            // or lets it wait for ever.
            let state = unsafe { (interpreter.lock)() };
            let text = interpreter.answer(&statements);
            // SAFETY: this thread has taken the lock.
            unsafe { (interpreter.unlock)(state) };
            IS_ASKED.store(false, Ordering::Release);
            if answer.send(text).is_err() {
                return;
            }
        }
    };
    let builder = thread::Builder::new().name("combray python".to_owned());
    sys::signals::without_signals(|| builder.spawn(run)).ok()?;
    Some(Asker { questions, answers })
}

impl Interpreter {
    /// Finds the functions; `None` if one is missing.
    #[expect(clippy::missing_transmute_annotations, reason = "the fields have the types")]
    fn find() -> Option<Self> {
        /// Looks up a function, which must have the type to which the result is converted.
        macro_rules! function {
            ($name:expr) => {
                // SAFETY: the function has this type in all versions of the C interface of Python
                // 3.
                unsafe { std::mem::transmute($name?.as_ptr()) }
            };
        }
        let is_finalizing = global_symbol(c"Py_IsFinalizing");
        let is_finalizing = is_finalizing.or_else(|| global_symbol(c"_Py_IsFinalizing"));
        Some(Self {
            is_initialized: function!(global_symbol(c"Py_IsInitialized")),
            is_finalizing: function!(is_finalizing),
            thread_number: function!(global_symbol(c"PyThread_get_thread_ident")),
            has_lock: function!(global_symbol(c"PyGILState_Check")),
            lock: function!(global_symbol(c"PyGILState_Ensure")),
            unlock: function!(global_symbol(c"PyGILState_Release")),
            new_dictionary: function!(global_symbol(c"PyDict_New")),
            builtins: function!(global_symbol(c"PyEval_GetBuiltins")),
            set: function!(global_symbol(c"PyDict_SetItemString")),
            get: function!(global_symbol(c"PyDict_GetItemString")),
            run: function!(global_symbol(c"PyRun_String")),
            text: function!(global_symbol(c"PyUnicode_AsUTF8AndSize")),
            release: function!(global_symbol(c"Py_DecRef")),
            clear_error: function!(global_symbol(c"PyErr_Clear")),
        })
    }

    /// Runs statements and returns the string that they leave in `text`. The calling thread has
    /// the interpreter's lock.
    fn answer(self, statements: &CStr) -> Option<String> {
        // SAFETY: the thread has the lock. The objects are new, or belong to the dictionary, which
        // is released last; null is passed to no function that does not take it.
        unsafe {
            let names = (self.new_dictionary)();
            if names.is_null() {
                (self.clear_error)();
                return None;
            }
            (self.set)(names, c"__builtins__".as_ptr(), (self.builtins)());
            let done = (self.run)(statements.as_ptr(), STATEMENTS, names, names);
            let mut text = None;
            if !done.is_null() {
                (self.release)(done);
                let found = (self.get)(names, c"text".as_ptr());
                let mut length: c_long = 0;
                let bytes = match found.is_null() {
                    true => std::ptr::null(),
                    false => (self.text)(found, &raw mut length),
                };
                if !bytes.is_null() {
                    let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize);
                    text = Some(String::from_utf8_lossy(bytes).into_owned());
                }
            }
            (self.clear_error)();
            (self.release)(names);
            text
        }
    }
}

/// Returns the name in Python of a function in C that Cython has made, such as those of mpi4py:
/// `mpi4py.MPI.Comm.recv`. `None` if the name is of another kind.
pub fn name_of_extension(symbol: &str) -> Option<String> {
    let rest = symbol.strip_prefix("__pyx_")?;
    let (kind, mut rest) = rest.split_once('_')?;
    if !matches!(kind, "pw" | "pf" | "f") {
        return None;
    }
    let mut parts = Vec::new();
    loop {
        let name = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let length = rest[..rest.len() - name.len()].parse::<usize>().ok();
        // A name of which the length is given, and behind it another one.
        match length.and_then(|length| Some((name.get(..length)?, name.get(length..)?))) {
            Some((part, after)) if after.len() > 1 && after.starts_with('_') => {
                parts.push(part);
                rest = &after[1..];
            }
            // The last one has the number of the function before it, or nothing.
            _ => {
                parts.push(name);
                return (parts.len() > 1 && !name.is_empty()).then(|| parts.join("."));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_extensions_have_their_names_in_python() {
        let name = |symbol| name_of_extension(symbol).unwrap_or_default();
        assert_eq!(name("__pyx_pw_6mpi4py_3MPI_4Comm_143Allreduce"), "mpi4py.MPI.Comm.Allreduce");
        assert_eq!(name("__pyx_f_6mpi4py_3MPI_PyMPI_recv"), "mpi4py.MPI.PyMPI_recv");
        for other in
            ["main", "__pyx_", "__pyx_pw_", "__pyx_pymod_exec_MPI", "__pyx_f_99x", "__pyx_f_1é"]
        {
            assert_eq!(name(other), "", "{other}");
        }
    }

    #[test]
    fn a_program_without_python_has_no_lines_of_it() {
        assert!(!is_loaded());
        assert_eq!(current_lines(3), None);
    }
}
