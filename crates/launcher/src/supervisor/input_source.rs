//! Where the standard input of rank 0 comes from.

use std::io::PipeReader;

use crate::job::Console;
use crate::local_processes::StandardInput;

/// Where rank 0's standard input comes from.
pub(super) enum InputSource {
    /// The launcher's own standard input.
    Inherited,
    /// What is typed at the launcher's terminal.
    Typed(PipeReader),
    /// Rank 0 reads nothing.
    Nothing,
}

impl InputSource {
    /// Returns the source in a job that a user started, perhaps at a terminal.
    pub(super) fn of_user(typed: Option<PipeReader>) -> Self {
        typed.map_or(Self::Inherited, Self::Typed)
    }

    /// Returns what is at the other end of it.
    pub(super) fn console(&self) -> Console {
        match self {
            Self::Typed(_) => Console::Terminal,
            Self::Inherited | Self::Nothing => Console::File,
        }
    }

    /// Whether it is that of a spawned job, which reads nothing of the input of the launcher above.
    pub(super) fn is_of_spawned_job(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Takes the source, so that one process reads from it.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Nothing)
    }
}

impl From<InputSource> for StandardInput {
    fn from(source: InputSource) -> Self {
        match source {
            InputSource::Inherited => Self::Inherited,
            InputSource::Typed(pipe) => Self::Typed(pipe),
            InputSource::Nothing => Self::Nothing,
        }
    }
}
