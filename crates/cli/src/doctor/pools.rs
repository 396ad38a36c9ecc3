//! Thread pools of libraries: whether the environment gives them more threads than there are cores,
//! or lets their threads keep cores while they wait.

use sys::{cores, environment};

use super::finding::Finding;

const SUBJECT: &str = "thread pools";

/// Variables that set the number of threads of a library.
const POOLS: [(&str, &str); 5] = [
    ("OMP_NUM_THREADS", "OpenMP"),
    ("OPENBLAS_NUM_THREADS", "OpenBLAS"),
    ("MKL_NUM_THREADS", "MKL"),
    ("BLIS_NUM_THREADS", "BLIS"),
    ("NUMEXPR_NUM_THREADS", "NumExpr"),
];

/// Variables that let threads that wait keep their cores, with the values that do.
const WAITS: [(&str, &[&str]); 3] = [
    ("OMP_WAIT_POLICY", &["active"]),
    ("GOMP_SPINCOUNT", &["infinite", "infinity"]),
    ("KMP_BLOCKTIME", &["infinite"]),
];

pub fn findings() -> Vec<Finding> {
    judge(&|name| environment::text(name), cores::usable())
}

fn judge(value: &dyn Fn(&str) -> Option<String>, usable: usize) -> Vec<Finding> {
    // Threads of nested teams come with the outer ones: a list gives a number for each level.
    let threads = |name| -> Option<usize> {
        let levels = value(name)?;
        levels.split(',').map(|level| level.trim().parse::<usize>().ok()).product()
    };
    let set: Vec<(&str, &str, usize)> =
        POOLS.iter().filter_map(|(name, of)| Some((*name, *of, threads(name)?))).collect();
    let mut findings = Vec::new();
    for (name, of, threads) in set.iter().filter(|(_, _, threads)| *threads > usable) {
        findings.push(Finding::slow(
            SUBJECT,
            format!("{name} gives each process {threads} threads of {of} for {usable} cores"),
            format!("unset {name}: combray run sets it to the cores of each process"),
        ));
    }
    if let [(outer, _, many), rest @ ..] = &set[..]
        && *outer == POOLS[0].0
        && let Some((inner, of, each)) = rest.iter().find(|(_, _, each)| many * each > usable)
        && findings.is_empty()
        && *each > 1
    {
        findings.push(Finding::note(
            SUBJECT,
            format!(
                "a region of OpenMP whose {many} threads each call {of} has {} threads for \
                 {usable} cores",
                many * each
            ),
            format!("set {inner} to 1 if such regions call it"),
        ));
    }
    for (name, keeps) in WAITS {
        let found =
            value(name).filter(|found| keeps.contains(&found.trim().to_lowercase().as_str()));
        if let Some(found) = found {
            findings.push(Finding::slow(
                SUBJECT,
                format!("{name}={found}: threads that wait keep their cores"),
                format!("unset {name}, unless each thread of each process has a core of its own"),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;

    fn found(variables: &[(&str, &str)], usable: usize) -> Vec<(Verdict, String)> {
        let value = |name: &str| {
            let set = variables.iter().find(|(other, _)| *other == name);
            set.map(|(_, value)| (*value).to_owned())
        };
        judge(&value, usable).into_iter().map(|one| (one.verdict, one.found)).collect()
    }

    #[test]
    fn pools_that_fit_are_not_reported() {
        assert_eq!(found(&[], 4), []);
        assert_eq!(found(&[("OMP_NUM_THREADS", "4"), ("OPENBLAS_NUM_THREADS", "1")], 4), []);
        assert_eq!(found(&[("OMP_NUM_THREADS", "odd"), ("OMP_WAIT_POLICY", "passive")], 4), []);
    }

    #[test]
    fn pools_with_more_threads_than_cores_are_slow() {
        let one = "OMP_NUM_THREADS gives each process 8 threads of OpenMP for 4 cores";
        assert_eq!(found(&[("OMP_NUM_THREADS", "8")], 4), [(Verdict::Slow, one.to_owned())]);
        // A number for each level.
        assert_eq!(found(&[("OMP_NUM_THREADS", "4, 2")], 4), [(Verdict::Slow, one.to_owned())]);
    }

    #[test]
    fn pools_that_compete_are_reported() {
        let both = [("OMP_NUM_THREADS", "4"), ("MKL_NUM_THREADS", "4")];
        let text = "a region of OpenMP whose 4 threads each call MKL has 16 threads for 4 cores";
        assert_eq!(found(&both, 4), [(Verdict::Note, text.to_owned())]);
        assert_eq!(found(&both, 16), []);
    }

    #[test]
    fn threads_that_keep_their_cores_are_slow() {
        let text = "OMP_WAIT_POLICY=ACTIVE: threads that wait keep their cores";
        let found = found(&[("OMP_WAIT_POLICY", "ACTIVE"), ("KMP_BLOCKTIME", "200")], 4);
        assert_eq!(found, [(Verdict::Slow, text.to_owned())]);
    }
}
