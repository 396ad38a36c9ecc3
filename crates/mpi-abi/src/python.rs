//! The lines of a Python program that lead to the current call.
//!
//! The frames of Python are not on the stack that the processor has. The interpreter itself is
//! asked for them, by its C interface, which is looked up at run time. That needs the
//! interpreter's lock. A thread that has it walks its frames itself and runs no code of Python:
//! that could give the lock to another thread, which may wait for this library, or take a signal of
//! the program. Otherwise another thread may hold the lock while it waits for this library. So a
//! thread of its own asks, and the caller waits for it for a bounded time.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::sync::Mutex;
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

/// The thread that asks the interpreter, once it was needed.
static ASKER: Mutex<Option<Asker>> = Mutex::new(None);

struct Asker {
    questions: Sender<CString>,
    /// There is one answer to each question.
    answers: Receiver<Option<String>>,
    /// Whether the answer to a question was not received yet: the thread is at work, perhaps
    /// waiting for the lock.
    is_asked: bool,
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
    let lines: Vec<String> = match has_lock {
        true => FrameReader::find(interpreter)?.lines(most),
        false => {
            let statements = CString::new(statements(thread, most)).ok()?;
            ask(interpreter, statements)?.lines().map(str::to_owned).collect()
        }
    };
    (!lines.is_empty()).then_some(lines)
}

/// Returns the statements that make the text of the lines. Collecting garbage meanwhile could run
/// functions of the program.
fn statements(thread: c_ulong, most: usize) -> String {
    format!(
        "import sys, gc\n\
         collects = gc.isenabled()\n\
         gc.disable()\n\
         lines, frame = [], sys._current_frames().get({thread})\n\
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
        *asker = Some(Asker::start(move |statements| interpreter.answer_with_lock(statements))?);
    }
    asker.as_mut()?.ask(statements, WAIT_MAX)
}

impl Asker {
    /// Starts the thread, which answers each question with this function.
    fn start(answer_to: impl Fn(&CStr) -> Option<String> + Send + 'static) -> Option<Self> {
        let (questions, asked) = mpsc::channel::<CString>();
        let (answer, answers) = mpsc::channel();
        let run = move || {
            for statements in asked {
                if answer.send(answer_to(&statements)).is_err() {
                    return;
                }
            }
        };
        let builder = thread::Builder::new().name("combray python".to_owned());
        sys::signals::without_signals(|| builder.spawn(run)).ok()?;
        Some(Self { questions, answers, is_asked: false })
    }

    /// Returns the answer to a question; `None` if it does not come in time, or if the thread is
    /// still at work for a question that was given up.
    fn ask(&mut self, statements: CString, patience: Duration) -> Option<String> {
        if self.is_asked {
            // The answer to the question that was given up.
            self.answers.try_recv().ok()?;
        }
        self.is_asked = true;
        self.questions.send(statements).ok()?;
        let answer = self.answers.recv_timeout(patience).ok()?;
        self.is_asked = false;
        answer
    }
}

/// Looks up a function, which must have the type to which the result is converted; returns `None`
/// from the calling function if it is missing.
macro_rules! function {
    ($name:expr) => {
        // SAFETY: the function has this type in all versions of the C interface of Python 3.
        unsafe { std::mem::transmute($name?.as_ptr()) }
    };
}

impl Interpreter {
    /// Finds the functions; `None` if one is missing.
    #[expect(clippy::missing_transmute_annotations, reason = "the fields have the types")]
    fn find() -> Option<Self> {
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

    /// Takes the interpreter's lock for [`answer`](Self::answer).
    fn answer_with_lock(self, statements: &CStr) -> Option<String> {
        // SAFETY: the interpreter is initialized. If it begins to end now, it ends this thread or
        // lets it wait for ever.
        let state = unsafe { (self.lock)() };
        let text = self.answer(statements);
        // SAFETY: this thread has taken the lock.
        unsafe { (self.unlock)(state) };
        text
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
                text = self.text_of((self.get)(names, c"text".as_ptr()));
            }
            (self.clear_error)();
            (self.release)(names);
            text
        }
    }

    /// Returns the text of a string; `None` if it is null or no string, perhaps with an error set.
    ///
    /// # Safety
    /// The calling thread has the interpreter's lock. `found` is null or an object.
    unsafe fn text_of(self, found: *mut c_void) -> Option<String> {
        if found.is_null() {
            return None;
        }
        let mut length: c_long = 0;
        // SAFETY: the object lives during this call, and its text as long.
        unsafe {
            let bytes = (self.text)(found, &raw mut length);
            if bytes.is_null() {
                return None;
            }
            let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize);
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

/// The functions with which a thread that has the interpreter's lock reads its own frames. None of
/// them runs code of Python.
#[derive(Clone, Copy)]
struct FrameReader {
    interpreter: Interpreter,
    frame: unsafe extern "C-unwind" fn() -> *mut c_void,
    back: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    code: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    line: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
    attribute: unsafe extern "C-unwind" fn(*mut c_void, *const c_char) -> *mut c_void,
    retain: unsafe extern "C-unwind" fn(*mut c_void),
    take_error: unsafe extern "C-unwind" fn(*mut *mut c_void, *mut *mut c_void, *mut *mut c_void),
    give_error: unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *mut c_void),
    /// Stop and start collecting garbage, which would run functions of the program. Interpreters
    /// that do not have them (3.9) allocate nothing here that is collected.
    collecting: Option<[unsafe extern "C-unwind" fn() -> c_int; 2]>,
}

impl FrameReader {
    /// Finds the functions; `None` if one is missing (Python 3.8 and before).
    #[expect(clippy::missing_transmute_annotations, reason = "the fields have the types")]
    fn find(interpreter: Interpreter) -> Option<Self> {
        let collecting = || {
            let disable = function!(global_symbol(c"PyGC_Disable"));
            Some([disable, function!(global_symbol(c"PyGC_Enable"))])
        };
        Some(Self {
            interpreter,
            frame: function!(global_symbol(c"PyEval_GetFrame")),
            back: function!(global_symbol(c"PyFrame_GetBack")),
            code: function!(global_symbol(c"PyFrame_GetCode")),
            line: function!(global_symbol(c"PyFrame_GetLineNumber")),
            attribute: function!(global_symbol(c"PyObject_GetAttrString")),
            retain: function!(global_symbol(c"Py_IncRef")),
            take_error: function!(global_symbol(c"PyErr_Fetch")),
            give_error: function!(global_symbol(c"PyErr_Restore")),
            collecting: collecting(),
        })
    }

    /// Returns the lines of this thread, which has the interpreter's lock. An error that the
    /// program has not handled yet stays.
    fn lines(self, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let [mut kind, mut value, mut trace] = [std::ptr::null_mut(); 3];
        // SAFETY: the thread has the lock. Each frame is retained while it is used; null is passed
        // to no function that does not take it.
        unsafe {
            (self.take_error)(&raw mut kind, &raw mut value, &raw mut trace);
            let has_collected = self.collecting.is_some_and(|[disable, _]| disable() != 0);
            let mut frame = (self.frame)();
            if !frame.is_null() {
                (self.retain)(frame);
            }
            while !frame.is_null() {
                lines.extend(self.described(frame));
                let back = match lines.len() < most {
                    true => (self.back)(frame),
                    false => std::ptr::null_mut(),
                };
                (self.interpreter.release)(frame);
                frame = back;
            }
            if let Some([_, enable]) = self.collecting.filter(|_| has_collected) {
                enable();
            }
            (self.give_error)(kind, value, trace);
        }
        lines
    }

    /// Returns the function, file and line of a frame.
    ///
    /// # Safety
    /// The calling thread has the interpreter's lock. `frame` is a frame.
    unsafe fn described(self, frame: *mut c_void) -> Option<String> {
        // SAFETY: as in the calling function; each object is released after its use.
        unsafe {
            let code = (self.code)(frame);
            let text = |name: &CStr| {
                let found = (self.attribute)(code, name.as_ptr());
                let text = self.interpreter.text_of(found);
                if !found.is_null() {
                    (self.interpreter.release)(found);
                }
                (self.interpreter.clear_error)();
                text
            };
            // Versions before 3.11 have no qualified name; its absence is an object of an error.
            let qualified = self.collecting.and_then(|_| text(c"co_qualname"));
            let function = qualified.or_else(|| text(c"co_name"));
            let file = text(c"co_filename");
            (self.interpreter.release)(code);
            let (function, file) = (function?, file?);
            let file = file.rsplit('/').next().unwrap_or_default();
            Some(format!("{function} ({file}:{})", (self.line)(frame)))
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
    fn a_late_answer_is_not_taken_for_the_next_one() {
        const LONG: Duration = Duration::from_secs(60);
        let (allow, allowed) = mpsc::channel();
        let answer_to = move |question: &CStr| {
            allowed.recv().ok().and_then(|()| question.to_str().ok().map(str::to_owned))
        };
        let mut asker = Asker::start(answer_to).expect("threads can be started");
        let mut ask = |question: &CStr, patience| asker.ask(question.to_owned(), patience);
        assert_eq!(ask(c"given up", Duration::from_millis(1)), None);
        assert_eq!(ask(c"while it is at work", LONG), None);
        for _ in 0..2 {
            allow.send(()).expect("the thread lives");
        }
        // The late answer may not be there yet.
        let answer = std::iter::repeat_with(|| ask(c"next", LONG)).find_map(|answer| answer);
        assert_eq!(answer.as_deref(), Some("next"));
        allow.send(()).expect("the thread lives");
        assert_eq!(ask(c"third", LONG).as_deref(), Some("third"));
    }

    #[test]
    fn a_program_without_python_has_no_lines_of_it() {
        assert!(!is_loaded());
        assert_eq!(current_lines(3), None);
    }
}
