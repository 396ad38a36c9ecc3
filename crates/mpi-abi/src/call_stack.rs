//! Determines from a thread's stack which MPI function it is in, and which function of the program
//! called that. So no call has to be recorded.

use std::backtrace::Backtrace;

use mpi::FoundCall;
use sys::callers;

use crate::python;

/// Returns the call that this thread is in. This takes milliseconds, and longer for programs with
/// much debug information; it is meant for threads that have waited long and must report their
/// state.
pub fn current_call() -> FoundCall {
    let mut found = call_in(&names_in(&Backtrace::force_capture()));
    if let Some(line) = python::current_lines(1).and_then(|mut lines| lines.pop()) {
        found.caller = Some(line);
    }
    found
}

/// The maximum number of functions between the innermost one and the MPI function.
const DEPTH_MAX: usize = 256;

/// Returns the MPI function that this thread is in. Only exported symbols are examined, so this
/// takes microseconds however much debug information there is.
pub fn current_function() -> Option<String> {
    callers::callers_of_depth(DEPTH_MAX).into_iter().find_map(|caller| {
        // The return address may be the first one after the calling function.
        let symbol = callers::object_of(caller.address.checked_sub(1)?)?.symbol?;
        is_function(&symbol).then(|| without_prefix(&symbol).to_owned())
    })
}

/// Returns the functions of the program that led to the current call, innermost first, up to `main`
/// and at most `most`. This takes as long as [`current_call`].
pub fn callers(most: usize) -> Vec<String> {
    let of_python = python::current_lines(most);
    of_python.unwrap_or_else(|| callers_in(&names_in(&Backtrace::force_capture()), most))
}

/// Like [`callers`], but walks only the stack now, which takes microseconds. The returned function
/// looks up the names.
pub fn callers_later(most: usize) -> impl Fn() -> Vec<String> {
    let stack = Backtrace::force_capture();
    move || callers_in(&names_in(&stack), most)
}

/// The debug information of large programs and libraries takes so much memory.
const ADDRESS_SPACE_MIN: u64 = 2 << 30;

/// Looks up the names of the functions of a stack. Returns an empty text if the process may not map
/// the memory for that: the standard library would wait for itself when it has none.
fn names_in(stack: &Backtrace) -> String {
    match sys::mapping::has_less_address_space(ADDRESS_SPACE_MIN) {
        true => String::new(),
        false => stack.to_string(),
    }
}

/// One frame of a stack.
#[derive(Debug, Default)]
struct Frame<'a> {
    name: &'a str,
    /// The file, line and column.
    place: Option<&'a str>,
}

/// Returns the first MPI function, from the innermost frame on, and the frame that called it.
fn call_in(stack: &str) -> FoundCall {
    let frames = frames_of(stack);
    let Some(place) = frames.iter().position(|frame| is_function(frame.name)) else {
        return FoundCall::default();
    };
    let function = without_prefix(frames[place].name).to_owned();
    let caller = frames[place + 1..].iter().find(|frame| !is_same(frame)).map(Frame::described);
    FoundCall { function: Some(function), caller: caller.flatten() }
}

/// Returns the frames of the program, innermost first.
fn callers_in(stack: &str, most: usize) -> Vec<String> {
    let frames = frames_of(stack);
    let inside = frames.iter().position(|frame| is_function(frame.name)).unwrap_or(frames.len());
    let inside = inside + frames[inside..].iter().take_while(|frame| is_same(frame)).count();
    described(&frames[inside..], most)
}

/// Returns the function of the program that has opened an OpenMP region, from the stack in the
/// region, with its file and line.
pub fn region_opener(stack: &Backtrace) -> Option<String> {
    opener_in(&names_in(stack))
}

fn opener_in(stack: &str) -> Option<String> {
    let frames = frames_of(stack);
    let opened = frames.iter().position(|frame| frame.name.starts_with("GOMP_"))?;
    described(&frames[opened + 1..], 1).pop()
}

/// Returns the functions of the program that led to a report of a load or store (`check::program`),
/// in the form of [`callers`].
pub fn users_of_memory(most: usize) -> Vec<String> {
    let stack = names_in(&Backtrace::force_capture());
    let frames = frames_of(&stack);
    let is_added = |frame: &&Frame<'_>| frame.name.starts_with("__tsan_");
    let reported = frames.iter().position(|frame| frame.name == "combray_note_access");
    let user = reported.map_or(frames.len(), |reported| reported + 1);
    let user = user + frames[user..].iter().take_while(is_added).count();
    described(&frames[user..], most)
}

/// Returns the functions that this thread was in when a signal was handled that its program caused,
/// innermost first, up to `main` and at most `most`.
pub fn crashed_functions(most: usize) -> Vec<String> {
    crashed_in(&names_in(&Backtrace::force_capture()), most)
}

fn crashed_in(stack: &str, most: usize) -> Vec<String> {
    let frames = frames_of(stack);
    let handler = frames.iter().position(|frame| unqualified(frame.name) == "combray_on_crash");
    // Below the handler is the code by which the kernel calls it.
    let crashed = handler.map_or(frames.len(), |handler| (handler + 2).min(frames.len()));
    let mut folded: Vec<(String, u32)> = Vec::new();
    for function in described(&frames[crashed..], usize::MAX) {
        match folded.last_mut().filter(|last| last.0 == function) {
            Some((_, times)) => *times += 1,
            None => folded.push((function, 1)),
        }
    }
    let shown = folded.into_iter().take(most).map(|(function, times)| match times {
        1 => function,
        _ => format!("{function}, {times} times"),
    });
    shown.collect()
}

/// Returns functions of the program as text, up to `main` and at most `most`.
fn described(frames: &[Frame<'_>], most: usize) -> Vec<String> {
    let mut callers = Vec::new();
    for frame in frames.iter().take(most) {
        callers.extend(frame.described());
        if frame.name == "main" {
            break;
        }
    }
    callers
}

/// Whether a frame belongs to an MPI function, or to a function with the name of one. Interposed
/// tools and the Fortran interfaces contain such functions, which call the MPI function.
fn is_same(frame: &Frame<'_>) -> bool {
    let name = frame.name.to_ascii_lowercase();
    is_function(frame.name) || name.trim_end_matches('_').starts_with("mpi_")
}

fn frames_of(stack: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for line in stack.lines().map(str::trim) {
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(last) = frames.last_mut() {
                last.place = Some(place);
            }
        } else if let Some((number, name)) = line.split_once(": ")
            && number.bytes().all(|digit| digit.is_ascii_digit())
        {
            frames.push(Frame { name, place: None });
        }
    }
    frames
}

/// Returns the name of a function without its modules. Symbols contain the modules if there is no
/// debug information.
fn unqualified(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// Returns the name of an MPI function without its modules and without the prefix of the profiling
/// interface.
fn without_prefix(name: &str) -> &str {
    let name = unqualified(name);
    name.strip_prefix('P').unwrap_or(name)
}

/// Whether a symbol is a function of the C interface, or the body of such a function.
fn is_function(name: &str) -> bool {
    ["MPI_", "MPIX_"].iter().any(|prefix| {
        let rest = without_prefix(name).strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    })
}

impl Frame<'_> {
    /// Returns the frame as text: `main (ring.c:41)`.
    fn described(&self) -> Option<String> {
        if self.name == "<unknown>" {
            return None;
        }
        let place = self.place.map(|place| {
            let file = place.rsplit('/').next().unwrap_or(place);
            // The column is left out.
            let end = file.match_indices(':').nth(1).map_or(file.len(), |(end, _)| end);
            format!(" ({})", &file[..end])
        });
        let name = python::name_of_extension(self.name).unwrap_or_else(|| self.name.to_owned());
        Some(name + &place.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_is_the_call() {
        let stack = "   0: mpi_abi::call_stack::current_call\n             at /x/call_stack.rs:12:20\n   \
                     1: mpi::process::waiting::wait\n   2: PMPI_Recv\n             at /x/entry.rs:9:5\n   \
                     3: MPI_Recv\n   4: mpi_recv_\n   5: exchange\n             at \
                     /home/u/halo.c:41:3\n   6: main\n   7: __libc_start_main\n";
        let found = call_in(stack);
        assert_eq!(found.function.as_deref(), Some("MPI_Recv"));
        assert_eq!(found.caller.as_deref(), Some("exchange (halo.c:41)"));
        let found = call_in("   0: MPI_Barrier\n   1: <unknown>\n");
        assert_eq!(found.function.as_deref(), Some("MPI_Barrier"));
        assert_eq!(found.caller, None);
        assert_eq!(call_in("   0: main\n   1: MPI_\n").function, None);
        // The library of a package has symbols, but no debug information.
        let stack = "   0: mpi::collective::wait\n   1: mpi_abi::generated::entries::environment::_::\
                     MPI_Finalize\n   2: main\n";
        let found = call_in(stack);
        assert_eq!(found.function.as_deref(), Some("MPI_Finalize"));
        assert_eq!(found.caller.as_deref(), Some("main"));
    }

    #[test]
    fn a_crash_is_in_the_frames_before_the_handler() {
        let stack = "   0: mpi_abi::crash::report\n   1: sys::crashes::combray_on_crash\n             \
                     at /x/crashes.rs:9:5\n   2: <unknown>\n   3: inner\n             at \
                     /home/u/crash.c:4:3\n   4: main\n   5: __libc_start_main\n";
        assert_eq!(crashed_in(stack, 9), ["inner (crash.c:4)", "main"]);
        assert!(crashed_in("   0: main\n", 9).is_empty());
        let deep =
            "   2: sys::crashes::combray_on_crash\n   3: <unknown>\n   4: f\n   5: f\n   6: main\n";
        assert_eq!(crashed_in(deep, 9), ["f, 2 times", "main"]);
    }

    #[test]
    fn a_region_is_opened_by_the_caller_of_the_library_of_openmp() {
        let stack = "   0: spans::note_opener\n   1: combray_openmp::regions::run\n   2: GOMP_parallel\n   \
                     3: sweep\n             at /home/u/grid.c:12:9\n   4: main\n";
        assert_eq!(opener_in(stack).as_deref(), Some("sweep (grid.c:12)"));
        assert_eq!(opener_in("   0: main\n"), None);
    }

    #[test]
    fn callers_are_the_functions_of_the_program_up_to_main() {
        let stack = "   0: mpi_abi::check::x\n   1: MPI_Send\n   2: mpi_send_\n   3: exchange\n             \
                     at /home/u/halo.c:41:3\n   4: step\n   5: main\n             at /home/u/halo.c:90:3\n   \
                     6: __libc_start_main\n";
        assert_eq!(callers_in(stack, 9), ["exchange (halo.c:41)", "step", "main (halo.c:90)"]);
        assert_eq!(callers_in(stack, 2), ["exchange (halo.c:41)", "step"]);
    }
}
