"""A wheel for pip: the prefix as data of a Python environment, so that `bin`, `lib` and `include` of the
environment have the commands, libraries and headers. Nothing is compiled at installation.

A wheel has no symbolic links:

- `mpirun`, `mpicc` and the other commands are scripts that call `combray` with their name;
- a library's name for the linker (`libmpi_abi.so`) is a linker script;
- another name of a library for programs (`libmpich.so.12`) is a small library that depends on it.

`libmpi.so.12` lies in `lib`, where mpi4py searches for it.
"""

import base64
import hashlib
import io
import pathlib
import re
import stat
import time
import zipfile

import forwarding
import payload
from payload import Entry

SCRIPT = b"""#!/bin/sh
# Calls combray beside this file with the name of this file.
own=$(readlink -f -- "$0") && exec "${own%/*}/combray" "${own##*/}" "$@"
"""
# Made for the compiler of the machine that built the wheel; and what an environment has no use for.
# Programs that look for `libmpi.so` as they run find MPICH's.
LEFT_OUT = re.compile(r"lib/combray/fortran/(?!source/)|lib/pkgconfig/(?:combray-|o?mpi-fort)|share/modulefiles/|lib/libmpi\.so$")
# A library of a dialect, or a name of it: lib/combray/mpich/libmpi.so.12.
DIALECT = re.compile(r"lib/combray/(?:mpich|open-mpi)/(libmpi\w*\.so[.\d]*)$")


def make(entries, folder, machine):
    """Writes the wheel into `folder`; gives its path."""
    version = payload.version()
    files = data(entries, machine)
    major, minor = payload.glibc(files)
    tag = f"py3-none-manylinux_{major}_{minor}_{machine}"
    info = f"combray-{version}.dist-info"
    contents = [(f"combray-{version}.data/data/{entry.path}", entry.mode, entry.content) for entry in files]
    contents += [(f"{info}/{name}", 0o644, content) for name, content in described(version, tag).items()]
    contents.sort()
    rows = [f"{name},sha256={digest(content)},{len(content)}" for name, _, content in contents]
    record = f"{info}/RECORD"
    contents.append((record, 0o644, "\n".join([*rows, f"{record},,", ""]).encode()))
    wheel = pathlib.Path(folder, f"combray-{version}-{tag}.whl")
    wheel.write_bytes(archive(contents))
    return wheel


def data(entries, machine):
    """The files as they will lie in an environment."""
    files = {}
    for path, entry in entries.items():
        if LEFT_OUT.match(path):
            continue
        named = DIALECT.match(path)
        path = f"lib/{named[1]}" if named else path
        if not entry.target:
            files[path] = Entry(path, entry.mode, entry.content)
        elif path.startswith("bin/"):
            files[path] = Entry(path, 0o755, SCRIPT)
        elif path == "lib/libmpi_abi.so":
            files[path] = Entry(path, 0o644, f"INPUT({entry.target})\n".encode())
        elif path.startswith("lib/"):
            files[path] = Entry(path, 0o755, forwarding.library(pathlib.Path(path).name, entry.target, machine))
        else:
            raise SystemExit(f"packaging/wheel.py: no wheel can have the symbolic link {path}")
    return [files[path] for path in sorted(files)]


def described(version, tag):
    """The files that tell about the wheel, by their names."""
    metadata = (payload.ROOT / "packaging/python/METADATA.in").read_text().replace("@VERSION@", version)
    wheel = f"Wheel-Version: 1.0\nGenerator: combray {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {"METADATA": metadata.encode(), "WHEEL": wheel.encode()}
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"licenses/{name}"] = (payload.ROOT / name).read_bytes()
    files["licenses/LICENSE-DejaVu"] = (payload.ROOT / "crates/cli/fonts/LICENSE").read_bytes()
    return files


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def archive(contents):
    """The bytes of a ZIP archive in which all time stamps are equal."""
    moment = time.gmtime(payload.epoch())[:6]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archived:
        for name, mode, content in contents:
            one = zipfile.ZipInfo(name, moment)
            one.compress_type = zipfile.ZIP_DEFLATED
            one.create_system = 3
            one.external_attr = (stat.S_IFREG | mode) << 16
            archived.writestr(one, content, compresslevel=9)
    return buffer.getvalue()
