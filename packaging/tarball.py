"""An archive of a prefix, for systems without pip and dpkg: it can be unpacked anywhere, by any user."""

import gzip
import io
import pathlib
import tarfile

import payload


def make(entries, folder, machine):
    """Writes the archive into `folder`; gives its path."""
    version = payload.version()
    archive = pathlib.Path(folder, f"combray-{version}-linux-{machine}.tar.gz")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archived:
        for entry in entries.values():
            one = tarfile.TarInfo(f"combray-{version}/{entry.path}")
            one.mtime, one.mode = payload.epoch(), entry.mode
            if entry.target:
                one.type, one.linkname, one.mode = tarfile.SYMTYPE, entry.target, 0o777
            one.size = len(entry.content)
            archived.addfile(one, io.BytesIO(entry.content))
    archive.write_bytes(gzip.compress(plain.getvalue(), 9, mtime=0))
    return archive
