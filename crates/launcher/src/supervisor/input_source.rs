//! Where the standard input of rank 0 comes from.

use std::io::PipeReader;

use crate::job::Console;
use crate::local_processes::StandardInput;

/// Where rank 0's standard input comes from.
pub(crate) enum InputSource {
    /// The launcher's own standard input.
    Inherited,
    /// What is typed at the launcher's terminal.
    Typed(PipeReader),
    /// The launcher's terminal itself, to which the only process of the job also writes.
    Terminal,
    /// Rank 0 reads nothing.
    Nothing,
}

impl InputSource {
    /// Returns what is at the other end of it.
    pub(crate) fn console(&self) -> Console {
        match self {
            Self::Typed(_) => Console::Terminal,
            Self::Inherited | Self::Terminal | Self::Nothing => Console::File,
        }
    }

    /// Whether it is that of a spawned job, which reads nothing of the input of the launcher above.
    pub(crate) fn is_of_spawned_job(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Takes the source, so that one process reads from it.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Nothing)
    }
}

impl From<InputSource> for StandardInput {
    fn from(source: InputSource) -> Self {
        match source {
            InputSource::Inherited => Self::Inherited,
            InputSource::Typed(pipe) => Self::Typed(pipe),
            InputSource::Terminal => Self::Terminal,
            InputSource::Nothing => Self::Nothing,
        }
    }
}
