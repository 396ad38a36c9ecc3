//! The programs of a spawned job: what the caller of `MPI_Comm_spawn` asks for, as words for the
//! launcher.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::limits::PROGRAM_PROCESSES_MAX;
use base::{Error, ErrorClass, Result};
use mpi::info::Info;

/// One program of a job to spawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnCommand {
    program: OsString,
    arguments: Vec<OsString>,
    /// How many processes may be started at most, and how many are.
    most: u32,
    processes: u32,
    /// Options of `combray run` for this program.
    options: Vec<OsString>,
    /// The architecture that the processes need, if they need a certain one.
    architecture: Option<Vec<u8>>,
}

/// The info keys that become options of `combray run` with one value (section 11.8.4, and
/// `hostfile` as in other implementations).
const OPTIONS: &[(&[u8], &str)] =
    &[(b"host", "--host"), (b"hostfile", "--hostfile"), (b"wdir", "--wdir")];

impl SpawnCommand {
    /// Creates a program of a job: its name, its arguments, the greatest number of its processes,
    /// and the hints of the program, of which unknown ones are ignored.
    ///
    /// # Errors
    /// `Arg` if the number is not positive or too large, or the name is empty; `InfoValue` if a
    /// hint cannot be parsed.
    pub fn new(
        program: &[u8],
        arguments: &[Vec<u8>],
        processes: i32,
        hints: Option<&Info>,
    ) -> Result<Self> {
        let name = trimmed(program);
        if name.is_empty() {
            return Err(Error::new(ErrorClass::Arg, "the command to spawn is an empty text"));
        }
        if !(1..=PROGRAM_PROCESSES_MAX as i32).contains(&processes) {
            let detail = format!(
                "maxprocs is {processes}, but must be the number of processes to spawn, 1 to \
                 {PROGRAM_PROCESSES_MAX}"
            );
            return Err(Error::new(ErrorClass::Arg, detail));
        }
        let hint = |key: &[u8]| hints.and_then(|hints| hints.hint(key));
        let mut options = Vec::new();
        for (key, option) in OPTIONS {
            if let Some(value) = hint(key) {
                options.extend([OsString::from(option), text(trimmed(&value)).to_owned()]);
            }
        }
        for line in hint(b"env").iter().flat_map(|value| value.split(|byte| *byte == b'\n')) {
            options.extend(variable(line)?.into_iter().flatten());
        }
        let most = processes;
        let processes = match hint(b"soft") {
            Some(ranges) => greatest_within(&ranges, most)?,
            None => most,
        };
        let program = match hint(b"path") {
            Some(folders) => found_in(text(trimmed(&folders)), text(name)),
            None => None,
        };
        Ok(Self {
            program: program.map_or_else(|| text(name).to_owned(), PathBuf::into_os_string),
            arguments: arguments.iter().map(|word| text(word).to_owned()).collect(),
            most: most as u32,
            processes: processes as u32,
            options,
            architecture: hint(b"arch").map(|wanted| trimmed(&wanted).to_vec()),
        })
    }

    /// Returns how many processes may be started at most, and how many are.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.most, self.processes)
    }

    /// Checks whether the processes can run on the architecture of this machine.
    ///
    /// # Errors
    /// `Spawn` if they need another one.
    pub(super) fn check_architecture(&self) -> Result<()> {
        let own = std::env::consts::ARCH;
        match &self.architecture {
            Some(wanted) if !wanted.eq_ignore_ascii_case(own.as_bytes()) => {
                let detail = format!(
                    "the info key arch asks for \"{}\", but processes can be spawned on {own} only",
                    String::from_utf8_lossy(wanted)
                );
                Err(Error::new(ErrorClass::Spawn, detail))
            }
            _ => Ok(()),
        }
    }

    /// Returns the program, for messages.
    pub(super) fn program(&self) -> &OsStr {
        &self.program
    }

    /// Returns the words for the command line of the launcher.
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = vec!["-n".into(), self.processes.to_string().into()];
        words.extend(self.options.iter().cloned());
        words.extend(["--".into(), self.program.clone()]);
        words.extend(self.arguments.iter().cloned());
        words
    }
}

fn text(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Returns the text without blanks around it: leading ones do not count in info values, trailing
/// ones fill texts of Fortran.
fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

/// Returns the options that set one variable, given as `NAME=value`; none for an empty line.
fn variable(line: &[u8]) -> Result<Option<[OsString; 3]>> {
    let line = line.trim_ascii_start();
    if line.is_empty() {
        return Ok(None);
    }
    let middle = line.iter().position(|byte| *byte == b'=').filter(|&middle| middle > 0);
    let Some(middle) = middle else {
        let detail = format!(
            "the info key env needs lines of the form NAME=value, but one is \"{}\"",
            String::from_utf8_lossy(line)
        );
        return Err(Error::new(ErrorClass::InfoValue, detail));
    };
    let (name, value) = (&line[..middle], &line[middle + 1..]);
    Ok(Some(["--env".into(), text(name).to_owned(), text(value).to_owned()]))
}

/// Returns the greatest number up to `most` in a list of ranges such as `1:4,8:64:8` (the info key
/// `soft`).
fn greatest_within(ranges: &[u8], most: i32) -> Result<i32> {
    let wrong = || {
        let detail = format!(
            "the info key soft needs ranges such as 1:4,8:64:8 with a number from 1 to maxprocs \
             ({most}), but is \"{}\"",
            String::from_utf8_lossy(ranges)
        );
        Error::new(ErrorClass::InfoValue, detail)
    };
    let ranges = str::from_utf8(ranges).map_err(|_| wrong())?;
    let mut best = None;
    for range in ranges.split(',') {
        let numbers: Vec<i32> = range
            .split(':')
            .map(|number| number.trim().parse().map_err(|_| wrong()))
            .collect::<Result<_>>()?;
        let (first, last, step) = match numbers[..] {
            [only] => (only, only, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return Err(wrong()),
        };
        let (low, high) = if step > 0 { (first, last.min(most)) } else { (last, first.min(most)) };
        if low > high {
            continue;
        }
        // The numbers are first, first + step, ... up to last.
        let (first, high, wide) = (i64::from(first), i64::from(high), i64::from(step).abs());
        let beyond = (high - first).rem_euclid(wide);
        let greatest = high - beyond;
        let is_inside = greatest >= i64::from(low) && greatest >= 1;
        best = best.max(is_inside.then_some(greatest as i32));
    }
    best.ok_or_else(wrong)
}

/// Returns the path of a program in one of the folders, which colons separate.
fn found_in(folders: &OsStr, program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return None;
    }
    std::env::split_paths(folders)
        .map(|folder| folder.join(program))
        .find(|path| Path::is_file(path))
}

#[cfg(test)]
mod tests {
    use mpi::info::InfoLimits;

    use super::*;

    const LIMITS: InfoLimits = InfoLimits { key_bytes_max: 255, value_bytes_max: 1024 };

    fn info(pairs: &[(&str, &str)]) -> std::rc::Rc<Info> {
        let info = Info::new();
        for (key, value) in pairs {
            info.set(key.as_bytes(), value.as_bytes(), LIMITS).unwrap();
        }
        info
    }

    fn words(command: &SpawnCommand) -> Vec<String> {
        command.words().into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn hints_become_options_and_unknown_ones_are_ignored() {
        let hints = info(&[("wdir", " /tmp"), ("env", "A=1\nB=x=y"), ("color", "red")]);
        let arguments = [b"-n".to_vec(), b"a b".to_vec()];
        let command = SpawnCommand::new(b"prog  ", &arguments, 3, Some(&hints)).unwrap();
        let expected = [
            "-n", "3", "--wdir", "/tmp", "--env", "A", "1", "--env", "B", "x=y", "--", "prog",
            "-n", "a b",
        ];
        assert_eq!(words(&command), expected);
    }

    #[test]
    fn wrong_numbers_and_hints_are_refused() {
        let class = |processes, pairs: &[(&str, &str)]| {
            let made = SpawnCommand::new(b"prog", &[], processes, Some(&info(pairs)));
            made.map(|command| command.counts().1).map_err(|error| error.class)
        };
        assert_eq!(class(0, &[]), Err(ErrorClass::Arg));
        assert_eq!(class(-1, &[]), Err(ErrorClass::Arg));
        assert_eq!(class(1 << 20, &[]), Ok(1 << 20));
        assert_eq!(class((1 << 20) + 1, &[]), Err(ErrorClass::Arg));
        assert_eq!(class(1, &[("env", "A")]), Err(ErrorClass::InfoValue));
        assert_eq!(class(1, &[("env", "=1")]), Err(ErrorClass::InfoValue));
        assert_eq!(class(5, &[("soft", "1:4")]), Ok(4));
        assert_eq!(class(5, &[("soft", "8")]), Err(ErrorClass::InfoValue));
        let empty = SpawnCommand::new(b" ", &[], 1, None);
        assert_eq!(empty.unwrap_err().class, ErrorClass::Arg);
    }

    #[test]
    fn another_architecture_is_refused() {
        let class = |name: &str| {
            let made = SpawnCommand::new(b"prog", &[], 1, Some(&info(&[("arch", name)])));
            made.unwrap().check_architecture().map_err(|error| error.class)
        };
        assert_eq!(class("vax"), Err(ErrorClass::Spawn));
        assert_eq!(class(std::env::consts::ARCH), Ok(()));
    }

    #[test]
    fn soft_ranges_give_the_greatest_number_allowed() {
        let cases = [
            ("3", 5, Some(3)),
            ("2:10", 5, Some(5)),
            ("0:10:4", 9, Some(8)),
            ("1,2,4", 3, Some(2)),
            ("10:2:-4", 9, Some(6)),
            ("10:2:-4", 1, None),
            ("-3:0", 9, None),
            ("7:1", 9, None),
            ("", 9, None),
            ("1:2:0", 9, None),
            ("1:2:3:4", 9, None),
            ("2147483647", 9, None),
        ];
        for (ranges, most, expected) in cases {
            assert_eq!(greatest_within(ranges.as_bytes(), most).ok(), expected, "{ranges}");
        }
    }

    #[test]
    fn a_program_is_looked_for_in_the_folders_of_the_hint() {
        let hints = info(&[("path", "/nonexistent:/bin")]);
        let command = SpawnCommand::new(b"sh", &[], 1, Some(&hints)).unwrap();
        assert_eq!(command.program(), "/bin/sh");
        let command = SpawnCommand::new(b"no-such-program", &[], 1, Some(&hints)).unwrap();
        assert_eq!(command.program(), "no-such-program");
    }
}
