"""What packages are made of: the files of an installed prefix, without symbols for debuggers."""

import dataclasses
import datetime
import os
import pathlib
import platform
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ELF = b"\x7fELF"
# The processors of packages, by their numbers in ELF files.
MACHINES = {62: "x86_64", 183: "aarch64"}


@dataclasses.dataclass
class Entry:
    """A file, or a symbolic link where `target` is its text; `path` is relative to the prefix."""

    path: str
    mode: int = 0o644
    content: bytes = b""
    target: str = ""

    @property
    def is_elf(self):
        return self.content.startswith(ELF)


def machine(program):
    """The processor that a program was built for."""
    number = int.from_bytes(program.read_bytes()[18:20], "little")
    if number not in MACHINES:
        raise SystemExit(f"packaging: {program} is for the processor {number}; known are {MACHINES}")
    return MACHINES[number]


def tool(name, processor):
    """The command of Debian's compilers and binary tools for a processor."""
    return name if processor == platform.machine() else f"{processor}-linux-gnu-{name}"


def read(prefix):
    """The entries of an installed prefix by their paths, sorted. Modes are 755 and 644, whatever the
    umask was."""
    entries = {}
    processor = machine(prefix / "bin/combray")
    for folder, _, names in os.walk(prefix):
        for name in names:
            file = pathlib.Path(folder, name)
            path = str(file.relative_to(prefix))
            if file.is_symlink():
                entries[path] = Entry(path, target=os.readlink(file))
                continue
            content = file.read_bytes()
            mode = 0o755 if file.stat().st_mode & 0o100 else 0o644
            entries[path] = Entry(path, mode, stripped(name, content, processor) if content.startswith(ELF) else content)
    return dict(sorted(entries.items()))


def stripped(name, content, processor):
    """The bytes of an ELF file without debugging information, and without symbols but in libraries of MPI: there
    `combray ps` and profiles find by them the function in which a process is."""
    what = "--strip-debug" if name.startswith("libmpi") else "--strip-all"
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        subprocess.run([tool("strip", processor), what, file.name], check=True)
        return pathlib.Path(file.name).read_bytes()


def glibc(entries):
    """The oldest C library, as (2, 35), that has every symbol that ELF files import."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, entry in enumerate(entry for entry in entries if entry.is_elf):
            files.append(pathlib.Path(folder, str(number)))
            files[-1].write_bytes(entry.content)
        text = output("readelf", "--version-info", "--wide", *files)
    return max(tuple(map(int, found)) for found in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", text))


def version():
    """The version of Combray, from the sources."""
    found = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)
    return found[1]


def epoch():
    """The time that all files of a package carry, in seconds since 1970: SOURCE_DATE_EPOCH, or when the
    last commit was made, or outside a repository the date of the last release."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    if (ROOT / ".git").exists():
        return int(output("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    released = re.search(r"^## \S+ - (\d{4})-(\d\d)-(\d\d)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    moment = datetime.datetime(*map(int, released.groups()), tzinfo=datetime.timezone.utc)
    return int(moment.timestamp())


def output(*command):
    """What a command writes; it must succeed."""
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
