//! Libraries with pools of threads that this process has loaded.

use std::path::{Path, PathBuf};

use crate::library;

/// The names of the files of such libraries up to a dot or a minus sign, what users call them, and
/// the variables that set the number of their threads.
const POOLS: [(&str, &str, &str); 12] = [
    ("libgomp", "OpenMP (libgomp)", "OMP_NUM_THREADS"),
    ("libomp", "OpenMP (libomp)", "OMP_NUM_THREADS"),
    ("libiomp5", "OpenMP (libiomp5)", "OMP_NUM_THREADS"),
    ("libopenblas", "OpenBLAS", OPENBLAS),
    ("libopenblasp", "OpenBLAS", OPENBLAS),
    ("libopenblas64_", "OpenBLAS", OPENBLAS),
    ("libopenblas64_p", "OpenBLAS", OPENBLAS),
    ("libscipy_openblas", "OpenBLAS", OPENBLAS),
    ("libscipy_openblas64_", "OpenBLAS", OPENBLAS),
    ("libmkl_core", "MKL", "MKL_NUM_THREADS"),
    ("libmkl_rt", "MKL", "MKL_NUM_THREADS"),
    ("libblis", "BLIS", "BLIS_NUM_THREADS"),
];
const OPENBLAS: &str = "OPENBLAS_NUM_THREADS";

/// Debian's OpenBLAS is a `libblas.so.3` in a folder that begins with this.
const OPENBLAS_FOLDER: &str = "openblas-";

/// Combray's own library of OpenMP, whose teams share cores, is in a folder that ends with this.
const OWN_FOLDER: &str = "combray/openmp";

/// Returns the names of the libraries with pools of threads that this process has loaded, each with
/// the variable that sets the number of its threads. Combray's library of OpenMP is not among them.
pub fn loaded() -> Vec<(&'static str, &'static str)> {
    among(&library::loaded_libraries())
}

fn among(files: &[PathBuf]) -> Vec<(&'static str, &'static str)> {
    let mut found: Vec<_> = files.iter().filter_map(|file| pool_of(file)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn pool_of(file: &Path) -> Option<(&'static str, &'static str)> {
    let (folder, name) = (file.parent()?, file.file_name()?.to_str()?);
    if folder.ends_with(OWN_FOLDER) {
        return None;
    }
    let is_openblas = folder.file_name().is_some_and(|folder| {
        folder.to_str().is_some_and(|folder| folder.starts_with(OPENBLAS_FOLDER))
    });
    if is_openblas {
        return Some(("OpenBLAS", OPENBLAS));
    }
    let stem = &name[..name.find(['.', '-'])?];
    POOLS.iter().find(|(file, _, _)| *file == stem).map(|(_, of, variable)| (*of, *variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_found_by_the_names_of_files() {
        let files = [
            "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0",
            "/opt/numpy.libs/libgomp-a34b3233.so.1.0.0",
            "/opt/numpy.libs/libscipy_openblas64_-99b71e71.so",
            "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3",
            "/usr/lib/x86_64-linux-gnu/libompitrace.so.40",
            "/usr/lib/x86_64-linux-gnu/libblas.so.3",
            "/opt/combray/lib/combray/openmp/libgomp.so.1",
        ];
        let expected =
            [("OpenBLAS", "OPENBLAS_NUM_THREADS"), ("OpenMP (libgomp)", "OMP_NUM_THREADS")];
        assert_eq!(among(&files.map(PathBuf::from)), expected);
        assert_eq!(among(&[PathBuf::from("/lib/combray/openmp/libgomp.so.1")]), []);
    }
}
