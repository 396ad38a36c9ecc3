//! Whether the processes of this machine lend each other cores.

use base::variables::{LEND_CORES, OPENMP};
use lending::LendingBoard;

use super::cpuset_assignment::CpusetAssignment;
use crate::protocol::{ProgramStart, Start};

/// Creates the board of the processes of this machine, if several of them are bound and use the
/// library of OpenMP. Processes that are not bound share all cores anyway. Without memory for the
/// board, nothing is lent.
pub(super) fn board(start: &Start, cpusets: &CpusetAssignment) -> Option<LendingBoard> {
    let local_size = start.ranks.len();
    let uses_openmp = start.programs.iter().any(uses_openmp);
    if local_size < 2 || !uses_openmp || !cpusets.are_disjoint(local_size) {
        return None;
    }
    LendingBoard::create(local_size as u32).ok()
}

/// Whether a program was started with `--openmp`, and may lend cores.
pub(super) fn uses_openmp(program: &ProgramStart) -> bool {
    let value = |name: &str| {
        let given = program.variables.iter().rev().find(|(known, _)| known == name);
        given.map_or_else(|| std::env::var_os(name), |(_, value)| Some(value.clone()))
    };
    value(OPENMP).is_some_and(|value| !value.is_empty())
        && value(LEND_CORES).is_none_or(|value| value != "never")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_lent_with_the_library_of_openmp_unless_the_user_refuses() {
        let program = |variables: &[(&str, &str)]| ProgramStart {
            path: "program".into(),
            arguments: Vec::new(),
            folder: None,
            variables: variables.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        };
        assert!(!uses_openmp(&program(&[])));
        assert!(uses_openmp(&program(&[(OPENMP, "1")])));
        assert!(uses_openmp(&program(&[(OPENMP, "1"), (LEND_CORES, "auto")])));
        assert!(!uses_openmp(&program(&[(OPENMP, "1"), (LEND_CORES, "never")])));
    }
}
