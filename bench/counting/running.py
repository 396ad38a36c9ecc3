"""Runs the program of single calls under callgrind."""

import os
import platform
import subprocess
import tempfile
from pathlib import Path

from . import figures

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "calls.c"
SECONDS_MAX = 600
CALLGRIND = ("valgrind", "-q", "--tool=callgrind", "--combine-dumps=yes")
# The page through which two processes take turns.
PAGE_BYTES = 4096


class Unable(Exception):
    """Nothing can be counted here; the text is the reason."""


def run(command: list, **options) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=SECONDS_MAX, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unable(f"{' '.join(words)}: {error}") from None
    if done.returncode != 0:
        raise Unable(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def tools_of(prefix: Path) -> dict:
    """All that determines the number of instructions of one source. The C library and Combray
    choose their code by the features of the processor."""
    library = prefix / "lib" / "libmpi_abi.so.1"
    if not library.exists():
        raise Unable(f"there is no {library}: `make build`, or name the prefix")
    comment = run(["readelf", "-p", ".comment", library])
    compiler = [line.split("]", 1)[1].strip() for line in comment.splitlines() if "rustc version" in line]
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        flags = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
    wide = [flag for flag in ("avx", "avx2", "fma", "f16c") if flag in flags]
    return {"compiler": "".join(compiler), "C library": " ".join(platform.libc_ver()),
            "tool": run(["valgrind", "--version"]).strip(), "processor": " ".join([platform.machine(), *wide])}


def count(prefix: Path) -> dict:
    """Case -> instructions."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COMBRAY_")}
    environment["LD_LIBRARY_PATH"] = str(prefix / "lib")
    with tempfile.TemporaryDirectory(prefix="instructions-") as name:
        folder = Path(name)
        program, page = folder / "calls", folder / "turns"
        run([prefix / "bin" / "mpicc", "-std=c11", "-D_GNU_SOURCE", "-O2", PROGRAM, "-o", program])
        page.write_bytes(bytes(PAGE_BYTES))
        run([*CALLGRIND, f"--callgrind-out-file={folder}/alone", program], env=environment)
        run([prefix / "bin" / "mpirun", "-n", "2", *CALLGRIND,
             f"--callgrind-out-file={folder}/two.%q{{PMI_RANK}}", program, page], env=environment)
        two = [(folder / f"two.{rank}").read_text() for rank in range(2)]
        return {**figures.alone((folder / "alone").read_text()), **figures.in_turns(*two)}
