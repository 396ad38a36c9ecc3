//! Generates programs that call every routine of each interface. A C function in place of each
//! library function checks what it receives and returns known results, which the program checks
//! (recorder.rs).

use std::fmt::Write;

use super::super::header::HANDLES;
use super::constants::HEAD;
use super::filled;
use super::meaning::{ArgumentKind, Intent, Shape};
use super::modules::is_same_to_callers;
use super::recorder::{ELEMENTS, ELEMENTS_OF_TRIPLETS, Expected, is_recorded};
use super::routine::{FortranArgument, Routine, plain};

/// The programs: name and text. The programs of the two older interfaces make equal calls.
pub fn programs(routines: &[Routine]) -> Vec<(String, String)> {
    let own = |name: &str, calls: &str, uses: &str, includes: &str| {
        let text = format!(
            "{HEAD}! run: 3\n! with: recorder.c recorded.c\n! unoptimized\n! flags: -w\nmodule \
             every_routine\n{uses}  use, intrinsic :: iso_c_binding, only: c_ptr, c_int\n  implicit \
             none\n{includes}  include '{calls}'\n"
        );
        (format!("{name}.f90"), text)
    };
    let old = "calls.inc";
    let new = "calls_f08.inc";
    vec![
        own("every_mpif", old, "", "  include 'mpif.h'\n"),
        own("every_mpi", old, "  use mpi\n", ""),
        own("every_mpi_f08", new, "  use mpi_f08\n", ""),
        (old.to_owned(), calls(routines, Binding::Old)),
        (new.to_owned(), calls(routines, Binding::Mpi08)),
    ]
}

/// How handles and statuses are passed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Binding {
    /// As integers, in `mpif.h` and module `mpi`.
    Old,
    /// As types, in module `mpi_f08`.
    Mpi08,
}

/// The interface of the recorder, without the functions for each kind of handle.
const RECORDER: &str = "  integer, parameter :: GUARD = -7
  integer(8), parameter :: WIDE = 2_8**40
  interface
    subroutine recorder_expect(number, pass)
      integer, intent(in) :: number, pass
    end subroutine recorder_expect
    subroutine recorder_wrong(what)
      character(len=*), intent(in) :: what
    end subroutine recorder_wrong
";

/// All calls, from inside the module to the end of the program.
fn calls(routines: &[Routine], binding: Binding) -> String {
    let mut text = format!("{HEAD}{RECORDER}");
    for handle in HANDLES {
        write!(
            text,
            "    integer(c_int) function recorder_{handle}(place) bind(C, name=\"recorder_{handle}\")\n      \
             import :: c_int\n      integer(c_int), value :: place\n    end function recorder_{handle}\n"
        )
        .unwrap();
    }
    text.push_str("  end interface\ncontains\n");
    text.push_str(CHECK);
    let mut called = String::new();
    for (number, routine) in routines.iter().filter(|one| is_recorded(one)).enumerate() {
        let is_there = match binding {
            Binding::Mpi08 => !routine.is_old,
            Binding::Old => !routine.is_only_08(),
        };
        if is_there {
            let is_twin = |one: &&Routine| one.name == plain(&routine.name);
            let short = match routines.iter().find(is_twin) {
                Some(twin) if routine.is_large() && !is_same_to_callers(twin, routine) => {
                    &twin.name
                }
                _ => &routine.name,
            };
            text.push_str(&Procedure { routine, binding, number, short }.text());
            writeln!(called, "    call call_{}(pass)", routine.symbol()).unwrap();
        }
    }
    let number = if binding == Binding::Old { 1 } else { 2 };
    text + &format!(
        "end module every_routine\n\nprogram every\n  use every_routine\n  implicit none\n  integer :: \
         pass\n  call recorder_begin()\n  do pass = 0, 2\n{called}  end do\n  call \
         recorder_end({number})\nend program every\n"
    )
}

const CHECK: &str = "
  subroutine check(right, what)
    logical, intent(in) :: right
    character(len=*), intent(in) :: what
    if (.not. right) call recorder_wrong(what)
  end subroutine check

  logical function has(status, first)
    integer, intent(in) :: status(3), first
    has = all(status == [first, first + 1, first + 2])
  end function has
";

/// A subroutine that calls a routine in each way.
struct Procedure<'a> {
    routine: &'a Routine,
    binding: Binding,
    number: usize,
    /// The name without `_c`, if the types of arguments distinguish the two forms.
    short: &'a str,
}

impl Procedure<'_> {
    fn is_08(&self) -> bool {
        self.binding == Binding::Mpi08
    }

    fn text(&self) -> String {
        let routine = self.routine;
        let name = format!("call_{}", routine.symbol());
        let mut text = format!("\n  subroutine {name}(pass)\n    integer, intent(in) :: pass\n");
        for expected in Expected::all(routine) {
            writeln!(text, "    {}", self.declaration(expected.argument())).unwrap();
        }
        text.push_str("    integer :: ierror\n");
        if let Some(result) = routine.result {
            let result = result.replace("MPI_ADDRESS_KIND", "8");
            writeln!(text, "    {result} :: result").unwrap();
        }
        writeln!(text, "    call recorder_expect({}, pass)\n    ierror = 0", self.number).unwrap();
        for expected in Expected::all(routine) {
            for line in self.beginning(&expected) {
                text.push_str(&wrapped(4, &line));
            }
        }
        text.push_str("    select case (pass)\n");
        for (pass, names) in self.names().iter().enumerate() {
            writeln!(text, "    case ({pass})").unwrap();
            for name in names {
                text.push_str(&self.call(name, pass));
            }
        }
        text.push_str("    end select\n    call recorder_done()\n");
        self.checks(&mut text);
        text + &format!("  end subroutine {name}\n")
    }

    /// The names that are called in each pass. The names for tools are only linked.
    fn names(&self) -> [Vec<String>; 4] {
        let (name, short) = (self.routine.name.as_str(), self.short);
        let mut for_tools = vec![format!("P{name}")];
        if short != name {
            for_tools.push(format!("P{short}"));
        }
        [vec![short.to_owned()], vec![name.to_owned()], vec![short.to_owned()], for_tools]
    }

    fn call(&self, name: &str, pass: usize) -> String {
        let passed = self.routine.arguments.iter().map(|one| self.passed(one, pass));
        // In one pass the error code is absent.
        let has_code = self.routine.has_code && !(self.is_08() && pass == 1);
        let words: Vec<String> = passed.chain(has_code.then(|| "ierror".to_owned())).collect();
        let word = if self.routine.result.is_some() { "result = " } else { "call " };
        filled(6, &format!("{word}{name}("), &words, ")")
    }

    fn passed(&self, argument: &FortranArgument, pass: usize) -> String {
        let constants = match (&argument.kind, argument.intent, argument.shape) {
            (ArgumentKind::Choice(_), ..) => ["MPI_BOTTOM", "MPI_IN_PLACE"],
            (ArgumentKind::Weights, ..) => ["MPI_UNWEIGHTED", "MPI_WEIGHTS_EMPTY"],
            (ArgumentKind::Status, Intent::Unsaid, Shape::Scalar) => ["MPI_STATUS_IGNORE", ""],
            (ArgumentKind::Status, Intent::Unsaid, _) => ["MPI_STATUSES_IGNORE", ""],
            _ => ["", ""],
        };
        match pass {
            1 | 2 if !constants[pass - 1].is_empty() => constants[pass - 1].to_owned(),
            _ => variable(argument),
        }
    }

    fn declaration(&self, argument: &FortranArgument) -> String {
        let is_08 = self.is_08();
        let dimensions = match argument.shape {
            Shape::Scalar => "",
            Shape::Triplets => "(3, 4)",
            _ => "(4)",
        };
        let (kind, dimensions) = match &argument.kind {
            ArgumentKind::Logical => ("logical".to_owned(), dimensions),
            ArgumentKind::Handle(handle) if is_08 => (format!("type(MPI_{handle})"), dimensions),
            ArgumentKind::Address | ArgumentKind::Count | ArgumentKind::Offset => {
                ("integer(8)".to_owned(), dimensions)
            }
            ArgumentKind::Status if is_08 => ("type(MPI_Status)".to_owned(), dimensions),
            ArgumentKind::Status if argument.shape == Shape::Scalar => {
                ("integer".to_owned(), "(MPI_STATUS_SIZE)")
            }
            ArgumentKind::Status => ("integer".to_owned(), "(MPI_STATUS_SIZE, 4)"),
            // The modules of other libraries require this length, which is that of the standard.
            ArgumentKind::Text if is_08 && argument.extent.is_some() => {
                let length = argument.extent.as_deref().unwrap_or_default();
                (format!("character(len={length})"), "")
            }
            ArgumentKind::Text | ArgumentKind::Word => ("character(len=12)".to_owned(), ""),
            ArgumentKind::Pointer | ArgumentKind::Memory if is_08 => ("type(c_ptr)".to_owned(), ""),
            ArgumentKind::Pointer => ("integer(8)".to_owned(), ""),
            ArgumentKind::Memory | ArgumentKind::Choice(_) => {
                ("real(8), target, asynchronous".to_owned(), "(4)")
            }
            _ => ("integer".to_owned(), dimensions),
        };
        format!("{kind} :: {}{dimensions}", variable(argument))
    }

    /// The statements that set an argument before the call.
    fn beginning(&self, expected: &Expected) -> Vec<String> {
        let argument = expected.argument();
        let (name, index, given) = (variable(argument), expected.index(), expected.given());
        let is_read = matches!(argument.intent, Intent::In | Intent::InOut);
        let is_list = argument.shape != Shape::Scalar;
        match &argument.kind {
            ArgumentKind::Choice(_) => {
                vec![format!("{name} = 0"), format!("call recorder_buffer({index}, {name})")]
            }
            ArgumentKind::Handle(handle) => {
                // A handle that is returned differs from the one before the call.
                let first = if is_read { index } else { index + 2 };
                let value = self.integer_of(&name, "");
                if is_list {
                    vec![format!("{value} = {}", handles(handle, first, ELEMENTS + 1))]
                } else {
                    vec![format!("{value} = recorder_{handle}({first})")]
                }
            }
            ArgumentKind::Logical if is_list && is_read => {
                vec![format!("{name} = [.true., .false., .true., .false.]")]
            }
            ArgumentKind::Logical if is_list => vec![format!("{name} = .false.")],
            ArgumentKind::Logical if is_read => vec![format!("{name} = pass == 0")],
            ArgumentKind::Logical => vec![format!("{name} = pass /= 0")],
            ArgumentKind::Text | ArgumentKind::Word if is_read => {
                vec![format!("{name} = \"  in-{index}\"")]
            }
            ArgumentKind::Text | ArgumentKind::Word => vec![format!("{name} = \"????????????\"")],
            ArgumentKind::Status if is_read => self
                .members(argument)
                .iter()
                .zip(given..)
                .map(|(member, value)| format!("{member} = {value}"))
                .collect(),
            ArgumentKind::Status | ArgumentKind::Memory => Vec::new(),
            ArgumentKind::Pointer if self.is_08() => Vec::new(),
            _ if !is_read => vec![format!("{name} = GUARD")],
            _ if argument.shape == Shape::Triplets => vec![format!(
                "{name} = reshape({}, [3, 4])",
                numbers(given, ELEMENTS_OF_TRIPLETS, 12)
            )],
            _ if is_list => vec![format!("{name} = {}", numbers(given, ELEMENTS, 4))],
            _ => vec![format!("{name} = {}", number(given))],
        }
    }

    /// The statements that check the arguments after the call.
    fn checks(&self, text: &mut String) {
        let what = |argument: &FortranArgument| format!("\"{}\"", argument.name);
        let mut right = Vec::new();
        let mut failed = Vec::new();
        for expected in Expected::all(self.routine) {
            let argument = expected.argument();
            if argument.intent == Intent::In {
                continue;
            }
            for condition in self.result(&expected) {
                right.push(format!("call check({condition}, {})", what(argument)));
            }
            for condition in self.unchanged(&expected) {
                failed.push(format!("call check({condition}, {})", what(argument)));
            }
        }
        if let Some(result) = self.routine.result {
            let value = if result.starts_with("double") { "1234.5d0" } else { "2_8**41" };
            right.push(format!("call check(result == {value}, \"the result\")"));
        }
        if self.routine.has_code {
            right.push("call check(ierror == 0, \"ierror\")".to_owned());
            failed.push("call check(ierror == 77, \"ierror\")".to_owned());
        }
        text.push_str("    if (pass /= 2) then\n");
        right.iter().for_each(|line| text.push_str(&wrapped(6, line)));
        text.push_str("    else\n");
        failed.iter().for_each(|line| text.push_str(&wrapped(6, line)));
        text.push_str("    end if\n");
    }

    /// The conditions for a result after a successful call.
    fn result(&self, expected: &Expected) -> Vec<String> {
        let argument = expected.argument();
        let (name, index, returned) = (variable(argument), expected.index(), expected.returned());
        let is_list = argument.shape != Shape::Scalar;
        match &argument.kind {
            ArgumentKind::Choice(_) => Vec::new(),
            ArgumentKind::Memory if !self.is_08() => Vec::new(),
            ArgumentKind::Pointer | ArgumentKind::Memory => {
                vec![format!("transfer({name}, 0_8) == {}", number(returned))]
            }
            ArgumentKind::Handle(handle) => {
                if !is_list {
                    let value = self.integer_of(&name, "");
                    return vec![format!("{value} == recorder_{handle}({})", index + 1)];
                }
                let all = handles(handle, index + 1, ELEMENTS);
                let (first, last) =
                    (self.integer_of(&name, "(1:3)"), self.integer_of(&name, "(4)"));
                vec![
                    format!("all({first} == {all})"),
                    format!("{last} == recorder_{handle}({})", index + ELEMENTS),
                ]
            }
            ArgumentKind::Logical if is_list => vec![format!(
                "all(transfer({name}(1:3), [0]) == transfer([.true., .false., .true.], [0]))"
            )],
            ArgumentKind::Logical => {
                vec![format!("transfer({name}, 0) == transfer(pass == 0, 0)")]
            }
            ArgumentKind::Text | ArgumentKind::Word => vec![format!("{name} == \"out-{index}\"")],
            ArgumentKind::Status if argument.intent == Intent::Unsaid => {
                let checks = self.statuses(argument, returned);
                checks.into_iter().map(|check| format!("pass == 1 .or. {check}")).collect()
            }
            ArgumentKind::Status => self.statuses(argument, returned),
            ArgumentKind::Position if !is_list => {
                vec![format!("{name} == merge({}, MPI_UNDEFINED, pass == 0)", returned + 1)]
            }
            ArgumentKind::Position => vec![are_numbers(&name, returned + 1)],
            ArgumentKind::Weights => {
                vec![format!("pass == 1 .or. {}", are_numbers(&name, returned))]
            }
            _ if is_list => vec![are_numbers(&name, returned)],
            _ => vec![format!("{name} == {}", number(returned))],
        }
    }

    fn statuses(&self, argument: &FortranArgument, returned: i64) -> Vec<String> {
        let members = self.members(argument);
        let statuses = members.chunks(3).zip((returned..).step_by(10));
        statuses.map(|(status, first)| format!("has([{}], {first})", status.join(", "))).collect()
    }

    /// The conditions for a result after a failed call.
    fn unchanged(&self, expected: &Expected) -> Vec<String> {
        let argument = expected.argument();
        let (name, index) = (variable(argument), expected.index());
        match &argument.kind {
            ArgumentKind::Handle(handle) => {
                let first = if argument.intent == Intent::InOut { index } else { index + 2 };
                let value = self.integer_of(&name, "");
                if argument.shape == Shape::Scalar {
                    vec![format!("{value} == recorder_{handle}({first})")]
                } else {
                    let all = handles(handle, first, ELEMENTS + 1);
                    vec![format!("all({value} == {all})")]
                }
            }
            ArgumentKind::Text => vec![format!("{name} == \"????????????\"")],
            _ => Vec::new(),
        }
    }

    /// The integers of a handle, or of a part of a list of handles.
    fn integer_of(&self, name: &str, part: &str) -> String {
        if self.is_08() { format!("{name}{part}%MPI_VAL") } else { format!("{name}{part}") }
    }

    /// The members of a status, or of the statuses of a list.
    fn members(&self, argument: &FortranArgument) -> Vec<String> {
        let name = variable(argument);
        let members = ["MPI_SOURCE", "MPI_TAG", "MPI_ERROR"];
        let of = |element: &str| {
            members.map(|member| match (self.is_08(), element) {
                (true, "") => format!("{name}%{member}"),
                (true, _) => format!("{name}({element})%{member}"),
                (false, "") => format!("{name}({member})"),
                (false, _) => format!("{name}({member}, {element})"),
            })
        };
        if argument.shape == Shape::Scalar {
            return of("").into();
        }
        ["1", "2", "3"].iter().flat_map(|element| of(element)).collect()
    }
}

/// The name of the variable that is passed. The prefix avoids clashes of argument names with
/// functions.
fn variable(argument: &FortranArgument) -> String {
    format!("a_{}", argument.name)
}

fn number(value: i64) -> String {
    let wide = 1 << 40;
    if value >= wide { format!("WIDE + {}", value - wide) } else { value.to_string() }
}

/// `count` consecutive numbers, padded with guard values.
fn numbers(first: i64, count: usize, size: usize) -> String {
    let wide = 1 << 40;
    let (base, first) = if first >= wide { ("WIDE + ", first - wide) } else { ("", first) };
    let all: Vec<String> = (0..size)
        .map(|k| if k < count { (first + k as i64).to_string() } else { "GUARD".to_owned() })
        .collect();
    format!("{base}[{}]", all.join(", "))
}

/// The condition that a list was written, and that the element after it was not.
fn are_numbers(name: &str, first: i64) -> String {
    let all: Vec<String> = (0..ELEMENTS as i64).map(|k| number(first + k)).collect();
    format!("all({name} == [{}, {name}(4)]) .and. {name}(4) == GUARD", all.join(", "))
}

fn handles(handle: &str, first: usize, count: usize) -> String {
    let all = (first..first + count).map(|place| format!("recorder_{handle}({place})"));
    format!("[{}]", all.collect::<Vec<_>>().join(", "))
}

/// Breaks a statement into lines of limited width.
fn wrapped(indent: usize, statement: &str) -> String {
    let words: Vec<String> = statement.split(", ").map(str::to_owned).collect();
    filled(indent, "", &words, "")
}
