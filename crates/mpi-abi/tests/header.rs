//! The header mpi.h, as C and C++ compilers see it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = r#"
#include <mpi.h>

/* The macros are plain integers, so that the preprocessor understands them. */
#if MPI_VERSION < 5 || MPI_ABI_VERSION != 1 || MPI_ANY_TAG != -2 || MPI_ERR_LASTCODE != 16383
#error "the constants are wrong"
#endif

#define CHECK(name, condition) typedef char name[(condition) ? 1 : -1]
CHECK(status_size, sizeof(MPI_Status) == 32);
CHECK(count_size, sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8);
CHECK(aint_size, sizeof(MPI_Aint) == sizeof(void *));
CHECK(handle_size, sizeof(MPI_Comm) == sizeof(void *));

static MPI_Comm world = MPI_COMM_WORLD;
static MPI_Datatype types[] = {MPI_INT, MPI_LONG_LONG_INT, MPI_C_COMPLEX};

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
}

static int copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag) {
    (void)comm; (void)keyval; (void)state;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    MPI_Errhandler errhandler;
    int keyval, value = 1;
    int (*profiled)(const void *, int, MPI_Datatype, int, int, MPI_Comm) = PMPI_Send;
    MPI_Init(&argc, &argv);
    MPI_Comm_create_errhandler(handler, &errhandler);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, MPI_BOTTOM);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, types[0], MPI_SUM, world);
    profiled(&value, 1, types[1], 0, 0, world);
    MPI_Pcontrol(1, "more");
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    return MPI_Finalize();
}
"#;

/// A program that hands communicators to Fortran and back.
const FORTRAN_PROGRAM: &str = r#"
#include <mpi.h>

int main(void) {
    MPI_Fint integer = MPI_Comm_c2f(MPI_COMM_WORLD);
    return MPI_Comm_f2c(integer) != MPI_COMM_WORLD;
}
"#;

/// A program that has a type of its own with the name of one that the standard has not in C.
const OWN_FINT_PROGRAM: &str = r#"
#include <mpi.h>

typedef char *MPI_Fint;

int main(void) {
    MPI_Fint text = NULL;
    return text != NULL;
}
"#;

fn compiles(compiler: &str, extension: &str, standard: &str) {
    let language = (compiler, extension, standard);
    for (name, program) in [("header", PROGRAM), ("fortran", FORTRAN_PROGRAM)] {
        let reported = compile(language, name, program, &[]);
        assert_eq!(reported, Ok(()), "{compiler} -std={standard}, {name}");
    }
    let reported = compile(language, "own", OWN_FINT_PROGRAM, &["-DCOMBRAY_NO_FINT"]);
    assert_eq!(reported, Ok(()), "{compiler} -std={standard}, its own MPI_Fint");
    let reported = compile(language, "conflict", OWN_FINT_PROGRAM, &[]);
    let reported = reported.expect_err("mpi.h has an MPI_Fint");
    assert!(reported.contains("MPI_Fint"), "{compiler} -std={standard}:\n{reported}");
}

/// Compiles a program; if that fails, returns what the compiler wrote.
fn compile(
    (compiler, extension, standard): (&str, &str, &str),
    name: &str,
    program: &str,
    options: &[&str],
) -> Result<(), String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("{name}-{compiler}-{standard}.{extension}"));
    fs::write(&source, format!("#include <stddef.h>{program}")).expect("the folder is writable");
    let output = Command::new(compiler)
        .arg(format!("-std={standard}"))
        .args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
        .args(options)
        .arg(&source)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let reported = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(reported()) }
}

#[test]
fn c_programs_compile() {
    compiles("gcc", "c", "c99");
    compiles("gcc", "c", "c11");
}

#[test]
fn cpp_programs_compile() {
    compiles("g++", "cpp", "c++11");
    compiles("g++", "cpp", "c++17");
}

#[test]
fn every_function_of_the_table_is_declared_twice_and_has_one_item() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("it is committed");
    let (standard, beyond) = (read("abi/functions.tsv"), read("abi/extensions.tsv"));
    let names_in = |table: &'_ str| -> Vec<String> {
        let names = table.lines().skip(1).filter_map(|line| line.split('\t').next());
        names.map(str::to_owned).collect()
    };
    assert_eq!(names_in(&standard).len(), 664);
    let names = [names_in(&standard), names_in(&beyond)].concat();
    let header = read("include/mpi.h");
    let folder = fs::read_dir(root.join("src/generated/entries")).expect("it exists");
    let entries: String = folder
        .map(|entry| fs::read_to_string(entry.expect("it lists").path()).expect("it is text"))
        .collect();
    // The macros of the items export each name with and without the P.
    let words: Vec<&str> = entries.split_ascii_whitespace().collect();
    for name in names {
        for prefix in ["", "P"] {
            assert!(header.contains(&format!(" {prefix}{name}(")), "{prefix}{name}");
        }
        let item = format!("{name}(");
        let items = words.iter().filter(|word| word.starts_with(&item));
        assert_eq!(items.count(), 1, "{name}");
    }
}
