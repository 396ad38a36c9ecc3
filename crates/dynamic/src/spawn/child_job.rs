//! The launcher of a spawned job, and the connection to it.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base::{Error, ErrorClass, Result};
use launch::spawning::{RELEASE, REPORT_BYTES_MAX, SUBCOMMAND, SpawnReport};

use super::command::SpawnCommand;

/// A spawned job, as the process that spawned it sees it. While this value exists, and is not
/// released, the job is ended when this process dies.
#[derive(Debug)]
pub struct ChildJob {
    socket: UnixStream,
    received: Vec<u8>,
    stage: ChildStage,
    program: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ChildStage {
    Starting,
    Started,
    /// It cannot succeed any more, for this reason.
    Over(String),
}

/// The name of the command that launches jobs.
const COMMAND: &str = "combray";

impl ChildJob {
    /// Starts the launcher of a job of these programs, whose processes connect to a port when they
    /// initialize MPI. `open_port` returns its name; it is called while the launcher starts.
    ///
    /// # Errors
    /// `Spawn` if there is no launcher, or it cannot be started; those of `open_port`.
    pub(super) fn start(
        commands: &[SpawnCommand],
        failures: FailurePolicy,
        open_port: impl FnOnce() -> Result<String>,
    ) -> Result<Self> {
        let launcher = launcher()?;
        let failed = |cause: io::Error| {
            let detail = format!("{} cannot be started: {cause}", launcher.display());
            Error::new(ErrorClass::Spawn, detail)
        };
        let (mut socket, theirs) = sys::socket::pair().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let mut command = Command::new(&launcher);
        command.args(words(commands, failures)?).stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut starting = command.spawn().map_err(failed)?;
        // Its copy of the other end would hide the end of the launcher.
        drop(command);
        let port = open_port();
        if let Ok(name) = &port {
            // The end of a launcher that cannot read it is noticed later.
            let _ = socket.write_all(format!("{name}\n").as_bytes());
        }
        match starting.wait() {
            // The program may have set that its children leave no exit status.
            Ok(_) => {}
            Err(cause) if cause.raw_os_error() == Some(sys::errno::ECHILD) => {}
            Err(cause) => return Err(failed(cause)),
        }
        port?;
        let program = commands.first().map(|command| command.program().display().to_string());
        let program = program.unwrap_or_default();
        Ok(Self { socket, received: Vec::new(), stage: ChildStage::Starting, program })
    }

    /// Returns the error of `MPI_Comm_spawn` if the job has failed before it has connected.
    pub(super) fn failure(&mut self) -> Option<Error> {
        self.receive();
        match &self.stage {
            ChildStage::Over(reason) => {
                let detail = format!("{} cannot be spawned: {reason}", self.program);
                Some(Error::new(ErrorClass::Spawn, detail))
            }
            ChildStage::Starting | ChildStage::Started => None,
        }
    }

    /// Lets the job go on when this process has ended.
    pub(super) fn release(mut self) {
        // A job that is over needs nothing.
        let _ = self.socket.write_all(&[RELEASE]);
    }

    fn receive(&mut self) {
        let mut bytes = [0; REPORT_BYTES_MAX];
        while !matches!(self.stage, ChildStage::Over(_)) {
            match self.socket.read(&mut bytes) {
                Ok(length) if length > 0 => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                _ => {
                    let reason = "its launcher has ended; its last messages are in the output";
                    self.stage = ChildStage::Over(reason.to_owned());
                }
            }
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                self.note(SpawnReport::parse(&line));
            }
        }
    }

    fn note(&mut self, report: Option<SpawnReport>) {
        let reason = match report {
            Some(SpawnReport::Started) => {
                self.stage = ChildStage::Started;
                return;
            }
            Some(SpawnReport::Failed(reason)) => reason,
            Some(SpawnReport::Ended(0)) => "all processes have ended, and none has called \
                                            MPI_Init: the program must call it, and be linked with \
                                            Combray"
                .to_owned(),
            Some(SpawnReport::Ended(code)) => format!(
                "the processes ended with exit code {code} before all had called MPI_Init; their \
                 messages are in the output"
            ),
            None => "the launcher is of another version of Combray than this library: install one \
                     version"
                .to_owned(),
        };
        if !matches!(self.stage, ChildStage::Over(_)) {
            self.stage = ChildStage::Over(reason);
        }
    }
}

/// What happens to the other processes of a spawned job when one of them fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailurePolicy {
    /// They are ended.
    End,
    /// They go on, as in the job of the process that spawns them.
    GoOn,
}

/// Returns the words after the name of the launcher.
fn words(commands: &[SpawnCommand], failures: FailurePolicy) -> Result<Vec<OsString>> {
    let mut words: Vec<OsString> = vec![SUBCOMMAND.into()];
    words.extend(["--oversubscribe".into(), "--bind-to".into(), "none".into()]);
    if failures == FailurePolicy::GoOn {
        words.push("--keep-going".into());
    }
    for (place, command) in commands.iter().enumerate() {
        let own = command.words();
        if own.iter().any(|word| word == ":") {
            let detail = "the name, an argument or a hint of the command to spawn is \":\", which \
                          the launcher takes for the beginning of another command";
            return Err(Error::new(ErrorClass::Arg, detail));
        }
        if place > 0 {
            words.push(":".into());
        }
        words.extend(own);
    }
    Ok(words)
}

/// Returns the path of the launcher: in the prefix of this library, or in a folder of PATH.
fn launcher() -> Result<PathBuf> {
    let own = sys::callers::object_of(launcher as fn() -> Result<PathBuf> as usize);
    let library = own.and_then(|object| Path::new(&object.path).canonicalize().ok());
    let folders = library.iter().flat_map(|library| library.ancestors().skip(1).take(4));
    let search = sys::environment::value("PATH").unwrap_or_default();
    let in_prefix = folders.map(|folder| folder.join("bin").join(COMMAND));
    let in_path = std::env::split_paths(&search).map(|folder| folder.join(COMMAND));
    in_prefix.chain(in_path).find(|path| path.is_file()).ok_or_else(|| {
        let detail = format!(
            "the command {COMMAND}, which launches spawned processes, is neither in the folder bin \
             beside the library nor in a folder of PATH: add its folder to PATH"
        );
        Error::new(ErrorClass::Spawn, detail)
    })
}

#[cfg(test)]
mod tests {
    use mpi::info::{Info, InfoLimits};

    use super::*;

    fn child() -> (ChildJob, UnixStream) {
        let (socket, theirs) = sys::socket::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let program = "prog".to_owned();
        (ChildJob { socket, received: Vec::new(), stage: ChildStage::Starting, program }, theirs)
    }

    #[test]
    fn a_job_that_ends_before_it_connects_is_an_error() {
        let reports = [
            ("failed prog is in no folder of PATH\n", "in no folder of PATH"),
            ("started\nended 3\n", "exit code 3"),
            ("started\nended 0\n", "none has called MPI_Init"),
            ("begun\n", "another version"),
            ("", "its launcher has ended"),
        ];
        for (sent, expected) in reports {
            let (mut child, mut theirs) = child();
            assert_eq!(child.failure(), None);
            theirs.write_all(sent.as_bytes()).unwrap();
            drop(theirs);
            let error = child.failure().expect(sent);
            assert_eq!(error.class, ErrorClass::Spawn);
            assert!(error.detail.contains(expected), "{}", error.detail);
            assert_eq!(child.failure(), Some(error), "it stays so");
        }
    }

    #[test]
    fn a_report_may_arrive_in_pieces() {
        let (mut child, mut theirs) = child();
        for piece in ["sta", "rted\nfai"] {
            theirs.write_all(piece.as_bytes()).unwrap();
            assert_eq!(child.failure(), None);
        }
        assert_eq!(child.stage, ChildStage::Started);
    }

    #[test]
    fn a_separator_among_the_arguments_is_refused() {
        let command = |word: &[u8]| SpawnCommand::new(b"prog", &[word.to_vec()], 1, None).unwrap();
        let refused = words(&[command(b":")], FailurePolicy::End).unwrap_err();
        assert_eq!(refused.class, ErrorClass::Arg);
        let hints = Info::new();
        let limits = InfoLimits { key_bytes_max: 255, value_bytes_max: 255 };
        hints.set(b"env", b"SEPARATOR=:", limits).unwrap();
        let hinted = SpawnCommand::new(b"prog", &[], 1, Some(&hints)).unwrap();
        let named = SpawnCommand::new(b":", &[], 1, None).unwrap();
        for wrong in [hinted, named] {
            let refused = words(&[wrong], FailurePolicy::End).unwrap_err();
            assert_eq!(refused.class, ErrorClass::Arg);
        }
        let words = words(&[command(b"a"), command(b"b")], FailurePolicy::GoOn).unwrap();
        assert!(words.iter().any(|word| word == "--keep-going"));
        assert_eq!(words.iter().filter(|word| *word == ":").count(), 1);
    }
}
