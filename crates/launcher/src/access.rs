//! How the agents of other hosts are started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use crate::local::is_this_machine;

/// How the agents of other hosts are started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostAccess {
    /// With ssh.
    #[default]
    Ssh,
    /// With a command that takes arguments like ssh: the host, then the command line for a shell
    /// there.
    Shell(Vec<OsString>),
    /// With srun, inside an allocation of Slurm.
    Srun(OwnHost),
}

/// How the processes of the launcher's own host are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnHost {
    /// By the launcher itself.
    Directly,
    /// By an agent, as on other hosts. Used if the launcher runs outside of the allocation, though
    /// on one of its hosts, or does not have all cores that are allocated there.
    ByAgent,
}

/// The command if the user names none. It asks no questions, does not forward X11, and never
/// becomes the master that other connections share, as it is ended with the job.
const SSH: &[&str] =
    &["ssh", "-x", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ServerAliveInterval=15"];

/// Starts one task beside whatever runs in the allocation, on all allocated cores of the host. Its
/// output is forwarded unbuffered instead of line by line. The host follows.
const SRUN: &[&str] = &[
    "srun",
    "--overlap",
    "--nodes=1",
    "--ntasks=1",
    "--mpi=none",
    "--cpu-bind=none",
    "--input=0",
    "--output=0",
    "--error=0",
    "--export=ALL",
    "--unbuffered",
    "--quiet",
    "--nodelist",
];

/// Variables with which srun would begin lines with numbers, or give an agent less than the whole
/// host. The processes get these variables nevertheless.
const NOT_FOR_SRUN: &[&str] = &[
    "SLURM_LABELIO",
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_THREADS_PER_CORE",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_DISTRIBUTION",
    "SLURM_HINT",
    "SLURM_HOSTFILE",
];

impl HostAccess {
    /// Returns the command that runs these words on a host.
    pub(crate) fn command(&self, host: &str, words: &[&OsStr]) -> Command {
        let base = self.base();
        let mut command = Command::new(&base[0]);
        command.args(&base[1..]).arg(host);
        match self {
            Self::Ssh | Self::Shell(_) => {
                command.args(words.iter().map(|word| quoted(word)));
            }
            Self::Srun(_) => {
                command.args(words);
                NOT_FOR_SRUN.iter().for_each(|name| {
                    command.env_remove(name);
                });
            }
        }
        command
    }

    /// Returns the command without the host, as shown to users.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Ssh => SSH[0].to_owned(),
            Self::Shell(words) => words.join(OsStr::new(" ")).to_string_lossy().into_owned(),
            Self::Srun(_) => "srun --overlap -N1 -n1 -w".to_owned(),
        }
    }

    /// Returns the access with further arguments of its command. Those of srun stay as they are.
    #[must_use]
    pub fn with_arguments(&self, arguments: &[OsString]) -> Self {
        match self {
            Self::Srun(_) => self.clone(),
            Self::Ssh | Self::Shell(_) => Self::Shell([&self.base(), arguments].concat()),
        }
    }

    /// Whether a name means this machine and its processes are started without an agent.
    pub(crate) fn is_direct(&self, host: &str) -> bool {
        !matches!(self, Self::Srun(OwnHost::ByAgent)) && is_this_machine(host)
    }

    /// Whether a variable must be sent with the program, as the agent does not have it.
    pub(crate) fn withholds(&self, name: &OsStr) -> bool {
        matches!(self, Self::Srun(_)) && NOT_FOR_SRUN.iter().any(|known| name == *known)
    }

    fn base(&self) -> Vec<OsString> {
        match self {
            Self::Ssh => SSH.iter().map(OsString::from).collect(),
            Self::Shell(words) => words.clone(),
            Self::Srun(_) => SRUN.iter().map(OsString::from).collect(),
        }
    }
}

/// Quotes a word for a shell.
fn quoted(word: &OsStr) -> OsString {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%".contains(byte);
    if !word.is_empty() && word.as_bytes().iter().all(is_plain) {
        return word.to_owned();
    }
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        for word in ["/usr/bin/combray", "/my programs/it's", "", "$HOME;ls"] {
            let command = OsString::from("printf %s ").into_encoded_bytes();
            let command = [&command, quoted(OsStr::new(word)).as_bytes()].concat();
            let mut shell = Command::new("sh");
            let output = shell.arg("-c").arg(OsStr::from_bytes(&command)).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn srun_runs_words_without_a_shell() {
        let access = HostAccess::Srun(OwnHost::Directly);
        let command = access.command("node7", &[OsStr::new("/my programs/combray")]);
        let words: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(words[words.len() - 3..], ["--nodelist", "node7", "/my programs/combray"]);
        assert!(command.get_envs().any(|pair| pair == (OsStr::new("SLURM_LABELIO"), None)));
        assert!(access.withholds(OsStr::new("SLURM_CPUS_PER_TASK")));
        assert!(!HostAccess::Ssh.withholds(OsStr::new("SLURM_CPUS_PER_TASK")));
    }

    #[test]
    fn an_agent_serves_the_own_host_of_who_is_outside_of_the_allocation() {
        assert!(HostAccess::Ssh.is_direct("localhost"));
        assert!(HostAccess::Srun(OwnHost::Directly).is_direct("localhost"));
        assert!(!HostAccess::Srun(OwnHost::ByAgent).is_direct("localhost"));
    }
}
